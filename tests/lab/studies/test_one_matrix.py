"""One matrix as a memory: cases that can be worked out, and the order of magnitude of theory."""

from __future__ import annotations

import numpy as np
import pytest

from rote.errors import UsageError
from rote.lab.studies.fitted_weights import run as run_fit
from rote.lab.studies.one_matrix import holds, run


def test_orthogonal_keys_hold_any_separable_values_and_a_repeated_key_holds_none() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((6, 6))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    assert holds(np.eye(6), values, 200)
    twice = np.vstack([np.eye(6)[:1], np.eye(6)[:1]])
    assert not holds(twice, values[:2], 200)
    # In one dimension a value between two others is never ahead.
    assert not holds(np.ones((3, 1)) * [[1.0], [2.0], [3.0]], np.array([[1.0], [2.0], [3.0]]), 200)


def test_the_fit_is_at_the_scale_of_theory() -> None:
    (row,) = run({"d_model": 8, "steps": 300}, 0)
    assert row["limit"] == 12 and 1.0 < row["over_limit"] < 2.5
    assert row["load"] == row["capacity"] * np.log(row["capacity"]) / 64


def test_bits_are_counted_by_the_weights_that_are_fitted() -> None:
    params = {"by": "mlp_fit", "n_heads": 1, "d_mlp": 24, "d_model": 4, "context": 3, "vocab": 16}
    (row,) = run_fit(params, 0)
    assert row["fitted"] == 4 * 24 and row["bits_per_fitted"] == row["capacity"] * 4 / 96
    assert row["over_limit"] == row["bits_per_fitted"] * 2 * np.log(2)
    # More than the limit of one matrix, and less than a weight could spell.
    assert 1 < row["over_limit"] < 6 and row["bits_per_param"] < row["bits_per_fitted"]
    (row,) = run_fit({**params, "by": "argmax_fit", "n_heads": 3, "d_mlp": 0}, 0)
    assert row["fitted"] == 3 * 4 * 4
    with pytest.raises(UsageError, match="solve for one matrix"):
        run_fit({**params, "by": "dana2025_cor1"}, 0)
