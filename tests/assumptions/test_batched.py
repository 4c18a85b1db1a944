"""Compiled factorisations beside LAPACK's: the same verdicts, whatever the size, the format and the remainder."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rote.assumptions import _batched
from rote.assumptions._independence import Rows, judge_many
from rote.assumptions._sampling import Sampler, draw_subsets


@pytest.mark.parametrize(("size", "count"), [(1, 3), (2, 64), (5, 65), (12, 200)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_factor_exists_where_the_least_eigenvalue_exceeds_the_shift(size: int, count: int, kind: type) -> None:
    rng = np.random.default_rng(size)
    vectors = rng.standard_normal((40, 12))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    gram = vectors @ vectors.T
    subsets = draw_subsets(40, size, count, rng)
    for shift in (0.0, 0.02, 0.2, 0.9):
        least = np.array([np.linalg.eigvalsh(gram[np.ix_(s, s)])[0] for s in subsets])
        clear = np.abs(least - shift) > 1e-4
        got = _batched.positive(gram.astype(kind), subsets, shift)
        assert (got[clear] == (least[clear] > shift)).all()


def test_singular_and_indefinite_matrices_have_none() -> None:
    gram = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, -1.0]])
    subsets = np.array([[0, 1], [0, 2], [2, 0], [0, 0]])
    assert not _batched.positive(gram, subsets, 1e-12).any()
    assert _batched.positive(gram, np.array([[0], [1]]), 1e-12).all()


def test_the_number_of_threads_is_left_alone() -> None:
    before = torch.get_num_threads()
    for count in (1, 2):
        torch.set_num_threads(count)
        _batched.positive(np.eye(8), draw_subsets(8, 3, 200, np.random.default_rng(0)), 0.5)
        assert torch.get_num_threads() == count
    torch.set_num_threads(before)


def test_verdicts_do_not_depend_on_the_road(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((60, 10))
    vectors[7] = vectors[1] - 2 * vectors[2] + vectors[3]
    vectors[20:30] = np.round(rng.standard_normal((10, 3)) * 4) @ rng.standard_normal((3, 10))
    rows = Rows(vectors, 2.0**-53)
    for size in (4, 6, 10):
        subsets = draw_subsets(60, size, 3_000, rng)
        subsets[:5, :4] = [1, 2, 3, 7]
        subsets[:5, 4:] = np.arange(40, 40 + size - 4)
        monkeypatch.setattr(_batched, "_LEAST_WORK", 0.0)
        assert _batched.available(size, 1)
        fast, certain = Sampler(rows).judge(subsets), judge_many(rows, subsets)
        monkeypatch.setattr(_batched, "_LEAST_WORK", np.inf)
        assert not _batched.available(size, 10**9)
        assert (fast == Sampler(rows).judge(subsets)).all()
        assert (certain == judge_many(rows, subsets)).all()
        assert (fast == certain).all() and (fast[:5] == 0).all() and (fast == 1).any()
