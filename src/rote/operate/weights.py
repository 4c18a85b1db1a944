"""How far two sets of weights are apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["weight_changes"]


def weight_changes(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Weights that differ: how many of how many, in which tensors, and the norm of the difference beside that of the
    weights. Tensors that only one has, or that have other shapes there, are named."""
    import torch

    counts: dict[str, int] = {}
    apart = 0.0
    total = sum(int(tensor.numel()) for tensor in one.values())
    norm = sum(float(tensor.to(torch.float64).square().sum()) for tensor in one.values())
    foreign = [name for name in {**one, **other} if name not in one or name not in other]
    foreign += [name for name in one if name in other and one[name].shape != other[name].shape]
    for name, tensor in one.items():
        if name in foreign:
            continue
        difference = tensor.to(torch.float64) - other[name].to(torch.float64)
        changed = int(torch.count_nonzero(difference))
        if changed:
            counts[name] = changed
            apart += float(difference.square().sum())
    record: dict[str, Any] = {
        "weights": total,
        "weights_changed": sum(counts.values()),
        "tensors": counts,
        "norm_of_change": apart**0.5,
        "norm": norm**0.5,
    }
    return {**record, "incomparable": sorted(foreign)} if foreign else record
