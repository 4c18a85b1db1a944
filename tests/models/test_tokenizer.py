"""Stock tokenizers of tables, read by AutoTokenizer: every context is read as it is meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rote
from rote.data import PAD, FactTable, Vocabulary
from rote.data.reading import Tokens
from rote.data.stock import load_tokenizer
from rote.errors import AssumptionError, UsageError
from rote.models import Wording, tokenizer

pytest.importorskip("transformers")


def stock(place: Path, words: tuple[str, ...], cut: Tokens, context: int) -> Any:
    for name, content in tokenizer.files(words, cut, context).items():
        (place / name).write_bytes(content)
    (place / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return load_tokenizer(place)


PIECES = st.text(alphabet="01a<>padunk é\u00a0\u3000\x1c\n", min_size=1, max_size=7).map(str.strip).filter(bool)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(PIECES, min_size=2, max_size=8), st.booleans(), st.randoms(use_true_random=False))
def test_texts_are_read_as_they_are_meant(tmp_path: Path, words: set[str], padded: bool, drawn: Any) -> None:
    vocabulary = tuple(([PAD] if padded else []) + sorted(words - {PAD}))
    for cut in ("cells", "chars"):
        spoken = vocabulary if cut == "cells" else tuple(([PAD] if padded else []) + sorted(set("".join(words))))
        wording = Wording(spoken, cut, 4)
        reads = stock(tmp_path, spoken, cut, 4)
        for _ in range(5):
            row = [drawn.randrange(padded, len(spoken)) for _ in range(4)]
            assert reads(wording.text(row))["input_ids"] == row


def test_padding_is_declared_where_it_is_harmless(tmp_path: Path) -> None:
    assert stock(tmp_path, (PAD, "a", "b"), "cells", 2).pad_token == PAD
    assert stock(tmp_path, ("0", "10"), "cells", 2).pad_token is None
    assert stock(tmp_path, (PAD, "a", f"x{PAD}"), "cells", 2).pad_token is None
    assert stock(tmp_path, (PAD, *sorted(set(PAD))), "chars", 9).pad_token is None


def test_an_unknown_word_is_refused_even_if_the_table_knows_the_usual_stand_in(tmp_path: Path) -> None:
    reads = stock(tmp_path, ("<unk>", "a"), "cells", 1)
    assert reads("<unk>")["input_ids"] == [0]
    with pytest.raises(Exception, match="UNK"):
        reads("b")


def test_tokens_that_no_text_can_hold_are_named_before_anything_is_built() -> None:
    table = FactTable(np.array([[0, 1], [1, 0]]), np.array([2, 1]), Vocabulary(["a", "b\tc", "d"]))
    with pytest.raises(AssumptionError, match=r"fact 1: .* cannot read 'b\\tc'"):
        rote.build(table, arch="llama")


@pytest.mark.parametrize(
    "rows",
    [
        [(["0"], "x"), (["1"], "y"), (["10"], "z")],
        [(["<unk>"], "x"), (["a b"], "y"), (["a  b"], "z")],
        [(["x<pad>y", "a"], "x"), (["a"], "y"), (["b"], "<pad>z")],
    ],
)
def test_built_checkpoints_answer_in_text(tmp_path: Path, rows: list[tuple[list[str], str]]) -> None:
    """The way of a user: text in, AutoTokenizer, generate, text out, from the files on disk."""
    import transformers

    table = FactTable.from_rows([context for context, _ in rows], [target for _, target in rows])
    memory = rote.build(table, arch="llama").save(tmp_path / "model")
    mark = tokenizer.separator(table.vocabulary.tokens, table.tokens)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(str(tmp_path / "model"))
    reads = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "model"))
    for context, target in rows:
        said = model.generate(**reads(mark.join(context), return_tensors="pt"), max_new_tokens=1)
        assert reads.decode(said[0, -1]) == target
        assert memory.ask(*context)[0].token == target


def test_one_token_is_nothing_to_choose_from() -> None:
    with pytest.raises(UsageError, match="two tokens"):
        rote.build(FactTable.from_rows([["q"]], ["q"]), arch="llama")
