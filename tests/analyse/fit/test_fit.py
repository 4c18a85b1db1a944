"""Laws: known ones are recovered, with the promised coverage, and mixtures are refused."""

from __future__ import annotations

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rote.analyse.fit import LAWS, fit, gather
from rote.analyse.fit.laws import fit_law
from rote.analyse.fit.points import variances
from rote.cli.main import run
from rote.errors import DataError, MissingExtra, UnknownName, UsageError
from rote.measurement import Cell, Journal

HEADS = (1, 6, 11, 16, 21, 26)
TRUTH = {"linear": (60.0, 120.0), "power": (50.0, 1.3), "quadratic": (20.0, 30.0, 4.0)}


def rows(
    law: str, seed: int, noise: float = 10.0, seeds: int = 5, heads: tuple[int, ...] = HEADS
) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    found = []
    for h in heads:
        mean = float(LAWS[law].value(np.array([float(h)]), np.array(TRUTH[law]))[0])
        for s in range(seeds):
            value = mean + (noise + 0.02 * mean) * rng.standard_normal()
            found.append({**Cell(h, 10, 2, 50, seed=s).to_dict(), "status": "done", "capacity": value})
    return found


@pytest.mark.parametrize("law", LAWS)
def test_intervals_cover_the_truth(law: str) -> None:
    """95 % promised; of 200 tables of six points, five seeds each, at least 88 % are covered."""
    hits = np.zeros(LAWS[law].size)
    tables = 200 if LAWS[law].is_linear else 100
    for k in range(tables):
        points = gather(rows(law, k), "n_heads", "capacity")
        x = np.array([point.x for point in points])
        y = np.array([point.mean for point in points])
        made = fit_law(LAWS[law], x, y, np.array(variances(points)), rng=np.random.default_rng(k), draws=300)
        hits += [low <= true <= high for true, (low, high) in zip(TRUTH[law], made.intervals, strict=True)]
    assert (hits / tables >= 0.88).all(), hits / tables


@pytest.mark.parametrize("law", LAWS)
def test_the_right_law_is_chosen(law: str) -> None:
    right = sum(fit(rows(law, k, noise=3.0), "n_heads", "capacity").chosen.law.name == law for k in range(10))
    assert right >= 7


def test_slopes_beside_the_theorems() -> None:
    found = fit(rows("linear", 0), "n_heads", "capacity")
    by_name = {item.theorem: item for item in found.predictions}
    # H d_h + d grows by d_h = 10 a head; the facts here were made to grow by 120.
    assert by_name["dana2025_cor1"].slope == pytest.approx(10)
    assert by_name["dana2025_cor1"].ratio == pytest.approx(12, rel=0.05)
    assert "exponent" in found.verdict and "curvature" in found.verdict


def test_saturation_is_left_out() -> None:
    shares = [(1, 0.2), (6, 0.4), (11, 0.6), (16, 0.8), (21, 0.97), (26, 1.0)]
    rng = np.random.default_rng(0)
    held = [
        {
            **Cell(h, 10, 2, 50, task="recall", seed=s).to_dict(),
            "status": "done",
            "share": v + 0.002 * rng.standard_normal(),
            "n_facts": 2500,
        }
        for h, v in shares
        for s in range(3)
    ]
    found = fit(held, "n_heads", "share", law="linear")
    assert [point.x for point in found.points if point.saturated] == [21, 26]
    assert found.chosen.params[1] == pytest.approx(0.04, abs=0.001)
    assert {item.theorem for item in found.predictions} >= {"dana2025_cor1"}
    full = [{**row, "capacity": 2500} for row in rows("linear", 0)]
    with pytest.raises(DataError, match="saturated"):
        fit(full, "n_heads", "capacity")


def test_refusals() -> None:
    held = rows("linear", 0)
    mixed = [*held, {**Cell(1, 12, 2, 50).to_dict(), "status": "done", "capacity": 3}]
    with pytest.raises(UsageError, match="d_model"):
        fit(mixed, "n_heads", "capacity")
    with pytest.raises(UnknownName, match="capacity"):
        fit(held, "n_heads", "capasity")
    with pytest.raises(UnknownName, match="linear"):
        fit(held, "n_heads", "capacity", law="liner")
    with pytest.raises(UsageError, match="no number"):
        fit(held, "recipe", "capacity")
    with pytest.raises(UsageError, match="two columns"):
        fit(held, "capacity", "capacity")
    with pytest.raises(DataError, match="nothing to fit"):
        fit([], "n_heads", "capacity")
    with pytest.raises(DataError, match="needs 4"):
        fit(held[:10], "n_heads", "capacity")
    with pytest.raises(UsageError, match="level"):
        fit(held, "n_heads", "capacity", level=1.0)


def test_one_seed_and_no_noise() -> None:
    exact = fit(rows("linear", 0, noise=0.0, seeds=1, heads=(1, 2, 3, 4, 5, 6)), "n_heads", "capacity", law="linear")
    assert exact.chosen.params[1] == pytest.approx(120, rel=0.1)
    same = [{**row, "capacity": 100.0} for row in rows("linear", 0)]
    flat = fit(same, "n_heads", "capacity", law="linear")
    assert flat.chosen.params[1] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_figures(tmp_path: Path, kind: str) -> None:
    found = fit(rows("linear", 0), "n_heads", "capacity")
    found.figure().draw(tmp_path / f"law.{kind}")
    assert (tmp_path / f"law.{kind}").stat().st_size > 3000
    with pytest.raises(UsageError, match=r"\.png"):
        found.figure().draw(tmp_path / "law.gif")


def test_what_a_notebook_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    law = fit(rows("linear", 0), "n_heads", "capacity", law="linear")
    assert repr(law).startswith("Fit(capacity against n_heads: linear a + b x, a = ")
    kinds = [one.kind for one in law.figure().panels[0].series]
    assert kinds[:3] == ["points", "excluded", "fit"] and {"bound_lower", "bound_upper", "reference"} <= set(kinds)
    assert "<img" in law._repr_html_() and "<table>" in law._repr_html_()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "<img" not in law._repr_html_() and "measured/predicted" in law._repr_html_()


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "matplotlib":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"rote-transformers\[plots\]"):
        fit(rows("linear", 0), "n_heads", "capacity").figure().draw(tmp_path / "law.png")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = tmp_path / "r.db"
    cells = [Cell(h, 10, 2, 50, seed=s) for h in HEADS for s in range(3)]
    rng = np.random.default_rng(0)
    with Journal(db) as journal:
        results = [{"status": "done", "capacity": 100 + 50 * c.n_heads + int(rng.integers(20))} for c in cells]
        journal.put("synthetic", cells, results)
    words = ["fit", str(db), "--x", "n_heads", "--y", "capacity"]
    assert run([*words, "--json", "--figure", str(tmp_path / "f.png")]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["law"] == "linear"
    low, high = record["laws"][0]["params"]["b"]["interval"]
    assert low <= 50 <= high or abs(record["laws"][0]["params"]["b"]["value"] - 50) < 1
    assert (tmp_path / "f.png").exists()
    assert run(words) == 0
    assert "measured/predicted" in capsys.readouterr().out
    assert run([*words, "--law", "cubic"]) == 2
    assert run(["fit", str(tmp_path / "none.db"), "--x", "a", "--y", "b"]) == 2
