"""Searches that are interrupted go on where they were, to the same result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rote
from rote.measurement import run
from rote.measurement.journal import Journal

SHAPE: dict[str, Any] = {"n_heads": 2, "d_model": 4, "context": 2, "vocab": 12, "seeds": 2, "tolerance": 0.05}


class _Stop(KeyboardInterrupt):
    pass


@pytest.mark.parametrize("with_", ["train", "argmax_fit"])
def test_an_interrupted_search_goes_on(with_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rote import training

    more: dict[str, Any] = {"steps": 60, "beside": False} if with_ == "train" else {}
    whole = rote.measure(**SHAPE, with_=with_, **more)
    said: list[str] = []

    def stop(text: str) -> None:
        said.append(text)
        if len(said) == 3:
            raise _Stop

    with pytest.raises(_Stop):
        rote.measure(**SHAPE, with_=with_, **more, journal=tmp_path / "tries.db", note=stop)
    with Journal(tmp_path / "tries.db", write=False) as journal:
        kept = len(list(journal.rows()))
    assert kept >= 3
    worked: list[int] = []
    train, build = training.train, run._built_once

    def trained(spec: Any, tables: Any, *rest: Any, **how: Any) -> Any:
        worked.append(len(tables))
        return train(spec, tables, *rest, **how)

    def built(cell: Any, count: int) -> Any:
        worked.append(1)
        return build(cell, count)

    monkeypatch.setattr(training, "train", trained)
    monkeypatch.setattr(run, "_built_once", built)
    again = rote.measure(**SHAPE, with_=with_, **more, journal=tmp_path / "tries.db")
    assert (again.capacity, again.by_seed) == (whole.capacity, whole.by_seed)
    assert sum(worked) == sum(one["tries"] for one in whole.by_seed) - kept
    worked.clear()
    assert rote.measure(**SHAPE, with_=with_, **more, journal=tmp_path / "tries.db").by_seed == whole.by_seed
    assert not worked


def test_other_searches_are_not_mixed_up(tmp_path: Path) -> None:
    first = rote.measure(**SHAPE, with_="argmax_fit", journal=tmp_path / "tries.db")
    second = rote.measure(**{**SHAPE, "n_heads": 1}, with_="argmax_fit", journal=tmp_path / "tries.db")
    assert second.by_seed == rote.measure(**{**SHAPE, "n_heads": 1}, with_="argmax_fit").by_seed
    assert first.params != second.params
