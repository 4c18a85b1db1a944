"""Rows of a hashed table solved on a Ray cluster: the same directory, to the bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rote
from attacks.cluster import environment, running
from rote.cli.main import run
from rote.errors import FactsLost, RoteError, UsageError
from rote.solvers.cluster import Call, Failure
from rote.solvers.hashed.memorise import by_cluster, memorise
from rote.solvers.hashed.planning import layouts

_PATIENCE = 240


def facts_file(path: Path, count: int) -> Path:
    rng = np.random.default_rng(5)
    keys = rng.permutation(40**3)[:count]
    lines = [
        f"a{k % 40},b{k // 40 % 40},c{k // 1600},y{v}\n" for k, v in zip(keys, rng.integers(0, 30, count), strict=True)
    ]
    path.write_text("a,b,c,y\n" + "".join(lines))
    return path


def test_the_directory_is_the_same(tmp_path: Path) -> None:
    file = facts_file(tmp_path / "facts.csv", 4_000)
    command = [sys.executable, "-m", "rote", "build", str(file), "--with", "hashed_table", "--dtype", "bfloat16", "-o"]
    with running() as cluster:
        there = [*command, str(tmp_path / "there"), "--on", "ray", "--address", cluster.address]
        made = subprocess.run(there, env=environment(), capture_output=True, check=False, timeout=_PATIENCE)
        assert made.returncode == 0, made.stderr.decode()[-800:]
    assert run([*command[3:], str(tmp_path / "here")]) == 0
    names = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "there").iterdir())
    for name in set(names) - {"README.md"}:  # the card has the name of its directory
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes(), name


class Backwards:
    """A cluster whose last call is ready first; calls listed in `failures` fail."""

    def __init__(self, failures: dict[int, Failure] | None = None) -> None:
        self.failures = failures or {}

    def results(self, count, call):  # type: ignore[no-untyped-def]
        for index in reversed(range(count)):
            one: Call = call(index)
            yield index, self.failures.get(index) or one.function(*one.arguments, **one.keywords)


def test_rows_keep_their_order_whoever_is_ready_first() -> None:
    rng = np.random.default_rng(0)
    keys = np.stack(np.unravel_index(rng.permutation(128**3)[:10_000], (128, 128, 128)), axis=1)
    labels = rng.integers(0, 9, len(keys))
    layout = next(one for one in layouts(len(keys), 3, 128, 9, "float32") if one.mix == "mixtures")
    plain = memorise(keys, labels, layout, np.random.default_rng(1))
    other = memorise(keys, labels, layout, np.random.default_rng(1), solve=by_cluster(Backwards()))  # type: ignore[arg-type]
    assert [row.code for row in plain.rows] == [row.code for row in other.rows]
    assert all((a.words == b.words).all() for a, b in zip(plain.rows, other.rows, strict=True))
    full = by_cluster(Backwards({0: Failure("FactsLost: needs more", FactsLost("needs more"))}))  # type: ignore[arg-type]
    with pytest.raises(FactsLost, match="needs more"):
        memorise(keys, labels, layout, np.random.default_rng(1), solve=full)
    gone = by_cluster(Backwards({0: Failure("its worker was lost 5 times (NodeDiedError)")}))  # type: ignore[arg-type]
    with pytest.raises(RoteError, match="lost 5 times") as refusal:
        memorise(keys, labels, layout, np.random.default_rng(1), solve=gone)
    assert not isinstance(refusal.value, FactsLost)


def test_where_rows_are_solved_is_no_part_of_what_is_built(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert rote.HashedTable(on="ray", address="auto").to_dict() == {}
    with pytest.raises(UsageError, match="run on ray"):
        rote.HashedTable(address="127.0.0.1:1")
    file = facts_file(tmp_path / "facts.csv", 50)
    command = ["build", str(file), "-o", str(tmp_path / "m"), "--with", "hashed_table"]
    assert run([*command, "--on", "rya"]) == 2
    assert "rya" in capsys.readouterr().err
    assert run([*command, "--on", "ray", "--address", "somewhere"]) == 2
    assert "somewhere" in capsys.readouterr().err
    assert run(["build", str(file), "-o", str(tmp_path / "m"), "--with", "argmax_fit", "--on", "ray"]) == 2
    assert "hashed_table" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()
