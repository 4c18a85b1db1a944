"""Facts into a stock Llama (or Mistral) checkpoint of Hugging Face transformers, judged by the stock library itself."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.building import Request, as_generator
from rote.certificate import check_all, issue
from rote.config import Architecture
from rote.data import FactTable, VectorTable
from rote.errors import CapacityError, MissingExtra, UsageError
from rote.memory import Memory, verify
from rote.models import tokenizer
from rote.solvers.record import Progress, finite, stretch

if TYPE_CHECKING:
    import numpy as np

    from rote.referee import Verification
    from rote.solvers.llama import LlamaResult
    from rote.solvers.llama_plan import LlamaShape

__all__ = ["build_stock"]

_FITS = ("auto", "argmax_fit")


def build_stock(
    facts: FactTable | VectorTable, request: Request, rng: np.random.Generator | int, progress: Progress
) -> Memory:
    """One decoder layer of the stock architecture, o_proj fitted on the features of the stock modules."""
    if isinstance(facts, VectorTable):
        raise UsageError("a stock Llama reads tokens; vectors are built with --arch rote.")
    if request.with_ not in _FITS:
        raise UsageError(
            f"--arch llama is built by the argmax fit; leave out --with {request.with_}, or use --arch rote."
        )
    tabbed = next((token for token in facts.vocabulary.tokens if "\t" in token), None)
    if tabbed is not None and request.tokens == "cells":
        raise UsageError(f"the token {tabbed!r} holds a tab, which separates tokens in a stock tokenizer; rename it.")
    try:
        import transformers

        transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    except ImportError:
        raise MissingExtra("transformers", "hf", "a stock Llama checkpoint") from None
    import torch

    from rote.solvers.llama import build_llama

    generator, seed = as_generator(rng)
    dtype = getattr(torch, request.dtype)
    tried: list[str] = []
    best: Memory | None = None

    def report(iteration: int, wrong: int, rows: int) -> None:
        progress("fit o_proj", iteration, 400, rows - wrong)

    for shape in _shapes(facts, request, dtype):
        progress("features of the stock model", 0, 1, None)
        made = build_llama(
            facts.contexts.copy(),
            facts.targets.copy(),
            facts.vocab,
            facts.vocabulary.pad_id,
            n_heads=shape.n_heads,
            d_model=shape.d_model,
            d_head=shape.d_head,
            n_kv_heads=shape.n_kv_heads,
            rng=generator,
            dtype=dtype,
            progress=report,
        )
        words = f"{shape.n_heads} heads of {shape.d_head}, d_model {shape.d_model}"
        if made.errors and not request.partial:
            tried.append(f"{words} lost {made.errors:,} facts")
            continue
        memory = _judge(made, facts, request, seed, tried, progress)
        recall = memory.certificate["recall"][request.dtype]
        if recall == 1.0:
            return memory
        tried.append(f"{words} lost {round((1 - recall) * facts.n_facts):,} facts")
        if best is None or recall > best.certificate["recall"][request.dtype]:
            best = memory
    if best is not None:
        return best
    raise CapacityError(
        f"no stock shape recalled all {facts.n_facts:,} facts at {request.dtype}: {'; '.join(tried[-3:])}. "
        "Allow more heads or a larger d_model, or pass --partial to keep the best one."
    )


def _shapes(facts: FactTable, request: Request, dtype: Any) -> Iterator[LlamaShape]:
    """The shape asked for; or the planned one, and larger ones should it lose facts."""
    from rote.solvers.llama_plan import LlamaShape, plan_llama

    if request.n_heads is not None and request.d_model is not None:
        yield LlamaShape(request.d_model, request.n_heads, request.d_head or request.d_model)
        return
    planned = plan_llama(facts.contexts, facts.targets, facts.vocab, facts.vocabulary.pad_id, dtype)
    # Wider streams tell more targets apart; more features hold more facts.
    for wider, more in ((1, 1.0), (1, 1.6), (2, 1.6), (2, 3.0), (4, 3.0), (8, 6.0)):
        width = request.d_model or planned.d_model * wider
        d_head = request.d_head or (planned.d_head if width == planned.d_model else width + width % 2)
        heads = -(-round(planned.n_features * more) // d_head) if request.n_heads is None else request.n_heads
        yield LlamaShape(width, heads, d_head)
        if request.n_heads is not None and request.d_model is not None:
            return


def _sharpen(model: Any, facts: FactTable) -> None:
    """Stretch the final norm by a power of two, so that the smallest lead is worth a clear probability."""
    import torch

    from rote.models.stock import stock_logits
    from rote.referee.recall import score_facts

    with torch.no_grad():
        found = score_facts(facts, stock_logits(model, facts.vocabulary.pad_id), "as stored")
        model.model.norm.weight *= stretch(found.min_margin, facts.vocab)


def _judge(
    made: LlamaResult, facts: FactTable, request: Request, seed: int | None, tried: list[str], progress: Progress
) -> Memory:
    """Write the files, load them with the stock classes, and run every fact."""
    from rote.models.stock import load_stock

    vocabulary = facts.vocabulary.tokens
    _sharpen(made.model, facts)
    with tempfile.TemporaryDirectory() as place:
        made.model.save_pretrained(place)
        files = {path.name: path.read_bytes() for path in sorted(Path(place).iterdir())}
        model = load_stock(place)
    files |= tokenizer.files(vocabulary, request.tokens, facts.context + 1)
    shape = made.shape
    arch = Architecture(
        shape.n_heads, shape.d_model, shape.d_head, facts.context, max(2, facts.vocab), d_mlp=shape.d_mlp, gated=True
    )
    memory = Memory(model, {"arch": "llama", "shape": arch.to_dict()}, vocabulary, request.tokens, files)

    def judge(dtype: str) -> Verification:
        progress(f"verify {dtype}", 0, 1, None)
        typed = Memory(copy.deepcopy(model), memory.certificate, vocabulary, request.tokens)
        return verify(typed, facts, dtype=dtype)

    memory.certificate.update(
        issue(
            facts,
            check_all(judge, request.dtype, partial=request.partial),
            construction="argmax_fit",
            theorem="convex fit by rote, on the features of a stock decoder layer",
            bound=None,
            arch=arch,
            params={"full": made.params},
            stored=made.params,
            blob=files["model.safetensors"],
            seed=seed,
            dtype=request.dtype,
            kind="llama",
            tokens=request.tokens,
        )
    )
    readout = made.readout
    memory.certificate["conditioning"] = finite(readout.spectrum.condition)
    memory.certificate["report"] = {
        "model_type": made.model.config.model_type,
        "tied_embedding": made.tied,
        "n_kv_heads": shape.n_kv_heads,
        "iterations": readout.iterations,
        "rank_features": readout.spectrum.rank,
        "condition": finite(readout.spectrum.condition),
    }
    if tried:
        memory.certificate["report"]["tried"] = list(tried)
    return memory
