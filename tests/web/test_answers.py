"""The explorer says what the library says."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import shlex
import subprocess
import sys
import time
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rote
from attacks import tiny_models
from explorer import Explorer
from rote import constructions
from rote.capacity import bounds
from rote.certificate import HASH, sha256_of
from rote.cli.main import run
from rote.config import Architecture
from rote.data import random_distributions, random_vectors, write
from rote.data.stock import load_model, load_tokenizer
from rote.plans import plan
from rote.theorems import Demand, Setting, registry
from rote.web.capacity import AXES, bounds_answer, plan_answer
from rote.web.commands import command
from rote.web.options import SHAPE
from rote.web.scan import Folder
from rote.web.tasks import TASKS


def said(capsys: pytest.CaptureFixture[str], line: str) -> Any:
    """What the command line answers, as JSON."""
    assert run([*shlex.split(line)[1:], "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"heads": "3", "d_model": "16", "d_head": "4", "context": "5", "vocab": "77", "dtype": "bfloat16"},
        {"layers": "300", "d_mlp": "500", "shared": "1", "kruskal": "9", "last_tokens": "40", "facts": "1000"},
    ],
)
def test_bounds_are_those_of_the_command_beside_them(capsys: pytest.CaptureFixture[str], query: dict[str, str]) -> None:
    found = bounds_answer(query)
    assert [{k: v for k, v in one.items() if k != "why"} for one in found["bounds"]] == said(capsys, found["command"])


@pytest.mark.parametrize("axis", AXES)
def test_lines_are_bounds_along_the_axis(axis: str) -> None:
    panels = bounds_answer({"axis": axis, "heads": "4", "vocab": "500"})["figure"]["panels"]
    places = {
        (name, x): y
        for trace in panels[0]["data"]
        for name in trace["name"].split(", ")
        for x, y in zip(trace["x"], trace["y"], strict=True)
    }
    (lanes,), rows = panels[1]["data"], panels[1]["layout"]["yaxis"]["ticktext"]
    silent = {(rows[y], x): why for x, y, why in zip(lanes["x"], lanes["y"], lanes["text"], strict=True)}
    field = {"heads": "n_heads", "layers": "n_layers"}.get(axis, axis)
    base = Architecture(4, 64, 64, 32, 500)
    for x in {x for _, x in (*places, *silent)}:
        changes = {field: x} | ({"d_head": x} if axis == "d_model" else {})
        for one in bounds(Setting(base.replace(**changes))):
            place = (one.theorem, x)
            # A place without a number has a reason, and the other way round; orders are not drawn.
            assert places.get(place) == one.facts
            assert (place in silent) == (one.facts is None and one.kind != "order")
            if place in silent:
                assert f"{one.theorem} says nothing" in silent[place].replace("<br>", " ")


def test_the_scale_is_that_of_the_address() -> None:
    for given, scale in (("", "log"), ("1", "linear")):
        lines, _ = bounds_answer({"linear": given})["figure"]["panels"]
        assert lines["layout"]["xaxis"]["type"] == lines["layout"]["yaxis"]["type"] == scale


def test_plans_are_those_of_the_command_beside_them(capsys: pytest.CaptureFixture[str]) -> None:
    found = plan_answer({"facts": "5000", "vocab": "300", "context": "3", "dtype": "float16"})
    plain = [{k: v for k, v in one.items() if k != "bits_per_param"} for one in found["plans"]]
    assert plain == said(capsys, found["command"])
    assert plain == [one.to_dict() for one in plan(Demand(5000, 300, 3, "float16")).plans]
    assert "distinct contexts" in plan_answer({"facts": "5000", "vocab": "3", "context": "3"})["refusal"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("heads=0", "n_heads"),
        ("heads=x", "whole number"),
        ("heads=9999999999999999999", "whole number"),
        ("axis=nothing", "axis"),
        ("dtype=float8", "number format"),
        ("kruskal=99", "Kruskal"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(explorer: Explorer, path: str, words: str) -> None:
    assert words in explorer.ask(f"/api/bounds?{path}")["error"]


def test_every_theorem_is_there(explorer: Explorer) -> None:
    found = explorer.ask("/api/theorems")["theorems"]
    assert [one["theorem"] for one in found] == list(registry())
    for one in found:
        assert one["statement"] and one["source"] and one["text"] and one["conditions"]


def test_commands_are_quoted() -> None:
    line = command(
        "build", "my facts.csv", o="m", with_="auto", partial=True, refine=False, seed=None, where=["a=1", "b"]
    )
    assert shlex.split(line) == ["rote", "build", "my facts.csv", "-o", "m", "--with", "auto", "--partial",
                                 "--where", "a=1", "--where", "b"]  # fmt: skip


def test_a_build_is_the_model_of_the_command(explorer: Explorer, tmp_path: Any) -> None:
    id_ = explorer.ask("/api/builds", {"shipped": "elements", "with": "dana2025_cor1", "seed": 3})["id"]
    built = explorer.finished(id_)
    assert built["state"] == "done", built
    status, headers, body = explorer.raw("GET", f"/api/builds/{id_}/zip")
    assert (status, headers["content-type"]) == (200, "application/zip")
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        archive.extractall(tmp_path)
    memory = rote.load(tmp_path / "elements-model")
    assert memory.certificate.to_dict() == built["certificate"]
    # The command of the page, in a process of its own with as many threads: the same weights to the last bit.
    words = ["build", "elements", "--with", "dana2025_cor1", "--seed", "3", "-o", str(tmp_path / "own")]
    subprocess.run(
        [sys.executable, "-m", "rote", *words],
        check=True,
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    own = rote.load(tmp_path / "own")
    assert own.certificate["weights_sha256"] == memory.certificate["weights_sha256"]
    assert run(["verify", str(tmp_path / "elements-model"), "elements"]) == 0


def test_answers_are_those_of_the_model(explorer: Explorer) -> None:
    id_ = explorer.ask("/api/builds", {"shipped": "elements", "with": "mlp_fit"})["id"]
    assert explorer.finished(id_)["state"] == "done"
    assert any(one["id"] == id_ for one in explorer.ask("/api/models")["models"])
    about = explorer.ask(f"/api/models/{id_}")
    assert (about["context"], about["facts_known"]) == (2, True)
    assert explorer.ask(f"/api/models/{id_}/complete?prefix=f&position=0")["tokens"][0] == "F"
    assert explorer.ask(f"/api/models/{id_}/complete?prefix=hydrogen&position=0")["tokens"] == []  # it is an answer
    assert explorer.ask(f"/api/models/{id_}/complete?prefix=&position=1")["tokens"][:4] == [
        "name", "group", "number", "period"]  # fmt: skip
    found = explorer.ask(f"/api/models/{id_}/ask", {"words": ["Fe", "name"]})
    assert found["answers"][0]["token"] == found["truth"] == "Iron"
    assert len(found["heads"]["heads"]) == about["certificate"]["shape"]["n_heads"]
    assert [one["n_right"] for one in found["near"]] == [117, 3]
    assert found["command"] == "rote ask elements-model Fe name"
    assert "did you mean" in explorer.ask(f"/api/models/{id_}/ask", {"words": ["Fe", "nam"]})["error"]
    assert "error" in explorer.ask(f"/api/models/{id_}/ask", {"words": []})
    # A context that is no fact says so.
    assert explorer.ask(f"/api/models/{id_}/ask", {"words": ["Iron", "name"]})["truth"] is None


def test_contexts_that_are_no_facts_are_told(explorer: Explorer) -> None:
    wanted = {"shipped": "elements", "with": "hashed_table", "options": {"unknown": 16}}
    id_ = explorer.ask("/api/builds", wanted)["id"]
    built = explorer.finished(id_)
    assert built["state"] == "done" and " --unknown 16" in built["command"]
    found = explorer.ask(f"/api/models/{id_}/ask", {"words": ["Fe", "name"]})
    assert (found["answers"][0]["token"], found["answers"][0]["unknown"]) == ("Iron", False)
    for words in (["Fe", "Fe"], ["Iron", "name"]):
        found = explorer.ask(f"/api/models/{id_}/ask", {"words": words})
        assert [one["unknown"] for one in found["answers"]] == [True] and found["truth"] is None


def test_models_of_the_folder_can_be_asked(explorer: Explorer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["build", "elements", "-o", str(explorer.folder / "kept"), "--with", "dana2025_cor1", "--json"]) == 0
    capsys.readouterr()
    id_ = next(one["id"] for one in explorer.ask("/api/models")["models"] if one["name"] == "kept")
    assert explorer.ask(f"/api/models/{id_}")["facts_known"]
    found = explorer.ask(f"/api/models/{id_}/ask", {"words": ["Au", "number"]})
    assert (found["answers"][0]["token"], found["truth"]) == ("79", "79")
    assert found["command"] == "rote ask kept Au number"
    # A model whose weights were changed is refused, in the words of the library.
    weights = explorer.folder / "kept" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    assert "error" in explorer.ask(f"/api/models/{id_}/ask", {"words": ["Au", "number"]})


def test_refused_builds_say_why(explorer: Explorer) -> None:
    made = explorer.upload("order.csv", b"a,b,c\nx,y,1\ny,x,2\n")
    checked = explorer.ask("/api/check", {"upload": made["id"]})
    bags = next(one for one in checked["findings"] if one["assumption"] == "distinct up to order")
    assert bags["holds"] is False
    assert bags["offenders"] == ["fact 2: (y, x) -> 2"]
    assert checked["first"] == ["(x, y) -> 1", "(y, x) -> 2"]
    id_ = explorer.ask("/api/builds", {"upload": made["id"], "with": "kajitsuka2025_next_token"})["id"]
    built = explorer.finished(id_)
    assert built["state"] == "failed"
    assert "positions" in built["message"]
    assert "not finished" in json.loads(explorer.raw("GET", f"/api/builds/{id_}/zip")[2])["error"]
    again = {"upload": made["id"], "with": "kajitsuka2025_next_token", "options": {"with_positions": True}}
    id_ = explorer.ask("/api/builds", again)["id"]
    assert explorer.finished(id_)["state"] == "done"
    assert explorer.ask(f"/api/models/{id_}/ask", {"words": ["y", "x"]})["answers"][0]["token"] == "2"
    assert " --with-positions" in explorer.ask(f"/api/builds/{id_}")["command"]


def test_options_are_those_of_the_records(explorer: Explorer) -> None:
    listed = {one["construction"]: one for one in explorer.ask("/api/constructions")["constructions"]}
    assert set(listed) == {key for key, one in constructions.registry().items() if one.verb == "build"}
    for key, one in listed.items():
        told = [SHAPE[name] for name in constructions.get(key).shaped_by]
        assert (one["shape"], one["title"]) == (told, constructions.get(key).title)
        # The explorer builds where it runs: it has no fields for places.
        own = [f.name for f in fields(constructions.get(key).Options) if not f.metadata.get("place")]
        assert [f["name"] for f in one["options"]] == own
        assert all(f["help"] for f in one["options"])
    for options, words in (
        ({"refin": True}, "did you mean 'refine'?"),
        ({"refine": 1}, "true or false"),
        ({"epsilon": "x"}, "must be a number"),
        ({"starts": 1.5}, "whole number"),
        (["refine"], "names with values"),
        ({"address": "127.0.0.1:1"}, "there is no option 'address'"),
    ):
        assert words in explorer.ask("/api/builds", {"shipped": "elements", "options": options})["error"]
    # An option of another construction is refused by the pipeline, in its words.
    id_ = explorer.ask("/api/builds", {"shipped": "elements", "with": "mlp_fit", "options": {"rank1_qk": True}})["id"]
    assert "rank1_qk is not for mlp_fit: it belongs to" in explorer.finished(id_)["message"]


def test_ten_builds_wait_in_line_and_the_server_goes_on_answering(explorer: Explorer) -> None:
    ids = [explorer.ask("/api/builds", {"shipped": "countries", "seed": i})["id"] for i in range(10)]
    records = {one["id"]: one for one in explorer.ask("/api/builds")["builds"]}
    waiting = [records[id_]["position"] for id_ in ids if records[id_]["state"] == "queued"]
    assert waiting == list(range(1, len(waiting) + 1))
    assert len(waiting) >= 8
    slowest = 0.0
    for heads in range(1, 11):
        before = time.perf_counter()
        assert explorer.ask(f"/api/bounds?heads={heads}&d_model=32")["now"] == heads
        slowest = max(slowest, time.perf_counter() - before)
    # No limit on a shared machine; but a server that waited for a build would take seconds.
    print(f"slowest answer beside ten builds: {1000 * slowest:.0f} ms")
    for id_ in ids:
        explorer.ask(f"/api/builds/{id_}/cancel", {})
    assert {explorer.finished(id_)["state"] for id_ in ids} <= {"cancelled", "done"}
    assert explorer.ask(f"/api/builds/{ids[-1]}")["state"] == "cancelled"
    # The next one starts from a fresh process.
    id_ = explorer.ask("/api/builds", {"shipped": "elements", "with": "dana2025_cor1"})["id"]
    assert explorer.finished(id_)["state"] == "done"
    assert explorer.ask(f"/api/builds/{id_}", method="DELETE") == {}
    assert "error" in explorer.ask(f"/api/builds/{id_}")


def test_results_and_fits_are_those_of_the_library(explorer: Explorer, capsys: pytest.CaptureFixture[str]) -> None:
    listed = explorer.ask("/api/runs")
    db = next(one for one in listed["results"] if one["name"] == "heads.db")
    found = explorer.ask(f"/api/runs/{db['id']}")
    (sweep,) = found["sweeps"]
    assert (sweep["counts"], sweep["grids"][0]["known"], sweep["grids"][0]["total"]) == ({"done": 12}, 12, 12)
    assert found["varying"] == {"n_heads": [1, 2, 3, 4, 6, 8]}
    fitted = explorer.ask(f"/api/runs/{db['id']}/fit?x=n_heads&y=capacity")
    assert fitted["command"] == "rote fit heads.db --x n_heads --y capacity"
    # Looking changes nothing, not even by the files that SQLite puts beside a database.
    assert {path.name for path in explorer.folder.glob("heads.db*")} == {"heads.db"}
    own = said(capsys, f"rote fit {explorer.folder / 'heads.db'} --x n_heads --y capacity")
    assert {key: fitted[key] for key in ("law", "why", "laws", "predictions", "verdict")} == {
        key: own[key] for key in ("law", "why", "laws", "predictions", "verdict")
    }
    assert "error" in explorer.ask(f"/api/runs/{db['id']}/fit?x=n_heads&y=nothing")
    (entry,) = listed["entries"]
    shown = explorer.ask(f"/api/entries/{entry['id']}")
    assert [one["kind"] for one in shown["figures"][0]["panels"][0]["legend"]] == ["points", "published"]


def test_the_report_is_made_of_what_was_chosen(explorer: Explorer) -> None:
    listed = explorer.ask("/api/runs")
    assert listed["reports"] == (importlib.util.find_spec("rote.lab.report") is not None)
    assert "choose" in explorer.ask("/api/report", {"ids": ["../heads.db"]})["error"]
    db = next(one["id"] for one in listed["results"] if one["name"] == "heads.db")
    made = explorer.ask("/api/report", {"ids": [db]})
    if not listed["reports"]:
        assert "no report" in made["error"]
        return
    assert made["command"] == "rote report heads.db -o report.html"
    status, headers, body = explorer.raw("GET", made["address"])
    assert (status, b"<html" in body) == (200, True)
    assert headers["content-security-policy"].startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in headers["content-security-policy"]


def test_sequences_words_and_characters(explorer: Explorer) -> None:
    rows = ("fruit flies like a banana,adj noun verb det noun", "time flies like an arrow,noun verb prep det noun")
    tags = "\n".join(("sentence,tags", *rows, "")).encode()
    made = explorer.upload("tags.csv", tags)
    wanted = {"upload": made["id"], "with": "kajitsuka2025_seq2seq", "tokens": "words"}
    checked = explorer.ask("/api/check", wanted)
    assert (checked["kind"], checked["table"]["context"]) == ("sequences", 5)
    assert checked["first"][1] == "(time flies like an arrow) -> (noun verb prep det noun)"
    id_ = explorer.ask("/api/builds", wanted)["id"]
    assert explorer.finished(id_)["state"] == "done"
    found = explorer.ask(f"/api/models/{id_}/ask", {"words": ["time flies like an arrow"]})
    assert [one["token"] for one in found["answers"]] == ["noun", "verb", "prep", "det", "noun"]
    assert found["digits"]["label"] is not None
    assert found["truth"] == "noun verb prep det noun"
    codes = explorer.upload("codes.csv", b"code,country\nKJFK,us\nLFPG,fr\nEG,uk\n")
    id_ = explorer.ask("/api/builds", {"upload": codes["id"], "tokens": "chars", "with": "mlp_fit"})["id"]
    assert explorer.finished(id_)["state"] == "done", explorer.finished(id_)
    found = explorer.ask(f"/api/models/{id_}/ask", {"words": ["EG"]})
    assert (found["answers"][0]["token"], found["padding"], found["truth"]) == ("uk", 2, "uk")


def test_distributions_are_checked_built_and_asked(explorer: Explorer, tmp_path: Any) -> None:
    write(random_distributions(20, 2, 6, rng=np.random.default_rng(0)), tmp_path / "next.csv")
    made = explorer.upload("next.csv", (tmp_path / "next.csv").read_bytes())
    checked = explorer.ask("/api/check", {"upload": made["id"]})
    assert (checked["kind"], checked["findings"], checked["read"]["weight"]) == ("distributions", None, "count")
    assert checked["command"] == "rote plan next.csv"
    assert "d_model" in checked["refused"][0]["reason"]
    id_ = explorer.ask("/api/builds", {"upload": made["id"], "d_model": 5, "options": {"epsilon": 0.0}})["id"]
    built = explorer.finished(id_)
    assert built["state"] == "done", built
    assert built["command"] == "rote build next.csv -o next-model --d-model 5 --epsilon 0.0"
    assert built["certificate"]["read"]["source"] == "next.csv"
    assert "file" not in built["certificate"]["read"]
    assert "divergence" in built["sheet"]["grids"][0]["columns"][0]
    about = explorer.ask(f"/api/models/{id_}")
    assert about["facts_known"]
    found = explorer.ask(f"/api/models/{id_}/ask", {"words": about["examples"][0]})
    assert found["divergence"] < 0.01
    assert found["answers"][0]["probability"] == pytest.approx(found["answers"][0]["true"], abs=0.05)


def test_vectors_are_checked_built_and_asked_by_example(explorer: Explorer, tmp_path: Any) -> None:
    write(random_vectors(12, 3, 5, rng=np.random.default_rng(0)), tmp_path / "v.safetensors")
    content = (tmp_path / "v.safetensors").read_bytes()
    made = explorer.upload("v.safetensors", content)
    assert (made["columns"], made["rows"]) == ([], 12)
    checked = explorer.ask("/api/check", {"upload": made["id"]})
    assert (checked["kind"], checked["table"]["n_facts"]) == ("vectors", 12)
    assert any(one["assumption"] == "Kruskal rank of queries" for one in checked["findings"]) and checked["plans"]
    id_ = explorer.ask("/api/builds", {"upload": made["id"], "with": "mahdavi_random_features"})["id"]
    assert explorer.finished(id_)["state"] == "done", explorer.finished(id_)
    assert explorer.ask(f"/api/builds/{id_}")["speaks"]
    assert any(one["id"] == id_ for one in explorer.ask("/api/models")["models"])
    assert "cannot be asked in words" in explorer.ask(f"/api/models/{id_}/ask", {"words": ["a"]})["error"]
    about = explorer.ask(f"/api/models/{id_}")
    assert about["vectors"] == {"examples": 12, "width": 5, "classes": None}
    asked = f"/api/models/{id_}/example"
    found = explorer.ask(asked, {"number": 3})
    assert found["recalled"] and found["moved"] == 0.0 and found["said"] == pytest.approx(found["truth"], abs=1e-3)
    moved = explorer.ask(asked, {"number": 3, "query": [x + 1 for x in found["query"]]})
    assert moved["moved"] == pytest.approx(5**0.5) and not moved["recalled"] and moved["truth"] == found["truth"]
    for record, sentence in (
        ({"number": 13}, "1 to 12"),
        ({"number": -1}, "1 to 12"),
        ({"number": "x"}, "whole number"),
        ({"query": [1.0]}, "has 5 numbers"),
        ({"query": [True] * 5}, "list of at most"),
        ({"query": [1e999] * 5}, "no JSON"),
        ({"query": "1"}, "list of at most"),
    ):
        assert sentence in explorer.ask(asked, record)["error"], record
    assert "v.safetensors" in explorer.upload("v.safetensors", content[:-9])["error"]


def test_no_file_that_a_certificate_names_is_opened(explorer: Explorer, tmp_path: Any) -> None:
    (tmp_path / "own.csv").write_text("a,b,c\nx,y,1\ny,z,2\n", encoding="utf-8")
    memory = rote.build(rote.read(tmp_path / "own.csv"), "dana2025_cor1").save(explorer.folder / "private")
    assert memory.certificate.read is not None and memory.certificate.read["file"].endswith("own.csv")
    id_ = next(one["id"] for one in explorer.ask("/api/models")["models"] if one["name"] == "private")
    assert not explorer.ask(f"/api/models/{id_}")["facts_known"]
    # Nor one that a certificate passes off as shipped.
    path = explorer.folder / "private" / "certificate.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["read"] |= {"shipped": True, "source": str(tmp_path / "own.csv")}
    path.write_text(json.dumps({**record, HASH: sha256_of(record)}), encoding="utf-8")
    assert not explorer.ask(f"/api/models/{id_}")["facts_known"]


def test_a_missing_package_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["ui", "--no-browser", "--port", "0"]) == 2
    assert "pip install 'rote-transformers[ui]'" in capsys.readouterr().err


def test_the_folder_is_looked_at_without_links_and_hidden_places(tmp_path: Any) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / ".hidden").mkdir()
    for place in (tmp_path / "a", tmp_path / ".hidden"):
        (place / "certificate.json").write_text("{}", encoding="utf-8")
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "other.db").write_bytes(b"SQLite format 3\0" + b"\0" * 100)
    found = Folder(tmp_path).look()
    assert [(one.kind, one.name) for one in found] == [("model", "a")]


def test_several_answers_and_empty_cells(explorer: Explorer) -> None:
    made = explorer.upload("wide.csv", b"code,name,kind\nA1,alpha,x\nB2,,y\nC3,gamma,z\n")
    refused = explorer.ask("/api/check", {"upload": made["id"]})
    assert "wide.csv: row 2 (line 3): column 'name' holds nothing" in refused["error"]
    wanted = {"upload": made["id"], "on_missing": "skip"}
    assert explorer.ask("/api/check", wanted)["read"]["key"] == "code"
    wanted |= {"target": ["name", "kind"], "tokens": "chars", "with": "mlp_fit", "drop_unfit": True}
    checked = explorer.ask("/api/check", wanted)
    assert checked["table"]["n_facts"] == 5
    assert "--target name,kind --on-missing skip" in checked["command"]
    id_ = explorer.ask("/api/builds", wanted)["id"]
    assert explorer.finished(id_)["state"] == "done", explorer.finished(id_)
    found = explorer.ask(f"/api/models/{id_}/ask", {"words": ["what is the kind of B2"]})
    assert (found["answers"][0]["token"], found["truth"]) == ("y", "y")


def test_grafts_are_asked_before_and_after(tmp_path: Any) -> None:
    model = tiny_models.write_tiny(tmp_path / "model", tied=True)
    facts = tiny_models.write_table(tmp_path / "facts.csv", 12)
    options = rote.Graft(keep=tiny_models.write_text(tmp_path / "keep.txt", 6000), examined=2)
    made = rote.graft(
        model,
        facts,
        template="The code {code} is in",
        answer=" {city}",
        options=options,
        output=tmp_path / "made",
    )
    # In this process: a worker of the explorer would load transformers first, within the time of a question.
    place = {"folder": str(tmp_path / "made")}
    about = TASKS["about"](place, lambda notice: None)
    assert about["sheet"]["grids"] and about["vocab"] is None
    # The facts lie in a file that only the certificate names, so it is not opened.
    assert about["examples"] == [] and not about["facts_known"]
    assert about["trials"]["other text 1"].startswith("The capital ")
    (fact, *_) = made.table().facts  # type: ignore[attr-defined]
    found = TASKS["ask"]({**place, "words": [fact.text], "top": 5}, lambda notice: None)
    assert found["answers"][0]["token"] == fact.answer != found["before"]
    original = load_model(model, "auto")
    tokenizer = load_tokenizer(model)
    ids = torch.tensor([tokenizer(fact.text)["input_ids"]])
    said = original.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=32, do_sample=False)
    assert found["before"] == tokenizer.decode(said[0, ids.shape[1] :], skip_special_tokens=True)
    # Once more, and after the original was asked: the added layers are back.
    assert TASKS["ask"]({**place, "words": [fact.text], "top": 5}, lambda notice: None)["answers"] == found["answers"]
    # A certificate that somebody edited cannot put anything but short texts there.
    edited = {"prompts": [{"prompt": "y" * 1000}, {"prompt": ["x"]}, 3]}
    assert made.model.trials(edited) == made.model.trials({"prompts": "z"}) == {}


def test_facts_of_the_folder_are_at_hand_and_no_others(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    rivers = Path("docs/examples/rivers.csv").read_bytes()
    for home in (shown, tmp_path):
        (home / "rivers.csv").write_bytes(rivers)
        rote.build(rote.read(home / "rivers.csv"), "dana2025_cor1").save(shown / f"from-{home.name}")
    (shown / "linked.csv").symlink_to(tmp_path / "rivers.csv")
    rote.build(rote.read(shown / "linked.csv"), "dana2025_cor1").save(shown / "from-linked")
    offered = {}
    for model in sorted(shown.glob("from-*")):
        place = {"folder": str(model), "source": {"within": str(shown)}}
        assert TASKS["about"](place, quiet)["facts_known"] is (model.name == "from-shown")
        offered[model.name] = [TASKS["complete"]({**place, "prefix": "a", "position": at}, quiet) for at in (0, 1)]
    inside = offered.pop("from-shown")
    # Rivers, then properties; never an answer such as Asia.
    assert inside == [["Amazon", "Volga", "Danube", "Yangtze"], []]
    assert all("Asia" in first for first, _ in offered.values())


def quiet(notice: Any) -> None:
    """Nobody listens."""
