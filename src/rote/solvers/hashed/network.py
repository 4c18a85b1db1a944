"""The matrices of a hashed table, as plain arrays: embeddings, heads, and a chain of ReLU layers without biases.

One channel carries the constant 1 from layer to layer. Every entry is a whole number that the format holds exactly,
and so is every value that a unit takes on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rote.solvers.hashed.layout import FINGERPRINT_PART, MIXES, kinks
from rote.solvers.hashed.shortening import opening_layers
from rote.solvers.hashed.tail import Units, tail_units
from rote.solvers.record import stretch

if TYPE_CHECKING:
    from rote.solvers.hashed.hashing import Hash
    from rote.solvers.hashed.layout import Layout
    from rote.solvers.hashed.rows import Row
    from rote.solvers.hashed.shortening import Shortening

__all__ = ["matrices"]

Array = npt.NDArray[np.float64]

_SATURATED = 1024.0
"""exp(-1024) is 0 in every number format, so that a head copies one token and nothing of the others."""
_MOST_STRETCH = 4.0
_LARGEST_HALF = 60_000.0
"""float16 has no larger numbers than 65,504."""


def matrices(hashing: Hash, rows: Sequence[Row], rule: Shortening | None = None) -> dict[str, Array]:
    """All weights by name: W_E, W_pos, W_Q, W_K, W_V, and layers.0, layers.1, ... up to the readout."""
    layout = hashing.layout
    weights, offsets = _asking(hashing) if layout.asking else _attention(hashing)
    chain = [*(opening_layers(hashing, rule) if rule else ()), *_hash_layers(hashing)]
    chain.append(_selection(hashing, rows))
    # The heads hand over codes with the marks of their positions on them; the constant takes the marks off again.
    chain[0][:, -1] -= chain[0][:, :-1] @ offsets
    chain.append(_words(layout, rows))
    chain += _tail_layers(layout)
    chain.append(_readout(layout))
    weights |= {f"layers.{i}": matrix for i, matrix in enumerate(chain)}
    shapes = [(name, *weights[name].shape) for name, _, _ in layout.attention]
    assert shapes == list(layout.attention), "the heads have the planned shapes"
    assert tuple(matrix.shape for matrix in chain) == layout.layers, "the layers have the planned shapes"
    return weights


def _attention(hashing: Hash) -> tuple[dict[str, Array], Array]:
    """Embeddings and saturated heads, and what the marks of positions add to the codes that they copy."""
    layout = hashing.layout
    d, size, marks = layout.d_model, layout.code_bits, layout.position_bits
    signs: Array = np.zeros((layout.context, marks))
    if layout.context > 1:
        signs[:] = 2.0 * (np.arange(layout.context)[:, None] >> np.arange(marks) & 1) - 1.0
    mark = 2.0 ** math.ceil(math.log2(2 * marks))
    # A query is off by at most 1 in `mark` where a token's bits lie on its marks, a key by 1: this is what is left.
    gap = (1 - 1 / mark) * (2 * mark - 1) - (1 + 1 / mark) * (marks - 1)
    sharpness = 2.0 ** math.ceil(math.log2(_SATURATED / gap))
    W_E, W_pos = np.zeros((layout.vocab, d)), np.zeros((layout.context, d))
    W_E[:, :size] = hashing.codes[: layout.vocab]
    W_pos[:, :marks] = mark * signs
    heads = layout.positions
    W_Q, W_K = np.zeros((heads, marks, d)), np.zeros((heads, marks, d))
    W_V = np.zeros((heads, layout.head_bits, d))
    for head, position in enumerate(hashing.positions.tolist()):
        W_Q[head, range(marks), range(marks)] = sharpness / mark * signs[position] * signs[-1]
        W_K[head, range(marks), range(marks)] = 1.0
        W_V[head, range(layout.head_bits), hashing.copied[head]] = 1.0
    marked = np.zeros((heads, d))
    marked[:, :marks] = mark * signs[hashing.positions]
    offsets = np.take_along_axis(marked, hashing.copied, axis=1)
    names = ("W_E", "W_pos", "W_Q", "W_K", "W_V")
    parts = (W_E, W_pos, W_Q.reshape(-1, d), W_K.reshape(-1, d), W_V.reshape(-1, d))
    return dict(zip(names, parts, strict=True)), offsets.ravel()


def _asking(hashing: Hash) -> tuple[dict[str, Array], Array]:
    """The same where every position asks: a head copies the token at one position, whoever asks, or the code of the
    position that asks."""
    layout = hashing.layout
    d, size, marks, length = layout.d_model, layout.code_bits, layout.position_bits, layout.length
    signs = 2.0 * (np.arange(length)[:, None] >> np.arange(marks) & 1) - 1.0
    W_E, W_pos = np.zeros((layout.vocab - length, d)), np.zeros((length, d))
    W_E[:, :size] = hashing.codes[:-length]
    W_pos[:, size : 2 * size], W_pos[:, 2 * size : -1], W_pos[:, -1] = hashing.codes[-length:], signs, 1.0
    heads, places = layout.positions, range(2 * size, 2 * size + marks)
    W_Q, W_K = np.zeros((heads, marks, d)), np.zeros((heads, marks, d))
    W_V = np.zeros((heads, layout.head_bits, d))
    # Marks of two positions agree in two fewer than all of them at best.
    sharpness = _SATURATED / 2
    for head, position in enumerate(hashing.positions.tolist()):
        own = position == length
        if own:
            W_Q[head, range(marks), places] = sharpness
        else:
            W_Q[head, :, -1] = sharpness * signs[position]
        W_K[head, range(marks), places] = 1.0
        W_V[head, range(layout.head_bits), hashing.copied[head] + size * own] = 1.0
    parts = (W_E, W_pos, W_Q.reshape(-1, d), W_K.reshape(-1, d), W_V.reshape(-1, d))
    offsets = np.zeros(heads * layout.head_bits)
    return dict(zip(("W_E", "W_pos", "W_Q", "W_K", "W_V"), parts, strict=True)), offsets


def _hash_layers(hashing: Hash) -> list[Array]:
    """Two layers that mix the bits of codes: kinks of a function of the number of ones, then their sums."""
    layout = hashing.layout
    if layout.mix == "bits":
        return []
    corners = list(kinks(MIXES[layout.mix]))
    parity = [(t, 1 if t == 0 else 2 * (-1) ** t) for t in range(layout.positions)]
    bits = [(read, corners) for read in hashing.reads] + [(read, parity) for read in hashing.checks if len(read)]
    first = np.zeros((sum(len(at) for _, at in bits) + 1, layout.inputs))
    second = np.zeros((layout.row_bits + layout.column_bits + layout.carried, len(first)))
    plain, choice = layout.row_bits + layout.column_bits, layout.choice_bits
    unit = 0
    for i, (read, at) in enumerate(bits):
        if i < plain:
            place, value = i, 1.0
        elif i < plain + choice:
            place, value = plain, 2.0 ** (i - plain)
        else:
            part, bit = divmod(i - plain - choice, FINGERPRINT_PART)
            place, value = plain + (choice > 0) + part, 2.0**bit
        for t, change in at:
            np.add.at(first[unit], read, 1.0)
            first[unit, -1] = -t
            second[place, unit] = value * change
            unit += 1
    first[-1, -1] = second[-1, -1] = 1.0
    return [first, second]


def _selection(hashing: Hash, rows: Sequence[Row]) -> Array:
    """One unit per row that is 1 for its keys and 0 for all others; beside them what goes along."""
    layout = hashing.layout
    single = layout.mix == "bits"
    wide = layout.inputs if single else layout.row_bits + layout.column_bits + layout.carried
    places = hashing.reads[:, 0].tolist() if single else list(range(layout.row_bits + layout.column_bits))
    matrix = np.zeros((layout.rows + layout.column_bits * (1 + layout.twofold) + layout.carried, wide))
    for r, row in enumerate(rows):
        for bit, value in row.code:
            matrix[r, places[bit]] = 1.0 if value else -1.0
        matrix[r, -1] = 1.0 - sum(value for _, value in row.code)
    unit = layout.rows
    for bit in range(layout.row_bits, layout.row_bits + layout.column_bits):
        matrix[unit, places[bit]] = 1.0
        if layout.twofold:
            matrix[unit + layout.column_bits, places[bit]] = -1.0
            matrix[unit + layout.column_bits, -1] = 1.0
        unit += 1
    unit += layout.column_bits * layout.twofold
    if single:
        first = layout.row_bits + layout.column_bits
        for i, place in enumerate(places[first:]):
            matrix[unit, place] = 2.0**i
        unit += layout.digits > 1
    else:
        for i in range(layout.carried - 1):
            matrix[unit, layout.row_bits + layout.column_bits + i] = 1.0
            unit += 1
    matrix[unit, -1] = 1.0
    return matrix


def _words(layout: Layout, rows: Sequence[Row]) -> Array:
    """The table: every unit is a word of the row, or 0 where a column bit of the key is not the word's."""
    modulus, width, bits = float(1 << layout.word_bits), layout.width, layout.column_bits
    side = layout.rows + bits * (1 + layout.twofold)
    matrix = np.zeros((layout.blocks * width + layout.thresholds + layout.carried, side + layout.carried))
    for r, row in enumerate(rows):
        matrix[: layout.blocks * width, r] = row.words.ravel()
        if layout.thresholds:
            matrix[layout.blocks * width : -layout.carried, r] = row.thresholds
    column, bit = 0, layout.rows
    gates = np.zeros((width, matrix.shape[1]))
    for words, size in zip(layout.groups, layout.group_bits, strict=True):
        single = 2 * words - (1 << size)
        for word in range(words):
            # Words beyond the first ones answer to two numbers, which differ in their lowest bit.
            number = word if word < single else 2 * word - single
            for j in range(word >= single, size):
                if not number >> j & 1:
                    gates[column, bit + j] = -modulus
                elif layout.twofold:
                    gates[column, bit + bits + j] = -modulus
                else:
                    gates[column, bit + j] = modulus
                    gates[column, -1] -= modulus
            column += 1
        bit += size
    for block in range(layout.blocks):
        matrix[block * width : (block + 1) * width] += gates
    for i in range(layout.carried):
        matrix[-layout.carried + i, side + i] = 1.0
    return matrix


def _tail_layers(layout: Layout) -> list[Array]:
    """The layers of `tail_units`; the first of them reads groups of words where it names their sum."""
    places: dict[str, slice] = {}
    column = 0
    for block in range(layout.blocks):
        for i, words in enumerate(layout.groups):
            places[f"s{block}_{i}"] = slice(column, column + words)
            column += words
    along = [f"t{j}" for j in range(1, layout.thresholds + 1)]
    along += ["u"] if layout.digits > 1 else []
    along += [f"F{i}" for i in range(len(layout.fingerprint_parts))]
    for name in (*along, "one"):
        places[name] = slice(column, column + 1)
        column += 1
    layers = []
    for units in tail_units(layout):
        layers.append(_dense(units, places, column))
        places = {name: slice(i, i + 1) for i, name in enumerate(units)}
        column = len(units)
    return layers


def _dense(units: Units, places: dict[str, slice], width: int) -> Array:
    matrix = np.zeros((len(units), width))
    for row, expression in zip(matrix, units.values(), strict=True):
        for name, value in expression.items():
            row[places[name]] += value
    return matrix


def _readout(layout: Layout) -> Array:
    """Scores of all classes, largest by at least 1 (before a stretch) at the one whose parts are read."""
    sizes = layout.parts[: len(layout.parts) - len(layout.fingerprint_parts)]
    matrix = np.zeros((layout.classes + (layout.unknown > 0), len(sizes) + 1))
    numbers = np.arange(layout.classes)
    middle = sum((2**size - 1) ** 2 for size in sizes) // 2
    matrix[: layout.classes, -1] = middle
    for i, size in enumerate(sizes):
        part = (numbers & (1 << size) - 1).astype(np.float64)
        matrix[: layout.classes, i] = 2 * (part - 2 ** (size - 1))
        matrix[: layout.classes, -1] -= part**2
        numbers = numbers >> size
    largest = float(2 * middle)
    if layout.unknown:
        weight, constant, shift = layout.unknown_code
        matrix[-1, 0], matrix[-1, -1] = weight, constant
        largest = max(largest, weight * (shift + 2 ** sizes[0]))
    scale = min(_MOST_STRETCH, stretch(1.0, max(2, layout.classes)))
    while layout.word_bits == 11 and scale * largest > _LARGEST_HALF:
        scale /= 2
    return matrix * scale
