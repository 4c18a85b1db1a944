"""Heads that share the embedding: counted once, stored once, and the answers keep their scores bit by bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import rote
from rote import constructions
from rote.config import Architecture
from rote.data import FactTable, Vocabulary
from rote.errors import CheckpointError, ShapeError
from rote.models.kinds.transformer import Transformer, TransformerModel
from rote.pipeline import build_at


def _table(both: int, seed: int = 3, facts: int = 60) -> FactTable:
    """Pairs of 12 tokens with 9 answers, of which so many are tokens of contexts."""
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(144)[:facts]
    contexts = np.stack([pairs // 12, pairs % 12], axis=1)
    answers = np.arange(12 - both, 21 - both)
    targets = np.concatenate([answers, rng.choice(answers, facts - 9)])
    return FactTable(contexts, targets, Vocabulary([f"t{i}" for i in range(21 - both)]))


@pytest.mark.parametrize("both", [0, 3])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("argmax_fit", "float32"), ("argmax_fit", "bfloat16"), ("mlp_fit", "float32"), ("dana2025_cor1", "float64")],
)
def test_rows_that_both_sides_do_not_need_are_stored_once(name: str, both: int, dtype: str, tmp_path: Path) -> None:
    table = _table(both)
    memory = rote.build(table, name, dtype=dtype, rng=1)
    certificate, arch = memory.certificate, memory.model.arch
    assert certificate.passed and arch.own_rows == both
    spared = (table.vocab - both) * arch.d_model
    assert certificate.params == arch.replace(own_rows=None).params() - spared == certificate.stored_params
    assert rote.verify(memory.save(tmp_path / "model").folder, table).passed
    again = rote.load(tmp_path / "model")
    ids = torch.tensor(table.contexts.copy())
    assert torch.equal(again.module(ids), memory.module(ids))


def test_answers_keep_their_scores_and_other_tokens_lose() -> None:
    table = _table(2)
    apart, shared = (
        build_at(constructions.get("argmax_fit"), table, Architecture(16, 8, 8, 2, table.vocab, own_rows=rows), rng=4)
        for rows in (None, 2)
    )
    ids, answers = torch.tensor(table.contexts.copy()), sorted(set(table.targets.tolist()))
    one, other = apart.module(ids), shared.module(ids)
    assert torch.equal(one[:, answers], other[:, answers])
    rest = [i for i in range(table.vocab) if i not in answers]
    right = other.gather(1, torch.tensor(table.targets.copy())[:, None])
    assert (other[:, rest].abs() <= right / 32).all()


def test_a_shape_names_as_many_rows_as_the_table_needs() -> None:
    with pytest.raises(ShapeError, match="2 of them; the shape says 0"):
        build_at(constructions.get("argmax_fit"), _table(2), Architecture(16, 8, 8, 2, 19, own_rows=0))


def test_float16_has_a_head_of_its_own() -> None:
    memory = rote.build(_table(0), "argmax_fit", dtype="float16")
    assert memory.model.arch.own_rows is None
    assert "too few exponents" in str(rote.plan(_table(0), dtype="float16").sheet())


@pytest.mark.parametrize("own", [(), (3,), (3, 3), (3, 99)])
def test_rows_of_the_head_must_be_named_once_each(own: tuple[int, ...]) -> None:
    arch = Architecture(2, 4, 4, 3, 9, own_rows=2)
    weights = {name: torch.zeros(shape) for name, shape in Transformer.shapes(arch).items()}
    with pytest.raises(CheckpointError, match="2 rows of its own"):
        Transformer(arch, weights, own=own)


def test_edited_rows_of_the_head_are_refused(tmp_path: Path) -> None:
    memory = rote.build(_table(3), "argmax_fit", rng=1).save(tmp_path / "model")
    path = memory.folder / "config.json"
    path.write_text(path.read_text().replace('"own"', '"owned"'))
    from rote import referee

    with pytest.raises(CheckpointError, match="rows"):
        referee.judge(referee.read_stored(memory.folder, "transformer"), _table(3), "float32")
    with pytest.raises(CheckpointError):
        TransformerModel.read(memory.folder, memory.certificate.to_dict())


def test_a_fact_of_a_shared_head_can_be_set() -> None:
    table = _table(3)
    memory = rote.build(table, "argmax_fit", n_heads=16, d_model=16, d_head=16, rng=1)
    words = [table.vocabulary.tokens[i] for i in table.contexts[0]]
    other = next(i for i in sorted(set(table.targets.tolist())) if i != table.targets[0])
    edited = memory.edit(set={tuple(words): table.vocabulary.tokens[other]}, table=table)
    assert edited.ask(*words, top=1)[0].token == table.vocabulary.tokens[other]
    assert edited.model.arch.own_rows == 3
