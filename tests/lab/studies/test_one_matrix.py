"""One matrix as a memory: cases that can be worked out, and the order of magnitude of theory."""

from __future__ import annotations

import numpy as np

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
