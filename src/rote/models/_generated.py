"""Text that goes on by the library's own generate()."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rote.data.encoding import Continuation, Prompt, encode_prompts
from rote.data.outputs import Outputs
from rote.models._pretrained import context_of, end_token

__all__ = ["Generated"]


class Generated(Outputs):
    """Continuations by the library's own generate(), one prompt at a time."""

    gives = "text that goes on"
    takes = "text"

    def __init__(self, module: Any, tokenizer: Any, folder: Path) -> None:
        self.module, self.tokenizer, self.end = module, tokenizer, end_token(tokenizer, module, folder)

    def continuations(self, prompts: Sequence[Prompt]) -> list[Continuation]:
        facts = encode_prompts(prompts, self.tokenizer, end_id=self.end, context=context_of(self.module))
        said = [tuple(self.spoken(fact.ids, len(fact.answer_ids))) for fact in facts]
        return [
            Continuation(ids, str(self.tokenizer.decode(list(ids), skip_special_tokens=False)), fact.answer_ids)
            for ids, fact in zip(said, facts, strict=True)
        ]

    def spoken(
        self, ids: Sequence[int], length: int, heard: Callable[[Sequence[int]], None] | None = None
    ) -> list[int]:
        """A greedy continuation of at most so many tokens; each is told to `heard` as it comes."""
        given = torch.tensor([list(ids)])
        with torch.no_grad():
            out = self.module.generate(
                given,
                attention_mask=torch.ones_like(given),
                max_new_tokens=length,
                do_sample=False,
                repetition_penalty=1.0,
                eos_token_id=self.end,
                pad_token_id=self.end,
                streamer=None if heard is None else _Listener(heard),
            )
        said: list[int] = out[0, given.shape[1] :].tolist()
        return said


class _Listener:
    """What the library calls a streamer: it is handed the prompt, and then token after token."""

    def __init__(self, heard: Callable[[Sequence[int]], None]) -> None:
        self._heard, self._begun = heard, False

    def put(self, tokens: Tensor) -> None:
        if self._begun:
            self._heard(tokens.flatten().tolist())
        self._begun = True

    def end(self) -> None:
        """There is nothing left to be told."""
