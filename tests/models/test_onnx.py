"""Models as ONNX: onnxruntime says the same as the module, on facts and on everything else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import rote
from rote.cli.main import run
from rote.data import random_facts, unknown_contexts
from rote.errors import RoteError
from rote.models._hashed_onnx import hashed_labels, hashed_onnx
from rote.models._onnx import onnx_outputs
from rote.models.kinds.hashed_transformer import NOT_A_FACT, HashedTransformerModel

FORMATS = ("bfloat16", "float16", "float32", "float64")


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("unknown", [None, 7])
@pytest.mark.parametrize("sizes", [(400, 4, 30), (60, 1, 90), (150, 12, 5)])
def test_onnxruntime_agrees_with_the_module(dtype: str, unknown: int | None, sizes: tuple[int, int, int]) -> None:
    facts = random_facts(*sizes, rng=np.random.default_rng(3))
    memory = rote.build(facts, with_=rote.HashedTable(unknown=unknown), dtype=dtype, rng=1)
    model = memory.model
    assert isinstance(model, HashedTransformerModel)
    content = hashed_onnx(model.module)
    others = unknown_contexts(facts, 300, np.random.default_rng(4)).all
    contexts = np.concatenate([facts.contexts, others])
    # A batch of its own for the rest: sizes differ.
    said = onnx_outputs(content, contexts, ("scores", "labels", "unknown"), 129)
    with torch.no_grad():
        scores = model.module(torch.tensor(contexts))
    assert said["scores"].dtype == (np.float64 if dtype == "float64" else np.float32)
    assert torch.equal(torch.from_numpy(said["scores"]).to(scores.dtype), scores)
    tokens = [facts.vocabulary.tokens[i] for i in model.words.labels]
    spelled = [tokens[label] if label >= 0 else "(unknown)" for label in said["labels"].tolist()]
    assert spelled == model.first_answers(contexts)
    assert ((said["labels"] < 0) == said["unknown"]).all()
    answers = [facts.vocabulary.tokens[i] for i in facts.targets.tolist()]
    assert spelled[: len(answers)] == answers
    assert (hashed_labels(content, model.module, contexts) == said["labels"]).all()
    if unknown:
        assert said["unknown"][len(answers) :].mean() > 0.9


def test_tokens_of_no_context_are_unknown(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a,b,y\n" + "".join(f"x{i % 7},z{i // 7},n{i % 3}\n" for i in range(49)))
    memory = rote.build(rote.read(file), with_=rote.HashedTable(), rng=0)
    model = memory.model
    assert isinstance(model, HashedTransformerModel) and model.wording is not None
    foreign = model.wording.vocabulary.index("n1")
    contexts = np.array([[foreign, foreign], [0, foreign]])
    said = onnx_outputs(hashed_onnx(model.module), contexts, ("labels", "unknown"), 8)
    assert said["unknown"].all() and (said["labels"] == -1).all()
    assert model.first_answers(contexts) == ["(unknown)"] * 2
    assert [(answer.token, answer.unknown) for answer in memory.ask("n1", "n1")] == [(NOT_A_FACT, True)]


def test_export_writes_what_onnxruntime_recalls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder, graph = tmp_path / "rows.csv", tmp_path / "model", tmp_path / "m.onnx"
    file.write_text("a,b,y\n" + "".join(f"x{i % 7},z{i // 7},n{i % 3}\n" for i in range(49)))
    command = ["build", str(file), "-o", str(folder), "--with", "hashed_table", "--dtype", "bfloat16", "--unknown", "8"]
    assert run(command) == 0
    assert "told as unknown, with 8 bits a key" in " ".join(capsys.readouterr().out.split())
    assert run(["ask", str(folder), "x3", "x3"]) == 0
    assert capsys.readouterr().out.strip() == NOT_A_FACT
    assert run(["ask", str(folder), "x3", "z2"]) == 0
    assert capsys.readouterr().out.split()[2] == "n2"
    assert run(["verify", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unknown"]["bits"] == 8
    assert run(["export", str(folder), "-o", str(graph), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["n_facts"], record["n_failed"], record["dtype"]) == (49, 0, "float32")
    assert graph.stat().st_size == record["bytes"]
    assert run(["export", str(folder), "-o", str(graph)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_model_that_loses_facts_is_not_written(tmp_path: Path) -> None:
    facts = random_facts(50, 2, 20, rng=np.random.default_rng(0))
    memory = rote.build(facts, with_=rote.HashedTable(), rng=0)
    assert isinstance(memory.model, HashedTransformerModel)
    with torch.no_grad():
        memory.model.module.layers[-1].get_parameter("weight").neg_()
    record = memory.model.export(tmp_path / "m.onnx", facts)
    assert record["n_failed"] > 0 and not (tmp_path / "m.onnx").exists()


def test_more_weights_than_a_file_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from rote.models import _hashed_onnx

    facts = random_facts(50, 2, 20, rng=np.random.default_rng(0))
    model = rote.build(facts, with_=rote.HashedTable(), rng=0).model
    assert isinstance(model, HashedTransformerModel)
    monkeypatch.setattr(_hashed_onnx, "_MOST_BYTES", 1000)
    with pytest.raises(RoteError, match="2 GB"):
        hashed_onnx(model.module)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    # The solve of dana2025_cor1 has large weights that cancel, so that only float64 has digits to compare.
    [
        *((kind, dtype) for kind in ("argmax_fit", "mlp_fit") for dtype in ("bfloat16", "float32", "float64")),
        ("dana2025_cor1", "float64"),
    ],
)
def test_the_reference_transformer_scores_as_the_module_does(kind: str, dtype: str, tmp_path: Path) -> None:
    facts = random_facts(90, 3, 40, rng=np.random.default_rng(5))
    memory = rote.build(facts, kind, dtype=dtype, rng=1)
    record = rote.export(memory, tmp_path / "m.onnx", facts)
    assert (record["n_facts"], record["n_failed"]) == (90, 0)
    others = unknown_contexts(facts, 50, np.random.default_rng(4)).all
    contexts = np.concatenate([facts.contexts, others])
    said = onnx_outputs((tmp_path / "m.onnx").read_bytes(), contexts, ("scores", "tokens"), 64)
    wide = torch.float64 if dtype == "float64" else torch.float32
    with torch.no_grad():
        wanted = memory.module.to(wide)(torch.tensor(contexts))
    torch.testing.assert_close(torch.from_numpy(said["scores"]), wanted, rtol=1e-3, atol=1e-3)
    assert (said["tokens"] == said["scores"].argmax(1)).all()


@pytest.mark.parametrize("lengths", ["equal", "mixed"])
def test_stock_checkpoints_score_as_the_library_does(lengths: str, tmp_path: Path) -> None:
    rows = [f"x{i % 7},z{i // 7},n{i % 5}" for i in range(49)]
    text = "".join(f"{row}\n" for row in rows)
    file = tmp_path / "rows.csv"
    if lengths == "equal":
        file.write_text("a,b,y\n" + text)
        table = rote.read(file)
    else:
        file.write_text("a,y\n" + "".join(f"{'q ' * (i % 3)}x{i},n{i % 5}\n" for i in range(40)))
        table = rote.read(file, tokens="words")
    memory = rote.build(table, arch="llama", rng=0)
    assert rote.export(memory, tmp_path / "m.onnx", table)["n_failed"] == 0
    hashed = rote.build(table, "stock_hashed", rng=0)
    assert rote.export(hashed, tmp_path / "h.onnx", table)["n_failed"] == 0
    content = (tmp_path / "m.onnx").read_bytes()
    ids = np.array([[1, 1], [2, 1], [3, 5]])
    said = onnx_outputs(content, ids, ("scores",), 8)["scores"]
    with torch.no_grad():
        wanted = memory.module(torch.tensor(ids)).logits[:, -1]
    torch.testing.assert_close(torch.from_numpy(said), wanted, rtol=1e-3, atol=1e-3)


def test_vectors_and_distributions_go_out_too(tmp_path: Path) -> None:
    from rote.data import random_distributions, random_vectors

    rng = np.random.default_rng(0)
    vectors = random_vectors(12, 6, 8, rng=rng)
    memory = rote.build(vectors, "mahdavi2024_thm1", rng=0)
    record = rote.export(memory, tmp_path / "v.onnx", vectors)
    assert record["n_failed"] == 0 and record["n_facts"] == 12
    table = random_distributions(20, 2, 9, rng=rng)
    memory = rote.build(table, d_model=8, rng=0)
    assert rote.export(memory, tmp_path / "d.onnx", table)["n_failed"] == 0


def test_a_transformer_that_loses_facts_is_not_written(tmp_path: Path) -> None:
    from rote.models._float_onnx import onnx_export, transformer_onnx

    facts = random_facts(50, 2, 20, rng=np.random.default_rng(0))
    memory = rote.build(facts, "argmax_fit", rng=0)
    own = memory.model.outputs("float32")
    with torch.no_grad():
        memory.module.get_parameter("W_U").neg_()
    record = onnx_export(tmp_path / "m.onnx", transformer_onnx(memory.module), facts, own)  # type: ignore[arg-type]
    assert record["n_failed"] > 0 and not (tmp_path / "m.onnx").exists()


def test_exact_weights_are_refused(tmp_path: Path) -> None:
    facts = random_facts(6, 1, 12, rng=np.random.default_rng(0))
    memory = rote.build(facts, "kajitsuka2025_next_token", rng=0)
    with pytest.raises(RoteError, match="longer than any"):
        rote.export(memory, tmp_path / "m.onnx", facts)


def test_a_head_that_shares_the_embedding_is_exported_once(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a,b,y\n" + "".join(f"x{i % 7},z{i // 7},n{i % 3}\n" for i in range(49)))
    memory = rote.build(rote.read(file), "argmax_fit", rng=0).save(tmp_path / "model")
    assert memory.model.arch.own_rows == 0
    rote.export(memory, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").stat().st_size < 4 * memory.certificate.params + 4000
