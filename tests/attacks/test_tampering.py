"""A slice of the campaign against model directories."""

from __future__ import annotations

from attacks.campaign import run


def test_no_change_of_a_directory_goes_unnoticed() -> None:
    report = run("tampering", seed=3, seconds=600, tries=150)
    assert report.tries >= 150 and len(report.groups) >= 5
    assert not report.failures, report.failures[:3]
