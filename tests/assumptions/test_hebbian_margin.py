"""Margins of sums of outer products: cases worked out by hand, and the plain loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import save_file

from rote.assumptions import Vectors, check, read_vectors
from rote.errors import DataError


def margin_of(keys: npt.ArrayLike, values: npt.ArrayLike) -> Any:
    rows = np.asarray(keys, dtype=float)
    (finding,) = check(Vectors.make(rows, rows[:1], values=values), only="hebbian2026")
    return finding


def test_two_keys_at_an_angle() -> None:
    """With K_12 = c and values of cosine m the margin of both facts is (1 - m)(1 - c)."""
    for c, m in ((0.0, 0.0), (0.6, 0.0), (0.6, 0.8), (-0.28, 0.8)):
        finding = margin_of([[1, 0], [c, np.sqrt(1 - c * c)]], [[1, 0], [m, np.sqrt(1 - m * m)]])
        assert finding.holds is True
        assert finding.lower == pytest.approx((1 - m) * (1 - c), abs=1e-12)
        assert finding.detail["signal"] == pytest.approx(1 - m) and finding.detail["coherence"] == pytest.approx(m)
        assert finding.detail["interference"] == pytest.approx(c * c)
        # ln(T^2 / delta) = ln 400, d = 2.
        assert finding.detail["bound"] == pytest.approx(1 - m - np.sqrt(8 * c * c * np.log(400) / 2))


def test_three_keys_of_which_one_is_drowned() -> None:
    """Keys 1, 1 and 3 on a line, values orthonormal: scores of the first key are 1, 1, 3, so the third wins."""
    finding = margin_of([[1.0], [1.0], [3.0]], np.eye(3))
    assert finding.holds is False and finding.lower == -2 and finding.witness[1] == 2
    assert finding.n_offenders == 2 and finding.offenders == [0, 1]
    assert "answers 1 of 3 keys right" in finding.explanation and "promises nothing" in finding.explanation
    # The same value for the first and the third: the second key alone is wrong, by 1 + 3 - 1.
    finding = margin_of([[1.0], [1.0], [3.0]], [[1, 0], [0, 1], [1, 0]])
    assert (finding.lower, finding.offenders) == (-3, [1])
    assert margin_of([[1.0], [2.0]], [[1.0], [1.0]]).holds is True


def test_margins_are_what_a_loop_gives(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    keys, values = rng.standard_normal((12, 8)), rng.standard_normal((12, 6))
    memory = sum(np.outer(v, k) for k, v in zip(keys, values, strict=True))
    margins = [
        values[i] @ memory @ keys[i] - max(values[j] @ memory @ keys[i] for j in range(12) if j != i) for i in range(12)
    ]
    assert margin_of(keys, values).lower == pytest.approx(min(margins), rel=1e-12)
    path = tmp_path / "keys.safetensors"
    save_file({"queries": keys, "contexts": keys[:2], "values": values}, path)
    assert read_vectors(path).values is not None
    save_file({"queries": keys, "contexts": keys[:2]}, path)
    assert "Hebbian margin" not in [one.assumption for one in check(read_vectors(path))]
    save_file({"queries": keys, "contexts": keys[:2], "values": values[:5]}, path)
    with pytest.raises(DataError, match="one row for each of the 12 queries"):
        read_vectors(path)
