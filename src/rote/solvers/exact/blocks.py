"""Variant C: a memoriser on the line with the fewest weights, some of which are thousands of bits long.

The keys, in order, are cut into blocks; a block is a threshold and a table from which the labels of its keys are read
as masked parities (`hashing`, `readout`). `blocks` consecutive blocks are one weight: their
tables as numbers whose orbits spell them, and between two tables a digit that says how far the next threshold is. What
is proved, for integer keys of the data:

*   Group. l_j = relu(t_j - x) is a whole number, so relu(1 - l_j) = [x >= t_j], and z_0 + sum_j (z_j - z_{j-1})
    [x >= t_j] is the weight of the key's group: five weights a group.
*   Digit. If s = (D + r) / 2^q with an even D in [0, 2^q) and r in [0, 1], then q tent maps take s to r (the q-th
    iterate rises on cells of even number), and 2^q s - r = D. So with h = K + T - x / 2^e + 2^(q-1) s before the digit
    D = 2 gap, h - r / 2 = K + (T + gap) - x / 2^e after it: the threshold is known, in units of 2^e, less the key.
*   Latch. l = relu(2^e (T - x / 2^e)) is whole; r is the rest of the weight from the table of this block on, in (0, 1).
    relu(r - l) + relu(L - relu(1 - l)) is r if the key has reached the threshold, and what was latched otherwise.
*   Distance. A gap is at least 1, so behind a table the orbit stays 2^-q away from 0 and 1, as the read-out requires.

Thresholds lie on a grid of 2^e, which makes digits short: a run of points ends where the grid separates two keys. The
digit before the second block of a group is the whole threshold. A last digit may bring all groups to the same sum, from
which the key comes back, so that it need not be carried along; it is there if it saves weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np

from rote.data._arrays import IntArray
from rote.errors import CapacityError
from rote.solvers.exact.hashing import Frame, Orbit, Run, equations, frame, orbits, plan_runs
from rote.solvers.exact.network import ONE, Network, Row, Weight, add, scaled
from rote.solvers.exact.readout import Timeline, fold, fold_layers, power, read_out, spelled, tent

__all__ = ["KEY_BITS", "WIDTH", "BlockNetwork", "Shape", "assemble", "memorise_blocks", "string"]

KEY_BITS = 62
WIDTH = 60
"""Bits of a mask orbit: 64-bit integers hold it."""
_SAMPLE = 8192
_ROWS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)


@dataclass(frozen=True)
class Shape:
    """All that is the same for every group."""

    orbit: Orbit
    n_bits: int
    """Bits of a label."""
    rows: int
    """Bits of a table per label bit."""
    blocks: int
    """Blocks in a weight."""
    grid: int
    """Thresholds are multiples of 2^grid."""
    opening: int
    """Bits of the digit before the second block."""
    digit: int
    """Bits of the digits before later blocks."""
    closing: int
    """Bits of the digit behind the last block; 0 if there is none."""
    horizon: int
    """The sum of all digits with the closing one, halved."""

    @property
    def table(self) -> int:
        """Bits of a table."""
        return self.rows * self.n_bits

    def digit_bits(self, block: int) -> int:
        """Bits of the digit before a block other than the first."""
        return self.opening if block == 1 else self.digit

    @property
    def length(self) -> int:
        """Bits of a weight behind the point."""
        digits = sum(self.digit_bits(block) for block in range(1, self.blocks))
        return 1 + self.blocks * self.table + digits + self.closing

    @property
    def reach(self) -> int:
        """The orbit behind a table is 2^-(reach + 1) or more away from 0 and from 1."""
        used = [self.digit_bits(block) for block in range(1, self.blocks)]
        return max([1, *used, self.closing]) - 1


@dataclass(frozen=True)
class BlockNetwork:
    """The network, and what it is made of."""

    network: Network
    n_groups: int
    blocks_per_weight: int
    table_bits: int
    """Bits of the table of a block."""
    n_blocks: int
    """Blocks that hold points."""


def memorise_blocks(
    keys: IntArray,
    labels: IntArray,
    n_labels: int,
    *,
    blocks_per_weight: int | None = None,
    table_bits: int | None = None,
) -> BlockNetwork:
    """A network of one input, the key, and one output, the label; what is None is chosen so that weights are few."""
    keys = np.asarray(keys, dtype=np.int64)
    if int(keys.max()) >> KEY_BITS:
        raise CapacityError(f"keys are below 2^{KEY_BITS}, and the largest is {int(keys.max())}.")
    assert int(keys.min()) >= 0, "keys are not negative"
    order = np.argsort(keys, kind="stable")
    inside = frame(keys)
    keys, labels = inside.inside(keys[order]), np.asarray(labels, dtype=np.int64)[order]
    n_bits = max(1, (n_labels - 1).bit_length())
    cut, runs = _cut(keys, labels, n_bits, inside.bits, blocks_per_weight, table_bits)
    at = _thresholds(cut, keys, runs)
    _, shape, starts = _arrange(cut, n_bits, at, 1.0, blocks_per_weight)
    ends = [*starts[1:], len(runs)]
    strings = [
        string(shape, at[start:end], [run.columns for run in runs[start:end]])
        for start, end in zip(starts, ends, strict=True)
    ]
    return BlockNetwork(
        assemble(inside, [at[start] << shape.grid for start in starts[1:]], strings, shape),
        len(starts),
        shape.blocks,
        shape.table,
        len(runs),
    )


def string(shape: Shape, thresholds: Sequence[int], tables: Sequence[Sequence[int]]) -> int:
    """The weight of a group, over 2^length; thresholds in units of the grid, the first of which is not in it.

    tables[block][j] has bit i of the table of label bit j in its bit i. A group with fewer blocks repeats its last
    table.
    """
    thresholds, tables = list(thresholds), list(tables)
    while len(tables) < shape.blocks:
        thresholds.append(thresholds[-1] + 1)
        tables.append(tables[-1])
    number, shift = 1, 1
    if shape.closing:
        number += 2 * (shape.horizon - thresholds[-1]) << shift
        shift += shape.closing
    for block in range(shape.blocks - 1, -1, -1):
        bits = [(column >> row) & 1 for column in tables[block] for row in range(shape.rows)]
        number, shift = spelled(bits, number, shift)
        if block:
            gap = thresholds[block] - (thresholds[block - 1] if block > 1 else 0)
            number += 2 * gap << shift
            shift += shape.digit_bits(block)
    assert shift == shape.length
    return number


def assemble(inside: Frame, starts: Sequence[int], strings: Sequence[int], shape: Shape) -> Network:
    """The network; `starts` are the thresholds of the groups but the first."""
    line = Timeline(["x"])
    scale = Fraction(1, 1 << inside.shift)
    x = line.put(1, {"x": scale, ONE: -inside.low * scale})
    below = [line.put(2, add({ONE: start}, scaled(x, -1))) for start in starts]
    reached = [line.put(3, add({ONE: 1}, scaled(far, -1))) for far in below]
    unit = Fraction(1, 1 << shape.length)
    row: dict[str, Weight] = {ONE: strings[0] * unit}
    for step, before, after in zip(reached, strings[:-1], strings[1:], strict=True):
        row.update(scaled(step, (after - before) * unit))
    latched, key = line.put(4, row), x
    end = 5
    if shape.blocks > 1:
        latched, key, end = _loop(line, x, latched, shape)
    again = shape.n_bits > 1
    # The read-out begins when the latch is done, and when the first mask can be ready a layer later.
    first = (end if shape.closing else 2) + fold_layers(shape.orbit, again)
    begin = max(end, first - 1)
    folded = fold(line, begin + 1, key, shape.orbit, again) if shape.rows > 1 else {}
    return line.network(
        read_out(line, begin, [[latched]], folded, shape.orbit, shape.rows, [shape.n_bits], shape.reach)
    )


def _loop(line: Timeline, x: Row, latched: Row, shape: Shape) -> tuple[Row, Row, int]:
    """Walk the blocks: what is latched in the end, the key, and the first layer that can read them."""
    offset = 1 << (shape.orbit.key_bits - shape.grid)
    far: Row = add({ONE: offset}, scaled(x, -power(-shape.grid)))
    value, time, unit = latched, 5, power(shape.grid)
    for block in range(1, shape.blocks):
        for _ in range(shape.table):
            value, _ = tent(line, time, value)
            time += 1
        value, far, time = _digit(line, time, value, far, shape.digit_bits(block))
        rest = line.put(time, value)
        short = line.put(time, add(scaled(far, unit), scaled(value, -unit / Fraction(2)), {ONE: -offset * unit}))
        if block + 1 < shape.blocks or shape.closing:
            far = line.put(time, add(far, scaled(value, Fraction(-1, 2))))
        new = line.put(time + 1, add(rest, scaled(short, -1)))
        reached = line.put(time + 1, add({ONE: 1}, scaled(short, -1)))
        old = line.put(time + 2, add(latched, scaled(reached, -1)))
        latched = line.put(time + 3, add(new, old))
    if not shape.closing:
        return latched, x, time + 4
    for _ in range(shape.table):
        value, _ = tent(line, time, value)
        time += 1
    value, far, time = _digit(line, time, value, far, shape.closing)
    whole = unit * (offset + shape.horizon)
    key = line.put(time, add({ONE: whole}, scaled(far, -unit), scaled(value, unit / Fraction(2))))
    return latched, key, max(time, time - shape.table - shape.closing + 4) + 1


def _digit(line: Timeline, time: int, value: Row, far: Row, bits: int) -> tuple[Row, Row, int]:
    """Shift a digit out: the rest of the number, h (see above) and the first layer that can read both."""
    far = line.put(time, add(far, scaled(value, 1 << (bits - 1))))
    for _ in range(bits):
        value, _ = tent(line, time, value)
        time += 1
    return value, far, time


@dataclass(frozen=True)
class _Cut:
    """A way to cut the keys into blocks."""

    orbit: Orbit
    rows: int
    grid: int


def _cut(
    keys: IntArray, labels: IntArray, n_bits: int, key_bits: int, blocks: int | None, table_bits: int | None
) -> tuple[_Cut, list[Run]]:
    """The best way to cut, judged by a stretch of the keys, and all keys cut like this."""
    n = len(keys)
    first = max(0, (n - _SAMPLE) // 2)
    few, answers = keys[first : first + _SAMPLE], labels[first : first + _SAMPLE]
    rows = [r for r in _ROWS if r <= max(1, n)] if table_bits is None else [max(1, table_bits // n_bits)]

    def cost(cut: _Cut) -> float:
        runs = _runs(cut, few, answers, n_bits)
        if runs is None:
            return float("inf")
        # The last run of a stretch is cut short by its end.
        whole = runs[:-1] if len(few) < n and len(runs) > 1 else runs
        return _arrange(cut, n_bits, _thresholds(cut, few, whole), n / whole[-1].end, blocks)[0]

    gap = int(np.median(np.diff(few))).bit_length() if len(few) > 1 else 0
    grids = sorted({max(0, min(gap + more, key_bits - 1)) for more in (-3, -2, -1, 0, 1)} | {0})
    found = []
    for count in _promising(n, n_bits, key_bits, rows, blocks):
        ways = orbits(few, key_bits, WIDTH, count)
        grid = min(grids, key=lambda g: cost(_Cut(ways[len(ways) // 2], count, g)))
        found += [(cost(cut), i, cut) for i, cut in enumerate(_Cut(way, count, grid) for way in ways)]
    cut = min(found, key=lambda each: each[:2])[2]
    runs = _runs(cut, keys, labels, n_bits)
    while runs is None:
        cut = replace(cut, grid=cut.grid - 1)
        runs = _runs(cut, keys, labels, n_bits)
    return cut, runs


def _promising(n: int, n_bits: int, key_bits: int, rows: list[int], blocks: int | None) -> list[int]:
    """The few numbers of rows that are best if keys are spread evenly."""

    def cost(count: int) -> float:
        groups = n / max(1.0, count - 1.2)
        digit = 2 + count.bit_length()
        opening = max(digit, n.bit_length() + 1)
        shape = Shape(Orbit(key_bits, WIDTH, min(key_bits, 24), 0), n_bits, count, 1, 0, opening, digit, 0, 0)
        numbers = [blocks] if blocks else _numbers(groups, count * n_bits + digit)
        return min(
            _weights(replace(shape, blocks=g, closing=closing), groups / g)
            for g, closing in product(numbers, (0, opening))
        )

    return sorted(rows, key=cost)[:4]


def _numbers(n_blocks: float, bits: int) -> list[int]:
    """Numbers of blocks in a weight that are worth a look."""
    best = max(1, round((5 * n_blocks / (7 * bits + 17)) ** 0.5))
    return sorted({g for g in (1, 2, *range(best - 2, best + 4)) if 1 <= g <= max(1, n_blocks)})


def _runs(cut: _Cut, keys: IntArray, labels: IntArray, n_bits: int) -> list[Run] | None:
    cells = keys >> cut.grid
    places = np.arange(len(keys) + 1)
    places[1:-1][cells[1:] == cells[:-1]] = 0
    last = np.maximum.accumulate(places)
    return plan_runs(equations(cut.orbit, keys, labels, cut.rows, 1, n_bits), cut.rows, n_bits, last)


def _thresholds(cut: _Cut, keys: IntArray, runs: list[Run]) -> list[int]:
    return [0] + [int(keys[run.start]) >> cut.grid for run in runs[1:]]


def _grouped(thresholds: list[int], blocks: int, digit: int) -> list[int]:
    """Where groups start: a group has at most so many blocks, and gaps that fit the digit (from its third block on)."""
    starts, most = [0], (1 << (digit - 1)) - 1
    for at in range(1, len(thresholds)):
        inside = at - starts[-1]
        if inside >= blocks or (inside > 1 and thresholds[at] - thresholds[at - 1] > most):
            starts.append(at)
    return starts


def _arrange(
    cut: _Cut, n_bits: int, thresholds: list[int], scale: float, blocks: int | None
) -> tuple[float, Shape, list[int]]:
    """The best numbers of blocks in a weight and of bits in a digit: weights, shape, starts of groups.

    There are `scale` times as many blocks as thresholds.
    """
    gaps = np.diff(np.array(thresholds, dtype=np.int64)) if len(thresholds) > 1 else np.array([1], dtype=np.int64)
    digits = {1 + max(1, int(np.quantile(gaps, at)).bit_length()) for at in (0.8, 0.95, 0.99, 0.999, 1)}
    numbers = [blocks] if blocks else _numbers(len(thresholds) * scale, cut.rows * n_bits + max(digits))
    found: list[tuple[float, Shape, list[int]]] = []
    for digit, number in product(sorted(digits), numbers):
        starts = _grouped(thresholds, number, digit)
        shape = Shape(cut.orbit, n_bits, cut.rows, number, cut.grid, 0, 0, 0, 0)
        shapes = [shape]
        if number > 1:
            ends = [*starts[1:], len(thresholds)]
            pairs = list(zip(starts, ends, strict=True))
            second = max(thresholds[a + 1] if b - a > 1 else thresholds[a] + 1 for a, b in pairs)
            lasts = [thresholds[b - 1] + number - (b - a) for a, b in pairs]
            horizon = max(lasts) + 1
            shape = replace(shape, opening=(2 * second).bit_length(), digit=digit if number > 2 else 0)
            closing = (2 * (horizon - min(lasts))).bit_length()
            shapes = [shape, replace(shape, closing=closing, horizon=horizon)]
        found += [(_weights(each, len(starts) * scale), each, starts) for each in shapes]
    return min(found, key=lambda each: each[0])


def _weights(shape: Shape, groups: float) -> float:
    """About how many weights the network has."""
    table, folds = shape.table, len(shape.orbit.folds)
    again = shape.n_bits > 1
    read = table * (16 + 2 * again) + shape.n_bits * (5 * shape.rows.bit_length() + 3) + folds * 6
    total = 5 * groups + read + 20
    if shape.blocks > 1:
        later = (shape.blocks - 2) * (table + shape.digit) + shape.opening
        total += 7 * table + (7 if shape.closing else 8) * later + 18 * (shape.blocks - 1)
        if shape.closing:
            total += 7 * (table + shape.closing) + 6
    return total
