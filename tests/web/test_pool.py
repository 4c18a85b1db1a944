"""The processes behind the explorer: they refuse, they end, and the next question starts a new one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from rote.web.pool import Gone, Late, Refused, Worker

DEEP = {"layers": "1999", "d_mlp": "9001", "axis": "layers"}
"""A question that takes seconds."""


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker("test")
    yield made
    made.close()


def test_a_refusal_is_one_sentence_and_the_process_goes_on(worker: Worker) -> None:
    with pytest.raises(Refused, match="n_heads must be from 1"):
        worker.call("bounds", {"heads": "0"})
    first = worker._process
    assert worker.call("bounds", {"heads": "3"})["now"] == 3
    assert worker._process is first


def test_a_fault_is_a_sentence_too(worker: Worker) -> None:
    with pytest.raises(Refused, match="a fault in rote itself, KeyError"):
        worker.call("no such task", {})


def test_what_takes_too_long_is_stopped(worker: Worker) -> None:
    with pytest.raises(Late, match="was stopped"):
        worker.call("bounds", DEEP, seconds=0.2)
    assert worker.call("bounds", {"heads": "3"})["now"] == 3


def test_stopping_ends_the_work_at_once(worker: Worker) -> None:
    worker.call("bounds", {})
    found: list[Exception] = []

    def ask() -> None:
        try:
            worker.call("bounds", DEEP)
        except Gone as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.2)
    worker.stop()
    thread.join(timeout=10)
    assert len(found) == 1
    assert worker.call("bounds", {"heads": "5"})["now"] == 5


def test_a_closed_one_starts_nothing(worker: Worker) -> None:
    worker.close()
    with pytest.raises(Gone, match="closing"):
        worker.call("bounds", {})
