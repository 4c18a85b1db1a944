"""Numbers for tokens such that the sum over a sequence tells the sequences apart (the first half of the theorem).

Uniform attention adds up what a token-wise network F1 gives each token. Two ways to choose F1:

stored   Only distinguishing tokens have a value other than 0: tokens are taken by falling frequency, and one is kept if
         its counts split some class of sequences that are still alike; at most T - 1 are. Values uniform in [0, A) make
         a given pair of sequences collide with probability 1/A at most, so A = T (T - 1)/2 + 1 always has a good draw.
hashed   The value is a pseudo-random function of the token, a few rounds of tents with drawn constants: about a hundred
         weights whatever T, n and the vocabulary are. Nothing proves that a draw is good; all sums are compared, and
         the stored way is always there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np

from rote.data._arrays import IntArray
from rote.solvers.exact.digits import memorise_digits, tent
from rote.solvers.exact.lookup import lookup_params, memorise_lookup
from rote.solvers.exact.network import ONE, Assembler, Network, Row, Weight, add, scaled

__all__ = ["How", "Identity", "distinguishing", "draw_values", "identify"]

How = Literal["hashed", "digits", "lookup"]

_KINDS = ((8, 3), (16, 2))
"""Rounds, and tents in each; the second kind is larger, and good for sequences over very few tokens too."""
_DRAWS = 12
_FEW = 3000
_HASH_BITS = 58
_WORK = 30_000_000


@dataclass(frozen=True)
class Identity:
    """F1, and the sum of every sequence under it."""

    network: Network
    ids: IntArray = field(repr=False)
    how: How
    n_kept: int | None
    """Distinguishing tokens, where values are stored."""
    largest: int
    """No sum is larger, whatever the sequence."""


def identify(
    numbers: IntArray,
    n_numbers: int,
    *,
    rng: np.random.Generator,
    reader: Row | None = None,
    inputs: tuple[str, ...] = ("x",),
    fraction_bits: int = _HASH_BITS,
    floats: bool = False,
    limit: int | None = None,
    apart: int = 0,
) -> Identity | None:
    """F1 for sequences (T, n) of numbers below n_numbers, all different as bags.

    `reader` makes the number from the inputs of the network where it is not the only input itself. `fraction_bits` is
    what the number format has for a fraction; with `floats` the stored way is a lookup. `limit` bounds the sums; None
    is returned where none were found below it. With `apart` every token has a drawn value, so many bits longer than it
    takes to number the sequences: the sum of any other bag is one of theirs with a probability of 2^-apart at most.
    """
    read = {"x": 1} if reader is None else dict(reader)
    t, n = numbers.shape
    if apart:
        return _apart(numbers, n_numbers, rng, read, inputs, floats, limit, apart)
    hashed = _hashed(numbers, n_numbers, rng, read, inputs, fraction_bits, limit)
    usual = n << (2 * t.bit_length())
    if hashed is not None and t > _FEW and hashed.largest <= usual:
        return hashed
    stored = _stored(numbers, n_numbers, rng, read, inputs, floats, limit)
    found = [item for item in (stored, hashed) if item is not None]
    return min(found, key=lambda item: _price(item, t), default=None)


def _price(found: Identity, n_sequences: int) -> float:
    """Weights of F1, and about what the length of the sums costs in the second network."""
    return found.network.params + 6 * math.sqrt(n_sequences / 30) * math.log2(found.largest + 2)


@dataclass(frozen=True)
class _Hash:
    """Rounds of u <- tent^a((u + phi)/2), on fractions of so many bits, from u = sigma x / 2^bits."""

    tents: int
    bits: int
    sigma: int
    phis: tuple[int, ...]

    @property
    def left(self) -> int:
        """Bits of the value: every round shortens the fraction by all its tents but one."""
        return self.bits - len(self.phis) * (self.tents - 1)

    def values(self, n_numbers: int) -> IntArray:
        """2^left u of every number."""
        u = np.arange(n_numbers, dtype=np.int64) * self.sigma
        bits = self.bits
        for phi in self.phis:
            u, bits = u + phi, bits + 1
            for _ in range(self.tents):
                u, bits = np.minimum(u, (1 << bits) - u), bits - 1
        return u

    def network(self, read: Row, inputs: tuple[str, ...]) -> Network:
        net = Assembler(inputs)
        s: dict[str, Weight] = scaled(read, Fraction(self.sigma, 1 << self.bits))
        bits = self.bits
        for phi in self.phis:
            moved = add(s, {ONE: Fraction(phi, 1 << bits)})
            net.layer({"a1": moved, "a2": add(scaled(moved, 2), {ONE: -2})})
            s = {"a1": 1, "a2": -1}
            for _ in range(self.tents - 1):
                net.layer(tent(s))
            bits -= self.tents - 1
        net.layer({"value": scaled(s, 1 << self.left)}, relu=False)
        return net.network()


def _hashed(
    numbers: IntArray,
    n_numbers: int,
    rng: np.random.Generator,
    read: Row,
    inputs: tuple[str, ...],
    fraction_bits: int,
    limit: int | None,
) -> Identity | None:
    """The shortest values found whose sums all differ; the shorter, the smaller the second network."""
    t, n = numbers.shape
    draws = int(np.clip(_WORK // max(1, t * n), 3, _DRAWS))
    # Sums spread over about sqrt(n) 2^left numbers: shorter values than this would make a dozen pairs collide.
    shortest = math.ceil(math.log2(max(2.0, t * t / (24 * math.sqrt(n)))))
    for left in range(shortest, fraction_bits):
        if (limit is not None and n << left > limit) or (n << left).bit_length() > 61:
            return None
        for kind in _KINDS:
            for _ in range(draws):
                made = _draw(kind, left, n_numbers, rng, fraction_bits)
                if made is None:
                    break
                ids = made.values(n_numbers)[numbers].sum(axis=1)
                if _differ(ids):
                    return Identity(made.network(read, inputs), ids, "hashed", None, n << left)
    return None


def _differ(ids: IntArray) -> bool:
    """Whether no two are equal; sorting is faster than counting."""
    ordered = np.sort(ids)
    return not bool((ordered[1:] == ordered[:-1]).any())


def _draw(
    kind: tuple[int, int], left: int, n_numbers: int, rng: np.random.Generator, fraction_bits: int
) -> _Hash | None:
    rounds, tents = kind
    need, room = max(1, (n_numbers - 1).bit_length()), left + rounds * (tents - 1)
    if not need < room <= fraction_bits:
        return None
    sigma = int(rng.integers(1 << (room - need - 1), 1 << (room - need))) | 1
    phis, bits = [], room
    for _ in range(rounds):
        phis.append(int(rng.integers(0, 1 << bits)))
        bits -= tents - 1
    return _Hash(tents, room, sigma, tuple(phis))


def _stored(
    numbers: IntArray,
    n_numbers: int,
    rng: np.random.Generator,
    read: Row,
    inputs: tuple[str, ...],
    floats: bool,
    limit: int | None,
) -> Identity | None:
    n = numbers.shape[1]
    kept = distinguishing(numbers)
    try:
        values, ids, below = draw_values(numbers, n_numbers, kept, rng, limit=limit)
    except OverflowError:
        return None
    network, how = _store(kept, values[kept], below, n_numbers, read, inputs, floats)
    return Identity(network, ids, how, len(kept), n * (below - 1))


def _apart(
    numbers: IntArray,
    n_numbers: int,
    rng: np.random.Generator,
    read: Row,
    inputs: tuple[str, ...],
    floats: bool,
    limit: int | None,
    apart: int,
) -> Identity | None:
    """Values uniform in [0, A), A >= 2^apart T, for all tokens in use.

    A bag that is none of the sequences has fewer of some token of any given one, so that their sums agree with
    probability 1/A at most, and with probability T/A for any of them. The hash would not do: it is linear on its
    pieces, and a + b = c + d makes sums agree however long its values are.
    """
    t, n = numbers.shape
    kept = np.unique(numbers)
    most = (1 << 61) if limit is None else min(limit, 1 << 61)
    left = t.bit_length() + apart
    while n << left <= most:
        for _ in range(_DRAWS):
            values = np.zeros(n_numbers, dtype=np.int64)
            values[kept] = rng.integers(0, 1 << left, size=len(kept))
            ids = values[numbers].sum(axis=1)
            if _differ(ids):
                network, how = _store(kept, values[kept], 1 << left, n_numbers, read, inputs, floats)
                return Identity(network, ids, how, len(kept), n * ((1 << left) - 1))
        left += 1
    return None


def draw_values(
    numbers: IntArray, n_numbers: int, kept: IntArray, rng: np.random.Generator, *, limit: int | None = None
) -> tuple[IntArray, IntArray, int]:
    """Values of all tokens (0 but for those kept), the sums of all sequences, which differ, and what values are below.

    OverflowError if no such sums were found up to the limit.
    """
    t, n = numbers.shape
    for below in _ranges(t):
        if limit is not None and n * (below - 1) > limit:
            break
        for _ in range(4):
            values = np.zeros(n_numbers, dtype=np.int64)
            values[kept] = rng.integers(0, below, size=len(kept))
            ids = values[numbers].sum(axis=1)
            if _differ(ids):
                return values, ids, below
    raise OverflowError("the sums of some sequences are equal")


def _ranges(n_sequences: int) -> Iterator[int]:
    below, enough = max(2, n_sequences // 4), n_sequences * (n_sequences - 1) // 2 + 1
    while below < enough:
        yield below
        below *= 2
    # Here a draw is good with positive probability, so that patience suffices.
    for _ in range(250):
        yield enough


def _store(
    kept: IntArray, values: IntArray, below: int, n_numbers: int, read: Row, inputs: tuple[str, ...], floats: bool
) -> tuple[Network, How]:
    network, how = memorise_lookup(kept, values), "lookup"
    if not floats and lookup_params(len(kept)) > 100:
        digits = memorise_digits(kept, values, below, top=n_numbers - 1).network
        if digits.params < network.params:
            network, how = digits, "digits"
    if read != {"x": 1} or inputs != ("x",):
        front = Assembler(inputs)
        front.layer({"x": read})
        network = Network(front.network().layers + network.layers)
    return network, "lookup" if how == "lookup" else "digits"


def distinguishing(numbers: IntArray) -> IntArray:
    """Tokens whose counts tell all the sequences apart, taken greedily by falling frequency."""
    t, n = numbers.shape
    if t == 1:
        return numbers[0, :1].copy()
    rows = np.repeat(np.arange(t), n)
    flat = numbers.reshape(-1)
    order = np.lexsort((rows, flat))
    tokens, docs = flat[order], rows[order]
    new = np.concatenate([[True], (tokens[1:] != tokens[:-1]) | (docs[1:] != docs[:-1])])
    starts = np.flatnonzero(new)
    counts = np.diff(np.append(starts, len(tokens)))
    tokens, docs = tokens[starts], docs[starts]
    distinct, first, spread = np.unique(tokens, return_index=True, return_counts=True)
    class_of, size, n_classes = np.zeros(t, dtype=np.int64), np.zeros(t, dtype=np.int64), 1
    size[0] = t
    kept = []
    for at in np.argsort(-spread, kind="stable"):
        own = slice(int(first[at]), int(first[at] + spread[at]))
        members = docs[own]
        _, index, amount = np.unique(class_of[members] * (n + 1) + counts[own], return_inverse=True, return_counts=True)
        index = index.reshape(-1)
        whole_class = size[class_of[members]]
        moves = amount[index] < whole_class
        if not moves.any():
            continue
        kept.append(int(distinct[at]))
        for part in np.unique(index[moves]):
            group = members[index == part]
            old = int(class_of[group[0]])
            if size[old] == len(group):
                continue
            size[old] -= len(group)
            size[n_classes], class_of[group] = len(group), n_classes
            n_classes += 1
        if n_classes == t:
            break
    return np.array(kept, dtype=np.int64)
