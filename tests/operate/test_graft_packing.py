"""Grafts as files of their own: the same directory again, bit for bit, or a sentence that says why not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import rote
from attacks import tiny_models
from rote.cli.main import run
from rote.models.folders import hashes


@pytest.fixture(scope="module")
def place(tiny_graft: Path) -> Path:
    """A model, a graft on it, and the graft as a file; read only."""
    if not (tiny_graft / "facts.graft").exists():
        rote.graft_pack(tiny_graft / "made", tiny_graft / "facts.graft")
    return tiny_graft


def test_the_same_files_again(place: Path, tmp_path: Path) -> None:
    memory = rote.graft_apply(place / "model", place / "facts.graft", tmp_path / "made")
    assert hashes(tmp_path / "made") == hashes(place / "made")
    assert memory.certificate.passed
    rote.ungraft(tmp_path / "made", tmp_path / "back")
    assert hashes(tmp_path / "back") == hashes(place / "model")


def test_neither_the_base_nor_zeros_take_room(place: Path) -> None:
    added = sum(file.stat().st_size for file in (place / "made").glob("*.safetensors"))
    assert (place / "facts.graft").stat().st_size < added / 8


def test_another_base_is_refused_and_both_are_named(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tiny_models.write_tiny(tmp_path / "other", "mistral", dtype="bfloat16")
    words = ["graft", "apply", str(other), str(place / "facts.graft"), "-o", str(tmp_path / "out")]
    assert run(words) == 2
    said = capsys.readouterr().err
    assert said.count("...") == 2 and "'model'" in said and "made for" in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()
    changed = shutil.copytree(place / "model", tmp_path / "changed")
    (changed / "tokenizer_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(rote.RoteError, match=r"tokenizer_config\.json is not the file that"):
        rote.graft_apply(changed, place / "facts.graft", tmp_path / "out")
    (changed / "tokenizer_config.json").unlink()
    with pytest.raises(rote.RoteError, match=r"changed has no tokenizer_config\.json, which the model had"):
        rote.graft_apply(changed, place / "facts.graft", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["changed", "other"]


def test_a_file_that_was_changed_is_refused(place: Path, tmp_path: Path) -> None:
    whole = (place / "facts.graft").read_bytes()
    bad = tmp_path / "bad.graft"
    refused = 0
    for at in (len(whole) // 2, len(whole) // 2 + 1, len(whole) - 100):
        bad.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        # A compressed stream ends with bits that mean nothing: then the files are the same.
        try:
            rote.graft_apply(place / "model", bad, tmp_path / "out")
        except rote.RoteError as error:
            refused += "does not give the" in str(error)
        else:
            assert hashes(tmp_path / "out") == hashes(place / "made")
            shutil.rmtree(tmp_path / "out")
    assert refused >= 2
    for content in (whole[:5000], b"", b"nothing of the kind"):
        bad.write_bytes(content)
        with pytest.raises(rote.RoteError, match="is no packed graft"):
            rote.graft_apply(place / "model", bad, tmp_path / "out")
    with safe_open(place / "facts.graft", framework="np") as file:
        tensors, meta = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    record = json.loads(meta["graft"])
    more = [*record["files"], {**record["files"][0], "name": "more.py"}]
    for files, sentence in (
        ([{**one, "name": f"../{one['name']}"} for one in record["files"]], "is no packed graft"),
        ([*record["files"], {**record["files"][0], "name": "../x"}], r"bad\.graft names a file '\.\./x'"),
        ([{**one, "base": "/etc/passwd"} for one in record["files"]], r"bad\.graft names a file '/etc/passwd'"),
        (more, r"bad\.graft does not give the certificate\.json"),
        (record["files"][:-1], "does not give the certificate"),
    ):
        save_file(tensors, bad, metadata={**meta, "graft": json.dumps({**record, "files": files})})
        with pytest.raises(rote.RoteError, match=sentence):
            rote.graft_apply(place / "model", bad, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.graft"]


def test_what_cannot_be_packed(place: Path, tmp_path: Path) -> None:
    edited = shutil.copytree(place / "made", tmp_path / "edited")
    shard = next(edited.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x01")
    with pytest.raises(rote.RoteError, match="was changed or truncated"):
        rote.graft_pack(edited, tmp_path / "x.graft")
    with pytest.raises(rote.RoteError, match="exists already"):
        rote.graft_pack(place / "made", place / "facts.csv")
    (tmp_path / "few.csv").write_text("a,b,c\nx,1,u\ny,2,v\n", encoding="utf-8")
    rote.build(rote.read(tmp_path / "few.csv"), "argmax_fit").save(tmp_path / "plain")
    with pytest.raises(rote.RoteError, match="is no graft"):
        rote.graft_pack(tmp_path / "plain", tmp_path / "x.graft")


def test_the_command_line(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["graft", "pack", str(place / "made"), "-o", "facts.graft"]) == 0
    assert "bytes for" in capsys.readouterr().out
    assert run(["graft", "apply", str(place / "model"), "facts.graft", "-o", "made", "--json"]) == 0
    assert '"facts": 24' in capsys.readouterr().out
    assert hashes(tmp_path / "made") == hashes(place / "made")
    (tmp_path / "pack").mkdir()
    assert run(["graft", "pack", str(place / "made"), "-o", "other.graft"]) == 2
    assert "write ./pack for the directory" in capsys.readouterr().err
