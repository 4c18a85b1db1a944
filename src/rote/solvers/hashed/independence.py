"""How many keys a row holds: the chance that random keys read dependent words, bounded from above.

n keys each read one word, independently, from each of a groups of m_1, ..., m_a words. Their system has a solution for
every right-hand side if no set of keys reads every word an even number of times. If word c of a group of m is read with
probability p_c, s keys do that there with probability

    even(m, s) = mean over all signs e of (e_1 p_1 + ... + e_m p_m)^s,

so that the expected number of such sets, and with it the chance of failure, is at most

    delta(n) = sum over s = 2, 4, ... <= n of C(n, s) even(m_1, s) ... even(m_a, s).

Words that no key reads are of no use, nor are those that only keys read which are settled by words of their own. What
is left when all of these are taken away is the core, and its keys need as many words.

A word is named by k bits of the key, 2^(k-1) < m <= 2^k: 2^k - m words are read by two numbers each, the others by one.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

__all__ = ["bits_for", "core", "failure_bound", "most_keys"]

FloatArray = npt.NDArray[np.float64]
_LONGEST = 1 << 14
_ROUNDS = 40


@lru_cache(maxsize=4)
def _log_factorials(size: int) -> FloatArray:
    return np.array([math.lgamma(i + 1.0) for i in range(size + 1)])


def _log_binomials(n: int) -> FloatArray:
    logs = _log_factorials(_LONGEST if n <= _LONGEST else n)
    return np.asarray(logs[n] - logs[: n + 1] - logs[n::-1][: n + 1])


@lru_cache(maxsize=1 << 14)
def bits_for(words: int) -> int:
    """Bits that name one of so many words."""
    return max(1, (words - 1).bit_length())


@lru_cache(maxsize=512)
def _log_signs(words: int) -> tuple[FloatArray, FloatArray]:
    """(log T / 2^k, log of the chance of T or -T) for the sums T > 0 of random signs over the numbers of a group."""
    whole = 1 << bits_for(words)
    twice = whole - words
    once = words - twice
    single = _log_binomials(once) - once * math.log(2.0)
    double = _log_binomials(twice) - twice * math.log(2.0)
    # Sums run from -2^k to 2^k in steps of two; doubled words move them by four.
    total = np.full(whole + 1, -np.inf)
    for j, log in enumerate(double):
        part = total[2 * j : 2 * j + once + 1]
        part[:] = np.logaddexp(part, single + log)
    sums = np.arange(-whole, whole + 1, 2)
    kept = (sums > 0) & np.isfinite(total)
    # The other half is the same.
    return np.log(sums[kept] / whole), total[kept] + math.log(2.0)


@lru_cache(maxsize=512)
def _log_even(words: int, most: int) -> FloatArray:
    """log even(words, s) for s = 2, 4, ..., most."""
    logs, weights = _log_signs(words)
    result = np.empty(most // 2)
    for start in range(0, len(result), 512):
        s = np.arange(2 * start + 2, 2 * min(len(result), start + 512) + 2, 2)
        terms = weights[None, :] + s[:, None] * logs[None, :]
        top = terms.max(axis=1)
        result[start : start + len(s)] = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
    return result


def failure_bound(keys: int, groups: tuple[int, ...]) -> float:
    """delta(n) for n keys and groups of so many words each; it bounds a chance, and says nothing from 1 on."""
    if keys < 2:
        return 0.0
    most = 1 << max(6, (keys - 1).bit_length())
    terms = _log_binomials(keys)[2 : keys + 1 : 2].copy()
    for words in groups:
        terms += _log_even(words, most)[: len(terms)]
    top = float(terms.max())
    return math.exp(min(20.0, top + math.log(float(np.exp(terms - top).sum()))))


@lru_cache(maxsize=8192)
def most_keys(groups: tuple[int, ...], chance: float) -> int:
    """The largest number of keys that fail with at most this chance."""
    low, high = 1, sum(groups)
    while low < high:
        middle = (low + high + 1) // 2
        if failure_bound(middle, groups) <= chance:
            low = middle
        else:
            high = middle - 1
    return low


def core(keys: int, groups: tuple[int, ...]) -> tuple[float, float]:
    """(keys, words) of the core, on average over many keys: every word of it is read by two or more of its keys."""
    numbers = [1 << bits_for(words) for words in groups]
    # Shares of the numbers of a group that name words of one number each, and words of two.
    single = [2 * words / whole - 1.0 for words, whole in zip(groups, numbers, strict=True)]
    met = [1.0] * len(groups)
    for _ in range(_ROUNDS):
        every = math.prod(met)
        if every < 1e-6:
            return 0.0, 0.0
        rates = [keys / whole * every / one for whole, one in zip(numbers, met, strict=True)]
        met = [1.0 - s * math.exp(-r) - (1.0 - s) * math.exp(-2 * r) for s, r in zip(single, rates, strict=True)]
    words = 0.0
    for whole, s, r in zip(numbers, single, rates, strict=True):
        twice = (1.0 - s) / 2 * (1.0 - math.exp(-2 * r) * (1.0 + 2 * r))
        words += whole * (s * (1.0 - math.exp(-r) * (1.0 + r)) + twice)
    return keys * math.prod(met), words
