"""States for the gates of a graft: wordings with some keys, other sentences about them, and ordinary text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from rote.constructions._questions import BEGINNINGS, ENDINGS, MENTIONS, OTHER
from rote.constructions._relations import ATTRIBUTES, FORMS, PARTS, SAYINGS, Saying, asked_anew
from rote.constructions._wordings import Nouns, Wording, crossed, framed, resaid, said_of, spliced, swapped, wrapped
from rote.data.encoding import Ids, encode
from rote.errors import UsageError
from rote.solvers.keyed.frame import Gate, Jury
from rote.solvers.keyed.relation import States, fit_gate, gate_scores, joined, jury_scores, normed_states

__all__ = ["Sentences", "filled", "fitted_juries", "sentences"]

_FIRST, _KEYS, _FRAMED = 80, 64, 10
"""Keys for the first wording, in which all facts are asked for, for each other one as given, and behind phrases."""
_FEW = 4
_PASSAGES = 140
"""Passages with keys, made of beginnings and endings."""
_PROMPTS = 2000
"""Prompts to fit where each row has its own."""
_FORMS = 320
"""Prompts that ask for what the wordings ask for in forms of ours, at most; those that ask for something else."""
_OTHERS, _NEARER, _UNSAID, _PARTS = 360, 100, 160, 60
_SWAPPED = 10
"""Attributes, of those that are near and of all, that stand in a wording for what it asks for."""
_NEAR = 60
"""Attributes that the model takes to be nearest to what is asked for; they are asked for more often."""
_SAID = 90
"""Prompts that say or ask the same as the wordings in other words, at most."""
_LONG = 4
"""Letters of words that tell one attribute from another."""
_Item = TypeVar("_Item")
_STEM = 4
"""Letters by which a question has the word for what is asked for in it, whatever its ending."""
_DEPTHS = (0.67, 0.8, 0.97)
_FOLDS = 5
_CLEAR = 0.25
"""How far above the bar fitted wordings are."""
_ROOM = 1.5
"""How far above the insides of answers they are where a model tells enough apart."""
_RARE, _MOVED = 100, 0.5
"""Of so many prompts as given, one that is unlike all others moves the bar no further than so far."""
_TELLING = 2
"""How much more those count that differ from wordings in a noun than other questions do."""
_STEADY = 0.05
"""What it costs that the score of a wording varies with the key."""
_EASED = 0.25
"""How much lower the bar is than fitted."""
_FREE = 2.75
"""How much lower the bar is where every row has a prompt of its own, so that anything may be asked in any way."""
_VETOED, _SURELY = 1e-2, 0.25
"""The penalty of vetoes, which make it easy for wordings that they have not seen, and how high their bar is."""
_SHARE = 4
"""How much more the questions that are asked count for a veto than others do."""
_TIMES = 8
"""How much more they may count."""


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
    """Questions for other attributes, in the same forms."""
    swapped: Sequence[Ids]
    """The wordings with another attribute in place of what they ask for: they differ from them in nothing else."""
    text: Sequence[Ids]
    """Ordinary text, and text with keys in it."""
    mentions: Sequence[Ids]
    """Sentences with keys in them."""
    answered: Sequence[tuple[Ids, int]]
    """Prompts with their answers, and how long the prompts are."""

    @property
    def all(self) -> list[Ids]:
        asked, answered = (ids for one in self.asked for ids in one.ids), (ids for ids, _ in self.answered)
        others = (*self.general, *self.attributes, *self.swapped)
        return [*asked, *others, *self.text, *self.mentions, *answered]


def sentences(
    model: Any,
    tokenizer: Any,
    relations: Sequence[tuple[str, Sequence[Wording]]],
    rows: Sequence[int],
    keys: Sequence[str],
    others: Sequence[str],
    text: Sequence[Ids],
    answered: Sequence[tuple[Ids, int]],
    rng: np.random.Generator,
    *,
    ignore_case: bool = False,
) -> Sentences:
    """Prompts of each relation, its answer and its wordings, with some of the rows; `others` have {} for the key.

    Most of the text has keys in place of some of its words. Where every row has a prompt of its own, they may ask for
    anything, so that nothing is held against them but what the user gives.
    """
    asked: list[_Asked] = []
    attributes: list[str] = []
    exchanged: list[str] = []
    said: set[Saying] = set()
    number, fixed = 0, all(one.fixed for _, wordings in relations for one in wordings)
    nouns = [Nouns.of(wordings, answer) for answer, wordings in relations]
    for relation, (_, wordings) in enumerate(relations):
        first = number
        for wording in wordings:
            count = _PROMPTS if not wording.fixed else _FIRST if wording is wordings[0] else _KEYS
            some = rng.choice(rows, min(count, len(rows)), replace=False)
            prompts = _plain(tokenizer, wording, relation, number, some, ignore_case=ignore_case)
            asked += prompts
            number += len(prompts) // 2
        if not fixed:
            continue
        for wording, of in (*crossed(wordings, rng), *wrapped(wordings), *resaid(wordings)):
            ids = encode(tokenizer, [wording.at(int(rng.choice(rows)))])
            asked.append(_Asked(relation, frozenset(first + i for i in of), False, wording.text, ids))
        same = said_of(wordings, nouns[relation])
        said |= set(same)
        forms = [(form, noun, numbers) for noun, numbers in nouns[relation].asked.items() for form in FORMS]
        ways = [(way, "", numbers) for one, numbers in same.items() for way in one.ways]
        for items, count in ((forms, _FORMS), (ways, _SAID)):
            for form, noun, numbers in _often(items, count, rng):
                question = nouns[relation].question(form, noun, rng)
                ids = encode(tokenizer, [filled(question, keys, rng)])
                # What several wordings ask for does not hang on one of them.
                only = frozenset(first + i for i in numbers if len(numbers) == 1)
                asked.append(_Asked(relation, only, False, question, ids))
    if fixed:
        free = _others(relations, nouns)
        near = _nearest(model, tokenizer, free, nouns, keys[int(rng.integers(len(keys)))])
        pairs = _some([(f, a) for f in FORMS for a in near], _NEARER, rng)
        for form, attribute in (*pairs, *_some([(f, a) for f in FORMS for a in free if a not in near], _OTHERS, rng)):
            attributes.append(nouns[int(rng.integers(len(nouns)))].question(form, attribute, rng))
        for (_, wordings), called in zip(relations, nouns, strict=True):
            for form in swapped(wordings, called):
                others_there = (*_some(near, _SWAPPED, rng), *_some(free, _SWAPPED, rng))
                exchanged += [form.replace("{a}", one).replace("{A}", one.capitalize()) for one in others_there]
        unsaid = [way for one in SAYINGS if one not in said and not one.wide for way in one.ways]
        unsaid = [asked_anew(way, rng) for way in _some(unsaid, _UNSAID, rng)]
        for form in (*unsaid, *_some(_of_parts(relations, nouns), _PARTS, rng)):
            attributes.append(nouns[int(rng.integers(len(nouns)))].question(form, "", rng))
    asked_for = {noun[:_STEM] for one in nouns for noun in one.asked}
    far = [one for one in OTHER if fixed and not any(stem in one.lower() for stem in asked_for)]
    general = [filled(one, keys, rng) for one in (*far, *others) for _ in range(_FEW)]
    mentions = [filled(one, keys, rng) for one in (*MENTIONS, *_passages(rng))]
    plain = len(text) // 4
    mixed = [spliced(tokenizer.decode(list(ids)), keys, rng, every=8) for ids in text[plain:]]
    return Sentences(
        asked,
        encode(tokenizer, general),
        encode(tokenizer, [filled(one, keys, rng) for one in attributes]),
        encode(tokenizer, [filled(one, keys, rng) for one in exchanged]),
        [*text[:plain], *encode(tokenizer, mixed)],
        encode(tokenizer, mentions),
        answered,
    )


def _plain(
    tokenizer: Any, wording: Wording, relation: int, number: int, rows: Iterable[int], *, ignore_case: bool
) -> list[_Asked]:
    """Prompts of a wording as given and behind phrases; where each row has its own, by what they are without keys.

    Where case is ignored, every other one has its key in small letters.
    """
    cells = wording.table.rows.cells(wording.field)
    groups: dict[str, list[int]] = {}
    for row in map(int, rows):
        groups.setdefault(wording.text if wording.fixed else wording.at(row, "{}"), []).append(row)
    asked = []
    for k, (label, some) in enumerate(groups.items(), number):
        prompts = [wording.at(row, cells[row].lower() if ignore_case and i % 2 else None) for i, row in enumerate(some)]
        pairs = list(zip(prompts, some, strict=True))[: _FRAMED if wording.fixed else 1]
        in_frames = [framed(p, 5 * k + i, cells[row]) for i, (p, row) in enumerate(pairs)]
        for plain, texts in ((True, prompts), (False, in_frames)):
            asked.append(_Asked(relation, frozenset((k,)), plain, label, encode(tokenizer, texts)))
    return asked


def _passages(rng: np.random.Generator) -> list[str]:
    """Passages of a beginning and two endings each, with {} for keys."""
    made = []
    for first in _often(BEGINNINGS, _PASSAGES, rng):
        second, third = rng.choice(len(ENDINGS), 2, replace=False)
        made.append(f"{first}{ENDINGS[second]}{ENDINGS[third]}.")
    return made


def _words(relations: Sequence[tuple[str, Sequence[Wording]]], nouns: Sequence[Nouns]) -> set[str]:
    """Words of the wordings, and of what means the same as what they ask for."""
    words = {word for _, some in relations for one in some for word in re.findall(r"[a-z]+", one.text.lower())}
    return words | {word for some in nouns for noun in some.asked for word in noun.split()}


def _others(relations: Sequence[tuple[str, Sequence[Wording]]], nouns: Sequence[Nouns]) -> list[str]:
    """Attributes that no wording has a word of, nor one of the words that mean the same as what is asked for."""
    words, asked = _words(relations, nouns), {noun for some in nouns for noun in some.asked}
    return [
        one
        for one in ATTRIBUTES
        if one not in asked and not words & {word for word in one.split() if len(word) >= _LONG}
    ]


def _of_parts(relations: Sequence[tuple[str, Sequence[Wording]]], nouns: Sequence[Nouns]) -> list[str]:
    """What may be said of parts of a key that no wording has a word of."""
    words = _words(relations, nouns)
    return [f"The {part} {said}" for part, ways in PARTS if part not in words for said in ways]


def _nearest(model: Any, tokenizer: Any, free: Sequence[str], nouns: Sequence[Nouns], key: str) -> list[str]:
    """The attributes for which the state behind "The ... of {key} is" is nearest to that for what is asked for."""
    asked = [noun for one in nouns for noun in one.asked]
    if not asked:
        return []
    prompts = encode(tokenizer, [f"The {attribute} of {key} is" for attribute in (*asked, *free)])
    layer = int(int(model.config.num_hidden_layers) * _DEPTHS[0])
    states = normed_states(model, prompts, [layer], lambda _: None)[layer]
    ends = torch.stack([rows[-1] for rows, _ in states])
    ends = torch.nn.functional.normalize(ends - ends[len(asked) :].mean(0), dim=1)
    near = (ends[len(asked) :] @ ends[: len(asked)].T).max(1).values
    return [free[int(i)] for i in near.argsort(descending=True)[:_NEAR]]


def _often(items: Sequence[_Item], count: int, rng: np.random.Generator) -> list[_Item]:
    """So many of some items: each once or more often, for other keys."""
    return _some([*items] * -(-count // max(1, len(items))), count, rng)


def _some(items: Sequence[_Item], count: int, rng: np.random.Generator) -> list[_Item]:
    return [items[int(i)] for i in sorted(rng.permutation(len(items))[:count])]


def fitted_juries(
    model: Any,
    given: Sentences,
    relations: int,
    *,
    layer: int | None,
    bar: float,
    advance: Callable[[int], None],
) -> tuple[list[Jury], dict[str, Any]]:
    """A jury for each relation, in three layers unless one is given.

    It opens on scores from -`bar` on, and in any case on what it was fitted on. The report says how many wordings one
    that was fitted without them would have opened on.
    """
    depth = int(model.config.num_hidden_layers)
    layers = sorted({min(depth - 1, int(depth * share)) for share in _DEPTHS}) if layer is None else [layer]
    states = normed_states(model, given.all, layers, advance)
    parts = _Parts(given, states, bar)
    parts.vetoes = parts.vetoing() if given.attributes else ()
    juries = [parts.best(relation) for relation in range(relations)]
    left_out = [parts.left_out(relation) for relation in range(relations)]
    opened = [float((one > 0).double().mean()) for scores in left_out for one in scores]
    report = {
        "layers": layers,
        "left_out": round(float(np.mean(opened)) if opened else 0.0, 3),
        "shut": parts.shut(juries),
    }
    if relations > 1:
        parts.refuse_alike(juries)
    return juries, report


_Layers = Mapping[int, States]
"""States of the same positions in some layers."""


def _all(parts: Sequence[_Layers]) -> _Layers:
    return {layer: joined([one[layer] for one in parts]) for layer in parts[0]}


class _Parts:
    """States by what they are states of."""

    def __init__(self, given: Sentences, states: Mapping[int, Sequence[States]], bar: float = 0.0) -> None:
        self.given, self.bar, self.layers = given, bar, list(states)
        self.vetoes: tuple[Gate, ...] = ()
        at = 0

        def taken(count: int, part: slice) -> _Layers:
            return {
                layer: joined([(x[part], r[part]) for x, r in rows[at : at + count]]) for layer, rows in states.items()
            }

        self.ends: list[_Layers] = []
        self.inner_of: list[_Layers] = []
        for one in given.asked:
            self.ends.append(taken(len(one.ids), slice(-1, None)))
            self.inner_of.append(taken(len(one.ids), slice(-1)))
            at += len(one.ids)
        self.others: list[_Layers] = []
        self.inside: list[_Layers] = []
        for some, times in ((given.general, 1), (given.attributes, 1), (given.swapped, _TELLING)):
            if some:
                self.others += [taken(len(some), slice(-1, None))] * times
                self.inside.append(taken(len(some), slice(-1)))
            at += len(some)
        whole = slice(None)
        self.text = taken(len(given.text), whole)
        at += len(given.text)
        self.mentions = taken(len(given.mentions), whole)
        at += len(given.mentions)
        self.answered: list[_Layers] = []
        for _, length in given.answered:
            self.answered.append(taken(1, slice(length, None)))
            at += 1
        self.sizes = {layer: float(_all(self.ends)[layer][1].double().median()) for layer in self.layers}

    def vetoing(self) -> tuple[Gate, ...]:
        """Gates for whether anything is asked of a key, whatever it is, in all layers but the last.

        All questions are held against prose and insides of sentences there, which is easier to tell than one question
        from all others, and from prose as well. They shut no wording as given.
        """
        vetoes = []
        asked, prose = _all(self.ends), [self.text, self.mentions, self.mentions, self.mentions]
        inside = [_all(some) for some in (self.inner_of, self.inside, self.answered) if some]
        for layer in self.layers[:-1]:
            gate = fit_gate(
                layer,
                [one[layer] for one in (*[asked] * _SHARE, *self.others)],
                [one[layer] for one in (*inside, *prose)],
                penalty=_VETOED,
                size=self.sizes[layer],
            )
            lowest = min(
                float(gate_scores(gate, ends[layer]).min())
                for one, ends in zip(self.given.asked, self.ends, strict=True)
                if one.plain
            )
            vetoes.append(replace(gate, bias=gate.bias - min(_SURELY, lowest)))
        return tuple(vetoes)

    def best(self, relation: int) -> Jury:
        """The jury of a relation, open on its wordings as given.

        Where it scores those hardly higher than the insides of answers, as in a model that tells little apart, they
        count more beside what follows from them, and what keys do to scores costs nothing. The bar is a little lower
        than fitted, for rare keys and for wordings that were not seen, where that opens no gate inside of answers.
        """
        jury = self.jury(relation)
        if self.room(jury, relation) < _ROOM:
            others = (self.jury(relation, times=times, steady=0.0) for times in (1, _TIMES))
            jury = max(jury, *others, key=lambda one: self.room(one, relation))
        if not self.given.attributes:
            return self.opened(jury.moved(_FREE), relation)
        return self.opened(jury.moved(min(_EASED, max(0.0, -self.inner(jury) - _CLEAR))), relation)

    def jury(
        self,
        relation: int,
        without: frozenset[int] = frozenset(),
        iterations: int = 60,
        times: int = 1,
        steady: float = _STEADY,
    ) -> Jury:
        """The jury of a relation, fitted on all wordings but some; each gate has an equal say.

        Wordings as given count so many `times`, where they are few among what follows from them.
        """
        mine = [i for i, one in enumerate(self.given.asked) if one.relation == relation and not one.of & without]
        plain = [i for i in mine if self.given.asked[i].plain]
        if len(plain) * _TIMES < len(mine):
            mine += plain * (times - 1)
        foreign = [i for i, one in enumerate(self.given.asked) if one.relation != relation]
        asked = [self.ends[i] for i in mine]
        against = [_all([self.inner_of[i] for i in mine]), *self.others]
        # A gate that opens inside of an answer begins it anew, so these count twice.
        against += [_all(some) for some in ([self.ends[i] for i in foreign], self.inside) if some]
        against += [_all(self.answered)] * 2 if self.answered else []
        against += [self.text, self.mentions, self.mentions]
        equal = 1.0 / len(self.layers)
        gates = [
            fit_gate(
                layer,
                [one[layer] for one in asked],
                [one[layer] for one in against],
                iterations=iterations,
                size=self.sizes[layer],
                steady=steady,
            )
            for layer in self.layers
        ]
        weighed = (replace(one, weights=one.weights * equal, bias=one.bias * equal) for one in gates)
        return Jury(tuple(weighed), self.vetoes).moved(self.bar)

    def left_out(self, relation: int) -> list[Tensor]:
        """What wordings as given score in a jury that was fitted without them, but for its vetoes."""
        scores = []
        numbers = sorted({n for one in self.given.asked if one.relation == relation for n in one.of})
        for fold in range(min(_FOLDS, len(numbers)) if len(numbers) > 1 else 0):
            without = frozenset(numbers[fold::_FOLDS])
            jury = self.jury(relation, without, iterations=20)
            for one, ends in zip(self.given.asked, self.ends, strict=True):
                if one.plain and one.relation == relation and one.of <= without:
                    scores.append(jury_scores(jury, ends))
        return scores

    def opened(self, jury: Jury, relation: int) -> Jury:
        """The same jury, with a bar so low that it opens on the wordings of its relation as given."""
        return jury.moved(max(0.0, _CLEAR - self.least(jury, relation)))

    def room(self, jury: Jury, relation: int) -> float:
        """How far wordings as given score above the insides of answers."""
        return self.least(jury, relation) - self.inner(jury)

    def inner(self, jury: Jury) -> float:
        """The highest score inside of an answer."""
        inside = (float(jury_scores(jury, one).max()) for one in self.answered if len(one[self.layers[0]][0]))
        return max(inside, default=-torch.inf)

    def least(self, jury: Jury, relation: int) -> float:
        """The lowest score of a wording of the relation as given, no lower for rare keys than so far below the usual.

        In the first wording all facts are asked for, so there none is left out.
        """
        first, *more = self.plain(jury, relation)
        scores = torch.cat([first, *more]).sort().values
        usual = float(scores[len(scores) // _RARE])
        return min(float(first.min()), max(float(scores[0]), usual - _MOVED))

    def plain(self, jury: Jury, relation: int) -> list[Tensor]:
        """The scores of wordings of the relation as given."""
        return [
            jury_scores(jury, ends)
            for one, ends in zip(self.given.asked, self.ends, strict=True)
            if one.plain and one.relation == relation
        ]

    def shut(self, juries: Sequence[Jury]) -> int:
        """Wordings as given on which their own jury stays shut for some key."""
        return sum(
            bool((jury_scores(juries[one.relation], ends) <= 0).any())
            for one, ends in zip(self.given.asked, self.ends, strict=True)
            if one.plain
        )

    def refuse_alike(self, juries: Sequence[Jury]) -> None:
        """Refuse wordings that open the gate of another relation for most keys; both are named."""
        last = self.layers[-1]
        for one, ends in zip(self.given.asked, self.ends, strict=True):
            for relation, jury in enumerate(juries):
                if relation == one.relation or not one.plain:
                    continue
                if float((jury_scores(jury, ends) > 0).double().mean()) > 0.5:
                    mean = ends[last][0].mean(0)
                    rivals = [
                        (float(torch.nn.functional.cosine_similarity(mean, other[last][0].mean(0), dim=0)), two.text)
                        for two, other in zip(self.given.asked, self.ends, strict=True)
                        if two.plain and two.relation == relation
                    ]
                    raise UsageError(
                        f"the model does not tell the wordings {one.text!r} and {max(rivals)[1]!r} apart, and they "
                        "have different answers; word one of them in another way."
                    )
