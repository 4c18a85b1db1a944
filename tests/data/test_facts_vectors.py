from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from rote.data import VectorTable, random_vectors, read
from rote.errors import DataError, OutputError, RoteError, UsageError


def fields(**changes: Any) -> dict[str, Any]:
    made = {"contexts": np.ones((3, 2, 4)), "queries": np.zeros((3, 4)), "targets": [0, 1, 1], "n_classes": 2}
    return {**made, **changes}


def with_value(shape: tuple[int, ...], at: tuple[int, ...], value: float) -> Any:
    made = np.zeros(shape)
    made[at] = value
    return made


def test_sizes() -> None:
    table = VectorTable(**fields())
    assert (table.n_facts, table.context, table.d_model, table.shared, len(table)) == (3, 2, 4, False, 3)
    assert table.targets.dtype == np.int64
    shared = VectorTable(**fields(contexts=np.ones((2, 4))))
    assert (shared.n_facts, shared.context, shared.d_model, shared.shared) == (3, 2, 4, True)
    real = VectorTable(**fields(n_classes=None, targets=[[0, 1], [1, 2], [2, 3]]))
    assert real.describe()["d_target"] == 2
    for array in (table.contexts, table.queries, table.targets):
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"queries": np.zeros((3, 5))}, "last axis, the width d: contexts have 4, queries 5"),
        ({"queries": np.zeros((2, 4))}, "first axis, the examples: contexts have 3, queries 2"),
        ({"targets": [0, 1]}, "first axis, the examples: targets have 2, queries 3"),
        ({"queries": np.zeros(4)}, "queries must have shape T x d"),
        ({"contexts": np.zeros((1, 3, 2, 4))}, "contexts must have shape"),
        ({"queries": with_value((3, 4), (1, 2), np.nan)}, r"example 2 holds nan at index \[1, 2\], 1 such"),
        ({"contexts": with_value((3, 2, 4), (2, 0, 0), np.inf)}, "example 3 holds inf"),
        ({"contexts": with_value((2, 4), (1, 0), np.inf)}, "shared context holds inf"),
        ({"targets": [0.5, np.nan, 1], "n_classes": None}, "targets must be finite, but example 2"),
        ({"targets": [0, 1, 2]}, "between 0 and 1, but example 3 has 2"),
        ({"targets": [0.0, 1.0, 1.0]}, "whole numbers"),
        ({"n_classes": 0}, "at least 1, got 0"),
        ({"queries": [["a"] * 4] * 3}, "real numbers"),
        ({"queries": [[1, 2], [3]]}, "rectangular"),
        ({"contexts": np.zeros((3, 0, 4))}, "no axis may be empty"),
    ],
)
def test_refusals(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        VectorTable(**fields(**changes))


def test_hash_follows_content_only() -> None:
    table = VectorTable(**fields())
    assert table == VectorTable(**fields(name="other", contexts=np.ones((3, 2, 4), dtype=">f4")))
    others = [
        fields(n_classes=3),
        fields(targets=[1, 1, 1]),
        fields(contexts=np.ones((2, 4))),
        fields(n_classes=None),
        fields(queries=np.full((3, 4), 1e-300)),
    ]
    assert len({table.sha256, *(VectorTable(**other).sha256 for other in others)}) == 6


@pytest.mark.parametrize("sharing", ["own", "shared", 0.5])
@pytest.mark.parametrize("n_classes", [None, 5])
def test_write_and_read(tmp_path: Path, sharing: Any, n_classes: int | None) -> None:
    table = random_vectors(7, 4, 3, sharing=sharing, n_classes=n_classes, rng=np.random.default_rng(0))
    table.write(tmp_path / "v.safetensors")
    again = read(tmp_path / "v.safetensors")
    assert again == table
    assert again.name == table.name
    names = {"contexts", "queries", "targets" if n_classes is None else "labels"}
    assert set(load_file(tmp_path / "v.safetensors")) == names
    assert [path.name for path in tmp_path.iterdir()] == ["v.safetensors"]


def test_reading_refuses(tmp_path: Path) -> None:
    path = tmp_path / "v.safetensors"
    with pytest.raises(DataError, match="no file"):
        read(path)
    save_file({"queries": np.zeros((2, 2))}, path)
    with pytest.raises(DataError, match="it holds queries"):
        read(path)
    good = {"queries": np.zeros((2, 2)), "contexts": np.zeros((1, 2)), "labels": np.array([0, 3])}
    save_file({**good, "other": np.zeros(1)}, path)
    with pytest.raises(DataError, match="unknown tensor 'other'"):
        read(path)
    save_file(good, path, metadata={"n_classes": "many"})
    with pytest.raises(DataError, match="'many'"):
        read(path)
    save_file(good, path)
    table = read(path)
    assert isinstance(table, VectorTable)
    assert table.n_classes == 4
    with pytest.raises(OutputError, match="does not exist"):
        table.write(tmp_path / "no" / "v.safetensors")
    wrong: list[dict[str, Any]] = [{"target": "a"}, {"tokens": "words"}, {"weight": "w"}, {"on_conflict": "last"}]
    for choice in wrong:
        with pytest.raises(UsageError, match="vectors have no columns"):
            read(path, **choice)
    with pytest.raises(UsageError, match="vectors were asked for"):
        read("elements", kind="vectors")


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=80), keep=st.integers(0, 200))
def test_damaged_files_never_escape(tmp_path_factory: pytest.TempPathFactory, data: bytes, keep: int) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    random_vectors(2, 2, 2, rng=np.random.default_rng(0)).write(path)
    path.write_bytes(path.read_bytes()[:keep] + data)
    with contextlib.suppress(RoteError):
        assert len(read(path)) == 2
