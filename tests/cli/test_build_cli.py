"""build, verify and ask as a user types them."""

from __future__ import annotations

import calendar
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from encodings.aliases import aliases
from html.entities import name2codepoint
from http import HTTPStatus
from pathlib import Path

import pytest

from rote.cli.main import run


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = run(list(args))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "facts.csv"
    rows = [f"subject {i},{rel},value {(7 * i + k) % 11}" for i in range(12) for k, rel in enumerate(("likes", "has"))]
    path.write_text("who,relation,what\n" + "\n".join(rows) + "\n")
    return path


def test_build_verify_ask(capsys: pytest.CaptureFixture[str], facts: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "model")
    code, out, err = call(capsys, "build", str(facts), "-o", model, "--json")
    assert code == 0, err
    certificate = json.loads(out)
    assert certificate["recall"]["float32"] == 1.0
    assert certificate == json.loads((tmp_path / "model" / "certificate.json").read_text())
    code, out, _ = call(capsys, "verify", model, str(facts), "--json")
    result = json.loads(out)
    assert code == 0
    assert set(result) >= {"recall", "n_facts", "n_failed", "min_margin", "dtype", "failures"}
    assert (result["recall"], result["n_facts"], result["n_failed"], result["failures"]) == (1.0, 24, 0, [])
    code, out, _ = call(capsys, "ask", model, "subject 3", "has", "--json")
    assert code == 0
    assert json.loads(out)[0]["token"] == "value 0"  # (7 * 3 + 1) mod 11
    code, out, _ = call(capsys, "ask", model, "subject 3 has")
    assert code == 0
    assert out.splitlines()[0].endswith("value 0")
    code, _, err = call(capsys, "ask", model, "subject 33", "has")
    assert code == 2
    assert "did you mean 'subject 3'" in err


def test_ask_reads_questions_from_stdin(
    capsys: pytest.CaptureFixture[str], facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = str(tmp_path / "model")
    assert call(capsys, "build", str(facts), "-o", model)[0] == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO("subject 1\tlikes\nsubject 1\tloves\nsubject 2\tlikes\n"))
    code, out, err = call(capsys, "ask", model, "--top", "1")
    assert code == 2  # one of the questions could not be understood
    assert [line.split("%")[1].strip() for line in out.splitlines()] == ["value 7", "value 3"]
    assert "loves" in err


def test_verify_takes_reading_options_from_the_certificate(
    capsys: pytest.CaptureFixture[str], facts: Path, tmp_path: Path
) -> None:
    model = str(tmp_path / "model")
    request = (
        "build",
        str(facts),
        "-o",
        model,
        "--target",
        "who",
        "--columns",
        "relation,what",
        "--on-conflict",
        "first",
    )
    code, _, err = call(capsys, *request)
    assert code == 0
    assert "contradictory fact" in err
    assert call(capsys, "verify", model, str(facts))[0] == 0
    # The certificate names the file too, seen from the directory.
    assert call(capsys, "verify", model)[0] == 0
    code, _, err = call(capsys, "verify", model, str(facts), "--target", "what", "--columns", "who,relation")
    assert code == 2 and "not what" in err


def test_refusals(capsys: pytest.CaptureFixture[str], facts: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "model")
    assert call(capsys, "build", str(facts), "-o", model)[0] == 0
    other = tmp_path / "other.csv"
    other.write_text("who,relation,what\nsubject 1,likes,value 3\n")
    cases = [
        (("build", str(facts), "-o", model), "exists already"),
        (("build", str(facts), "-o", str(tmp_path / "x"), "--with", "argmax"), "did you mean 'argmax_fit'"),
        (("build", str(facts), "-o", str(tmp_path / "x"), "--arch", "lama"), "did you mean 'llama'"),
        (("build", str(facts), "-o", str(tmp_path / "x"), "--dtype", "float33"), "float32"),
        (
            (
                *("build", str(facts), "-o", str(tmp_path / "x"), "--with", "dana2025_cor1"),
                *("--heads", "2", "--d-model", "2", "--d-head", "2"),
            ),
            "holds 6 facts",
        ),
        (("verify", model, str(other)), "not what"),
        (("verify", str(tmp_path / "nowhere"), str(facts)), "does not exist"),
        (("ask", str(tmp_path), "x"), "no certificate.json"),
    ]
    for args, needle in cases:
        code, out, err = call(capsys, *args)
        assert code == 2, args
        assert out == ""
        assert needle in err, (needle, err)
    assert not (tmp_path / "x").exists()


def test_lost_facts_give_exit_code_1(capsys: pytest.CaptureFixture[str], facts: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "model")
    shape = ("--with", "argmax_fit", "--heads", "1", "--d-model", "2", "--d-head", "1", "--partial")
    code, out, _ = call(capsys, "build", str(facts), "-o", model, *shape)
    assert code == 1
    assert "100 %" not in out
    code, out, _ = call(capsys, "verify", model, str(facts))
    assert code == 1
    assert "lost: fact" in out
    code, out, _ = call(capsys, "verify", model, str(facts), "--json")
    assert code == 1
    record = json.loads(out)
    assert record["n_failed"] > 0
    assert {"context", "expected", "got"} <= set(record["failures"][0])


@pytest.mark.parametrize(("number", "seconds"), [(signal.SIGINT, 4.0), (signal.SIGTERM, 2.0)])
def test_an_interrupted_build_leaves_nothing(tmp_path: Path, number: signal.Signals, seconds: float) -> None:
    model = tmp_path / "model"
    process = subprocess.Popen(
        [sys.executable, "-m", "rote", "build", "airports", "-o", str(model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    time.sleep(seconds)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert list(tmp_path.iterdir()) == []
    # While Python itself is still starting, on a crowded machine, the signal ends it before rote has a say.
    if process.returncode not in (-signal.SIGINT, -signal.SIGTERM):
        assert process.returncode == 130, err
        assert "interrupted" in err
        assert "Traceback" not in err


def test_bit_extraction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "facts.csv"
    rows = ["c1,c2,target"] + [f"a{i},b{j},y{(i * j) % 3}" for i in range(12) for j in range(12)]
    source.write_text("\n".join(rows) + "\n")
    for name, options in (
        ("exact", ["--dtype", "exact", "--variant", "C"]),
        ("floats", ["--dtype", "float64"]),
        ("order", ["--with-positions"]),
    ):
        assert (
            run(
                [
                    "build",
                    str(source),
                    "-o",
                    str(tmp_path / name),
                    "--with",
                    "kajitsuka2025_next_token",
                    *options,
                    "--json",
                ]
            )
            == 0
        )
        c = json.loads(capsys.readouterr().out)
        assert c["facts"] == 144
        assert {"params", "max_bits", "total_bits", "depth"} <= set(c)
        assert run(["verify", str(tmp_path / name), str(source), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["recall"] == 1.0
        assert run(["ask", str(tmp_path / name), "a2", "b2"]) == 0
        assert capsys.readouterr().out.strip() == "y1"
    assert run(["export", str(tmp_path / "floats"), str(source), "-o", str(tmp_path / "m.onnx"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recall"] == 1.0
    assert (tmp_path / "m.onnx").stat().st_size > 0
    assert run(["export", str(tmp_path / "exact"), str(source), "-o", str(tmp_path / "e.onnx")]) == 2
    assert "no form in ONNX" in capsys.readouterr().err
    assert not (tmp_path / "e.onnx").exists()


def test_sequences_have_a_label_for_every_position(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "tags.csv"
    source.write_text("words,tags\nthe cat sat,D N V\na dog,D N\nsat the dog,V D N\n")
    model = str(tmp_path / "m")
    built = ["build", str(source), "-o", model, "--with", "kajitsuka2025_seq2seq", "--tokens", "words"]
    assert run(built) == 0
    assert "3 of 3 facts recalled" in capsys.readouterr().out
    assert run(["verify", model, str(source)]) == 0
    assert run(["ask", model, "the cat sat"]) == 0
    assert capsys.readouterr().out.strip().endswith("D  N  V")
    cells = tmp_path / "cells.csv"
    cells.write_text("a,b,x,y\n1,2,p,q\n2,3,q,q\n")
    assert run(["build", str(cells), "-o", str(tmp_path / "c"), "--with", "kajitsuka2025_seq2seq"]) == 0
    source.write_text("words,tags\nthe cat sat,D N\n")
    assert run([*built[:3], str(tmp_path / "n"), *built[4:]]) == 2
    assert "3 tokens have 2 labels" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["--refine", "--variant=C"])
def test_options_that_a_stock_checkpoint_does_not_have_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "f.csv").write_text("a,b\nx,1\ny,2\n")
    code = run(["build", str(tmp_path / "f.csv"), "-o", str(tmp_path / "m"), "--arch", "llama", name])
    said = capsys.readouterr().err
    assert code == 2
    assert name.removeprefix("--").split("=")[0] in said and "belongs to" in said
    assert not (tmp_path / "m").exists()


def test_wide_tables_with_holes_are_built_verified_and_asked_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f.csv").write_text("code,name,short name\n0A,alpha,a\n0B,beta,\n1A,gamma,c\n1B,delta,d\n")
    read = [str(tmp_path / "f.csv"), "--tokens", "chars", "--target", "name,short name"]
    for arch in ("rote", "llama"):
        model = str(tmp_path / arch)
        code, _, err = call(capsys, "build", *read, "-o", model, "--arch", arch)
        assert (code, "row 2 (line 3): column 'short name' holds nothing" in err) == (2, True)
        code, _, err = call(capsys, "build", *read, "-o", model, "--arch", arch, "--on-missing", "skip")
        assert (code, "1 fact with an empty cell left out" in err) == (0, True), err
        code, out, err = call(capsys, "verify", model, "--json")
        assert (code, json.loads(out)["n_facts"]) == (0, 7), err
        for question in (["1B", "short name"], ["what is the short name of 1B?"], ["1B\tshort name"]):
            code, out, err = call(capsys, "ask", model, *question, "--json")
            assert (code, json.loads(out)[0]["token"]) == (0, "d"), err
        code, _, err = call(capsys, "ask", model, "name of 1B or 1A")
        assert (code, "can be understood as" in err) == (2, True)
    _, _, err = call(capsys, "facts", "show", str(tmp_path / "f.csv"), "--on-missing", "skip")
    assert "say --target 'name,short name'" in err.replace(" \n", " ")


def test_facts_that_do_not_fit_are_named_or_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.csv").write_text("a,b\nm,1\nmm,2\nmn,3\nnm,4\nn,1\n")
    model = str(tmp_path / "bits")
    how = ["--tokens", "chars", "--with", "kajitsuka2025_next_token"]
    build = ["build", str(tmp_path / "f.csv"), "-o", model, *how]
    code, _, err = call(capsys, *build)
    assert code == 2 and not Path(model).exists()
    assert "(n, m)" in err and "(line " in err and "--drop-unfit" in err
    code, out, err = call(capsys, *build, "--drop-unfit", "--json")
    assert (code, json.loads(out)["left_out"], json.loads(out)["facts"]) == (0, 1, 4), err
    listed = [json.loads(line) for line in (Path(model) / "left_out.jsonl").read_text().splitlines()]
    assert [one["fact"].split(" -> ")[0] for one in listed] == ["(n, m)"]
    assert call(capsys, "verify", model)[0] == 0
    code, out, err = call(
        capsys,
        "build",
        str(tmp_path / "f.csv"),
        "-o",
        str(tmp_path / "a"),
        "--tokens",
        "chars",
        "--drop-unfit",
        "--json",
    )
    assert (code, json.loads(out)["left_out"]) == (0, 0), "auto prefers what holds everything"


def _statuses() -> list[tuple[str, str]]:
    return [(str(one.value), one.phrase) for one in HTTPStatus]


def _entities() -> list[tuple[str, str]]:
    return [(name, str(code)) for name, code in sorted(name2codepoint.items())]


def _codecs() -> list[tuple[str, str]]:
    return sorted(aliases.items())


def _weekdays() -> list[tuple[str, str]]:
    return [(str(year), calendar.day_name[calendar.weekday(year, 1, 1)]) for year in range(1900, 2050)]


@pytest.mark.parametrize(
    ("rows", "how"),
    [(_statuses, []), (_entities, ["--tokens", "chars"]), (_codecs, []), (_weekdays, ["--tokens", "chars"])],
)
def test_tables_of_the_standard_library_need_no_options(
    rows: Callable[[], list[tuple[str, str]]], how: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a file to a verified answer, with nothing said but what a token is; and what is no key is marked."""
    table, model = tmp_path / "f.csv", str(tmp_path / "model")
    with table.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("key", "value"), *rows()])
    code, _, err = call(capsys, "build", str(table), "-o", model, *how)
    assert code == 0, err
    assert call(capsys, "verify", model)[0] == 0
    for key, value in rows()[:: max(1, len(rows()) // 5)]:
        code, out, err = call(capsys, "ask", model, key, "--json")
        assert (code, json.loads(out)[0]["token"], json.loads(out)[0]["known"]) == (0, value, True), err
