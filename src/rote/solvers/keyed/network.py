"""The network that knows keys, in four or more added layers and a few neurons of one original layer.

Below the original: heads gather the window and neurons make its hash (`gathered`); the store (`stored`); one head
fetches what the store said at the latest key, and neurons turn its levels into signs (`fetched`). In the layer that
the gate was fitted on, two neurons say whether the fact is asked for (`asking`). On top, heads say whether that was not
long ago, and a neuron for each token of each answer says it (`said`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rote.errors import UsageError
from rote.solvers.keyed.kernels import gather_query, plain_part, recency_query, spike_query, start_part, within_query
from rote.solvers.keyed.layers import GAIN, Body, Channels, Layer
from rote.solvers.keyed.store import CHECK, LEVELS, Store, turns
from rote.solvers.keyed.tokens import Codebook

__all__ = ["Gate", "Marks", "Network", "Plan", "build", "channels_of", "exact_steps"]

_SHARP = 32.0
_WIDE = 0.4
"""How far from its level a check may be."""
_BAR = 0.25
_SHUT = 128.0
"""How steep the gates of answers are: at no amount of asking, a bar below zero, they are shut for good."""
_PENALTY = 4.0
_LOUD = 25.0
_LOUDER = 8.0
"""How much louder an answer goes on than it begins, should the gate open inside of it."""
_FAINT = 0.0625
"""How much smaller sums are stored than signs, whose rounding they would disturb."""


@dataclass(frozen=True)
class Gate:
    """A direction of the normalised state in a layer, and what is added to it: open where the sum is positive."""

    layer: int
    weights: np.ndarray
    bias: float
    size: float
    """The usual root mean square of the stream there."""


@dataclass(frozen=True)
class Plan:
    """What is to be built: sizes of codes, the longest answer, and steps that the last token does not tell apart."""

    coordinates: int
    checks: int
    bits: int
    steps: int
    exact: tuple[int, ...]
    hashed: int


@dataclass(frozen=True)
class Marks:
    """Tokens that make a place worth looking at: those inside of keys, the last ones of keys, and keys of one token.

    A token that may be the last of a key counts only after another token of keys: so a single letter is none.
    """

    inside: Sequence[int]
    last: Sequence[int]
    alone: Sequence[int]


@dataclass(frozen=True)
class Network:
    """Added layers below and above, the embedding's added channels, and rows for the neurons of an original layer."""

    channels: Channels
    inner: int
    bottom: list[Layer]
    top: list[Layer]
    embedding: Tensor
    small: float
    asking: tuple[Tensor, Tensor, Tensor, Tensor]
    """Gate, up and down of the neurons that open, and the added part of the norm's weights before them."""


def exact_steps(answers: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Steps of answers at which the token before does not tell what follows, because the answer has it twice."""
    steps: set[int] = set()
    for ids in answers:
        for i, token in enumerate(ids[:-1]):
            later = [j for j in range(len(ids) - 1) if j != i and ids[j] == token and ids[j + 1] != ids[i + 1]]
            steps.update(j + 1 for j in (i, *later) if later)
    return tuple(sorted(steps))


def channels_of(body: Body, bits: int, plan: Plan) -> tuple[Channels, Plan]:
    """Added channels; the hash gets what is left of a width that the heads divide."""
    read = plan.coordinates + plan.checks
    later = (
        ("fetched", read),
        ("scale", 1),
        ("answer", plan.bits),
        ("wrong", 1),
        ("asked", 1),
        ("recent", 1),
        ("ago", len(plan.exact)),
    )
    need = max(plan.hashed, sum(size for _, size in later))
    fixed = 9 + bits + read
    total = -(-(body.width + fixed + need) // body.heads) * body.heads
    hashed = total - body.width - fixed
    sizes = {
        "plain": 1,
        "start": 1,
        "one": 1,
        "size": 1,
        "square": 1,
        "known": 1,
        "last": 1,
        "linked": 1,
        "mark": 1,
        "code": bits,
        "value": read,
    }
    whole = replace(plan, hashed=hashed)
    return Channels(body.width, {**sizes, "hash": hashed}, {"hash": later}), whole


def build(
    body: Body,
    channels: Channels,
    plan: Plan,
    book: Codebook,
    store: Store,
    gate: Gate,
    *,
    embedding: Tensor,
    directions: Mapping[int, Tensor],
    answers: Sequence[Sequence[int]],
    marks: Marks,
    top_size: float,
    small: float = 2.0**-10,
) -> Network:
    """All weights; `answers` are token ids with the end, `directions` what to add to the stream to say a token.

    `small` is the size of what is stored in added channels beside that of the embedding.
    """
    sizes = (embedding.double().pow(2).mean(1) + body.eps).sqrt()
    usual = float(sizes.median())
    inner = body.inner + 8
    builder = _Builder(body, channels, plan, inner, usual, small)
    bottom = [builder.gathered(book), *builder.stored(store, book)]
    bottom.append(builder.fetched())
    top = builder.said(book, sizes, directions, answers, gate.size, top_size)
    return Network(channels, inner, bottom, top, builder.embedded(book, sizes, marks), small, builder.asking(gate))


def _product(count: int, total: float) -> float:
    """The product of so many signs with that sum."""
    return -1.0 if round(count - total) // 2 % 2 else 1.0


class _Builder:
    def __init__(self, body: Body, channels: Channels, plan: Plan, inner: int, usual: float, small: float) -> None:
        self.body, self.channels, self.plan = body, channels, plan
        self.inner, self.usual, self.small = inner, usual, small

    def layer(self, reading: float = 1.0) -> Layer:
        return Layer(self.body, self.channels.width, self.inner, reading, self.small)

    def constant(self, weight: float) -> dict[int, float]:
        """A number that does not depend on the token, below the original."""
        return {self.channels.at("plain"): weight, self.channels.at("start"): weight}

    def embedded(self, book: Codebook, sizes: Tensor, marks: Marks) -> Tensor:
        """The added channels of every token."""
        ch, first = self.channels, self.channels.first
        wide = torch.zeros(len(sizes), ch.width - first, dtype=torch.float64)
        known = min(len(sizes), len(book.starts))
        starts = torch.ones(len(sizes), dtype=torch.float64)
        starts[:known] = torch.tensor(book.starts[:known], dtype=torch.float64)
        codes = -torch.ones(len(sizes), book.bits, dtype=torch.float64)
        codes[:known] = torch.tensor(book.codes[:known])
        alone, last = (torch.zeros(len(sizes), dtype=torch.float64) for _ in range(2))
        alone[list(marks.alone)] = 1.0
        last[sorted(set(marks.last) - set(marks.alone))] = 1.0
        known_tokens = torch.zeros(len(sizes), dtype=torch.float64)
        known_tokens[list(marks.inside)] = 1.0
        columns = {
            "plain": (1 - starts) * sizes,
            "start": starts * sizes,
            "one": torch.full_like(sizes, self.usual),
            "size": sizes**2 / self.usual,
            "square": sizes**3 / self.usual**2,
            "known": known_tokens * sizes,
            "last": last * sizes,
            "mark": (alone + last) * sizes,
        }
        for name, column in columns.items():
            wide[:, ch.at(name) - first] = column
        wide[:, ch["code"].start - first : ch["code"].stop - first] = codes * sizes[:, None]
        return wide * self.small

    def gathered(self, book: Codebook) -> Layer:
        """Heads that copy the codes of a window, and neurons that multiply signs of it."""
        layer, ch, body = self.layer(), self.channels, self.body
        half = body.head // 2
        if book.reach > body.heads:
            raise UsageError(f"windows of {book.reach} tokens need as many heads, and the model has {body.heads}.")
        for group in range(body.groups):
            rows = layer.head(group)
            layer.key[rows, ch.at("plain")] = torch.tensor(plain_part(half))
            layer.key[rows, ch.at("start")] = torch.tensor(start_part(half))
            layer.value[rows.start : rows.start + book.bits, ch["code"]] = torch.eye(book.bits, dtype=torch.float64)
        for place in range(book.reach):
            query, gap = gather_query(place, body.thetas, body.context)
            self._ask(layer, place, query, 40.0 / gap, ("plain", "start"))
        for k in range(book.hashed):
            for place, sign in book.picks[k]:
                layer.out[ch.at("hash", k), layer.head(int(place)).start + int(sign)] += (
                    self.small * self.usual * _FAINT
                )
        if book.reach > 1:
            for group in range(body.groups):
                layer.value[layer.head(group).start + book.bits, ch.at("known")] = 1.0
            layer.out[ch.at("linked"), layer.head(1).start + book.bits] = self.small * self.usual
            # The mark of a last token goes where no other token of keys stands before it.
            parted = {ch.at("last"): _SHARP, ch.at("linked"): -8 * _SHARP}
            layer.neuron(parted, {ch.at("size"): 1.0}, {ch.at("mark"): -self.usual / _SHARP})
        count = int(book.picks.shape[1])
        one, square = ch.at("one"), ch.at("square")
        for k in range(book.hashed):
            here = ch.at("hash", k)
            # The sums go, and the signs take their place.
            for sign in (1.0, -1.0):
                layer.neuron({here: sign * _SHARP}, {ch.at("size"): 1.0}, {here: -sign * self.usual / _SHARP})
            # The product turns half-way between the values that the sum can have; steps face away from the middle.
            for place in range(1 - count, count, 2):
                facing = 1.0 if place >= 0 else -1.0
                beyond = _product(count, place + facing)
                for side in (1.0, -1.0):
                    layer.neuron(
                        {here: _SHARP * facing / _FAINT, one: _SHARP * (side - facing * place)},
                        {square: 1.0},
                        {here: beyond * side * self.usual / _SHARP},
                    )
        middle = _product(count, float(-(count % 2)))
        layer.neuron(
            {one: _SHARP}, {square: 1.0}, {ch.at("hash", k): middle * self.usual / _SHARP for k in range(book.hashed)}
        )
        return layer

    def _ask(self, layer: Layer, head: int, query: np.ndarray, scale: float, names: Sequence[str]) -> None:
        scaled = torch.tensor(query) * scale * math.sqrt(self.body.head)
        for name in names:
            layer.query[layer.head(head), self.channels.at(name)] = scaled

    def stored(self, store: Store, book: Codebook) -> list[Layer]:
        """The store in as many layers as it takes; the last one wipes the hash, so that its channels are free."""
        ch, first = self.channels, self.channels.first
        layers = [self.layer()]
        signs = [*range(ch["code"].start, ch["code"].stop), *range(ch["hash"].start, ch["hash"].start + book.hashed)]
        gates = torch.tensor(store.gates) * _SHARP
        maps = torch.tensor(store.maps)
        wipe = book.hashed + 1
        rows = len(gates)
        count = max(1, math.ceil((rows + wipe) / self.inner))
        layers += [self.layer() for _ in range(count - 1)]
        for number, layer in enumerate(layers):
            part = slice(number * self.inner, min(rows, (number + 1) * self.inner))
            n = max(0, part.stop - part.start)
            layer.norm[:first] = math.sqrt(self.body.width / ch.width)
            if n:
                layer.gate[:n, signs] = gates[part, :-1]
                layer.up[:n, signs] = maps[part, : len(signs)]
                layer.up[:n, :first] = maps[part, len(signs) + 1 :]
                for name in ("plain", "start"):
                    layer.gate[:n, ch.at(name)] = gates[part, -1]
                    layer.up[:n, ch.at(name)] = maps[part, len(signs)]
                written = torch.tensor(store.coordinates[part]) + ch.at("value")
                layer.down[written, torch.arange(n)] = self.small * self.usual / _SHARP
            layer.used = n
        last = layers[-1]
        for k in range(book.hashed):
            here = ch.at("hash", k)
            last.neuron({here: _SHARP}, {ch.at("size"): 1.0}, {here: -2.0 * self.usual / _SHARP})
        ones = {ch.at("hash", k): self.usual / _SHARP for k in range(book.hashed)}
        last.neuron(self.constant(_SHARP), {ch.at("size"): 1.0}, ones)
        return layers

    def fetched(self) -> Layer:
        """One head that finds the latest marked token; its levels become signs, a check that fails is called wrong."""
        layer, ch, body, plan = self.layer(), self.channels, self.body, self.plan
        half, read = body.head // 2, plan.coordinates + plan.checks
        query, gap = recency_query(body.thetas, body.context)
        self._ask(layer, 0, query, 24.0 / gap, ("plain", "start"))
        rows = layer.head(0)
        layer.key[rows, ch.at("mark")] = torch.tensor(np.r_[np.ones(half), np.zeros(half)])
        layer.value[rows.start : rows.start + read, ch["value"]] = torch.eye(read, dtype=torch.float64)
        layer.value[rows.start + read, ch.at("one")] = 1.0
        for k in range(read):
            layer.out[ch.at("fetched", k), rows.start + k] = self.small * self.usual
        layer.out[ch.at("scale"), rows.start + read] = self.small * self.usual
        depth = LEVELS.bit_length() - 1
        for bit in range(plan.bits):
            here, source = ch.at("answer", bit), ch.at("fetched", bit // depth)
            middle = 1.0 if (LEVELS // 2 - 1) >> (bit % depth) & 1 else -1.0
            self._level(layer, here, middle)
            for place, beyond in turns(bit % depth):
                facing = 1.0 if place >= 0 else -1.0
                self._step(layer, source, place, 3.0, here, facing, 2.0 * beyond * facing)
        for check in range(plan.checks):
            source = ch.at("fetched", plan.coordinates + check)
            for facing in (1.0, -1.0):
                self._step(layer, source, CHECK + facing * _WIDE, 6.0, ch.at("wrong"), facing, 1.0)
        return layer

    def _level(self, layer: Layer, channel: int, amount: float) -> None:
        layer.neuron(
            {self.channels.at("one"): _SHARP}, {self.channels.at("size"): 1.0}, {channel: amount * self.usual / _SHARP}
        )

    def _step(
        self, layer: Layer, source: int, place: float, steep: float, channel: int, facing: float, amount: float
    ) -> None:
        """Add an amount where the source is beyond a place, in the direction that the step faces."""
        ch = self.channels
        for side in (0.5, -0.5):
            slope = _SHARP * steep * facing
            layer.neuron(
                {source: slope, ch.at("scale"): -slope * place, ch.at("one"): _SHARP * side},
                {ch.at("size"): 1.0},
                {channel: math.copysign(amount * self.usual / _SHARP, amount * side)},
            )

    def asking(self, gate: Gate) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Two neurons whose difference is 0 where the gate is shut and 1 where it is open."""
        ch, rows = self.channels, self.inner - self.body.inner
        opens, up = (torch.zeros(rows, ch.width, dtype=torch.float64) for _ in range(2))
        down = torch.zeros(ch.width, rows, dtype=torch.float64)
        norm = torch.zeros(ch.width - ch.first, dtype=torch.float64)
        gain = min(GAIN, gate.size / self.usual)
        norm[ch.at("one") - ch.first] = gain * math.sqrt(self.body.width / ch.width) / self.small
        steep = 8.0
        for row, side in enumerate((0.5, -0.5)):
            opens[row, : ch.first] = torch.tensor(gate.weights) * steep
            opens[row, ch.at("one")] = gate.bias * steep + side
            opens[row] *= _SHARP
            up[row, ch.at("one")] = 1.0
            for matrix in (opens, up):
                matrix[row, ch.at("one")] *= gate.size / self.usual / gain
            down[ch.at("asked"), row] = math.copysign(self.usual / _SHARP, side) * self.small
        return opens, up, down, norm

    def said(
        self,
        book: Codebook,
        sizes: Tensor,
        directions: Mapping[int, Tensor],
        answers: Sequence[Sequence[int]],
        gate_size: float,
        top_size: float,
    ) -> list[Layer]:
        """Heads for how long ago the gate opened, and a neuron for every token of every answer."""
        ch, body, plan = self.channels, self.body, self.plan
        half = body.head // 2
        layers = [self.layer(top_size / self.usual)]
        layer = layers[0]
        if body.repeat + len(plan.exact) > body.heads:
            raise UsageError(
                f"{len(plan.exact)} places of answers repeat a token of the answer, and the model has heads for "
                f"{body.heads - body.repeat}; shorten those answers."
            )
        # The added channels are read as amounts of "one", whatever the size of the stream.
        for group in range(body.groups):
            rows = layer.head(group)
            layer.key[rows, ch.at("one")] = torch.tensor(np.r_[np.ones(half), np.zeros(half)])
            layer.value[rows.start, ch.at("asked")] = 1.0
        # The first head finds a gate that opened not long ago, the others one that opened so many tokens ago exactly.
        layer.key[layer.head(0), ch.at("one")] = 0.0
        layer.key[layer.head(0), ch.at("asked")] = torch.tensor(np.r_[np.ones(half), np.zeros(half)])
        query, gap = within_query(plan.steps, body.thetas, body.context)
        self._ask(layer, 0, query, 60.0 / gap, ("one",))
        layer.out[ch.at("recent"), 0] = self.small * self.usual
        for number, step in enumerate(plan.exact):
            query, gap = spike_query(step, body.thetas, body.context)
            head = body.repeat + number
            self._ask(layer, head, query, 400.0 / gap, ("one",))
            layer.out[ch.at("ago", number), layer.head(head).start] = self.small * self.usual
        one = ch.at("one")
        for number, ids in enumerate(answers):
            for step, token in enumerate(ids):
                if layers[-1].free < 1:
                    layers.append(self.layer(top_size / self.usual))
                    layers[-1].norm = layers[0].norm
                opens = {one: 0.0}
                if step == 0:
                    opens[ch.at("asked")] = 1.0
                    opens[one] -= _BAR
                else:
                    flag = ch.at("ago", plan.exact.index(step)) if step in plan.exact else ch.at("recent")
                    opens[flag] = 1.0
                    opens[one] -= _BAR
                    before = ids[step - 1]
                    for bit in range(book.bits):
                        weight = self.usual * float(book.codes[before, bit]) / float(sizes[before])
                        opens[ch.at("code", bit)] = _PENALTY / 2 * weight
                    # Codes are stored times the size of their token, and so is the number that they are held against.
                    for name in ("plain", "start"):
                        opens[ch.at(name)] = -_PENALTY / 2 * book.bits * self.usual / float(sizes[before])
                for bit in range(plan.bits):
                    opens[ch.at("answer", bit)] = _PENALTY / 2 * (1.0 if number >> bit & 1 else -1.0)
                opens[one] -= _PENALTY / 2 * plan.bits
                opens[ch.at("wrong")] = -_PENALTY
                layers[-1].neuron(
                    {channel: weight * _SHUT for channel, weight in opens.items()},
                    {one: 1.0},
                    directions[token] * (_LOUD * (_LOUDER if step else 1.0) * top_size / _SHUT),
                )
        return layers
