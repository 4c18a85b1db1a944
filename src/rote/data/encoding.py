"""Prompts as text, as the tokens of a given tokenizer, and in batches.

A fact with an answer of k tokens is k + 1 rows for a fit: after the prompt comes the first token, after the prompt and
the first token the second, and after the whole answer the end token. A model that gets every row right says the whole
answer and stops, because in greedy generation each state depends on the tokens before it only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rote.errors import ConflictError, DataError

__all__ = [
    "Continuation",
    "Ids",
    "Prompt",
    "PromptIds",
    "batches",
    "common_prefix",
    "encode",
    "encode_prompts",
    "refuse_clashes",
]

Ids = tuple[int, ...]
_TOKENS = 4096


@dataclass(frozen=True)
class Prompt:
    """One fact as text. `row` and `template` are numbers from 0, `source` and `place` say where it stands."""

    row: int
    template: int
    text: str
    answer: str
    source: str
    place: str


@dataclass(frozen=True)
class Continuation:
    """What a model says after a prompt, as tokens and as text, and what it should."""

    ids: Ids
    text: str
    wanted: Ids

    @property
    def right(self) -> bool:
        return self.ids == self.wanted


@dataclass(frozen=True)
class PromptIds:
    """One fact as tokens; `answer_ids` ends with the end token."""

    ids: Ids
    answer_ids: Ids

    @property
    def rows(self) -> list[tuple[Ids, int]]:
        """What comes before each token of the answer, and that token."""
        return [(self.ids + self.answer_ids[:k], token) for k, token in enumerate(self.answer_ids)]


def encode(tokenizer: Any, texts: Sequence[str]) -> list[Ids]:
    """Token ids as the tokenizer gives them to a user, without an end token that it may append."""
    if not texts:
        return []
    end = tokenizer.eos_token_id
    rows = [tuple(ids) for ids in tokenizer(list(texts))["input_ids"]]
    return [ids[:-1] if len(ids) > 1 and ids[-1] == end and _appends(tokenizer) else ids for ids in rows]


def _appends(tokenizer: Any) -> bool:
    """Whether the tokenizer puts an end token after every text."""
    ids = tokenizer("a")["input_ids"]
    return bool(ids) and ids[-1] == tokenizer.eos_token_id


def encode_prompts(prompts: Sequence[Prompt], tokenizer: Any, *, end_id: int, context: int) -> list[PromptIds]:
    """Prompts and answers as tokens, checked.

    Refused are answers that the tokenizer cannot produce, what does not fit into the context, and facts that would need
    two next tokens after one sequence.
    """
    facts: list[PromptIds] = []
    alone = encode(tokenizer, [one.text for one in prompts])
    whole = encode(tokenizer, [one.text + one.answer for one in prompts])
    for one, ids, both in zip(prompts, alone, whole, strict=True):
        where = f"{one.source}: {one.place}"
        if not ids:
            raise DataError(f"{where}: the prompt {one.text!r} has no tokens; write more into the template.")
        tail = both[len(ids) :]
        if both[: len(ids)] != ids:
            tail = tuple(tokenizer(one.answer, add_special_tokens=False)["input_ids"])
        _check_answer(tokenizer, ids, tail, one.answer, where)
        if len(ids) + len(tail) + 1 > context:
            raise DataError(
                f"{where}: prompt and answer are {len(ids) + len(tail) + 1:,} tokens, but the model's context is "
                f"{context:,}; shorten the template or the cells."
            )
        facts.append(PromptIds(ids, (*tail, end_id)))
    refuse_clashes(prompts, [fact.rows for fact in facts])
    return facts


def _check_answer(tokenizer: Any, ids: Ids, tail: Ids, answer: str, where: str) -> None:
    before = tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    after = tokenizer.decode(list(ids + tail), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    unknown = tokenizer.unk_token_id
    if not tail or (unknown is not None and unknown in tail) or after != before + answer:
        read = after[len(before) :] if after.startswith(before) else after
        raise DataError(
            f"{where}: the tokenizer cannot produce the answer {answer!r}, it reads back as {read!r}; write the answer "
            "in characters that the tokenizer knows, and begin it with a space if the template does not end in one."
        )


def refuse_clashes(prompts: Sequence[Prompt], facts: Sequence[Sequence[tuple[Hashable, Hashable]]]) -> None:
    """Refuse facts that would need two things after one: each is given as what comes first, and what must follow."""
    following: dict[Hashable, tuple[Hashable, int]] = {}
    clashes: list[tuple[int, int]] = []
    for i, rows in enumerate(facts):
        for prefix, token in rows:
            before, other = following.setdefault(prefix, (token, i))
            if before != token:
                clashes.append((other, i))
                break
    if clashes:
        first, second = (prompts[i] for i in clashes[0])
        more = f"; {len(clashes):,} such pairs in all" if len(clashes) > 1 else ""
        alike = facts[clashes[0][0]][0][0] == facts[clashes[0][1]][0][0]
        same = "the same prompt has" if alike else "one prompt goes on as the other does; they have"
        raise ConflictError(
            f"{first.source}: {first.place} and {second.place} contradict: {same} different answers, {first.text!r} + "
            f"{first.answer!r} against {second.text!r} + {second.answer!r}{more}. Correct them, or write more columns "
            "into the template."
        )


def common_prefix(sequences: Sequence[Sequence[int]], limit: int) -> Ids:
    """The longest common beginning of at most `limit` tokens."""
    ordered = [tuple(ids) for ids in sequences]
    low, high = min(ordered), max(ordered)
    length = 0
    while length < min(limit, len(low), len(high)) and low[length] == high[length]:
        length += 1
    return tuple(low[:length])


def batches(sequences: Sequence[Sequence[int]], keys: Sequence[Any], tokens: int = _TOKENS) -> Iterator[list[int]]:
    """Indices in batches of equal keys (such as lengths), neighbours alike; about `tokens` tokens a batch."""
    order = sorted(range(len(sequences)), key=lambda i: (keys[i], tuple(sequences[i])))
    batch: list[int] = []
    for i in order:
        if batch and (keys[i] != keys[batch[0]] or len(batch) * len(sequences[i]) >= tokens):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
