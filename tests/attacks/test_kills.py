"""A slice of the campaign of kills: builds, alone and two at once, and edits in place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# In a process that has run nothing: the libraries that a verb uses start threads, and then forks would wait for them.
SLICE = """
import pathlib, random, sys
from attacks import kills
kills._warm()
rng = random.Random(0)
verbs = [verb for verb in kills._verbs() if verb.name.startswith(("build", "edit"))]
tests = [kills.Attempts(verb, pathlib.Path(sys.argv[1]), rng) for verb in verbs]
failures = [test.prepare() for test in tests]
for _ in range(3):
    failures += [test.one().failure for test in tests]
failures += [tests[1].two_at_once().failure]
sys.exit("\\n".join(filter(None, failures)) or 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_is_killed_leaves_the_old_or_the_new_and_nothing_else(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-c", SLICE, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
