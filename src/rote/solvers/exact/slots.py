"""Variant B: a memoriser on the line whose every number fits a float.

The keys, in order, are cut into groups. A group is a threshold and a few words, each a table of as many bits as a float
holds. A one-hot layer picks the words of the key's group, and the label is read from them as masked parities
(`rote.solvers.exact.hashing`, `rote.solvers.exact.readout`). No key is stored but the first one of each group.

What is proved, for integer keys of the data: r_j = relu(x - t_j + 1/2) and
I_j = relu(2x - 2r_j - 2r_{j+1} + 2 - 2t_j) give I_j = 1 if t_j <= x < t_{j+1} and 0 otherwise, so that each word is one
product, and no order of summation can change it. Every other sum is one of dyadic numbers that fit the significand
whatever the order; the only exception is the gate 2^a Y - 2^a U, which may be rounded where it is negative, and ReLU
then makes it 0 all the same. Labels are exact for every key of the data; how many groups that takes, the masks decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from rote.data._arrays import IntArray
from rote.errors import CapacityError
from rote.solvers.exact.hashing import Frame, Orbit, Run, equations, frame, orbits, plan_runs
from rote.solvers.exact.network import ONE, Network, Row, add, scaled
from rote.solvers.exact.readout import Timeline, fold, fold_layers, read_out, spelled

__all__ = ["Precision", "SlotNetwork", "largest_key", "memorise_slots"]

Precision = Literal["float64", "float32"]


@dataclass(frozen=True)
class _Budget:
    key_bits: int
    width: int
    """Bits of a mask orbit. Its sums are whole numbers below 2^(width + 2), or even ones below 2^(width + 3)."""
    word: int
    """Bits of a table in one weight: an odd multiple of 2^-(word + 1)."""


_BUDGETS: dict[str, _Budget] = {"float64": _Budget(47, 51, 51), "float32": _Budget(21, 22, 22)}
_SAMPLE = 8192


@dataclass(frozen=True)
class SlotNetwork:
    """The network, and what it is made of."""

    network: Network
    precision: Precision
    n_groups: int
    words: int
    """Weights a group spends on its tables."""
    slots: int
    """Rows of the table of a group: about as many points as it can hold."""


def largest_key(precision: Precision) -> int:
    """The largest key that this precision takes."""
    return (1 << _BUDGETS[precision].key_bits) - 1


@dataclass(frozen=True)
class _Shape:
    """How label bits are spread over words: lanes side by side, or several stages of words for one label bit."""

    columns: tuple[int, ...]
    stages: int
    rows: int
    """Rows of one stage."""

    @property
    def words(self) -> int:
        return len(self.columns) * self.stages

    def weights(self, n_bits: int, groups: float) -> float:
        """About how many weights the network has."""
        most, total = max(self.columns), self.rows * self.stages
        return groups * (6 + self.words) + total * (7 * most + 11 * n_bits) + 5 * n_bits * total.bit_length()


def _shapes(n_bits: int, word: int, n: int) -> list[_Shape]:
    """The shapes worth a look for n points."""
    out = []
    for columns in range(1, min(n_bits, word) + 1):
        if columns > 1 and -(-n_bits // columns) == -(-n_bits // (columns - 1)):
            continue
        full, rest = divmod(n_bits, columns)
        lanes = (columns,) * full + ((rest,) if rest else ())
        most = word // columns
        out += [
            _Shape(lanes, 1, rows)
            for rows in sorted(
                {most, *(r for r in (1, 2, 3, 4) if r < most), *(most * i // 8 for i in range(1, 8))} - {0}
            )
        ]
        if columns == 1:
            out += [_Shape(lanes, stages, most) for stages in range(2, 13) if stages * most < n]
    return out


def memorise_slots(keys: IntArray, labels: IntArray, n_labels: int, *, precision: Precision) -> SlotNetwork:
    """A network of one input, the key, and one output, the label, exact in this precision in any order of summation."""
    budget = _BUDGETS[precision]
    keys = np.asarray(keys, dtype=np.int64)
    if int(keys.max()) > largest_key(precision):
        wider = "float64 takes keys below 2^47, " if int(keys.max()) <= largest_key("float64") else ""
        raise CapacityError(
            f"{precision} takes keys below 2^{budget.key_bits}, and the largest is {int(keys.max())}; "
            f"{wider}exact takes any."
        )
    assert int(keys.min()) >= 0, "keys are not negative"
    n_bits = max(1, (n_labels - 1).bit_length())
    if n_bits > budget.word:
        raise CapacityError(f"{precision} takes up to 2^{budget.word} labels, not {n_labels}; exact takes more.")
    order = np.argsort(keys, kind="stable")
    keys, labels = keys[order], np.asarray(labels, dtype=np.int64)[order]
    inside = frame(keys)
    local = inside.inside(keys)
    shape, orbit = _choose(local, labels, n_bits, inside.bits, budget)
    runs = _runs(orbit, local, labels, shape, n_bits)
    words = [_words(run, shape, budget.word) for run in runs]
    network = _assemble(inside, [int(local[run.start]) for run in runs], words, shape, orbit)
    return SlotNetwork(network, precision, len(runs), shape.words, shape.rows * shape.stages)


def _runs(orbit: Orbit, keys: IntArray, labels: IntArray, shape: _Shape, n_bits: int) -> list[Run]:
    points = equations(orbit, keys, labels, shape.rows, shape.stages, n_bits)
    runs = plan_runs(points, shape.rows * shape.stages, n_bits)
    assert runs is not None, "without cuts a run always ends somewhere"
    return runs


def _choose(keys: IntArray, labels: IntArray, n_bits: int, key_bits: int, budget: _Budget) -> tuple[_Shape, Orbit]:
    """The shape and the masks with the fewest weights, judged by a stretch of the keys."""
    n = len(keys)
    first = max(0, (n - _SAMPLE) // 2)
    few, answers = keys[first : first + _SAMPLE], labels[first : first + _SAMPLE]
    shapes = _shapes(n_bits, budget.word, n)

    def fixed(shape: _Shape) -> int:
        blank = [[[0.5] * len(shape.columns)] * shape.stages] * 2
        return _assemble(Frame(0, 0, key_bits), [0, 1], blank, shape, Orbit(key_bits, budget.width, key_bits, 0)).params

    best: tuple[float, _Shape, Orbit] | None = None
    for shape in sorted(shapes, key=lambda s: s.weights(n_bits, n / (s.rows * s.stages)))[:2]:
        base = fixed(shape)
        for orbit in orbits(few, key_bits, budget.width, shape.rows * shape.stages):
            runs = _runs(orbit, few, answers, shape, n_bits)
            # The last run of a stretch is cut short by its end.
            whole = runs[:-1] if len(few) < n and len(runs) > 1 else runs
            groups = n * len(whole) / whole[-1].end
            found = base + 6 * len(orbit.folds) + groups * (6 + shape.words)
            if best is None or found < best[0]:
                best = found, shape, orbit
    assert best is not None
    return best[1], best[2]


def _words(run: Run, shape: _Shape, word: int) -> list[list[float]]:
    """The weights of a group: stage by stage, lane by lane; each is exact in the precision."""
    out = []
    low = (1 << shape.rows) - 1
    for stage in range(shape.stages):
        lanes, first = [], 0
        for count in shape.columns:
            tables = [(column >> (stage * shape.rows)) & low for column in run.columns[first : first + count]]
            bits = [(table >> row) & 1 for table in tables for row in range(shape.rows)]
            numerator, shift = spelled(bits, 1, 1)
            assert shift <= word + 1
            lanes.append(numerator / (1 << shift))
            first += count
        out.append(lanes)
    return out


def _assemble(
    inside: Frame, starts: Sequence[int], words: Sequence[Sequence[Sequence[float]]], shape: _Shape, orbit: Orbit
) -> Network:
    line = Timeline(["x"])
    scale = Fraction(1, 1 << inside.shift)
    x = line.put(1, {"x": scale, ONE: -inside.low * scale})
    # The tables are picked just before the masks are ready: what waits is the key, and not the words.
    late, again = int(shape.stages == 1), max(shape.columns) > 1
    begin = max(5, 2 + fold_layers(orbit, again) - late)
    chosen = _one_hot(line, begin - 3, x, starts)
    tables: list[list[Row]] = []
    for stage in range(shape.stages):
        tables.append([])
        for lane in range(len(shape.columns)):
            weights = [Fraction(group[stage][lane]) for group in words]
            tables[-1].append(line.put(begin - 1, add(*(scaled(i, w) for i, w in zip(chosen, weights, strict=True)))))
    folded = fold(line, begin + late, x, orbit, again) if shape.rows * shape.stages > 1 else {}
    return line.network(read_out(line, begin, tables, folded, orbit, shape.rows, shape.columns, 0))


def _one_hot(line: Timeline, time: int, x: Row, starts: Sequence[int]) -> list[Row]:
    """Per group a row that is 1 for its keys and 0 for those of other groups; layers `time` and `time` + 1."""
    if len(starts) == 1:
        return [{ONE: 1}]
    ramps = [line.put(time, add(x, {ONE: Fraction(1 - 2 * t, 2)})) for t in starts[1:]]
    chosen = [line.put(time + 1, add({ONE: 1}, scaled(ramps[0], -2)))]
    for at in range(1, len(starts)):
        here = add(scaled(x, 2), scaled(ramps[at - 1], -2), {ONE: 2 - 2 * starts[at]})
        chosen.append(line.put(time + 1, add(here, scaled(ramps[at], -2)) if at < len(starts) - 1 else here))
    return chosen
