"""Directories of Hugging Face transformers: code of theirs never runs, and nothing is laid over the weights."""

from __future__ import annotations

import ast
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rote
from attacks import tiny_models
from rote.data.stock import load_model, load_tokenizer
from rote.errors import CheckpointError

CODE = """from pathlib import Path
Path({mark!r}).touch()
from transformers import LlamaConfig, LlamaForCausalLM
class OwnConfig(LlamaConfig): pass
class OwnModel(LlamaForCausalLM): pass
"""


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model whose files name code that would leave a mark, and somebody who says yes to every question."""
    place = tiny_models.write_tiny(tmp_path / "model", "llama")
    (place / "own.py").write_text(CODE.format(mark=str(tmp_path / "ran")))
    names = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel", "AutoModel": "own.OwnModel"}
    edit(place / "config.json", auto_map=names, model_type="own")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 20))
    return place


def by_audit(place: Path) -> None:
    (place.parent / "text.txt").write_text("w1 w2 w3 w4 w5 w6 w7 w8 " * 9)
    rote.audit(place, place.parent / "text.txt", context=4, samples=2)


def by_graft(place: Path) -> None:
    rote.graft(place, [{"k": "AS", "v": "Rome"}], template="The code {k} is", answer=" {v}")


WAYS: dict[str, Callable[[Path], object]] = {
    "model": lambda place: load_model(place, "auto"),
    "tokenizer": load_tokenizer,
    "audit": by_audit,
    "graft": by_graft,
}


@pytest.mark.parametrize("way", WAYS)
def test_code_in_a_directory_is_refused_and_does_not_run(hostile: Path, way: str) -> None:
    with pytest.raises(rote.RoteError):
        WAYS[way](hostile)
    assert not (hostile.parent / "ran").exists()


@pytest.mark.parametrize("way", ["model", "tokenizer"])
def test_the_library_is_told_not_to_trust_what_a_look_has_missed(
    hostile: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(hostile / "tokenizer_config.json", auto_map={"AutoTokenizer": ["own.OwnModel", None]}, tokenizer_class="Own")
    monkeypatch.setattr("rote.data.stock.refuse_code", lambda folder: None)
    with pytest.raises(CheckpointError, match="contains custom code"):
        WAYS[way](hostile)
    assert not (hostile.parent / "ran").exists()


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "generation_config.json"])
def test_a_map_of_code_is_refused_by_name(tmp_path: Path, file: str) -> None:
    place = tiny_models.write_tiny(tmp_path / "model", "llama")
    edit(place / file, auto_map={"AutoTokenizer": ["own.OwnTokenizer", None]})
    for load in (WAYS["model"], load_tokenizer):
        with pytest.raises(CheckpointError, match=f"{file} names code of its own"):
            load(place)


def test_an_adapter_is_refused(tmp_path: Path) -> None:
    place = tiny_models.write_tiny(tmp_path / "model", "llama")
    (place / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "x"}))
    with pytest.raises(CheckpointError, match="merge the adapter"):
        load_model(place, "auto")


def test_nothing_else_loads_models() -> None:
    """Every way into the library goes through rote.data.stock, which passes trust_remote_code=False."""
    source = Path(rote.__file__).parent
    calls = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "from_pretrained"
    }
    assert calls == {"data/stock.py"}
    assert "trust_remote_code=False" in (source / "data" / "stock.py").read_text()
