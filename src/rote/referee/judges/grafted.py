"""The judge of a language model that facts were grafted on: greedy, in free generation, over the whole vocabulary.

The directory is loaded by the stock classes of transformers, as any user would, and nothing in it is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rote.data.encoding import Continuation, Prompt, encode_prompts
from rote.data.outputs import Outputs
from rote.data.stock import load_model, load_tokenizer
from rote.errors import CheckpointError
from rote.referee._base import Judge, Stored

__all__ = ["judge"]


class Spoken(Outputs):
    """What a model says when it is left to go on."""

    gives = "text that goes on"
    takes = "text"

    def __init__(self, folder: Path, dtype: str) -> None:
        from rote.referee.forward import TORCH_DTYPES

        self.tokenizer, self.model = load_tokenizer(folder), load_model(folder, TORCH_DTYPES[dtype])
        self.end = _end(self.model, self.tokenizer, folder)
        self.context = int(getattr(self.model.config, "max_position_embeddings", 0) or 1 << 30)

    def continuations(self, prompts: Sequence[Prompt]) -> list[Continuation]:
        from rote.referee.generation import recite

        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            if self.advance is not None:
                self.advance(done)

        facts = encode_prompts(prompts, self.tokenizer, end_id=self.end, context=self.context)
        said = recite(self.model, facts, self.end, advance)
        return [
            Continuation(ids, str(self.tokenizer.decode(list(ids), skip_special_tokens=False)), fact.answer_ids)
            for ids, fact in zip(said, facts, strict=True)
        ]


def _end(model: Any, tokenizer: Any, folder: Path) -> int:
    """Where generation stops: at the tokenizer's end token, unless the model stops at others only."""
    stops = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    stops = model.config.eos_token_id if stops is None else stops
    stops = [stops] if isinstance(stops, int) else list(stops or [])
    own = tokenizer.eos_token_id
    if own is not None and (own in stops or not stops):
        return int(own)
    if not stops:
        raise CheckpointError(f"{folder} names no end-of-sequence token, so no answer could be seen to end.")
    return int(stops[0])


class GraftedJudge(Judge):
    dtypes = ("float32", "bfloat16", "float16")

    def no_use_for(self, dtype: str) -> str:
        return f"a pretrained model is not run as {dtype}; choose one of {', '.join(self.dtypes)}."

    def outputs(self, stored: Stored, dtype: str, shortcut: Callable[..., Any] | None) -> Outputs:
        if stored.folder is None:
            raise CheckpointError("a grafted model is judged from its directory; save it first.")
        return Spoken(stored.folder, dtype)


judge = GraftedJudge()
