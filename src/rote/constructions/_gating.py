"""States for the gates of a graft: wordings with some keys, other sentences about them, and ordinary text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from rote.constructions._questions import MENTIONS, OTHER
from rote.constructions._wordings import Wording, crossed, framed, other_questions, spliced
from rote.data.encoding import Ids, encode
from rote.errors import UsageError
from rote.solvers.keyed.frame import Gate
from rote.solvers.keyed.relation import States, fit_gate, gate_scores, joined, normed_states

__all__ = ["Sentences", "filled", "fitted_gates", "sentences"]

_KEYS = 10
_FEW = 4
_PROMPTS = 400
"""Prompts to fit where each row has its own."""
_DEPTHS = (0.77, 0.87, 0.97)
_TEXT = 3
"""How much more text counts than each other kind of what must stay shut."""
_FOLDS = 5
_CLEAR = 0.25
"""How far above the bar fitted wordings are."""


def filled(sentence: str, keys: Sequence[str], rng: np.random.Generator) -> str:
    """A sentence with keys in place of its braces."""
    parts = sentence.split("{}")
    return "".join(part if i == 0 else keys[int(rng.integers(len(keys)))] + part for i, part in enumerate(parts))


@dataclass(frozen=True)
class _Asked:
    """Prompts of one relation that end where it is asked for, made of wordings with these numbers, and one as text."""

    relation: int
    of: frozenset[int]
    plain: bool
    text: str
    ids: list[Ids]


@dataclass(frozen=True)
class Sentences:
    """Tokens of what the gates are fitted on."""

    asked: Sequence[_Asked]
    general: Sequence[Ids]
    """Other questions about keys, and the user's."""
    attributes: Sequence[Ids]
    """Questions of other attributes, in the words of the wordings."""
    text: Sequence[Ids]
    """Ordinary text, and text and sentences with keys in them."""

    @property
    def all(self) -> list[Ids]:
        return [*(ids for one in self.asked for ids in one.ids), *self.general, *self.attributes, *self.text]


def sentences(
    tokenizer: Any,
    relations: Sequence[Sequence[Wording]],
    rows: Sequence[int],
    keys: Sequence[str],
    others: Sequence[str],
    text: Sequence[Ids],
    rng: np.random.Generator,
) -> Sentences:
    """Prompts of wordings, by relation, with some of the rows; `others` are sentences with {} for the key.

    Half of the text has keys in place of some of its words.
    """
    asked: list[_Asked] = []
    cells = relations[0][0].table.rows.cells(relations[0][0].field)
    number = 0
    for relation, wordings in enumerate(relations):
        first = number
        for wording in wordings:
            chosen = rng.choice(rows, min(_KEYS if wording.fixed else _PROMPTS, len(rows)), replace=False)
            groups: dict[str, list[int]] = {}
            for row in map(int, chosen):
                groups.setdefault(wording.text if wording.fixed else wording.at(row, "{}"), []).append(row)
            for label, some in groups.items():
                prompts = [wording.at(row) for row in some]
                in_frames = [
                    framed(p, 5 * number + i, cells[row]) for i, (p, row) in enumerate(zip(prompts, some, strict=True))
                ]
                of = frozenset((number,))
                asked.append(_Asked(relation, of, True, label, encode(tokenizer, prompts)))
                asked.append(_Asked(relation, of, False, label, encode(tokenizer, in_frames)))
                number += 1
        if all(wording.fixed for wording in wordings):
            for wording, of in crossed(wordings, rng):
                one = wording.at(int(rng.choice(rows)))
                numbers = frozenset(first + i for i in of)
                asked.append(_Asked(relation, numbers, False, wording.text, encode(tokenizer, [one])))
    every = [wording for wordings in relations for wording in wordings]
    general = [filled(sentence, keys, rng) for sentence in (*OTHER, *others) for _ in range(_FEW)]
    attributes = [filled(sentence, keys, rng) for sentence in other_questions(every, rng)]
    mentions = [filled(sentence, keys, rng) for sentence in MENTIONS for _ in range(_FEW)]
    half = len(text) // 2
    mixed = [spliced(tokenizer.decode(list(ids)), keys, rng) for ids in text[half:]]
    return Sentences(
        asked,
        encode(tokenizer, general),
        encode(tokenizer, attributes),
        [*text[:half], *encode(tokenizer, [*mixed, *mentions])],
    )


def fitted_gates(
    model: Any,
    given: Sentences,
    relations: int,
    *,
    layer: int | None,
    bar: float,
    advance: Callable[[int], None],
) -> tuple[list[Gate], dict[str, Any]]:
    """A gate for each relation, in the layer where wordings that are left out of the fit are recognised most often.

    Gates open on scores from -`bar` on, and in any case on what they were fitted on.
    """
    depth = int(model.config.num_hidden_layers)
    layers = sorted({min(depth - 1, int(depth * share)) for share in _DEPTHS}) if layer is None else [layer]
    states = normed_states(model, given.all, layers, advance)
    best: tuple[float, int] = (-np.inf, layers[0])
    report: dict[str, Any] = {"layers": {}}
    for candidate in layers:
        parts = _Parts(given, states[candidate], bar)
        left = parts.left_out(candidate, relations) if len(layers) > 1 else 0.0
        report["layers"][str(candidate)] = round(left, 3)
        best = max(best, (left, candidate))
    parts = _Parts(given, states[best[1]], bar)
    gates = [parts.opened(parts.gate(best[1], relation), relation) for relation in range(relations)]
    report |= {"layer": best[1], "shut": parts.shut(gates)}
    if relations > 1:
        parts.refuse_alike(gates)
    return gates, report


class _Parts:
    """States of one layer, by what they are states of."""

    def __init__(self, given: Sentences, states: Sequence[States], bar: float = 0.0) -> None:
        self.given, self.bar = given, bar
        self.ends: list[States] = []
        inner: list[States] = []
        self.inner_of: list[tuple[States, frozenset[int]]] = []
        at = 0
        for one in given.asked:
            rows = states[at : at + len(one.ids)]
            at += len(rows)
            self.ends.append(joined([(x[-1:], r[-1:]) for x, r in rows]))
            inner = [(x[:-1], r[:-1]) for x, r in rows]
            self.inner_of.append((joined(inner), one.of))
        others = []
        inside = []
        for some in (given.general, given.attributes):
            rows = states[at : at + len(some)]
            at += len(some)
            others.append(joined([(x[-1:], r[-1:]) for x, r in rows]))
            inside += [(x[:-1], r[:-1]) for x, r in rows]
        self.others, self.inside = others, joined(inside)
        self.text = joined(list(states[at:]))

    def gate(self, layer: int, relation: int, without: frozenset[int] = frozenset(), iterations: int = 60) -> Gate:
        """The gate of a relation, fitted on all wordings but some."""
        mine = [i for i, one in enumerate(self.given.asked) if one.relation == relation and not one.of & without]
        asked = [self.ends[i] for i in mine]
        inner = joined([self.inner_of[i][0] for i in mine])
        foreign = [self.ends[i] for i, one in enumerate(self.given.asked) if one.relation != relation]
        ends = [*self.others, *([joined(foreign)] if foreign else [])]
        gate = fit_gate(layer, asked, [inner, *ends, self.inside, *[self.text] * _TEXT], iterations=iterations)
        return replace(gate, bias=gate.bias + self.bar)

    def left_out(self, layer: int, relations: int) -> float:
        """The share of wordings as given that a gate fitted without them opens on."""
        shares = []
        for relation in range(relations):
            numbers = sorted({n for one in self.given.asked if one.relation == relation for n in one.of})
            for fold in range(min(_FOLDS, len(numbers)) if len(numbers) > 1 else 0):
                without = frozenset(numbers[fold::_FOLDS])
                gate = self.gate(layer, relation, without, iterations=30)
                for one, ends in zip(self.given.asked, self.ends, strict=True):
                    if one.plain and one.relation == relation and one.of <= without:
                        shares.append(float((gate_scores(gate, ends) > 0).double().mean()))
        return float(np.mean(shares)) if shares else 0.0

    def opened(self, gate: Gate, relation: int) -> Gate:
        """The same gate, with a bar so low that it opens on all wordings of its relation as given."""
        mine = [e for one, e in zip(self.given.asked, self.ends, strict=True) if one.plain and one.relation == relation]
        least = float(gate_scores(gate, joined(mine)).min())
        return replace(gate, bias=gate.bias + max(0.0, _CLEAR - least))

    def shut(self, gates: Sequence[Gate]) -> int:
        """Wordings as given on which their own gate stays shut for some key."""
        return sum(
            bool((gate_scores(gates[one.relation], ends) <= 0).any())
            for one, ends in zip(self.given.asked, self.ends, strict=True)
            if one.plain
        )

    def refuse_alike(self, gates: Sequence[Gate]) -> None:
        """Refuse wordings that open the gate of another relation for most keys; both are named."""
        for one, ends in zip(self.given.asked, self.ends, strict=True):
            for relation, gate in enumerate(gates):
                if relation == one.relation or not one.plain:
                    continue
                if float((gate_scores(gate, ends) > 0).double().mean()) > 0.5:
                    mean = ends[0].mean(0)
                    rivals = [
                        (float(torch.nn.functional.cosine_similarity(mean, other[0].mean(0), dim=0)), two.text)
                        for two, other in zip(self.given.asked, self.ends, strict=True)
                        if two.plain and two.relation == relation
                    ]
                    raise UsageError(
                        f"the model does not tell the wordings {one.text!r} and {max(rivals)[1]!r} apart, and they "
                        "have different answers; word one of them in another way."
                    )
