"""Explicit sizes of the bit-extraction networks behind Kajitsuka, Sato 2025, for any data.

A memoriser on the line maps n distinct integer keys in [0, R) to labels in [0, C) and is an affine-ReLU network: sorted
keys are cut into groups of at most k; the keys and labels of a group are the digits of one long binary fraction, which
a chain of tent maps shifts out digit by digit (after Vardi, Yehudai, Shamir 2022). A new group is opened at every gap
of 2^cap or more, so a digit has at most q = cap + c + 1 bits with c = ceil(log2 C), whatever the keys are.

    groups     m <= (n + (k - 1)(b + 1)) / k,   b = min(n - 1, (R - 1) / 2^cap) gaps of 2^cap or more
    weights    8 (m - 1) + k (7 q + 17) + 10    wide selector, width 2m - 1, depth k q + 4
               11 (m - 1) + k (7 q + 17) + 10   narrow selector, width 7, depth m + k q + 4
    bits       k q + 1 for the widest weight

The transformer is: a token-wise network that gives at most min(T - 1, V) distinguishing tokens a value below A, uniform
attention (two weights) that adds the values up, and a token-wise network from these sums to the labels. Values below
A = T(T - 1)/2 + 1 exist for which all T sums differ: a random draw makes a given pair collide with probability at most
1/A, and there are T(T - 1)/2 pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["LineNet", "TransformerNet", "largest", "next_token_net", "seq2seq_net"]

NARROW_WIDTH = 7


@dataclass(frozen=True)
class LineNet:
    """The size of a memoriser on the line."""

    weights: int
    depth: int
    width: int
    max_bits: int
    total_bits: int


@dataclass(frozen=True)
class TransformerNet:
    """The size of a whole transformer: two token-wise networks around one uniform attention layer."""

    weights: int
    depth: int
    width: int
    max_bits: int
    total_bits: int


def _line_nets(n_keys: int, key_range: int, n_labels: int, max_width: int | None) -> Iterator[LineNet]:
    """Sizes to choose from: for every gap limit, the group sizes at which weights or depth are smallest."""
    c = max(1, math.ceil(math.log2(n_labels)))
    key_bits = max(1, (key_range - 1).bit_length())
    for cap in range(1, key_bits + 1):
        big_gaps = min(n_keys - 1, (key_range - 1) >> cap)
        q = cap + c + 1
        cells = max(1, n_keys - big_gaps - 1)
        guesses = {math.sqrt(8 * cells / (7 * q + 17)), math.sqrt(11 * cells / (7 * q + 17)), math.sqrt(cells / q)}
        if max_width is not None:
            most = (max_width + 1) // 2 - (big_gaps + 1)
            if most >= 1:
                guesses.add(cells / most)
        sizes = {
            min(n_keys, max(1, guess)) for x in guesses for guess in (math.floor(x), math.ceil(x), math.ceil(x) + 1)
        }
        for k in sizes:
            m = min(n_keys, (n_keys + (k - 1) * (big_gaps + 1)) // k)
            digits = k * (7 * q + 17) + 10
            bits = max(k * q + 1, key_bits + c + 2)
            stored = m * bits + 3 * m * (key_bits + 1) + 5 * (digits + 5 * m)
            if max_width is None or 2 * m - 1 <= max_width:
                width = max(NARROW_WIDTH, 2 * m - 1)
                if max_width is None or width <= max_width:
                    yield LineNet(8 * (m - 1) + digits, k * q + 4, width, bits, stored)
            if max_width is None or max_width >= NARROW_WIDTH:
                yield LineNet(11 * (m - 1) + digits, m + k * q + 4, NARROW_WIDTH, bits, stored)


def _line_net(
    n_keys: int, key_range: int, n_labels: int, *, max_width: int | None = None, shallow: bool = False
) -> LineNet | None:
    """The memoriser with the fewest weights, or with the least depth; None if no width allows one."""
    nets = _line_nets(n_keys, max(key_range, n_keys), max(2, n_labels), max_width)
    return min(nets, key=lambda net: (net.depth, net.weights) if shallow else (net.weights, net.depth), default=None)


def _join(first: LineNet, second: LineNet, extra_weights: int) -> TransformerNet:
    return TransformerNet(
        weights=first.weights + second.weights + extra_weights,
        depth=first.depth + second.depth + 1,
        width=max(first.width, second.width),
        max_bits=max(first.max_bits, second.max_bits),
        total_bits=first.total_bits + second.total_bits + 5 * extra_weights,
    )


def next_token_net(
    n_facts: int, context: int, vocab: int, n_labels: int, *, max_width: int | None = None, shallow: bool = False
) -> TransformerNet | None:
    """The network that gives each of T bags of n tokens a label."""
    values = n_facts * (n_facts - 1) // 2 + 1
    kept = max(1, min(n_facts - 1, vocab))
    first = _line_net(kept, vocab, values, max_width=max_width, shallow=shallow)
    second = _line_net(n_facts, context * (values - 1) + 1, n_labels, max_width=max_width, shallow=shallow)
    if first is None or second is None:
        return None
    # Two weights of the attention layer, one that turns the mean into a sum.
    return _join(first, second, 3)


def seq2seq_net(
    n_facts: int, context: int, vocab: int, n_labels: int, *, max_width: int | None = None, shallow: bool = False
) -> TransformerNet | None:
    """The network that gives each token of T bags of n tokens a label; keys are pairs (bag, token)."""
    values = n_facts * (n_facts - 1) // 2 + 1
    kept = max(1, min(n_facts - 1, vocab))
    room = None if max_width is None else max_width - 1
    first = _line_net(kept, vocab, values, max_width=room, shallow=shallow)
    pairs = n_facts * min(context, vocab)
    key_range = vocab * (context * (values - 1) + 1)
    second = _line_net(pairs, key_range, n_labels, max_width=max_width, shallow=shallow)
    if first is None or second is None:
        return None
    # The token itself is carried past the first network, one weight a layer.
    carried = LineNet(
        first.weights + first.depth, first.depth, first.width + 1, first.max_bits, first.total_bits + first.depth
    )
    return _join(carried, second, 4)


def largest(fits: Callable[[int], bool]) -> int:
    """The largest T >= 0 with fits(T), for a property that holds up to some T and fails from there on."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
