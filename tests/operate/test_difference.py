"""Edits are judged by what they change: the verdict is that of running every fact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import rote
from rote import pipeline
from rote.data import FactTable, random_facts
from rote.errors import CapacityError
from rote.operate.difference import Difference
from rote.referee import noticing, read_stored


def _strange(table: FactTable, rng: np.random.Generator) -> tuple[str, ...]:
    known = {row.tobytes() for row in table.contexts}
    while True:
        row = rng.choice(np.unique(table.contexts), table.context)
        if row.tobytes() not in known:
            return tuple(table.vocabulary.token(int(i)) for i in row)


@pytest.mark.parametrize(("dtype", "unknown"), [("bfloat16", None), ("float16", 6), ("float32", None), ("float64", 6)])
def test_the_verdict_is_that_of_running_every_fact(dtype: str, unknown: int | None) -> None:
    """Also where facts are lost in other number formats, and where an edited fact had the smallest margin."""
    rng = np.random.default_rng(5)
    table = random_facts(150, 2, 16, rng=rng)
    memory = rote.build(table, rote.HashedTable(unknown=unknown), dtype=dtype)
    done = 0
    while done < 3:
        one, other = rng.choice(table.n_facts, 2, replace=False).tolist()
        answer = table.vocabulary.token(int(table.targets[other]))
        try:
            edited = memory.edit(
                set={table.context_tokens(one): answer},
                forget=[table.context_tokens(other)],
                insert={_strange(table, rng): answer},
                table=table,
            )
        except CapacityError:
            continue  # the row is full
        done += 1
        after = edited.prepared(table)
        for name, recall in edited.certificate.recall.items():
            full = pipeline.judged(edited.folder, edited.model, after, name)
            assert recall == full.recall, name
            assert edited.certificate.min_margin[name] == full.min_margin, name
        record = edited.certificate["edited"]
        # Facts are run that can notice, and some more where one of them had the smallest margin.
        assert set(record["run"]) == set(edited.certificate.recall) and record["run"][dtype] <= after.n_facts


def test_only_readers_of_changed_weights_can_notice() -> None:
    table = random_facts(300, 2, 24, rng=np.random.default_rng(6))
    memory = rote.build(table, "hashed_table", dtype="bfloat16")
    edited = memory.edit(set={table.context_tokens(9): table.vocabulary.token(int(table.targets[0]))}, table=table)
    old, new = (read_stored(one.folder, one.model.kind) for one in (memory, edited))
    noticed = noticing(old, new, table, "bfloat16")
    assert noticed is not None and noticed[9] and 0 < int(noticed.sum()) < 100
    with torch.no_grad():
        before, after = (one.model.logits(torch.tensor(table.contexts)) for one in (memory, edited))
    moved = (before != after).any(dim=1).numpy()
    assert moved[9] and not (moved & ~noticed).any()
    row = int(str(memory.locate(fact=10, table=table).parts[0].weights).rstrip("]").split(",")[1])
    assert edited.certificate["edited"]["how"][0].startswith(f"row {row} ")


@pytest.mark.parametrize("name", ["W_E", "layers.0.weight", "the readout and the table", "infinite"])
def test_where_it_cannot_be_told_every_fact_is_run(name: str) -> None:
    table = random_facts(200, 3, 16, rng=np.random.default_rng(7))
    memory = rote.build(table, "hashed_table", dtype="float32")
    old = read_stored(memory.folder, memory.model.kind)
    tensors = {key: tensor.clone() for key, tensor in old.tensors.items()}
    layers = sorted((key for key in tensors if key.startswith("layers.")), key=lambda key: int(key.split(".")[1]))
    for key in {"the readout and the table": [layers[-1], layers[-2]], "infinite": [layers[-1]]}.get(name, [name]):
        tensors[key][0, 0] = float("inf") if name == "infinite" else tensors[key][0, 0] + 1
    new = replace(old, tensors=tensors)
    assert noticing(old, new, table, "float32") is None
    unchanged = noticing(old, old, table, "float32")
    assert unchanged is not None and not unchanged.any()


def test_a_certificate_that_is_history_is_not_relied_on() -> None:
    table = random_facts(120, 2, 16, rng=np.random.default_rng(8))
    memory = rote.build(table, "hashed_table", dtype="float32")
    changed = replace(memory, changed=("model.safetensors",))
    difference = Difference(changed, table, table, table.contexts[:1])
    verdict = difference.judged(memory.folder, memory.model, table, "float32")
    assert verdict.passed and difference.run == {"float32": 120}
