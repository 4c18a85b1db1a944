"""What builders of attention layers over vectors share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.config import Architecture, check_dtype
from rote.errors import ShapeError
from rote.theorems._base import Setting
from rote.theorems._builder import Builder

if TYPE_CHECKING:
    from rote.data import VectorTable
    from rote.solvers.record import Construction
    from rote.solvers.vector_layer import LayerWeights

__all__ = ["VectorBuilder"]


class VectorBuilder(Builder["VectorTable"]):
    """A theorem about one attention layer over given vectors."""

    takes = "vectors"
    takes_vectors = True

    def setting(self, data: VectorTable, arch: Architecture, dtype: str) -> Setting:
        return Setting(arch, dtype=check_dtype(dtype), shared_context=data.shared)

    @staticmethod
    def check_shape(data: VectorTable, arch: Architecture) -> None:
        """The shape must be that of the vectors."""
        for name, given, found in (("d_model", arch.d_model, data.d_model), ("context", arch.context, data.context)):
            if given != found:
                raise ShapeError(f"the vectors have {name} {found}, the shape says {given}.")

    @staticmethod
    def construction(arch: Architecture, weights: LayerWeights, report: dict[str, Any]) -> Construction:
        import torch

        from rote.solvers.record import Construction

        tensors = {name: torch.from_numpy(getattr(weights, name).copy()) for name in ("W_Q", "W_K", "W_V", "W_O")}
        return Construction("attention_layer", arch, tensors, report)
