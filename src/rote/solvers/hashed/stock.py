"""The weights of a hashed table in a stock decoder, as plain arrays by the names of the library.

The model is that of `transformers`' Arcee class with hidden_act "relu": a Llama whose MLP is two matrices and a ReLU.
RMSNorm is made an identity by a few constants so large that the root mean square is the same power of two everywhere,
to the last bit. Every value in the stream is a whole number that the format holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rote.errors import AssumptionError, FactsLost
from rote.solvers.hashed.fetching import mixing
from rote.solvers.hashed.rotary import gaze, query, rounded, sharpness
from rote.solvers.hashed.stock_layout import constants
from rote.solvers.hashed.stock_tail import ONE, Unit, filled
from rote.solvers.hashed.tail import Expression, added, scaled
from rote.solvers.record import stretch

if TYPE_CHECKING:
    from rote.solvers.hashed.hashing import Hash
    from rote.solvers.hashed.rotary import Turn
    from rote.solvers.hashed.rows import Row
    from rote.solvers.hashed.stock_layout import StockLayout

__all__ = ["seen_contexts", "stock_weights"]

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
MOST_STRETCH = 4.0


def seen_contexts(
    contexts: IntArray, lengths: IntArray, turn: Turn, dtype: str, *, start: int | None = None
) -> IntArray:
    """Contexts (N, S), padded on the left, as the heads see them: where a prompt is too short, some token of it.

    Where there is a `start` token, every prompt begins with it.
    """
    size, more = contexts.shape[1], int(start is not None)
    seen = contexts.copy()
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        prompts = contexts[rows][:, size - length :]
        if start is not None:
            prompts = np.pad(prompts, ((0, 0), (1, 0)), constant_values=start)
        seen[rows] = prompts[:, gaze(length + more, size, turn, dtype).seen[::-1]]
    return seen


def stock_weights(
    plan: StockLayout, hashing: Hash, rows: Sequence[Row], lengths: Sequence[int], tokens: IntArray, targets: IntArray
) -> dict[str, Array]:
    """All tensors of the model. `tokens` are the ids that the codes stand for, `targets` those of the classes."""
    return _Assembly(plan, hashing).weights(rows, lengths, tokens, targets)


class _Assembly:
    def __init__(self, plan: StockLayout, hashing: Hash) -> None:
        self.plan, self.hashing, self.layout = plan, hashing, plan.layout
        self.rms, self.constants = constants(plan.d_model, plan.dtype)
        count = len(self.constants)
        self.place = {name: count + i for i, name in enumerate(plan.channels)}
        self.meaning: dict[str, Expression] = {}
        """What names stand for that are no channels by themselves."""
        self.fetched: list[tuple[int, int, str, float]] = []
        """(input, bit of the code, channel, weight): what heads add to which channel."""
        self._read_single() if self.layout.mix == "bits" else self._read_several()

    # --- hash bits --------------------------------------------------------------------------------------------------

    def _read_single(self) -> None:
        layout, hashing, fetching = self.layout, self.hashing, self.plan.fetching
        plain, wide = layout.row_bits + layout.column_bits, self.plan.turn.d_head
        self.ready: list[int] = []
        channels: dict[tuple[int, int], str] = {}
        choice: Expression = {"choice0": 1.0} if layout.digits > 1 else {}
        for i, read in enumerate(hashing.reads[:, 0].tolist()):
            place, bit = divmod(read, layout.head_bits)
            mine = layout.own and place == layout.positions - 1
            own = f"code{hashing.copied[place][bit]}"
            if i >= plain:
                weight = 2.0 ** (i - plain)
                if mine:
                    choice = added(choice, {own: weight})
                else:
                    self.fetched.append((place, bit, "choice0", weight))
                continue
            self.ready.append(0 if mine else fetching.ready(bit, wide))
            if mine:
                self.meaning[f"h{i}"] = {own: 1.0}
                continue
            replaced = fetching.replaced[bit // wide]
            home = (place, bit if replaced is None else replaced * wide + bit % wide)
            name = channels.setdefault(home, f"f{len(channels)}")
            self.meaning[f"h{i}"] = {name: 1.0}
            self.fetched.append((place, bit, name, 1.0))
        if choice:
            self.meaning["choice0"] = choice

    def _read_several(self) -> None:
        layout = self.layout
        plain = layout.row_bits + layout.column_bits
        self.ready = [0] * plain
        for i, reads in enumerate(self.hashing.reads.tolist()):
            name = f"f{i}" if i < plain else f"choice{i - plain}"
            self.meaning[f"h{i}"] = {name: 1.0}
            self.fetched += [(*divmod(read, layout.head_bits), name, 1.0) for read in reads]

    def _layer_of(self, bit: int) -> int:
        return self.plan.fetching.ready(bit, self.plan.turn.d_head)

    # --- tensors ----------------------------------------------------------------------------------------------------

    def weights(
        self, rows: Sequence[Row], lengths: Sequence[int], tokens: IntArray, targets: IntArray
    ) -> dict[str, Array]:
        plan = self.plan
        d, f, width = plan.d_model, plan.d_mlp, plan.turn.d_head
        identity = np.full(d, self.rms)
        identity[: len(self.constants)] = 0.0
        identity[:2] = self.rms / np.array(self.constants[:2])
        final = np.zeros(d)
        read = [self.place[name] for name in (*(f"y{i}" for i in range(len(self.layout.parts))), "score")]
        final[read] = self.rms * min(MOST_STRETCH, stretch(1.0, max(2, self.layout.classes)))
        weights = {"model.embed_tokens.weight": self._embedding(tokens, targets), "model.norm.weight": final}
        queries = self._queries(lengths)
        for layer in range(plan.n_layers):
            start = f"model.layers.{layer}."
            weights |= {
                start + "input_layernorm.weight": identity,
                start + "post_attention_layernorm.weight": identity,
                start + "self_attn.q_proj.weight": queries,
                start + "self_attn.k_proj.weight": self._keys(),
                start + "self_attn.v_proj.weight": np.zeros((width, d)),
                start + "self_attn.o_proj.weight": np.zeros((d, plan.n_heads * width)),
                start + "mlp.up_proj.weight": np.zeros((f, d)),
                start + "mlp.down_proj.weight": np.zeros((d, f)),
            }
        self._fetch(weights)
        for (first, planned), units in zip(plan.stages, self._stages(rows), strict=True):
            count = 0
            for count, unit in enumerate(units, 1):
                layer, slot = divmod(count - 1, f)
                start = f"model.layers.{first + layer}.mlp."
                self._write(weights[start + "up_proj.weight"][slot], unit.reads)
                down = weights[start + "down_proj.weight"]
                for name, value in unit.writes.items():
                    down[self.place[name], slot] += value
            assert count <= planned, "every stage has as many units as planned"
        assert sum(one.size for one in weights.values()) == plan.params, "the model has the planned size"
        return weights

    def _write(self, row: Array, expression: Expression) -> None:
        """The weights of an expression; a constant that the format does not hold takes two channels."""
        for name, value in expression.items():
            if name == ONE:
                high = float(rounded(np.array(value), self.plan.dtype))
                row[0] += high
                row[1] += value - high
                continue
            for channel, weight in self.meaning.get(name, {name: 1.0}).items():
                row[self.place[channel]] += value * weight

    def _embedding(self, tokens: IntArray, targets: IntArray) -> Array:
        layout = self.layout
        matrix = np.zeros((self.plan.vocab, self.plan.d_model))
        matrix[:, : len(self.constants)] = self.constants
        for name, value in self.plan.program.initial.items():
            matrix[:, self.place[name]] = value
        for i in range(layout.code_bits):
            matrix[tokens, self.place[f"code{i}"]] = self.hashing.codes[:, i]
        numbers = np.arange(layout.classes)
        middle = sum((2**size - 1) ** 2 for size in layout.parts) // 2
        least = middle - sum(4 ** (size - 1) for size in layout.parts)
        scores = np.full(layout.classes, float(middle))
        for i, size in enumerate(layout.parts):
            part = (numbers & (1 << size) - 1).astype(np.float64)
            matrix[targets, self.place[f"y{i}"]] = 2 * (part - 2 ** (size - 1))
            scores -= part**2
            numbers = numbers >> size
        # Tokens that are no answers stay below every right one, and a single answer is right whatever is read.
        matrix[:, self.place["score"]] = min(0.0, least - 1.0) if layout.classes > 1 else -8.0
        matrix[targets, self.place["score"]] = scores
        return matrix

    def _distances(self) -> list[int]:
        positions = self.hashing.positions.tolist()
        return [self.layout.context - 1 - position for position in positions[: self.plan.n_heads]]

    def _queries(self, lengths: Sequence[int]) -> Array:
        plan, context = self.plan, self.layout.context
        sharp = sharpness(lengths, context, plan.turn, plan.dtype, distances=self._distances())
        if sharp is None:
            raise AssumptionError(
                f"heads that go by rotary positions cannot look at single tokens of prompts of {len(lengths):,} "
                f"lengths up to {max(lengths):,} in {plan.dtype}; take a wider number format or contexts of one "
                "length, or build rote's own architecture."
            )
        halves = query(context, plan.turn)
        matrix = np.zeros((plan.n_heads * plan.turn.d_head, plan.d_model))
        for head, distance in enumerate(self._distances()):
            start = head * plan.turn.d_head
            phases = np.concatenate([half[distance] for half in halves])
            matrix[start : start + plan.turn.d_head, 0] = sharp * rounded(phases, plan.dtype)
        return matrix

    def _keys(self) -> Array:
        matrix = np.zeros((self.plan.turn.d_head, self.plan.d_model))
        matrix[: self.plan.turn.d_head // 2, 0] = 1.0
        return matrix

    def _fetch(self, weights: Mapping[str, Array]) -> None:
        """What the heads copy, and the channels that it is added to."""
        width, copied = self.plan.turn.d_head, self.hashing.copied[0]
        for bit in range(self.layout.head_bits):
            values = weights[f"model.layers.{self._layer_of(bit)}.self_attn.v_proj.weight"][bit % width]
            values[self.place[f"code{copied[bit]}"]] = 1.0
            replaced = self.plan.fetching.replaced[bit // width]
            if replaced is not None:
                values[self.place[f"code{copied[replaced * width + bit % width]}"]] -= 1.0
        for head, bit, name, weight in self.fetched:
            out = weights[f"model.layers.{self._layer_of(bit)}.self_attn.o_proj.weight"]
            out[self.place[name], head * width + bit % width] += weight

    # --- units ------------------------------------------------------------------------------------------------------

    def _stages(self, rows: Sequence[Row]) -> Iterator[Iterator[Unit] | Sequence[Unit]]:
        first, *rest = self.plan.program.stages
        yield self._hash_units()
        yield self._row_units(rows)
        half = len(self.layout.groups) // 2
        yield self._selection(range(half))
        yield [*self._selection(range(half, len(self.layout.groups))), *(unit for (unit,) in first)]
        for stage in rest:
            yield filled(stage, self.plan.d_mlp)

    def _hash_units(self) -> Iterator[Unit]:
        if self.layout.mix == "bits":
            return
        bits = self.layout.row_bits + self.layout.column_bits + self.layout.choice_bits
        groups = (self._corners(*self.meaning[f"h{i}"]) for i in range(bits))
        yield from filled(groups, self.plan.d_mlp)

    def _corners(self, name: str) -> list[Unit]:
        """Units that make a bit of a number in its own channel; they change what they read, so no layer parts them."""
        return [Unit({name: 1.0, ONE: -float(t)}, {name: float(by)}) for t, by in mixing(self.layout.mix)]

    def _row_units(self, rows: Sequence[Row]) -> Iterator[Unit]:
        """Units of rows, those first that need only bits that are there first."""
        layout = self.layout
        start, size = self.plan.stages[1][0], self.plan.d_mlp
        due = [max((self.ready[bit] for bit, _ in row.code), default=0) for row in rows]
        for number, i in enumerate(np.argsort(due, kind="stable").tolist()):
            row = rows[i]
            if due[i] > start + number // size:
                raise FactsLost("needs bits of some keys before heads have fetched them")
            reads: Expression = {ONE: 1.0 - sum(value for _, value in row.code)}
            for bit, value in row.code:
                reads[f"h{bit}"] = 1.0 if value else -1.0
            writes: Expression = {}
            for block, words in enumerate(row.words):
                centre = 1 << layout.used_bits(block) - 1
                names = (f"w{block * layout.width + c}" for c in range(layout.width))
                writes |= dict(zip(names, (words - centre).astype(float).tolist(), strict=True))
            if layout.thresholds:
                writes |= {f"t{j}": float(value) for j, value in enumerate(row.thresholds.tolist())}
            yield Unit(reads, writes)

    def _selection(self, groups: range) -> Iterator[Unit]:
        """One unit per word of some groups: the word if all its column bits are the key's, and 0 otherwise."""
        layout = self.layout
        half = len(layout.groups) // 2
        for block in range(layout.blocks):
            whole = float(1 << layout.used_bits(block))
            for group in groups:
                words, size = layout.groups[group], layout.group_bits[group]
                word = block * layout.width + sum(layout.groups[:group])
                bit = layout.row_bits + sum(layout.group_bits[:group])
                single = 2 * words - (1 << size)
                for i in range(words):
                    # Words beyond the first ones answer to two numbers, which differ in their lowest bit.
                    number = i if i < single else 2 * i - single
                    reads: Expression = {f"w{word + i}": 1.0, ONE: whole / 2}
                    for j in range(i >= single, size):
                        off: Expression = {f"h{bit + j}": 1.0}
                        if number >> j & 1:
                            off = {ONE: 1.0, f"h{bit + j}": -1.0}
                        reads = added(reads, scaled(off, -whole))
                    yield Unit(reads, {f"u{block}_{group if group < half else group - half}": 1.0})
