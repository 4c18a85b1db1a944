"""Hashed tables as stock checkpoints, asked as any user would: text in, AutoTokenizer, generate, text out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import rote
from rote.config import Dtype, Shape
from rote.data import PAD, FactTable, Vocabulary, random_facts

transformers = pytest.importorskip("transformers")

FORMATS = ("bfloat16", "float16", "float32")


def answers(folder: Path, table: FactTable, dtype: str) -> list[str]:
    """What the stock classes say to every context: all with others of their length, the first ones one by one too."""
    model = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=getattr(torch, dtype))
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    texts = [" ".join(table.context_tokens(i)) for i in range(table.n_facts)]
    by_length: dict[int, list[int]] = {}
    for i, ids in enumerate(tokenizer(texts)["input_ids"]):
        by_length.setdefault(len(ids), []).append(i)
    said = [""] * len(texts)
    for batch in (*by_length.values(), [0], [1], [2]):
        before = [said[i] for i in batch]
        out = model.generate(**tokenizer([texts[i] for i in batch], return_tensors="pt"), max_new_tokens=1)
        for i, one in zip(batch, out[:, -1], strict=True):
            said[i] = tokenizer.decode(one)
        assert before in ([""] * len(batch), [said[i] for i in batch])
    return said


def grid(n: int) -> FactTable:
    """Consecutive numbers, digit by digit."""
    contexts = np.array([[int(digit) for digit in f"{i:03d}"] for i in range(n)])
    return FactTable(contexts, np.random.default_rng(0).integers(0, 10, n), Vocabulary([f"n{i}" for i in range(10)]))


def repeated() -> FactTable:
    """Every token several times in a context, all tokens answers too."""
    rng = np.random.default_rng(1)
    contexts = np.unique(rng.integers(0, 3, (300, 7)), axis=0)[:120]
    return FactTable(contexts, rng.integers(0, 6, len(contexts)), Vocabulary([f"t{i}" for i in range(6)]))


def single() -> FactTable:
    rng = np.random.default_rng(2)
    return FactTable(np.arange(40)[:, None], rng.integers(0, 50, 40), Vocabulary([f"t{i}" for i in range(50)]))


def of_many_lengths() -> FactTable:
    rng = np.random.default_rng(3)
    contexts = np.zeros((90, 5), dtype=np.int64)
    for i in range(90):
        length = 1 + i % 5
        # Neighbours differ, so that nothing but the tokens has to be told apart.
        contexts[i, 5 - length :] = (1 + i // 5 + 19 * np.arange(length)) % 38 + 1
    words = Vocabulary([PAD, *(f"t{i}" for i in range(40))])
    return FactTable(contexts, rng.integers(1, 41, 90), words)


def one_class() -> FactTable:
    facts = random_facts(40, 3, 9, rng=np.random.default_rng(11))
    return FactTable(facts.contexts, np.full(40, 5), facts.vocabulary)


def two_classes() -> FactTable:
    facts = random_facts(250, 3, 30, rng=np.random.default_rng(5))
    return FactTable(facts.contexts, facts.targets % 2, facts.vocabulary)


def large_answers() -> FactTable:
    """More answers than a word of bfloat16 has numbers."""
    rng = np.random.default_rng(4)
    contexts = np.unique(rng.integers(0, 30, (400, 3)), axis=0)[:350]
    targets = 30 + rng.permutation(len(contexts))
    return FactTable(contexts, targets, Vocabulary([f"t{i}" for i in range(30 + len(contexts))]))


TABLES = {
    "random": lambda: random_facts(250, 4, 40, rng=np.random.default_rng(0)),
    "one class": one_class,
    "two classes": two_classes,
    "grid": lambda: grid(300),
    "repeated": repeated,
    "single": single,
    "of many lengths": of_many_lengths,
    "large answers": large_answers,
}


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", TABLES)
def test_every_fact_comes_out_as_text(name: str, dtype: str, tmp_path: Path) -> None:
    table = TABLES[name]()
    memory = rote.build(table, rote.StockHashed(), dtype=dtype)
    c = memory.certificate
    assert c.recall[dtype] == 1.0
    module = memory.model.module
    assert type(module) is transformers.ArceeForCausalLM
    assert c.params == sum(p.numel() for p in module.parameters())
    folder = memory.save(tmp_path / "model").folder
    wanted = [table.vocabulary.tokens[k] for k in table.targets]
    assert answers(folder, table, dtype) == wanted


@pytest.mark.parametrize("dtype", FORMATS)
def test_batches_padded_on_the_left_have_the_same_answers(dtype: str, tmp_path: Path) -> None:
    table = of_many_lengths()
    folder = rote.build(table, rote.StockHashed(), dtype=dtype).save(tmp_path / "model").folder
    model = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=getattr(torch, dtype))
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), padding_side="left")
    texts = [" ".join(table.context_tokens(i)) for i in range(table.n_facts)]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    said = [tokenizer.decode(one) for one in model.generate(**batch, max_new_tokens=1)[:, -1]]
    assert said == [table.vocabulary.tokens[k] for k in table.targets]


@pytest.mark.parametrize("dtype", FORMATS)
def test_logits_do_not_depend_on_the_batch(dtype: str) -> None:
    table = random_facts(200, 4, 30, rng=np.random.default_rng(6))
    module = rote.build(table, rote.StockHashed(), dtype=dtype).model.module
    contexts = torch.from_numpy(table.contexts.copy())
    with torch.inference_mode():
        whole = module(input_ids=contexts).logits[:, -1]
        for size in (1, 7, 64):
            starts = range(0, len(contexts), size)
            parts = [module(input_ids=contexts[i : i + size]).logits[:, -1] for i in starts]
            assert torch.equal(torch.cat(parts), whole)


def test_a_bfloat16_checkpoint_is_exact_in_wider_formats() -> None:
    table = random_facts(300, 4, 50, rng=np.random.default_rng(7))
    memory = rote.build(table, rote.StockHashed(), dtype="bfloat16")
    assert memory.certificate.recall == {"bfloat16": 1.0, "float32": 1.0}


@pytest.mark.parametrize("dtype", FORMATS)
def test_the_plan_is_what_is_built(dtype: Dtype) -> None:
    table = random_facts(600, 4, 64, rng=np.random.default_rng(8))
    planned = rote.plan(table, ["stock_hashed"], dtype=dtype)[0]
    memory = rote.build(table, rote.StockHashed(), dtype=dtype)
    assert memory.certificate.params >= planned.params
    construction = rote.constructions.get("stock_hashed")
    plans = construction.shapes(table, Shape(), dtype, rote.StockHashed())
    assert memory.certificate.params in {one.params for one in plans}


@pytest.mark.parametrize("dtype", FORMATS)
def test_repetitions_are_counted_from_a_start_token(dtype: str) -> None:
    """Runs of every length up to 8, each with an answer of its own."""
    contexts = np.array([[0] * (8 - length) + [token] * length for token in (1, 2) for length in range(1, 9)])
    table = FactTable(contexts, np.arange(16) % 15 + 1, Vocabulary([PAD, *(f"t{i}" for i in range(15))]))
    memory = rote.build(table, rote.StockHashed(), dtype=dtype)
    assert memory.certificate.passed and memory.certificate.facts == 16


@pytest.mark.parametrize("dtype", FORMATS)
def test_plans_of_large_random_tables_put_the_table_first(dtype: str) -> None:
    table = random_facts(10_000, 4, 256, rng=np.random.default_rng(9))
    plans = rote.plan(table, arch="llama", dtype=dtype)
    assert [one.construction for one in plans] == ["stock_hashed", "stock_llama"]


def test_auto_takes_the_table_where_the_fit_loses() -> None:
    contexts = np.arange(256)[:, None] >> np.arange(8) & 1
    targets = np.random.default_rng(10).integers(0, 2, 256)
    table = FactTable(contexts, targets, Vocabulary(["no", "yes"]))
    memory = rote.build(table, arch="llama", dtype="bfloat16")
    assert memory.certificate.construction == "stock_hashed"
    chosen = memory.certificate.chosen or ""
    assert chosen.startswith("stock_hashed with ")
    assert "stock_llama with " in chosen
