"""build, verify and ask as a user types them."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
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
        "--context",
        "relation,what",
        "--on-conflict",
        "first",
    )
    code, _, err = call(capsys, *request)
    assert code == 0
    assert "contradictory facts dropped" in err
    assert call(capsys, "verify", model, str(facts))[0] == 0


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


@pytest.mark.parametrize(("number", "seconds"), [(signal.SIGINT, 4.0), (signal.SIGTERM, 4.0)])
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
