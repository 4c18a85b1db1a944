"""What the grafted model on disk says: whole answers in free generation, and what became of everything else.

Generation is greedy over the whole vocabulary, from the prompt alone; each token is the model's own, fed back. No row
is told its answer. A fact is recalled if the tokens up to and with the end token are those of its answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from rote.graft.prompts import Prompt, encode
from rote.graft.states import Prefixes, batches, common_prefix

__all__ = ["STANDARD", "Locality", "continuations", "locality", "recite", "shorten", "speak"]

Ids = tuple[int, ...]
Advance = Callable[[int], None]

STANDARD = (
    "The capital of France is",
    "Once upon a time, there was a",
    "def fibonacci(n):",
    "The opposite of hot is",
    "Airports are built outside of cities because",
)


@torch.no_grad()
def speak(
    model: Any, prompts: Sequence[Ids], lengths: Sequence[int], advance: Advance = lambda _: None
) -> tuple[list[Ids], list[float]]:
    """Greedy continuations of the given lengths, and the probability of each first token."""
    said: list[Ids] = [()] * len(prompts)
    sure = [0.0] * len(prompts)
    prefixes = Prefixes(model)
    for batch in batches(prompts, [(len(p), n) for p, n in zip(prompts, lengths, strict=True)]):
        rows = [tuple(prompts[i]) for i in batch]
        shared = common_prefix(rows, len(rows[0]) - 1) if len(rows) > 1 else ()
        past = prefixes(shared, len(rows))
        ids = torch.tensor([row[len(shared) :] for row in rows])
        tokens: list[Tensor] = []
        for step in range(lengths[batch[0]]):
            out = model(input_ids=ids, past_key_values=past, use_cache=True, logits_to_keep=1)
            past = out.past_key_values
            logits = out.logits[:, -1].float()
            ids = logits.argmax(1, keepdim=True)
            if step == 0:
                chance = torch.softmax(logits, 1).amax(1)
            tokens.append(ids)
        for i, row, p in zip(batch, torch.cat(tokens, 1).tolist(), chance.tolist(), strict=True):
            said[i], sure[i] = tuple(row), p
        advance(len(batch))
    return said, sure


def shorten(ids: Ids, end_id: int) -> Ids:
    """Up to and with the first end token."""
    return ids[: ids.index(end_id) + 1] if end_id in ids else ids


def recite(model: Any, prompts: Sequence[Prompt], end_id: int, advance: Advance = lambda _: None) -> list[Ids]:
    """What the model says to each prompt, up to the end token or as long as the right answer is."""
    said, _ = speak(model, [p.ids for p in prompts], [len(p.answer_ids) for p in prompts], advance)
    return [shorten(ids, end_id) for ids in said]


def continuations(model: Any, tokenizer: Any, texts: Sequence[str], end_id: int, length: int = 16) -> list[str]:
    """Greedy continuations as text."""
    ids = encode(tokenizer, texts)
    said, _ = speak(model, ids, [length] * len(texts))
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


@torch.no_grad()
def locality(
    original: Any, grafted: Any, windows: Sequence[Ids], states: Tensor, advance: Advance = lambda _: None
) -> Locality:
    """Compare the grafted model with the original, whose states (one after the other) are known already."""
    counts = [0, 0, 0]
    sums = [0.0, 0.0, 0.0]
    largest = 0.0
    offset = 0
    starts = {}
    for i, window in enumerate(windows):
        starts[i] = offset
        offset += len(window)
    for batch in batches(windows, [len(window) for window in windows], tokens=1024):
        ids = torch.tensor([tuple(windows[i]) for i in batch])
        after = grafted(input_ids=ids, use_cache=False).logits.float()
        known = torch.stack([states[starts[i] : starts[i] + ids.shape[1]] for i in batch])
        before = original.lm_head(original.model.norm(known.to(original.dtype))).float()
        counts[0] += ids.numel()
        counts[1] += int((before.argmax(2) != after.argmax(2)).sum())
        before, after = torch.log_softmax(before, 2), torch.log_softmax(after, 2)
        kl = (before.exp() * (before - after)).sum(2)
        sums[2] += float(kl.double().sum())
        largest = max(largest, float(kl.max()))
        counts[2] += int((kl > 1e-4).sum())
        following = ids[:, 1:, None]
        for k, logs in enumerate((before, after)):
            sums[k] -= float(logs[:, :-1].gather(2, following).double().sum())
        advance(len(batch))
    predicted = counts[0] - len(windows)
    return Locality(
        counts[0],
        math.exp(sums[0] / predicted),
        math.exp(sums[1] / predicted),
        max(0.0, sums[2] / counts[0]),
        largest,
        counts[1],
        counts[2],
    )
