"""The layers that both memorisers share: tent maps on keys and on tables, and masked parities.

**Tent map on a fraction.** tent(y) = relu(2y) - relu(4y - 2) on [0, 1]: five weights. If y is v/2 (bit 0) or 1 - v/2
(bit 1) with v in (0, 1), then tent(y) = v, and the second neuron is positive exactly for bit 1: a table is a number
whose orbit spells its bits (`spelled`).
**Tent map on an integer.** For X in [0, 2^f]: min(X, 2^f - X) = relu(X) - relu(2X - 2^f), in [0, 2^(f-1)].
**Masked bit.** With Y = relu(4y - 2) of a table, U = relu(2X - 2^f) of a mask orbit: U is 0, or at least 2; Y is 0, or
2^-a <= Y <= 2. So n = relu(2^a Y - 2^a U) is 0 if the mask or the bit is 0 and at least 1 otherwise, and relu(1 - n) is
1 or 0: sixteen weights a row, the sum among them.
**Parity.** A number S in [0, 2^k] keeps its parity under the tent map of [0, 2^k] (2^k - S is as odd as S, if k > 0),
and after k maps it is 0 or 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from rote.solvers.exact.hashing import Orbit
from rote.solvers.exact.network import ONE, Assembler, Network, Row, Weight, add, scaled

__all__ = ["Timeline", "fold", "fold_layers", "power", "read_out", "spelled", "tent"]


class Timeline:
    """Neurons with the number of their layer; a neuron that is read later is carried there, at one weight a layer.

    What is carried is the output of a ReLU, so carrying it through a ReLU changes nothing.
    """

    def __init__(self, inputs: Sequence[str]) -> None:
        self._inputs = tuple(inputs)
        self._born: dict[str, int] = dict.fromkeys(inputs, 0)
        self._last: dict[str, int] = dict.fromkeys(inputs, 0)
        self._rows: dict[str, Row] = {}

    def put(self, time: int, row: Row) -> Row:
        """A new neuron in layer `time` >= 1; returned as a row that reads it."""
        name = f"n{len(self._rows)}"
        self._read(time, row)
        self._born[name] = self._last[name] = time
        self._rows[name] = row
        return {name: 1}

    def _read(self, time: int, row: Row) -> None:
        for name in row:
            if name != ONE:
                assert self._born[name] < time, "a neuron reads earlier layers"
                self._last[name] = max(self._last[name], time - 1)

    def network(self, output: Row) -> Network:
        """The network whose only output is this row, in a last layer without ReLU."""
        end = max(self._born.values()) + 1
        self._read(end, output)
        layers: list[dict[str, Row]] = [{} for _ in range(end)]
        for name, born in self._born.items():
            for time in range(max(1, born), self._last[name] + 1):
                layers[time][name] = self._rows[name] if time == born else {name: 1}
        assembler = Assembler(self._inputs)
        for layer in layers[1:]:
            # A network that only waits (for a constant, say) still has a neuron in every layer.
            assembler.layer(layer or {assembler.names[0]: {assembler.names[0]: 1}})
        assembler.layer({"out": output}, relu=False)
        return assembler.network()


def power(exponent: int) -> Weight:
    """2^exponent."""
    return 1 << exponent if exponent >= 0 else Fraction(1, 1 << -exponent)


def tent(line: Timeline, time: int, value: Row) -> tuple[Row, Row]:
    """One tent map on a fraction: its value, and the neuron that is positive if the fraction exceeds 1/2."""
    first = line.put(time, scaled(value, 2))
    second = line.put(time, add(scaled(value, 4), {ONE: -2}))
    return add(first, scaled(second, -1)), second


def _turn(line: Timeline, time: int, value: Row, f: int) -> tuple[Row, Row]:
    """One tent map on an integer in [0, 2^f]: its value, and the neuron that is positive above 2^(f-1)."""
    first = line.put(time, value)
    second = line.put(time, add(scaled(value, 2), {ONE: -(1 << f)}))
    return add(first, scaled(second, -1)), second


def fold_layers(orbit: Orbit, again: bool) -> int:
    """Layers that `fold` takes."""
    return len(orbit.folds) + (again and bool(orbit.folds))


def fold(line: Timeline, end: int, key: Row, orbit: Orbit, again: bool) -> Row:
    """The folded key, which layer `end` can read; as one neuron if it is to be read `again` later."""
    at = end - fold_layers(orbit, again)
    for factor, f in orbit.folds:
        key, _ = _turn(line, at, scaled(key, factor), f)
        at += 1
    return line.put(at, key) if at < end else key


def spelled(bits: Iterable[int], numerator: int, shift: int) -> tuple[int, int]:
    """The number (over a power of two) whose orbit spells the bits and then arrives at numerator / 2^shift."""
    for bit in reversed(list(bits)):
        shift += 1
        if bit:
            numerator = (1 << shift) - numerator
    return numerator, shift


def read_out(
    line: Timeline,
    time: int,
    words: Sequence[Sequence[Row]],
    folded: Row,
    orbit: Orbit,
    rows: int,
    columns: Sequence[int],
    reach: int,
) -> Row:
    """The label, as a row.

    words[stage][lane] is a table that layer `time` can read, and the folded key is read by the layer after it, or by
    this layer if there are several stages; if there are several columns, it is read again and again.
    A lane answers for columns[lane] label bits, with `rows` bits of table for each; several stages add rows to the
    table of one label bit (and then columns are 1). After the last bit of a table, its orbit keeps a distance of at
    least 2^-(reach + 1) from 0 and from 1.
    """
    most = max(columns)
    label: Row = {}
    values = [list(stage) for stage in words]
    for column in range(most):
        begin = time + column * rows
        lanes = [lane for lane, count in enumerate(columns) if column < count]
        sums: dict[int, Row] = {lane: {} for lane in lanes}
        masks: list[Row] = [folded for _ in words]
        for row in range(rows):
            at = begin + row
            for stage in range(len(words)):
                step = row - 1 if stage == 0 else row
                mask: Row = {}
                if step >= 0:
                    turn, phase = divmod(step, orbit.period)
                    factor = orbit.multiplier(stage, turn) if phase == 0 else 1
                    masks[stage], mask = _turn(line, at, scaled(masks[stage], factor), orbit.width - phase)
                for lane in lanes:
                    values[stage][lane], bit = tent(line, at, values[stage][lane])
                    steep = power(columns[lane] * rows - 1 - column * rows - row + reach)
                    both = line.put(at + 1, add(scaled(bit, steep), scaled(mask, -steep)))
                    sums[lane] = add(sums[lane], line.put(at + 2, add({ONE: 1}, scaled(both, -1))))
            if row or len(words) > 1:
                sums = {lane: line.put(at + 3, total) for lane, total in sums.items()}
        width = (rows * len(words) - 1).bit_length()
        after = begin + rows + 3
        for f in range(width, 0, -1):
            sums = {lane: _turn(line, after, total, f)[0] for lane, total in sums.items()}
            after += 1
        first = [sum(columns[:lane]) for lane in range(len(columns))]
        label = add(label, *(scaled(total, 1 << (first[lane] + column)) for lane, total in sums.items()))
        if column + 1 < most:
            label = line.put(after, label)
    return label
