"""What builders of transformers over token facts share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rote.config import Architecture, check_dtype
from rote.errors import ShapeError
from rote.theorems._base import Setting
from rote.theorems._builder import Builder

if TYPE_CHECKING:
    from rote.data import FactTable

__all__ = ["TokenBuilder"]


class TokenBuilder(Builder["FactTable"]):
    """A theorem about transformers over token facts."""

    takes = "facts"

    def setting(self, data: FactTable, arch: Architecture, dtype: str) -> Setting:
        return Setting(arch, dtype=check_dtype(dtype), distinct_last=min(arch.vocab, data.distinct_last_tokens))

    @staticmethod
    def check_shape(data: FactTable, arch: Architecture) -> None:
        """The shape must be that of the facts."""
        for name, given, found in (("context", arch.context, data.context), ("vocab", arch.vocab, max(2, data.vocab))):
            if given != found:
                raise ShapeError(f"the facts have {name} {found}, the shape says {given}.")
        if arch.d_head > arch.d_model:
            raise ShapeError(f"a head of width {arch.d_head} is wider than d_model = {arch.d_model}; lower d_head.")
