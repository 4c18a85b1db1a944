"""The judge of exact transformers, on files written by hand, against plain evaluation with fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from rote.data import FactTable, SequenceTable, VectorTable, Vocabulary
from rote.errors import CheckpointError, UsageError
from rote.referee import Labels, Stored, exact_transformer, judge, judge_module
from rote.referee.exact import Values, evaluate, labels_of
from rote.referee.exact_format import Layer, Network, read_transformer

WORDS = Vocabulary(["a", "b", "c", "d"])
Entry = tuple[int, int, int, int]


def arrays(name: str, widths: Sequence[int], relu: Sequence[int], layers: Sequence[Sequence[Entry]]) -> dict[str, Any]:
    """The tensors of a network, from (row, column, numerator, shift) of every weight."""
    entries = [entry for layer in layers for entry in layer]
    limbs = [p.to_bytes(p.bit_length() // 8 + 1, "little", signed=True) for _, _, p, _ in entries]
    parts = {
        "widths": (widths, torch.int64),
        "relu": (relu, torch.uint8),
        "entries": ([0, *np.cumsum([len(layer) for layer in layers]).tolist()], torch.int64),
        "rows": ([row for row, _, _, _ in entries], torch.int32),
        "cols": ([column for _, column, _, _ in entries], torch.int32),
        "shifts": ([shift for _, _, _, shift in entries], torch.int32),
        "lengths": ([len(limb) for limb in limbs], torch.int32),
        "limbs": (list(b"".join(limbs)), torch.uint8),
    }
    return {f"{name}.{key}": torch.tensor(value, dtype=dtype) for key, (value, dtype) in parts.items()}


FIRST = arrays("first", [1, 1], [0], [[(0, 0, 3, 1)]])
"""x -> 3 x / 2"""
SECOND = arrays("second", [1, 1, 1], [1, 0], [[(0, 0, 2, 0), (0, -1, -1, 0)], [(0, 0, 1, 0), (0, -1, -640, 7)]])
"""x -> relu(2 x - 1) - 5"""
ONE = torch.tensor([[1]])
CONFIG: dict[str, Any] = {
    "task": "next_token", "context": 2, "positions_seen": 2, "vocab": 4, "labels": [1, 3, 0, 2],
    "precision": "float64", "with_positions": False, "d_in": 0,
}  # fmt: skip
MEAN = Stored("exact_transformer", CONFIG, {**FIRST, **SECOND, "attention.W_V": ONE, "attention.W_O": ONE})

FACTS = FactTable(np.array([[1, 3], [2, 2], [3, 3], [0, 1]]), np.array([1, 1, 2, 3]), WORDS)
"""The means are 3, 3, 9/2 and 3/4; the outputs 0, 0, 3 and -9/2, which is no label. Label 0 is b, 3 is c."""


def test_a_network_by_hand() -> None:
    for dtype in ("exact", "float64", "float32"):
        verdict = judge(MEAN, FACTS, dtype)
        assert (verdict.n_facts, verdict.n_failed, verdict.dtype) == (4, 1, dtype)
        assert verdict.evaluator == ("generic" if dtype == "exact" else None)
        (lost,) = verdict.failures
        assert (lost.fact, lost.expected, lost.got) == (4, "d", "no answer")


def test_null_tokens_and_positions() -> None:
    """F1 reads (token, place); in front of the context stands the null token, whose id is the vocabulary's size."""
    first = arrays("first", [2, 1], [0], [[(0, 0, 1, 0), (0, 1, 10, 0)]])
    second = arrays("second", [1, 1], [0], [[(0, 0, 4, 0), (0, -1, -64, 0)]])
    config = {**CONFIG, "context": 3, "positions_seen": 4, "with_positions": True, "labels": [0, 1, 2, 3]}
    stored = Stored("exact_transformer", config, {**MEAN.tensors, **first, **second})
    # 4 times the mean is the sum of null (4) + tokens + 10 (0 + 1 + 2 + 3) = 64 + tokens.
    facts = FactTable(np.array([[0, 1, 2], [1, 0, 0], [0, 2, 0]]), np.array([3, 1, 2]), WORDS)
    for dtype in ("exact", "float64"):
        assert judge(stored, facts, dtype).passed


def test_a_label_for_every_position() -> None:
    """F1 hands the token on, F2 adds it to the mean of all."""
    first = arrays("first", [1, 2], [0], [[(0, 0, 1, 0), (1, 0, 1, 0)]])
    second = arrays("second", [2, 1], [0], [[(0, 0, 1, 0), (0, 1, 1, 0)]])
    config = {**CONFIG, "task": "seq2seq", "labels": [0, 1, 2, 3]}
    stored = Stored("exact_transformer", config, {**MEAN.tensors, **first, **second})
    right = SequenceTable(np.array([[0, 2], [1, 1]]), np.array([[1, 3], [2, 2]]), WORDS)
    wrong = SequenceTable(np.array([[0, 2], [1, 1]]), np.array([[1, 3], [2, 3]]), WORDS)
    for dtype in ("exact", "float64"):
        assert judge(stored, right, dtype).passed
        (lost,) = judge(stored, wrong, dtype).failures
        assert (lost.fact, lost.expected, lost.got, lost.margin) == (2, "d", "c", -0.5)
    with pytest.raises(UsageError, match="labels every position"):
        judge(stored, FACTS, "exact")
    with pytest.raises(UsageError, match="one label per sequence"):
        judge(MEAN, right, "exact")


def test_vectors() -> None:
    """F1 adds the coordinates; contexts of one vector, then the query."""
    first = arrays("first", [2, 1], [0], [[(0, 0, 1, 0), (0, 1, 1, 0)]])
    second = arrays("second", [1, 1], [0], [[(0, 0, 2, 0)]])
    stored = Stored("exact_transformer", {**CONFIG, "d_in": 2}, {**MEAN.tensors, **first, **second})
    table = VectorTable(
        np.array([[0.5, 0.25]]), np.array([[0.25, 0.0], [1.0, 0.25], [0.2, 0.05]]), np.array([1, 2, 1]), 3
    )
    verdict = judge(stored, table, "exact")
    # 0.2 + 0.05 is 0.25 on paper and in floats, but not of the two numbers that the floats are.
    assert [one.fact for one in verdict.failures] == [3]
    with pytest.raises(UsageError, match="a network for vectors is exact"):
        judge(stored, table, "float64")
    with pytest.raises(UsageError, match="1 context vectors of width 2; these are 2 of width 2"):
        judge(stored, VectorTable(np.zeros((2, 2)), np.zeros((1, 2)), np.array([0]), 2), "exact")
    with pytest.raises(UsageError, match="table of real targets cannot judge it"):
        judge(stored, VectorTable(np.zeros((1, 2)), np.zeros((1, 2)), np.array([0.5])), "exact")
    with pytest.raises(UsageError, match="reads vectors"):
        judge(stored, FACTS, "exact")
    with pytest.raises(UsageError, match="reads tokens"):
        judge(MEAN, table, "exact")


def test_formats_that_round_are_refused() -> None:
    with pytest.raises(UsageError, match="no use for bfloat16, which rounds its weights"):
        judge(MEAN, FACTS, "bfloat16")
    with pytest.raises(UsageError, match="contexts of 2 tokens, these facts have 1"):
        judge(MEAN, FactTable(np.array([[0]]), np.array([0]), WORDS), "exact")


def test_in_floats_the_module_must_agree() -> None:
    right = np.array([0.0, 0.0, 3.0, 1.0])

    def own(numbers: Any) -> Any:
        return lambda dtype: Labels(lambda contexts: numbers, tuple(CONFIG["labels"]))

    first = FACTS.subset([0, 1, 2])
    assert judge(MEAN, first, "float64", own=own(right[:3])).passed
    verdict = judge(MEAN, first, "float64", own=own(np.array([0.0, np.nan, 2.0])))
    assert [(one.fact, one.got) for one in verdict.failures] == [(2, "no answer"), (3, "a")]
    # The module cannot make up for the weights, and is not asked about numbers that it was not made for.
    assert judge(MEAN, FACTS, "float64", own=own(right)).n_failed == 1
    for dtype in ("float32", "exact"):
        assert judge(MEAN, first, dtype, own=own(right[:3] + 1)).passed


def test_numbers_too_large_for_floats_are_losses() -> None:
    huge = arrays("second", [1, 1], [0], [[(0, 0, 1 << 5000, 5000)]])
    large = arrays("second", [1, 1], [0], [[(0, 0, 1 << 5000, 0)]])
    facts = FactTable(np.array([[0, 0]]), np.array([1]), WORDS)
    assert judge(Stored(MEAN.kind, CONFIG, {**MEAN.tensors, **huge}), facts, "float64").passed
    assert not judge(Stored(MEAN.kind, CONFIG, {**MEAN.tensors, **large}), facts, "float64").passed
    assert judge(Stored(MEAN.kind, CONFIG, {**MEAN.tensors, **large}), facts, "exact").passed


def test_a_shortcut_must_prove_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first layer of F2 gives integers; a shortcut says what the rest makes of them."""
    facts = FACTS.subset([0, 1, 2])
    heard: list[list[int]] = []

    def honest(keys: Any) -> Any:
        heard.append(keys.tolist())
        return keys - 5

    assert judge(MEAN, facts, "exact", shortcut=honest).evaluator == "generic"
    assert not heard, "few facts need no shortcut"
    monkeypatch.setattr(exact_transformer, "GENERIC_UP_TO", 2)
    assert judge(MEAN, facts, "exact", shortcut=honest).evaluator == "grouped"
    assert heard == [[5, 5, 8]]
    assert judge(MEAN, facts, "exact", shortcut=lambda keys: None).evaluator == "generic"
    for lie in (lambda keys: keys - 3, lambda keys: np.array([0, 0, 2])):
        verdict = judge(MEAN, facts, "exact", shortcut=lie)
        assert (verdict.evaluator, verdict.n_failed) == ("generic", 0)
    # A key that is no integer is left to the generic evaluator.
    verdict = judge(MEAN, FACTS, "exact", shortcut=honest)
    assert (verdict.evaluator, verdict.n_failed) == ("generic", 1)


def plain(layers: Sequence[tuple[int, bool, Sequence[Entry]]], x: list[Fraction]) -> list[Fraction]:
    """One sample, one weight at a time."""
    for n_out, relu, entries in layers:
        y = [Fraction(0)] * n_out
        for row, column, p, f in entries:
            y[row] += Fraction(p, 1 << f) * (1 if column < 0 else x[column])
        x = [max(v, Fraction(0)) if relu else v for v in y]
    return x


@pytest.mark.parametrize("seed", range(8))
def test_random_networks_agree_with_fractions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    widths = [2, *rng.integers(1, 20, size=3).tolist(), 1]
    layers = []
    for i, (n_in, n_out) in enumerate(pairwise(widths)):
        places = [(r, c) for r in range(n_out) for c in range(-1, n_in) if rng.random() < 0.7]
        wide = 90 if seed % 2 else 8
        entries = [
            (r, c, int(rng.integers(-99, 100)) << int(rng.integers(wide)), int(rng.integers(9))) for r, c in places
        ]
        layers.append((n_out, i < 3, entries))
    network = Network(
        tuple(
            Layer(
                n_in, n_out, relu,
                np.array([e[0] for e in entries], dtype=np.int64), np.array([e[1] for e in entries], dtype=np.int64),
                tuple(e[2] for e in entries), np.array([e[3] for e in entries], dtype=np.int64),
            )
            for n_in, (n_out, relu, entries) in zip(widths, layers, strict=False)
        )
    )  # fmt: skip
    samples = rng.integers(-9, 10, size=(30, 2))
    (outputs,) = evaluate(network, [Values(samples[:, k], 1, 3) for k in range(2)], chunk=7)
    unit = outputs.denominator << outputs.shift
    wanted = [plain(layers, [Fraction(int(x), 6) for x in row])[0] for row in samples]
    assert [Fraction(int(p), unit) for p in outputs.numerators] == wanted
    spelled = [int(v) if v.denominator == 1 and 0 <= v < 1 << 62 else -1 for v in wanted]
    assert labels_of(outputs).tolist() == spelled


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("precision", "x"), ("precision", None), ("labels", []), ("labels", [10**30]), ("labels", 3), ("vocab", 10**30),
        ("positions_seen", 10**30), ("positions_seen", 1), ("context", 1.5), ("context", True), ("task", "other"),
        ("d_in", 2), ("with_positions", True), ("task", ["seq2seq"]),
    ],
)  # fmt: skip
def test_odd_configurations_are_refused(key: str, value: object) -> None:
    with pytest.raises(CheckpointError, match="build it again"):
        read_transformer(Stored(MEAN.kind, {**CONFIG, key: value}, MEAN.tensors))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lengths", [1, 1, 1]), ("lengths", [1, 1, 1, 3]), ("rows", [0, 0, 0, 1]), ("cols", [0, -2, 0, -1]),
        ("cols", [1, -1, 0, -1]), ("shifts", [-1, 0, 0, 7]), ("widths", [1, 0, 1]), ("widths", [1]),
        ("entries", [0, 2]), ("entries", [0, 5, 4]), ("entries", [1, 2, 4]), ("relu", [1]),
        ("rows", [0.0, 0.0, 0.0, 0.0]),
    ],
)  # fmt: skip
def test_damaged_tensors_are_refused(name: str, value: list[Any]) -> None:
    tensors = {**MEAN.tensors, f"second.{name}": torch.tensor(value)}
    with pytest.raises(CheckpointError, match="'second' do not belong together"):
        read_transformer(Stored(MEAN.kind, CONFIG, tensors))
    del tensors[f"second.{name}"]
    with pytest.raises(CheckpointError, match=f"no tensor 'second.{name}'"):
        read_transformer(Stored(MEAN.kind, CONFIG, tensors))


def test_a_module_of_floats_must_agree_too() -> None:
    """A changed weight of the module is found out, though the exact weights that it carries are right."""

    class Module(torch.nn.Module):
        def __init__(self, offset: float) -> None:
            super().__init__()
            self.offset = torch.nn.Parameter(torch.tensor(offset))

        def stored(self) -> tuple[str, dict[str, Any], Any]:
            return MEAN.kind, CONFIG, MEAN.tensors

        def forward(self, contexts: torch.Tensor) -> torch.Tensor:
            return torch.clamp(3 * contexts.sum(dim=1) / 2 - 1, min=0) - 5 + self.offset

    facts = FACTS.subset([0, 1, 2])
    assert judge_module(Module(0.0), facts, "float64").passed
    assert judge_module(Module(1.0), facts, "float64").n_failed == 3
    assert judge_module(Module(1.0), facts, "exact").passed
