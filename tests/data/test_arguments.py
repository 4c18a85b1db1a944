"""Arguments of quite wrong types: one sentence that says what is needed, and of whom."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rote
from rote.data import random_facts
from rote.errors import UsageError

ROTE: Any = rote
"""Without types, as a notebook sees it."""
ARCH = rote.Architecture(2, 4, 4, 2, 20)
TABLE = random_facts(8, 2, 20, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def memory() -> rote.Memory:
    return rote.build(TABLE, "dana2025_cor1")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ROTE.build(TABLE, dtype=torch.float32), "rote.build needs a text or None for dtype, got the dtype"),
        (lambda: ROTE.build(TABLE, progress=None), "rote.build needs a function for progress, got the NoneType"),
        (lambda: ROTE.build(TABLE, n_heads="4"), "a whole number or None for n_heads, got the str ('4')"),
        (lambda: ROTE.plan(TABLE, np.array([1, 2])), "a list of texts or None for only, got the ndarray"),
        (lambda: ROTE.plan(TABLE, [1]), "a list of texts or None for only, got the list"),
        (lambda: ROTE.Demand("10", 5, 2), "Demand needs a whole number for n_facts, got the str ('10')"),
        (lambda: ROTE.Demand(10, 5, None), "Demand needs a whole number for context, got the NoneType"),
        (lambda: ROTE.Setting(None), "Setting needs an Architecture for arch, got the NoneType"),
        (lambda: ROTE.Setting(ARCH, kruskal="2"), "Setting needs a whole number or None for kruskal"),
        (lambda: ROTE.ArgmaxFit(refine="yes"), "ArgmaxFit needs True or False for refine, got the str ('yes')"),
        (lambda: ROTE.DistributionRefit(kl=[0.1]), "DistributionRefit needs a number or None for kl, got the list"),
    ],
)
def test_calls_and_records(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        call()
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.ask(3), "rote.Memory.ask needs a text for words, got the int (3)"),
        (lambda m: m.ask("t0", top="5"), "rote.Memory.ask needs a whole number for top"),
        (lambda m: m.encode(torch.float32), "rote.Memory.encode needs a list of texts for words"),
        (lambda m: m.save(3.5), "rote.Memory.save needs a text or a path for directory, got the float (3.5)"),
        (lambda m: m.table(7), "rote.Memory.table needs a text or a path or None for source"),
    ],
)
def test_methods_of_a_memory(memory: rote.Memory, call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        call(memory)
    assert words in str(refusal.value)


def test_what_can_be_gone_through_once_is_left_whole() -> None:
    keys = (key for key in ["dana2025_cor1"])
    assert [one.construction for one in rote.plan(TABLE, keys)] == ["dana2025_cor1"]


def test_no_target_at_all_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_text("a,b\nx,y\n")
    with pytest.raises(UsageError, match="no column is named as a target"):
        rote.read(file, target=[])


def test_progress_of_other_kinds_is_nobody_s_mistake(tmp_path: Path) -> None:
    """A sweep tells its progress to an object, a build to a function; the annotation has one name."""
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'seeds = 1\n[base]\nd_model = 4\ncontext = 2\nvocab = 12\nby = "dana2025_cor1"\n[grid]\nn_heads = [1]\n'
    )
    from rote.cli.main import run

    assert run(["sweep", str(grid), "--db", str(tmp_path / "r.db"), "--json"]) == 0


def test_a_workplace_may_be_a_text(tmp_path: Path) -> None:
    assert ROTE.build(TABLE, "dana2025_cor1", workplace=str(tmp_path)).folder.parent == tmp_path
