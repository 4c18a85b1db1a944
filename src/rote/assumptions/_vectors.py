"""Queries and contexts to be checked: real vectors without targets, with the precision in which they were stored.

Notation: T = n_facts, n = context, d = d_model, u = unit roundoff of the stored numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from rote.data._arrays import FloatArray as Array
from rote.data.contents import as_path, regular
from rote.errors import DataError

__all__ = ["Vectors", "read_vectors", "roundoff_of"]

Answer = TypeVar("Answer")

_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_LARGEST = 1e150  # squares of larger numbers overflow


def roundoff_of(dtype: str, values: Array) -> float:
    """How far a stored number may be from the one that was meant, relative to it; whole numbers are taken as exact."""
    if np.all(values == np.rint(values)) and (not values.size or float(np.abs(values).max()) < 2.0**40):
        return 0.0
    return _ROUNDOFF.get(dtype, 2.0**-53)


@dataclass(frozen=True, eq=False)
class Vectors:
    """T queries (T x d) and their contexts (T x n x d, or n x d if all examples share one).

    `values` (T x d_v) are what an associative memory is to answer; one assumption is about them.
    """

    kind: ClassVar[str] = "vectors"
    noun: ClassVar[str] = "examples"
    words: ClassVar[None] = None
    queries: Array
    contexts: Array
    query_roundoff: float = 2.0**-53
    context_roundoff: float = 2.0**-53
    name: str = "vectors"
    values: Array | None = None
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def make(
        cls,
        queries: npt.ArrayLike,
        contexts: npt.ArrayLike,
        name: str = "vectors",
        values: npt.ArrayLike | None = None,
    ) -> Vectors:
        """Check shapes and numbers; integers and every float format are taken."""
        q, q_kind = _reals(queries, "queries", (2,), "T x d")
        c, c_kind = _reals(contexts, "contexts", (2, 3), "T x n x d, or n x d if shared")
        if 0 in q.shape or 0 in c.shape:
            raise DataError(f"no axis may be empty: queries have shape {q.shape}, contexts {c.shape}.")
        if c.shape[-1] != q.shape[1]:
            raise DataError(
                f"contexts and queries must agree on the last axis, the width d: contexts have {c.shape[-1]}, "
                f"queries {q.shape[1]}."
            )
        if c.ndim == 3 and len(c) != len(q):
            raise DataError(
                f"contexts and queries must agree on the first axis, the examples: contexts have {len(c)}, "
                f"queries {len(q)}; give one n x d context if all examples share it."
            )
        v = None if values is None else _reals(values, "values", (2,), "T x d_v")[0]
        if v is not None and (len(v) != len(q) or not v.shape[1]):
            raise DataError(f"values must be T x d_v with one row for each of the {len(q)} queries, got {v.shape}.")
        return cls(q, c, roundoff_of(q_kind, q), roundoff_of(c_kind, c), name, v)

    @classmethod
    def of(cls, data: Any) -> Vectors:
        """The vectors of a table of such; its targets play no part in the assumptions."""
        return data if isinstance(data, Vectors) else cls.make(data.queries, data.contexts, data.name)

    @property
    def shared(self) -> bool:
        return self.contexts.ndim == 2

    @property
    def n_facts(self) -> int:
        return len(self.queries)

    @property
    def context(self) -> int:
        return int(self.contexts.shape[-2])

    @property
    def d_model(self) -> int:
        return int(self.queries.shape[1])

    def __str__(self) -> str:
        contexts = "one shared context" if self.shared else "contexts"
        return f"{self.name}: {self.n_facts:,} examples, {contexts} of {self.context} x {self.d_model}"

    def keep(self, key: Any, make: Callable[[], Answer]) -> Answer:
        """What `make` returns, computed once: several assumptions rest on the same interval."""
        if key not in self._kept:
            self._kept[key] = make()
        kept: Answer = self._kept[key]
        return kept


def read_vectors(path: str | os.PathLike[str]) -> Vectors:
    """`queries`, `contexts` and, if there, `values` of a safetensors file; others, such as targets, are left alone."""
    from safetensors import SafetensorError, safe_open

    file = as_path(path)
    regular(file)
    found: dict[str, npt.NDArray[Any]] = {}
    half: set[str] = set()
    try:
        with safe_open(file, framework="numpy") as opened:
            names = set(opened.keys())
            for name in names & {"queries", "contexts", "values"}:
                if opened.get_slice(name).get_dtype() == "BF16":
                    half.add(name)
                else:
                    found[name] = opened.get_tensor(name)
        if half:
            with safe_open(file, framework="pt") as opened:
                found |= {name: opened.get_tensor(name).double().numpy() for name in half}
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise DataError(f"{file} is not a safetensors file that can be read ({error}); write it again.") from None
    if not {"queries", "contexts"} <= set(found):
        raise DataError(
            f"{file} must hold the tensors queries (T x d) and contexts (T x n x d, or n x d if shared); it holds "
            f"{', '.join(sorted(names)) or 'none'}."
        )
    made = Vectors.make(found["queries"], found["contexts"], file.stem, found.get("values"))
    if not half:
        return made
    return Vectors(
        made.queries,
        made.contexts,
        roundoff_of("bfloat16", made.queries) if "queries" in half else made.query_roundoff,
        roundoff_of("bfloat16", made.contexts) if "contexts" in half else made.context_roundoff,
        made.name,
        made.values,
    )


def _reals(values: npt.ArrayLike, what: str, n_axes: tuple[int, ...], shape: str) -> tuple[Array, str]:
    raw = np.asarray(values)
    if raw.dtype.kind not in "fiu":
        raise DataError(f"{what} must hold real numbers, got values of type {raw.dtype}.")
    if raw.ndim not in n_axes:
        raise DataError(f"{what} must have shape {shape}, got {raw.ndim} axes: {raw.shape}.")
    made = np.array(raw, dtype=np.float64, order="C")
    wrong = ~np.isfinite(made) | (np.abs(made) > _LARGEST)
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        owner = "the shared context" if what == "contexts" and made.ndim == 2 else f"example {at[0] + 1}"
        raise DataError(
            f"{what} must be finite (and at most {_LARGEST:g}), but {owner} holds {made[at]} at index {list(at)}, "
            f"{int(wrong.sum())} such numbers in all; replace or drop them."
        )
    made.flags.writeable = False
    return made, str(raw.dtype)
