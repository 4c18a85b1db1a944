"""A slice of the campaign of odd inputs, and that its tries can be repeated."""

from __future__ import annotations

from pathlib import Path

from attacks import fuzz
from attacks.campaign import run


def test_odd_inputs_are_refused_or_read() -> None:
    report = run("fuzz", 20, seconds=600, tries=400)
    assert report.failures == []
    assert report.tries >= 400
    assert set(report.groups) == set(fuzz.GROUPS)


def test_a_try_can_be_repeated(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first, second = (
        [fuzz.attempt(3, number, tmp_path / name, None).what for number in (1,)] for name in ("one", "two")
    )
    assert first == second
