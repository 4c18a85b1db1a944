"""The contract suite for tables: `check_table` raises AssertionError with a sentence that says what is broken."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from rote.config import Shape
from rote.data import Reading, Table, read, write
from rote.data.demand import Demand
from rote.data.encoding import Continuation
from rote.data.outputs import Leads, Outputs
from rote.data.table import Inputs
from rote.data.verification import Verification
from rote.errors import CheckpointError, RoteError, UsageError

__all__ = ["Echo", "check_table"]


class Echo(Outputs):
    """Says what a table wants to hear (`sense` 1), the contrary (-1), or what is not a number (nan)."""

    rows_at_once = 3
    judged_by = "echo"

    def __init__(self, table: Any, sense: float = 1.0) -> None:
        self.table, self.sense, self.place = table, sense, 0

    def _rows(self, inputs: Inputs) -> slice:
        """The facts that are asked for: portions come in order."""
        start, self.place = self.place, self.place + len(inputs[-1])
        return slice(start, self.place)

    def leads(self, inputs: Inputs, targets: Any) -> Leads:
        wrong = np.full(targets.shape, -1)
        return np.full(targets.shape, self.sense), targets if self.sense > 0 else wrong

    def values(self, inputs: Inputs) -> Any:
        import torch

        goals = self.table.targets[self._rows(inputs)].reshape(len(inputs[-1]), -1)
        return torch.tensor(goals + (0.0 if self.sense > 0 else self.sense * 1e6))

    def scores(self, inputs: Inputs) -> Any:
        import torch

        shares = self.table.probabilities[self._rows(inputs)]
        return torch.tensor(self.sense * np.log(np.maximum(shares, 1e-300)))

    def continuations(self, prompts: Any) -> list[Any]:
        said = (1,) if self.sense > 0 else (2,)
        return [Continuation(said, prompt.answer, (1,)) for prompt in prompts]


def check_table(table: Table | type[Table], *, seed: int = 0) -> None:
    """Everything that the pipeline relies on: for one table, or for all examples of a kind."""
    if isinstance(table, type):
        examples = table.examples(np.random.default_rng(seed))
        assert examples, f"{table.__name__} has no examples to check it with"
        for example in examples:
            check_table(example)
        return
    _check_record(table)
    _check_identity(table)
    _check_demand(table)
    _check_inputs(table)
    _check_words(table)
    _check_score(table)
    _check_file(table)


def _check_record(table: Table) -> None:
    """Frozen, described, and named after its kind."""
    kind = type(table).__name__
    assert table.kind and table.noun, f"{kind} must say its kind and what it counts"
    assert table.n_facts >= 1 and table.context >= 1, f"{kind} must have facts and contexts"
    assert table.bits >= 0, f"{kind}.bits must not be negative, got {table.bits}"
    described = table.describe()
    assert json.loads(json.dumps(described, allow_nan=False)) == described, f"{kind}.describe must be ready for JSON"
    for key in ("name", "n_facts", "sha256"):
        assert described.get(key) == getattr(table, key), f"{kind}.describe must give {key} as the table does"
    assert table.fact_text(0) and table.fact_text(table.n_facts - 1), f"{kind}.fact_text must say something"
    assert table.sheet().title == repr(table) and "<table>" in table._repr_html_(), f"{kind} must have a sheet"
    try:
        table.name = "another"
    except dataclasses.FrozenInstanceError:
        pass
    else:
        raise AssertionError(f"{kind} must be frozen, but its name could be changed")
    for name, value in vars(table).items():
        if isinstance(value, np.ndarray) and name in {f.name for f in dataclasses.fields(table)}:  # type: ignore[arg-type]
            assert not value.flags.writeable, f"{kind}.{name} must be read-only"


def _check_identity(table: Table) -> None:
    """Equality, length, hash and repr."""
    kind = type(table).__name__
    twin = dataclasses.replace(table, name="another")  # type: ignore[type-var]
    assert twin == table and hash(twin) == hash(table), f"{kind} must be equal to a copy with another name"
    assert pickle.loads(pickle.dumps(table)) == copy.deepcopy(table) == table, f"{kind} must survive pickling"
    assert table != table.sha256 and table is not None, f"{kind} must not be equal to other things"
    assert len(table) == table.n_facts, f"the length of {kind} must be its n_facts"
    said = repr(table)
    assert said.startswith(f"{kind}({table.name!r}: {table.n_facts:,} {table.noun}"), f"{kind} needs a repr: {said}"
    assert len(said) < 200 and "\n" not in said, f"the repr of {kind} must be one line"


def _check_demand(table: Table) -> None:
    kind = type(table).__name__
    demand = table.demand("float32", Shape())
    assert isinstance(demand, Demand), f"{kind}.demand must give a Demand"
    assert demand.n_facts == table.n_facts, f"{kind}.demand must ask for {table.n_facts} facts"
    assert demand.dtype == "float32"
    heads = table.demand("bfloat16", Shape(n_heads=3, d_head=2))
    assert (heads.n_heads, heads.d_head, heads.dtype) == (3, 2, "bfloat16"), f"{kind}.demand must keep what is fixed"


def _check_inputs(table: Table) -> None:
    """Arrays that cannot be written to, in portions that fit together."""
    kind = type(table).__name__
    before = table.sha256
    for array in table.inputs(slice(0, 1)):
        assert isinstance(array, np.ndarray) and not array.flags.writeable, f"{kind}.inputs must be read-only arrays"
    whole, half = table.inputs(slice(0, table.n_facts)), table.n_facts // 2
    parts = (table.inputs(slice(0, half)), table.inputs(slice(half, table.n_facts)))
    assert len(whole[-1]) == table.n_facts, f"{kind}.inputs must have one row per fact"
    assert np.array_equal(whole[-1], np.concatenate([part[-1] for part in parts])), f"{kind}.inputs must be in order"
    assert dataclasses.replace(table).sha256 == before, f"{kind} must not change when it is asked"  # type: ignore[type-var]


def _check_words(table: Table) -> None:
    """A model's words: the same, more of them in another order, and too few."""
    kind = type(table).__name__
    words = table.words
    if words is None:
        assert table.in_words_of((), table.context) == table, f"{kind} has no words to translate"
        return
    tokens = tuple(words)
    assert table.in_words_of(tokens, table.context) is table, f"{kind} must be itself in its own words"
    more = ("another token", *reversed(tokens))
    moved = table.in_words_of(more, table.context)
    assert moved.words is not None and tuple(moved.words) == more, f"{kind} must take over a model's words"
    assert [moved.fact_text(i) for i in range(len(table))] == [table.fact_text(i) for i in range(len(table))], (
        f"{kind} must mean the same in other words"
    )
    for known, length, why in ((tokens[1:], table.context, "unknown tokens"), (tokens, table.context - 1, "lengths")):
        try:
            table.in_words_of(known, length)
        except CheckpointError:
            continue
        raise AssertionError(f"{kind}.in_words_of must refuse {why} with a CheckpointError")


def _check_score(table: Table) -> None:
    """A model that says everything right, one that says everything wrong, and a broken one."""
    kind = type(table).__name__
    best = table.score(Echo(table), "float64")
    assert isinstance(best, Verification), f"{kind}.score must give a Verification"
    assert best.passed and best.recall == 1.0 and best.n_failed == 0, f"{kind} must recognise a perfect model: {best}"
    assert best.n_facts == table.n_facts and best.dtype == "float64" and best.judged_by == "echo"
    record = best.to_dict()
    json.dumps(record, allow_nan=False)
    assert best.confirms({"recall": {"float64": 1.0}}), f"{kind}: a perfect model confirms its certificate"
    assert best.sheet().title and best.summary() and repr(best)
    for sense in (-1.0, float("nan")):
        worse = table.score(Echo(table, sense), "float64")
        json.dumps(worse.to_dict(), allow_nan=False)
        assert worse.sheet().title and worse.summary() and repr(worse)
        assert worse.recall < 1.0, f"{kind} must see that a model is wrong"
        if np.isnan(sense):
            assert not worse.passed, f"{kind} must not pass a model that says what is not a number"
    try:
        table.score(Outputs(), "float64")
    except UsageError:
        return
    raise AssertionError(f"{kind}.score must refuse a model that cannot answer, with a UsageError")


def _check_file(table: Table) -> None:
    """What is written is read back, and knows how; kinds that are not written refuse in one sentence."""
    kind = type(table).__name__
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("csv", "parquet", "safetensors"):
            path = Path(folder) / f"table.{ending}"
            try:
                first = read(path, choices=write(table, path))
                again = read(path, choices=write(first, path))
            except RoteError:
                continue  # not a format of this kind
            # What no fact uses is not written, so the second round is the one that must change nothing.
            assert again == first and len(first) == len(table), f"{kind} must come back from a file as it was written"
            assert first.reading is not None and first.reading.kind == table.kind, f"{kind} must know how it was read"
            assert first.reading.path == path and first.reading.source == path.name
            record = json.loads(json.dumps(first.reading.to_dict()))
            assert dataclasses.replace(Reading.from_dict(record), path=path) == first.reading, (
                f"the reading of {kind} must survive a certificate"
            )
            assert type(first).again(path, first.reading.choices, {"facts_sha256": first.sha256}) == first
            assert first.name, f"{kind} must have a name"
            break
