"""A slice of the campaign of kills: builds, alone and two at once."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from attacks import kills

if not hasattr(os, "fork"):
    pytest.skip("needs fork", allow_module_level=True)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_what_is_killed_leaves_the_old_or_the_new_and_nothing_else(tmp_path: Path) -> None:
    # In a child, as the libraries that a verb uses start threads, and a process with threads is not to be forked.
    from attacks.faults import fork

    def attack() -> int:
        kills._warm()
        rng = random.Random(0)
        tests = [kills.Attempts(verb, tmp_path, rng) for verb in kills._verbs() if verb.name.startswith("build")]
        failures = [test.prepare() for test in tests]
        for _ in range(9):
            failures += [test.one().failure for test in tests]
        failures += [tests[1].two_at_once().failure for _ in range(3)]
        assert not any(failures), "\n".join(filter(None, failures))
        return 0

    home = tmp_path / "home"
    home.mkdir()
    done = fork(attack, home, patience=600)()
    assert done.code == 0, done.said
