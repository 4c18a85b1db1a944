"""Bits that a closed form stores in each weight of the one matrix that it fits, beside the limit of a single matrix.

The argmax fit solves for W_O (H d_h d weights) and the MLP fit for W_down (m d weights); everything else is drawn. The
limit for one d x d matrix with given keys and values is p ln p = d^2 / 2, that is 1 / (2 ln 2) = 0.72 bits a weight
(`giorlandino2026`). Both fits choose codes of the targets too, and have fewer targets than facts, so they may pass it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rote.errors import UsageError
from rote.lab.studies._params import Params

__all__ = ["KEYS", "LIMIT", "PARAMS", "run", "seconds"]

PARAMS: Params = {
    "by": (str, "argmax_fit"),
    "d_model": (int, 8),
    "n_heads": (int, 8),
    "d_mlp": (int, 0),
    "context": (int, 4),
    "vocab": (int, 32),
}
KEYS: tuple[str, ...] = ()
LIMIT = 1 / (2 * math.log(2))
"""Bits a weight."""


def seconds(params: Mapping[str, Any]) -> float:
    """About how long one run takes: a search by a dozen builds."""
    return 3 + 1e-3 * int(params["d_model"]) ** 2 * int(params["n_heads"])


def run(p: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """One row: the capacity, and bits a fitted weight."""
    from rote.measurement import Cell
    from rote.measurement.run import run_group

    if p["by"] not in ("argmax_fit", "mlp_fit"):
        raise UsageError(f"argmax_fit and mlp_fit solve for one matrix, and {p['by']} does not; name one of them.")
    cell = Cell(**{**p, "gated": p["by"] == "mlp_fit"}, seed=seed)
    (result,) = run_group([cell.to_dict()])
    if result["status"] != "done":
        raise UsageError(f"{p['by']} holds nothing in this shape: {result['reason']}")
    fitted = p["d_model"] * (p["d_mlp"] if p["by"] == "mlp_fit" else p["n_heads"] * cell.arch.d_head)
    bits = result["capacity"] * cell.bits_per_fact / fitted
    return [
        {
            **p,
            "source": f"build:{p['by']}",
            "capacity": result["capacity"],
            "fitted": fitted,
            "bits_per_fitted": bits,
            "over_limit": bits / LIMIT,
            "bits_per_param": result["capacity"] * cell.bits_per_fact / result["params"],
            "params": result["params"],
        }
    ]
