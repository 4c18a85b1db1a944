"""Every kind of model keeps the contract, and the contract suite notices what is broken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rote import models
from rote.models import Answer, Model
from rote.models.kinds.transformer import TransformerModel
from rote.testing import check_model

EXAMPLES = [(kind, model) for kind, one in models.registry().items() for model in one.examples(0)]


@pytest.mark.parametrize(("kind", "model"), EXAMPLES, ids=lambda item: item if isinstance(item, str) else "")
def test_every_kind_keeps_the_contract(kind: str, model: Model) -> None:
    assert model.kind == kind
    check_model(model)


def test_every_kind_but_grafts_brings_examples() -> None:
    # Grafts need a pretrained model; test_grafted.py runs the suite on one.
    assert {kind for kind, _ in EXAMPLES} == set(models.registry()) - {"grafted"}


class Forgetful(TransformerModel):
    """It drops a file that it needs."""

    def write(self, folder: Path) -> None:
        super().write(folder)
        (folder / "tokenizer.json").unlink(missing_ok=True)


def test_the_suite_notices_a_model_that_does_not_come_back() -> None:
    model, *_ = TransformerModel.examples(0)
    broken = Forgetful(model.arch, model.module.state_dict(), wording=model.wording, dtype="float32")
    with pytest.raises(AssertionError, match="the files differ"):
        check_model(broken)


class Liar(TransformerModel):
    """Its answers are not what its weights say."""

    def answers(self, words: Sequence[str], top: int) -> list[Answer]:
        worst = super().answers(words, 100)[::-1]
        return [worst[0], *worst[1:top]] if worst[0].logit > worst[1].logit else worst[:1]

    def first_answers(self, contexts: Any) -> list[str]:
        assert self.wording is not None
        return [self.answers([self.wording.vocabulary[i] for i in row], 1)[0].token for row in contexts]


def test_the_suite_notices_answers_that_the_referee_does_not_find() -> None:
    model, *_ = TransformerModel.examples(0)
    broken = Liar(model.arch, model.module.state_dict(), wording=model.wording, dtype="float32")
    with pytest.raises(AssertionError, match="does not find"):
        check_model(broken)
