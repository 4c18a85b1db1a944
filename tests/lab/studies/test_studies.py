"""Studies and their cells: checked parameters, hashes, failures as results; the two for Mahdavi et al."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rote.errors import UnknownName, UsageError
from rote.lab.studies import StudyCell, get_study, run_study, studies
from rote.lab.studies.head_saturation import independent, largest_weights, split_of
from rote.measurement import Cell
from rote.measurement.run import draw
from rote.training import ModelSpec, VectorStack, get_recipe, train
from rote.training.loop import outputs

SMALL = {"n_heads": 2, "n_facts": 30, "d_model": 8, "context": 4, "vocab": 5, "steps": 30}


def test_a_cell_is_checked_and_hashed() -> None:
    cell = StudyCell.of("head_saturation", SMALL, 1)
    assert cell.values["recipe"] == "best"
    assert cell.hash == StudyCell.of("head_saturation", dict(reversed(SMALL.items())), 1).hash
    assert cell.hash != StudyCell.of("head_saturation", SMALL, 2).hash
    assert cell.seconds() > 0
    assert cell.to_dict()["study"] == "head_saturation"
    with pytest.raises(UnknownName, match="did you mean 'n_heads'"):
        StudyCell.of("head_saturation", {**SMALL, "n_head": 1})
    with pytest.raises(UsageError, match="needs n_heads"):
        StudyCell.of("head_saturation", {"n_facts": 3})
    with pytest.raises(UsageError, match="threshold must be a finite number"):
        StudyCell.of("head_saturation", {**SMALL, "threshold": float("nan")})
    with pytest.raises(UsageError, match="seed"):
        StudyCell.of("head_saturation", SMALL, -1)


@pytest.mark.parametrize("kind", sorted(studies()))
def test_every_study_says_what_it_is_and_what_it_takes(kind: str) -> None:
    study = get_study(kind)
    assert len(study.title) > 10
    for name, (type_, default) in study.params.items():
        assert name != "seed" and type_ in (int, float, str, bool, list)
        assert default is None or isinstance(default, (type_, int))


def test_the_same_question_has_the_same_answer() -> None:
    record = StudyCell.of("head_saturation", SMALL).to_dict()
    first, second = run_study([record, record])
    assert first["status"] == "done" and first["rows"] == second["rows"]
    rows = first["rows"]
    assert sum(row["share"] for row in rows if row["what"] == "example") == pytest.approx(1)
    assert sum(row["share_if_independent"] for row in rows if row["what"] == "example") == pytest.approx(1)
    assert [row["what"] for row in rows].count("head") == 2


def test_a_failure_is_a_result() -> None:
    record = StudyCell.of("model_audit", {"model": "/nowhere/at/all"}).to_dict()
    (found,) = run_study([record])
    assert found["status"] == "failed" and "/nowhere/at/all" in found["reason"]


def test_the_weights_of_heads_are_those_of_the_trainer() -> None:
    """The outputs that follow from our attention are the trainer's own."""
    cell = Cell(
        n_heads=3, d_model=8, context=5, vocab=6, task="recall", n_facts=12, family="layer", sharing=1.0, steps=5
    )
    table: Any = draw(cell, 12)
    (outcome,) = train(ModelSpec("layer", cell.arch), [table], get_recipe("best").replace(steps=5), [0])
    stacked = {name: tensor[None].double() for name, tensor in outcome.weights.items()}
    w = {name: tensor[0].numpy() for name, tensor in stacked.items()}
    theirs = outputs(cell.spec, stacked, VectorStack.of([table]))[0].numpy()
    from rote.training.vectors import sinusoids

    places = sinusoids(6, 8).numpy()
    rows = np.float32(table.contexts).astype(float) @ w["W_in"].T + w["b_in"] + places[1:]
    asked = np.float32(table.queries).astype(float) @ w["W_in"].T + w["b_in"] + places[0]
    seen, most = [], []
    for h in range(3):
        scores = (asked @ w["W_Q"][h].T) @ (rows @ w["W_K"][h].T).T / np.sqrt(8)
        weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        most.append(weights.max(1))
        seen.append(weights @ (rows @ w["W_V"][h, 0]))
    ours = w["W_U"] @ w["W_O"] @ np.stack(seen) + w["b_U"][:, None]
    np.testing.assert_allclose(ours, theirs, atol=1e-9)
    np.testing.assert_allclose(largest_weights(w, table), np.stack(most, 1), atol=1e-6)


def test_a_division_of_labour_is_seen() -> None:
    """In the proof every example has one unsaturated head: all counts are H - 1, and heads exclude each other."""
    blind = ~np.eye(4, dtype=bool)[np.arange(40) % 4]
    found = split_of(blind)
    assert found["one_head_unsaturated"] == 1 and found["variance_ratio"] == 0
    assert found["head_correlation"] == pytest.approx(-1 / 3)
    rng = np.random.default_rng(0)
    chance = split_of(rng.random((20_000, 4)) < 0.7)
    assert abs(chance["head_correlation"]) < 0.02 and chance["variance_ratio"] == pytest.approx(1, abs=0.05)
    assert independent(np.array([0.5, 0.5])) == pytest.approx([0.25, 0.5, 0.25])


def test_an_audit_becomes_rows() -> None:
    record = StudyCell.of("model_audit", {"layers": "0-1", "tokens": 8, "samples": 40, "fresh": False}).to_dict()
    (found,) = run_study([record])
    assert found["status"] == "done", found["reason"]
    first, second = found["rows"]
    assert (first["layer"], second["layer"]) == (0, 1)
    assert first["sets_of_n_independent"] == 0  # every window asks with the same token
    assert second["contexts_full_rank"] == 1
