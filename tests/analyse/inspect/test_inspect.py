"""Views into models agree with what the models do."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from rote.analyse.inspect import near_misses
from rote.data import FactTable, SequenceTable, Table, Vocabulary, random_distributions, random_facts, read
from rote.memory import Memory
from rote.pipeline import build


@pytest.fixture(scope="module")
def elements() -> FactTable:
    table = read("elements")
    assert isinstance(table, FactTable)
    return table


@pytest.fixture(scope="module")
def attention(elements: FactTable) -> Memory:
    return build(elements, with_="dana2025_cor1", dtype="float64")


def test_parts_of_the_lead_add_up(attention: Memory) -> None:
    view = attention.heads("Fe", "name")
    assert view is not None
    assert view.answer == "Iron"
    best, second = attention.ask("Fe", "name", top=2)
    assert (best.token, second.token) == (view.answer, view.rival)
    assert view.lead == pytest.approx(best.logit - second.logit)
    parts = [head.part for head in view.heads if head.part is not None]
    assert view.skip is not None
    scale = max(map(abs, parts))
    assert sum(parts) + view.skip == pytest.approx(view.lead, abs=1e-9 * scale)
    for head in view.heads:
        assert sum(head.weights) == pytest.approx(1)
        assert head.saturated == (max(head.weights) > 1 - 1e-6)
    assert view.n_saturated == sum(head.saturated for head in view.heads)


def test_an_mlp_has_its_own_part(elements: FactTable) -> None:
    memory = build(elements, with_="mlp_fit", dtype="float64")
    view = memory.heads("Fe", "name")
    assert view is not None and view.mlp is not None and view.skip is not None
    parts = [head.part or 0.0 for head in view.heads]
    assert sum(parts) + view.skip + view.mlp == pytest.approx(view.lead)


def test_stock_models_show_their_weights(elements: FactTable) -> None:
    memory = build(elements, arch="llama")
    view = memory.heads("Fe", "name")
    assert view is not None
    assert view.answer == "Iron"
    assert all(sum(head.weights) == pytest.approx(1, abs=1e-5) for head in view.heads)


@pytest.mark.parametrize("variant", ["A", "B", "C"])
def test_the_trace_ends_at_the_label(elements: FactTable, variant: str) -> None:
    memory = build(elements, "kajitsuka2025_next_token", options={"variant": variant})
    assert memory.model.heads([0, 1]) is None
    exact = memory.certificate
    for row in range(0, elements.n_facts, 59):
        trace = memory.model.trace(elements.contexts[row].tolist())
        assert trace is not None
        assert trace["variant"] == variant
        assert trace["layers"] == len(trace["lengths"]) < exact["depth"]
        assert sum(int(number) for number in trace["numbers"]) == int(trace["key"])
        if variant != "A":
            assert trace["steps"] == []
            continue
        steps = trace["steps"]
        # The digits spell keys in order, and the one that is met has the label.
        assert [step["key"] for step in steps] == sorted(step["key"] for step in steps)
        (met,) = [step for step in steps if step["meets"]]
        assert (met["label"], met["key"]) == (trace["label"], int(trace["key"]))
        assert met["token"] == elements.vocabulary.token(int(elements.targets[row]))
        assert len({len(step["bits"]) for step in steps[1:]}) == 1
        assert steps[-1]["n_rest"] == 0
        # What is left after one digit begins with the next.
        for step, following in pairwise(steps):
            assert step["rest"].startswith(following["bits"])


def test_a_context_that_is_no_fact_meets_no_digit() -> None:
    facts = random_facts(40, 3, 20, rng=np.random.default_rng(0))
    memory = build(facts, "kajitsuka2025_next_token", options={"with_positions": True})
    known = {tuple(row) for row in facts.contexts.tolist()}
    other = next((a, 0, 1) for a in range(20) if (a, 0, 1) not in known)
    trace = memory.model.trace(other)
    assert trace is not None and not any(step["meets"] for step in trace["steps"])


def test_near_misses_are_the_facts_one_token_away(elements: FactTable, attention: Memory) -> None:
    ids = attention.encode(["Fe", "name"])
    symbol, what = near_misses(attention, ids, elements)
    assert (symbol.tried, symbol.n_facts, symbol.n_right, symbol.same) == (117, 117, 117, 0)
    assert {one.truth for one in what.facts} == {"26", "4", "8"}
    assert all(one.right and not one.same for one in (*symbol.facts, *what.facts))
    # Without the facts the whole vocabulary is tried, and nothing is known to be right.
    blind = near_misses(attention, ids, None)
    assert [one.n_facts for one in blind] == [0, 0]
    assert blind[0].tried == len(attention.vocabulary) - 1
    assert sum(count for _, count in blind[0].common) <= blind[0].tried


def test_confusion_is_seen() -> None:
    facts = FactTable.from_rows([["a", "x"], ["b", "x"], ["c", "x"]], ["1", "2", "3"])
    memory = build(facts, with_="dana2025_cor1", n_heads=1, d_model=4, d_head=4)
    wrong = FactTable(facts.contexts, np.roll(facts.targets, 1), facts.vocabulary)
    (first, _) = [*near_misses(memory, memory.encode(["a", "x"]), wrong), None][:2]
    assert first is not None
    assert (first.n_facts, first.n_right) == (2, 0)


def test_tables_of_other_kinds_have_neighbours_too() -> None:
    rows = np.array([[0, 1], [0, 2], [3, 1]])
    words = Vocabulary(["a", "b", "c", "d"])
    tables: tuple[tuple[Table, str, dict[str, int], str], ...] = (
        (SequenceTable(rows, rows[:, ::-1], words), "kajitsuka2025_seq2seq", {}, "c a"),
        (random_distributions(12, 2, 5, rng=np.random.default_rng(0)), "distribution_refit", {"d_model": 4}, ""),
    )
    for table, with_, shape, truth in tables:
        memory = build(table, with_, d_model=shape.get("d_model"))
        contexts = table.inputs(slice(0, table.n_facts))[0]
        known = memory.prepared(table)
        near = near_misses(memory, contexts[0].tolist(), known)
        facts = [fact for one in near for fact in one.facts]
        beside = sum((row != contexts[0]).sum() == 1 for row in contexts)
        assert len(facts) == beside
        for fact in facts:
            row = contexts[0].copy()
            row[fact.position] = memory.vocabulary.index(fact.token)
            answers = known.truth(row)
            assert answers is not None and fact.truth == max(answers, key=answers.__getitem__)
        assert truth in {"", *(fact.truth for fact in facts)}
