"""`rote check`: every assumption on small data whose answer is known, the JSON, and what is refused."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import rote
from rote.assumptions import Finding, Vectors, check, usable
from rote.assumptions.context_overlap import overlap
from rote.cli.main import run
from rote.data import FactTable, VectorTable, random_distributions, random_vectors
from rote.errors import UsageError
from rote.solvers.rows import closest_pair

KEYS = {"assumption", "holds", "lower", "upper", "witness", "offenders", "explanation"}


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = run(list(args))
    out, err = capsys.readouterr()
    return code, out, err


def write(path: Path, **tensors: Any) -> str:
    save_file({name: np.asarray(value) for name, value in tensors.items()}, path)
    return str(path)


def by_name(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {record["assumption"]: record for record in records}


def test_json_of_vectors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    queries, contexts = rng.standard_normal((50, 16)), rng.standard_normal((50, 8, 16))
    queries[7] = -2 * queries[3]
    contexts[5, 3] = contexts[5, 0] + contexts[5, 1]
    file = write(tmp_path / "v.safetensors", queries=queries, contexts=contexts)
    code, out, _ = call(capsys, "check", file, "--json")
    assert code == 0
    found = by_name(json.loads(out))
    assert all(set(record) >= KEYS for record in found.values())
    rank = found["rank of contexts"]
    assert (rank["holds"], rank["lower"], rank["offenders"], sorted(rank["witness"])) == (False, 7, [5], [0, 1, 3])
    assert rank["detail"]["singular_below"] < rank["detail"]["rounding"] < rank["detail"]["singular_above"]
    kruskal = found["Kruskal rank of queries"]
    assert (kruskal["holds"], kruskal["lower"], kruskal["upper"], kruskal["witness"]) == (False, 1, 1, [3, 7])
    sampled = kruskal["detail"]["sampled"]
    truth = 1 - (8 * 7) / (50 * 49)
    assert sampled["low"] <= truth <= sampled["high"]
    assert found["general position of queries"]["holds"] is False
    assert found["context overlap"]["lower"] == 0.0
    code, out, _ = call(capsys, "check", file, "--with", "mahdavi2024_thm1", "--json")
    assert code == 1
    assert set(by_name(json.loads(out))) == {"rank of contexts", "Kruskal rank of queries"}


def test_good_vectors_and_open_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    few = Vectors.make(
        rng.standard_normal((10, 16)).astype(np.float16), rng.standard_normal((4, 16)).astype(np.float16)
    )
    verdicts = {one.theorem: one.verdict for one in usable(check(few))}
    assert verdicts["mahdavi2024_thm1"] is True
    assert verdicts["mahdavi2024_shared_upper"] is True
    assert verdicts["kajitsuka2025_next_token"] is False
    file = write(tmp_path / "v.safetensors", queries=rng.random((300, 32)), contexts=rng.random((12, 32)))
    code, out, _ = call(capsys, "check", file, "--with", "mahdavi2024_thm1", "--json")
    kruskal = by_name(json.loads(out))["Kruskal rank of queries"]
    assert code == 0
    assert kruskal["holds"] == "unknown"
    assert 3 <= kruskal["lower"] < 12 < kruskal["upper"] == 32
    code, out, _ = call(capsys, "check", file)
    assert code == 0
    assert "open             mahdavi2024_thm1" in out


def test_fewer_examples_than_the_context_has_rows() -> None:
    rng = np.random.default_rng(2)
    found = {f.assumption: f for f in check(Vectors.make(rng.random((3, 6)), rng.random((3, 5, 6))))}
    assert found["Kruskal rank of queries"].holds is True
    assert found["Kruskal rank of queries"].detail["needed"] == 3
    single = check(Vectors.make(rng.random((1, 4)), rng.random((1, 1, 4))))
    assert all(f.holds or f.informative for f in single)
    wide = {f.assumption: f for f in check(Vectors.make(rng.random((9, 4)), rng.random((9, 5, 4))))}
    assert wide["rank of contexts"].holds is False
    assert wide["rank of contexts"].n_offenders == 9


def test_facts(capsys: pytest.CaptureFixture[str]) -> None:
    table = FactTable.from_rows([("a", "b"), ("b", "a"), ("c", "b")], ["x", "y", "x"])
    found = {f.assumption: f for f in check(table)}
    assert found["distinct contexts"].holds is True
    assert (found["distinct up to order"].holds, found["distinct up to order"].witness) == (False, [0, 1])
    assert found["distinct last tokens"].lower == 2
    assert found["rank condition"].lower == table.vocab + 2 - 2
    code, out, _ = call(capsys, "check", "countries", "--d-model", "5", "--with", "dana2025_cor1", "--json")
    records = by_name(json.loads(out))
    assert code == 1
    assert (records["distinct last tokens"]["holds"], records["distinct last tokens"]["lower"]) == (False, 4)
    assert records["rank condition"]["holds"] is True
    code, out, _ = call(capsys, "check", "countries", "--with", "mahdavi2024_thm1")
    assert code == 1
    assert "other data" in out
    code, out, _ = call(capsys, "check", "countries", "--with", "counting")
    assert code == 0
    assert "no assumption" in out


def test_overlap_is_what_counting_pairs_gives() -> None:
    rng = np.random.default_rng(3)
    for _ in range(100):
        keys = rng.integers(0, 4, (int(rng.integers(2, 7)), int(rng.integers(1, 5))))
        shares = [
            sum((Counter(a) & Counter(b)).values()) / keys.shape[1] for a, b in itertools.combinations(keys.tolist(), 2)
        ]
        assert overlap(keys) == pytest.approx(np.mean(shares))


def test_closest_pairs_are_the_closest() -> None:
    rng = np.random.default_rng(4)
    for trial in range(150):
        count, width = int(rng.integers(2, 150)), int(rng.integers(1, 30))
        points = rng.standard_normal((count, width)) * 10.0 ** int(rng.integers(-5, 5)) + 100.0 * (trial % 2)
        if trial % 3 == 0 and count > 3:
            points[1] = points[0] + 1e-9 * np.abs(points).max() * rng.standard_normal(width)
        i, j, distance = closest_pair(points)
        table = np.linalg.norm(points[:, None] - points[None], axis=2)
        table[np.arange(count), np.arange(count)] = np.inf
        assert distance == pytest.approx(table.min(), rel=1e-6)
        assert table[i, j] == pytest.approx(distance, rel=1e-6)


def test_separation_ignores_equal_tokens() -> None:
    contexts = np.array([[[0.0, 0.0], [3.0, 4.0]], [[0.0, -0.0], [3.0, 4.5]]])
    found = next(f for f in check(Vectors.make(np.ones((2, 2)), contexts)) if f.assumption == "separated tokens")
    assert (found.lower, found.detail["r"]) == (0.5, pytest.approx(np.hypot(3, 4.5)))
    assert found.witness == [[0, 1], [1, 1]]


def test_what_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good = np.ones((3, 4))
    bad = good.copy()
    bad[1, 2] = np.nan
    infinite = good.copy()
    infinite[2, 0] = np.inf
    whole = write(tmp_path / "whole.safetensors", queries=good, contexts=good)
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(Path(whole).read_bytes()[:-20])
    cases = [
        (write(tmp_path / "a.safetensors", queries=good), "must hold the tensors queries"),
        (write(tmp_path / "b.safetensors", queries=bad, contexts=good), "example 2 holds nan"),
        (write(tmp_path / "c.safetensors", queries=infinite, contexts=good), "example 3 holds inf"),
        (write(tmp_path / "d.safetensors", queries=np.ones((3, 5)), contexts=good), "agree on the last axis"),
        (write(tmp_path / "e.safetensors", queries=good, contexts=np.ones((2, 3, 4))), "agree on the first axis"),
        (write(tmp_path / "f.safetensors", queries=np.ones(3), contexts=good), "T x d"),
        (write(tmp_path / "g.safetensors", queries=np.ones((0, 4)), contexts=good), "empty"),
        (write(tmp_path / "h.safetensors", queries=np.ones((3, 4), dtype=bool), contexts=good), "real numbers"),
        (str(cut), "safetensors file that can be read"),
        (str(tmp_path / "none.safetensors"), "no file"),
    ]
    for file, needle in cases:
        code, out, err = call(capsys, "check", file)
        assert (code, out) == (2, ""), file
        assert needle in err, err
    code, _, err = call(capsys, "check", whole, "--with", "mahdavi2024_thm")
    assert code == 2
    assert "mahdavi2024_thm1" in err
    assert call(capsys, "check", whole, "--tokens", "words")[0] == 2
    assert call(capsys, "check", write(tmp_path / "z.safetensors", queries=0 * good, contexts=0 * good))[0] == 0


def test_bfloat16_is_read(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file as save

    from rote.assumptions import read_vectors

    rng = torch.Generator().manual_seed(0)
    file = tmp_path / "half.safetensors"
    save({n: torch.randn(4, 6, generator=rng).bfloat16() for n in ("queries", "contexts")}, file)
    assert read_vectors(file).query_roundoff == 2.0**-8


def test_build_explains_its_refusals() -> None:
    rng = np.random.default_rng(5)
    full = random_vectors(10, 4, 6, rng=rng, sharing="own", distribution="gaussian")
    twice = np.array(full.queries)
    twice[7] = twice[2]
    with pytest.raises(rote.RoteError, match=r"rote.check finds for mahdavi2024_thm1: Kruskal rank .* queries 3 and 8"):
        rote.build(VectorTable(full.contexts, twice, full.targets), with_="mahdavi2024_thm1")
    flat = np.array(full.contexts)
    flat[5, 3] = flat[5, 0]
    with pytest.raises(rote.RoteError, match=r"rows 1 and 4 of context 6 are dependent"):
        rote.build(VectorTable(flat, full.queries, full.targets), with_="mahdavi2024_thm1")


def test_what_nothing_rests_on_neither_holds_nor_fails(capsys: pytest.CaptureFixture[str]) -> None:
    table = rote.read("countries")
    overlaps = next(f for f in check(table) if f.assumption == "context overlap")
    assert (overlaps.holds, overlaps.informative, overlaps.mark) == (None, True, "·")
    assert overlaps.to_dict()["holds"] is None
    assert "✗" not in str(check(table).sheet())
    with pytest.raises(ValueError, match="neither holds nor fails"):
        Finding("overlap", False, "nothing rests on it.")
    vectors = random_vectors(6, 3, 4, rng=np.random.default_rng(0), sharing="own")
    overlaps = next(f for f in check(vectors) if f.assumption == "context overlap")
    assert (overlaps.mark, overlaps.theorems) == ("✗", ("mahdavi2024_shared_upper",))
    assert call(capsys, "check", "countries")[0] == 0


def test_findings_are_one_record() -> None:
    table = rote.read("countries")
    findings = check(table, d_model=5, only="dana2025_cor1")
    assert (len(findings), findings.passed) == (3, False)
    assert repr(findings).endswith("1 fail: distinct last tokens)")
    assert [one.theorem for one in findings.usable] == ["dana2025_cor1"]
    assert "may not be used" in findings.sheet().notes[0]
    assert "distinct last tokens" in findings._repr_html_()
    json.dumps(findings.to_dict(), allow_nan=False)
    other = check(table, only="mahdavi2024_thm1")
    assert (list(other), other.passed, other.foreign) == ([], False, ("mahdavi2024_thm1",))
    assert check(table, only="counting").passed
    words = table.words
    assert words is not None
    sequences = rote.SequenceTable(np.array([[0, 1], [1, 0]]), np.array([[0, 1], [1, 0]]), words)
    assert {f.assumption: f.holds for f in check(sequences)} == {
        "distinct up to order": False,
        "separated tokens": True,
    }


def test_other_data_are_refused() -> None:
    with pytest.raises(UsageError, match="facts, sequences, vectors"):
        check([1, 2, 3])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="table of distributions"):
        check(random_distributions(5, 2, 4, rng=np.random.default_rng(0)))
    with pytest.raises(UsageError, match="not the width"):
        check(random_vectors(6, 3, 4, rng=np.random.default_rng(0)), d_model=5)
