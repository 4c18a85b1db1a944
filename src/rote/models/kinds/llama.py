"""The stock road: a model directory read by the Auto classes of Hugging Face transformers, as any user would.

Shares no code with the builders: it sees files, token ids and logits only. Contexts are fed without padding, one length
at a time, as a plain prompt would be.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rote.errors import CheckpointError, MissingExtra

__all__ = ["load_stock", "stock_logits"]


def load_stock(directory: str | Path) -> Any:
    """The model as stored, from disk only and without custom code."""
    try:
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging
    except ImportError:
        raise MissingExtra("transformers", "hf", "a stock Llama checkpoint") from None
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        model = AutoModelForCausalLM.from_pretrained(str(directory), dtype="auto", local_files_only=True)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"transformers cannot load {directory}: {error}") from error
    return model.eval().requires_grad_(False)  # type: ignore[no-untyped-call, unused-ignore]


def stock_logits(model: Any, pad_id: int | None) -> Callable[[Tensor], Tensor]:
    """A function from contexts (B, S), padded on the left, to logits (B, N) after the last token."""

    def logits(contexts: Tensor) -> Tensor:
        lengths = contexts.shape[1] - ((contexts == pad_id).sum(dim=1) if pad_id is not None else 0 * contexts[:, 0])
        out: Tensor | None = None
        for length in torch.unique(lengths).tolist():
            rows = (lengths == length).nonzero()[:, 0]
            prompt = contexts[rows, contexts.shape[1] - length :]
            found = model(input_ids=prompt, use_cache=False, logits_to_keep=1).logits[:, -1]
            if out is None:
                out = torch.empty(len(contexts), found.shape[1], dtype=found.dtype)
            out[rows] = found
        if out is None:
            raise CheckpointError("there are no contexts to run.")
        return out

    return logits
