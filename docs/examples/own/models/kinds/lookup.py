"""A look-up table: one row of scores per last token (worked example of docs/adding-a-construction.md)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rote.config import Architecture
from rote.data.outputs import Outputs
from rote.errors import CheckpointError
from rote.models import Model, Wording, folders
from rote.referee import ModuleOutputs

__all__ = ["Lookup", "LookupModel", "model"]


class Lookup(nn.Module):
    """Contexts (B, S) to the rows (B, N) of their last tokens."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.rows = nn.Parameter(rows.detach().clone(), requires_grad=False)

    def forward(self, contexts: Tensor) -> Tensor:
        return self.rows[contexts[:, -1]]


class LookupModel(Model):
    """A look-up table with its words."""

    kind = "lookup"

    def __init__(self, arch: Architecture, rows: Tensor, *, wording: Wording | None, dtype: str) -> None:
        self._module = Lookup(rows.to(getattr(torch, dtype)))
        self.arch, self.wording, self.dtype = arch, wording, dtype

    @property
    def module(self) -> Lookup:
        return self._module

    @property
    def counts(self) -> dict[str, int]:
        return {"full": self.stored}

    def write(self, folder: Path) -> None:
        folders.write_model(folder, self.kind, self.arch, self.module.state_dict(), self.wording)

    @classmethod
    def read(cls, folder: Path, certificate: Mapping[str, Any]) -> LookupModel:
        _, arch = folders.read_config(folder, cls.kind)
        tensors = folders.read_tensors(folder / "model.safetensors")
        if tuple(tensors) != ("rows",) or tensors["rows"].shape != (arch.vocab, arch.vocab):
            raise CheckpointError(f"{folder} holds no look-up table for {arch.vocab} tokens; build it again.")
        wording = folders.read_wording(folder, certificate, arch)
        return cls(arch, tensors["rows"], wording=wording, dtype=str(certificate["dtype"]))

    def outputs(self, dtype: str) -> Outputs:
        return ModuleOutputs(self.module, dtype, takes="tokens")

    @classmethod
    def examples(cls, seed: int) -> list[LookupModel]:
        rows = torch.randn(4, 4, generator=torch.Generator().manual_seed(seed))
        wording = Wording(("a", "b", "c", "d"), "cells", 2)
        return [cls(Architecture(1, 1, 1, 2, 4), rows, wording=wording, dtype="float32")]


model = LookupModel
