"""The hashed table's bound: counts and chances worked out by hand, and tables of the promised size that are built."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rote.config import Architecture
from rote.models.kinds.hashed_transformer import HashedTransformer, Words, as_tensors, shape_of
from rote.solvers.hashed.independence import most_keys
from rote.solvers.hashed.layout import WORD_BITS
from rote.solvers.hashed.memorise import memorise
from rote.solvers.hashed.network import matrices
from rote.solvers.hashed.planning import layouts
from rote.theorems import Setting, get
from rote.theorems.hashed_table import _largest, most_random, row_per_key, seed_failure

ONE_TOKEN = Architecture(1, 1, 1, 1, 4)


def test_a_row_for_every_key_by_hand() -> None:
    # One token of four, codes of 3 bits: W_E 12, W_pos 3, W_Q 3, W_K 3, W_V 9; copies of the bits 4 x 4 and 4 x 4;
    # two rows, two column bits and the constant from 4: 20; two groups of two words and the constant: 5 x 5;
    # sums modulo 2^8 by 3, 3, 4 and 3 units, the label and the constant, four classes: 15 + 9 + 12 + 12 + 6 + 8.
    assert row_per_key(ONE_TOKEN, 8, 2).params == 30 + 32 + 20 + 25 + 62 == 169
    # A row costs a selection of 4 weights and 5 words.
    assert row_per_key(ONE_TOKEN, 8, 3).params == 169 + 9
    # In float32 column bits come with their complements: two more units.
    assert row_per_key(ONE_TOKEN, 24, 2).params == 169 + 2 * (4 + 5)


@pytest.mark.parametrize(("heads", "facts"), [(38, 1), (40, 2), (43, 3), (400, 4)])
def test_any_contexts_by_hand(heads: int, facts: int) -> None:
    """W = 9 + 4 H, and 151 + 9 T is needed; four contexts are all there are."""
    arch = ONE_TOKEN.replace(n_heads=heads)
    assert arch.params() == 9 + 4 * heads
    bound = get("hashed_table").bound(Setting(arch, "bfloat16"))
    assert (bound.facts, bound.params) == (facts, 151 + 9 * facts)
    assert bound.open == ("a shape of its own",)


def test_chances_by_hand() -> None:
    # Two keys in one row of two groups of four are dependent if they read the same words.
    assert seed_failure(2, 1, (4, 4), 1, 2) == pytest.approx(1 / 16)
    # Four rows of one key each: two keys meet in a given row with probability 1/16.
    assert seed_failure(2, 4, (4, 4), 1, 1) == pytest.approx(4 / 16)
    # Three digits of 256 choices: the largest has 86 of them.
    assert seed_failure(2, 1, (4, 4), 3, 1) == pytest.approx(3 * (86 / 256) ** 2)


def test_seeds_fail_no_more_often_than_stated() -> None:
    """Random functions of the keys: how often some row is overfull or dependent, against the bound."""
    from rote.solvers.hashed import systems

    rng, groups, rows = np.random.default_rng(0), (8, 8, 8, 8), 4
    facts = most_random(rows, groups, 1)
    failed, tries = 0, 300
    for _ in range(tries):
        row = rng.integers(0, rows, facts)
        columns = rng.integers(0, 8, (facts, 4)) + 8 * np.arange(4)
        failed += any(systems._reduced(columns[row == r], 32) is None for r in range(rows))
    assert failed / tries <= 0.5
    most = most_keys(groups, 0.25 / rows)
    assert seed_failure(facts, rows, groups, 1, most) <= 0.5 < seed_failure(2 * facts, rows, groups, 1, most)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_what_is_promised_can_be_built(dtype: str) -> None:
    """Random facts, as many as the bound says, in the very matrices that it counts."""
    arch = Architecture(4, 32, 32, 4, 40)
    bound = get("hashed_table").bound(Setting(arch, dtype))  # type: ignore[arg-type]
    facts, certain, layout = _largest(4, 40, WORD_BITS[dtype], arch.params())
    assert layout is not None
    assert bound.facts == facts > certain
    most = most_keys(layout.groups, 0.25 / (layout.rows * layout.digits)) * layout.digits
    layout = replace(layout, keys=facts, capacity=most)
    rng = np.random.default_rng(1)
    contexts = np.stack(np.unravel_index(rng.permutation(40**4)[:facts], (40,) * 4), axis=1)
    labels = rng.integers(0, 40, facts)
    made = memorise(contexts, labels, layout, rng)
    tensors = as_tensors(matrices(made.hashing, made.rows), dtype)
    assert sum(one.numel() for one in tensors.values()) == bound.params
    network = HashedTransformer(shape_of(layout, 40), Words(tuple(range(40)), tuple(range(40))), tensors)
    with torch.no_grad():
        said = np.asarray(network(torch.from_numpy(contexts)).argmax(dim=1))
    assert (said == labels).all()


@pytest.mark.parametrize(("context", "vocab", "dtype"), [(1, 4, "bfloat16"), (3, 50, "float32"), (7, 2, "float64")])
def test_the_last_layout_is_that_of_the_theorem(context: int, vocab: int, dtype: str) -> None:
    arch = Architecture(1, 1, 1, context, vocab)
    *_, last = layouts(17, context, vocab, vocab, dtype)
    assert last.params == row_per_key(arch, WORD_BITS[dtype], 17).params


def test_conditions_that_fail() -> None:
    theorem, arch = get("hashed_table"), Architecture(8, 32, 32, 4, 100)
    assert theorem.bound(Setting(arch)).facts is not None
    for setting, name in (
        (Setting(arch, "exact"), "a usual number format"),
        (Setting(arch, shared_context=True), "distinct contexts"),
        (Setting(Architecture(1, 2, 2, 4, 100)), "room for one fact"),
    ):
        bound = theorem.bound(setting)
        assert bound.facts is None
        assert [one.name for one in bound.conditions if one.status == "not met"] == [name]


def test_it_does_not_decide_about_the_shape_given() -> None:
    """Far more facts in as many parameters say nothing about one layer of attention."""
    from rote.capacity import bounds

    found = bounds(Setting(Architecture(8, 32, 32, 4, 100), n_facts=2000), only=["hashed_table", "counting"])
    assert (found[0].facts or 0) > 2000
    assert found.verdict() == "no theorem says that 2,000 fit (the largest says 0), and none that they do not"


def test_never_more_bits_than_words_have() -> None:
    for dtype, bits in WORD_BITS.items():
        bound = get("hashed_table").bound(Setting(Architecture(64, 128, 128, 4, 256), dtype))  # type: ignore[arg-type]
        assert bound.bits_per_param is not None
        assert 0.5 * bits < bound.bits_per_param < bits
