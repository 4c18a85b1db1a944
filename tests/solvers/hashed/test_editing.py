"""A hashed table read out of its weights again, and rows solved anew."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from rote.data import random_facts
from rote.errors import CheckpointError, FactsLost
from rote.models.kinds.hashed_transformer import HashedTransformer, Words, as_tensors, shape_of
from rote.solvers.hashed.editing import stored_table
from rote.solvers.hashed.hashing import hashed_keys
from rote.solvers.hashed.memorise import HashedTable, memorise
from rote.solvers.hashed.network import matrices
from rote.solvers.hashed.planning import layouts


@cache
def _solved(dtype: str, unknown: int, skip: int = 0) -> tuple[HashedTable, np.ndarray, np.ndarray]:
    table = random_facts(300, 3, 12, rng=np.random.default_rng(5))
    for layout in list(layouts(300, 3, 12, 12, dtype, unknown=unknown))[skip:]:
        try:
            made = memorise(table.contexts, table.targets, layout, np.random.default_rng(1))
        except FactsLost:
            continue
        return made, table.contexts, table.targets
    raise AssertionError("the last layout holds everything")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize(("unknown", "skip"), [(0, 0), (6, 0), (0, -1)])
def test_what_keys_read_is_what_they_were_given(dtype: str, unknown: int, skip: int) -> None:
    import torch

    made, keys, labels = _solved(dtype, unknown, skip)
    layout = made.hashing.layout
    weights = as_tensors(matrices(made.hashing, made.rows), dtype)
    module = HashedTransformer(shape_of(layout, 12), Words(tuple(range(12)), tuple(range(12)), unknown), weights)
    shapes = [tuple(layer.get_parameter("weight").shape) for layer in module.layers]
    stored = stored_table(layout.to_dict(), shapes, classes=12, context=3, vocab=12)
    reads = stored.reads(module.units(torch.tensor(keys), stored.layer).float().numpy())
    hashed = hashed_keys(made.hashing, keys)
    assert np.array_equal(reads.columns, hashed.columns(layout))
    assert np.array_equal(reads.prints, hashed.fingerprints)
    if layout.digits > 1:
        assert np.array_equal(reads.choices, hashed.choices(layout))
    for key, row in zip(hashed.bits, reads.rows.tolist(), strict=True):
        assert all(key[bit] == value for bit, value in made.rows[row].code)
    matrix = weights[f"layers.{stored.layer}.weight"].double().numpy()
    symbols = stored.symbols(labels, reads.prints)
    for row in np.unique(reads.rows)[:3].tolist():
        mine = np.flatnonzero(reads.rows == row)
        assert np.array_equal(stored.words(matrix, row), made.rows[row].words)
        # Solved anew with the same symbols and words, nothing changes.
        same = stored.solved(matrix, row, reads.of(mine), symbols[mine], stored.words(matrix, row))
        assert same is not None and np.array_equal(same, matrix[:, row])


def test_a_layout_that_is_not_that_of_the_weights_is_refused() -> None:
    made, _, _ = _solved("bfloat16", 0, 0)
    layout = made.hashing.layout
    record, sizes = layout.to_dict(), {"classes": 12, "context": 3, "vocab": 12}
    stored_table(record, list(layout.layers), **sizes)
    wrong: tuple[dict[str, Any], ...] = (
        {"rows": layout.rows + 1},
        {"groups": "x"},
        {"groups": []},
        {"blocks": None},
    )
    for change in (*wrong, {"word_bits": 24}):
        with pytest.raises(CheckpointError):
            stored_table({**record, **change}, list(layout.layers), **sizes)
    with pytest.raises(CheckpointError):
        stored_table({}, list(layout.layers), **sizes)
