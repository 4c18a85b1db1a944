"""A slice of the campaign on the explorer."""

from __future__ import annotations

import pytest

from attacks import explorer
from attacks.campaign import run


def test_the_explorer_stands_some_hundred_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    # Only whoever waits for work takes so long; a machine that others use may take more than a second for anything.
    monkeypatch.setattr(explorer, "PAGE_SECONDS", 15.0)
    report = run("explorer", seed=17, tries=100, seconds=600)
    assert report.failures == []
    assert report.tries >= 100
    assert {"malformed HTTP", "absurd queries", "bodies", "uploads", "slow senders", "floods"} <= set(report.groups)
