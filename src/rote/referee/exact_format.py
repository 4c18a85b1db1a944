"""Exact transformers as they lie on disk, read by the referee itself.

A network called p is `p.widths` (neurons of the input and of every layer), `p.relu` (one flag per layer), `p.entries`
(where each layer's weights begin, and the end), and for every weight that is not zero `p.rows`, `p.cols` (-1 is the
bias), `p.shifts` and `p.lengths`, the number of its bytes in `p.limbs`: the numerator in two's complement, lowest byte
first. The weight is numerator / 2^shift. `attention.W_V` and `attention.W_O` are 1 x 1; W_Q and W_K are 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rote.config import LARGEST
from rote.errors import CheckpointError
from rote.referee._base import Stored

__all__ = ["AnyLayer", "AnyNetwork", "Layer", "Network", "Transformer", "read_transformer"]

IntArray = npt.NDArray[np.int64]


class AnyLayer(Protocol):
    """What the exact evaluator reads of a layer."""

    @property
    def n_in(self) -> int: ...
    @property
    def n_out(self) -> int: ...
    @property
    def relu(self) -> bool: ...
    def entries(self) -> Iterator[tuple[int, int, int, int]]: ...


class AnyNetwork(Protocol):
    """What the exact evaluator reads of a network."""

    @property
    def layers(self) -> Sequence[AnyLayer]: ...
    @property
    def n_in(self) -> int: ...
    @property
    def n_out(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Layer:
    """y = W x + b, followed by ReLU or not: entry i says W[rows[i], cols[i]] = numerators[i] / 2^shifts[i]."""

    n_in: int
    n_out: int
    relu: bool
    rows: IntArray
    cols: IntArray
    numerators: tuple[int, ...]
    shifts: IntArray

    def entries(self) -> Iterator[tuple[int, int, int, int]]:
        """(row, column, numerator, shift) of every weight; biases have column -1."""
        return zip(self.rows.tolist(), self.cols.tolist(), self.numerators, self.shifts.tolist(), strict=True)


@dataclass(frozen=True, eq=False)
class Network:
    """Layers, one after the other."""

    layers: tuple[Layer, ...]

    @property
    def n_in(self) -> int:
        return self.layers[0].n_in

    @property
    def n_out(self) -> int:
        return self.layers[-1].n_out


@dataclass(frozen=True, eq=False)
class Transformer:
    """F1 on every token, the mean over all positions times W_V W_O, F2 on the mean (and the token, per position)."""

    first: Network
    second: Network
    attention: tuple[int, int]
    """W_V and W_O."""
    every_position: bool
    context: int
    positions_seen: int
    """Positions that attention averages over; those before the context hold the null token, whose id is `vocab`."""
    vocab: int
    labels: tuple[int, ...]
    """The token id that label 0, 1, ... stands for; -1 for a label 0 that says that a context is no fact."""
    precision: str
    with_positions: bool
    d_in: int
    """Width of the input vectors; 0 for tokens."""

    @property
    def padding(self) -> int:
        return self.positions_seen - self.context

    @property
    def width(self) -> int:
        return max(layer.n_out for layer in (*self.first.layers, *self.second.layers))


def read_transformer(stored: Stored) -> Transformer:
    """The transformer of a directory; what does not fit together is refused."""
    first, second = (_network(stored, name) for name in ("first", "second"))
    config = stored.config
    try:
        labels = config["labels"]
        model = Transformer(
            first,
            second,
            (int(stored.tensor("attention.W_V").item()), int(stored.tensor("attention.W_O").item())),
            {"next_token": False, "seq2seq": True}[config["task"]],
            _count(config, "context", 1),
            _count(config, "positions_seen", 1),
            _count(config, "vocab", 1),
            tuple(_count(dict(enumerate(labels)), i, -1 if i == 0 else 0) for i in range(len(labels))),
            {name: name for name in ("exact", "float64", "float32")}[config["precision"]],
            bool(config["with_positions"]),
            _count(config, "d_in", 0),
        )
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"config.json does not describe an exact transformer ({error}); the file was edited, build it again."
        ) from None
    inputs, between = model.d_in or 1 + model.with_positions, 1 + model.every_position
    fits = (first.n_in, first.n_out, second.n_in, second.n_out) == (inputs, between, between, 1)
    if (
        not fits
        or not model.labels
        or max(model.labels) < 0
        or model.padding < 0
        or model.positions_seen > 2 * model.context
    ):
        raise CheckpointError("the parts of the model do not fit together; a file was edited, build it again.")
    return model


def _count(config: Mapping[Any, Any], key: Any, least: int) -> int:
    value = config[key]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
        raise ValueError(f"{key} is {str(value)[:40]}")
    return value


def _network(stored: Stored, name: str) -> Network:
    keys = ("widths", "relu", "entries", "rows", "cols", "shifts", "lengths", "limbs")
    widths, relu, bounds, rows, cols, shifts, lengths, limbs = (
        stored.tensor(f"{name}.{key}").numpy().reshape(-1) for key in keys
    )
    depth, n = len(widths) - 1, len(rows)
    whole = (
        all(array.dtype.kind in "iu" for array in (widths, relu, bounds, rows, cols, shifts, lengths))
        and limbs.dtype == np.uint8
        and len(relu) == depth >= 1
        and len(bounds) == depth + 1
        and (int(bounds[0]), int(bounds[-1])) == (0, n)
        and len(cols) == len(shifts) == len(lengths) == n
        and all(bool((array >= least).all()) for array, least in ((widths, 1), (shifts, 0), (lengths, 1)))
        and bool((np.diff(bounds.astype(np.int64)) >= 0).all())
        and int(lengths.sum(dtype=np.int64)) == len(limbs)
    )
    if whole:
        at = np.repeat(np.arange(depth), np.diff(bounds))
        whole = bool(((rows >= 0) & (rows < widths[at + 1]) & (cols >= -1) & (cols < widths[at])).all())
    if not whole:
        raise CheckpointError(f"the tensors of {name!r} do not belong together; the file is damaged, build it again.")
    digits, ends = limbs.tobytes(), np.cumsum(lengths, dtype=np.int64).tolist()
    numerators = [
        int.from_bytes(digits[a:b], "little", signed=True) for a, b in zip([0, *ends[:-1]], ends, strict=True)
    ]
    layers = []
    for i in range(depth):
        own = slice(int(bounds[i]), int(bounds[i + 1]))
        places = (rows[own].astype(np.int64), cols[own].astype(np.int64))
        sizes = (int(widths[i]), int(widths[i + 1]), bool(relu[i]))
        layers.append(Layer(*sizes, *places, tuple(numerators[own]), shifts[own].astype(np.int64)))
    return Network(tuple(layers))
