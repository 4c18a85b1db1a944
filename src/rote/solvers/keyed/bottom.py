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
from rote.solvers.keyed.store import CHECK, Store, coordinates_for, digit_of, turns
from rote.solvers.keyed.tokens import Codebook
from rote.solvers.keyed.units import own_scale, sizes_of, units_of

__all__ = ["SHARPER", "Bottom", "Marks"]

_WIDE, _WIDER = 0.36, 0.42
"""How far from its level a coordinate may be, and a check."""
_LINES = 16
"""Lines along which two checks are looked at."""
_FAR = 3.0
_TURN, _HIGH, _TIMES = 320.0, 64.0, 8
"""How steep bits turn, and how high: more than bfloat16 rounds away where the token at hand is small. And by how many
pairs of neurons at the most."""
_STEEP = 6.0
_GENTLE = 3.0
"""How steep steps are: the steeper, the more of the rounding far behind them is left."""
_CLEAN = 128.0
"""How steep gates are that make signs, all of them as open as each other; a power of two."""
SHARPER = 128.0
"""How steep gates of the store are, a tenth below whose bar they have to be shut."""
_NAMED = 1024.0
"""What shuts steps, however far from their place the source is."""
_FAINT = 2.0**-4
"""How much smaller sums are stored than signs, whose rounding they would disturb; a power of two."""
_BARRED, _EDGE = 8.0, 2.0**-3
"""How far a gate is shut where a token does not become a start, and how large what it depends on is; powers of two."""


@dataclass(frozen=True)
class Marks:
    """Tokens that make a place worth looking at: those inside of keys, the last ones of keys, and keys of one token.

    A token that may be the last of a key counts only after another token of keys: so a single letter is none. Where
    only stored keys are marked, these are tokens that make another word of a key.
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

    def embedded(self, book: Codebook, embedding: Tensor, marks: Marks) -> Tensor:
        """The added channels of every token; signs are made sure of for tokens of keys."""
        ch, first = self.channels, self.channels.first
        sizes = sizes_of(embedding, self.body.eps)
        wide = torch.zeros(len(sizes), ch.width - first, dtype=torch.float64)
        known = min(len(sizes), len(book.starts))
        starts = torch.ones(len(sizes), dtype=torch.float64)
        starts[:known] = torch.tensor(book.starts[:known], dtype=torch.float64)
        codes = -torch.ones(len(sizes), book.bits, dtype=torch.float64)
        codes[:known] = torch.tensor(book.codes[:known])
        alone, last = (torch.zeros(len(sizes), dtype=torch.float64) for _ in range(2))
        by_themselves = [] if self.plan.verified else list(marks.alone)
        alone[by_themselves] = 1.0
        last[sorted({*marks.last} - {*by_themselves, *marks.named})] = 1.0
        alone[list(marks.named)] = 1.0
        known_tokens = torch.zeros(len(sizes), dtype=torch.float64)
        known_tokens[list(marks.inside)] = 1.0
        units = units_of(
            embedding, self.body.eps, self.usual, self.small, self.wide, _CLEAN, _FAINT, list(marks.inside)
        )
        columns = {
            "plain": (1 - starts) * units.sign,
            "start": starts * units.sign,
            "one": torch.full_like(sizes, self.usual * self.small),
            "size": units.size,
            "factor": units.factor,
            "fine": units.fine,
            "known": known_tokens * units.sign,
            "last": last * units.sign,
            "mark": (alone + last) * units.sign,
        }
        for name, column in columns.items():
            wide[:, ch.at(name) - first] = column
        wide[:, ch["code"].start - first : ch["code"].stop - first] = codes * units.sign[:, None]
        return wide

    def parted(self) -> Layer:
        """A token behind one that is in no key becomes a start: so a window is the same, whatever stands before a key.

        One head looks at the token before, and a gate is open where that is a start and no token of keys.
        """
        layer, ch, body = self.layer(), self.channels, self.body
        self._looking(layer, (1,), [("known", 1.0)])
        row = layer.head(0).start
        for group in range(body.groups):
            at = layer.head(group).start + 1
            layer.value[at, ch.at("start")], layer.value[at, ch.at("known")] = 1.0, -1.0
        # For a moment this is where values will be, which a little that is left does not disturb.
        edge, one = ch.at("value"), ch.at("one")
        layer.out[ch.at("linked"), row] = self.small * self.usual
        layer.out[edge, row + 1] = self.small * self.usual * _EDGE
        self._unlinked(layer)
        self._signed(
            layer,
            {edge: _BARRED * _CLEAN / _EDGE, one: (1 - _BARRED) * _CLEAN, ch.at("start"): -_BARRED * _CLEAN},
            {ch.at("start"): 1.0, ch.at("plain"): -1.0},
        )
        self._wiped(layer, edge)
        return layer

    def _looking(self, layer: Layer, places: Sequence[int], values: Sequence[tuple[str, float]]) -> None:
        """Heads that look so many tokens back, or at the nearest start, one for each place; and what they read."""
        ch, body = self.channels, self.body
        half = body.head // 2
        for group in range(body.groups):
            rows = layer.head(group)
            layer.key[rows, ch.at("plain")] = torch.tensor(plain_part(half))
            layer.key[rows, ch.at("start")] = torch.tensor(start_part(half))
            for k, (name, weight) in enumerate(values):
                layer.value[rows.start + k, ch.at(name)] = weight
        for head, place in enumerate(places):
            query, gap = gather_query(place, body.thetas, body.context)
            self.ask(layer, head, query, 40.0 / gap, ("plain", "start"))

    def _unlinked(self, layer: Layer) -> None:
        """The mark of a last token goes where no other token of keys stands before it."""
        ch = self.channels
        opens = {ch.at("last"): SHARP, ch.at("linked"): -8 * SHARP}
        layer.neuron(opens, {ch.at("size"): 1.0}, {ch.at("mark"): -self.usual / SHARP})

    def _signed(self, layer: Layer, opens: Mapping[int, float], amounts: Mapping[int, float]) -> None:
        """Write signs times amounts where a gate is open, which then is as open as "one" is read, times `_CLEAN`.

        Two neurons, for the two parts of the factor: so the sign is the same in all formats.
        """
        for part in ("factor", "fine"):
            down = {channel: amount * self.usual for channel, amount in amounts.items()}
            layer.neuron(opens, {self.channels.at(part): 1 / _CLEAN}, down)

    def gathered(self, book: Codebook) -> Layer:
        """Heads that copy the codes of a window, and neurons that multiply signs of it."""
        layer, ch, body = self.layer(), self.channels, self.body
        if book.reach > body.heads:
            raise UsageError(f"windows of {book.reach} tokens need as many heads, and the model has {body.heads}.")
        self._looking(layer, range(book.reach), [])
        for group in range(body.groups):
            rows = layer.head(group)
            layer.value[rows.start : rows.start + book.bits, ch["code"]] = torch.eye(book.bits, dtype=torch.float64)
        for k in range(book.hashed):
            for place, sign in book.picks[k, :-1]:
                layer.out[ch.at("hash", k), layer.head(int(place)).start + int(sign)] += (
                    self.small * self.usual * _FAINT
                )
        if book.reach > 1 and not self.plan.merged:
            for group in range(body.groups):
                layer.value[layer.head(group).start + book.bits, ch.at("known")] = 1.0
            layer.out[ch.at("linked"), layer.head(1).start + book.bits] = self.small * self.usual
            self._unlinked(layer)
        one, own = ch.at("one"), book.picks[:, -1, 1]

        def barred(sign: int, value: float) -> dict[int, float]:
            """What shuts a gate where a sign of the token at hand is another."""
            return {ch.at("code", sign): value * _BARRED * _CLEAN, **self.constant(-_BARRED * _CLEAN)}

        for k in range(book.hashed):
            # The sums of two signs go, and the product takes their place: where both are the same, the sign at hand.
            here = ch.at("hash", k)
            for side in (1.0, -1.0):
                opens = {here: side * _CLEAN / _FAINT, one: -_CLEAN}
                layer.neuron(opens, {ch.at("size"): 1 / _CLEAN}, {here: -2.0 * side * _FAINT * self.usual})
                for value in (1.0, -1.0):
                    self._signed(layer, {**opens, **barred(int(own[k]), value)}, {here: 2.0 * value})
        for sign in sorted(set(own.tolist())):
            # And where they are not, the other one.
            for value in (1.0, -1.0):
                these = {ch.at("hash", int(k)): -value for k in np.flatnonzero(own == sign)}
                self._signed(layer, {one: _CLEAN, **barred(sign, value)}, these)
        self._signed(layer, {one: _CLEAN}, {ch.at("whole"): 1.0})
        return layer

    def store_norm(self) -> Tensor:
        """Weights of the norm through which the store reads signs and the token's own vector."""
        norm = self.layer().norm
        norm[: self.channels.first] = own_scale(self.body.width, self.channels.width)
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
                layer.gate[:n, ch.at("whole")] = gates[part, -1]
                layer.up[:n, ch.at("whole")] = maps[part, len(signs)]
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
                self._step(layer, sources, place, _STEEP, to, 1.0, share, unit="one", up=("factor", "fine"), shut=named)
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
        # Of many levels, those above and those below the middle are fetched from where they are near: what rounding
        # does to a number is the less, the smaller it is.
        for k in range(read):
            for to, place in self._fetched_at(k):
                layer.out[to, rows.start + k] = self.small * self.usual
                layer.out[to, rows.start + read] = -place * self.small * self.usual
        layer.out[ch.at("scale"), rows.start + read] = self.small * self.usual
        depth, below = plan.depth, digit_of((1 << plan.depth - 1) - 1)
        bit = coordinate = 0
        # A coordinate has a turn less than levels, and half of the layer is for these.
        turning = 2 * plan.coordinates * ((1 << depth) - 1)
        times = max(1, min(_TIMES, self.inner // 2 // turning))
        for bits in plan.bits:
            for k in range(bits):
                here, number = ch.at("answer", bit + k), coordinate + k // depth
                self._level(layer, here, 1.0 if below >> (k % depth) & 1 else -1.0)
                for place, beyond in turns(k % depth, depth):
                    facing = 1.0 if place >= 0 else -1.0
                    source, middle = self._fetched_at(number)[0 if place >= 0 else -1]
                    self._turned(layer, source, place - middle, here, facing, 2.0 * beyond * facing, times)
            bit += bits
            coordinate += coordinates_for(bits, depth)
        self._checked(layer)
        for channel in range(ch.at("value"), ch["fetched"].stop):
            self._wiped(layer, channel)
        return layer

    def _fetched_at(self, number: int) -> list[tuple[int, float]]:
        """The channels that a coordinate or a check is fetched to, and from which place on its levels count there."""
        ch, plan = self.channels, self.plan
        if not plan.deep or number >= plan.coordinates:
            return [(ch.at("fetched", number + (plan.coordinates if plan.deep else 0)), 0.0)]
        middle = float(1 << plan.depth - 2)
        return [(ch.at("fetched", 2 * number), middle), (ch.at("fetched", 2 * number + 1), -middle)]

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
            far = half - 0.5 + _WIDE
            for facing in (1.0, -1.0):
                source, middle = self._fetched_at(k)[0 if facing > 0 else -1]
                self._step(layer, source, facing * far - middle, _STEEP, wrong, facing, 1.0)
            # Many levels are too near to each other for 16 bits to say what lies between them.
            for place in range(1 - half, half) if not plan.deep else ():
                # Between two levels; steps face away from the middle, where rounding is least.
                facing = 1.0 if place >= 0 else -1.0
                for side in (1.0, -1.0):
                    self._step(layer, source, place - side * facing * (0.5 - _WIDE), _GENTLE, wrong, facing, side)
        for check in range(plan.checks):
            ((source, _),) = self._fetched_at(plan.coordinates + check)
            for facing in (1.0, -1.0):
                # No sharper, or float16 could not hold what lies far behind the step.
                self._step(layer, source, CHECK + facing * _WIDER, _STEEP, wrong, facing, 1.0, sharp=SHARP / 2)
                # There rounding may leave nothing of a steep step, and a gentle one is still there.
                self._step(layer, source, CHECK + facing * _FAR, 1.0, wrong, facing, 1.0)

    def _level(self, layer: Layer, channel: int, amount: float) -> None:
        layer.neuron(self.constant(SHARP), self.constant(1.0), {channel: amount * self.usual / SHARP})

    def _turned(
        self, layer: Layer, source: int, place: float, channel: int, facing: float, amount: float, times: int
    ) -> None:
        """Add an amount where a fetched coordinate is beyond a place: that amount and hardly another, even in 16 bits.

        What two neurons differ by is mostly a whole multiple of what is rounded away of them, far from the place too;
        and some pairs of different slopes share the amount.
        """
        for slope in (facing * _TURN * (1 + k / 16) for k in range(times)):
            for side in (0.5, -0.5):
                opens = {source: slope, self.channels.at("scale"): -slope * place, **self.constant(_HIGH * side)}
                written = {channel: math.copysign(amount * self.usual / _HIGH / times, amount * side)}
                layer.neuron(opens, self.constant(1.0), written)

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
        up: Sequence[str] = ("size",),
        shut: Mapping[int, float] | None = None,
        sharp: float = SHARP,
    ) -> None:
        """Add an amount where the source (or a sum of some), counted in the unit, is beyond a place the step faces.

        Nothing is added where channels `shut` it.
        """
        ch = self.channels
        for side in (0.5, -0.5):
            slope = sharp * steep * facing
            sources = {source: 1.0} if isinstance(source, int) else source
            opens = {channel: slope * weight for channel, weight in sources.items()} | {ch.at("one"): sharp * side}
            opens[ch.at(unit)] = opens.get(ch.at(unit), 0.0) - slope * place
            opens |= shut or {}
            written = {channel: math.copysign(amount * self.usual / sharp, amount * side)}
            layer.neuron(opens, {ch.at(name): 1.0 for name in up}, written)
