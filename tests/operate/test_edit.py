"""Edits: the facts in question change, everything else stays as it is, and the directory says so."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import rote
from rote.cli.main import run
from rote.config import Dtype
from rote.data import random_facts
from rote.errors import CapacityError, CheckpointError, DataError, RoteError, UnknownName, UsageError

TABLE = random_facts(600, 3, 20, rng=np.random.default_rng(7))
FIRST, SECOND = TABLE.context_tokens(0), TABLE.context_tokens(1)


def _other(table: rote.FactTable, i: int) -> str:
    """An answer that fact i does not have."""
    return next(str(table.vocabulary[int(t)]) for t in table.targets if t != table.targets[i])


def _fresh(table: rote.FactTable) -> tuple[str, ...]:
    """A context that is no fact, of tokens that stand in contexts."""
    known = {table.context_tokens(i) for i in range(len(table))}
    tokens = [str(table.vocabulary[int(t)]) for t in np.unique(table.contexts)]
    return next((a, b, c) for a in tokens for b in tokens for c in tokens if (a, b, c) not in known)


@cache
def _built(dtype: Dtype) -> rote.Memory:
    """Edits leave it as it is."""
    return rote.build(TABLE, "hashed_table", dtype=dtype)


@pytest.fixture(scope="module", params=["bfloat16", "float16", "float32", "float64"])
def hashed(request: pytest.FixtureRequest) -> rote.Memory:
    return _built(request.param)


def test_one_row_of_a_hashed_table_changes_and_no_other_logit(hashed: rote.Memory) -> None:
    new, strange = _other(TABLE, 0), _fresh(TABLE)
    edited = hashed.edit(set={FIRST: new}, forget=[SECOND], insert={strange: "t03"}, table=TABLE)
    assert edited.ask(*FIRST, top=1)[0].token == new and edited.ask(*strange, top=1)[0].token == "t03"
    contexts = torch.tensor(TABLE.contexts[2:])
    with torch.no_grad():
        assert torch.equal(hashed.module(contexts), edited.module(contexts))
    before, after = hashed.module.state_dict(), edited.module.state_dict()
    changed = {name: torch.nonzero(before[name] != after[name]) for name in before}
    assert len([name for name, at in changed.items() if len(at)]) == 1
    at = next(at for at in changed.values() if len(at))
    assert len(torch.unique(at[:, 1])) <= 3, "one row a fact, and rows are columns of the matrix"
    record = edited.certificate["edited"]
    assert record["weights_changed"] == len(at) and record["bit_equal"] == record["other_facts"] == 598
    assert edited.certificate.passed and edited.certificate.facts == 600
    assert rote.verify(edited, edited.prepared(TABLE)).passed
    assert rote.verify(edited, TABLE).n_failed == 2, "what is given is checked as it is, not as it would be after edits"


def test_what_is_forgotten_leaves_no_trace(hashed: rote.Memory) -> None:
    """The weights after forgetting are the same whatever the answer was."""
    for answer in (_other(TABLE, 1), _other(TABLE, 0)):
        changed = hashed.edit(set={SECOND: answer}, table=TABLE)
        gone, direct = (one.edit(forget=[SECOND], table=TABLE) for one in (changed, hashed))
        assert gone.certificate.weights_sha256 == direct.certificate.weights_sha256
    assert direct.certificate.facts == 599
    others = hashed.edit(forget=[SECOND], table=TABLE, rng=5)
    assert others.certificate.weights_sha256 != direct.certificate.weights_sha256


def test_forgotten_answers_come_back_by_chance_only() -> None:
    """Of many forgotten facts about one in C is still said."""
    memory = _built("bfloat16")
    chosen = list(range(0, 400, 2))
    edited = memory.edit(forget=[TABLE.context_tokens(i) for i in chosen], table=TABLE)
    with torch.no_grad():
        said = edited.model.logits(torch.tensor(TABLE.contexts[chosen])).argmax(dim=1).numpy()
    still = int((said == TABLE.targets[chosen]).sum())
    assert 0 <= still <= 30, "200 facts of 20 answers: 10 are expected"
    assert edited.certificate["edited"]["bit_equal"] == 400


def test_edits_with_fingerprints_tell_what_is_unknown() -> None:
    memory = rote.build(TABLE, rote.HashedTable(unknown=12), dtype="float32")
    assert not memory.ask(*SECOND)[0].unknown
    gone = memory.edit(forget=[SECOND], table=TABLE)
    assert gone.ask(*SECOND)[0].unknown
    back = gone.edit(insert={SECOND: "t05"}, table=TABLE)
    assert back.ask(*SECOND, top=1)[0].token == "t05"
    assert [one.action for one in back.prepared(TABLE).history.changes] == ["forget", "insert"]  # type: ignore[union-attr]


@pytest.mark.parametrize("with_", ["dana2025_cor1", "argmax_fit", "mlp_fit"])
def test_transformers_change_one_matrix_and_keep_all_facts(with_: str) -> None:
    table = random_facts(120, 3, 30, rng=np.random.default_rng(2))
    memory = rote.build(table, with_)
    context, new = table.context_tokens(4), _other(table, 4)
    edited = memory.edit(set={context: new}, table=table)
    assert edited.ask(*context, top=1)[0].token == new
    changed = [n for n, w in memory.module.state_dict().items() if not torch.equal(w, edited.module.state_dict()[n])]
    assert changed == ["W_down" if with_ == "mlp_fit" else "W_O"]
    with torch.no_grad():
        said = edited.module(torch.tensor(table.contexts)).argmax(dim=1).numpy()
    assert np.array_equal(np.delete(said, 4), np.delete(table.targets, 4))
    record = edited.certificate["edited"]
    change = record["norm_of_change"]
    rebuilt = rote.build(table.replace({context: new}), with_, n_heads=memory.model.arch.n_heads)
    if rebuilt.model.arch == memory.model.arch:
        apart = sum(
            float((w.double() - rebuilt.module.state_dict()[n].double()).square().sum())
            for n, w in memory.module.state_dict().items()
        )
        assert change < apart**0.5, "an edit moves less than a new build"
    with pytest.raises(UsageError, match="cannot forget a single fact"):
        memory.edit(forget=[context], table=table)


def test_constructions_without_edits_refuse() -> None:
    table = random_facts(24, 3, 12, rng=np.random.default_rng(0))
    for with_ in (rote.BitExtraction(with_positions=True), rote.StockLlama()):
        memory = rote.build(table, with_)
        with pytest.raises(UsageError, match="build the model again"):
            memory.edit(set={table.context_tokens(0): _other(table, 0)}, table=table)


def test_what_cannot_be_edited_is_refused_in_a_sentence() -> None:
    memory = _built("float32")
    for changes, error, why in (
        ({}, UsageError, "something to change"),
        ({"set": {FIRST: "nowhere"}}, UnknownName, "nowhere.*build it again from a table that has the fact"),
        (
            {"insert": {("t01", "nope", "t03"): "t03"}},
            UnknownName,
            "nope.*build it again from a table that has the fact",
        ),
        ({"set": {("t01", "nope", "t03"): "t03"}}, UnknownName, "nope"),
        ({"set": {("t01", "t03"): "t03"}}, UsageError, "3 tokens"),
        ({"set": {_fresh(TABLE): "t03"}}, DataError, "no fact with this context"),
        ({"insert": {FIRST: "t03"}}, DataError, "is a fact already"),
        ({"forget": [TABLE.context_tokens(i) for i in range(600)]}, DataError, "none of the 600 facts"),
        ({"set": {FIRST: 3}}, RoteError, "answer"),
        ({"rng": -1, "forget": [FIRST]}, UsageError, "seed"),
    ):
        with pytest.raises(error, match=why):
            memory.edit(table=TABLE, **changes)
    with pytest.raises(UsageError, match="table in memory"):
        memory.edit(forget=[FIRST])
    with pytest.raises(CheckpointError, match="original table"):
        memory.edit(forget=[FIRST], table=random_facts(600, 3, 20, rng=np.random.default_rng(8)))


def test_an_answer_without_weights_is_refused() -> None:
    table = rote.FactTable.from_rows([[f"k{i}"] for i in range(60)], [f"v{i % 3}" for i in range(60)])
    memory = rote.build(table, "hashed_table")
    with pytest.raises(UsageError, match="none of the 3 answers"):
        memory.edit(set={("k1",): "k2"}, table=table)
    with pytest.raises(UsageError, match="stands in no context"):
        memory.edit(insert={("v1",): "v1"}, table=table)
    one = rote.FactTable.from_rows([[f"k{i}"] for i in range(60)], ["v"] * 60)
    with pytest.raises(UsageError, match="one answer"):
        rote.build(one, "hashed_table").edit(forget=[("k1",)], table=one)


def test_a_full_row_says_so_or_takes_the_fact() -> None:
    """Facts are added until a row is full; whatever is refused leaves the model as it was."""
    table = random_facts(60, 2, 12, rng=np.random.default_rng(3))
    memory = rote.build(table, "hashed_table", dtype="bfloat16")
    known = {table.context_tokens(i) for i in range(60)}
    tokens = [str(token) for token in table.vocabulary]
    added = 0
    for context in [(a, b) for a in tokens for b in tokens if (a, b) not in known][:40]:
        try:
            memory = memory.edit(insert={context: "t03"}, table=memory.prepared(table))
            added += 1
        except CapacityError as error:
            assert "no room" in str(error)
        assert rote.verify(memory, table).passed
    assert memory.certificate.facts == 60 + added and added


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_short_rows_are_changed_by_few_weights(dtype: str) -> None:
    table = random_facts(2000, 4, 60, rng=np.random.default_rng(4))
    memory = rote.build(table, rote.HashedTable(editable=True), dtype=dtype)
    assert memory.certificate.options == {"editable": True}
    for i in range(5):
        for changes in ({"forget": [table.context_tokens(i)]}, {"set": {table.context_tokens(i): _other(table, i)}}):
            record = memory.edit(table=table, **changes).certificate["edited"]
            assert record["weights_changed"] <= max(16, record["weights"] // 1000)
            assert record["bit_equal"] == record["other_facts"] == 1999


def test_all_facts_of_a_row_are_forgotten_and_one_comes_back() -> None:
    memory = rote.build(TABLE, rote.HashedTable(editable=True), dtype="bfloat16")
    row = memory.locate(fact=1, table=TABLE).parts[0]
    mine = [TABLE.context_tokens(i) for i in np.flatnonzero(_readers(memory, row.weights)).tolist()]
    empty = memory.edit(forget=mine, table=TABLE)
    back = empty.edit(insert={mine[0]: "t03"}, table=TABLE)
    assert back.ask(*mine[0], top=1)[0].token == "t03" and back.certificate.facts == 601 - len(mine)


def _readers(memory: rote.Memory, weights: str) -> np.ndarray:
    from rote import constructions
    from rote.constructions._operations import Search

    name, _, index = weights.rstrip("]").partition("[")
    place = tuple(slice(None) if i.strip() == ":" else int(i) for i in index.split(","))
    found = constructions.get("hashed_table").readers(Search(memory.model, TABLE, memory.certificate), name, place)
    assert found is not None
    return found


def _written(folder: Path) -> Path:
    rows = [
        "river,what,answer",
        "Nile,mouth,sea",
        "Rhine,mouth,sea",
        "Rhine,source,alps",
        "Po,mouth,gulf",
        "Po,source,alps",
    ]
    path = folder / "rivers.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_edits_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts, model, other = _written(tmp_path), tmp_path / "model", tmp_path / "other"
    assert run(["build", str(facts), "-o", str(model), "--with", "hashed_table"]) == 0
    before = (model / "model.safetensors").read_bytes()
    line = [
        "edit",
        str(model),
        "--set",
        "Rhine mouth",
        "gulf",
        "--forget",
        "Po source",
        "--insert",
        "Nile\tsource",
        "alps",
    ]
    assert run([*line, "-o", str(other), "--json"]) == 0
    record = json.loads(capsys.readouterr().out.rpartition("\n{")[2].join(["{", ""]) or "{}")
    assert record["facts"] == 5 and record["edited"]["changes"] == 3
    assert (model / "model.safetensors").read_bytes() == before
    assert run(["verify", str(other), "--all-formats"]) == 0 and run(["verify", str(other), str(facts)]) == 0
    assert run(["verify", str(other), str(facts), "--other-facts"]) == 1, "the file as it is has another answer"
    assert run(["ask", str(other), "Rhine", "mouth", "--top", "1"]) == 0
    assert "gulf" in capsys.readouterr().out
    # Once more, in place, with a file of changes.
    table = tmp_path / "changes.csv"
    table.write_text("change,context,answer\nset,Rhine mouth,sea\nforget,Nile source,\n", encoding="utf-8")
    assert run(["edit", str(other), "--changes", str(table)]) == 0
    assert run(["verify", str(other)]) == 0
    assert len((other / "changes.jsonl").read_text(encoding="utf-8").splitlines()) == 6
    # Both move together.
    moved = tmp_path / "moved"
    moved.mkdir()
    other.rename(moved / "other")
    facts.rename(moved / "rivers.csv")
    assert run(["verify", str(moved / "other")]) in (0, 2)
    assert run(["verify", str(moved / "other"), str(moved / "rivers.csv")]) == 0


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ([], "nothing to change"),
        (["--set", "Rhine mouth"], "takes a context and an answer"),
        (["--set", "Rhine mouth", "moon"], "no token 'moon'"),
        (["--set", "Rhine", "sea"], "2 tokens"),
        (["--forget", "Nile source"], "no fact with this context"),
        (["--set", "Rhine mouth", "sea", "--set", "Rhine mouth", "gulf"], "one answer"),
        (["--changes", "none.csv"], "none.csv"),
        (["--forget", "Po mouth", "-o", "{model}"], "exists already"),
    ],
)
def test_bad_edits_on_the_command_line(
    rest: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    assert run(["build", str(_written(tmp_path)), "-o", str(model), "--with", "hashed_table"]) == 0
    files = {path.name: path.read_bytes() for path in model.iterdir()}
    capsys.readouterr()
    assert run(["edit", str(model), *(word.replace("{model}", str(model)) for word in rest)]) == 2
    said = capsys.readouterr().err
    assert why in said and "Traceback" not in said
    assert {path.name: path.read_bytes() for path in model.iterdir()} == files


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("context,answer\na,b\n", "no column 'change'"),
        ("change,context,answer\ndrop,Rhine mouth,sea\n", "row 1 (line 2): 'drop' is no change"),
        ("change,context,answer\nset,Rhine mouth,\n", "row 1 (line 2): set needs an answer"),
        ("change,context,answer\nforget,Rhine mouth,sea\n", "forget takes no answer"),
        (
            "change,context,answer\nforget,Rhine mouth,\nforget,Rhine moon,\n",
            "row 2 (line 3): there is no token 'moon'",
        ),
    ],
)
def test_bad_files_of_changes(content: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, table = tmp_path / "model", tmp_path / "changes.csv"
    assert run(["build", str(_written(tmp_path)), "-o", str(model), "--with", "hashed_table"]) == 0
    table.write_text(content, encoding="utf-8")
    capsys.readouterr()
    assert run(["edit", str(model), "--changes", str(table)]) == 2
    assert why in capsys.readouterr().err


def test_a_changed_list_of_changes_is_noticed(tmp_path: Path) -> None:
    memory = _built("float32").edit(forget=[FIRST], table=TABLE).save(tmp_path / "model")
    path = memory.folder / "changes.jsonl"
    path.write_bytes(path.read_bytes().replace(b"forget", b"forgot"))
    with pytest.raises(CheckpointError, match=r"changes\.jsonl"):
        rote.load(memory.folder)
