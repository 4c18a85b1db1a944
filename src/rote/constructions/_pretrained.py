"""What constructions that write into a pretrained language model have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rote.config import Architecture, Dtype, Shape
from rote.constructions._base import Construction, Job, Options, Plan

if TYPE_CHECKING:
    from rote.data.kinds.prompts import PromptTable
    from rote.models import Model

__all__ = ["PretrainedConstruction", "closing_notes", "nameable", "share"]

Told = TypeVar("Told", bound=Options)


class PretrainedConstruction(Construction["PromptTable", Told]):
    """A table of prompts into a model that exists already, whose shape it keeps."""

    accepts = ("prompts",)
    verb = "graft"
    arch = "pretrained"
    dtypes = ("float32", "bfloat16", "float16")
    automatic = False
    shaped_by = ()
    exact = False

    def shapes(self, table: PromptTable, shape: Shape, dtype: Dtype, options: Told) -> Iterator[Plan]:
        # The shape is the pretrained model's own, which is known when it has been opened.
        yield Plan(self.key, Architecture(1, 1, 1, table.context, 2), 0, 0, table.n_facts, dtype=dtype)

    def formats(self, dtype: Dtype) -> tuple[Dtype, ...]:
        return (dtype,)

    def build(self, job: Job[PromptTable, Told]) -> Model:
        import torch

        with torch.no_grad():
            return self.made(job)

    @abstractmethod
    def made(self, job: Job[PromptTable, Told]) -> Model:
        """The model with the facts in it; no gradients are kept meanwhile."""


def nameable(record: Mapping[str, Any]) -> dict[str, Any]:
    """Options for certificates: names of files, not where they lie."""
    return {key: Path(value).name if key in ("model", "keep") else value for key, value in record.items()}


def share(value: float) -> str:
    return "100 %" if value == 1.0 else f"{100 * value:.3f} %"


def closing_notes(c: Mapping[str, Any]) -> tuple[str, ...]:
    """The last lines of a sheet: what was lost, and what it took."""
    seconds, cpu = c["seconds"], c["cpu_seconds"]
    return (
        *(f"lost: {item['prompt']!r} said {item['said']!r}, not {item['answer']!r}" for item in c["failed"][:5]),
        f"{sum(seconds.values()):,.0f} s: " + ", ".join(f"{key} {value:.0f}" for key, value in seconds.items()),
        f"processor time: {cpu['build']:,.0f} s to build, {cpu['examine']:,.0f} s to examine",
    )
