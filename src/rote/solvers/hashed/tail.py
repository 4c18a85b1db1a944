"""The layers behind the table: from the words that a key reads to the parts of its label, unit by unit.

    sums      modulo 2^q, two at a time: with x + y - 2^q and 2^q - x - y at hand, ReLUs pick the right one
    digits    which digit of the sum is the key's: how many thresholds its choice has passed
    peeling   two bits at a time from the top: [v >= i 2^j] = relu(1 - relu(i 2^j - v)); only the key's digit counts
    check     a fingerprint that differs from the key's own moves the first part of the label out of its range

Every value is a whole number of at most q bits, and no unit adds up anything longer: nothing is ever rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rote.solvers.hashed.layout import Layout

__all__ = ["Expression", "Uncompared", "Units", "added", "scaled", "tail_units", "tail_widths"]

Expression = dict[str, float]
"""A linear combination of units of the layer before, by name."""
Units = dict[str, Expression]
"""The ReLU units of a layer."""
BITS_AT_ONCE = 2


def scaled(expression: Expression, factor: float) -> Expression:
    return {name: value * factor for name, value in expression.items()}


def added(*expressions: Expression) -> Expression:
    total: Expression = {}
    for expression in expressions:
        for name, value in expression.items():
            total[name] = total.get(name, 0.0) + value
    return total


@lru_cache(maxsize=4096)
def _widths(*sizes: object) -> tuple[int, ...]:
    layout: Layout = sizes[-1].layout  # type: ignore[attr-defined]
    return tuple(len(units) for units in tail_units(layout))


class Uncompared:
    """Carries a layout past the cache, which goes by what the tail depends on."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Uncompared)

    def __hash__(self) -> int:
        return 0


def tail_widths(layout: Layout) -> tuple[int, ...]:
    """Units of every layer between the words and the readout."""
    return _widths(
        layout.word_bits, layout.blocks, layout.digits, layout.thresholds, len(layout.groups), layout.parts,
        layout.unknown, Uncompared(layout),
    )  # fmt: skip


def tail_units(layout: Layout) -> list[Units]:
    """The layers from group sums `s{block}_{group}`, thresholds `t{j}`, the choice `u`, fingerprints `F{i}` and `one`
    to the parts `y{i}` of the label and `one`."""
    return _Tail(layout).layers


class _Tail:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.layers: list[Units] = []
        fingerprints = range(len(layout.fingerprint_parts))
        self.kept: Units = {name: {name: 1.0} for name in (*(f"F{i}" for i in fingerprints), "one")}
        self.values = self._sums()
        if layout.digits > 1:
            self.kept = {"g": {"g": 1.0}, **self.kept}
        self.parts: list[Expression] = [{} for _ in layout.parts]
        self.waiting: list[tuple[str, int, Expression]] = []
        for block in reversed(range(layout.blocks)):
            self._peel(block)
        self._finish()

    # --- sums and digits --------------------------------------------------------------------------------------------

    def _sums(self) -> dict[int, Expression]:
        layout = self.layout
        sums = {
            block: [{f"s{block}_{i}": 1.0} for i in range(len(layout.groups))] for block in range(layout.blocks)
        }  # fmt: skip
        digits = self._digit_layers()
        while len(sums[0]) > 1:
            stages: list[Units] = [{}, {}, {}, {}]
            for block, terms in sums.items():
                after: list[Expression] = []
                modulus = float(1 << layout.used_bits(block))
                for i in range(0, len(terms) - 1, 2):
                    a, b, u, v, s, e = (f"{letter}{block}_{i}" for letter in "abuvwe")
                    stages[0] |= {a: terms[i], b: added(scaled(terms[i + 1], -1.0), {"one": modulus})}
                    stages[1] |= {u: {a: 1.0, b: -1.0}, v: {b: 1.0, a: -1.0}}
                    stages[2] |= {u: {u: 1.0}, v: {v: 1.0}, s: {"one": 1.0, v: -1.0}}
                    stages[3] |= {u: {u: 1.0}, e: {"one": modulus, s: -modulus, v: -1.0}}
                    after.append({u: 1.0, e: 1.0})
                if len(terms) % 2:
                    name = f"z{block}"
                    for stage, source in zip(stages, (terms[-1], *({name: 1.0},) * 3), strict=True):
                        stage[name] = source
                    after.append({name: 1.0})
                sums[block] = after
            for stage in stages:
                self.layers.append({**stage, **next(digits), **self.kept})
        return {block: terms[0] for block, terms in sums.items()}

    def _digit_layers(self) -> Iterator[Units]:
        """What the layers of the sums carry along to find out the digit of a key."""
        layout = self.layout
        count = layout.digits
        if count > 1:
            whole = 1 << layout.choice_bits
            starts = [
                {f"t{j}": 1.0} if layout.thresholds else {"one": float(-(-j * whole // count))} for j in range(1, count)
            ]
            yield {f"d{j}": {**start, "u": -1.0} for j, start in enumerate(starts)}
            yield {f"d{j}": {"one": 1.0, f"d{j}": -1.0} for j in range(count - 1)}
            yield {"g": {f"d{j}": 1.0 for j in range(count - 1)}}
        while True:
            yield {"g": {"g": 1.0}} if count > 1 else {}

    # --- peeling ----------------------------------------------------------------------------------------------------

    def _emit(self, units: Units) -> None:
        """One more layer: these units, and everything that goes along."""
        layer: Units = {}
        for block, value in self.values.items():
            layer[f"v{block}"] = value
            self.values[block] = {f"v{block}": 1.0}
        for i, part in enumerate(self.parts):
            if part:
                layer[f"y{i}"] = part
                self.parts[i] = {f"y{i}": 1.0}
        for name, i, gated in self.waiting:
            layer[name] = gated
            self.parts[i] = added(self.parts[i], {name: 1.0})
        self.waiting = []
        self.layers.append({**layer, **units, **self.kept})

    def _part(self, shift: int) -> tuple[int, int]:
        """The part of the symbol that a bit belongs to, and its place there."""
        for i, size in enumerate(self.layout.parts):
            if shift < size:
                return i, shift
            shift -= size
        raise AssertionError("a symbol has as many bits as its parts")

    def _differences(self, digit: int) -> Units:
        """Units whose sum is 0 if the key's digit is this one, and 1 or more otherwise."""
        units: Units = {}
        if digit < self.layout.digits - 1:
            units["n1"] = {"g": 1.0, "one": -float(digit)}
        if digit:
            units["n2"] = {"one": float(digit), "g": -1.0}
        return units

    def _count(self, digit: int, shift: int, number: Expression) -> None:
        """Add a number to its part of the symbol, if the digit is the key's."""
        i, place = self._part(shift)
        number = scaled(number, float(1 << place))
        if self.layout.digits == 1:
            self.parts[i] = added(self.parts[i], number)
            return
        off = -float(1 << self.layout.parts[i])
        gated = added(number, dict.fromkeys(self._differences(digit), off))
        self.waiting.append((f"q{len(self.waiting)}", i, gated))

    def _peel(self, block: int) -> None:
        name, several = f"v{block}", self.layout.digits > 1
        own = [segment for segment in self.layout.segments if segment.block == block]
        for segment in reversed(own):
            if segment.lo == 0:
                if several:
                    self._emit(self._differences(segment.digit))
                self._count(segment.digit, segment.shift, self.values.pop(block))
                continue
            number: Expression = {}
            top = segment.hi
            while top > segment.lo:
                size = min(BITS_AT_ONCE, top - segment.lo)
                top -= size
                steps = range(1, 1 << size)
                value = self.values[block]
                tests = {f"c{i}": added({"one": float(i << top)}, scaled(value, -1.0)) for i in steps}
                self._emit({**tests, **({"h": number} if number else {})})
                kept: Units = {"h": {"h": 1.0}} if number else {}
                gate = self._differences(segment.digit) if several and top == segment.lo else {}
                self._emit({**{f"c{i}": {"one": 1.0, f"c{i}": -1.0} for i in steps}, **kept, **gate})
                self.values[block] = {name: 1.0, **{f"c{i}": -float(1 << top) for i in steps}}
                seen: Expression = {f"c{i}": float(1 << (top - segment.lo)) for i in steps}
                number = added({"h": 1.0} if number else {}, seen)
            self._count(segment.digit, segment.shift, number)

    def _finish(self) -> None:
        layout = self.layout
        labels = len(layout.parts) - len(layout.fingerprint_parts)
        if layout.unknown:
            if self.waiting:
                self._emit({})
            off: Units = {}
            for i in range(len(layout.fingerprint_parts)):
                read = self.parts[labels + i]
                off[f"x{i}"] = added(read, {f"F{i}": -1.0})
                off[f"z{i}"] = added({f"F{i}": 1.0}, scaled(read, -1.0))
            one: Units = {"one": {"one": 1.0}}
            label_units: Units = {f"y{i}": part for i, part in enumerate(self.parts[:labels])}
            self.layers.append({**label_units, **off, **one})
            along: Units = {name: {name: 1.0} for name in label_units}
            self.layers.append({**along, "k": {"one": 1.0, **dict.fromkeys(off, -1.0)}, **one})
            far = layout.unknown_code[2]
            moved: Expression = {"y0": 1.0, "one": far, "k": -far}
            self.layers.append({**along, "y0": moved, **one})
            return
        if self.waiting:
            self._emit({})
        final: Units = {f"y{i}": part for i, part in enumerate(self.parts)}
        self.layers.append({**final, "one": {"one": 1.0}})
