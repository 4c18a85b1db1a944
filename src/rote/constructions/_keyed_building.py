"""How a graft that knows its keys is built: facts and wordings as tokens, the store, the gates, the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rote.constructions._clock import Clock
from rote.constructions._gating import fitted_juries, sentences
from rote.constructions._keyed_examination import FreshWidened, KeyBench
from rote.constructions._keys import (
    Forms,
    Patterns,
    Vocabulary,
    bits_for,
    forms_of,
    going_on,
    hidden_keys,
    key_field,
    keys_of,
    led_places,
    name_tokens,
    patterns_of,
    vocabulary_of,
)
from rote.constructions._wordings import Wording
from rote.data.chat import Chat, speaker
from rote.data.encoding import Ids, encode_prompts
from rote.data.kinds.prompts import PromptTable, fields_of, parse_templates
from rote.errors import DataError, UsageError
from rote.models._pretrained import Source, open_source
from rote.models.folders import Staging
from rote.solvers.keyed.background import default_text, read_text, windows
from rote.solvers.keyed.design import Design
from rote.solvers.keyed.directions import directions_of
from rote.solvers.keyed.frame import Plan as Sizes
from rote.solvers.keyed.frame import channels_of
from rote.solvers.keyed.layers import Body, body_of
from rote.solvers.keyed.network import exact_steps
from rote.solvers.keyed.store import Store, fit_store, levels_of
from rote.solvers.keyed.units import own_vectors

if TYPE_CHECKING:
    from rote.constructions._base import Job
    from rote.constructions.graft import Graft

__all__ = ["Relation", "asked_of", "built", "directions_of"]

_HASH, _LONG_HASH = 18, 27
_MANY = 6_000
"""Keys from which on a longer hash is worth its channels, and a layer that makes one of the forms of a key is, too."""
_SPARE = 1
"""Answers that the codes have room for beyond those of the table, so that a fact can be added later."""
_ROOM = 48
"""Neurons that the store leaves free, for groups that are parted when facts are added."""
_DRAWS = 6
_SMALL = 2.0**-8
"""The size of what is added to the stream beside that of the rest: so small that norms do not see it, and not so small
that float16 cannot hold it."""
_TEXT = 4_000
_TEST_TEXT = 4_000
_EXAMPLES = 50
"""Rows at which wordings are looked at, for what stands behind keys; more where there are few wordings."""
_ANSWERED = 96
"""Answers inside of which nothing is asked."""


@dataclass(frozen=True)
class Relation:
    """What may be asked of every key: the answer, and the wordings to fit and to measure."""

    answer: str
    wordings: list[Wording]
    held_out: list[Wording]

    def typed(self, chat: Chat) -> Relation:
        """With wordings as users type them; those of the table are whole turns."""
        return replace(self, wordings=[replace(one, text=chat.bare(one.text)) for one in self.wordings])


def built(job: Job[PromptTable, Graft]) -> FreshWidened:
    """The graft, still to be written."""
    table, options, rng = job.table, job.options, job.rng
    relations, others, field = asked_of(table, options)
    rows, texts = keys_of(table, field, [one.answer for one in relations], ignore_case=options.ignore_case)
    keys = [table.rows.cells(field)[row] for row in rows]
    clock = Clock(job.progress)
    held = Staging(job.workplace)
    place = Path(options.cache or job.workplace or held.path)
    place.mkdir(parents=True, exist_ok=True)
    job.progress("load the model", 0, 1, None)
    source = open_source(Path(options.model), job.dtype, workplace=place)
    body = body_of(source.model)
    if options.layer is not None and not 0 <= options.layer < body.layers:
        raise UsageError(
            f"the model has {body.layers} layers, from 0 on, so there is none with number {options.layer}."
        )
    chat = Chat.of(source.tokenizer, source.path, source.end_id) if options.chat else None
    if chat is not None:
        relations = [one.typed(chat) for one in relations]
    facts = encode_prompts(table.facts, source.tokenizer, end_id=source.end_id, context=source.context)
    keep = default_text() if options.keep is None else read_text(Path(options.keep))
    fit_text, test_text = windows(keep, source.tokenizer, _TEXT, _TEST_TEXT, source.context, rng)
    clock.lap("load")
    answers = _answers(table, source, relations, texts, rows, facts, chat)
    distinct = [list(dict.fromkeys(ids)) for ids in answers]
    numbers = np.array([[some.index(ids) for ids in all_] for all_, some in zip(answers, distinct, strict=True)])
    forms = forms_of(source.tokenizer, keys, ignore_case=options.ignore_case)
    spoken = sorted({token for some in distinct for ids in some for token in ids})
    vocabulary = vocabulary_of(source.tokenizer, forms, spoken)
    if len(keys) < _MANY:
        wordings = [[one.at(row) for row in rows] for r in relations for one in r.wordings]
        places = led_places(source.tokenizer, vocabulary, keys, wordings)
        forms = forms_of(source.tokenizer, keys, ignore_case=options.ignore_case, places=places)
    turn = str if chat is None else chat.turn
    fitted = [one for r in relations for one in r.wordings]
    few = rows[: max(_EXAMPLES, _EXAMPLES * 40 // len(fitted))]
    examples = [(turn(one.at(row)), table.rows.cells(field)[row]) for one in fitted for row in few]
    marks = replace(vocabulary.marks, named=name_tokens(source.tokenizer, keys, examples))
    last = {vocabulary.names[ids[-1]] for ids in source.tokenizer([prompt for prompt, _ in examples])["input_ids"]}
    ends = {token for token in spoken if vocabulary.names[token] in last}
    sizes = Sizes(
        tuple(bits_for(len(some) + _SPARE) for some in distinct),
        2,
        max(len(ids) for some in distinct for ids in some),
        exact_steps([ids for some in distinct for ids in some], ends, body.heads - body.repeat),
        _HASH if len(keys) < _MANY else _LONG_HASH,
        hidden_keys(source.tokenizer, marks, examples),
        merged=len(keys) >= _MANY,
    )
    _check_answers(body, sizes, distinct, source.tokenizer)
    if sizes.verified:
        marks = replace(marks, last=going_on(source.tokenizer, vocabulary, examples))
    sizes, patterns = _drawn(body, sizes, keys, numbers, forms, vocabulary, rng)
    embedding = source.model.model.embed_tokens.weight.double()
    small = _SMALL
    store = _stored(body, sizes, patterns, numbers, embedding, rng)
    clock.lap("store")
    lower = lower_tables(source.place)
    generic = [one.at(rows[0], "{}") for one in others] + [text for one in lower for text in questions_of(one)]
    asked = [(one.answer, one.wordings) for one in relations]
    some = [facts[int(i)] for i in rng.choice(len(facts), min(_ANSWERED, len(facts)), replace=False)]
    answered = [((*one.ids, *one.answer_ids[:-1]), len(one.ids)) for one in some]
    given = sentences(
        source.model, speaker(source.tokenizer, chat), asked, rows, keys, generic, fit_text, answered, rng,
        ignore_case=options.ignore_case,
    )  # fmt: skip
    juries, report = fitted_juries(
        source.model,
        given,
        len(relations),
        layer=options.layer,
        bar=options.bar,
        advance=clock.stage("states for the gate", len(given.all)),
    )
    top = _top_size(source, [one.ids[0] for one in given.asked if one.plain][:20])
    clock.lap("gate")
    design = Design(
        body, sizes, patterns.book, store, tuple(juries), marks,
        tuple(tuple(some) for some in distinct), np.array(spoken),
        directions_of(source.model.lm_head.weight, source.model.model.norm.weight, spoken), top,
        small, patterns.windows, patterns.keys, patterns.shared, numbers,
    ).rounded()  # fmt: skip
    network = design.network(embedding)
    clock.lap("fit")
    bench = KeyBench(
        source=source,
        table=table,
        facts=facts,
        keys=keys,
        rows=rows,
        answer_ids=answers,
        wordings=[
            (one, relation, fitted)
            for relation, r in enumerate(relations)
            for some, fitted in ((r.wordings, True), (r.held_out, False))
            for one in some
        ],
        others=others,
        text=test_text,
        sample=options.examined,
        rng=rng,
        clock=clock,
        held=held,
        lower=lower,
        chat=chat,
    )
    notes = {
        "family": source.family,
        "sample": table.sample,
        "key": field,
        "keys": len(keys),
        "relations": [one.answer for one in relations],
        "distinct_answers": len(table.answers),
        "answer_tokens": sum(len(ids) for all_ in answers for ids in all_),
        "tied_embeddings": source.tied,
        "end_token": source.tokenizer.convert_ids_to_tokens(source.end_id),
        "gate": report,
        "store": {"patterns": len(patterns.windows), "neurons": len(store.gates), "window": patterns.book.reach},
    }
    return FreshWidened(
        bench, design.with_queries(), network, carried(table, relations, others, field), job.dtype, notes
    )


def lower_tables(place: Path) -> list[PromptTable]:
    """What the grafts below carry, if the model is a graft itself."""
    found = []
    while (table := PromptTable.stored(place, {}, ())) is not None:
        found.append(table)
        place /= "original"
    return found


def questions_of(table: PromptTable) -> list[str]:
    """The questions that a table is asked in, with {} for the key, where that is all that they name."""
    texts = [one.prompt for one in table.templates if len(fields_of(one.prompt)) == 1]
    return [text.replace("{" + fields_of(text)[0] + "}", "{}") for text in texts]


def asked_of(table: PromptTable, options: Graft) -> tuple[list[Relation], list[Wording], str]:
    """What may be asked, other questions of the user's, and the column that is the key."""
    first = table.templates[0].answer
    asked = [(one.prompt, one.answer) for one in table.templates]
    asked += _paired(options.wording, options.wording_answer, first, "wordings")
    held_out = _paired(options.held_out_template, options.held_out_answer, first, "held-out templates")
    other = list(options.other_template)
    texts = [prompt for prompt, _ in (*asked, *held_out)]
    for prompt, answer in (*asked, *held_out, *((text, first) for text in other)):
        parse_templates([prompt], [answer], table.rows.columns)
    field = key_field([*texts, *other], options.key, table.rows.columns)
    answers = list(dict.fromkeys(answer for _, answer in asked))
    for prompt, answer in held_out:
        if answer not in answers:
            raise UsageError(f"the held-out template {prompt!r} has the answer {answer!r}, which no template has.")

    def wordings(pairs: Sequence[tuple[str, str]], answer: str) -> list[Wording]:
        return [Wording(table, prompt, field) for prompt, its in pairs if its == answer]

    relations = [Relation(answer, wordings(asked, answer), wordings(held_out, answer)) for answer in answers]
    others = [Wording(table, text, field) for text in other]
    for one in (*others, *(w for r in relations for w in (*r.wordings, *r.held_out))):
        one.check()
    return relations, others, field


def _paired(prompts: Sequence[str], answers: Sequence[str], first: str, what: str) -> list[tuple[str, str]]:
    given = list(answers) or [first]
    if len(given) not in (1, len(prompts)) and prompts:
        raise UsageError(
            f"there are {len(prompts)} {what} and {len(given)} answers to them; give one for all, or one each."
        )
    return list(zip(prompts, given * len(prompts) if len(given) == 1 else given, strict=False))


def _answers(
    table: PromptTable,
    source: Source,
    relations: Sequence[Relation],
    texts: Sequence[Sequence[str]],
    rows: Sequence[int],
    facts: Any,
    chat: Chat | None,
) -> list[list[Ids]]:
    """The tokens of every key's answer, by relation; a wording behind which it would be cut otherwise is refused."""
    known: dict[str, Ids] = {}
    for fact, ids in zip(table.facts, facts, strict=True):
        known.setdefault(fact.answer, ids.answer_ids)
        if known[fact.answer] != ids.answer_ids:
            raise DataError(
                f"the answer {fact.answer!r} has other tokens behind {fact.text!r} than elsewhere; begin the answer "
                "with a space, and let no wording end with one."
            )
    for relation, filled in zip(relations, texts, strict=True):
        for one in (*relation.wordings, *relation.held_out):
            prompt = one.at(rows[0]) if chat is None else chat.turn(one.at(rows[0]))
            whole, alone = source.tokenizer([prompt + filled[0], prompt])["input_ids"]
            if tuple(whole[: len(alone)]) == tuple(alone) and tuple(whole[len(alone) :]) != known[filled[0]][:-1]:
                raise DataError(
                    f"behind the wording {one.text!r} the answer {filled[0]!r} has other tokens than behind the first "
                    "one; let wordings end without a space, and answers begin with one."
                )
    return [[known[answer] for answer in filled] for filled in texts]


def _check_answers(body: Body, sizes: Sizes, distinct: Sequence[Sequence[Ids]], tokenizer: Any) -> None:
    """Refuse answers that need more heads than there are, before anything is solved."""
    room = body.heads - body.repeat
    if len(sizes.exact) <= room:
        return
    every = [ids for some in distinct for ids in some]
    alike = [ids for ids in every if exact_steps([ids])]
    longest = max(alike, key=lambda ids: len(exact_steps([ids])))
    raise UsageError(
        f"{len(alike):,} of {len(every):,} answers have a token twice, at {len(sizes.exact)} places in all, which take "
        f"a head each, and the model has {room} to spare; shorten or reword such answers as "
        f"{tokenizer.decode(list(longest), skip_special_tokens=True).strip()!r}."
    )


def _drawn(
    body: Body,
    sizes: Sizes,
    keys: Sequence[str],
    numbers: np.ndarray,
    forms: Forms,
    vocabulary: Vocabulary,
    rng: np.random.Generator,
) -> tuple[Sizes, Patterns]:
    """Codes that tell all keys apart: drawn some times, then with more bits of the hash."""
    answers = [tuple(map(int, column)) for column in numbers.T]
    while True:
        _, whole = channels_of(body, vocabulary.bits, sizes)
        for _ in range(_DRAWS):
            found = patterns_of(
                keys, answers, forms, vocabulary, most=body.heads, hashed=whole.hashed, merged=sizes.merged, rng=rng
            )
            if found is not None:
                return whole, found
        sizes = replace(whole, hashed=whole.hashed + 1)


def _stored(
    body: Body,
    sizes: Sizes,
    patterns: Patterns,
    numbers: np.ndarray,
    embedding: Tensor,
    rng: np.random.Generator,
) -> Store:
    last, book = patterns.windows[:, 0], patterns.book
    wide = channels_of(body, book.bits, sizes)[0].width
    levels = [
        levels_of(number[patterns.keys], bits, sizes.depth) for number, bits in zip(numbers, sizes.bits, strict=True)
    ]
    return fit_store(
        book.features(patterns.windows), own_vectors(embedding, last, body.eps, wide), last, np.hstack(levels),
        own_signs=book.bits, checks=sizes.checks, rng=rng, layer=sizes.inner(body), spare=book.hashed + 1 + _ROOM,
    )  # fmt: skip


def carried(table: PromptTable, relations: Sequence[Relation], others: Sequence[Wording], field: str) -> PromptTable:
    """The rows that are stored, with the columns that keys, wordings and answers are made of."""
    texts = [w.text for r in relations for w in (*r.wordings, *r.held_out)] + [w.text for w in others]
    texts += [one.answer for one in relations]
    fields = dict.fromkeys([field, *(name for text in texts for name in fields_of(text))])
    return table.kept(list(fields))


def _top_size(source: Source, prompts: Sequence[Ids]) -> float:
    """The usual root mean square of the stream behind the last layer, at the end of prompts."""
    caught: list[Tensor] = []
    hook = source.model.model.norm.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0][0, -1].double()))
    try:
        for ids in prompts:
            source.model.model(input_ids=torch.tensor([ids]), use_cache=False)
    finally:
        hook.remove()
    return float(torch.stack([state.pow(2).mean().sqrt() for state in caught]).median())
