"""The hashed table (rote): any facts, exactly, in numbers of 8 to 53 bits, every weight counted.

Statement: words have q bits: 8, 11, 24, 53 in bfloat16, float16, float32, float64. A table has R = 2^r rows, a groups
           of m_1, ..., m_a columns in B blocks side by side, and G = floor(B q/b) digits a word, b = max(1, ceil(log2
           C)). For every such layout there is a transformer (one head per token, then ReLU layers) of P parameters,
           zeros included, with P the explicit count of its matrices, such that for any T facts with distinct contexts:
           (1) if within every row and digit no set of keys reads every word an even number of times, then whatever the
               labels are, some words make the network give every fact its label; no value that it computes is rounded;
           (2) if the hash is a uniformly random function of the contexts, a seed fails (1) with probability at most
               R G (Pr[Bin(T, p) > n] + delta(n)) for every n, with p = ceil(256/G)/(256 R), or 1/R if G = 1, and
               delta(n) = sum over even s of C(n, s) even(m_1, s) ... even(m_a, s), where even(m, s) is the probability
               that s random words of m are each met an even number of times;
           (3) with a row for every fact, R = T, and all bits of the contexts as their hash, (1) holds for any contexts.
           Conversely P parameters of p bits hold any labels of T facts only if P p >= T log2 C.
Notation:  T = n_facts, S = context, C = V = vocab.
Source:    this project; the proof is in docs/hashed-table.md.
Differs:   ours. The number is the largest T for which the right-hand side of (2) is at most 1/2 for some layout with no
           more parameters than the shape has, or for which (3) has no more. The network has a shape of its own; nothing
           is said about other weights of the given shape. What is built holds more: rows are filled by a trie.
"""

from __future__ import annotations

import math
from functools import lru_cache

from rote.config import Architecture
from rote.solvers.hashed.independence import bits_for, most_keys
from rote.solvers.hashed.layout import CHOICE_BITS, WORD_BITS, Layout
from rote.solvers.hashed.planning import digit_counts
from rote.theorems import Bound, Citation, Setting, Theorem, condition

__all__ = ["most_random", "row_per_key", "seed_failure", "theorem"]

_GROUPS = (3, 4, 5, 6)
_WORDS = tuple(sorted({size << k for k in range(1, 9) for size in (2, 3)}))
"""Columns of a group."""
_CHANCE = 0.25
"""What occupancy and dependence may each cost, so that one seed in two works."""
_HASH = "parities"
"""How hash bits are made of the codes of tokens: spread evenly whatever the number of tokens."""
_MOST_FACTS = 10**12
_Kind = tuple[tuple[int, ...], int, int]
"""Groups of columns, blocks, digits."""


def _digit_share(digits: int) -> float:
    """The largest probability with which random choice bits name one digit."""
    whole = 1 << CHOICE_BITS
    return 1.0 if digits == 1 else -(-whole // digits) / whole


def _log_overfull(facts: int, p: float, most: int) -> float:
    """log of Chernoff's bound on Pr[Bin(facts, p) > most]."""
    if most >= facts:
        return -math.inf
    share = (most + 1) / facts
    if share <= p:
        return 0.0
    rest = 0.0 if share >= 1.0 else (1.0 - share) * math.log((1.0 - share) / (1.0 - p))
    return -facts * (share * math.log(share / p) + rest)


def seed_failure(facts: int, rows: int, groups: tuple[int, ...], digits: int, most: int) -> float:
    """The bound of (2) for so many keys a digit of a row at most, by Chernoff's bound on the binomial tail."""
    from rote.solvers.hashed.independence import failure_bound

    overfull = math.exp(_log_overfull(facts, _digit_share(digits) / rows, most))
    return rows * digits * (overfull + failure_bound(most, groups))


@lru_cache(maxsize=1 << 14)
def most_random(rows: int, groups: tuple[int, ...], digits: int) -> int:
    """The most facts for which both terms of (2) are at most 1/4."""
    cells, p = rows * digits, _digit_share(digits) / rows
    each = most_keys(groups, _CHANCE / cells)
    low, high = min(1, each), each * cells
    while low < high:
        middle = (low + high + 1) // 2
        if _log_overfull(middle, p, each) <= math.log(_CHANCE / cells):
            low = middle
        else:
            high = middle - 1
    return low


def _layout(
    arch: Architecture, word_bits: int, mix: str, row_bits: int, rows: int, groups: tuple[int, ...], blocks: int,
    digits: int,
) -> Layout:  # fmt: skip
    """The layout of these sizes that reads all of a context."""
    codes = bits_for(arch.vocab)
    if mix == "copies":
        codes = max(codes, -(-3 // arch.context))
        row_bits = arch.context * codes - 2
    return Layout(
        keys=1, context=arch.context, vocab=arch.vocab, classes=arch.vocab, word_bits=word_bits, unknown=0,
        positions=arch.context, code_bits=codes, head_bits=codes, mix=mix, row_bits=row_bits, rows=rows, capacity=1,
        groups=groups, blocks=blocks, digits=digits,
    )  # fmt: skip


def row_per_key(arch: Architecture, word_bits: int, facts: int) -> Layout:
    """The layout of (3): a row for every fact."""
    blocks = -(-bits_for(arch.vocab) // word_bits)
    return _layout(arch, word_bits, "copies", 0, facts, (2, 2), blocks, 1)


def _table(arch: Architecture, word_bits: int, budget: int, kind: _Kind, more_than: int) -> Layout | None:
    """The table of most such rows that has at most so many parameters, and room for more than so many keys."""
    groups, blocks, digits = kind
    width = sum(groups)
    for row_bits in reversed(range((budget // (width * blocks)).bit_length())):
        if width * digits << row_bits <= more_than:
            return None
        layout = _layout(arch, word_bits, _HASH, row_bits, 1 << row_bits, groups, blocks, digits)
        if layout.params <= budget:
            return layout
    return None


@lru_cache(maxsize=4096)
def _largest(context: int, vocab: int, word_bits: int, budget: int) -> tuple[int, int, Layout | None]:
    """(facts, how many of them with any contexts at all, their layout)."""
    arch = Architecture(1, 1, 1, context, vocab)
    possible = vocab**context if context * math.log2(vocab) < math.log2(_MOST_FACTS) else _MOST_FACTS
    one, two = (row_per_key(arch, word_bits, facts).params for facts in (1, 2))
    certain = 0 if one > budget else min(possible, 1 + (budget - one) // (two - one))
    best = row_per_key(arch, word_bits, certain) if certain else None
    facts, counts = certain, digit_counts(bits_for(vocab), word_bits)
    kinds = [((words,) * many, *count) for count in counts for many in _GROUPS for words in _WORDS]
    # Wide rows hold most keys a word: those that come first spare the others a closer look.
    for kind in sorted(kinds, key=lambda one: -sum(one[0])):
        layout = _table(arch, word_bits, budget, kind, facts)
        held = 0 if layout is None else min(possible, most_random(layout.rows, layout.groups, layout.digits))
        if held > facts:
            facts, best = held, layout
    return facts, certain, best


class _Theorem(Theorem):
    title = "Hashed table, exact in usual number formats"
    kind = "lower"
    citation = Citation(
        authors="rote",
        title="rote: how much a transformer can memorise, and the weights that do it",
        year=2026,
        where="docs/hashed-table.md",
        venue="this software",
    )
    statement = (
        "Tables of words that an ordinary network looks up hold any labels of keys that hash well, at nearly q bits a "
        "dense parameter of q significant bits; a row for every key holds any keys."
    )

    def bound(self, setting: Setting) -> Bound:
        arch, budget = setting.arch, setting.arch.params("full")
        counts = "every entry of every matrix of the table's network, zeros included"
        word_bits = WORD_BITS.get(setting.dtype)
        usual = condition(
            "a usual number format", word_bits is not None, f"{setting.dtype}; it is made for {', '.join(WORD_BITS)}"
        )
        distinct = condition(
            "distinct contexts",
            not setting.shared_context,
            "all contexts are one" if setting.shared_context else "no two facts have the same context",
        )
        if word_bits is None:
            return self.make(
                setting, params=None, conditions=(usual, distinct), formula="P(T) <= W in no format", counts=counts
            )
        facts, certain, layout = _largest(arch.context, arch.vocab, word_bits, budget)
        if layout is None:
            least = row_per_key(arch, word_bits, 1).params
            room = condition("room for one fact", False, f"{budget:,} parameters, needs {least:,}")
            return self.make(
                setting,
                params=None,
                conditions=(usual, room, distinct),
                formula=f"P(T) <= W = {budget:,} for no T >= 1",
                counts=counts,
            )
        sure = facts == certain
        return self.make(
            setting,
            facts=facts,
            params=layout.params,
            conditions=(
                usual,
                condition("room for one fact", True, f"{layout.params:,} of {budget:,} parameters"),
                distinct,
                condition(
                    "a hash as good as random",
                    True if sure else None,
                    "every key has a row of its own"
                    if sure
                    else f"then one seed in two works; any contexts at all: {certain:,}",
                ),
                condition(
                    "a shape of its own",
                    None,
                    f"as many parameters in {layout.depth} layers, {layout.positions} heads and {layout.rows:,} rows "
                    f"of {layout.width * layout.blocks:,} words; nothing is said about the shape given",
                ),
            ),
            formula=(
                f"largest T with P(T) = {layout.params:,} <= W = {budget:,} dense parameters of {word_bits}-bit words: "
                f"{facts:,}; for any contexts {certain:,}"
            ),
            counts=counts,
            own_shape=True,
        )


theorem = _Theorem()
