"""Claims of a certificate, held against what is found again.

Anyone can edit a certificate and give it a new hash. So whatever can be found out from a directory and its table is
found out again when they are verified, by the functions that wrote it into the certificate, and compared. What cannot
be, such as a seed, is listed as unchecked.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rote.certificate import HASH, Certificate
from rote.config import DTYPES
from rote.constructions import AnyConstruction
from rote.data.table import Table
from rote.data.verification import NOT_MEASURED, Contradiction, Verification, finite
from rote.models import Model

__all__ = ["compared", "findings"]

_RELATIVE = {"exact": 0.0, "float64": 1e-3, "float32": 5e-2, "bfloat16": 0.25, "float16": 0.25}
"""How far measurements may differ between machines, by number format: sums are rounded in another order."""
_ABSOLUTE = {"exact": 0.0, "float64": 1e-3, "float32": 1e-2, "bfloat16": 0.25, "float16": 0.25}
"""The same for differences of outputs, whose rounding errors are those of the outputs."""
_LOST = {"exact": 0.0, "float64": 0.0, "float32": 0.005, "bfloat16": 0.05, "float16": 0.05}
"""Shares of facts that may be lost on one machine and kept on another, where some are lost on both."""
_DIFFERENCES = ("min_margin", "max_error")
_LEAST = 1e-6
_COUNTED = ("bits_per_param", "unigram", "uniform", "perplexity_floor")
"""What follows from the table and the shape alone, on every machine alike."""
_ON_LOADING = ("files_sha256", "weights_sha256", HASH)


def findings(
    construction: AnyConstruction,
    table: Table | None,
    model: Model,
    dtype: str,
    results: Mapping[str, Verification],
    claims: Mapping[str, Any],
) -> dict[str, Any]:
    """What every certificate says that can be found out again.

    Without its table, that is what the model says alone. `dtype` is the format that it is stored in, `results` are
    verdicts by format, and `claims` what only its construction has to say.
    """
    counts = model.counts
    found: dict[str, Any] = {
        "theorem": construction.source,
        "model": model.kind,
        "arch": construction.arch,
        "shape": model.arch.to_dict(),
        "params": counts["full"],
        "params_by_convention": counts,
        "stored_params": model.stored,
    }
    if table is None:
        return found
    bound = construction.limit(table, model.arch, dtype)  # type: ignore[arg-type]
    most = None if bound is None else bound.facts
    errors = {name: finite(r.max_error) for name, r in results.items() if r.max_error is not None}
    found |= {
        "data": table.kind,
        "facts": table.n_facts,
        "facts_sha256": table.sha256,
        "left_out": len(table.left_out),
        "bits_per_param": table.bits / counts["full"],
        "bound": most,
        "bound_exceeded": most is not None and construction.held(table, claims) > most,
        "recall": {name: r.recall for name, r in results.items()},
        "min_margin": {name: finite(r.min_margin) for name, r in results.items()},
        "max_error": errors or None,
    }
    if dtype in results:
        found |= {"judged_by": results[dtype].judged_by, "passed": results[dtype].passed}
    return found


def compared(
    result: Verification, certificate: Certificate, found: Mapping[str, Any], formats: Collection[str]
) -> Verification:
    """A verdict that also says which claims were checked, which were not, and which are contradicted.

    `formats` are the number formats that a certificate of this construction speaks of; about others it claims nothing.
    """
    stated = json.loads(json.dumps(certificate.to_dict()))
    known = dict(_leaves(json.loads(json.dumps(found))))
    checked, unchecked, contradicted = list(_ON_LOADING), [], []
    for name, value in _leaves({key: value for key, value in stated.items() if key in found}):
        if known.get(name) == NOT_MEASURED:
            unchecked.append(name)
        elif name in known:
            checked.append(name)
            if not _agree(name, value, known[name], certificate.dtype):
                contradicted.append(Contradiction(name, value, known[name]))
        elif name.rpartition(".")[2] in DTYPES:
            # Another number format than the ones that were judged.
            unchecked.append(name)
        else:
            contradicted.append(Contradiction(name, value, None))
    said = {name for name, _ in _leaves(stated)}
    contradicted += [
        Contradiction(name, None, value)
        for name, value in known.items()
        if name not in said and value != NOT_MEASURED and name.rpartition(".")[2] not in {*DTYPES} - {*formats}
    ]
    unchecked += [name for name in stated if name not in found and name not in _ON_LOADING]
    return dataclasses.replace(
        result, checked=tuple(checked), unchecked=tuple(unchecked), contradicted=tuple(contradicted)
    )


def _leaves(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Values with their names, those of nested records with dots."""
    for key, value in record.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _agree(name: str, stated: Any, found: Any, stored: str) -> bool:
    """Whether two values are the same, but for what differs between machines."""
    kinds = {type(stated), type(found)}
    if not kinds <= {int, float} or kinds == {int}:
        return bool(stated == found) and (bool in kinds) == (kinds == {bool})
    what, _, last = name.rpartition(".")
    dtype = last if last in DTYPES else stored
    apart, largest = abs(stated - found), max(abs(stated), abs(found))
    if what == "recall":
        return bool(apart <= _LOST[dtype]) and (stated == 1) == (found == 1)
    if name in _COUNTED:
        return bool(apart <= _LEAST * largest)
    least = _ABSOLUTE[dtype] if what in _DIFFERENCES else _LEAST
    return bool(apart <= least + _RELATIVE[dtype] * largest)
