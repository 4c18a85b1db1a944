"""Shapes: what they refuse, what they count, how they travel."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rote.config import CONVENTIONS, Architecture, Shape, check_convention, check_dtype
from rote.errors import ShapeError, UnknownName

ARCH = Architecture(n_heads=3, d_model=8, d_head=4, context=5, vocab=11, n_layers=2, d_mlp=16)


def test_parameters_by_part() -> None:
    parts = ARCH.count("full")
    assert (parts.embedding, parts.positions, parts.unembedding) == (88, 40, 88)
    assert parts.attention == 2 * 3 * (4 * 8 * 4)
    assert parts.mlp == 2 * 2 * 8 * 16
    assert parts.total == 88 + 40 + 88 + 768 + 512
    assert ARCH.replace(gated=True).count().mlp == 2 * 3 * 8 * 16


def test_shapes_are_frozen() -> None:
    with pytest.raises(AttributeError):
        ARCH.n_heads = 4  # type: ignore[misc]


@pytest.mark.parametrize("field", ["n_layers", "n_heads", "d_model", "d_head", "context", "vocab"])
@pytest.mark.parametrize("value", [0, -3, 1.5, "8", True, None])
def test_impossible_sizes_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ShapeError, match=field):
        Architecture.from_dict({**ARCH.to_dict(), field: value})


def test_what_is_fixed_of_a_shape() -> None:
    assert Shape().given == {}
    assert Shape(n_heads=2, d_mlp=3).given == {"n_heads": 2, "d_mlp": 3}
    for value in (0, -1, 1.5, "8", True, 10**13):
        with pytest.raises(ShapeError, match="d_model"):
            Shape(d_model=value)  # type: ignore[arg-type]


def test_unknown_fields_get_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="n_heads"):
        Architecture.from_dict({**ARCH.to_dict(), "n_head": 3})
    with pytest.raises(UnknownName, match="d_model"):
        ARCH.replace(d_modle=3)
    with pytest.raises(ShapeError, match="vocab"):
        Architecture.from_dict({"n_heads": 1, "d_model": 2, "d_head": 2, "context": 1})


def test_unknown_formats_and_conventions() -> None:
    with pytest.raises(UnknownName, match="float32"):
        check_dtype("flaot32")
    with pytest.raises(UnknownName, match="rank1_qk"):
        check_convention("rank1")
    with pytest.raises(UnknownName, match="full"):
        ARCH.count("ful")  # type: ignore[arg-type]


@given(
    st.builds(
        Architecture,
        n_heads=st.integers(1, 99),
        d_model=st.integers(1, 99),
        d_head=st.integers(1, 99),
        context=st.integers(1, 99),
        vocab=st.integers(2, 99),
        n_layers=st.integers(1, 9),
        d_mlp=st.integers(0, 99),
        gated=st.booleans(),
    )
)
def test_json_round_trip_and_hash(arch: Architecture) -> None:
    again = Architecture.from_dict(json.loads(json.dumps(arch.to_dict())))
    assert again == arch
    assert again.hash == arch.hash
    assert arch.replace(n_heads=arch.n_heads + 1).hash != arch.hash
    assert all(arch.params(convention) > 0 for convention in CONVENTIONS)
