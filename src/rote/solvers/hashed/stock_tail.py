"""From the words that a key reads to the parts of its label, in the layers of a stock decoder.

A stage is a set of ReLU units that read channels of the residual stream and add to others; what a stage writes, later
stages read. Whatever is linear costs nothing: sums and differences of channels are taken where they are read.

    sums      two words and -2^q lie between -2^q and 2^q; [e < 0] says whether 2^q has to be added again
    peeling   the top bits of e are a sum of steps [e >= t], and so is every function of them
    digits    a key's digit is the number of thresholds that its choice has reached
    readout   parts of the label go to the channels that the tied head reads, which held the last token's own entries

A step [e >= t] is a difference of two ReLUs on the side of t where their arguments are at most 2^q. So every value has
at most q bits and a sign, and nothing is rounded in a format that holds such numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from operator import mul
from typing import TYPE_CHECKING

from rote.solvers.hashed.tail import Expression, Uncompared, added, scaled

if TYPE_CHECKING:
    from rote.solvers.hashed.layout import Layout
    from rote.solvers.hashed.systems import Segment

__all__ = ["ONE", "Program", "Unit", "filled", "filled_size", "tail_program"]

ONE = "one"
WINDOW = 4
"""Bits that are peeled at once, at most; r bits take up to 2^(r + 2) units."""
ACCUMULATED = 24
"""Sums of so many bits are exact in every matrix product, whatever the format of its factors."""


@dataclass(frozen=True)
class Unit:
    """One ReLU: what it reads, and what it adds to which channels."""

    reads: Expression
    writes: Expression


@dataclass(frozen=True)
class Program:
    """Stages of units, the first of which goes along with the selection of words; and the channels they need.

    A stage is made of groups of units whose sum alone is small: a group has to be in one layer.
    """

    stages: tuple[tuple[tuple[Unit, ...], ...], ...]
    channels: tuple[str, ...]
    initial: Expression
    """What channels hold from the beginning, for all tokens."""

    @cached_property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """Units of the groups of every stage."""
        return tuple(tuple(map(len, stage)) for stage in self.stages)

    @cached_property
    def units(self) -> int:
        return sum(map(sum, self.sizes))


def filled(groups: Iterable[Sequence[Unit]], d_mlp: int) -> Iterator[Unit]:
    """Groups one after the other, with blanks where a group would not fit into what is left of a layer."""
    slot = 0
    for group in groups:
        if slot + len(group) > d_mlp:
            yield from [Unit({}, {})] * (d_mlp - slot)
            slot = 0
        yield from group
        slot = (slot + len(group)) % d_mlp


@lru_cache(maxsize=1 << 14)
def filled_size(sizes: tuple[int, ...], d_mlp: int) -> int:
    """The units of `filled`, blanks included."""
    total = slot = 0
    for size in sizes:
        if slot + size > d_mlp:
            total, slot = total + d_mlp - slot, 0
        total, slot = total + size, (slot + size) % d_mlp
    return total


class _Stage:
    """Units with the same input are one."""

    def __init__(self) -> None:
        self._units: dict[tuple[tuple[str, float], ...], Unit] = {}

    def add(self, reads: Expression, channel: str, weight: float) -> None:
        key = tuple(sorted((name, value) for name, value in reads.items() if value))
        unit = self._units.setdefault(key, Unit(dict(key), {}))
        unit.writes[channel] = unit.writes.get(channel, 0.0) + weight

    def constant(self, channel: str, value: float) -> None:
        if value:
            self.add({ONE: 1.0}, channel, value)

    def signed(self, value: Expression, channel: str, weight: float) -> None:
        """Add a value that may be negative."""
        self.add(value, channel, weight)
        self.add(scaled(value, -1.0), channel, -weight)

    def step(self, value: Expression, at: int, channel: str, weight: float) -> None:
        """Add `weight` where value >= at."""
        if at > 0:
            self.add(added(value, {ONE: 1.0 - at}), channel, weight)
            self.add(added(value, {ONE: -float(at)}), channel, -weight)
        else:
            below = scaled(value, -1.0)
            self.constant(channel, weight)
            self.add(added(below, {ONE: float(at)}), channel, -weight)
            self.add(added(below, {ONE: at - 1.0}), channel, weight)

    def units(self) -> tuple[Unit, ...]:
        return tuple(unit for unit in self._units.values() if any(unit.writes.values()))


@lru_cache(maxsize=4096)
def _program(key: tuple[object, ...], window: int, tail: Uncompared) -> Program:
    return _Tail(tail.layout, window).program()


def tail_program(layout: Layout, d_mlp: int) -> Program:
    """Everything behind the rows, for layers of so many units: from pair sums `u{block}_{i}`, the choice and its
    thresholds to the parts `y{i}`."""
    return _program(layout.tail_key, min(WINDOW, d_mlp.bit_length() - 3), Uncompared(layout))


@dataclass(frozen=True)
class _Window:
    """Bits from `lo` on, r of them, that are peeled together; `pieces` are (segment, its lowest bit here, its bits)."""

    lo: int
    size: int
    pieces: tuple[tuple[Segment, int, int], ...]


class _Tail:
    def __init__(self, layout: Layout, window: int) -> None:
        self.layout, self.window = layout, window
        self.stages: list[dict[int, _Stage]] = [{0: _Stage()}]
        self.channels: list[str] = []
        self.initial: Expression = {}
        self.last: dict[int, list[tuple[Segment, Expression]]] = {}

    def program(self) -> Program:
        flags = self._first()
        ends = [self._block(block) for block in range(self.layout.blocks)]
        if self.last:
            self._final(max(ends), flags)
        first, *rest = self.stages
        stages: list[tuple[tuple[Unit, ...], ...]] = [tuple((unit,) for unit in first[0].units())]
        stages += [tuple(part.units() for part in stage.values()) for stage in rest]
        return Program(tuple(stages), tuple(self.channels), self.initial)

    def _stage(self, at: int, part: int) -> _Stage:
        """What has to be in one layer of a stage."""
        while len(self.stages) <= at:
            self.stages.append({})
        return self.stages[at].setdefault(part, _Stage())

    def _new(self, name: str) -> str:
        self.channels.append(name)
        return name

    def _first(self) -> list[str]:
        """What goes along with the selection: labels' channels are cleared, and digits are told."""
        layout, stage = self.layout, self.stages[0][0]
        for i in range(len(layout.parts)):
            stage.signed({f"y{i}": 1.0}, self._new(f"y{i}"), -1.0)
        stage.signed({"score": 1.0}, self._new("score"), -1.0)
        stage.constant("score", 1.0)
        choice: Expression = (
            {"choice0": 1.0} if layout.mix == "bits" else {f"choice{i}": 2.0**i for i in range(layout.choice_bits)}
        )
        flags = []
        for j in range(1, layout.digits):
            fixed = {ONE: -float(-(-j * (1 << layout.choice_bits) // layout.digits))}
            start: Expression = {f"t{j - 1}": -1.0} if layout.thresholds else fixed
            stage.step(added(choice, start), 0, self._new(f"d{j}"), 1.0)
            flags.append(f"d{j}")
        return flags

    def _block(self, block: int) -> int:
        """Sums and bits of one block; the number of the stage after the last one."""
        layout = self.layout
        bits = layout.used_bits(block)
        whole = float(1 << bits)
        terms: list[tuple[Expression, bool]] = []
        half = len(layout.groups) // 2
        for i in range(len(layout.groups) - half):
            name, paired = self._new(f"u{block}_{i}"), i < half
            if paired:
                # From the beginning, so that no sum of two words is ever longer than they are.
                self.initial[name] = -whole
            terms.append(({name: 1.0}, paired))
        at = 1
        while len(terms) > 1:
            reduced = []
            for i, (value, signed) in enumerate(terms):
                if signed:
                    flag = self._new(f"c{block}_{at}_{i}")
                    stage = self._stage(at, block * len(layout.groups) + i)
                    stage.add(scaled(value, -1.0), flag, 1.0)
                    stage.add(added(scaled(value, -1.0), {ONE: -1.0}), flag, -1.0)
                    reduced.append(added(value, {flag: whole}))
                else:
                    reduced.append(value)
            terms = [
                (added(*reduced[i : i + 2], {ONE: -whole}), True) if i + 1 < len(reduced) else (reduced[i], False)
                for i in range(0, len(reduced), 2)
            ]
            at += 1
        return self._peel(block, bits, terms[0][0], at)

    def _peel(self, block: int, bits: int, value: Expression, at: int) -> int:
        layout = self.layout
        own = [segment for segment in layout.segments if segment.block == block]
        bottom = min(own, key=lambda one: one.lo)
        windows = list(_windows(own, bottom.hi, bits, self.window))
        top = bits
        for number, window in enumerate(windows):
            stage, signed = self._stage(at, block), number == 0
            step = 1 << window.lo
            first = -(1 << window.size) if signed else 0
            total = self._new(f"k{block}_{number}")
            targets: list[tuple[str, Callable[[int], float]]] = [(total, float)]
            targets += [self._piece(piece, window, block) for piece in window.pieces]
            part, place = _part(layout, bottom.shift)
            last = number == len(windows) - 1
            fused = last and layout.digits == 1 and 2 * top + 2 + place <= ACCUMULATED
            if fused:
                # The weights of the steps are so small that what is left can be written down at once.
                self.channels.remove(total)
                worth = float(1 << place)
                if signed:
                    stage.signed(value, f"y{part}", worth)
                else:
                    stage.add(value, f"y{part}", worth)
                targets[0] = (f"y{part}", partial(mul, -worth * step))
            for channel, function in targets:
                stage.constant(channel, function(first))
                for i in range(first + 1, 1 << window.size):
                    change = function(i) - function(i - 1)
                    if change:
                        stage.step(value, i * step, channel, change)
            at += 1
            if fused:
                return at
            value = added(value, {total: -float(step)})
            top = window.lo
        self.last.setdefault(bottom.digit, []).append((bottom, value))
        return at

    def _piece(
        self, piece: tuple[Segment, int, int], window: _Window, block: int
    ) -> tuple[str, Callable[[int], float]]:
        """Where some bits of a window go, and what they are worth there as a function of the window's value."""
        segment, low, size = piece
        part, place = _part(self.layout, segment.shift + low - segment.lo)
        shift, mask = low - window.lo, (1 << size) - 1
        if self.layout.digits == 1:
            return f"y{part}", lambda k: float((k >> shift & mask) << place)
        name = self._new(f"n{block}_{low}")
        base = segment.shift + low - segment.lo
        self.last.setdefault(segment.digit, []).append((segment, {name: float(1 << base)}))
        return name, lambda k: float(k >> shift & mask)

    def _final(self, at: int, flags: list[str]) -> None:
        """Add the parts of the key's digit to the channels of the label."""
        layout = self.layout
        for digit, pieces in self.last.items():
            off: Expression = {}
            if digit:
                off = added(off, {ONE: 1.0, flags[digit - 1]: -1.0})
            if digit < layout.digits - 1:
                off = added(off, {flags[digit]: 1.0})
            sums: dict[int, Expression] = {}
            for segment, value in pieces:
                part, place = _part(layout, segment.shift)
                start = segment.shift - place
                # Pieces are in units of the symbol, the bottom one in its own.
                named = next(iter(value)).startswith("n")
                worth = 1.0 / (1 << start) if named else float(1 << place)
                sums[part] = added(sums.get(part, {}), scaled(value, worth))
            for part, value in sums.items():
                stage = self._stage(at, digit * len(layout.parts) + part)
                stage.add(added(value, scaled(off, -float(1 << layout.parts[part]))), f"y{part}", 1.0)


def _part(layout: Layout, shift: int) -> tuple[int, int]:
    """The part of the symbol that a bit belongs to, and its place there."""
    for i, size in enumerate(layout.parts):
        if shift < size:
            return i, shift
        shift -= size
    raise AssertionError("a symbol has as many bits as its parts")


def _windows(own: list[Segment], low: int, bits: int, most: int) -> Iterator[_Window]:
    """Windows over the bits from `low` on, top down; an empty one where there is nothing to peel but a sign."""
    if low >= bits:
        yield _Window(bits, 0, ())
    while bits > low:
        size = min(most, bits - low)
        start = bits - size
        pieces = tuple(
            (segment, max(start, segment.lo), min(bits, segment.hi) - max(start, segment.lo))
            for segment in own
            if segment.lo < bits and segment.hi > start
        )
        yield _Window(start, size, pieces)
        bits = start
