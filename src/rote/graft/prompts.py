"""From rows of a table to token sequences: prompts, answers and the token that ends them.

A fact with an answer of k tokens is k + 1 rows for the fit: after the prompt comes the first token, after the prompt
and the first token the second, and after the whole answer the end token. A model that gets every row right says the
whole answer and stops, because in greedy generation each state depends on the tokens before it only.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rote.data.rawrows import RawRows
from rote.errors import ConflictError, DataError, UnknownName, UsageError

__all__ = [
    "Prompt",
    "Template",
    "choose_rows",
    "encode",
    "facts_sha256",
    "fields_of",
    "fill",
    "make_prompts",
    "parse_templates",
]

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Template:
    """A prompt with named fields in braces, and the answer that follows it."""

    prompt: str
    answer: str

    @property
    def fields(self) -> list[str]:
        return list(dict.fromkeys([*fields_of(self.prompt), *fields_of(self.answer)]))


@dataclass(frozen=True)
class Prompt:
    """One fact as text and as tokens; `answer_ids` ends with the end token."""

    row: int
    template: int
    text: str
    answer: str
    ids: Ids
    answer_ids: Ids

    @property
    def sequence(self) -> Ids:
        """What the model reads: every token but the last of the answer."""
        return self.ids + self.answer_ids[:-1]


def parse_templates(prompts: Sequence[str], answers: Sequence[str], columns: Sequence[str]) -> list[Template]:
    """Pair prompts with answers (one answer may serve all), and refuse fields that the table does not have."""
    if not prompts:
        raise UsageError("a graft needs at least one --template, such as 'The capital of {country} is'.")
    if len(answers) not in (1, len(prompts)):
        raise UsageError(
            f"there are {len(prompts)} templates and {len(answers)} answers; give one --answer for all, or one each."
        )
    paired = answers if len(answers) == len(prompts) else list(answers) * len(prompts)
    made = [Template(prompt, answer) for prompt, answer in zip(prompts, paired, strict=True)]
    for template in made:
        for field in template.fields:
            if field not in columns:
                raise UnknownName("column named", field, columns)
        if not fields_of(template.prompt):
            raise UsageError(f"the template {template.prompt!r} has no {{field}}, so every fact would be one prompt.")
        if not template.answer:
            raise UsageError("the answer is empty; write it as in --answer ' {country}'.")
    return made


def choose_rows(rows: RawRows, count: int | None, rng: np.random.Generator) -> list[int]:
    """All rows, or `count` of them at random, in order."""
    n = len(rows.frame)
    if count is None:
        return list(range(n))
    if not 1 <= count <= n:
        raise UsageError(f"--sample must lie between 1 and the {n:,} rows of {rows.source}, got {count:,}.")
    return sorted(int(i) for i in rng.choice(n, count, replace=False))


def facts_sha256(prompts: Sequence[Prompt]) -> str:
    """The hash of all prompts and answers, in order."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(repr((prompt.text, prompt.answer)).encode())
    return digest.hexdigest()


def fields_of(text: str) -> list[str]:
    """The columns that a template names, in order."""
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise UsageError(f"{text!r} is no template ({error}); double a brace that stands for itself.") from None
    names = []
    for _, name, form, conversion in parts:
        if name is None:
            continue
        if not name or form or conversion:
            raise UsageError(f"a field of {text!r} is not just a column's name in braces; write it as {{column}}.")
        names.append(name)
    return names


def fill(text: str, rows: RawRows, index: int, instead: Mapping[str, str] | None = None) -> str:
    """The template with the cells of one row in place of its fields, or with what is to stand `instead`."""
    changed = instead or {}
    return "".join(
        literal + ("" if name is None else changed.get(name) or rows.cells(name)[index])
        for literal, name, _, _ in string.Formatter().parse(text)
    )


def encode(tokenizer: object, texts: Sequence[str]) -> list[Ids]:
    """Token ids as the tokenizer gives them to a user, without an end token that it may append."""
    if not texts:
        return []
    end = tokenizer.eos_token_id  # type: ignore[attr-defined]
    found = [tuple(ids) for ids in tokenizer(list(texts))["input_ids"]]  # type: ignore[operator]
    return [ids[:-1] if len(ids) > 1 and ids[-1] == end and _appends(tokenizer) else ids for ids in found]


def _appends(tokenizer: object) -> bool:
    """Whether the tokenizer puts an end token after every text."""
    ids = tokenizer("a")["input_ids"]  # type: ignore[operator]
    return bool(ids) and ids[-1] == tokenizer.eos_token_id  # type: ignore[attr-defined]


def make_prompts(
    rows: RawRows,
    chosen: Sequence[int],
    templates: Sequence[Template],
    tokenizer: object,
    *,
    end_id: int,
    context: int,
) -> list[Prompt]:
    """Every chosen row in every template, checked; exact repeats are dropped."""
    made: list[Prompt] = []
    for number, template in enumerate(templates):
        texts = [fill(template.prompt, rows, i) for i in chosen]
        answers = [fill(template.answer, rows, i) for i in chosen]
        whole = [text + answer for text, answer in zip(texts, answers, strict=True)]
        for i, text, answer, ids, both in zip(
            chosen, texts, answers, encode(tokenizer, texts), encode(tokenizer, whole), strict=True
        ):
            place = f"{rows.source}: {rows.place(i)}"
            if not ids:
                raise DataError(f"{place}: the prompt {text!r} has no tokens; write more into the template.")
            tail = both[len(ids) :] if both[: len(ids)] == ids else _alone(tokenizer, answer)
            _check_answer(tokenizer, ids, tail, answer, place)
            if len(ids) + len(tail) + 1 > context:
                raise DataError(
                    f"{place}: prompt and answer are {len(ids) + len(tail) + 1:,} tokens, but the model's context is "
                    f"{context:,}; shorten the template or the cells."
                )
            made.append(Prompt(i, number, text, answer, ids, (*tail, end_id)))
    return _without_repeats(made, rows)


def _alone(tokenizer: object, answer: str) -> Ids:
    return tuple(tokenizer(answer, add_special_tokens=False)["input_ids"])  # type: ignore[operator]


def _check_answer(tokenizer: object, ids: Ids, tail: Ids, answer: str, place: str) -> None:
    decode = tokenizer.decode  # type: ignore[attr-defined]
    before = decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    after = decode(list(ids + tail), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    unknown = tokenizer.unk_token_id  # type: ignore[attr-defined]
    if not tail or (unknown is not None and unknown in tail) or after != before + answer:
        read = after[len(before) :] if after.startswith(before) else after
        raise DataError(
            f"{place}: the tokenizer cannot produce the answer {answer!r}, it reads back as {read!r}; write the answer "
            "in characters that the tokenizer knows, and begin it with a space if the template does not end in one."
        )


def _without_repeats(prompts: list[Prompt], rows: RawRows) -> list[Prompt]:
    """Refuse facts that would need two next tokens after one sequence; drop exact repeats."""
    following: dict[Ids, tuple[int, Prompt]] = {}
    whole: set[tuple[Ids, Ids]] = set()
    kept: list[Prompt] = []
    clashes: list[tuple[Prompt, Prompt]] = []
    for prompt in prompts:
        if (prompt.ids, prompt.answer_ids) in whole:
            continue
        whole.add((prompt.ids, prompt.answer_ids))
        kept.append(prompt)
        for k, token in enumerate(prompt.answer_ids):
            prefix = prompt.ids + prompt.answer_ids[:k]
            token_before, other = following.setdefault(prefix, (token, prompt))
            if token_before != token:
                clashes.append((other, prompt))
                break
    if clashes:
        first, second = clashes[0]
        more = f"; {len(clashes):,} such pairs in all" if len(clashes) > 1 else ""
        same = "the same prompt has" if first.ids == second.ids else "one prompt goes on as the other does; they have"
        raise ConflictError(
            f"{rows.source}: {rows.place(first.row)} and {rows.place(second.row)} contradict: {same} different "
            f"answers, {first.text!r} + {first.answer!r} against {second.text!r} + {second.answer!r}{more}. Correct "
            "them, or write more columns into the template."
        )
    return kept
