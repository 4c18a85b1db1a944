"""Stock checkpoints tell contexts apart that repeat one token: a start token counts for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

import rote
from rote.data import FactTable


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> FactTable:
    """Runs of three letters of every length up to five with answers of their own, among other words."""
    rng = np.random.default_rng(3)
    runs = [letter * length for letter in "abm" for length in range(1, 6)]
    drawn = {"".join(rng.choice(list("abm"), size=length)) for length in rng.integers(2, 6, 60)}
    keys = sorted({*runs, *drawn})
    path = tmp_path_factory.mktemp("facts") / "runs.csv"
    path.write_text("key,answer\n" + "".join(f"{key},C{i % 7}\n" for i, key in enumerate(keys)))
    facts = rote.read(path, tokens="chars")
    assert isinstance(facts, FactTable)
    return facts


@pytest.mark.parametrize("with_", ["stock_llama", "stock_hashed"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_runs_of_one_token_are_told_apart(table: FactTable, tmp_path: Path, dtype: str, with_: str) -> None:
    memory = rote.build(table, with_=with_, dtype=dtype).save(tmp_path / "model")
    assert memory.certificate.passed and memory.certificate.left_out == 0
    assert rote.verify(tmp_path / "model").passed
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    texts = ["".join(table.context_tokens(i)) for i in range(table.n_facts)]
    wanted = [table.vocabulary.tokens[i] for i in table.targets]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    said = model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=1)[:, -1]
    assert [tokenizer.decode(token) for token in said] == wanted
    # Without a mask too: the start token is no padding to the model.
    for text, answer in list(zip(texts, wanted, strict=True))[:5]:
        said = model.generate(tokenizer(text, return_tensors="pt")["input_ids"], max_new_tokens=1)
        assert tokenizer.decode(said[0, -1]) == answer
    view = memory.heads("mm")
    assert view is not None and {len(head.weights) for head in view.heads} == {table.context}


@pytest.mark.parametrize("with_", ["stock_llama", "stock_hashed"])
def test_other_tables_have_no_start_token(tmp_path: Path, with_: str) -> None:
    """A run at one length only, or at several with one answer, needs none."""
    path = tmp_path / "f.csv"
    path.write_text("key,answer\naa,1\na,1\nab,2\nb,3\nba,1\n")
    memory = rote.build(rote.read(path, tokens="chars"), with_=with_).save(tmp_path / "model")
    assert AutoConfig.from_pretrained(tmp_path / "model").bos_token_id is None
    assert AutoTokenizer.from_pretrained(tmp_path / "model")("ab")["input_ids"] == memory.encode(["ab"])
