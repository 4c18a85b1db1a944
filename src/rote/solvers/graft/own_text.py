"""The model's own prose: what it writes when it is let go, sampled from many openings.

A text that somebody hands over covers some subjects; what the model itself writes covers what it was made for, and
costs no data. Gates that stay shut on it stay shut on ordinary prose. The states come with the sampling, for nothing.

Every third window begins with an answer in another sentence, because the states that resemble those of facts most are
those inside of the same names in ordinary text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rote.data.encoding import encode
from rote.solvers.graft.states import Advance, Cache

__all__ = ["OPENINGS", "own_text"]

OPENINGS = (
    "The", "In the", "A", "When I", "He was", "She said that", "It is", "There are", "My", "We", "This", "Last year",
    "At the", "One day", "According to", "People who", "For example,", "How to", "Dear", "#", "import", "1.",
    "Question:", "In the city of", "The village of", "He lives in", "They were born in", "The river flows through",
    "Yesterday", "If", "The company", "Scientists", "Thank you", "In 1999,", "The first", "Some", "You can", "Write",
    "What is", "The most", "On the", "Our", "After the", "Because", "These", "Dr.", "While", "Here is",
)  # fmt: skip
_LENGTH = 96
_BEFORE_ANSWERS = (
    "People from", "The history of", "She wrote about", "This is about", "They talked of", "A letter to", "We like",
    "Nothing is known of",
)  # fmt: skip


def _openings(count: int, answers: Sequence[str], seed: int) -> list[str]:
    draw = np.random.default_rng(seed)
    openings = [OPENINGS[k % len(OPENINGS)] for k in draw.permutation(count)]
    for k in range(0, count, 3):
        answer = answers[int(draw.integers(len(answers)))]
        space = "" if answer[:1].isspace() else " "
        openings[k] = _BEFORE_ANSWERS[int(draw.integers(len(_BEFORE_ANSWERS)))] + space + answer
    return openings


@torch.no_grad()
def own_text(
    model: Any,
    tokenizer: Any,
    count: int,
    answers: Sequence[str],
    *,
    rng: np.random.Generator,
    cache: Cache,
    key: str,
    advance: Advance,
) -> tuple[list[tuple[int, ...]], Tensor]:
    """`count` windows sampled at temperature 1, and their states, one window after the other."""
    name = f"own-{key}-{count}"
    known = cache.get(f"{name}-ids"), cache.get(f"{name}-states")
    seed = int(rng.integers(1 << 62))
    if known[0] is not None and known[1] is not None:
        return [tuple(row) for row in known[0].tolist()], known[1]
    generator = torch.Generator().manual_seed(seed)
    # Openings of several tokens are fed one token at a time, so that all windows stay in step.
    usable = [ids for ids in encode(tokenizer, _openings(count, answers, seed)) if ids] or [(0,)]
    chosen = [usable[k % len(usable)] for k in range(count)]
    length = min(_LENGTH, int(getattr(model.config, "max_position_embeddings", 0) or _LENGTH))
    ids = torch.tensor([[start[0]] for start in chosen])
    whole = [ids]
    caught: list[Tensor] = []
    hook = model.model.norm.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0].float()))
    past = None
    try:
        for step in range(length):
            out = model.model(input_ids=ids, past_key_values=past, use_cache=True)
            past = out.past_key_values
            advance(1)
            if step == length - 1:
                break
            chances = torch.softmax(model.lm_head(out.last_hidden_state[:, -1].contiguous()).float(), 1)
            ids = torch.multinomial(chances, 1, generator=generator)
            given = torch.tensor([start[step + 1] if step + 1 < len(start) else -1 for start in chosen])[:, None]
            ids = torch.where(given >= 0, given, ids)
            whole.append(ids)
    finally:
        hook.remove()
    tokens = torch.cat(whole, 1)
    states = torch.cat(caught, 1).flatten(0, 1)
    cache.put(f"{name}-ids", tokens)
    cache.put(f"{name}-states", states)
    return [tuple(row) for row in tokens.tolist()], states
