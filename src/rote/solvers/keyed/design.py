"""What a network that knows keys is made of, kept beside it: from the same design come the same weights, bit for bit.

So facts can be added and taken out later by changing the design in a few places. Numbers that weights are made of are
rounded to float32 before they are used for the first time, so that reading them back changes nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rote.errors import CheckpointError
from rote.solvers.keyed import bottom, frame, layers, store, tokens
from rote.solvers.keyed.bottom import Marks
from rote.solvers.keyed.frame import Jury, Plan, channels_of
from rote.solvers.keyed.kernels import Query, found_queries, remember_queries
from rote.solvers.keyed.layers import Body
from rote.solvers.keyed.network import Network, build
from rote.solvers.keyed.store import Store, levels_of
from rote.solvers.keyed.tokens import Codebook

__all__ = ["Design", "from_record", "to_record"]

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Design:
    """Sizes, codes, the store, gates and answers of a network; and which windows it knows, of which keys."""

    body: Body
    plan: Plan
    book: Codebook
    store: Store
    juries: tuple[Jury, ...]
    marks: Marks
    answers: tuple[tuple[Ids, ...], ...]
    """Token ids with the end, by relation and number; a number that no key has any more may be given away."""
    spoken: np.ndarray
    """Tokens that answers are made of."""
    directions: np.ndarray
    """What to add to the stream to say each of them."""
    top_size: float
    small: float
    windows: np.ndarray
    owners: np.ndarray
    """The number of the key of every window."""
    shared: np.ndarray
    """Windows that further keys with the same answers have: numbers of window and key."""
    numbers: np.ndarray
    """(relations, keys): the numbers of the answers."""
    queries: tuple[Query, ...] = ()

    def network(self, embedding: Tensor) -> Network:
        """All weights, for the embedding of the original."""
        remember_queries(self.queries, self.body.thetas, self.body.context)
        channels, _ = channels_of(self.body, self.book.bits, self.plan)
        vectors = torch.tensor(self.directions, dtype=torch.float64)
        return build(
            self.body, channels, self.plan, self.book, self.store, self.juries,
            embedding=embedding, directions={int(t): vectors[i] for i, t in enumerate(self.spoken)},
            answers=self.answers, marks=self.marks, top_size=self.top_size, small=self.small,
        )  # fmt: skip

    def levels(self, which: np.ndarray) -> np.ndarray:
        """What the store writes for windows of these numbers, but for the checks."""
        keys = self.owners[which]
        return np.hstack(
            [
                levels_of(number[keys], bits, self.plan.depth)
                for number, bits in zip(self.numbers, self.plan.bits, strict=True)
            ]
        )

    def with_queries(self) -> Design:
        """With all that was asked of the rotary phases while the network was built."""
        return replace(self, queries=tuple(found_queries(self.body.thetas, self.body.context)))

    def rounded(self) -> Design:
        """With weights as they are kept."""
        kept = replace(self.store, gates=_short(self.store.gates), maps=_short(self.store.maps))
        return replace(self, store=kept, directions=_short(self.directions))


def _short(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32).astype(np.float64)


_MODULES = (bottom, frame, layers, store, tokens)
_CLASSES = {
    name: one
    for module in _MODULES
    for name, one in vars(module).items()
    if dataclasses.is_dataclass(one) and isinstance(one, type)
} | {"Design": Design}


def to_record(value: Any, arrays: dict[str, np.ndarray], name: str = "") -> Any:
    """A value as JSON, whose arrays go to `arrays` under names that say where they belong."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            item.name: to_record(getattr(value, item.name), arrays, f"{name}.{item.name}".lstrip("."))
            for item in dataclasses.fields(value)
        }
        return {"is": type(value).__name__, "of": fields}
    if isinstance(value, np.ndarray):
        arrays[name] = _smallest(value)
        return {"is": "array", "of": [name, value.dtype.name]}
    if isinstance(value, dict):
        return {"is": "dict", "of": [[key, to_record(one, arrays, f"{name}.{key}")] for key, one in value.items()]}
    if isinstance(value, (tuple, list)):
        return {"is": "list", "of": [to_record(one, arrays, f"{name}.{i}") for i, one in enumerate(value)]}
    if isinstance(value, np.generic):
        return value.item()
    return value


def _smallest(array: np.ndarray) -> np.ndarray:
    """The same numbers in fewer bytes, where they are small whole ones or fit into float32."""
    if array.dtype == np.float64:
        for kind in (np.int8, np.float32):
            short = array.astype(kind)
            if np.array_equal(short.astype(np.float64), array):
                return np.ascontiguousarray(short)
    if array.dtype == np.int64 and array.size and abs(array).max() < 1 << 31:
        return np.ascontiguousarray(array.astype(np.int32))
    return np.ascontiguousarray(array)


def from_record(record: Any, arrays: dict[str, np.ndarray]) -> Any:
    """What `to_record` made a record of; lists come back as tuples."""
    if not isinstance(record, dict):
        return record
    kind, of = record["is"], record["of"]
    if kind == "array":
        return arrays[of[0]].astype(of[1])
    if kind == "dict":
        return {key: from_record(one, arrays) for key, one in of}
    if kind == "list":
        return tuple(from_record(one, arrays) for one in of)
    if kind not in _CLASSES:
        raise CheckpointError(f"the record of a graft names {kind!r}, which this version of rote does not know.")
    made: Any = _CLASSES[kind]
    return made(**{name: from_record(one, arrays) for name, one in of.items()})
