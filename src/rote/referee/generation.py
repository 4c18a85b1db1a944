"""What a language model says in free generation, and what a graft has changed of everything else.

Generation is greedy over the whole vocabulary, from the prompt alone; each token is the model's own, fed back. No row
is told its answer. A fact is recalled if the tokens up to and with the end token are those of its answer.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from rote.data.encoding import Ids, PromptIds, batches, common_prefix, encode

__all__ = ["STANDARD", "Locality", "Tally", "compared", "continuations", "recite", "shorten", "speak"]

Advance = Callable[[int], None]
_FEW = 32
"""Rows up to which a batch of several lengths is sooner done than one for each."""

STANDARD = (
    "The capital of France is",
    "Once upon a time, there was a",
    "def fibonacci(n):",
    "The opposite of hot is",
    "Airports are built outside of cities because",
)


@torch.no_grad()
def speak(
    model: Any,
    prompts: Sequence[Ids],
    lengths: Sequence[int],
    advance: Advance = lambda _: None,
    going: Callable[[Ids], bool] = lambda _: True,
) -> tuple[list[Ids], list[float]]:
    """Greedy continuations of at most the given lengths, and the probability of each first token.

    A continuation ends early where `going`, asked after each of its tokens, says so.
    """
    said: list[Ids] = [()] * len(prompts)
    sure = [0.0] * len(prompts)
    known: tuple[Ids, Any] = ((), None)
    for batch in _together(prompts, lengths):
        rows = [tuple(prompts[i]) for i in batch]
        if not rows[0]:
            # Nothing of the text is in the tokenizer's vocabulary, so there is nothing to go on from.
            continue
        shared = common_prefix(rows, min(map(len, rows)) - 1) if len(rows) > 1 else ()
        past = None
        if shared:
            # What a batch has in common at the start runs once, and often it is that of the batch before.
            if shared != known[0]:
                known = shared, model.model(input_ids=torch.tensor([shared]), use_cache=True).past_key_values
            past = copy.deepcopy(known[1])
            past.batch_repeat_interleave(len(rows))
        ids, seen = _side_by_side(rows, len(shared))
        left = list(batch)
        while left:
            out = model.model(input_ids=ids, past_key_values=past, use_cache=True, **_places(seen, ids.shape[1]))
            past = out.past_key_values
            # The head on contiguous rows: on a view of the last positions it would take ten times as long.
            logits = model.lm_head(out.last_hidden_state[:, -1].contiguous()).float()
            ids = logits.argmax(1, keepdim=True)
            if not said[left[0]]:
                for i, p in zip(left, torch.softmax(logits, 1).amax(1).tolist(), strict=True):
                    sure[i] = p
            for i, token in zip(left, ids[:, 0].tolist(), strict=True):
                said[i] += (token,)
            alive = [k for k, i in enumerate(left) if len(said[i]) < lengths[i] and going(said[i])]
            if 0 < len(alive) < len(left):
                kept = torch.tensor(alive)
                past.batch_select_indices(kept)
                ids, seen = ids[kept], None if seen is None else seen[kept]
            left = [left[k] for k in alive]
            seen = None if seen is None else torch.cat([seen, torch.ones_like(seen[:, :1])], 1)
        advance(len(batch))
    return said, sure


def _together(prompts: Sequence[Ids], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Prompts in batches: of as many tokens each, but where that would make many small ones, of about as many."""
    wanted = [i for i, n in enumerate(lengths) if n > 0]
    kept: list[int] = []
    keys = [(len(prompts[i]), lengths[i]) for i in wanted]
    for part in batches([prompts[i] for i in wanted], keys):
        batch = [wanted[i] for i in part]
        if kept and (len(kept) + len(batch) > _FEW or not prompts[kept[0]]):
            yield kept
            kept = []
        kept += batch
    if kept:
        yield kept


def _side_by_side(rows: Sequence[Ids], start: int) -> tuple[Tensor, Tensor | None]:
    """Rows from `start` on, and which places of all are seen, if not all are: shorter rows have none at first."""
    longest = max(map(len, rows))
    ids = torch.tensor([(0,) * (longest - len(row)) + row[start:] for row in rows])
    if min(map(len, rows)) == longest:
        return ids, None
    seen = [[1] * start + [0] * (longest - len(row)) + [1] * (len(row) - start) for row in rows]
    return ids, torch.tensor(seen)


def _places(seen: Tensor | None, count: int) -> dict[str, Tensor]:
    """What a model has to be told of rows of several lengths: what is seen, and where the last places are."""
    if seen is None:
        return {}
    return {"attention_mask": seen, "position_ids": (seen.cumsum(1) - 1).clamp(min=0)[:, -count:]}


def shorten(ids: Ids, end_id: int) -> Ids:
    """Up to and with the first end token."""
    return ids[: ids.index(end_id) + 1] if end_id in ids else ids


def recite(model: Any, prompts: Sequence[PromptIds], end_id: int, advance: Advance = lambda _: None) -> list[Ids]:
    """What the model says to each prompt, up to the end token or as long as its answer is."""
    # Prompts as long as each other go in one batch, whatever the lengths of their answers.
    longest: dict[int, int] = {}
    for p in prompts:
        longest[len(p.ids)] = max(longest.get(len(p.ids), 0), len(p.answer_ids))
    said, _ = speak(
        model,
        [p.ids for p in prompts],
        [longest[len(p.ids)] for p in prompts],
        advance,
        going=lambda ids: ids[-1] != end_id,
    )
    return [shorten(ids[: len(p.answer_ids)], end_id) for ids, p in zip(said, prompts, strict=True)]


def continuations(model: Any, tokenizer: Any, texts: Sequence[str], end_id: int, length: int = 16) -> list[str]:
    """Greedy continuations as text."""
    ids = encode(tokenizer, texts)
    said, _ = speak(model, ids, [length] * len(texts), going=lambda one: one[-1] != end_id)
    return [str(tokenizer.decode(list(shorten(one, end_id)), skip_special_tokens=False)) for one in said]


@dataclass(frozen=True)
class Locality:
    """Before and after on text that the fit has not seen."""

    tokens: int
    perplexity_before: float
    perplexity_after: float
    mean_kl: float
    largest_kl: float
    top1_changed: int
    touched: int
    """Tokens whose distribution moved by more than 1e-4 (KL)."""

    @property
    def perplexity_change(self) -> float:
        return self.perplexity_after / self.perplexity_before - 1.0

    def to_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "perplexity_change": self.perplexity_change,
            "top1_unchanged": 1.0 - self.top1_changed / max(1, self.tokens),
        }


class Tally:
    """Sums over tokens of what two models say."""

    def __init__(self) -> None:
        self.counts = [0, 0, 0, 0]
        self.sums = [0.0, 0.0, 0.0]
        self.largest = 0.0

    def other(self, before: Tensor, after: Tensor, following: Tensor) -> None:
        """Rows of scores of both; `following` is the next token, or -1 at the end."""
        for k, logits in enumerate((before, after)):
            self.sums[k] += float(_losses(logits, following).double().sum())
        self.counts[0] += len(before)
        self.counts[1] += int((before.argmax(1) != after.argmax(1)).sum())
        self.counts[3] += int((following >= 0).sum())
        before, after = torch.log_softmax(before, 1), torch.log_softmax(after, 1)
        kl = (before.exp() * (before - after)).sum(1)
        self.sums[2] += float(kl.double().sum())
        self.counts[2] += int((kl > 1e-4).sum())
        self.largest = max(self.largest, float(kl.max())) if len(kl) else self.largest

    def result(self) -> Locality:
        predicted = max(1, self.counts[3])
        return Locality(
            self.counts[0],
            math.exp(self.sums[0] / predicted),
            math.exp(self.sums[1] / predicted),
            max(0.0, self.sums[2] / max(1, self.counts[0])),
            self.largest,
            self.counts[1],
            self.counts[2],
        )


def _losses(logits: Tensor, following: Tensor) -> Tensor:
    some = following >= 0
    known = logits[some] if not bool(some.all()) else logits
    return torch.logsumexp(known, 1) - known.gather(1, following[some, None])[:, 0]


@torch.no_grad()
def compared(original: Any, grafted: Any, windows: Sequence[Ids], advance: Advance = lambda _: None) -> Locality:
    """Compare two models on windows of text, each run on its own."""
    tally = Tally()
    for batch in batches(windows, [len(window) for window in windows], tokens=1024):
        ids = torch.tensor([tuple(windows[i]) for i in batch])
        following = torch.cat([ids[:, 1:], torch.full((len(ids), 1), -1)], 1).flatten()
        before, after = (
            one(input_ids=ids, use_cache=False).logits.float().flatten(0, 1) for one in (original, grafted)
        )
        tally.other(before, after, following)
        advance(len(batch))
    return tally.result()
