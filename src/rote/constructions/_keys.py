"""Keys as a tokenizer cuts them: in the middle of a sentence, behind a bracket, and at the beginning of a text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rote.data.encoding import Ids
from rote.data.kinds.prompts import PromptTable, fields_of
from rote.errors import ConflictError, DataError, UnknownName, UsageError
from rote.solvers.keyed.bottom import Marks
from rote.solvers.keyed.tokens import Codebook, codebook, mended_book, sign_count

__all__ = [
    "Forms",
    "Patterns",
    "Vocabulary",
    "bits_for",
    "forms_of",
    "going_on",
    "hidden_keys",
    "key_field",
    "keys_of",
    "led_places",
    "name_tokens",
    "patterns_of",
    "token_names",
    "vocabulary_of",
]

_BEFORE = ("It is ", "", "(", "^")
"""Signs before a key are all alike but for those that keys and answers have too: hardly any has the last of these."""
_AFTER = " is"
_SPACES = ("Ġ", "▁")
_LEADS = ("of", "the", "in", "The", "In", "by", "for", "and", "to", "from", "with", "on", "at", "about", "a", "that")
_STOPS = (".", ",", ":", "?", "!")
"""Words and signs that often stand before keys, and inside of some."""
_PLAIN = ("It is", "There was", "We met", "People like", "Nobody knew", "He found", "She left", "They chose")
"""Words before keys, of which some last one is hardly a part of any key or answer."""
_MOSTLY = 0.8
"""The share of keys that have to look like names for all of them to be taken for such."""
_OPENING = """
A After All Also An And Another Answer Any As At Because Before Both But By Can Could Did Do Does During Each Every For
From Had Has Have He Her Here His How However I If In Is It Its Many May Most My No Not Now Of On One Only Or Our Q
Question She Since So Some Such That The Their Then There These They This Those To Was We Were What When Where Whether
Which While Who Whose Why Will With Would Yes You Your
"""
"""Words with a capital that are no names."""


def key_field(prompts: Sequence[str], given: str | None, columns: Sequence[str]) -> str:
    """The column that is the key: the one given, or the only one that all wordings have."""
    shared = [name for name in dict.fromkeys(fields_of(prompts[0])) if all(name in fields_of(p) for p in prompts)]
    if given is not None:
        name = given.strip().removeprefix("{").removesuffix("}")
        if name not in columns:
            raise UnknownName("column named", name, columns)
        _refuse_bare(prompts, name)
        return name
    if not shared:
        missing = next(p for p in prompts if not set(fields_of(p)) & set(fields_of(prompts[0])))
        raise UsageError(
            f"no field appears in all wordings; {missing!r} has none of the first one's. Name it with key."
        )
    if len(shared) > 1:
        raise UsageError(f"all wordings have {' and '.join(shared)}; say which of them is the key.")
    _refuse_bare(prompts, shared[0])
    return shared[0]


def _refuse_bare(prompts: Sequence[str], name: str) -> None:
    """Refuse a wording that is the key and nothing else: a prompt in every row, and no key in it."""
    if any(prompt.strip() == "{" + name + "}" for prompt in prompts):
        raise UsageError(
            f"the template '{{{name}}}' is the whole prompt of every row, and a graft knows facts by a key in it; name "
            "the part of the prompt that is the key: a column that has it (--key FIELD), or a template around it."
        )


def keys_of(
    table: PromptTable, field: str, answers: Sequence[str], *, ignore_case: bool
) -> tuple[list[int], list[list[str]]]:
    """The first row of every key, and the answer of each relation there; what cannot be told apart is refused."""
    seen: dict[str, tuple[list[str], str, str]] = {}
    rows: list[int] = []
    cells = table.rows.cells(field)
    for row in table.chosen:
        text, filled = cells[row], [table.fill(answer, row) for answer in answers]
        folded = " ".join(text.casefold().split() if ignore_case else text.split())
        place = table.rows.place(row)
        if not folded:
            raise DataError(f"{table.rows.source}: {place} has no key in the column {field!r}; fill it in.")
        if folded not in seen:
            seen[folded] = filled, place, text.casefold() if ignore_case else text
            rows.append(row)
        elif seen[folded][0] != filled:
            how = "case or white space" if ignore_case else "white space"
            old, new = next((a, b) for a, b in zip(seen[folded][0], filled, strict=True) if a != b)
            raise ConflictError(
                f"{table.rows.source}: {seen[folded][1]} and {place} have one key (apart from {how}), {text!r}, and "
                f"different answers, {old!r} and {new!r}; correct them, or choose another key."
            )
        elif (text.casefold() if ignore_case else text) != seen[folded][2]:
            raise ConflictError(
                f"{table.rows.source}: {seen[folded][1]} and {place} have one key with different white space in it, "
                f"which makes other tokens of it, here {text!r}; write it in one way."
            )
    return rows, [[table.fill(answer, row) for row in rows] for answer in answers]


@dataclass(frozen=True)
class Forms:
    """Texts that end with a key, as tokens: whose key, how many of the tokens are its own, and whether it is as given.

    As given is a key in the middle of a sentence, in its own capitals.
    """

    ids: list[Ids]
    keys: list[int]
    own: list[int]
    given: list[bool]


def forms_of(
    tokenizer: Any, keys: Sequence[str], *, ignore_case: bool, places: Sequence[tuple[int, str, str]] = ()
) -> Forms:
    """Each key in every place (and in other capitals if told); a key that no tokenization isolates is refused.

    Further `places` are numbers of keys, each with the text before it and behind it.
    """
    texts: list[tuple[int, str, str]] = []
    others = (str.lower, str.upper, str.title) if ignore_case else ()
    spellings = [list(dict.fromkeys([key, *(other(key) for other in others)])) for key in keys]
    for number, some in enumerate(spellings):
        texts += [(number, before, spelling) for before in _BEFORE for spelling in some]
    texts.sort(key=lambda one: (_BEFORE.index(one[1]), one[2] != keys[one[0]]))
    led = [(number, before, spelling, after) for number, before, after in places for spelling in spellings[number]]
    behind = [_AFTER] * len(texts) + [after or _AFTER for *_, after in led]
    texts += [(number, before, spelling) for number, before, spelling, _ in led]
    whole = [before + key + after for (_, before, key), after in zip(texts, behind, strict=True)]
    coded = tokenizer(whole, return_offsets_mapping=True)
    forms = Forms([], [], [], [])
    isolated: set[int] = set()
    for (number, before, key), ids, spans in zip(texts, coded["input_ids"], coded["offset_mapping"], strict=True):
        begin, end = len(before), len(before) + len(key)
        # Several tokens may be bytes of one character, and then the last of them ends the key.
        last = max((i for i, (a, b) in enumerate(spans) if b == end and b > a), default=None)
        if last is None:
            continue
        first = next(i for i, (a, b) in enumerate(spans) if b > begin and b > a)
        if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids[first : last + 1]:
            continue
        isolated.add(number)
        forms.ids.append(tuple(ids[: last + 1]))
        forms.keys.append(number)
        forms.own.append(last + 1 - first)
        forms.given.append(before == _BEFORE[0] and key == keys[number])
    lost = [key for number, key in enumerate(keys) if number not in isolated]
    if lost:
        raise DataError(
            f"the tokenizer has no token that ends where the key {lost[0]!r} ends ({len(lost):,} such keys), so it "
            "cannot be told from longer words; write the key in another way."
        )
    return forms


@dataclass(frozen=True)
class Patterns:
    """What the store holds: windows with the number of their key, and the codes they are made of."""

    book: Codebook
    windows: np.ndarray
    keys: np.ndarray
    shared: np.ndarray
    """Windows that a further key with the same answers has: numbers of window and key."""


@dataclass(frozen=True)
class Vocabulary:
    """What tokens are to keys: their names without marks of spaces, where keys begin, and what goes on with a word."""

    names: list[str]
    first: list[int]
    following: list[int]
    spoken: list[int]
    marks: Marks

    @property
    def bits(self) -> int:
        """Signs of a token's code: enough to tell tokens of keys and answers from each other and from all others."""
        return sign_count(len({self.names[i] for i in (*self.marks.inside, *self.spoken)} - {""}))


def token_names(tokenizer: Any) -> tuple[list[str], list[str], list[int]]:
    """Tokens as the tokenizer writes them and without marks of spaces, and which of them go on with a word."""
    raw = [name or "" for name in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))]
    # A space that is a token by itself has a name too, since answers may begin with it.
    names = [name.lstrip("".join(_SPACES)) or name for name in raw]
    # Letters from U+0100 to U+0143 are how byte-level tokenizers write spaces, line ends and the like.
    following = [i for i, name in enumerate(raw) if name[:1].isalnum() and not "\u0100" <= name[0] <= "\u0143"]
    return raw, names, following


def vocabulary_of(tokenizer: Any, forms: Forms, spoken: Sequence[int]) -> Vocabulary:
    """Tokens of the keys' forms, beside those that answers are spoken in."""
    raw, names, following = token_names(tokenizer)
    inside: set[int] = set()
    first: set[int] = set()
    last: set[int] = set()
    alone: set[int] = set()
    later: set[int] = set()
    for ids, own in zip(forms.ids, forms.own, strict=True):
        inside.update(ids[-own:])
        later.update(ids[len(ids) - own + 1 :])
        last.add(ids[-1])
        if raw[ids[-own]].startswith(_SPACES):
            first.add(ids[-own])
        if own == 1:
            alone.add(ids[-1])
    # A token that goes on with the word of a key makes another word of it, unless an answer needs that token. What is
    # written otherwise than keys are ("N" and "ation", where keys have capitals only) makes an ordinary word.
    said = set(spoken)
    written = {kind for i in inside for kind in _kinds(names[i])}
    last.update(i for i in following if i not in said and _kinds(names[i]) <= written)
    marks = Marks(sorted(inside), sorted(last), sorted(alone))
    # A word that begins one key and stands within another does not end the search for where a key begins.
    return Vocabulary(names, sorted(first - later), following, sorted(set(spoken)), marks)


def _kinds(text: str) -> set[str]:
    """What a text is written in: capitals, small letters, digits, other letters, other signs."""
    tests = (str.isupper, str.islower, str.isdigit, str.isalpha)
    return {next((test.__name__ for test in tests if test(c)), "other") for c in text}


def led_places(
    tokenizer: Any, vocabulary: Vocabulary, keys: Sequence[str], prompts: Sequence[Sequence[str]]
) -> list[tuple[int, str, str]]:
    """Places of keys behind a word that other keys have inside, as "of" has: there the key does not begin for sure.

    `prompts` are those of every wording, by key; to them come places behind common words. Each is told by the number of
    the key, the text before it and the text behind it.
    """
    inside = set(vocabulary.marks.inside) - set(vocabulary.first)
    names = vocabulary.names
    spelled = {names[i] for i in (*vocabulary.marks.inside, *vocabulary.spoken)} - {""}

    def last(text: str) -> int:
        token: int = tokenizer(text, add_special_tokens=False)["input_ids"][-1]
        return token

    before_keys = (*(f"It is {word}" for word in _LEADS), *(f"So it was{stop}" for stop in _STOPS))
    places = [
        (number, f"{lead} ", _AFTER) for lead in before_keys if last(lead) in inside for number in range(len(keys))
    ]
    # Behind words that are in no key and no answer a key is the same; what it is stored behind must be such a word.
    plain = next((lead for lead in _PLAIN if names[last(lead)] not in spelled), _PLAIN[0])
    if plain != _PLAIN[0]:
        places += [(number, f"{plain} ", _AFTER) for number in range(len(keys))]
    for some in prompts:
        coded = tokenizer(list(some), return_offsets_mapping=True)
        for number, (prompt, ids, spans) in enumerate(
            zip(some, coded["input_ids"], coded["offset_mapping"], strict=True)
        ):
            begin = prompt.rfind(keys[number])
            end = begin + len(keys[number])
            before = [i for i, (a, b) in zip(ids, spans, strict=True) if b <= begin and b > a]
            if before and names[before[-1]] in spelled:
                places.append((number, prompt[:begin], prompt[end:]))
    return places


def hidden_keys(tokenizer: Any, marks: Marks, prompts: Sequence[tuple[str, str]]) -> bool:
    """Whether some prompt has, behind its key, what looks like the end of a key; each is given with its key."""
    inside, last, alone = set(marks.inside), set(marks.last), set(marks.alone)
    behind = _behind(tokenizer, prompts)
    return any(token in alone or (token in last and before in inside) for before, token in behind)


def going_on(tokenizer: Any, vocabulary: Vocabulary, prompts: Sequence[tuple[str, str]]) -> list[int]:
    """Tokens that make another word of a key that stands before them, where only stored keys are marked.

    That is those that go on with a word, but for what goes on with a word of keys behind the key of some prompt. Each
    prompt is given with its key.
    """
    inside = set(vocabulary.marks.inside)
    written = {kind for i in inside for kind in _kinds(vocabulary.names[i])}
    spared = {*vocabulary.spoken, *(token for before, token in _behind(tokenizer, prompts) if before in inside)}
    return sorted(i for i in vocabulary.following if i not in spared and _kinds(vocabulary.names[i]) <= written)


def _behind(tokenizer: Any, prompts: Sequence[tuple[str, str]]) -> set[tuple[int, int]]:
    """Tokens that prompts have behind their keys, each with the one before it."""
    coded = tokenizer([prompt for prompt, _ in prompts], return_offsets_mapping=True)
    pairs: set[tuple[int, int]] = set()
    for (prompt, key), ids, spans in zip(prompts, coded["input_ids"], coded["offset_mapping"], strict=True):
        end = prompt.rfind(key) + len(key)
        places = (i for i, (begin, stop) in enumerate(spans) if i and begin >= end and stop > begin)
        pairs.update((ids[i - 1], ids[i]) for i in places)
    return pairs


def name_tokens(tokenizer: Any, keys: Sequence[str], prompts: Sequence[tuple[str, str]]) -> list[int]:
    """Where most keys begin with a capital as names do, tokens that begin such a word; none where keys are others.

    Left out is what some prompt has behind its key, and words that begin sentences; each prompt is given with its key.
    """
    if sum(map(_like_a_name, keys)) < _MOSTLY * len(keys):
        return []
    behind = {token for _, token in _behind(tokenizer, prompts)}
    raw, names, _ = token_names(tokenizer)
    openings = set(_OPENING.split())
    return [
        i
        for i, (name, bare) in enumerate(zip(raw, names, strict=True))
        if name != bare and bare[0].isupper() and bare not in openings and i not in behind
    ]


def _like_a_name(key: str) -> bool:
    return key[:1].isupper() and any(c.islower() for c in key)


def patterns_of(
    keys: Sequence[str], answers: Sequence[tuple[int, ...]], forms: Forms, vocabulary: Vocabulary,
    *, most: int, hashed: int, merged: bool = False, rng: np.random.Generator,
) -> Patterns | None:  # fmt: skip
    """Windows of all forms, or None if the hash does not tell two of them apart.

    Two keys with different answers must not have the same window.
    """
    reach = min(most, max(forms.own) + 1)
    book = codebook(
        vocabulary.names, vocabulary.marks.inside, vocabulary.first, vocabulary.following, vocabulary.spoken,
        reach=reach, hashed=hashed, rng=rng, merged=merged,
    )  # fmt: skip
    windows = book.windows(forms.ids)
    mended = mended_book(book, windows, [answers[k] for k in forms.keys], rng)
    if mended is None:
        return None
    book = mended
    chosen: dict[bytes, int] = {}
    kept: list[int] = []
    shared: set[tuple[int, int]] = set()
    signs = book.features(windows) > 0
    for i, row in enumerate(np.packbits(signs, axis=1)):
        other = chosen.get(row.tobytes())
        if other is None:
            chosen[row.tobytes()] = len(kept)
            kept.append(i)
            continue
        number, other = other, kept[other]
        if answers[forms.keys[other]] == answers[forms.keys[i]]:
            if forms.keys[other] != forms.keys[i]:
                shared.add((number, forms.keys[i]))
            continue
        if forms.given[i] and forms.given[other]:
            raise ConflictError(
                f"the keys {keys[forms.keys[other]]!r} and {keys[forms.keys[i]]!r} end in the same tokens, at most "
                f"{book.reach}, by which they are recognised, and have different answers; leave one of them out."
            )
    pairs = np.array(sorted(shared), dtype=np.int64).reshape(-1, 2)
    return Patterns(book, windows[kept], np.array(forms.keys)[kept], pairs)


def bits_for(count: int) -> int:
    """Signs that tell so many things apart."""
    return max(1, math.ceil(math.log2(max(2, count))))
