"""Judges on directories and on modules: what they say, what they refuse, and that they touch nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from rote import referee
from rote.data import FactTable, SequenceTable, VectorTable, Vocabulary
from rote.errors import CheckpointError, UnknownName, UsageError
from rote.referee import ModuleOutputs, Scores, Stored, judge, judge_module, read_stored
from rote.referee.judging import OWN

WORDS = Vocabulary(["a", "b", "c"])
FACTS = FactTable(np.array([[0, 1], [1, 2], [2, 0]]), np.array([1, 2, 0]), WORDS)
"""The answer is the last token."""
SEQUENCES = SequenceTable(np.array([[0, 1]]), np.array([[1, 1]]), WORDS)


def echo(**changes: Tensor) -> dict[str, Tensor]:
    """A transformer whose heads do nothing, so that its answer is the last token."""
    zero = torch.zeros(1, 1, 3)
    weights = {
        "W_E": torch.eye(3), "W_pos": torch.zeros(2, 3), "W_Q": zero, "W_K": zero, "W_V": zero,
        "W_O": zero.reshape(1, 3, 1), "W_U": torch.eye(3),
    }  # fmt: skip
    return {**weights, **changes}


def write(folder: Path, kind: str, tensors: Mapping[str, Tensor], **config: Any) -> Path:
    (folder / "config.json").write_text(json.dumps({"model": kind, **config}))
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, folder / "model.safetensors")
    return folder


def test_a_directory_is_judged_by_what_is_in_it(tmp_path: Path) -> None:
    stored = read_stored(write(tmp_path, "transformer", echo()), "transformer")
    for dtype in ("float64", "float32", "bfloat16", "float16"):
        verdict = judge(stored, FACTS, dtype)
        assert (verdict.recall, verdict.min_margin, verdict.judged_by) == (1.0, 1.0, "referee")
    swapped = torch.eye(3)[[1, 0, 2]]
    write(tmp_path, "transformer", echo(W_U=swapped))
    verdict = judge(read_stored(tmp_path, "transformer"), FACTS, "float32")
    assert (verdict.n_failed, verdict.min_margin) == (2, -1.0)
    assert [(one.fact, one.expected, one.got) for one in verdict.failures] == [(1, "b", "a"), (3, "a", "b")]


def test_a_tie_is_a_loss() -> None:
    verdict = judge(Stored("transformer", {}, echo(W_U=torch.ones(3, 3))), FACTS, "float32")
    assert (verdict.n_failed, verdict.min_margin) == (3, 0.0)


def test_not_a_number_is_a_loss() -> None:
    verdict = judge(Stored("transformer", {}, echo(W_U=torch.full((3, 3), torch.nan))), FACTS, "float32")
    assert (verdict.n_failed, verdict.min_margin) == (3, -np.inf)


def test_rounding_is_judged_in_the_format_asked_for() -> None:
    """bfloat16 knows no number between 1 and 1 + 2^-7, so a lead of 2^-10 is gone."""
    unembedding = torch.eye(3) + (1 - 2**-10) * (1 - torch.eye(3))
    stored = Stored("transformer", {}, echo(W_U=unembedding))
    assert judge(stored, FACTS, "float32").min_margin == 2**-10
    assert judge(stored, FACTS, "bfloat16").n_failed == 3
    assert torch.equal(stored.tensors["W_U"], unembedding)


def test_progress_is_reported() -> None:
    heard: list[int] = []
    judge(Stored("transformer", {}, echo()), FACTS, "float32", advance=heard.append)
    assert heard == [3]


def vectors(**changes: Any) -> VectorTable:
    """One shared context of 0 and 1; a query far to the right picks 1, one far to the left 0."""
    given = {"contexts": np.array([[0.0], [1.0]]), "queries": np.array([[50.0], [-50.0]])}
    return VectorTable(**{**given, "targets": np.array([0, 1]), "n_classes": 2, **changes})


LAYER = {
    "W_Q": torch.ones(1, 1, 1),
    "W_K": torch.ones(1, 1, 1),
    "W_V": torch.ones(1, 1, 1),
    "W_O": torch.tensor([[[1.0], [0.5]]]),
}


def test_an_attention_layer_gives_classes_and_values() -> None:
    stored = Stored("attention_layer", {}, LAYER)
    classes = judge(stored, vectors(queries=np.array([[50.0], [50.0]]), targets=np.array([0, 1])), "float64")
    assert (classes.n_failed, classes.min_margin) == (1, -0.5)
    own_contexts = vectors(contexts=np.array([[[0.0], [1.0]], [[0.0], [4.0]]]), queries=np.array([[50.0], [50.0]]))
    assert judge(stored, own_contexts, "float64").failures[0].margin == -2.0
    real = vectors(targets=np.array([[1.0, 0.5], [0.0, 0.1]]), n_classes=None)
    verdict = judge(stored, real, "float64", tolerance=0.01)
    assert verdict.n_failed == 1
    assert verdict.max_error == pytest.approx(0.1)
    assert judge(stored, real, "float64", tolerance=0.2).n_failed == 0


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    tokens, layer = Stored("transformer", {}, echo()), Stored("attention_layer", {}, LAYER)
    real = vectors(targets=np.array([0.0, 1.0]), n_classes=None)
    for table in (vectors(), real):
        with pytest.raises(UsageError, match="reads tokens; give it a facts file"):
            judge(tokens, table, "float32")
    with pytest.raises(UsageError, match=r"reads vectors; give it a \.safetensors file"):
        judge(layer, FACTS, "float32")
    with pytest.raises(UsageError, match="one answer per context; give it facts with one target"):
        judge(tokens, SEQUENCES, "float32")
    with pytest.raises(UsageError, match="width 1; these are of width 2"):
        judge(layer, vectors(contexts=np.zeros((1, 2)), queries=np.zeros((2, 2))), "float32")
    longer = FactTable(np.array([[0, 1, 2]]), np.array([0]), WORDS)
    with pytest.raises(UsageError, match="contexts of 2 tokens, these facts have 3"):
        judge(tokens, longer, "float32")
    more = FactTable(np.array([[0, 3]]), np.array([0]), Vocabulary(["a", "b", "c", "d"]))
    with pytest.raises(UsageError, match="knows 3 tokens"):
        judge(tokens, more, "float32")
    with pytest.raises(UnknownName, match="did you mean 'float32'"):
        judge(tokens, FACTS, "float23")
    with pytest.raises(UsageError, match="cannot be run as exact; use float64"):
        judge(tokens, FACTS, "exact")


def test_damaged_directories_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "transformer", {k: v for k, v in echo().items() if k != "W_O"})
    with pytest.raises(CheckpointError, match="no tensor 'W_O'"):
        judge(read_stored(tmp_path, "transformer"), FACTS, "float32")
    with pytest.raises(CheckpointError, match="of the kind 'attention_layer'"):
        read_stored(tmp_path, "attention_layer")
    write(tmp_path, "transformer", echo(), activation="relu")
    with pytest.raises(CheckpointError, match="unknown activation 'relu'"):
        judge(read_stored(tmp_path, "transformer"), FACTS, "float32")
    write(tmp_path, "transformer", echo())
    blob = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(blob[:-7])
    with pytest.raises(CheckpointError, match="missing or damaged"):
        judge(read_stored(tmp_path, "transformer"), FACTS, "float32")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="no valid JSON"):
        read_stored(tmp_path, "transformer")


def test_an_unknown_kind_is_run_by_its_own_forward_pass_and_says_so(tmp_path: Path) -> None:
    stored = read_stored(tmp_path, "homemade")
    asked: list[str] = []

    def own(dtype: str) -> Scores:
        asked.append(dtype)
        return Scores(lambda contexts: torch.eye(3)[contexts[:, -1]], takes="tokens")

    verdict = judge(stored, FACTS, "float16", own=own)
    assert (verdict.recall, verdict.judged_by, asked) == (1.0, OWN, ["float16"])
    assert verdict.to_dict()["judged_by"] == OWN
    with pytest.raises(UnknownName, match="kind 'homemade'"):
        judge(stored, FACTS, "float16")
    with pytest.raises(UnknownName, match="number format"):
        judge(stored, FACTS, "float8", own=own)


def test_a_known_kind_never_asks_the_model() -> None:
    def own(dtype: str) -> Scores:
        raise AssertionError

    assert judge(Stored("transformer", {}, echo()), FACTS, "float32", own=own).passed


class Echo(nn.Module):
    """Two parameters, one of them frozen; dropout would spoil the answers of a module that is training."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(3) * (1 + 2**-20))
        self.frozen = nn.Parameter(torch.full((3, 3), 1 / 3), requires_grad=False)
        self.register_buffer("places", torch.arange(3))
        self.dropout = nn.Dropout(0.9)

    def forward(self, contexts: Tensor) -> Tensor:
        scores: Tensor = self.dropout(self.weight[contexts[:, -1]]) + 0 * self.frozen[0]
        return scores


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_module_is_judged_as_a_copy(dtype: str) -> None:
    module = Echo().train()
    module.dropout.eval()
    module.weight.grad = torch.ones(3, 3)
    before = {name: (id(t), t.dtype, t.clone()) for name, t in module.state_dict(keep_vars=True).items()}
    flags = [p.requires_grad for p in module.parameters()]
    verdict = judge_module(module, FACTS, dtype)
    assert verdict.passed
    assert verdict.min_margin == (1.0 if dtype.endswith("16") else 1 + 2**-20)
    after = module.state_dict(keep_vars=True)
    assert {name: (id(t), t.dtype) for name, t in after.items()} == {n: (i, d) for n, (i, d, _) in before.items()}
    assert all(torch.equal(t, before[name][2]) for name, t in after.items())
    assert [p.requires_grad for p in module.parameters()] == flags
    assert (module.training, module.dropout.training) == (True, False)
    assert module.weight.grad is not None
    assert torch.equal(module.weight.grad, torch.ones(3, 3))


def test_a_training_module_is_judged_without_its_dropout() -> None:
    state = torch.get_rng_state()
    assert judge_module(Echo().train(), FACTS, "float32").passed
    assert torch.equal(state, torch.get_rng_state())


def test_modules_of_vectors_and_odd_modules() -> None:
    class Distance(nn.Module):
        def forward(self, contexts: Tensor, queries: Tensor) -> Tensor:
            assert contexts.dtype == queries.dtype == torch.float32
            return queries

    assert judge_module(Distance(), vectors(targets=np.array([[50.0], [-50.0]]), n_classes=None), "float32").passed
    with pytest.raises(UsageError, match=r"need outputs of shape \(2, 2\)"):
        judge_module(Distance(), vectors(), "float32")

    class Pair(nn.Module):
        def forward(self, contexts: Tensor) -> tuple[Tensor, Tensor]:
            return contexts, contexts

    with pytest.raises(UsageError, match="this one gives a tuple; wrap it"):
        judge_module(Pair(), FACTS, "float32")
    with pytest.raises(UsageError, match="give it facts with one target"):
        judge_module(Echo(), SEQUENCES, "float32")
    with pytest.raises(UnknownName, match="number format 'exact'"):
        judge_module(Echo(), FACTS, "exact")


def test_a_module_that_knows_its_kind_is_run_by_the_referee() -> None:
    class Known(nn.Module):
        def stored(self) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
            return "transformer", {}, {name: nn.Parameter(t) for name, t in echo().items()}

        def forward(self, contexts: Tensor) -> Tensor:
            raise AssertionError("the referee has a forward pass of its own")

    verdict = judge_module(Known(), FACTS, "bfloat16")
    assert (verdict.passed, verdict.judged_by) == (True, "referee")


def test_own_forward_passes_can_be_called_in_another_way() -> None:
    outputs = ModuleOutputs(Echo(), "float64", takes="tokens", forward=lambda module, x: 2 * module(x))
    leads, said = outputs.leads((np.array([[0, 1]]),), np.array([1]))
    assert leads.tolist() == [2 * (1 + 2**-20)]
    assert said.tolist() == [0]


def test_the_package_is_light() -> None:
    """The pipeline imports the referee, and the command line must not wait for torch."""
    code = "import sys, rote.referee; print([m for m in ('torch', 'numpy', 'transformers') if m in sys.modules])"
    heavy = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert heavy == "[]"
    with pytest.raises(AttributeError, match="no attribute 'Judges'"):
        _ = referee.Judges


def test_errors_near_what_is_allowed_are_not_firm() -> None:
    from rote.data.verification import Verification

    near = Verification(9, 0, 0.0004, "float32", max_error=0.0006)
    assert near.passed and not near.firm and "near what is allowed" in near.summary()
    assert Verification(9, 0, 0.0009, "float32", max_error=0.0001).firm
    assert Verification(9, 0, 0.0009, "float32").firm
