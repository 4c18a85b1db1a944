"""Without TransformerLens, and for models that it has no form for, there is a sentence."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import rote
from rote.data import random_facts
from rote.errors import UsageError

TABLE = random_facts(20, 2, 12, rng=np.random.default_rng(1))


def test_where_it_is_missing_the_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformer_lens.config", None)
    with pytest.raises(UsageError, match=r"pip install 'rote-transformers\[lens\]'"):
        rote.build(TABLE, "local_heads").hooked()


def test_what_has_no_form_there_is_refused() -> None:
    with pytest.raises(UsageError, match="kind hashed_transformer has no form in TransformerLens"):
        rote.build(TABLE, "hashed_table").hooked()
