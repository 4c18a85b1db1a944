"""Certificates: what was built, from what, and what the referee found.

Keys: construction, theorem, facts, bound, bound_exceeded, params (full count), params_by_convention, stored_params,
bits_per_param, recall and min_margin (by number format), facts_sha256, weights_sha256, shape, dtype, arch, data,
tokens, seed, version; and `report` with what the construction has to say (conditioning, iterations, who serves whom).
Exact networks add depth, width, max_bits, total_bits, precision, variant, task and lower_bounds.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rote._version import __version__
from rote.config import CONVENTIONS, Architecture
from rote.data import FactTable, SequenceTable, VectorTable
from rote.solvers.record import finite

if TYPE_CHECKING:
    from rote.referee import Verification

__all__ = ["CHECKED", "check_all", "issue", "json_bytes"]

CHECKED = ("float64", "float32", "bfloat16")


def json_bytes(record: Mapping[str, Any]) -> bytes:
    """A JSON file's content."""
    return (json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def check_all(judge: Callable[[str], Verification], dtype: str, *, partial: bool) -> dict[str, Verification]:
    """The referee's findings at the number format asked for, and at the usual ones.

    Where facts are lost at the first and no partial model is wanted, the others are not worth the time.
    """
    first = judge(dtype)
    if first.n_failed and not partial:
        return {dtype: first}
    return {name: first if name == dtype else judge(name) for name in dict.fromkeys((*CHECKED, dtype))}


def _kind_of(facts: FactTable | VectorTable | SequenceTable) -> str:
    if isinstance(facts, VectorTable):
        return "vectors"
    return "facts" if isinstance(facts, FactTable) else "sequences"


def issue(
    facts: FactTable | VectorTable | SequenceTable,
    results: Mapping[str, Verification],
    *,
    construction: str,
    theorem: str,
    bound: int | None,
    arch: Architecture,
    params: Mapping[str, int] | None = None,
    stored: int,
    blob: bytes,
    seed: int | None,
    dtype: str,
    kind: str,
    tokens: str,
) -> dict[str, Any]:
    """The certificate as plain values. `params` by convention is that of the shape unless given."""
    if isinstance(facts, FactTable):
        n_facts, bits = facts.n_facts, math.log2(max(2, facts.n_targets))
    elif isinstance(facts, SequenceTable):
        n_facts, bits = facts.n_facts, facts.context * math.log2(max(2, facts.n_targets))
    else:
        n_facts, bits = facts.n_examples, math.log2(max(2, facts.n_classes or 2))
    counts = dict(params) if params is not None else {name: arch.params(name) for name in CONVENTIONS}
    return {
        "construction": construction,
        "theorem": theorem,
        "facts": n_facts,
        "bound": bound,
        "bound_exceeded": bound is not None and n_facts > bound,
        "params": counts["full"],
        "params_by_convention": counts,
        "stored_params": stored,
        "bits_per_param": n_facts * bits / counts["full"],
        "recall": {name: result.recall for name, result in results.items()},
        "min_margin": {name: finite(result.min_margin) for name, result in results.items()},
        "max_error": {n: finite(r.max_error) for n, r in results.items() if r.max_error is not None} or None,
        "facts_sha256": facts.sha256,
        "weights_sha256": hashlib.sha256(blob).hexdigest(),
        "facts_name": facts.name,
        "shape": arch.to_dict(),
        "dtype": dtype,
        "arch": kind,
        "data": _kind_of(facts),
        "tokens": tokens,
        "seed": seed,
        "version": __version__,
    }
