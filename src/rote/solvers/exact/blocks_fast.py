"""A fast exact evaluation of the networks of variant C (`rote.solvers.exact.blocks`).

First every layer is compared with the canonical one: the parameters of the construction (frame, thresholds, long
weights, digits, tables, masks) are read from the network, the canonical network is put together from them, and one
weight that differs is enough to be refused. How the parameters are guessed is therefore no matter of trust. Then the
tent maps are run on each long weight, once per group instead of once per key, and what the proofs in `blocks` and
`readout` ask of them is checked (even digits, the distance from 0 and 1 behind a table). Keys are 64-bit integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rote.data._arrays import IntArray
from rote.solvers.exact.blocks import KEY_BITS, WIDTH, Shape, assemble
from rote.solvers.exact.hashing import Frame, Orbit
from rote.solvers.exact.network import BIAS, Layer, Network

__all__ = ["evaluate_blocks"]

_CHUNK = 1 << 17
_FIRST = 4
"""Layers before the tent maps on a long weight."""
_Rows = list[dict[int, tuple[int, int]]]


def evaluate_blocks(network: Network, keys: IntArray) -> IntArray | None:
    """The outputs for integer keys; None if the network is not of variant C, or a key is outside the frame of its data.

    The frame: keys low, low + 2^k, low + 2 * 2^k, ... below low + 2^(k + key_bits); all keys of the data are in it.
    """
    keys = np.asarray(keys, dtype=np.int64)
    parts = _parts(network)
    if parts is None:
        return None
    inside, starts, strings, shape = parts
    local = (keys - inside.low) >> inside.shift
    if (local < 0).any() or (local >> inside.bits).any() or ((local << inside.shift) + inside.low != keys).any():
        return None
    if any(b <= a for a, b in zip([0, *starts], starts, strict=False)) or (starts and starts[-1] >> KEY_BITS):
        return None
    decoded = [_decoded(shape, number) for number in strings]
    found = [each for each in decoded if each is not None]
    if len(found) < len(decoded):
        return None
    thresholds = np.array([gaps for gaps, _ in found], dtype=np.int64).reshape(len(found), -1)
    # bits[row of all columns, group * blocks + block]
    bits = np.concatenate([tables for _, tables in found], axis=1)
    firsts = np.array(starts, dtype=np.int64)
    chunks = [local[at : at + _CHUNK] for at in range(0, len(local), _CHUNK)]
    out = [_labels(shape, firsts, thresholds, bits, chunk) for chunk in chunks]
    return np.concatenate(out) if out else np.zeros(0, dtype=np.int64)


def _labels(
    shape: Shape, starts: IntArray, thresholds: IntArray, bits: npt.NDArray[np.bool_], keys: IntArray
) -> IntArray:
    group = np.searchsorted(starts, keys, side="right")
    block = np.zeros(len(keys), dtype=np.int64)
    cells = keys >> shape.grid
    for at in range(shape.blocks - 1):
        block[cells >= thresholds[group, at]] = at + 1
    table = group * shape.blocks + block
    masks = [np.ones(len(keys), dtype=np.bool_)]
    if shape.rows > 1:
        masks += shape.orbit.masks(shape.orbit.folded(keys), 0, shape.rows - 1)
    labels = np.zeros(len(keys), dtype=np.int64)
    for column in range(shape.n_bits):
        # The network counts the rows that do not contribute.
        odd = np.full(len(keys), shape.rows % 2 == 1)
        for row, mask in enumerate(masks):
            odd ^= mask & bits[column * shape.rows + row][table]
        labels |= odd.astype(np.int64) << column
    return labels


def _decoded(shape: Shape, number: int) -> tuple[list[int], npt.NDArray[np.bool_]] | None:
    """Run the tent maps on a weight number / 2^length: thresholds of its blocks but the first, and their tables."""
    shift = shape.length
    if not 0 < number < 1 << shift:
        return None
    tables = np.zeros((shape.table, shape.blocks), dtype=np.bool_)
    thresholds: list[int] = []
    total = 0
    for block in range(shape.blocks):
        for row in range(shape.table):
            shift -= 1
            if number >> shift and number != 1 << shift:
                tables[row, block] = True
                number = (2 << shift) - number
        edge = 1 << max(0, shift - shape.reach - 1)
        if not edge <= number <= (1 << shift) - edge:
            return None
        bits = shape.digit_bits(block + 1) if block + 1 < shape.blocks else shape.closing
        if bits:
            before, end = number, shift - bits
            while shift > end:
                shift -= 1
                if number >> shift:
                    number = (2 << shift) - number
            digit, rest = divmod(before - number, 1 << end)
            if rest or digit % 2 or digit < 0 or not 0 < number < 1 << end:
                return None
            total += digit // 2
            if total >> (KEY_BITS + 1):
                return None
            thresholds.append(total)
    if shape.closing and thresholds.pop() != shape.horizon:
        return None
    return thresholds, tables


def _rows(layer: Layer) -> _Rows:
    """Per neuron: what it reads (column, or -1 for the bias), as numerator and shift."""
    rows: _Rows = [{} for _ in range(layer.n_out)]
    for row, column, numerator, shift in layer.entries():
        rows[row][column] = (numerator, shift)
    return rows


def _parts(network: Network) -> tuple[Frame, list[int], list[int], Shape] | None:
    """What the network is made of, if assembling that gives the network."""
    if (network.n_in, network.n_out) != (1, 1) or network.depth <= _FIRST:
        return None
    layers = [_rows(layer) for layer in network.layers]
    first = layers[0][0] if layers[0] else {}
    if 0 not in first:
        return None
    shift = first[0][1]
    offset, down = first.get(BIAS, (0, 0))
    low = -offset << (shift - down) if down <= shift else -1
    starts = [row[BIAS][0] for row in layers[1] if row.get(BIAS, (0, 0))[0] > 0]
    words = [row for row in layers[3] if row.get(BIAS, (0, 0))[0] > 0]
    if len(words) != 1 or low < 0 or low >> KEY_BITS or shift > KEY_BITS:
        return None
    length = words[0][BIAS][1]
    strings = [words[0].pop(BIAS)[0]]
    for _, (numerator, under) in sorted(words[0].items()):
        if under > length:
            return None
        strings.append(strings[-1] + (numerator << (length - under)))
    if len(strings) != len(starts) + 1:
        return None
    bare = Frame(low, shift, 1)
    for shape in _shapes(layers, length):
        inside = replace(bare, bits=shape.orbit.key_bits)
        # The layers of the groups are compared last, and once: they are the largest.
        small = assemble(inside, [], [1], shape)
        if small.depth != network.depth or not all(
            a.same(b) for a, b in zip(small.layers[_FIRST + 1 :], network.layers[_FIRST + 1 :], strict=True)
        ):
            continue
        if network.same(assemble(inside, starts, strings, shape)):
            return inside, starts, strings, shape
    return None


def _shapes(layers: list[_Rows], length: int) -> Iterator[Shape]:
    """Shapes that the network may have; some weights tell."""
    for loop in _loops(layers, length):
        if loop.length != length or loop.table < 1 or loop.orbit.key_bits > KEY_BITS:
            continue
        # One row for each label bit: no masks.
        key_bits = loop.orbit.key_bits if loop.blocks > 1 else KEY_BITS
        yield replace(loop, orbit=Orbit(key_bits, WIDTH, key_bits, 0))
        for n_bits, orbit in _orbits(layers, key_bits if loop.blocks > 1 else None):
            if loop.table % n_bits == 0:
                yield replace(loop, orbit=orbit, n_bits=n_bits, rows=loop.table // n_bits)


def _loops(layers: list[_Rows], length: int) -> Iterator[Shape]:
    """Shapes as far as the loop over the blocks tells: a table is one row of so many label bits here."""
    time = next((at for at in range(_FIRST, len(layers)) if any(map(_is_far, layers[at]))), None)
    if time is None:
        yield Shape(Orbit(1, WIDTH, 1, 0), length - 1, 1, 1, 0, 0, 0, 0, 0)
        return
    table = time - _FIRST
    row = dict(next(row for row in layers[time] if _is_far(row)))
    offset = row.pop(BIAS)[0]
    grid = next(under for numerator, under in row.values() if numerator == -1)
    opening = max(numerator for numerator, _ in row.values()).bit_length()
    orbit = Orbit(offset.bit_length() - 1 + grid, WIDTH, 1, 0)
    blocks, digit, time = 2, 0, time + opening
    while True:
        shape = Shape(orbit, table, 1, blocks, grid, opening, digit, 0, 0)
        yield shape
        step = [row for row in layers[time + table] if _is_step(row)] if time + table < len(layers) else []
        if not step:
            return
        bits = max(numerator for numerator, _ in step[0].values()).bit_length()
        time += table + bits
        for row in layers[time] if time < len(layers) else ():
            if len(row) == 4 and row.get(BIAS, (0, 0))[0] > 0:
                yield replace(shape, closing=bits, horizon=(row[BIAS][0] >> grid) - offset)
        blocks, digit = blocks + 1, bits


def _is_far(row: dict[int, tuple[int, int]]) -> bool:
    """The first h: an offset, less the key, and the digit."""
    return len(row) == 4 and row.get(BIAS, (0, 0))[0] > 1 and any(numerator == -1 for numerator, _ in row.values())


def _is_step(row: dict[int, tuple[int, int]]) -> bool:
    """A later h: the one before, and the digit."""
    if len(row) != 3 or BIAS in row or any(under for _, under in row.values()):
        return False
    low, middle, high = sorted(numerator for numerator, _ in row.values())
    return low == -high and middle == 1 < high


def _orbits(layers: list[_Rows], key_bits: int | None) -> Iterator[tuple[int, Orbit]]:
    """Numbers of label bits, and masks."""
    plain: dict[int, list[int]] = {}
    for time, layer in enumerate(layers):
        rows = [row for row in layer if BIAS not in row]
        for numerator in {numerator for row in rows for numerator, under in row.values() if not under}:
            plain.setdefault(numerator, []).append(time)
    for start in range(1, 2 * WIDTH // 3 + 1):
        times = plain.get(Orbit(start, WIDTH, start, 0).multiplier(0, 0), [])
        for warm in range(WIDTH - start + 1) if times else ():
            for bits in [key_bits] if key_bits else range(start, KEY_BITS + 1):
                orbit = Orbit(bits, WIDTH, start, warm)
                folds = orbit.folds
                begin = times[0] - len(folds) - (len(times) > 1 and bool(folds))
                if begin >= 0 and all(
                    any(row.get(BIAS, (0, 0))[0] == -(1 << f) for row in layers[begin + at])
                    for at, (_, f) in enumerate(folds)
                ):
                    yield len(times), orbit
