"""Losses on distributions: what is built, refitted and trained, in the order that theory allows."""

from __future__ import annotations

import pytest

from rote.lab.studies.distribution_loss import run


def test_no_way_is_better_than_the_best_encoder_and_the_refit_beats_interpolation() -> None:
    params = {"n_heads": 2, "d_model": 3, "vocab": 6, "spread": 2.0, "steps": 60, "rate": 0.01}
    rows = {row["way"]: row for row in run(params, 0)}
    assert set(rows) == {"built by the theorem", "built by the refit", "trained", "best encoder"}
    best = rows["best encoder"]["divergence"]
    assert 0 < best <= rows["built by the refit"]["divergence"] + 1e-6 < rows["built by the theorem"]["divergence"]
    assert rows["trained"]["divergence"] > best
    for row in rows.values():
        assert row["cross_entropy"] == pytest.approx(row["divergence"] + row["entropy"])
        assert row["n_facts"] == 36


def test_more_heads_and_steps_bring_training_nearer() -> None:
    params = {"n_heads": 1, "d_model": 3, "vocab": 6, "spread": 2.0, "steps": 40, "rate": 0.01}
    few = {row["way"]: row["divergence"] for row in run(params, 1)}
    many = {row["way"]: row["divergence"] for row in run({**params, "n_heads": 8, "steps": 200}, 1)}
    assert many["trained"] < few["trained"] and many["best encoder"] == pytest.approx(few["best encoder"], rel=0.05)
