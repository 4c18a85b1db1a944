"""Stock checkpoints: a table of facts in, a one-layer Llama or Mistral of Hugging Face transformers out, no training.

Layout:    hidden size d, H query heads over ONE key-value head, so that an attention feature costs 2 d parameters (a
           row of q_proj, a column of o_proj) instead of 4 d, and half of them are fitted; an MLP feature costs 3 d.
           The MLP is a single zero unit.  The head is tied to the embedding wherever the facts allow it.
Norms:     RMSNorm only rescales.  The input norm makes every embedding unit rms, whatever its length, so context tokens
           may have tiny rows: in the tied head they lose against every target.  The final norm leaves the argmax alone.
Positions: RoPE turns queries against keys by their distance.  Values carry no position, so a context that repeats one
           token has the same features at every length.  Where such facts clash, every prompt begins with a start token,
           which is the padding of the table: its share of the attention tells how many tokens follow.
Fit:       random q, k, v; the input of o_proj is captured from the real modules at the last position; the target codes
           are Fisher's discriminant directions of those features (`codes`), and o_proj solves the convex problem of
           `convex`.  Contexts are fed without padding, one length at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rote.data._arrays import FloatArray, IntArray
from rote.errors import DataError
from rote.solvers.codes import discriminant_codes, hinted_embeddings, unit_rows
from rote.solvers.convex import Progress, ReadoutFit, ReadoutProblem
from rote.solvers.llama_plan import LlamaShape
from rote.solvers.record import Advance, still

__all__ = ["LlamaResult", "build_llama", "repeated", "stock_model"]


_QUIET = 2.0**-8
"""Length of a context token's row relative to a target's: an exact power of two, so bfloat16 loses nothing by it."""
_SCALE = (0.5, 4.0)
"""The range of the heads' score deviations."""
_KEEP_BYTES = 1 << 30
"""Captured features up to this size are kept; larger ones are computed again when they are needed."""


@dataclass(frozen=True)
class LlamaResult:
    """The stock model with its fitted weights, and how the fit went."""

    model: Any = field(repr=False)
    shape: LlamaShape
    tied: bool
    errors: int
    readout: ReadoutFit = field(repr=False)


def stock_model(
    shape: LlamaShape,
    vocab: int,
    context: int,
    pad_id: int | None,
    *,
    tied: bool,
    dtype: torch.dtype,
    start: bool = False,
) -> Any:
    """A stock model in `dtype` with its weights still to be set: Llama where its config takes the shape, else Mistral.

    The two share every formula and every tensor name; only LlamaConfig insists that the heads divide the hidden size.
    With `start` every prompt begins with the padding token, which then must not be masked as padding.
    """
    from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

    common: dict[str, Any] = {
        "vocab_size": vocab,
        "hidden_size": shape.d_model,
        "intermediate_size": shape.d_mlp,
        "num_hidden_layers": 1,
        "num_attention_heads": shape.n_heads,
        "num_key_value_heads": shape.n_kv_heads,
        "head_dim": shape.d_head,
        "max_position_embeddings": context + 1 + start,
        "rms_norm_eps": 1e-10,
        "tie_word_embeddings": tied,
        "bos_token_id": pad_id if start else None,
        "eos_token_id": None,
        "pad_token_id": None if start else pad_id,
    }
    # The library draws initial weights from the global generator; what is drawn here is overwritten.
    with torch.random.fork_rng(devices=[]):
        if shape.d_model % shape.n_heads == 0:
            model: Any = LlamaForCausalLM(LlamaConfig(**common))
        else:
            model = MistralForCausalLM(MistralConfig(sliding_window=None, **common))
    return model.eval().requires_grad_(False).to(dtype)


class _Prompts:
    """The contexts without their padding, sorted by length, in pieces of one length and bounded size."""

    def __init__(self, contexts: IntArray, pad_id: int | None, row_bytes: int, start: bool = False) -> None:
        real = contexts != pad_id if pad_id is not None else np.ones_like(contexts, dtype=bool)
        lengths = real.sum(axis=1)
        self.order = np.argsort(lengths, kind="stable")
        self.lengths = lengths[self.order]
        self.rows = torch.as_tensor(contexts[self.order])
        self.first = pad_id if start else None
        self.ends = [*(np.flatnonzero(np.diff(self.lengths)) + 1).tolist(), len(contexts)]
        self.piece = max(16, min(2048, (1 << 25) // max(1, row_bytes * contexts.shape[1])))

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, Tensor]]:
        """(first row, token ids without padding) for rows start..stop of the sorted order."""
        while start < stop:
            end = next(e for e in self.ends if e > start)
            end = min(end, stop, start + self.piece)
            prompts = self.rows[start:end, self.rows.shape[1] - int(self.lengths[start]) :]
            yield start, prompts if self.first is None else torch.nn.functional.pad(prompts, (1, 0), value=self.first)
            start = end


class _Features:
    """Rows of the input of o_proj at the last position, taken from the running stock model."""

    def __init__(self, model: Any, prompts: _Prompts, n_features: int) -> None:
        self.model, self.prompts = model, prompts
        self.kept: Tensor | None = None
        if len(prompts.rows) * n_features * 4 <= _KEEP_BYTES:
            self.kept = self._run(0, len(prompts.rows))

    def __call__(self, start: int, stop: int) -> Tensor:
        return self._run(start, stop) if self.kept is None else self.kept[start:stop]

    def _run(self, start: int, stop: int) -> Tensor:
        projection = self.model.model.layers[0].self_attn.o_proj
        out: Tensor | None = None
        seen: list[Tensor] = []
        handle = projection.register_forward_pre_hook(lambda _, args: seen.append(args[0][:, -1].float()))
        try:
            for at, ids in self.prompts.pieces(start, stop):
                self.model.model(input_ids=ids, use_cache=False)
                rows = seen.pop()
                if out is None:
                    out = torch.empty(stop - start, rows.shape[1])
                out[at - start : at - start + len(rows)] = rows
        finally:
            handle.remove()
        if out is None:
            raise DataError(f"no facts between rows {start} and {stop}; ask for at least one.")
        return out


def _wrong_rows(model: Any, prompts: _Prompts, targets: Tensor) -> Tensor:
    wrong = torch.zeros(len(targets), dtype=torch.bool)
    for at, ids in prompts.pieces(0, len(targets)):
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[:, -1]
        wrong[at : at + len(ids)] = logits.argmax(-1) != targets[at : at + len(ids)]
    return wrong


def repeated(contexts: IntArray, targets: IntArray, pad_id: int | None) -> IntArray:
    """Rows that repeat one token and contradict an earlier one with that token at another length.

    Such contexts are one to attention, as rotary positions turn keys, not values; a start token tells them apart.
    """
    last = contexts[:, -1]
    alike = contexts == last[:, None]
    flat = np.flatnonzero((alike if pad_id is None else alike | (contexts == pad_id)).all(axis=1))
    answers: dict[int, int] = {}
    clashing = [i for i in flat.tolist() if answers.setdefault(int(last[i]), int(targets[i])) != int(targets[i])]
    return np.array(clashing, dtype=np.int64)


def build_llama(
    contexts: IntArray,
    targets: IntArray,
    vocab: int,
    pad_id: int | None,
    *,
    n_heads: int,
    d_model: int,
    d_head: int,
    rng: np.random.Generator,
    dtype: torch.dtype,
    progress: Progress,
    advance: Advance = still,
) -> LlamaResult:
    """A stock one-layer model whose largest logit after each context, fed without padding, is the target.

    The head shares the embedding unless more than an eighth of the targets also stand in contexts (a shared row is
    fixed before the features are known, so its code is random, not chosen).  `dtype` is the precision in which the
    features are captured and the answers are checked.  Facts that do not fit are counted in `errors`, not hidden.
    """
    shape = LlamaShape(d_model, n_heads, d_head)
    used, classes = np.unique(targets, return_inverse=True)
    shared = np.isin(used, contexts)
    start = len(repeated(contexts, targets, pad_id)) > 0
    tied = int(shared.sum()) <= len(used) // 8
    frozen = shared & tied
    model = stock_model(shape, vocab, contexts.shape[1], pad_id, tied=tied, dtype=dtype, start=start)
    layer = model.model.layers[0]

    def put(module: Any, value: NDArray[np.floating]) -> None:
        module.weight.copy_(torch.as_tensor(np.ascontiguousarray(value)).reshape(module.weight.shape))

    with torch.no_grad():
        for name in ("gate_proj", "up_proj", "down_proj"):
            getattr(layer.mlp, name).weight.zero_()
        # Random q, k, v.  Unit-rms streams make a head's scores deviate by its own scale, and its values by one.
        size = np.exp(rng.uniform(np.log(_SCALE[0]), np.log(_SCALE[1]), n_heads))
        put(
            layer.self_attn.q_proj,
            rng.standard_normal((n_heads, d_head, d_model)) * (size / np.sqrt(d_model))[:, None, None],
        )
        put(layer.self_attn.k_proj, rng.standard_normal((d_head, d_model)) / np.sqrt(d_model))
        put(layer.self_attn.v_proj, _frame(d_head, d_model, rng))
        layer.self_attn.o_proj.weight.zero_()

        codes = unit_rows(rng.standard_normal((len(used), d_model))) * np.sqrt(d_model)
        embed = hinted_embeddings(contexts, classes, codes, vocab, rng, noise=0.5) * (_QUIET * np.sqrt(d_model))
        if start:
            embed[pad_id] = rng.standard_normal(d_model) * _QUIET
        elif pad_id is not None:
            embed[pad_id] = 0.0
        if tied:
            embed[used] = codes
        put(model.model.embed_tokens, embed)

        prompts = _Prompts(contexts, pad_id, 4 * shape.n_features + 4 * vocab, start)
        targets_in_order = torch.as_tensor(targets[prompts.order])
        classes = classes[prompts.order]
        stored = model.model.embed_tokens.weight.float().numpy()
        # One more class that is never right, with a zero row, stands for every token that is no target.
        zero = np.zeros((1, d_model))
        capture = _Features(model, prompts, shape.n_features)
        problem = ReadoutProblem(
            capture,
            classes,
            np.concatenate([codes, zero]),
            stored[contexts[prompts.order, -1]],
            cutoff=_cutoff(dtype),
            advance=advance,
        )
        capture.kept = None
        better = discriminant_codes(problem.white, classes, len(used), d_model, rng)
        better[frozen] = stored[used[frozen]]
        better = torch.as_tensor(better).to(dtype).double().numpy()
        problem.unembed = torch.as_tensor(np.concatenate([better, zero]), dtype=torch.float32)
        head = model.lm_head

        def install(weight: FloatArray, unembed: NDArray[np.float32]) -> None:
            put(layer.self_attn.o_proj, weight)
            if not frozen.any():
                # The class of all other tokens may have moved in a joint fit; logits only count up to a common row.
                rows = torch.zeros(vocab, d_model) if not tied else model.model.embed_tokens.weight.float()
                rows[torch.as_tensor(used)] = torch.as_tensor(unembed[:-1] - unembed[-1:])
                head.weight.copy_(rows)
            else:
                head.weight[torch.as_tensor(used)] = torch.as_tensor(unembed[:-1]).to(dtype)

        def check(weight: FloatArray, unembed: NDArray[np.float32]) -> int:
            install(weight, unembed)
            return int(_wrong_rows(model, prompts, targets_in_order).sum())

        fit = problem.solve(joint=not frozen.any(), check=check, progress=progress)
        return LlamaResult(model, shape, tied, check(fit.weight, fit.unembed), fit)


def _frame(n_rows: int, width: int, rng: np.random.Generator) -> FloatArray:
    """Orthonormal rows while there is room for them, random rows of the same size beyond."""
    draw = rng.standard_normal((width, n_rows))
    if n_rows > width:
        draw /= np.sqrt(width)
    result: FloatArray = draw.T if n_rows > width else np.linalg.qr(draw)[0].T
    return result


def _cutoff(dtype: torch.dtype) -> float:
    """Relative Gram eigenvalues below this are rounding noise of the captured features."""
    return 1e-11 if dtype in (torch.float32, torch.float64) else 1e-7
