"""What is told while something is going on."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import rote
from rote import pipeline
from rote.cli import _progress
from rote.cli._measuring import working
from rote.cli._progress import Watch, display, ticking
from rote.cli.main import run
from rote.data import random_facts
from rote.solvers.record import Attempt


def watch_at(seconds: list[float]) -> Watch:
    return Watch(100, clock=lambda: seconds[0])


def test_a_time_left_is_told_where_rows_are_counted_and_only_there() -> None:
    now = [0.0]
    watch = watch_at(now)
    watch("features", 0, 1000, None)
    now[0] = 50.0
    watch("features", 100, 1000, None)
    now[0] = 52.0
    watch("features", 120, 1000, None)
    assert watch.left is None, "2 % say nothing"
    watch("features", 300, 1000, None)
    assert watch.left == pytest.approx(7.0), "200 rows took 2 seconds, whatever came before them"
    assert str(watch) == "features 30 %, 7 s left of it"
    watch("fit", 40, 0, 60)
    now[0] = 60.0
    assert watch.left is None and watch.share == 0.6
    assert str(watch) == "fit, 60 of 100 facts recalled"


def test_a_line_of_a_log_names_the_attempt_and_the_best_so_far() -> None:
    now = [0.0]
    watch = watch_at(now)
    watch.attempt(Attempt(3, 40, "argmax_fit", "4 heads of 2, d_model 8", 1234, 0.91))
    watch("verify float32", 20, 100, None)
    now[0] = 7.0
    watch("verify float32", 60, 100, None)
    assert watch.line() == (
        "7 s: attempt 3 of at most 40: argmax_fit, 4 heads of 2, d_model 8, 1,234 parameters; best so far 91 %: "
        "verify float32 60 %, 7 s left of it"
    )


def test_logs_get_a_line_while_the_main_thread_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "LINE_EVERY", 0.02)
    text = io.StringIO()
    with ticking(Console(file=text), lambda: "still going"):
        while "still going" not in text.getvalue():
            time.sleep(0.01)
    ended = text.getvalue()
    time.sleep(0.1)
    assert text.getvalue() == ended


def test_nothing_is_told_where_it_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_progress, "LINE_EVERY", 0.01)
    monkeypatch.setenv("ROTE_PROGRESS", "0")
    with display(5, enabled=True) as watch, working("measuring", enabled=True):
        watch("fit", 1, 0, 3)
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_an_interrupted_measurement_says_what_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    def measured() -> None:
        with working("measuring", enabled=True) as note:
            note("40 facts: 3 of 3 seeds recall them")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured()
    assert "measuring so far: 40 facts: 3 of 3 seeds recall them" in capsys.readouterr().err


def interrupted_after(attempts: int) -> Any:
    """Told of attempts, it presses ctrl-C when one more begins."""
    seen: list[Attempt] = []

    def told(attempt: Attempt) -> None:
        seen.append(attempt)

    def progress(stage: str, done: int, total: int, recalled: int | None) -> None:
        if len(seen) > attempts:
            raise KeyboardInterrupt

    return told, progress, seen


def test_an_interruption_hands_over_the_best_attempt_if_asked() -> None:
    table = random_facts(300, 3, 12, rng=np.random.default_rng(0))
    for keep, finished in ((True, 2), (False, 2), (True, 0)):
        told, progress, seen = interrupted_after(finished)
        if keep and finished:
            memory = pipeline.build(table, keep_best=keep, progress=progress, attempt=told)
            assert not memory.certificate.passed
            assert memory.certificate.recall["float32"] == pytest.approx(seen[-1].best)
            assert [one.number for one in seen] == [1, 2, 3]
        else:
            with pytest.raises(KeyboardInterrupt, match="before an attempt was finished" if keep else "^$"):
                pipeline.build(table, keep_best=keep, progress=progress, attempt=told)


def test_the_same_weights_with_and_without_keeping_the_best(tmp_path: Path) -> None:
    facts, tried = str(tmp_path / "facts.csv"), list[Attempt]()
    table = random_facts(60, 3, 9, rng=np.random.default_rng(1))
    table.write(facts)
    pipeline.build(table, attempt=tried.append)
    assert len(tried) > 2, "there is something to keep"
    for name, more in (("a", []), ("b", ["--keep-best"])):
        assert run(["build", facts, "-o", str(tmp_path / name), *more]) == 0
    one, other = (rote.load(tmp_path / name).certificate for name in "ab")
    assert one.weights_sha256 == other.weights_sha256


def test_a_verification_says_when_it_is_done_with_the_facts() -> None:
    """What follows the last fact has a name of its own, instead of 100 % and no end."""
    table = random_facts(12, 3, 9, rng=np.random.default_rng(0))
    memory = rote.build(table, with_="dana2025_cor1")
    stages: list[str] = []
    rote.verify(memory, table, progress=lambda stage, *_: stages.append(stage))
    assert list(dict.fromkeys(stages)) == [
        "verify float32",
        "hold the certificate's claims against it",
        "try the filter of keys",
    ]
