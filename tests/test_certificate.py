"""Certificates: the hash of their own, and claims that are held against what is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rote
from rote.certificate import HASH, Certificate, sha256_of
from rote.cli.main import run
from rote.data import random_distributions, random_facts
from rote.errors import CheckpointError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "facts.csv").write_text("a,b,c\n" + "".join(f"k{i},m{i % 3},v{i * 7 % 5}\n" for i in range(12)))
    return rote.build(rote.read(tmp_path / "facts.csv"), "dana2025_cor1").save(tmp_path / "model").folder


def edit(model: Path, change: Callable[[dict[str, Any]], object], *, fresh: bool = True) -> None:
    path = model / "certificate.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    change(record)
    path.write_text(json.dumps({**record, HASH: sha256_of(record)} if fresh else record), encoding="utf-8")


def test_a_certificate_goes_to_json_and_back_with_its_hash(model: Path) -> None:
    record = json.loads((model / "certificate.json").read_text(encoding="utf-8"))
    again = Certificate.from_dict(record)
    assert again.to_dict() == record and record[HASH] == sha256_of(record)
    # The hash is of what is said, not of how it is laid out.
    assert sha256_of(dict(sorted(record.items()))) == record[HASH]
    assert again.replace(seed=9)[HASH] != record[HASH]


@pytest.mark.parametrize("change", [lambda r: r.update(seed=9), lambda r: r.pop(HASH), lambda r: r.update({HASH: ""})])
def test_an_edited_certificate_is_refused(model: Path, change: Callable[[dict[str, Any]], object]) -> None:
    edit(model, change, fresh=False)
    with pytest.raises(CheckpointError, match=HASH if "pop" in change.__code__.co_names else "hash that it names"):
        rote.load(model)


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("facts", 13),
        ("params", 1),
        ("stored_params", 1),
        ("bits_per_param", 99.0),
        ("bound", 999),
        ("theorem", "mine"),
        ("passed", False),
        ("judged_by", "me"),
        ("facts_sha256", "0" * 64),
        ("recall", {"float64": 1.0, "float32": 0.5, "bfloat16": 1.0}),
        ("min_margin", {"float64": 1e6, "float32": 1e6, "bfloat16": 1e6}),
        ("params_by_convention", {"full": 1}),
    ],
)
def test_a_claim_with_a_fresh_hash_is_contradicted(model: Path, claim: str, value: object) -> None:
    edit(model, lambda record: record.update({claim: value}))
    result = rote.verify(model)
    assert claim in {one.claim.split(".")[0] for one in result.contradicted}
    assert not result.confirms(rote.load(model).certificate)


def test_other_formats_are_checked_when_asked(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    true = rote.load(model).certificate.recall["float64"]
    edit(model, lambda record: record["recall"].update(float64=true / 2))
    result = rote.verify(model)
    assert not result.contradicted and "recall.float64" in result.unchecked
    assert run(["verify", str(model)]) == 0
    assert "are for --all-formats" in capsys.readouterr().out
    assert run(["verify", str(model), "--all-formats"]) == 1
    assert "recall.float64 is stated as 0.5, and found to be 1" in capsys.readouterr().out
    assert run(["verify", str(model), "--all-formats", "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["contradicted"] == [{"claim": "recall.float64", "stated": true / 2, "found": true}]
    assert set(record["formats"]) == {"float64", "bfloat16"} and "params" in record["checked"]


def test_a_format_that_was_taken_out_is_missed(model: Path) -> None:
    edit(model, lambda record: record["recall"].pop("bfloat16"))
    (missed,) = rote.verify(model, all_formats=True).contradicted
    assert (missed.claim, missed.stated) == ("recall.bfloat16", None)


def test_what_cannot_be_measured_again_is_listed(model: Path) -> None:
    edit(model, lambda record: record.update(seed=99, mine="anything"))
    result = rote.verify(model, all_formats=True)
    assert not result.contradicted and {"seed", "version", "report", "mine"} <= set(result.unchecked)


def test_divergences_are_claims_too(tmp_path: Path) -> None:
    table = random_distributions(10, 2, 6, rng=np.random.default_rng(0))
    model = rote.build(table, rote.DistributionRefit(starts=1), d_model=2).save(tmp_path / "m").folder
    assert not rote.verify(model, all_formats=True).contradicted
    edit(model, lambda record: record.update(kl=5.0, entropy=7.0))
    assert {one.claim for one in rote.verify(model).contradicted} == {"kl", "entropy"}


def test_other_facts_contradict_nothing_that_is_about_facts(model: Path, tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("a,b,c\nk0,m0,v0\nk1,m1,v2\n")
    result = rote.verify(model, rote.read(tmp_path / "few.csv"))
    assert not result.contradicted and "params" in result.checked and "facts" in result.unchecked


def test_a_memory_that_was_never_saved_is_checked_too() -> None:
    table = random_facts(24, 3, 12, rng=np.random.default_rng(0))
    assert "bound" in rote.verify(rote.build(table, "dana2025_cor1"), table, all_formats=True).checked


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_a_format_that_is_not_claimed_is_no_contradiction(dtype: str) -> None:
    table = random_facts(12, 2, 6, rng=np.random.default_rng(0))
    result = rote.verify(rote.build(table), table, dtype=dtype)
    assert result.contradicted == ()


def test_a_tokenizer_that_was_taken_away_is_missed(tmp_path: Path) -> None:
    table = random_facts(12, 2, 6, rng=np.random.default_rng(0))
    rote.build(table).save(tmp_path / "m")
    (tmp_path / "m" / "tokenizer.json").unlink()
    path = tmp_path / "m" / "certificate.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    del record["files_sha256"]["tokenizer.json"]
    path.write_text(json.dumps({**record, HASH: sha256_of(record)}), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json"):
        rote.verify(tmp_path / "m", table)
