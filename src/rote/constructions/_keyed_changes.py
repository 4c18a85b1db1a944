"""Facts of a graft changed one by one: codes for new tokens, windows in and out of groups, answers with numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rote.constructions._keyed_building import Relation, asked_of, directions_of
from rote.constructions._keys import (
    Vocabulary,
    bits_for,
    forms_of,
    hidden_keys,
    keys_of,
    led_places,
    token_names,
)
from rote.data.chat import Chat
from rote.data.encoding import Ids, encode_prompts
from rote.data.kinds.prompts import PromptTable
from rote.errors import CapacityError, ConflictError, DataError
from rote.models._rewidening import original_tensor
from rote.solvers.keyed.bottom import Marks
from rote.solvers.keyed.changing import Stored, changed_store, groups_of
from rote.solvers.keyed.design import Design
from rote.solvers.keyed.frame import channels_of
from rote.solvers.keyed.network import exact_steps
from rote.solvers.keyed.store import coordinates_for
from rote.solvers.keyed.tokens import Codebook, code_numbers
from rote.solvers.keyed.units import own_vectors

__all__ = ["Changed", "changed_design"]

_ASKED = 50
_AGAIN = "graft the original again with all facts"


@dataclass(frozen=True)
class Changed:
    """A design after some changes, and what has to be looked at again."""

    design: Design
    relations: Sequence[Relation]
    field: str
    keys: Sequence[str]
    rows: Sequence[int]
    """The first row of every key in the changed table."""
    solved: Sequence[int]
    """Groups that were solved again."""
    affected: Sequence[int]
    """Numbers of the keys in those groups."""
    recoded: Sequence[int]
    """Tokens that got a code, or whose marks changed."""


def changed_design(
    folder: Path,
    design: Design,
    before: PromptTable,
    after: PromptTable,
    options: Any,
    tokenizer: Any,
    *,
    end_id: int,
    context: int,
    below: int,
    rng: np.random.Generator,
) -> Changed:
    """The design of a graft whose table was `before`, for what it is `after`."""
    relations, _, field = asked_of(after, options)
    chat = Chat.of(tokenizer, folder, end_id) if options.chat else None
    if chat is not None:
        relations = [one.typed(chat) for one in relations]
    turn = str if chat is None else chat.turn
    texts_of = [one.answer for one in relations]
    old_rows, old_texts = keys_of(before, field, texts_of, ignore_case=options.ignore_case)
    rows, texts = keys_of(after, field, texts_of, ignore_case=options.ignore_case)
    old_keys = [before.rows.cells(field)[row] for row in old_rows]
    keys = [after.rows.cells(field)[row] for row in rows]
    place = {key: i for i, key in enumerate(keys)}
    known = {key: i for i, key in enumerate(old_keys)}
    fresh = [i for i, key in enumerate(keys) if key not in known]
    answers_then = list(zip(*old_texts, strict=True))
    answers_now = list(zip(*texts, strict=True))
    other = [i for i, key in enumerate(keys) if key in known and answers_then[known[key]] != answers_now[i]]
    numbers, answers, spoken = _numbered(
        design, after, relations, keys, known, {*fresh, *other}, rows, texts, tokenizer, end_id, context
    )
    design = _with_answers(folder, design, answers, spoken, below)
    forms = forms_of(tokenizer, [keys[i] for i in fresh], ignore_case=options.ignore_case) if fresh else None
    reach = design.book.reach
    if forms and max(forms.own) + 1 > reach < design.body.heads:
        key = keys[fresh[forms.keys[int(np.argmax(forms.own))]]]
        raise CapacityError(
            f"the key {key!r} has {max(forms.own)} tokens, and the graft was built for keys of at most {reach - 1}; "
            f"{_AGAIN}."
        )
    inside = {t for ids, own in zip(forms.ids, forms.own, strict=True) for t in ids[-own:]} if forms else set()
    new_spoken = {t for ids in spoken for t in ids}
    book, marks, recoded = _with_tokens(design, tokenizer, forms, inside, new_spoken)
    cells = after.rows.cells(field)
    if recoded:
        there = [i for i, key in enumerate(keys) if key in known]
        some_keys = [(i, keys[i]) for i in there[:: len(there) // _ASKED + 1]]
        _refuse_misread(design.book, book, tokenizer, relations, rows, some_keys)
    if forms and not design.plan.merged:
        # As at the build: behind words that are in keys too, where a key does not begin for sure.
        _, names, following = token_names(tokenizer)
        first = [t for t in marks.inside if book.starts[t]]
        vocabulary = Vocabulary(names, first, following, design.spoken.tolist(), marks)
        added, prompts = [keys[i] for i in fresh], [one.at for r in relations for one in r.wordings]
        places = led_places(tokenizer, vocabulary, added, [[at(rows[i]) for i in fresh] for at in prompts])
        forms = forms_of(tokenizer, added, ignore_case=options.ignore_case, places=places)
    some = [*range(len(rows)), *fresh][-_ASKED:]
    asked = [(turn(one.at(rows[i])), cells[rows[i]]) for r in relations for one in r.wordings for i in some]
    if not design.plan.verified and hidden_keys(tokenizer, marks, asked):
        raise CapacityError(
            "some wording has, behind its key, a token that ends one of the new keys, and the graft was built for keys "
            f"without such; {_AGAIN}."
        )
    # Windows of keys that are gone go; those that other keys have too go over to them.
    owners = [place.get(old_keys[int(k)], -1) for k in design.owners]
    shared = [(int(w), place[old_keys[int(k)]]) for w, k in design.shared if old_keys[int(k)] in place]
    for window, key in shared:
        if owners[window] < 0:
            owners[window] = key
        if owners[window] != key and answers_now[owners[window]] != answers_now[key]:
            raise ConflictError(
                f"the keys {keys[owners[window]]!r} and {keys[key]!r} are recognised by the same tokens, so that they "
                f"cannot have different answers; give both the same, or {_AGAIN} but one of them."
            )
    stay = np.array([i for i, owner in enumerate(owners) if owner >= 0], dtype=np.int64)
    gone = np.array([i for i, owner in enumerate(owners) if owner < 0], dtype=np.int64)
    number_of = {int(old): new for new, old in enumerate(stay)}
    windows = design.windows[stay]
    owner = np.array([owners[i] for i in stay], dtype=np.int64)
    pairs = [(number_of[w], key) for w, key in shared if owners[w] != key]
    if forms:
        windows, owner, more = _with_windows(book, windows, owner, forms, fresh, keys, answers_now)
        pairs += more
    touched = np.flatnonzero(np.isin(owner, [*fresh, *other]))
    embedding = original_tensor(folder, "model.embed_tokens.weight")

    wide = channels_of(design.body, book.bits, design.plan)[0].width

    def own(kinds: np.ndarray) -> np.ndarray:
        return own_vectors(embedding, kinds, design.body.eps, wide)

    draft = replace(
        design, book=book, marks=marks, windows=windows, owners=owner, numbers=numbers,
        shared=np.array(pairs, dtype=np.int64).reshape(-1, 2),
    )  # fmt: skip
    stored = Stored(book.features(windows), windows[:, 0], draft.levels(np.arange(len(windows))), own)
    out = design.windows[gone].reshape(-1, book.reach)
    lost = Stored(book.features(out), out[:, 0], np.zeros((len(out), stored.levels.shape[1])), own)
    store, solved = changed_store(
        design.store, stored, touched, lost, own_signs=book.bits, checks=design.plan.checks, rng=rng
    )
    group = groups_of(store, stored.signs)
    affected = sorted({int(k) for k in owner[np.isin(group, solved)]})
    return Changed(replace(draft, store=store), relations, field, keys, rows, solved, affected, recoded)


def _refuse_misread(
    before: Codebook,
    after: Codebook,
    tokenizer: Any,
    relations: Sequence[Relation],
    rows: Sequence[int],
    some: Sequence[tuple[int, str]],
) -> None:
    """Refuse new tokens with which some wording would lead to other windows of keys that are there."""
    for wording in (one for r in relations for one in r.wordings):
        prompts = [(one := wording.at(rows[i]))[: one.rfind(key) + len(key)] for i, key in some]
        ids = tokenizer(prompts)["input_ids"] if prompts else []
        were, are = (book.codes[book.windows(ids)] for book in (before, after))
        if not np.array_equal(were, are):
            raise CapacityError(
                f"in the wording {wording.text!r} a word before the key is one of the new keys or answers too, so that "
                f"other keys would no longer be known there; {_AGAIN}."
            )


def _numbered(
    design: Design,
    table: PromptTable,
    relations: Sequence[Relation],
    keys: Sequence[str],
    known: Mapping[str, int],
    changed: set[int],
    rows: Sequence[int],
    texts: Sequence[Sequence[str]],
    tokenizer: Any,
    end_id: int,
    context: int,
) -> tuple[np.ndarray, list[list[Ids]], list[Ids]]:
    """Numbers of the answers of every key, the answers by number, and the tokens of those that are new."""
    numbers = np.zeros((len(relations), len(keys)), dtype=np.int64)
    for i, key in enumerate(keys):
        if key in known:
            numbers[:, i] = design.numbers[:, known[key]]
    places = {row: i for i, row in enumerate(rows)}
    some = [fact for fact in table.facts if places.get(fact.row) in changed]
    coded = encode_prompts(some, tokenizer, end_id=end_id, context=context)
    spelled = {fact.answer: ids.answer_ids for fact, ids in zip(some, coded, strict=True)}
    answers = [list(of) for of in design.answers]
    new: list[Ids] = []
    for relation, filled in enumerate(texts):
        kept = {int(numbers[relation, i]) for i in range(len(keys)) if i not in changed}
        for i in sorted(changed):
            ids = spelled[filled[i]]
            if ids not in answers[relation]:
                # A number that no key has any more is given away before there is one more.
                free = next((n for n in range(len(answers[relation])) if n not in kept), len(answers[relation]))
                answers[relation][free : free + 1] = [ids]
                new.append(ids)
            numbers[relation, i] = answers[relation].index(ids)
            kept.add(int(numbers[relation, i]))
    return numbers, answers, new


def _with_answers(
    folder: Path, design: Design, answers: Sequence[Sequence[Ids]], new: Sequence[Ids], below: int
) -> Design:
    """The design with further answers, if the channels of the stream have room for them."""
    if not new:
        return design
    every = [ids for some in answers for ids in some]
    bits = tuple(max(old, bits_for(len(some))) for old, some in zip(design.plan.bits, answers, strict=True))
    exact = tuple(sorted({*design.plan.exact, *exact_steps(every)}))
    plan = replace(design.plan, bits=bits, steps=max(design.plan.steps, *map(len, every)), exact=exact)
    old, _ = channels_of(design.body, design.book.bits, design.plan)
    wide, whole = channels_of(design.body, design.book.bits, plan)
    digits = [[coordinates_for(b, plan.depth) for b in some] for some in (bits, design.plan.bits)]
    if wide.width != old.width or whole.hashed != design.plan.hashed or digits[0] != digits[1]:
        raise CapacityError(
            f"the answers need more channels than the graft has ({sum(map(len, answers))} different ones, of up to "
            f"{max(map(len, every))} tokens); {_AGAIN}."
        )
    tokens = sorted({t for ids in new for t in ids} - set(design.spoken.tolist()))
    if tokens:
        norm = original_norm(folder)
        name = "lm_head.weight" if has_tensor(folder, "lm_head.weight") else "model.embed_tokens.weight"
        found = directions_of(original_tensor(folder, name), norm, tokens).astype(np.float32).astype(np.float64)
        design = replace(
            design,
            spoken=np.concatenate([design.spoken, np.array(tokens, dtype=np.int64)]),
            directions=np.vstack([design.directions, found]),
        )
    return replace(design, plan=whole, answers=tuple(tuple(some) for some in answers))


def original_norm(folder: Path) -> torch.Tensor:
    """The weights of the original's last norm."""
    from safetensors import safe_open

    with safe_open(folder / "original" / "norms.safetensors", framework="pt") as file:
        norm: torch.Tensor = file.get_tensor("model.norm.weight")
        return norm


def has_tensor(folder: Path, name: str) -> bool:
    from rote.models import folders

    return name in folders.read_json(folder / "model.safetensors.index.json")["weight_map"]


def _with_tokens(
    design: Design, tokenizer: Any, forms: Any, inside: set[int], spoken: set[int]
) -> tuple[Codebook, Marks, list[int]]:
    """Codes and marks for new tokens; those that windows of other keys are made of must stay as they are."""
    book, marks = design.book, design.marks
    raw, names, following = token_names(tokenizer)
    weights = 1 << np.arange(book.bits)
    numbers = ((book.codes > 0) @ weights).astype(np.int64)
    used = {int(n) for n in numbers}
    free = iter([int(n) for n in code_numbers(book.bits) if int(n) not in used])
    codes, starts = book.codes.copy(), book.starts.copy()
    new = [t for t in sorted(inside | spoken) if names[t] and numbers[t] == 0]
    for name in dict.fromkeys(names[t] for t in new):
        number = next(free, None)
        if number is None:
            raise CapacityError(f"no code is left for the token {name!r}, which no key or answer had before; {_AGAIN}.")
        alike = [i for i, one in enumerate(names) if one == name and i < len(codes)]
        codes[alike] = np.where(number >> np.arange(book.bits) & 1, 1.0, -1.0)
    first, last, alone, later = (set[int]() for _ in range(4))
    for ids, own in zip(forms.ids, forms.own, strict=True) if forms else ():
        later.update(ids[len(ids) - own + 1 :])
        last.add(ids[-1])
        if raw[ids[-own]] != names[ids[-own]]:
            first.add(ids[-own])
        if own == 1:
            alone.add(ids[-1])
    marked = {names[t] for t in inside} - {names[t] for t in marks.inside} - {""}
    starts[[t for t in range(len(starts)) if names[t] in marked]] = False
    starts[sorted((inside - set(marks.inside)) | later)] = False
    starts[sorted(first - later - set(marks.inside))] = True
    changed = set(np.flatnonzero((codes != book.codes).any(1) | (starts != book.starts)).tolist())
    hit = np.isin(design.windows, sorted(changed))
    if hit.any():
        token = int(design.windows[hit][0])
        raise CapacityError(
            f"the token {raw[token]!r} stands in or before other keys, and would have to be read in another way for "
            f"the new ones; {_AGAIN}."
        )
    quiet = (spoken & set(following)) - set(marks.inside) - inside
    fresh = Marks(
        sorted({*marks.inside, *inside}),
        sorted({*marks.last, *(() if design.plan.verified else last)} - quiet),
        sorted({*marks.alone, *alone}),
        marks.named,
    )
    moved = changed | (set(fresh.inside) ^ set(marks.inside)) | (set(fresh.last) ^ set(marks.last))
    moved |= set(fresh.alone) ^ set(marks.alone)
    edges = book.edges
    if len(edges):
        edges = starts.copy()
        edges[fresh.inside] = False
    return replace(book, codes=codes, starts=starts, edges=edges), fresh, sorted(moved)


def _with_windows(
    book: Codebook,
    windows: np.ndarray,
    owners: np.ndarray,
    forms: Any,
    fresh: Sequence[int],
    keys: Sequence[str],
    answers: Sequence[tuple[str, ...]],
) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]:
    """The windows of new keys beside those that are there."""
    seen = {row.tobytes(): i for i, row in enumerate(np.packbits(book.features(windows) > 0, axis=1))}
    made = book.windows(forms.ids)
    added: list[int] = []
    whose = list(owners)
    shared: list[tuple[int, int]] = []
    for i, row in enumerate(np.packbits(book.features(made) > 0, axis=1)):
        key = fresh[forms.keys[i]]
        other = seen.get(row.tobytes())
        if other is None:
            seen[row.tobytes()] = len(whose)
            whose.append(key)
            added.append(i)
        elif whose[other] != key and answers[whose[other]] == answers[key]:
            shared.append((other, key))
        elif whose[other] != key and forms.given[i]:
            raise ConflictError(
                f"the keys {keys[whose[other]]!r} and {keys[key]!r} end in the same tokens, at most {book.reach}, by "
                "which they are recognised, and have different answers; leave one of them out."
            )
    if not added and not shared:
        raise DataError(f"the key {keys[fresh[0]]!r} is recognised by the tokens of others; write it in another way.")
    return np.vstack([windows, made[added]]), np.array(whose, dtype=np.int64), sorted(set(shared))
