"""Any causal language model asked in text: facts as a person would type them, and what the model goes on with.

Generation is greedy, by the model's own `generate`, for exactly as many tokens as the tokenizer makes of the answer. A
fact is recalled if these tokens read as its answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rote.data.encoding import Continuation, Prompt, batches, encode
from rote.data.outputs import Leads, Outputs
from rote.errors import UsageError

if TYPE_CHECKING:
    from rote.data.table import Inputs

__all__ = ["TextOutputs"]


class TextOutputs(Outputs):
    """What a model of Hugging Face transformers says, by its tokenizer.

    `spell` turns a context of token ids into text and `words` are the answers by id; tables of prompts need neither.
    """

    gives = "text that goes on"
    takes = "text"
    judged_by = "the model's own generation"
    rows_at_once = 256

    def __init__(
        self, model: Any, tokenizer: Any, words: Sequence[str], spell: Callable[[Sequence[int]], str], mark: str
    ) -> None:
        if not callable(getattr(model, "generate", None)) or not callable(tokenizer):
            raise UsageError(
                f"a {type(model).__name__} does not generate text; give a causal language model of transformers with "
                "its tokenizer, or a module that maps contexts to logits without one."
            )
        self._model, self._tokenizer, self._words, self._spell, self._mark = model, tokenizer, words, spell, mark

    def leads(self, inputs: Inputs, targets: Any) -> Leads:
        """Without bound, as text has no margin: a fact is said, or it is not."""
        goals = np.asarray(targets)
        if goals.ndim != 1 or not self._words:
            raise self.refusal("one answer in words")
        texts = [self._spell(row) for row in np.asarray(inputs[0]).tolist()]
        answers = [self._words[int(i)] for i in goals]
        said = self._continued(texts, [f"{self._mark}{answer}" for answer in answers])
        right = np.array([one.strip() == answer.strip() for one, answer in zip(said, answers, strict=True)])
        known = {word: i for i, word in enumerate(self._words)}
        spoken = np.array([known.get(one.strip(), -1) for one in said], dtype=np.int64)
        return np.where(right, math.inf, -math.inf), np.where(right, goals, spoken)

    def continuations(self, prompts: Sequence[Prompt]) -> list[Continuation]:
        said = self._continued([one.text for one in prompts], [one.answer for one in prompts])
        return [
            Continuation((int(text.strip() == one.answer.strip()),), text, (1,))
            for one, text in zip(prompts, said, strict=True)
        ]

    def _continued(self, texts: Sequence[str], answers: Sequence[str]) -> list[str]:
        """What the model goes on with, as long as each answer is."""
        alone = encode(self._tokenizer, texts)
        whole = encode(self._tokenizer, [text + answer for text, answer in zip(texts, answers, strict=True)])
        lengths = [max(1, len(both) - len(ids)) for ids, both in zip(alone, whole, strict=True)]
        said = [""] * len(texts)
        device = next((p.device for p in self._model.parameters()), None)
        with torch.no_grad():
            for batch in batches(alone, [(len(ids), n) for ids, n in zip(alone, lengths, strict=True)]):
                if not alone[batch[0]]:
                    continue
                ids = torch.tensor([alone[i] for i in batch], device=device)
                made = self._model.generate(
                    input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=lengths[batch[0]],
                    do_sample=False, num_beams=1, pad_token_id=self._pad(),
                )  # fmt: skip
                for i, row in zip(batch, made[:, ids.shape[1] :].tolist(), strict=True):
                    said[i] = str(self._tokenizer.decode(row, skip_special_tokens=True))
        return said

    def _pad(self) -> int:
        for name in ("pad_token_id", "eos_token_id"):
            if getattr(self._tokenizer, name, None) is not None:
                return int(getattr(self._tokenizer, name))
        return 0
