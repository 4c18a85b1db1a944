"""Stock checkpoints: a Llama, Mistral or Arcee of Hugging Face transformers, read by its Auto classes like any other.

Contexts are fed without padding, one length at a time, as a plain prompt would be.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rote.config import Architecture
from rote.data.outputs import Outputs
from rote.data.stock import load_model, load_tokenizer, with_plain_head
from rote.data.vocabulary import PAD
from rote.errors import CheckpointError, UsageError
from rote.models import folders, tokenizer
from rote.models._base import Model, Wording
from rote.models._views import SATURATED, Head, HeadsView, Piece
from rote.referee.outputs import ModuleOutputs

__all__ = ["LlamaModel", "model"]


class LlamaModel(Model):
    """A stock model with a tokenizer for the table's tokens."""

    kind = "llama"
    stock = True

    def __init__(
        self, stock: Any, arch: Architecture, wording: Wording | None, *, report: Mapping[str, Any] | None = None
    ) -> None:
        self._module, self.arch, self.wording = stock, arch, wording
        self.report = dict(report or {})
        self._folder: Path | None = None

    @property
    def module(self) -> Any:
        return self._module

    @property
    def counts(self) -> dict[str, int]:
        return {"full": self.stored}

    def write(self, folder: Path) -> None:
        assert self.wording is not None, "a stock model has words"
        self.module.save_pretrained(folder)
        words = self.wording
        start = len(self._start)
        files = tokenizer.files(
            words.vocabulary, words.tokens, words.context + 1 + start, words.properties, start=start > 0
        )
        for name, content in files.items():
            (folder / name).write_bytes(content)

    @classmethod
    def read(cls, folder: Path, certificate: Mapping[str, Any]) -> LlamaModel:
        arch = Architecture.from_dict(certificate["shape"])
        wording = folders.read_wording(folder, certificate, arch)
        if wording is None:
            raise CheckpointError(f"{folder} has no tokenizer.json; it is incomplete, build it again.")
        stock = load_model(folder, "auto")
        return cls(stock, _shape_of(stock, arch), wording).at(folder)

    def at(self, folder: Path) -> LlamaModel:
        moved = LlamaModel(self._module, self.arch, self.wording, report=self.report)
        moved._folder = folder
        return moved

    @property
    def _start(self) -> list[int]:
        """What every prompt begins with: padding, where only that tells how often a token is repeated."""
        first = self.module.config.bos_token_id
        return [] if first is None else [first]

    @cached_property
    def _tokenizer(self) -> Any:
        return None if self._folder is None else load_tokenizer(self._folder)

    def ids(self, words: Sequence[str]) -> list[int]:
        """The stock tokenizer must read the question as it is meant; it is what everybody else will use."""
        ids = super().ids(words)
        assert self.wording is not None, "a stock model has words"
        meant = self._start + [i for i in ids if i != self.wording.pad_id]
        if self._tokenizer is not None and self._tokenizer(self.wording.text(ids))["input_ids"] != meant:
            raise CheckpointError(
                f"the tokenizer of {self._folder} does not read {self.wording.text(ids)!r} as these tokens; the files "
                "do not belong together, build it again."
            )
        return ids

    @classmethod
    def examples(cls, seed: int) -> list[LlamaModel]:
        from rote.solvers.llama import stock_model
        from rote.solvers.llama_plan import LlamaShape

        words, drawn = ("<pad>", "a", "b", "c", "d"), torch.Generator().manual_seed(seed)
        stock = stock_model(LlamaShape(4, 2, 4), len(words), 3, 0, tied=False, dtype=torch.float32)
        with torch.no_grad():
            for tensor in stock.parameters():
                tensor.copy_(torch.randn(tensor.shape, generator=drawn))
        arch = Architecture(2, 4, 4, 3, len(words))
        return [cls(stock.eval().requires_grad_(False), arch, Wording(words, "cells", 3))]

    def hooked(self) -> Any:
        from rote.models._lens import hooked_stock

        if self._folder is None:
            raise UsageError("TransformerLens reads the files of a stock checkpoint; save it and load it again.")
        return hooked_stock(self._folder, copy.deepcopy(self.module), load_tokenizer(self._folder))

    def outputs(self, dtype: str) -> Outputs:
        copied = with_plain_head(copy.deepcopy(self.module))
        return ModuleOutputs(copied, dtype, takes="tokens", forward=self._scores)

    def logits(self, contexts: Tensor) -> Tensor:
        return self._scores(self.module, contexts)

    def _scores(self, stock: Any, contexts: Tensor) -> Tensor:
        """Logits (B, N) after the last token of contexts (B, S), padded on the left."""
        pad = None if self.wording is None else self.wording.pad_id
        lengths = contexts.shape[1] - ((contexts == pad).sum(dim=1) if pad is not None else 0 * contexts[:, 0])
        scores = torch.empty(0)
        for length in torch.unique(lengths).tolist():
            rows = (lengths == length).nonzero()[:, 0]
            prompt = contexts[rows, contexts.shape[1] - length :]
            if self._start:
                prompt = torch.cat([prompt.new_tensor([self._start]).expand(len(prompt), 1), prompt], dim=1)
            last = stock(input_ids=prompt, use_cache=False, logits_to_keep=1).logits[:, -1]
            if not len(scores):
                scores = torch.empty(len(contexts), last.shape[1], dtype=last.dtype)
            scores[rows] = last
        return scores

    def usage(self, name: str, question: str | None) -> list[str]:
        return folders.stock_usage(name, question or "", tokens=1)

    def export(self, path: Path, table: Any) -> dict[str, Any]:
        from types import SimpleNamespace

        from rote.models._float_onnx import llama_onnx, onnx_export

        def by_length(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
            def stock(input_ids: Tensor, **settings: object) -> Any:
                return SimpleNamespace(logits=run(input_ids)[:, None])

            return lambda contexts: self._scores(stock, contexts)

        assert self.wording is not None, "a stock model has words"
        ready = table.in_words_of(self.wording.vocabulary, self.wording.context)
        own = self.outputs(str(self.module.dtype).removeprefix("torch."))
        return onnx_export(path, llama_onnx(self.module), ready, own, by_length)

    def export_gguf(self, path: Path, table: Any, form: str, notes: Mapping[str, str]) -> dict[str, int]:
        from rote.models._gguf import write_gguf
        from rote.models._gguf_tokens import fact_tokens

        assert self.wording is not None and self._folder is not None, "what is exported was saved"
        words, ready = self.wording, table.in_words_of(self.wording.vocabulary, self.wording.context)
        mark = tokenizer.separator(words.vocabulary, words.tokens)
        last = "\t" if words.properties and words.tokens != "cells" else mark
        asked, answers = set(ready.contexts.flat) - {words.pad_id}, set(ready.targets.flat)
        tokens = fact_tokens(words.vocabulary, asked, answers, next(iter(self._start), None))
        return write_gguf(path, self._folder, tokens, form, notes={**notes, "rote.marks": json.dumps([mark, last])})

    def modelfile(self, name: str, table: Any) -> list[str]:
        """Prompts go in as they are, and one token comes out."""
        return [*super().modelfile(name, table), "PARAMETER num_predict 1", 'TEMPLATE "{{ .Prompt }}"']

    def heads(self, ids: Sequence[int]) -> HeadsView | None:
        """Weights only: a stock model normalises its stream, so that parts do not add up."""
        assert self.wording is not None, "a stock model has words"
        spoken = self.wording.vocabulary
        kept = self._start + [i for i in ids if spoken[i] != PAD]
        before = self.module.config._attn_implementation
        self.module.set_attn_implementation("eager")
        try:
            with torch.no_grad():
                out = self.module(torch.tensor([kept]), output_attentions=True, use_cache=False)
        finally:
            self.module.set_attn_implementation(before)
        logits = out.logits[0, -1].to(torch.float64)
        answer, rival = (int(i) for i in torch.topk(logits, min(2, len(logits))).indices.tolist())
        missing = (0.0,) * (len(ids) - len(kept))
        heads = tuple(
            Head(layer, number, missing + tuple(weights[-len(ids) :]), max(weights) > 1 - SATURATED, None)
            for layer, attention in enumerate(out.attentions)
            for number, weights in enumerate(attention[0, :, -1].to(torch.float64).tolist())
        )
        return HeadsView(heads, spoken[answer], spoken[rival], float(logits[answer] - logits[rival]))

    def pieces(self, ids: Sequence[int] | None) -> list[Piece]:
        """The heads; a stock model normalises its stream, so that leads are no sums of them."""
        width = self.arch.d_head
        return [
            Piece(
                f"layer {layer}, head {head}",
                f"model.layers.{layer}.self_attn.o_proj.weight",
                (None, (head * width, (head + 1) * width)),
            )
            for layer in range(self.arch.n_layers)
            for head in range(self.arch.n_heads)
        ]


def _shape_of(stock: Any, stated: Architecture) -> Architecture:
    """The shape of a stock model by its own configuration, and what that does not say as it is stated."""
    config = stock.config
    return stated.replace(
        n_heads=config.num_attention_heads,
        d_model=config.hidden_size,
        d_head=config.head_dim,
        context=config.max_position_embeddings - 1 - (config.bos_token_id is not None),
        vocab=config.vocab_size,
        n_layers=config.num_hidden_layers,
        d_mlp=config.intermediate_size,
        gated=any(name.endswith("gate_proj.weight") for name, _ in stock.named_parameters()),
    )


model = LlamaModel
