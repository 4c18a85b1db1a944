"""Intervals of the Kruskal rank against exhaustive search in exact arithmetic, and planted circuits."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from rote.assumptions._independence import Rows, rank_mod
from rote.assumptions._kruskal import kruskal
from rote.assumptions._sampling import Sampler, clopper_pearson, draw_subsets

Array = npt.NDArray[np.float64]
EXACT, DOUBLE = 0.0, 2.0**-53


def fraction_rank(matrix: Array) -> int:
    """The rank of a matrix of whole numbers, fraction by fraction."""
    rows = [[Fraction(int(x)) for x in row] for row in matrix]
    rank = 0
    for column in range(matrix.shape[1]):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column] != 0), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            factor = rows[i][column] / rows[rank][column]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank


def exhaustive(matrix: Array, *, exact: bool) -> int:
    """The plain twin: every subset of every size."""
    count, width = matrix.shape
    for size in range(1, min(count, width) + 1):
        for chosen in itertools.combinations(range(count), size):
            part = matrix[list(chosen)]
            rank = fraction_rank(part) if exact else int(np.linalg.matrix_rank(part))
            if rank < size:
                return size - 1
    return int(min(count, width))


def check_witness(matrix: Array, witness: tuple[int, ...], upper: int) -> None:
    assert len(set(witness)) == len(witness) == upper + 1
    assert np.linalg.matrix_rank(matrix[list(witness)], tol=1e-8) <= upper


def test_whole_numbers_are_decided_exactly() -> None:
    rng = np.random.default_rng(0)
    for _ in range(600):
        count, width = int(rng.integers(1, 8)), int(rng.integers(1, 6))
        matrix = rng.integers(-2, 3, (count, width)).astype(np.float64)
        found = kruskal(Rows(matrix, EXACT), rng)
        assert found.lower == found.upper == exhaustive(matrix, exact=True), matrix
        if found.witness and found.upper < count:
            check_witness(matrix, found.witness, found.upper)


def test_random_and_planted_sets_agree_with_exhaustive_search() -> None:
    rng = np.random.default_rng(1)
    for trial in range(1_400):
        count, width = int(rng.integers(2, 9)), int(rng.integers(1, 6))
        matrix = rng.standard_normal((count, width))
        size = int(rng.integers(2, count + 1))
        if trial % 3:
            chosen = rng.choice(count, size, replace=False)
            matrix[chosen[0]] = rng.standard_normal(size - 1) @ matrix[chosen[1:]]
        if trial % 3 == 2:  # nearly dependent is independent
            matrix[chosen[0]] += rng.standard_normal(width) * 10.0 ** -int(rng.integers(3, 11))
        found = kruskal(Rows(matrix, DOUBLE), rng)
        assert found.lower == found.upper == exhaustive(matrix, exact=False), (trial, matrix)


@pytest.mark.parametrize("power", [3, 6, 9, 11, 12, 13, 14, 15, 16])
def test_near_dependencies_never_get_a_wrong_verdict(power: int) -> None:
    rng = np.random.default_rng(power)
    for _ in range(40):
        matrix = rng.standard_normal((6, 12))
        chosen = rng.choice(6, 4, replace=False)
        matrix[chosen[0]] = rng.standard_normal(3) @ matrix[chosen[1:]]
        matrix[chosen[0]] += 10.0**-power * rng.standard_normal(12)
        found = kruskal(Rows(matrix, DOUBLE), rng)
        if power <= 11:  # far above rounding
            assert (found.lower, found.upper) == (6, 6)
        if power >= 16:  # below rounding
            assert (found.lower, found.upper) == (3, 3)
        assert found.lower <= 6 and found.upper >= 3


def test_planted_circuits_among_hundreds_of_vectors_are_found() -> None:
    rng = np.random.default_rng(2)
    for size, kind in ((2, "float64"), (4, "float64"), (5, "float32"), (6, "float64")):
        matrix = rng.standard_normal((400, 48))
        if size % 2:
            matrix = rng.random((400, 48))  # a common offset makes all vectors look alike
        chosen = rng.choice(400, size, replace=False)
        matrix = matrix.astype(kind).astype(np.float64)
        matrix[chosen[0]] = (rng.choice([-1.0, 1.0], size - 1) @ matrix[chosen[1:]]).astype(kind)
        found = kruskal(Rows(matrix, DOUBLE if kind == "float64" else 2.0**-24), rng)
        assert set(found.witness) == set(chosen.tolist())
        assert found.upper == size - 1
        assert found.lower <= found.upper
        assert found.residual is not None and found.residual < 1e-5


def test_edges() -> None:
    rng = np.random.default_rng(3)
    assert (kruskal(Rows(np.zeros((3, 4)), EXACT), rng).upper, kruskal(Rows(np.eye(4), EXACT), rng).lower) == (0, 4)
    tiny = kruskal(Rows(rng.standard_normal((5, 8)) * 1e-200, DOUBLE), rng)
    assert (tiny.lower, tiny.upper) == (5, 5)
    mixed = rng.standard_normal((5, 8)) * 10.0 ** np.array([[-100], [0], [100], [3], [-3]])
    assert kruskal(Rows(mixed, DOUBLE), rng).lower == 5
    line = kruskal(Rows(np.array([[1.0], [2.0]]), EXACT), rng)
    assert (line.lower, line.upper, line.witness) == (1, 1, (0, 1))
    one = kruskal(Rows(np.ones((1, 1)), EXACT), rng)
    assert (one.lower, one.upper) == (1, 1)


def test_rank_modulo_primes_is_the_rank() -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        matrix = rng.integers(-3, 4, (int(rng.integers(1, 7)), int(rng.integers(1, 7)))).astype(np.float64)
        assert rank_mod(matrix) == fraction_rank(matrix)


@pytest.mark.parametrize(
    ("count", "size", "width"), [(60, 20, 50), (60, 50, 50), (200, 10, 16), (40, 8, 64), (300, 8, 8)]
)
def test_the_sampler_agrees_with_matrix_rank(count: int, size: int, width: int) -> None:
    rng = np.random.default_rng(5)
    for planted in (False, True):
        matrix = rng.random((count, width))
        if planted:
            matrix[3] = matrix[7] - 2 * matrix[9]
            matrix[5] = -matrix[11]
        subsets = draw_subsets(count, size, 400, rng)
        assert all(len(set(row)) == size for row in subsets.tolist())
        verdicts = Sampler(Rows(matrix, DOUBLE)).judge(subsets)
        truth = [int(np.linalg.matrix_rank(matrix[row])) == size for row in subsets]
        assert verdicts.tolist() == [int(t) for t in truth]
        share = Sampler(Rows(matrix, DOUBLE)).share(size, 400, rng)
        assert 0 <= share.low <= share.share <= share.high <= 1


def test_clopper_pearson_by_hand() -> None:
    low, high = clopper_pearson(0, 10)
    assert low == 0.0 and high == pytest.approx(1 - 0.025**0.1)
    low, high = clopper_pearson(10, 10)
    assert low == pytest.approx(0.025**0.1) and high == 1.0
    assert clopper_pearson(5, 10) == pytest.approx((0.187086, 0.812914), abs=1e-5)
