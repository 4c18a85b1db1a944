"""Gates: what they are fitted on, the bar of each, and vetoes, which the added neurons compute as the fit does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rote
from rote.constructions._gating import Sentences, _Asked, _of_parts, _Parts, _passages
from rote.constructions._questions import UNSEEN_MENTIONS, WRAPPERS
from rote.constructions._relations import asked_anew
from rote.constructions._wordings import Nouns, Wording
from rote.solvers.keyed.frame import VETO, Gate, Jury, Plan, channels_of
from rote.solvers.keyed.layers import Body
from rote.solvers.keyed.relation import States, fit_gate, gate_scores, jury_scores
from rote.solvers.keyed.top import Top

WIDTH = 6


def states(rows: list[list[float]]) -> States:
    x = torch.tensor(rows)
    return torch.nn.functional.pad(x, (0, WIDTH - x.shape[1])), torch.ones(len(rows), dtype=torch.float64)


def axis(layer: int, number: int, bias: float = 0.0) -> Gate:
    return Gate(layer, np.eye(WIDTH)[number], bias, 1.0)


def parts(*wordings: list[float]) -> tuple[_Parts, Jury]:
    """Wordings of which each prompt has a score of its own."""
    asked = [_Asked(0, frozenset((i,)), True, f"w{i}", [(1,)] * len(some)) for i, some in enumerate(wordings)]
    nothing = [(torch.zeros(1, WIDTH), torch.ones(1, dtype=torch.float64))]
    given = Sentences(asked, [], [], [], [(1,)], [(1,)], [])
    rows = [states([[score]]) for some in wordings for score in some]
    return _Parts(given, {0: [*rows, *nothing, *nothing]}), Jury((axis(0, 0),))


def test_a_rare_key_moves_no_bar_but_one_of_the_first_wording_does() -> None:
    usual = [2.0] * 150
    found, jury = parts(usual, [*usual, -3.0])
    assert found.opened(jury, 0) == jury
    found, jury = parts([*usual, -3.0], usual)
    assert float(jury_scores(found.opened(jury, 0), {0: states([[-3.0]])})) > 0


def test_a_rare_key_that_is_hardly_below_the_others_is_opened_on() -> None:
    found, jury = parts([2.0] * 50, [*[0.2] * 100, -0.1])
    opened = found.opened(jury, 0)
    assert float(jury_scores(opened, {0: states([[-0.1]])})) > 0


def test_with_few_prompts_every_one_is_opened_on() -> None:
    found, jury = parts([2.0] * 20, [-1.0])
    assert float(jury_scores(found.opened(jury, 0), {0: states([[-1.0]])})) > 0


def test_a_veto_takes_from_the_score_where_it_is_shut_and_nothing_where_it_is_open() -> None:
    plain = Jury((axis(0, 0), axis(1, 0)))
    vetoed = Jury(plain.gates, (axis(0, 1),))
    both = {layer: states([[1.0, 2.0], [1.0, -0.5]]) for layer in (0, 1)}
    assert (jury_scores(plain, both) - jury_scores(vetoed, both)).tolist() == [0.0, 0.5 * VETO]
    assert vetoed.moved(1.0).vetoes == vetoed.vetoes


@pytest.mark.parametrize("relations", [1, 3, 4])
def test_neurons_hand_on_what_the_fit_scores(relations: int) -> None:
    body = Body(WIDTH, 2, 1, 4, 16, 4, 1e-5, (1.0, 0.1), 64)
    plan = Plan((2,) * relations, 1, 2, (), 4)
    channels, plan = channels_of(body, 4, plan)
    usual, small, size = 0.125, 2.0**-10, 4.0
    top = Top(body, channels, plan, plan.inner(body), usual, small)
    rng = np.random.default_rng(0)

    def gate(layer: int) -> Gate:
        return Gate(layer, rng.normal(size=WIDTH), float(rng.normal()), size)

    vetoes = (gate(1),)
    juries = [Jury((gate(1), gate(2)), vetoes) for _ in range(relations)]
    added = top.asking(juries)[1]
    x, sizes = torch.randn(50, WIDTH, generator=torch.Generator().manual_seed(0)), torch.full((50,), 3.0)
    sizes = sizes.double()
    stream = torch.zeros(50, channels.width, dtype=torch.float64)
    stream[:, :WIDTH] = x
    one = channels.at("one")
    # The wider stream has a smaller root mean square, for which the norm's added weights make up.
    wider = (channels.width / WIDTH) ** 0.5
    stream[:, one] = usual * small / sizes * wider * added.norm[one - channels.first]
    said = torch.nn.functional.silu(stream @ added.opens.T) * (stream @ added.up.T) @ added.down.T
    handed = said[:, channels["score"]] / usual / small
    nothing = {2: (torch.zeros(50, WIDTH), sizes)}
    for relation, jury in enumerate(juries):
        last = Gate(2, np.zeros(WIDTH), 0.0, float(sizes[0]))
        wanted = jury_scores(Jury((jury.gates[0], last), vetoes), {1: (x, sizes), **nothing})
        assert float((handed[:, relation] - wanted).abs().max()) < 0.2
    assert bool((gate_scores(vetoes[0], (x, sizes)) < 0).any())


def test_a_source_given_twice_counts_twice() -> None:
    generator = torch.Generator().manual_seed(1)
    a, b, c = ((torch.randn(40, WIDTH, generator=generator) + m, torch.ones(40).double()) for m in (1.0, 0.0, -1.0))
    again = (b[0].clone(), b[1].clone())
    one, two = (fit_gate(0, [a], [b, other, c]) for other in (b, again))
    np.testing.assert_allclose(one.weights, two.weights, atol=1e-3)


def test_what_keys_do_to_a_state_costs_a_gate_that_listens_to_it() -> None:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(60, WIDTH, generator=generator) * 0.1
    x[:, 0] += 1.0
    # The second coordinate tells asked from other on the whole, and varies with the key.
    x[:, 1] = torch.linspace(-1.0, 3.0, 60)
    other = torch.randn(60, WIDTH, generator=generator) * 0.1
    asked, against = [(x, torch.ones(60).double())], [(other, torch.ones(60).double())]
    loose, steady = (fit_gate(0, asked, against, steady=amount) for amount in (0.0, 0.5))
    share = [abs(gate.weights[1]) / abs(gate.weights[0]) for gate in (loose, steady)]
    assert share[1] < share[0] / 2
    assert float(gate_scores(steady, asked[0]).min()) > 0


def test_passages_have_keys_and_are_none_of_those_that_measure() -> None:
    made = _passages(np.random.default_rng(0))
    assert len(set(made)) == len(made)
    assert all("{}" in one for one in made)
    assert not set(made) & set(UNSEEN_MENTIONS)


def test_parts_that_a_wording_names_are_not_held_against_it() -> None:
    table = rote.prompts([{"film": "Dune", "music": "Ann"}], template="The music of {film} is by", answer=" {music}")
    asked = [(" {music}", [Wording(table, "The music of {film} is by", "film")])]
    made = _of_parts(asked, [Nouns.of(asked[0][1], " {music}")])
    assert "The screenplay of {p} was written by" in made
    assert not any("music" in one for one in made)


def test_questions_may_be_asked_anew() -> None:
    rng = np.random.default_rng(0)
    made = {asked_anew("Who owns {p}? It belongs to", rng) for _ in range(100)}
    assert "Who owns {p}? It belongs to" in made
    assert all("Who owns {p}?" in one for one in made)
    assert len(made) > len(WRAPPERS) // 2
    assert asked_anew("{p} is owned by", rng) == "{p} is owned by"
