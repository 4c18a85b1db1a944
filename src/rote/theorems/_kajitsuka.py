"""Explicit sizes of the bit-extraction networks behind Kajitsuka, Sato 2025, for any data.

A memoriser on the line (`solvers.exact.digits`) maps n distinct integer keys in [0, R) to labels in [0, C): sorted keys
are cut into groups of k; the keys and labels of a group are the digits of one long binary fraction, which a chain of
tent maps shifts out digit by digit (after Vardi, Yehudai, Shamir 2022). Gaps of 2^cap and more are bridged by keys with
label 0, so a digit has at most q = cap + c + 1 bits with c = ceil(log2 C), whatever the keys are; the first digit of a
group is absolute and has at most q_1 = log2 R + c + 1.

    keys       n' <= n + (R - n) / (2^cap - 1), groups m = ceil(n' / k)
    weights    5 (m - 1) + k (6 q + 14) + 6 (q_1 - q) and a little: `digit_params` counts them all
               7 (m - 1) + ... with the narrow selector, which is never wider than 7
    depth      q_1 + (k - 1) q + a few layers, and m more with the narrow selector
    bits       q_1 + (k - 1) q + 1 for the widest weight

The transformer is: a token-wise network that gives at most min(T - 1, V) distinguishing tokens a value below A, uniform
attention (two weights) that adds the values up, and a token-wise network from these sums to the labels. Values below
A = T(T - 1)/2 + 1 exist for which all T sums differ: a random draw makes a given pair collide with probability at most
1/A, and there are T(T - 1)/2 pairs.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from rote.solvers.exact.digits import DigitShape, digit_params, label_bits

__all__ = ["LineNet", "TransformerNet", "largest", "line_net", "next_token_net", "seq2seq_net"]

NARROW_WIDTH = 7


@dataclass(frozen=True)
class LineNet:
    """The size of a memoriser on the line, and how it comes about."""

    weights: int
    depth: int
    width: int
    max_bits: int
    total_bits: int
    cap: int
    shape: DigitShape


@dataclass(frozen=True)
class TransformerNet:
    """The size of a whole transformer: two token-wise networks around one uniform attention layer."""

    weights: int
    depth: int
    width: int
    max_bits: int
    total_bits: int
    first: LineNet
    second: LineNet


def _line_nets(n_keys: int, key_range: int, n_labels: int, max_width: int | None) -> Iterator[LineNet]:
    """Sizes to choose from: for every gap limit, the group sizes at which weights or depth are smallest."""
    c = label_bits(n_labels)
    key_bits = max(1, (key_range - 1).bit_length())
    for cap in range(1, key_bits + 1):
        n_items = n_keys + (0 if n_keys == 1 else (key_range - n_keys) // ((1 << cap) - 1))
        if n_items > 4 * n_keys + 8:
            continue
        q = cap + c + 1
        best = {math.sqrt(w * n_items / (6 * q + 14)) for w in (5, 7)} | {math.sqrt(n_items / q)}
        if max_width:
            best.add(n_items / max_width)
        for k in {min(n_items, max(1, guess)) for x in best for guess in (math.floor(x), math.ceil(x))}:
            m = -(-n_items // k)
            for narrow in (False, True):
                width = NARROW_WIDTH if narrow else max(NARROW_WIDTH, m)
                if max_width is None or width <= max_width:
                    for merged in (True, False):
                        shape = DigitShape(k, key_bits + c + 1, q, c, key_range - 1, 0, merged, narrow)
                        yield _sized(shape, n_items, m, width, key_bits, cap)


def _sized(shape: DigitShape, n_items: int, m: int, width: int, key_bits: int, cap: int) -> LineNet:
    weights = digit_params(n_items, shape)
    c, k, gain = shape.label_bits, shape.items, shape.gain.bit_length() + shape.label_bits
    depth = (m + 1 if shape.narrow else 3) + 1 + shape.code_bits + 2 + (c + 1 if shape.merged else 1)
    # Codes once each, thresholds, what compares keys, labels on their way; the rest are 1, 2 and 4.
    large = m * (shape.code_bits + 1 + key_bits + 2) + k * (2 * (shape.bits + 2) + 6 * (gain + 2)) + 14 * c * (gain + 2)
    return LineNet(
        weights,
        depth,
        width,
        max(shape.code_bits + 1, gain + 2, key_bits + c + 4),
        large + 4 * weights + 64,
        cap,
        shape,
    )


@lru_cache(maxsize=16_384)
def line_net(
    n_keys: int, key_range: int, n_labels: int, *, max_width: int | None = None, shallow: bool = False
) -> LineNet | None:
    """The memoriser with the fewest weights, or with the least depth; None if no width allows one."""
    if max_width is not None and max_width < NARROW_WIDTH:
        return None
    nets = _line_nets(n_keys, max(key_range, n_keys), max(2, n_labels), max_width)
    return min(nets, key=lambda net: (net.depth, net.weights) if shallow else (net.weights, net.depth), default=None)


def _join(first: LineNet, second: LineNet, extra_weights: int) -> TransformerNet:
    return TransformerNet(
        weights=first.weights + second.weights + extra_weights,
        # Attention, and the neuron that turns its mean into a key.
        depth=first.depth + second.depth + 2,
        width=max(first.width, second.width),
        max_bits=max(first.max_bits, second.max_bits),
        total_bits=first.total_bits + second.total_bits + 64 * extra_weights,
        first=first,
        second=second,
    )


def next_token_net(
    n_facts: int, context: int, vocab: int, n_labels: int, *, max_width: int | None = None, shallow: bool = False
) -> TransformerNet | None:
    """The network that gives each of T bags of n tokens a label."""
    values = n_facts * (n_facts - 1) // 2 + 1
    kept = max(1, min(n_facts - 1, vocab))
    first = line_net(kept, vocab, values, max_width=max_width, shallow=shallow)
    second = line_net(n_facts, context * (values - 1) + 1, n_labels, max_width=max_width, shallow=shallow)
    if first is None or second is None:
        return None
    # Two weights of the attention layer, one of the neuron that turns the mean into a sum.
    return _join(first, second, 3)


def seq2seq_net(
    n_facts: int, context: int, vocab: int, n_labels: int, *, max_width: int | None = None, shallow: bool = False
) -> TransformerNet | None:
    """The network that gives each token of T bags of n tokens a label; keys are pairs (bag, token)."""
    values = n_facts * (n_facts - 1) // 2 + 1
    kept = max(1, min(n_facts - 1, vocab))
    room = None if max_width is None else max_width - 1
    first = line_net(kept, vocab, values, max_width=room, shallow=shallow)
    pairs = n_facts * min(context, vocab)
    key_range = vocab * (context * (values - 1) + 1)
    second = line_net(pairs, key_range, n_labels, max_width=max_width, shallow=shallow)
    if first is None or second is None:
        return None
    # The token itself is carried past the first network, one weight a layer.
    carried = replace(
        first,
        weights=first.weights + first.depth,
        width=first.width + 1,
        total_bits=first.total_bits + 2 * first.depth,
    )
    return _join(carried, second, 4)


def largest(fits: Callable[[int], bool]) -> int:
    """The largest T >= 0 with fits(T), for a property that holds up to some T and fails from there on."""
    if not fits(1):
        return 0
    high = 2
    while fits(high):
        high *= 2
    return bisect_left(range(high), True, lo=high // 2 + 1, key=lambda t: not fits(t)) - 1
