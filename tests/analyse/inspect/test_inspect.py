"""Views into models agree with what the models do."""

from __future__ import annotations

import numpy as np
import pytest

from rote.analyse.inspect import digit_trace, look_at_heads, near_misses
from rote.building import build
from rote.data import FactTable, load_facts, random_facts
from rote.memory import Memory, _as_exact


@pytest.fixture(scope="module")
def elements() -> FactTable:
    return load_facts("elements")


@pytest.fixture(scope="module")
def attention(elements: FactTable) -> Memory:
    return build(elements, with_="dana2025_cor1", dtype="float64")


def test_parts_of_the_lead_add_up(attention: Memory) -> None:
    ids = attention.encode(["Fe", "name"])
    view = look_at_heads(attention, ids)
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
    view = look_at_heads(memory, memory.encode(["Fe", "name"]))
    assert view is not None and view.mlp is not None and view.skip is not None
    parts = [head.part or 0.0 for head in view.heads]
    assert sum(parts) + view.skip + view.mlp == pytest.approx(view.lead)


def test_stock_models_show_their_weights(elements: FactTable) -> None:
    memory = build(elements, with_="argmax_fit", arch="llama")
    view = look_at_heads(memory, memory.encode(["Fe", "name"]))
    assert view is not None
    assert view.answer == "Iron"
    assert all(sum(head.weights) == pytest.approx(1, abs=1e-5) for head in view.heads)


@pytest.mark.parametrize("variant", ["A", "B", "C"])
def test_the_trace_ends_at_the_label(elements: FactTable, variant: str) -> None:
    memory = build(elements, with_="kajitsuka2025_next_token", variant=variant)
    exact = _as_exact(memory.model)
    assert exact is not None
    assert look_at_heads(memory, [0, 1]) is None
    for row in range(0, elements.n_facts, 59):
        trace = digit_trace(exact, elements.contexts[row].tolist())
        assert trace.label is not None
        assert exact.labels[trace.label] == elements.targets[row]
        assert trace.layers == exact.second.depth == len(trace.lengths)
        assert sum(int(number) for number in trace.numbers) == int(trace.key)
        if variant != "A":
            assert trace.steps == ()
            continue
        assert exact.shape is not None
        # The digits spell keys in order, and the one that is met has the label.
        assert [step.key for step in trace.steps] == sorted(step.key for step in trace.steps)
        (met,) = [step for step in trace.steps if step.meets]
        assert (met.label, met.key) == (trace.label, int(trace.key))
        assert [len(step.bits) for step in trace.steps] == [
            exact.shape.first_bits,
            *[exact.shape.bits] * (exact.shape.items - 1),
        ]
        assert trace.steps[-1].n_rest == 0
        # What is left after one digit begins with the next.
        for step, following in zip(trace.steps, trace.steps[1:], strict=False):
            assert step.rest.startswith(following.bits)


def test_a_context_that_is_no_fact_meets_no_digit() -> None:
    facts = random_facts(40, 3, 20, rng=np.random.default_rng(0))
    memory = build(facts, with_="kajitsuka2025_next_token", with_positions=True)
    exact = _as_exact(memory.model)
    assert exact is not None
    known = {tuple(row) for row in facts.contexts.tolist()}
    other = next((a, 0, 1) for a in range(20) if (a, 0, 1) not in known)
    trace = digit_trace(exact, other)
    assert not any(step.meets for step in trace.steps)


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
