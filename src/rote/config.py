"""Shapes of transformers: the frozen `Architecture`, its parameter counts, and number formats.

Notation: L = n_layers, H = n_heads, d = d_model, d_h = d_head, m = d_mlp, S (or n) = context, N = vocab.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from rote.errors import ShapeError, UnknownName

__all__ = [
    "CONVENTIONS",
    "DTYPES",
    "LARGEST",
    "Architecture",
    "Convention",
    "Dtype",
    "ParameterCount",
    "Shape",
    "bits_of",
    "check_convention",
    "check_dtype",
    "content_hash",
]

Dtype = Literal["float64", "float32", "bfloat16", "float16", "exact"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
_BITS: dict[str, int | None] = {"float64": 64, "float32": 32, "bfloat16": 16, "float16": 16, "exact": None}

LARGEST = 10**12
"""Sizes beyond this are typing errors."""

Convention = Literal["full", "rank1_qk", "merged_ov"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)


def check_dtype(name: str) -> Dtype:
    """`name` as a number format, or an error that lists the known ones."""
    for dtype in DTYPES:
        if name == dtype:
            return dtype
    raise UnknownName("number format", name, DTYPES)


def check_convention(name: str) -> Convention:
    """`name` as a counting convention, or an error that lists the known ones."""
    for convention in CONVENTIONS:
        if name == convention:
            return convention
    raise UnknownName("counting convention", name, CONVENTIONS)


def bits_of(dtype: Dtype) -> int | None:
    """Bits of one stored number; None for exact numbers, which have no fixed width."""
    return _BITS[dtype]


def content_hash(record: Mapping[str, Any]) -> str:
    """A hash of the values in `record`, independent of the order of its keys."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class ParameterCount:
    """Parameters by part, under one counting convention."""

    embedding: int
    positions: int
    attention: int
    mlp: int
    unembedding: int

    @property
    def total(self) -> int:
        return self.embedding + self.positions + self.attention + self.mlp + self.unembedding

    def to_dict(self) -> dict[str, int]:
        return {**dataclasses.asdict(self), "total": self.total}


@dataclass(frozen=True)
class Architecture:
    """The shape of a transformer: token and position embeddings, layers of attention (and MLP), an unembedding.

    There are no biases. `d_mlp = 0` means attention only.
    A gated MLP has three matrices (gate, up, down), a plain one two.
    `own_rows` counts the rows of an unembedding that shares the others with the embedding: 0 for a tied head, None for
    one that shares nothing.
    """

    n_heads: int
    d_model: int
    d_head: int
    context: int
    vocab: int
    n_layers: int = 1
    d_mlp: int = 0
    gated: bool = False
    own_rows: int | None = None

    def __post_init__(self) -> None:
        least = {"n_layers": 1, "n_heads": 1, "d_model": 1, "d_head": 1, "d_mlp": 0, "context": 1, "vocab": 2}
        for name, minimum in {**least, **({} if self.own_rows is None else {"own_rows": 0})}.items():
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ShapeError(f"{name} must be a whole number, got {value!r}.")
            if not minimum <= value <= LARGEST:
                raise ShapeError(f"{name} must be from {minimum} to {LARGEST:,}, got {value:,}.")

    def replace(self, **changes: int | None) -> Architecture:
        """A copy with some fields changed; an unknown field is refused with the nearest name."""
        return Architecture.from_dict({**self.to_dict(), **changes})

    def count(self, convention: Convention = "full") -> ParameterCount:
        """Parameters by part.

        full:       W_Q, W_K, W_V, W_O of every head, 4 d d_h.
        rank1_qk:   W_Q and W_K of rank 1, so that a head costs 2 d + 2 d d_h (Dana et al. 2025, Remark 2).
        merged_ov:  rank-1 QK, and W_O W_V kept as one d x d matrix: a head costs 2 d + d^2. Smaller than the
                    others where d_h = d.
        """
        check_convention(convention)
        d, d_h = self.d_model, self.d_head
        per_head = {"full": 4 * d * d_h, "rank1_qk": 2 * d + 2 * d * d_h, "merged_ov": 2 * d + d * d}[convention]
        return ParameterCount(
            embedding=self.vocab * d,
            positions=self.context * d,
            attention=self.n_layers * self.n_heads * per_head,
            mlp=self.n_layers * (3 if self.gated else 2) * d * self.d_mlp,
            unembedding=(self.vocab if self.own_rows is None else self.own_rows) * d,
        )

    def params(self, convention: Convention = "full") -> int:
        """All parameters under a counting convention."""
        return self.count(convention).total

    def to_dict(self) -> dict[str, int | bool]:
        """The fields by name; `own_rows` only where there is something shared."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Architecture:
        """The inverse of `to_dict`; unknown or missing fields are refused by name."""
        known = {field.name for field in dataclasses.fields(cls)}
        for name in record:
            if name not in known:
                raise UnknownName("field of Architecture", name, known)
        missing = {"n_heads", "d_model", "d_head", "context", "vocab"} - set(record)
        if missing:
            raise ShapeError(f"an architecture needs {', '.join(sorted(missing))}, missing here.")
        return cls(**record)

    @property
    def hash(self) -> str:
        """A content hash: equal for equal shapes, on every machine."""
        return content_hash(self.to_dict())


@dataclass(frozen=True)
class Shape:
    """What a caller fixes about the shape of a model; None is planned."""

    n_heads: int | None = None
    d_model: int | None = None
    d_head: int | None = None
    d_mlp: int | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise ShapeError(f"{field.name} must be a whole number, got {value!r}.")
            if not 1 <= value <= LARGEST:
                raise ShapeError(f"{field.name} must be from 1 to {LARGEST:,}, got {value:,}.")

    @property
    def given(self) -> dict[str, int]:
        """What is fixed."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}
