"""GGUF files in llama.cpp: what it says is what transformers say, and every fact of a table comes back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rote
from attacks import tiny_models
from rote.cli.main import run
from rote.data import random_facts
from rote.data.stock import load_model, load_tokenizer
from rote.errors import CheckpointError, RoteError, UsageError
from rote.exporting import EXPORTS, open_gguf, verify_gguf
from rote.models._gguf import FAMILIES, TYPES, write_gguf
from rote.models._gguf_tokens import fact_tokens, stock_tokens
from rote.models._pretrained import FAMILIES as GRAFTED
from rote.models._pretrained import unpack_gguf
from rote.referee.llama_cpp import LlamaCpp

TEXTS = ["The code AS is in", "Question and answer. w3 w17", "the place of the north"]


def tiny(place: Path, family: str, *, tied: bool, **more: Any) -> Path:
    """A random model of a family, large enough not to say one thing only, with a byte-level tokenizer."""
    tiny_models.write_tiny(place, family, tied=tied, **{"vocab_size": 820, "initializer_range": 0.2, **more})
    tiny_models.tiny_qwen_tokenizer().save_pretrained(str(place))
    return place


def spoken(place: Path, length: int, texts: list[str] = TEXTS) -> list[str]:
    """Greedy continuations by transformers."""
    model, tokenizer = load_model(place, torch.float32), load_tokenizer(place)
    said = []
    for text in texts:
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, do_sample=False)
        said.append(tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True))
    return said


def test_every_family_that_is_grafted_is_written() -> None:
    assert set(FAMILIES) >= set(GRAFTED)


@pytest.mark.parametrize(
    ("family", "tied", "more"),
    [
        ("llama", True, {}),
        ("llama", False, {"head_dim": 32, "attention_bias": True}),
        ("llama", True, {"rope_parameters": {
            "rope_type": "llama3", "rope_theta": 5000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}),
        ("mistral", False, {"head_dim": 64}),
        ("arcee", False, {"head_dim": 48}),
        ("qwen2", True, {}),
        ("qwen3", False, {}),
    ],
)  # fmt: skip
def test_llama_cpp_says_what_transformers_say(family: str, tied: bool, more: dict[str, Any], tmp_path: Path) -> None:
    place, file = tiny(tmp_path / "model", family, tied=tied, **more), tmp_path / "m.gguf"
    counts = write_gguf(file, place, stock_tokens(place, load_tokenizer(place), 0, 820), "F32", notes={})
    assert set(counts) == {"F32"}
    wanted = spoken(place, 8)
    assert len(set(wanted)) > 1, "a model that says one thing tells nothing"
    with LlamaCpp(file, 256) as runtime:
        assert [one["text"] for one in runtime.complete(TEXTS, 8)] == wanted


def test_texts_are_cut_as_transformers_cut_them(tmp_path: Path) -> None:
    """Digits, spaces and line breaks are where tokenizers differ; the number of tokens is what llama.cpp counts."""
    place, file = tiny(tmp_path / "model", "llama", tied=True), tmp_path / "m.gguf"
    tokenizer = load_tokenizer(place)
    write_gguf(file, place, stock_tokens(place, tokenizer, 0, 820), "F16", notes={})
    with LlamaCpp(file, 256) as runtime:
        for text in ("w12345  x", "can't\n\n stop", "<end>The", "ÄÖ the 日本"):
            asked = len(tokenizer(text)["input_ids"])
            assert runtime.complete([text], 1) and runtime.tokens == asked, text


def test_facts_of_a_table_come_back_in_every_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, folder = _airports(tmp_path / "airports.csv", 300), tmp_path / "model"
    table = rote.read(source, tokens="chars")
    rote.build(table, arch="llama", rng=0).save(folder)
    for kind in ("F32", "F16", "BF16"):
        file = tmp_path / f"{kind}.gguf"
        assert run(["export", str(folder), "-o", str(file), "--type", kind, "--json"]) == 0
        record = json.loads(capsys.readouterr().out)
        assert (record["n_facts"], record["n_failed"], record["dtype"], record["written"]) == (300, 0, kind, True)
        assert record["judged_by"].startswith("llama.cpp") and kind in record["tensors"]
        assert run(["verify", str(file), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["n_facts"] == 300 and found["recall"] == 1.0 and found["min_margin"] > 0
    # The certificate has a row for each, and everything else about the directory holds as before.
    memory = rote.load(folder)
    assert set(memory.certificate[EXPORTS]) == {"GGUF F32", "GGUF F16", "GGUF BF16"}
    assert all(row["recall"] == 1.0 for row in memory.certificate[EXPORTS].values())
    assert rote.verify(folder).passed
    assert "GGUF F16" in str(memory.sheet())
    # A table of other facts is told apart, and facts that are not there are lost.
    other = tmp_path / "other.csv"
    other.write_text(source.read_text().replace("United States", "Germany"), encoding="utf-8")
    assert run(["verify", str(tmp_path / "F16.gguf"), str(other)]) == 2
    assert "is not what" in capsys.readouterr().err
    assert run(["verify", str(tmp_path / "F16.gguf"), str(other), "--other-facts"]) == 1
    assert "-> expected Germany, got" in " ".join(capsys.readouterr().out.split())
    assert "FROM ./F16.gguf" in (tmp_path / "F16.Modelfile").read_text()


@pytest.mark.parametrize(
    "rows",
    [
        "river,what,value\nDanube,mouth,Black Sea\nNile,mouth,Mediterranean\nDanube,in,Europe\nNile,in,Africa\n",
        "a,b\nx,y\ny,z\nz,x\n",  # every token is an answer, so that one more has to end texts
        "a,b\nüber,größer\n日本,東京\nÅ,é\n",
    ],
)
def test_words_of_all_kinds(rows: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(rows, encoding="utf-8")
    table = rote.read(tmp_path / "rows.csv")
    memory = rote.build(table, arch="llama", rng=0).save(tmp_path / "model")
    record = rote.export(memory, tmp_path / "m.gguf")
    assert record["n_failed"] == 0 and record["dtype"] == "F32"
    assert verify_gguf(tmp_path / "m.gguf", table).passed


def test_contexts_that_repeat_one_token_are_told_apart_by_a_start(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\nx,one\nx x,two\nx x x,three\ny,one\ny y,four\n", encoding="utf-8")
    table = rote.read(tmp_path / "rows.csv", tokens="words")
    memory = rote.build(table, arch="llama", rng=0).save(tmp_path / "model")
    assert rote.export(memory, tmp_path / "m.gguf")["n_failed"] == 0
    assert rote.export(memory, tmp_path / "m.onnx")["n_failed"] == 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_hashed_tables_are_exact_in_every_type_without_blocks(dtype: str, tmp_path: Path) -> None:
    """Their ReLUs become SiLUs of large whole numbers. Every token is an answer here, so that one more ends texts."""
    table = random_facts(150, 3, 20, rng=np.random.default_rng(5))
    memory = rote.build(table, "stock_hashed", dtype=dtype, rng=0)
    memory = memory.save(tmp_path / "model")
    for kind in ("F32", "F16", "BF16"):
        record = rote.export(memory, tmp_path / f"{kind}.gguf", table, form=kind)
        assert (record["n_facts"], record["n_failed"]) == (150, 0), kind
        # What a right answer leads by is a whole number of the table's own, whatever the type.
        assert record["min_margin"] == pytest.approx(4.0, abs=0.1), kind
    import gguf

    stored = gguf.GGUFReader(tmp_path / "F16.gguf")
    assert stored.fields["general.architecture"].contents() == "llama"
    kinds = {tensor.name: tensor.tensor_type.name for tensor in stored.tensors}
    assert kinds["blk.0.ffn_gate.weight"] == "F16"
    # Constants that make norms exact are beyond float16 in a model of bfloat16.
    assert kinds["token_embd.weight"] == ("F32" if dtype == "bfloat16" else "F16")
    with pytest.raises(UsageError, match="blocks of Q8_0"):
        rote.export(memory, tmp_path / "m.gguf", table, form="Q8_0")


def test_a_silu_is_a_relu_only_beside_a_constant(tmp_path: Path) -> None:
    place = tiny(tmp_path / "model", "arcee", tied=True, hidden_act="relu")
    with pytest.raises(UsageError, match="no channel of this model holds a constant"):
        write_gguf(tmp_path / "m.gguf", place, stock_tokens(place, load_tokenizer(place), 0, 820), "F32", notes={})
    assert not (tmp_path / "m.gguf").exists()


def test_a_type_that_loses_facts_is_not_written_unless_it_may(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = rote.read(_airports(tmp_path / "airports.csv", 300), tokens="chars")
    folder, file = tmp_path / "model", tmp_path / "m.gguf"
    memory = rote.build(table, arch="llama", d_model=32, rng=0).save(folder)
    record = rote.export(memory, file, form="Q4_0")
    assert record["n_failed"] > 0 and not record["written"] and not file.exists()
    assert EXPORTS not in rote.load(folder).certificate
    assert run(["export", str(folder), "-o", str(file), "--type", "Q4_0"]) == 1 and not file.exists()
    assert "nothing was written: choose F32" in " ".join(capsys.readouterr().out.split())
    record = rote.export(memory, file, form="Q4_0", partial=True)
    assert record["written"] and open_gguf(file).form == "Q4_0"
    assert verify_gguf(file, table).n_failed == record["n_failed"]


def test_what_has_no_such_form_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\nx,y\nz,w\n", encoding="utf-8")
    table = rote.read(tmp_path / "rows.csv")
    own = rote.build(table, rng=0)
    with pytest.raises(UsageError, match=r"none that llama\.cpp runs"):
        rote.export(own, tmp_path / "m.gguf", table)
    stock = rote.build(table, arch="llama", d_model=8, n_heads=2, d_head=8, rng=0)
    with pytest.raises(RoteError, match="no type of GGUF matrices 'Q9'"):
        rote.export(stock, tmp_path / "m.gguf", table, form="Q9")
    with pytest.raises(UsageError, match=r"neither \.onnx nor \.gguf"):
        rote.export(stock, tmp_path / "m.bin", table)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_damaged_files_are_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.csv").write_text("a,b\nx,y\nz,w\n", encoding="utf-8")
    rote.build(rote.read(tmp_path / "rows.csv"), arch="llama", rng=0).save(tmp_path / "model")
    rote.export(tmp_path / "model", tmp_path / "m.gguf")
    whole = (tmp_path / "m.gguf").read_bytes()
    (marks,) = re.findall(rb'\["[^"]*", "[^"]*"\](?=[^,])', whole.partition(b"rote.marks")[2][:80])
    for name, content in {
        "empty": b"",
        "text": b"hello",
        "short": whole[: len(whole) // 2],
        "shorter": whole[:100],
        "edited": whole.replace(b'"facts": 2', b'"facts": 3'),
        "marks": whole.replace(marks, b"[" * len(marks)),
        "no marks": whole.replace(marks, b"1" * len(marks)),
    }.items():
        (tmp_path / f"{name}.gguf").write_bytes(content)
        assert run(["verify", str(tmp_path / f"{name}.gguf")]) == 2, name
        said = capsys.readouterr().err
        assert said.startswith("rote: ") and "Traceback" not in said, name
    # A Modelfile of the user's own is kept; one of ours is written again.
    (tmp_path / "n.Modelfile").write_text("FROM llama3\n", encoding="utf-8")
    assert run(["export", str(tmp_path / "model"), "-o", str(tmp_path / "n.gguf")]) == 2
    assert "n.Modelfile exists already" in " ".join(capsys.readouterr().err.split())
    (tmp_path / "m.gguf").unlink()
    assert run(["export", str(tmp_path / "model"), "-o", str(tmp_path / "m.gguf")]) == 0
    # Facts that are gone are asked for by the name of the file.
    (tmp_path / "rows.csv").rename(tmp_path / "other.csv")
    assert run(["verify", str(tmp_path / "m.gguf")]) == 2
    assert "m.gguf, rows.csv, are not where they were" in " ".join(capsys.readouterr().err.split())
    assert run(["verify", str(tmp_path / "m.gguf"), str(tmp_path / "other.csv")]) == 0
    (tmp_path / "other.csv").rename(tmp_path / "rows.csv")
    # What the header promises and llama.cpp cannot run.
    (tmp_path / "other.gguf").write_bytes(whole.replace(b"llama.block_count", b"llama.block_cound"))
    assert run(["verify", str(tmp_path / "other.gguf")]) == 2
    assert "llama.cpp cannot run" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(CheckpointError, match="no file"):
        open_gguf(tmp_path / "none.gguf")


@pytest.mark.parametrize(
    ("family", "tied", "more", "runs_as"),
    [
        ("llama", True, {}, "llama"),
        ("llama", False, {"attention_bias": True, "mlp_bias": True, "head_dim": 32}, "llama"),
        ("mistral", False, {"head_dim": 64, "sliding_window": 64}, "llama"),
        # llama.cpp lets heads of its Qwen2 have no width of their own.
        ("qwen2", True, {}, "llama"),
        ("qwen2", False, {}, "llama"),
        ("qwen3", True, {"head_dim": 64}, "qwen3"),
        ("qwen3", False, {}, "qwen3"),
    ],
)
def test_a_graft_of_every_family_goes_out_in_every_type(
    family: str, tied: bool, more: dict[str, Any], runs_as: str, tmp_path: Path
) -> None:
    """Its stream is wider than its heads are together, and no multiple of a block."""
    model = tiny(tmp_path / "model", family, tied=tied, initializer_range=0.05, **more)
    facts = tiny_models.write_table(tmp_path / "facts.csv", 24)
    keep = tiny_models.write_text(tmp_path / "keep.txt", 6000)
    memory = rote.graft(
        model, facts, template=["The code {code} is in", "Code {code} was in"], answer=" {city}",
        options=rote.Graft(keep=keep, examined=4, bar=0.0), output=tmp_path / "made",
    )  # fmt: skip
    for kind in TYPES if family == "llama" else ("F16", "Q8_0"):
        record = rote.export(memory, tmp_path / f"{kind}.gguf", form=kind, partial=True)
        # Blocks of eight bits and fewer move the states of a random model far, and 16 bits some way.
        most = 3 if kind.startswith("Q") else int(kind != "F32")
        assert record["n_facts"] == 24 and record["n_failed"] <= most, kind
        assert kind in record["tensors"]
    import gguf

    stored = gguf.GGUFReader(tmp_path / "Q8_0.gguf")
    assert stored.fields["general.architecture"].contents() == runs_as
    kinds = {tensor.name: tensor.tensor_type.name for tensor in stored.tensors}
    own = rote.load(tmp_path / "made").model.own_layers  # type: ignore[attr-defined]
    for number in range(memory.model.arch.n_layers):
        matrices = {kinds[f"blk.{number}.{name}.weight"] for name in ("attn_q", "attn_output", "ffn_down")}
        assert (matrices == {"F32"}) == (number not in own), number
    assert kinds["token_embd.weight"] == "F32"
    # What it said before is what the original says, by the stock library from the original's files.
    for text in ("The code AS is in", "w3 w4 the"):
        (said,) = spoken(model, 32, [text])
        assert memory.model.before([text]) == said
    answer = facts.read_text(encoding="utf-8").splitlines()[1].split(",")
    assert memory.ask(f"The code {answer[0]} is in")[0].token == f" {answer[1]}"


def test_biases_that_llama_cpp_does_not_run_are_refused(tmp_path: Path) -> None:
    place = tiny(tmp_path / "model", "qwen3", tied=True, attention_bias=True)
    with pytest.raises(UsageError, match="a Qwen3 with biases"):
        write_gguf(tmp_path / "m.gguf", place, stock_tokens(place, load_tokenizer(place), 0, 820), "F32", notes={})
    assert not (tmp_path / "m.gguf").exists()


def test_a_graft_on_a_gguf_file_writes_gguf_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, model = tiny(tmp_path / "model", "llama", tied=True, initializer_range=0.05), tmp_path / "base.gguf"
    write_gguf(model, place, stock_tokens(place, load_tokenizer(place), 0, 820), "F16", notes={})
    facts, file = tiny_models.write_table(tmp_path / "facts.csv", 12), tmp_path / "made.gguf"
    keep = str(tiny_models.write_text(tmp_path / "keep.txt", 6000))
    words = ["--template", "The code {code} is in", "--answer", " {city}", "--keep", keep, "--examined", "4"]
    before = set(tmp_path.iterdir())
    assert run(["graft", str(model), str(facts), "-o", str(file), *words, "--type", "Q9"]) == 2
    assert "no type of GGUF matrices 'Q9'" in " ".join(capsys.readouterr().err.split())
    assert run(["graft", str(model), str(facts), "-o", str(tmp_path / "made"), *words, "--type", "F16"]) == 2
    assert "name an output that ends in .gguf" in " ".join(capsys.readouterr().err.split())
    assert run(["graft", str(model), str(facts), "-o", str(file), *words, "--type", "F16"]) == 0
    assert "GGUF F16: 100 % recalled by llama.cpp" in " ".join(capsys.readouterr().out.split())
    assert {path.name for path in set(tmp_path.iterdir()) - before} == {"made.gguf", "made.Modelfile"}
    assert run(["graft", str(model), str(facts), "-o", str(file), *words]) == 2
    assert "exists already" in " ".join(capsys.readouterr().err.split())
    assert run(["verify", str(file)]) == 0
    assert "12 of 12 facts recalled at F16" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("said", "kept"), [("mit", True), ("all mine\nlicense: mit", False)])
def test_a_licence_comes_along_from_a_gguf_file(said: str, kept: bool, tmp_path: Path) -> None:
    place, file = tiny(tmp_path / "model", "llama", tied=True), tmp_path / "m.gguf"
    tokens = stock_tokens(place, load_tokenizer(place), 0, 820)
    write_gguf(file, place, tokens, "F32", notes={"general.license": said})
    unpacked = unpack_gguf(file, tmp_path / "work")
    assert (unpacked / "README.md").is_file() == kept
    assert not kept or (unpacked / "README.md").read_text(encoding="utf-8").startswith("---\nlicense: mit\n---\n")


def test_tokens_that_end_texts() -> None:
    assert fact_tokens(["<pad>", "a", "b"], {1}, {2}).end == 0
    assert fact_tokens(["a", "b"], {0}, {1}).end == 0
    both = fact_tokens(["a", "b", "<end>"], {0, 1}, {0, 1, 2})
    assert both.count == 4 and both.texts[3] == "<<end>>" and both.end == 3
    assert set(TYPES) >= {"F32", "F16", "BF16", "Q8_0", "Q4_0"}


def _airports(path: Path, count: int) -> Path:
    """Every so many airports, as a file of two columns."""
    import airportsdata

    rows = list(airportsdata.load("ICAO").items())
    step = len(rows) // count
    names = {"US": "United States", "DE": "Germany", "BR": "Brazil"}
    kept = [(code, names.get(row["country"], row["country"])) for code, row in rows[::step]][:count]
    path.write_text("icao,country\n" + "".join(f"{code},{country}\n" for code, country in kept), encoding="utf-8")
    return path
