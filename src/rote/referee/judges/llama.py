"""The judge of stock checkpoints: the Auto classes of Hugging Face transformers, as any user would load them.

It sees files, token ids and logits only. Contexts are fed without padding, one length at a time, as a plain prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.data.outputs import Outputs
from rote.data.vocabulary import PAD
from rote.errors import CheckpointError, MissingExtra
from rote.referee._base import Judge, Stored

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["judge", "load_stock"]


def load_stock(folder: Path, number: Any) -> Any:
    """The model of a directory in a torch number format, from disk only and without custom code."""
    try:
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging
    except ImportError:
        raise MissingExtra("transformers", "hf", "a stock checkpoint") from None
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        stock = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=number, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise CheckpointError(f"transformers cannot load {folder}: {error}") from error
    return stock.eval().requires_grad_(False)  # type: ignore[no-untyped-call, unused-ignore]


class LlamaJudge(Judge):
    def outputs(self, stored: Stored, dtype: str, shortcut: Callable[..., Any] | None) -> Outputs:
        import torch

        from rote.referee.forward import TORCH_DTYPES
        from rote.referee.outputs import Scores

        if stored.folder is None:
            raise CheckpointError("a stock checkpoint is judged from its directory; save the model first.")
        stock, pad = load_stock(stored.folder, TORCH_DTYPES[dtype]), _pad_id(stored.folder)

        def logits(contexts: Tensor) -> Tensor:
            lengths = (contexts != pad).sum(dim=1)
            rows = [(lengths == length).nonzero()[:, 0] for length in torch.unique(lengths)]
            parts = [contexts[some, contexts.shape[1] - int(lengths[some[0]]) :] for some in rows]
            said = [stock(input_ids=part, use_cache=False, logits_to_keep=1).logits[:, -1] for part in parts]
            return torch.cat(said)[torch.argsort(torch.cat(rows))]

        return Scores(logits, takes="tokens")


def _pad_id(folder: Path) -> int:
    """The id of the padding token in the vocabulary of the directory; -1, which no token has, where there is none."""
    try:
        return int(json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"].get(PAD, -1))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(f"{folder / 'tokenizer.json'} holds no word-level vocabulary; build it again.") from None


judge = LlamaJudge()
