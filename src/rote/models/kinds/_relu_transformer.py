"""The bit-extraction transformer in ordinary floating point, as a torch module and as an ONNX graph.

Its weights are dyadic numbers that the number format holds exactly, and they are chosen so that no sum or product of
the forward pass rounds, in whatever order it is carried out. So the module gives the labels of the exact network.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rote.errors import CapacityError
from rote.solvers.exact.checkpoint import transformer_arrays

if TYPE_CHECKING:
    from rote.solvers.exact.network import Layer, Network
    from rote.solvers.exact.transformer import ExactTransformer

__all__ = ["ReluTransformer", "SparseLinear", "chain", "dense_weights", "tensors_of"]

_DENSE = 4096
"""Layers with more places than this keep only their non-zero weights."""
_TOGETHER = 2048
"""Rows that go through a chain together."""
_WIDE = 256
"""Layers with more neurons than this leave out those that are 0."""


def dense_weights(layer: Layer, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """(W, b) of a layer; a weight that the number format rounds is refused."""
    W, b = torch.zeros(layer.n_out, layer.n_in, dtype=dtype), torch.zeros(layer.n_out, dtype=dtype)
    values = _exact_values(layer, dtype)
    rows, cols = torch.from_numpy(layer.rows.copy()), torch.from_numpy(layer.cols.copy())
    inner = cols >= 0
    W[rows[inner], cols[inner]] = values[inner]
    b[rows[~inner]] = values[~inner]
    return W, b


def _exact_values(layer: Layer, dtype: torch.dtype) -> Tensor:
    shifts = layer.shifts.tolist()
    floats = [
        p / (1 << f) if f < 1000 else float(Fraction(p, 1 << f)) for p, f in zip(layer.numerators, shifts, strict=True)
    ]
    values = torch.tensor(floats, dtype=torch.float64).to(dtype)
    back = values.to(torch.float64).tolist()
    for value, p, f in zip(back, layer.numerators, shifts, strict=True):
        if Fraction(value) != Fraction(p, 1 << f):
            raise CapacityError(f"{dtype} rounds a weight of {abs(p).bit_length()} bits; use more precision.")
    return values


class SparseLinear(nn.Module):
    """An affine map of which only the non-zero weights are stored."""

    def __init__(self, layer: Layer, dtype: torch.dtype) -> None:
        super().__init__()
        values = _exact_values(layer, dtype)
        rows, cols = torch.from_numpy(layer.rows.copy()), torch.from_numpy(layer.cols.copy())
        inner = cols >= 0
        self.weight = nn.Parameter(values[inner], requires_grad=False)
        bias = torch.zeros(layer.n_out, dtype=dtype)
        bias[rows[~inner]] = values[~inner]
        self.bias = nn.Parameter(bias, requires_grad=False)
        order = torch.argsort(rows[inner] * layer.n_in + cols[inner])
        self.n_in, self.n_out = layer.n_in, layer.n_out
        self.weight.data = self.weight.data[order]
        counts = torch.bincount(rows[inner], minlength=layer.n_out)
        self.register_buffer("starts", torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]))
        self.register_buffer("columns", cols[inner][order])

    def forward(self, x: Tensor) -> Tensor:
        """Rows (B, n_in) to (B, n_out)."""
        return (self._matrix() @ x.T).T + self.bias

    def busy(self, x: Tensor, read: Tensor | None) -> Tensor:
        """Numbers of the outputs that may be positive in some row of x.

        `read` are the numbers of the inputs that x has; the others are 0. Bounds of the inputs bound the outputs, with
        room for rounding in any order of summation. What is not a number is not known to be 0.
        """
        low, high = torch.zeros(2, self.n_in, dtype=torch.float64)
        at = slice(None) if read is None else read
        low[at], high[at] = x.amin(dim=0).double(), x.amax(dim=0).double()
        weight, bias, starts = self.weight.double(), self.bias.double(), self.get_buffer("starts")
        places = (starts, self.get_buffer("columns"))
        sizes = _csr(*places, weight.abs(), (self.n_out, self.n_in))
        largest = sizes @ torch.maximum(low.abs(), high.abs()) + bias.abs()
        rounded = 4 * (starts.diff() + 4) * torch.finfo(self.weight.dtype).eps * largest
        middle, reach = (low + high) / 2, (high - low) / 2
        most = _csr(*places, weight, (self.n_out, self.n_in)) @ middle + sizes @ reach + bias + rounded
        return torch.as_tensor((~(most <= 0)).nonzero()[:, 0])

    def part(self, x: Tensor, read: Tensor | None, kept: Tensor) -> Tensor:
        """The outputs of these numbers, for rows x of the inputs `read`."""
        starts, columns = self.get_buffer("starts"), self.get_buffer("columns")
        counts = starts.diff()[kept]
        before = counts.cumsum(0) - counts
        entries = torch.arange(int(counts.sum())) + torch.repeat_interleave(starts[kept] - before, counts)
        rows, cols = torch.repeat_interleave(torch.arange(len(kept)), counts), columns[entries]
        if read is not None:
            place = torch.full((self.n_in,), -1)
            place[read] = torch.arange(len(read))
            there = place[cols] >= 0
            rows, entries, cols = rows[there], entries[there], place[cols][there]
        begins = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(rows, minlength=len(kept)).cumsum(0)])
        matrix = _csr(begins, cols, self.weight[entries], (len(kept), x.shape[1]))
        return (matrix @ x.T).T + self.bias[kept]

    def _matrix(self) -> Tensor:
        places = self.get_buffer("starts"), self.get_buffer("columns")
        return _csr(*places, self.weight, (self.n_out, self.n_in))


def _csr(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    # Torch calls its sparse matrices a beta feature, once in every process; there is nothing to be done about it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(starts, columns, values, shape)


class Chain(nn.Sequential):
    """Affine maps and ReLU, on rows (B, n_in).

    Many rows are taken in the order of their first input, some at a time. In such a neighbourhood most neurons of a
    wide layer are 0 behind ReLU; those that bounds show to be are left out, which changes no number.
    """

    def forward(self, x: Tensor) -> Tensor:
        layers = list(self)
        if len(x) <= _TOGETHER or not any(isinstance(layer, SparseLinear) for layer in layers):
            return self._all(layers, x)
        order = torch.argsort(x[:, 0])
        starts = range(0, len(order), _TOGETHER)
        out = torch.cat([self._neighbours(layers, x[order[start : start + _TOGETHER]]) for start in starts])
        return torch.empty_like(out).index_copy_(0, order, out)

    @staticmethod
    def _all(layers: list[nn.Module], x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x)
        return x

    @staticmethod
    def _neighbours(layers: list[nn.Module], x: Tensor) -> Tensor:
        read: Tensor | None = None
        for layer, after in zip(layers, [*layers[1:], None], strict=True):
            if not isinstance(layer, SparseLinear):
                x = layer(x)
                continue
            wide = layer.n_out > _WIDE and isinstance(after, nn.ReLU)
            kept = layer.busy(x, read) if wide else torch.arange(layer.n_out)
            x, read = layer.part(x, read, kept), kept if wide else None
        return x


def chain(network: Network, dtype: torch.dtype) -> Chain:
    """The network as a chain of affine maps and ReLU."""
    parts: list[nn.Module] = []
    for layer in network.layers:
        # Behind a wide layer only a sparse one can leave inputs out.
        if layer.n_in * layer.n_out > _DENSE or layer.n_in > _WIDE:
            parts.append(SparseLinear(layer, dtype))
        else:
            linear = nn.Linear(layer.n_in, layer.n_out, dtype=dtype)
            linear.weight.data, linear.bias.data = dense_weights(layer, dtype)
            parts.append(linear.requires_grad_(False))
        if layer.relu:
            parts.append(nn.ReLU())
    return Chain(*parts)


def tensors_of(exact: ExactTransformer) -> dict[str, Tensor]:
    """What a file holds of the exact weights."""
    return {name: torch.from_numpy(array.copy()) for name, array in transformer_arrays(exact).items()}


class ReluTransformer(nn.Module):
    """Token ids (B, S) to labels, as numbers: (B,) with one a sequence, (B, S) with one a position."""

    def __init__(self, model: ExactTransformer, dtype: torch.dtype) -> None:
        super().__init__()
        self.exact = model
        self.first, self.second = chain(model.first, dtype), chain(model.second, dtype)
        W_V, W_O = model.attention
        for name, value in (("W_Q", 0.0), ("W_K", 0.0), ("W_V", float(W_V)), ("W_O", float(W_O))):
            self.register_parameter(name, nn.Parameter(torch.full((1, 1), value, dtype=dtype), requires_grad=False))

    def stored(self) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
        """What a directory holds of it: the kind, what the configuration says, and the tensors."""
        return "exact_transformer", self.exact.to_dict(), tensors_of(self.exact)

    def forward(self, contexts: Tensor) -> Tensor:
        model, dtype = self.exact, self.get_parameter("W_V").dtype
        null = torch.full((len(contexts), model.padding), model.vocab, dtype=contexts.dtype)
        tokens = torch.cat([null, contexts], dim=1)
        b, n = tokens.shape
        # Token-wise: equal tokens (at equal positions, where these count) have equal numbers, so each is run once.
        code = tokens + (model.vocab + 1) * torch.arange(n) if model.with_positions else tokens
        distinct, index = torch.unique(code, return_inverse=True)
        inputs = [distinct % (model.vocab + 1), distinct // (model.vocab + 1)] if model.with_positions else [distinct]
        numbers = self.first(torch.stack(inputs, dim=1).to(dtype))[index]
        attended = self._attend(numbers[:, :, :1])
        if model.task == "next_token":
            return torch.as_tensor(self.second(attended[:, -1, :])[:, 0])
        own = torch.cat([attended, numbers[:, :, 1:]], dim=2)[:, model.padding :, :]
        return torch.as_tensor(self.second(own.reshape(b * model.context, 2)).reshape(b, model.context))

    def _attend(self, x: Tensor) -> Tensor:
        """One head of width 1: softmax of scores that are all 0."""
        W_Q, W_K, W_V, W_O = (self.get_parameter(name) for name in ("W_Q", "W_K", "W_V", "W_O"))
        scores = (x @ W_Q.T) @ (x @ W_K.T).transpose(1, 2)
        return torch.softmax(scores, dim=2) @ (x @ W_V.T) @ W_O.T
