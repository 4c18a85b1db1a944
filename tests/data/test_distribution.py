"""Distribution tables: what they hold, what they refuse, and where they come from."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from rote.data import (
    DistributionTable,
    Vocabulary,
    lookup_distributions,
    random_distributions,
    read,
    write_distributions,
)
from rote.data.ngrams import SPACE, count_ngrams, ngrams
from rote.errors import DataError, RoteError, UsageError

ABC = Vocabulary(["a", "b", "c"])


def _table(prior: list[float], rows: list[list[float]]) -> DistributionTable:
    return DistributionTable(np.array([[i] for i in range(len(prior))]), np.array(prior), np.array(rows), ABC)


def test_entropies_and_divergences_by_hand() -> None:
    table = _table([0.75, 0.25], [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    assert table.entropy == pytest.approx(0.75 * math.log(2))
    assert table.unigram == pytest.approx([0.375, 0.375, 0.25])
    marginal = -(2 * 0.375 * math.log(0.375) + 0.25 * math.log(0.25))
    assert table.unigram_kl == pytest.approx(marginal - table.entropy)
    assert table.uniform_kl == pytest.approx(math.log(3) - table.entropy)
    guess = np.log(np.array([[0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]))
    by_hand = 0.75 * (0.5 * math.log(2) + 0.5 * math.log(1)) + 0.25 * math.log(2)
    assert table.kl(guess) == pytest.approx(by_hand)
    with np.errstate(divide="ignore"):
        assert table.kl(np.log(np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))) == math.inf
        assert table.kl(np.log(table.probabilities)) == pytest.approx(0.0)
    assert not table.full_support and table.n_zeros == 3 and not table.is_association


def test_t_eps_counts_the_likely_contexts() -> None:
    table = _table([0.2, 0.5, 0.3], [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert [table.t_eps(e) for e in (0.0, 0.1, 0.2, 0.21, 0.5, 0.51, 0.99)] == [3, 3, 3, 2, 2, 1, 1]
    assert table.leftover(2) == pytest.approx(0.2)
    assert table.is_association
    never = _table([0.5, 0.5, 0.0], [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert never.t_eps(0.0) == 2  # a context that never occurs need not be kept
    for wrong in (-0.1, 1.0, math.nan, math.inf):
        with pytest.raises(UsageError, match="epsilon"):
            table.t_eps(wrong)


@pytest.mark.parametrize(
    ("prior", "rows", "words"),
    [
        ([0.5, 0.5], [[0.5, 0.4, 0.0], [0, 0, 1]], "sum to 0.9"),
        ([0.5, 0.4], [[1, 0, 0], [0, 0, 1]], "prior must sum to 1"),
        ([0.5, 0.5], [[1.5, -0.5, 0], [0, 0, 1]], "not negative"),
        ([1.5, -0.5], [[1, 0, 0], [0, 0, 1]], "not negative"),
        ([0.5, 0.5], [[math.nan, 0, 1], [0, 0, 1]], "finite"),
        ([0.5, 0.5], [[0, 0, 0], [0, 0, 1]], "sum to 0"),
        ([0.5, 0.5], [[1, 0], [0, 1]], "shape"),
    ],
)
def test_what_is_no_distribution_is_refused(prior: list[float], rows: list[list[float]], words: str) -> None:
    with pytest.raises(DataError, match=words):
        _table(prior, rows)


def test_counts_add_up_and_order_is_kept() -> None:
    contexts = np.array([[1, 0], [0, 0], [1, 0], [1, 0]])
    table = DistributionTable.from_counts(contexts, np.array([0, 1, 2, 0]), ABC, counts=np.array([1.0, 4.0, 3.0, 2.0]))
    assert table.contexts.tolist() == [[1, 0], [0, 0]]
    assert table.prior == pytest.approx([0.6, 0.4])
    assert table.probabilities[0] == pytest.approx([0.5, 0.0, 0.5])
    for counts, words in (([0, 1, 0, 0], "add up to 0"), ([-1, 1, 1, 1], "not negative"), ([math.nan] * 4, "finite")):
        with pytest.raises(DataError, match=words):
            DistributionTable.from_counts(contexts, np.array([0, 1, 2, 0]), ABC, counts=np.array(counts, dtype=float))


def test_smoothing_gives_full_support_and_is_said() -> None:
    table = _table([0.5, 0.5], [[1, 0, 0], [0, 1, 0]])
    smooth = table.smoothed(0.03)
    assert smooth.full_support and smooth.smoothing == 0.03
    assert smooth.probabilities[0] == pytest.approx([0.98, 0.01, 0.01])
    assert table.smoothed(0.0) is table
    with pytest.raises(UsageError, match="already"):
        smooth.smoothed(0.01)
    with pytest.raises(UsageError, match="smoothing"):
        table.smoothed(1.0)


def test_files_with_repeats_and_with_counts_say_the_same(tmp_path: Path) -> None:
    repeated, counted = tmp_path / "rows.csv", tmp_path / "counts.csv"
    repeated.write_text("w,next\nthe,cat\nthe,dog\nthe,cat\na,cat\n")
    counted.write_text("w,next,n\nthe,cat,2\nthe,dog,1\na,cat,1\n")
    first = read(repeated, kind="distributions")
    second = read(counted, weight="n")
    assert isinstance(first, DistributionTable)
    assert first == second and second.reading is not None and second.reading.weight == "n"
    assert first.probabilities[0] @ np.ones(4) == pytest.approx(1)
    assert first.prior == pytest.approx([0.75, 0.25])
    write_distributions(first, tmp_path / "again.csv", total=4)
    again = read(tmp_path / "again.csv")
    assert again == first and again.reading is not None and again.reading.weight == "count"
    for body, words in (("w,next,count\na,b,-1\n", "not negative"), ("w,next,count\na,b,x\n", "finite"), ("", "empty")):
        counted.write_text(body)
        with pytest.raises(RoteError, match=words):
            read(counted, kind="distributions")


def test_ngrams_of_words_and_characters(tmp_path: Path) -> None:
    text = "The cat saw the dog.\nThe dog  saw the cat."
    table, report = count_ngrams(text, order=2, plain=True)
    assert report.n_tokens == 10 and report.n_ngrams == 9
    row = table.find([table.vocabulary.id("the")])
    assert row is not None
    assert table.probabilities[row, table.vocabulary.id("dog")] == pytest.approx(0.5)
    kept, report = count_ngrams(text, order=2, plain=True, most=3)
    assert kept.vocab == 3 and report.n_dropped > 0
    letters, _ = count_ngrams(text, order=3, tokens="chars")
    assert letters.context == 2 and SPACE in letters.vocabulary
    path = tmp_path / "t.txt"
    path.write_bytes(b"\xff\xfe broken")
    with pytest.raises(DataError, match="UTF-8"):
        ngrams(path)
    with pytest.raises(DataError, match="there is no file"):
        ngrams(tmp_path / "nothing.txt")
    for body, options, words in (
        ("", {}, "needs 3"),
        ("a a a a", {}, "one distinct"),
        ("a b c", {"order": 1}, "order"),
        ("a b c", {"tokens": "wrds"}, "words"),
        ("a <pad> c d", {}, "reserved"),
    ):
        with pytest.raises(RoteError, match=words):
            count_ngrams(body, **options)


def test_generators_have_the_prior_and_the_noise_asked_for() -> None:
    rng = np.random.default_rng(0)
    table = random_distributions(50, 2, 9, rng=rng, alpha=1.0)
    assert table.prior[0] / table.prior[9] == pytest.approx(10)
    assert table.full_support
    noisy = lookup_distributions(30, 2, 9, rng=rng, noise=0.2, alpha=0.0)
    assert noisy.prior == pytest.approx(np.full(30, 1 / 30))
    assert noisy.probabilities.max(axis=1) == pytest.approx(np.full(30, 0.8))
    assert lookup_distributions(5, 2, 9, rng=rng, noise=0.0).is_association
