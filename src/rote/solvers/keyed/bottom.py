"""The layers below the original: heads gather a window, neurons hash it, the store, and a head that fetches from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rote.errors import UsageError
from rote.solvers.keyed.frame import SHARP, Frame
from rote.solvers.keyed.kernels import gather_query, plain_part, recency_query, start_part
from rote.solvers.keyed.layers import Layer
from rote.solvers.keyed.store import CHECK, Store, coordinates_for, turns
from rote.solvers.keyed.tokens import Codebook

__all__ = ["SHARPER", "Bottom", "Marks"]

_WIDE = 0.36
"""How far from its level a coordinate or a check may be."""
_LINES = 16
"""Lines along which two checks are looked at."""
_STEEP = 6.0
_GENTLE = 3.0
"""How steep steps are: the steeper, the more of the rounding far behind them is left."""
_SLOPES = (72.0, 76.0, 80.0, 84.0)
_HALF = 64.0
"""How steep the steps are that multiply signs, and a half of how high. What a sign is made of is the mean of some of
different slopes, four or as many as there is room for, since each is rounded otherwise."""
SHARPER = 128.0
"""How steep gates of the store are, a tenth below whose bar they have to be shut."""
_NAMED = 1024.0
"""What shuts steps, however far from their place the source is."""
_FAINT = 0.0625
"""How much smaller sums are stored than signs, whose rounding they would disturb."""


@dataclass(frozen=True)
class Marks:
    """Tokens that make a place worth looking at: those inside of keys, the last ones of keys, and keys of one token.

    A token that may be the last of a key counts only after another token of keys: so a single letter is none.
    """

    inside: Sequence[int]
    last: Sequence[int]
    alone: Sequence[int]
    named: Sequence[int] = ()
    """Where keys are names, tokens with which a name begins, stored or not: what is asked is asked of the latest."""


class Bottom(Frame):
    """Layers that know keys."""

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
        if not self.plan.verified:
            alone[list(marks.alone)] = 1.0
            last[sorted(set(marks.last) - set(marks.alone) - set(marks.named))] = 1.0
        alone[list(marks.named)] = 1.0
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
            self.ask(layer, place, query, 40.0 / gap, ("plain", "start"))
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
            parted = {ch.at("last"): SHARP, ch.at("linked"): -8 * SHARP}
            layer.neuron(parted, {ch.at("size"): 1.0}, {ch.at("mark"): -self.usual / SHARP})
        count = int(book.picks.shape[1])
        one, square = ch.at("one"), ch.at("square")
        free = (layer.free - 1) // book.hashed - 2
        slopes = _SLOPES[: next((n for n in (4, 2) if 2 * count * n <= free), 1)]
        for k in range(book.hashed):
            here = ch.at("hash", k)
            # The sums go, and the signs take their place.
            self._wiped(layer, here)
            # The product turns half-way between the values that the sum can have; steps face away from the middle.
            for place in range(1 - count, count, 2):
                facing = 1.0 if place >= 0 else -1.0
                beyond = _product(count, place + facing)
                for slope in slopes:
                    for side in (_HALF, -_HALF):
                        layer.neuron(
                            {here: slope * facing / _FAINT, one: side - slope * facing * place},
                            {square: 1 / _HALF},
                            {here: math.copysign(beyond, beyond * side) * self.usual / len(slopes)},
                        )
        # Through the same channel as the steps, so that its rounding changes all signs of a window by the same factor.
        middle = _product(count, float(-(count % 2))) * self.usual / SHARP
        everywhere = {ch.at("hash", k): middle for k in range(book.hashed)}
        layer.neuron({one: SHARP}, {square: 1.0}, everywhere)
        return layer

    def store_norm(self) -> Tensor:
        """Weights of the norm through which the store reads signs and the token's own vector."""
        norm = self.layer().norm
        norm[: self.channels.first] = math.sqrt(self.body.width / self.channels.width)
        return norm

    def stored(self, store: Store, book: Codebook) -> list[Layer]:
        """The store in as many layers as it takes; the last one wipes the hash, so that its channels are free."""
        ch, first = self.channels, self.channels.first
        layers = [self.layer()]
        signs = [*range(ch["code"].start, ch["code"].stop), *range(ch["hash"].start, ch["hash"].start + book.hashed)]
        gates = torch.tensor(store.gates) * SHARPER
        maps = torch.tensor(store.maps)
        wipe = book.hashed + 1
        rows = len(gates)
        count = max(1, math.ceil((rows + wipe) / self.inner))
        layers += [self.layer() for _ in range(count - 1)]
        for number, layer in enumerate(layers):
            part = slice(number * self.inner, min(rows, (number + 1) * self.inner))
            n = max(0, part.stop - part.start)
            layer.norm = self.store_norm()
            if n:
                layer.gate[:n, signs] = gates[part, :-1]
                layer.up[:n, signs] = maps[part, : len(signs)]
                layer.up[:n, :first] = maps[part, len(signs) + 1 :]
                for name in ("plain", "start"):
                    layer.gate[:n, ch.at(name)] = gates[part, -1]
                    layer.up[:n, ch.at(name)] = maps[part, len(signs)]
                written = torch.tensor(store.coordinates[part]) + ch.at("value")
                layer.down[written, torch.arange(n)] = self.small * self.usual / SHARPER
            layer.used = n
        last = layers[-1]
        for k in range(book.hashed):
            here = ch.at("hash", k)
            last.neuron({here: SHARP}, {ch.at("size"): 1.0}, {here: -2.0 * self.usual / SHARP})
        ones = {ch.at("hash", k): self.usual / SHARP for k in range(book.hashed)}
        last.neuron(self.constant(SHARP), {ch.at("size"): 1.0}, ones)
        return layers

    def recognised(self) -> Layer:
        """Neurons that mark every token which ends a stored key, by its checks.

        One check is passed by some tokens by chance. Two are looked at along several lines through the place where both
        are right, and the mark is the share of lines on which they are: the whole of it there, little elsewhere.
        """
        layer, ch = self.layer(), self.channels
        first = self.plan.coordinates
        lines = _LINES if self.plan.checks > 1 else 1
        for line in range(lines):
            angle = math.pi * line / lines
            slopes = (math.cos(angle), math.sin(angle))[: self.plan.checks]
            sources = {ch.at("value", first + k): slope for k, slope in enumerate(slopes)}
            # A token that is marked as a name already must not count twice.
            named = {ch.at("mark"): -_NAMED * SHARP}
            for amount in (1.0, -1.0):
                place = CHECK * sum(slopes) - amount * _WIDE
                share, to = amount / lines, ch.at("sure")
                self._step(layer, sources, place, _STEEP, to, 1.0, share, unit="one", up="square", shut=named)
        return layer

    def fetched(self) -> Layer:
        """One head that finds the latest marked token; its levels become signs, a check that fails is called wrong."""
        layer, ch, body, plan = self.layer(), self.channels, self.body, self.plan
        half, read = body.head // 2, plan.coordinates + plan.checks
        query, gap = recency_query(body.thetas, body.context)
        self.ask(layer, 0, query, 24.0 / gap, ("plain", "start"))
        rows = layer.head(0)
        for name in ("mark", "sure") if plan.verified else ("mark",):
            layer.key[rows, ch.at(name)] = torch.tensor(np.r_[np.ones(half), np.zeros(half)])
        layer.value[rows.start : rows.start + read, ch["value"]] = torch.eye(read, dtype=torch.float64)
        layer.value[rows.start + read, ch.at("one")] = 1.0
        for k in range(read):
            layer.out[ch.at("fetched", k), rows.start + k] = self.small * self.usual
        layer.out[ch.at("scale"), rows.start + read] = self.small * self.usual
        depth, below = plan.depth, (1 << plan.depth - 1) - 1
        bit = coordinate = 0
        for bits in plan.bits:
            for k in range(bits):
                here, source = ch.at("answer", bit + k), ch.at("fetched", coordinate + k // depth)
                middle = 1.0 if below >> (k % depth) & 1 else -1.0
                self._level(layer, here, middle)
                for place, beyond in turns(k % depth, depth):
                    facing = 1.0 if place >= 0 else -1.0
                    self._step(layer, source, place, _GENTLE, here, facing, 2.0 * beyond * facing)
            bit += bits
            coordinate += coordinates_for(bits, depth)
        self._checked(layer)
        for channel in (*range(ch["value"].start, ch["value"].stop), *range(ch["fetched"].start, ch["fetched"].stop)):
            self._wiped(layer, channel)
        return layer

    def _wiped(self, layer: Layer, channel: int) -> None:
        """What stands in a channel is taken away, so that it is free."""
        for sign in (1.0, -1.0):
            layer.neuron(
                {channel: sign * SHARP}, {self.channels.at("size"): 1.0}, {channel: -sign * self.usual / SHARP}
            )

    def _checked(self, layer: Layer) -> None:
        """Call wrong what is on no level: a whole is added for every coordinate and check that fails."""
        ch, plan = self.channels, self.plan
        wrong, half = ch.at("wrong"), 1 << plan.depth - 1
        for k in range(plan.coordinates):
            source, far = ch.at("fetched", k), half - 0.5 + _WIDE
            for facing in (1.0, -1.0):
                self._step(layer, source, facing * far, _STEEP, wrong, facing, 1.0)
            for place in range(1 - half, half):
                # Between two levels; steps face away from the middle, where rounding is least.
                facing = 1.0 if place >= 0 else -1.0
                for side in (1.0, -1.0):
                    self._step(layer, source, place - side * facing * (0.5 - _WIDE), _GENTLE, wrong, facing, side)
        for check in range(plan.checks):
            source = ch.at("fetched", plan.coordinates + check)
            for facing in (1.0, -1.0):
                self._step(layer, source, CHECK + facing * _WIDE, _STEEP, wrong, facing, 1.0)

    def _level(self, layer: Layer, channel: int, amount: float) -> None:
        layer.neuron(
            {self.channels.at("one"): SHARP}, {self.channels.at("size"): 1.0}, {channel: amount * self.usual / SHARP}
        )

    def _step(
        self,
        layer: Layer,
        source: int | Mapping[int, float],
        place: float,
        steep: float,
        channel: int,
        facing: float,
        amount: float,
        unit: str = "scale",
        up: str = "size",
        shut: Mapping[int, float] | None = None,
    ) -> None:
        """Add an amount where the source (or a sum of some), counted in the unit, is beyond a place the step faces.

        Nothing is added where channels `shut` it.
        """
        ch = self.channels
        for side in (0.5, -0.5):
            slope = SHARP * steep * facing
            sources = {source: 1.0} if isinstance(source, int) else source
            opens = {channel: slope * weight for channel, weight in sources.items()} | {ch.at("one"): SHARP * side}
            opens[ch.at(unit)] = opens.get(ch.at(unit), 0.0) - slope * place
            opens |= shut or {}
            layer.neuron(opens, {ch.at(up): 1.0}, {channel: math.copysign(amount * self.usual / SHARP, amount * side)})


def _product(count: int, total: float) -> float:
    """The product of so many signs with that sum."""
    return -1.0 if round(count - total) // 2 % 2 else 1.0
