"""The judge of stock checkpoints, who goes the way of every user: text in, AutoTokenizer, generate, text out.

A context is typed as the tokenizer of the directory separates tokens, without padding, one length at a time. A fact is
recalled if the text that comes out is its target, and its score leads. Prompts that begin alike share the work on their
beginnings, by the library's own cache of prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.data.outputs import Leads, Outputs
from rote.data.stock import first_line, load_model, load_tokenizer, with_plain_head
from rote.data.vocabulary import PAD
from rote.errors import CheckpointError
from rote.referee._base import Judge, Stored, read_object
from rote.referee.outputs import Scores

if TYPE_CHECKING:
    from torch import Tensor

    from rote.data.table import Inputs

__all__ = ["judge"]


_LONGEST_SORTED = 128
"""Tokens of a context up to which sorting facts is quick."""
_SCORES_AT_ONCE = 1 << 23
_PROMPTS = (1024, 8192)
"""The fewest and the most prompts that are run side by side: more of them share more of their beginnings."""
_ONE_RUN = 64.0
"""Tokens that are as much work as it is to run the layers at all."""


class SpokenScores(Scores):
    """Scores of every token after a text, and the token that the text which follows spells."""

    def __init__(self, folder: Path, number: Any, words: Sequence[str] | None) -> None:
        record = read_object(folder / "tokenizer.json")
        self._tokens = _vocabulary(record, folder) if words is None else tuple(words)
        fewest, most = _PROMPTS
        at_once = max(fewest, min(most, _SCORES_AT_ONCE // len(self._tokens)))
        super().__init__(self._logits, takes="tokens", rows_at_once=at_once)
        self._between, self._before_last = _separators(record, folder)
        self._ids = {token: i for i, token in enumerate(self._tokens)}
        self._tokenizer, self._model = load_tokenizer(folder), with_plain_head(load_model(folder, number))
        self._spoken: dict[int, int] = {}
        self._folder = folder

    def order(self, inputs: Inputs) -> Any:
        """By length, and prompts that begin alike side by side."""
        (contexts,) = inputs
        if contexts.shape[1] > _LONGEST_SORTED:
            return None
        padded = (contexts == self._ids.get(PAD, -1)).sum(axis=1)
        return np.lexsort((*contexts.T[::-1], padded))

    def work(self, inputs: Inputs) -> Any:
        """The tokens of a prompt."""
        (contexts,) = inputs
        return (contexts != self._ids.get(PAD, -1)).sum(axis=1)

    def leads(self, inputs: Inputs, targets: Any) -> Leads:
        """A target whose text does not come out has lost without bound, whatever its score is."""
        leads, rivals = super().leads(inputs, targets)
        right = self._said == np.asarray(targets)
        return np.where(right, leads, -np.inf), np.where(right, rivals, self._said)

    def _logits(self, contexts: Tensor) -> Tensor:
        import torch

        prompts = self._read(contexts.tolist())
        self._said = np.full(len(prompts), -1, dtype=np.int64)
        scores: Tensor | None = None
        for length in sorted({len(ids) for ids in prompts if ids}):
            rows = [i for i, ids in enumerate(prompts) if ids is not None and len(ids) == length]
            out = self._generated(torch.tensor([prompts[i] for i in rows]))
            if scores is None:
                scores = out.logits[0].new_full((len(prompts), out.logits[0].shape[1]), float("nan"))
            scores[rows] = out.logits[0]
            self._said[rows] = [self._spelled(int(i)) for i in out.sequences[:, -1]]
        return torch.full((len(prompts), len(self._tokens)), float("nan")) if scores is None else scores

    def _generated(self, batch: Tensor) -> Any:
        """One more token, as the directory's own settings have it."""
        import torch

        settings = self._model.generation_config
        if settings.do_sample or (settings.num_beams or 1) > 1:
            raise CheckpointError(
                f"{self._folder / 'generation_config.json'} has the library draw answers or search for them, so that "
                "what comes out is not what the model says; build it again."
            )
        more: dict[str, Any] = {"max_new_tokens": 1, "return_dict_in_generate": True, "output_logits": True}
        try:
            more["past_key_values"] = self._begun(batch)
            return self._model.generate(input_ids=batch, attention_mask=torch.ones_like(batch), **more)
        except Exception as error:  # settings that the library cannot go by
            raise CheckpointError(
                f"transformers cannot generate with {self._folder}: {first_line(error)}; its generation_config.json "
                "was altered, build it again."
            ) from error

    def _begun(self, batch: Tensor) -> Any:
        """What the library keeps of the beginnings of these prompts, each run once; None where few begin alike."""
        import torch

        firsts = [torch.arange(len(batch)) == 0]
        for column in batch.T[:-1]:
            firsts.append(firsts[-1] | torch.cat([firsts[0][:1], column[1:] != column[:-1]]))
        stops = _stops([int(first.sum()) for first in firsts[1:]] + [len(batch)])
        cache, before, at = None, firsts[0], 0
        for stop in stops:
            rows = firsts[stop]
            if cache is not None:
                cache.batch_select_indices((before.cumsum(0) - 1)[rows])
            tokens = batch[rows, at:stop]
            cache = self._model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache, before, at = cache.past_key_values, rows, stop
        if cache is not None:
            cache.batch_select_indices(before.cumsum(0) - 1)
        return cache

    def _read(self, contexts: Sequence[Sequence[int]]) -> list[list[int] | None]:
        """What the tokenizer makes of contexts as one types them; None where it refuses a text."""
        texts = [self._typed(row) for row in contexts]
        try:
            return list(self._tokenizer(texts)["input_ids"])
        except Exception:  # the library has no class for an unknown word
            return [self._read_alone(text) for text in texts]

    def _read_alone(self, text: str) -> list[int] | None:
        try:
            ids: list[int] = self._tokenizer(text)["input_ids"]
        except Exception:
            return None
        return ids

    def _typed(self, row: Sequence[int]) -> str:
        *first, last = [self._tokens[i] for i in row if self._tokens[i] != PAD]
        return self._between.join(first) + (self._before_last if first else "") + last

    def _spelled(self, token: int) -> int:
        """The number of the text that a token is decoded to; -1 where it is none of the table's."""
        if token not in self._spoken:
            self._spoken[token] = self._ids.get(str(self._tokenizer.decode([token], skip_special_tokens=True)), -1)
        return self._spoken[token]


def _stops(counts: Sequence[int]) -> list[int]:
    """Where to stop on the way to whole prompts so that the fewest tokens are run, if `counts[n - 1]` beginnings of n
    tokens differ: at each stop all of them go on together, for what is as much work as some tokens more."""
    length = len(counts)
    least, way = [0.0], [list[int]()]
    for n in range(1, length + 1):
        tokens, last = min((least[m] + (n - m) * counts[n - 1] + _ONE_RUN, m) for m in range(n))
        least.append(tokens)
        way.append([*way[last], n])
    return way[length][:-1]


class LlamaJudge(Judge):
    def outputs(self, stored: Stored, dtype: str, shortcut: Callable[..., Any] | None) -> Outputs:
        from rote.referee.forward import TORCH_DTYPES

        if stored.folder is None:
            raise CheckpointError("a stock checkpoint is judged from its directory; save the model first.")
        return SpokenScores(stored.folder, TORCH_DTYPES[dtype], stored.words)


def _vocabulary(record: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(record["model"]["vocab"], key=record["model"]["vocab"].__getitem__))
    except (KeyError, TypeError, AttributeError):
        raise CheckpointError(f"{folder / 'tokenizer.json'} holds no word-level vocabulary; build it again.") from None


def _separators(record: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    """What stands between two tokens of a text, and before the last one, by the rule that the tokenizer cuts with."""
    cut = record.get("pre_tokenizer")
    rule = (cut.get("type"), cut.get("pattern")) if isinstance(cut, dict) else None
    known = [
        (("WhitespaceSplit", None), (" ", " ")),
        (("Split", {"String": "\t"}), ("\t", "\t")),
        (("Split", {"Regex": r"[\s\S]"}), ("", "")),
        (("Split", {"Regex": r"(?<=\t)[^\t]+|[^\t]"}), ("", "\t")),
        (("Split", {"Regex": r"(?<=\t)[^\t]+|\S+"}), (" ", "\t")),
    ]
    marks = next((marks for one, marks in known if one == rule), None)
    if marks is None:
        raise CheckpointError(f"{folder / 'tokenizer.json'} cuts texts by a rule that is not rote's; build it again.")
    return marks


judge = LlamaJudge()
