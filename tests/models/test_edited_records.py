"""Records that were edited: certificates, configurations and grafts are refused in a sentence, and never crash."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rote
from attacks.samples import Samples
from rote.certificate import HASH, sha256_of
from rote.errors import CheckpointError, RoteError


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    return Samples(tmp_path_factory.mktemp("edited") / "samples")


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "certificate.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps({**record, HASH: sha256_of(record)}))


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.pop("recall"),
        lambda c: c.update(recall={"float32": "all"}),
        lambda c: c.update(recall={}),
        lambda c: c.update(params_by_convention={}),
        lambda c: c.update(params_by_convention={"full": None}),
        lambda c: c.update(files_sha256={"config.json": 3}),
        lambda c: c["files_sha256"].update({"x" * 5000: "0"}),
        lambda c: c.update(facts=True),
        lambda c: c.update(facts=10**400),
        lambda c: c.update(read={"choices": []}),
        lambda c: c.update(dtype=["float32"]),
    ],
)
def test_a_certificate_that_was_edited(
    samples: Samples, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    shutil.copytree(samples.models[0], tmp_path / "m")
    edit(tmp_path / "m", change)
    with pytest.raises(RoteError):
        rote.load(tmp_path / "m").table()


@pytest.mark.parametrize("number", range(4))
def test_every_claim_can_be_missing(samples: Samples, tmp_path: Path, number: int) -> None:
    original = samples.models[number]
    for name in json.loads((original / "certificate.json").read_text()):
        shutil.copytree(original, tmp_path / name)
        edit(tmp_path / name, lambda c, name=name: c.update({name: 3}))  # type: ignore[misc]
        try:
            rote.load(tmp_path / name).sheet()
        except RoteError as error:
            assert str(error).endswith(".")


@pytest.mark.parametrize(
    "header",
    [b"[" * 5000, b'{"a": 3}', b'{"a":{"dtype":"F32","shape":[1e99],"data_offsets":[0,4]}}', b"\xff" * 40, b"{}"],
)
def test_weights_with_an_absurd_header(samples: Samples, tmp_path: Path, header: bytes) -> None:
    folder = tmp_path / "m"
    shutil.copytree(samples.models[0], folder)
    content = len(header).to_bytes(8, "little") + header
    (folder / "model.safetensors").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    edit(folder, lambda c: c.update(weights_sha256=digest))
    edit(folder, lambda c: c["files_sha256"].update({"model.safetensors": digest}))
    with pytest.raises(CheckpointError):
        rote.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda g: g.pop("original"),
        lambda g: g.update(original=3),
        lambda g: g.update(original=[{"was": "a"}]),
        lambda g: g.update(below=None),
        lambda g: g.update(others=["config.json"]),
        lambda g: g["others"].update({"../../etc/passwd": "0"}),
        lambda g: g["original"][0].update(was="../out"),
    ],
)
def test_a_graft_with_a_broken_record(
    samples: Samples, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    record = json.loads(json.dumps(samples.graft))
    change(record["graft"])
    samples.write_graft(tmp_path / "g", json.dumps(record))
    with pytest.raises(CheckpointError, match="edited"):
        rote.ungraft(tmp_path / "g", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_whole_graft_comes_off(samples: Samples, tmp_path: Path) -> None:
    samples.write_graft(tmp_path / "g", json.dumps(samples.graft))
    assert rote.ungraft(tmp_path / "g", tmp_path / "out") == ["config.json", "model.safetensors"]


def test_a_claim_beyond_all_numbers(samples: Samples, tmp_path: Path) -> None:
    shutil.copytree(samples.models[1], tmp_path / "m")

    def change(record: dict[str, Any]) -> None:
        for name, value in record.items():
            if isinstance(value, dict) and "ratio_bits" in value:
                record[name] = {key: 1e308 if type(held) in (int, float) else held for key, held in value.items()}

    edit(tmp_path / "m", change)
    memory = rote.load(tmp_path / "m")
    try:
        memory.sheet()
    except RoteError as error:
        assert "does not hold what" in str(error)
