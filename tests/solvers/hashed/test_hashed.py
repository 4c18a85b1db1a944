"""Hashed tables: every label comes out of plain matrix products, whatever the keys are, in every number format."""

from __future__ import annotations

import itertools
from collections.abc import Generator

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rote import constructions, pipeline
from rote.config import Shape, check_dtype
from rote.data import FactTable, Vocabulary
from rote.errors import FactsLost
from rote.models.kinds.hashed_transformer import HashedTransformer, Words, as_tensors, shape_of
from rote.solvers.hashed import stock_layout, systems
from rote.solvers.hashed.fetching import mixing
from rote.solvers.hashed.hashing import drawn_hash
from rote.solvers.hashed.independence import failure_bound
from rote.solvers.hashed.layout import WORD_BITS, Layout
from rote.solvers.hashed.memorise import HashedTable, _hashed, memorise
from rote.solvers.hashed.network import matrices
from rote.solvers.hashed.planning import layouts
from rote.solvers.hashed.rows import Row, Subtree, fewest_rows, solved_rows

FORMATS = ("bfloat16", "float16", "float32", "float64")


def built(keys: np.ndarray, labels: np.ndarray, dtype: str, unknown: int = 0) -> tuple[Layout, HashedTable]:
    vocab, classes = int(keys.max()) + 1, int(labels.max()) + 1
    for layout in layouts(len(keys), keys.shape[1], vocab, classes, dtype, unknown=unknown):
        try:
            return layout, memorise(keys, labels, layout, np.random.default_rng(0))
        except FactsLost:
            continue
    raise AssertionError("the last layout has a row for every key")


def module(layout: Layout, table: HashedTable, dtype: str) -> HashedTransformer:
    weights = matrices(table.hashing, table.rows)
    tensors = as_tensors(weights, dtype)
    for name, tensor in zip(weights, tensors.values(), strict=True):
        assert (tensor.double().numpy() == weights[name]).all(), f"{dtype} rounds {name}"
    words = Words(tuple(range(layout.vocab)), tuple(range(layout.classes)), layout.unknown)
    return HashedTransformer(shape_of(layout, max(layout.vocab, layout.classes)), words, tensors)


def said(network: HashedTransformer, keys: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(network(torch.tensor(keys)).argmax(dim=1))


def random_keys(n: int, length: int, vocab: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = np.unique(rng.integers(0, vocab, (4 * n, length)), axis=0)
    return rng.permutation(rows)[:n]


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("classes", [1, 2, 3, 7, 40, 300, 3000])
def test_every_number_of_classes(dtype: str, classes: int) -> None:
    keys = random_keys(400, 3, 30, classes)
    labels = np.random.default_rng(1).permutation(np.arange(len(keys)) % classes)
    layout, table = built(keys, labels, dtype)
    network = module(layout, table, dtype)
    assert (said(network, keys) == labels).all()
    assert sum(p.numel() for p in network.parameters()) == layout.params


STRUCTURED = {
    "consecutive numbers": np.array([[int(c) for c in f"{i:04d}"] for i in range(600)]),
    "all strings of bits": np.array(list(itertools.product((0, 1), repeat=9))),
    "one changed token": np.array([[3] * 12] + [[3] * i + [t] + [3] * (11 - i) for i in range(12) for t in (0, 1, 2)]),
    "orders of the same tokens": np.array(list(itertools.permutations(range(5)))),
    "single tokens": np.arange(300)[:, None],
    "a grid": np.array([[a, b] for a in range(25) for b in range(25)]),
    "long contexts": np.random.default_rng(3).integers(0, 4, (50, 1000)),
    "long contexts that differ in one place": np.array([[0] * i + [1] + [0] * (199 - i) for i in range(200)]),
    "many tokens": np.random.default_rng(4).permutation(100_000)[:300].reshape(150, 2),
    "one key": np.array([[2, 1, 0]]),
    "two keys": np.array([[0, 1], [1, 0]]),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", STRUCTURED)
def test_structured_keys(name: str, dtype: str) -> None:
    keys = STRUCTURED[name]
    labels = np.random.default_rng(2).integers(0, 17, len(keys))
    layout, table = built(keys, labels, dtype)
    assert (said(module(layout, table, dtype), keys) == labels).all()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_no_wrong_label(data: st.DataObject) -> None:
    """Random shapes, keys that share most tokens, any format, with and without fingerprints."""
    length, vocab = data.draw(st.integers(1, 7)), data.draw(st.integers(2, 40))
    n = data.draw(st.integers(1, min(300, vocab**length // 2)))
    seed, classes = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 60))
    rng = np.random.default_rng(seed)
    base = rng.integers(0, vocab, (max(1, n // 8), length))
    rows = base[rng.integers(len(base), size=4 * n)]
    at = rng.random(rows.shape) < data.draw(st.sampled_from([0.2, 0.6, 1.0]))
    rows = np.where(at, rng.integers(0, vocab, rows.shape), rows)
    keys = rng.permutation(np.unique(rows, axis=0))[:n]
    labels = rng.integers(0, classes, len(keys))
    dtype, unknown = data.draw(st.sampled_from(FORMATS)), data.draw(st.sampled_from([0, 0, 3, 9]))
    layout, table = built(keys, labels, dtype, unknown)
    network = module(layout, table, dtype)
    assert (said(network, keys) == labels).all()
    assert sum(p.numel() for p in network.parameters()) == layout.params


@pytest.mark.parametrize("dtype", FORMATS)
def test_scores_do_not_depend_on_batches_and_threads(dtype: str) -> None:
    keys = random_keys(900, 4, 60, 5)
    labels = np.random.default_rng(6).integers(0, 90, len(keys))
    network = module(*built(keys, labels, dtype), dtype)
    tokens, threads = torch.tensor(keys), torch.get_num_threads()
    with torch.no_grad():
        whole = network(tokens)
        try:
            for size, count in ((1, 1), (7, 2), (33, 1), (256, 2)):
                torch.set_num_threads(count)
                parts = torch.cat([network(tokens[i : i + size]) for i in range(0, 200, size)])
                assert torch.equal(parts[:200], whole[:200]), f"batches of {size}, {count} threads"
        finally:
            torch.set_num_threads(threads)


@pytest.mark.parametrize(("dtype", "bits"), [("bfloat16", 4), ("float16", 3), ("float32", 6), ("float64", 10)])
def test_unknown_keys_are_told(dtype: str, bits: int) -> None:
    """All but a share of 2^-bits of keys that are not stored, and none that is."""
    keys = random_keys(700, 4, 40, 7)
    labels = np.random.default_rng(8).integers(0, 20, len(keys))
    layout, table = built(keys, labels, dtype, unknown=bits)
    network = module(layout, table, dtype)
    assert (said(network, keys) == labels).all()
    known = {tuple(key) for key in keys.tolist()}
    others = np.array([key for key in random_keys(6000, 4, 40, 9).tolist() if tuple(key) not in known])
    near = keys.copy()
    near[np.arange(len(near)), np.random.default_rng(1).integers(0, 4, len(near))] = np.arange(len(near)) % 40
    near = np.array([key for key in near.tolist() if tuple(key) not in known])
    for strangers in (others, near):
        missed = float(np.mean(said(network, strangers) != layout.classes))
        deviation = (2.0**-bits / len(strangers)) ** 0.5
        assert missed <= 2.0**-bits + 5 * deviation + 1 / len(strangers)


def test_the_bound_on_dependent_rows_holds() -> None:
    """Among random rows of keys, at most the bounded share is dependent."""
    rng = np.random.default_rng(0)
    for groups, n in (((16, 16, 16), 30), ((16, 16, 16, 16), 52), ((24, 24, 24), 45), ((11, 11, 11, 11), 30)):
        bound, failed, tries = failure_bound(n, groups), 0, 400
        for _ in range(tries):
            columns, first = [], 0
            for words in groups:
                whole = 1 << (words - 1).bit_length()
                single = 2 * words - whole
                number = rng.integers(0, whole, n)
                columns.append(np.where(number < single, number, single + (number - single >> 1)) + first)
                first += words
            failed += systems._reduced(np.stack(columns, axis=1), first) is None
        assert 0.005 < bound < 1
        assert failed / tries <= bound + 4 * (bound * (1 - bound) / tries) ** 0.5


def test_even_counts_by_hand() -> None:
    """Two keys are dependent if they read the same words: 1 in 4 x 4 for two groups of four."""
    assert failure_bound(2, (4, 4)) == pytest.approx(1 / 16)
    assert failure_bound(1, (4, 4)) == 0.0
    # Four words, four numbers each: three of sizes 1/4, 1/4, 1/2 meet with probability 3/8.
    assert failure_bound(2, (3, 3)) == pytest.approx((3 / 8) ** 2)


def test_compiled_and_plain_loops_agree() -> None:
    rng = np.random.default_rng(3)
    for n, words in ((20, 40), (60, 100), (90, 100)):
        columns = np.stack([rng.integers(0, words // 4, n) + g * (words // 4) for g in range(4)], axis=1)
        form = systems._reduced(columns, words)
        echelon = np.zeros((n, -(-words // 64)), dtype=np.uint64)
        for i, row in enumerate(columns):
            for c in row.tolist():
                echelon[i, c >> 6] ^= np.uint64(1 << (c & 63))
        steps = np.zeros((n, -(-n // 64)), dtype=np.uint64)
        for i in range(n):
            steps[i, i >> 6] = np.uint64(1 << (i & 63))
        pivots = np.full(n, -1)
        rank = systems._eliminate_by_numpy(echelon, steps, pivots)
        assert (rank == n) == (form is not None)
        if form is None:
            continue
        assert all((mine == theirs).all() for mine, theirs in zip(form, (echelon, steps, pivots), strict=True))
        for bit in range(4):
            known, wanted = rng.integers(0, 1 << 63, (2, 8)).astype(np.uint64)
            known, wanted = known[: echelon.shape[1]], wanted[: steps.shape[1]]
            answers = []
            for substitute in (systems._kernels()[1], systems._substitute_by_numpy):
                solved = np.zeros(n, dtype=np.int64)
                substitute(echelon, steps, pivots, known.copy(), wanted, solved)
                answers.append(solved)
            assert (answers[0] == answers[1]).all(), bit


def test_words_hold_their_sums() -> None:
    """Sums modulo the power of two, for digits that straddle words too."""
    keys = random_keys(500, 3, 50, 11)
    labels = np.random.default_rng(12).integers(0, 20, len(keys))
    layout, _ = built(keys, labels, "bfloat16")
    assert layout.word_bits == WORD_BITS["bfloat16"] == 8
    covered = sum(segment.hi - segment.lo for segment in layout.segments)
    assert covered == layout.digits * layout.symbol_bits <= layout.blocks * layout.word_bits


def test_the_same_seed_gives_the_same_rows() -> None:
    keys = random_keys(1000, 4, 30, 13)
    labels = np.random.default_rng(14).integers(0, 9, len(keys))
    _, first = built(keys, labels, "float32")
    _, second = built(keys, labels, "float32")
    assert len(first.rows) == len(second.rows)
    for mine, theirs in zip(first.rows, second.rows, strict=True):
        assert mine.code == theirs.code and (mine.words == theirs.words).all()


@pytest.mark.parametrize(("vocab", "classes"), [(800, 800), (70_000, 7)])
def test_codes_of_many_tokens_are_soon_distinct(vocab: int, classes: int) -> None:
    layout = next(one for one in layouts(vocab, 1, vocab, classes, "float32") if one.mix == "fourfold")
    codes = drawn_hash(layout, np.array([0]), np.random.default_rng(0)).codes
    assert len(np.unique(np.packbits(codes, axis=1), axis=0)) == vocab


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_broad_parities_tell_long_keys_apart_that_differ_in_one_token(dtype: str) -> None:
    """Four variants of every stem, one letter changed in each, some stems padded: as words are."""
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.integers(1, 27, (120, 24)), 4, axis=0)
    rows[np.arange(len(rows)), rng.integers(0, 24, len(rows))] = rng.integers(1, 27, len(rows))
    rows[np.arange(24) < np.repeat(rng.integers(0, 21, 120), 4)[:, None]] = 0
    rows = np.unique(rows, axis=0)
    words = Vocabulary(["<pad>", *(chr(97 + i) for i in range(26))])
    table = FactTable(rows, rng.integers(1, 9, len(rows)), words)
    one = constructions.get("hashed_table")
    every = one.shapes(table, Shape(), check_dtype(dtype), one.Options())
    plan = next(plan for plan in every if plan.measures["layout"]["mix"] == "broad")
    memory = pipeline.build_at(one, table, plan.architecture, dtype=dtype)
    assert memory.certificate.passed and memory.certificate.params == plan.params


def test_layers_of_stock_models_hold_all_units_of_a_hash_bit() -> None:
    for mix in ("parities", "fourfold", "mixtures", "broad"):
        assert min(stock_layout._widths(9, mix)) >= len(mixing(mix))


def test_rows_are_counted_from_below() -> None:
    """A seed that is given up before anything is solved would not have come to an end well."""
    rng = np.random.default_rng(0)
    keys, labels = np.unique(rng.integers(0, 30, (900, 4)), axis=0), rng.integers(0, 50, 900)
    layout = next(layouts(len(keys), 4, 30, 50, "float32"))
    for seed in range(4):
        hashing = drawn_hash(layout, np.arange(4), np.random.default_rng(seed))
        part = Subtree((), _hashed(hashing, keys, labels[: len(keys)]))
        assert fewest_rows(part, layout) <= len(solved_rows(part, layout, seed, 10**6))


def test_ctrl_c_while_threads_end_is_not_lost() -> None:
    """A seed that fails leaves threads to wait for; what is raised meanwhile must reach whoever called."""
    keys = random_keys(400, 3, 30, 1)
    labels = np.arange(len(keys)) % 7
    layout = next(iter(layouts(len(keys), 3, 30, 7, "float32")))
    asked = []

    def interrupted(layout: Layout, parts: list[Subtree], seed: int) -> Generator[list[Row], None, None]:
        asked.append(seed)
        try:
            yield solved_rows(parts[0], layout, seed, layout.rows) * layout.rows * 2
        finally:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memorise(keys, labels, layout, np.random.default_rng(0), solve=interrupted)
    assert len(asked) == 1
