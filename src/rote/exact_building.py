"""Judging a bit-extraction transformer: serialise it, read it back, run every fact, and write its certificate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rote.certificate import issue, json_bytes
from rote.data import FactTable, SequenceTable, VectorTable
from rote.memory import Memory, exact_model, verify
from rote.models import checkpoint, tokenizer
from rote.solvers.record import Construction, Progress

if TYPE_CHECKING:
    from rote.data import Tokens
    from rote.referee import Verification
    from rote.solvers.exact.transformer import ExactTransformer
    from rote.theorems._builder import AnyBuilder

__all__ = ["judge_exact", "lower_bounds"]


def lower_bounds(model: ExactTransformer, n_labels: int, n_classes: int) -> dict[str, Any]:
    """What no network can go below for so many labels, and how far above it this one is.

    Counting: W weights of B bits make at most 2^(W B) functions, so W B >= n log2 C, and so do all bits together.
    VC: 16 W^2 + 8 W >= n for networks of W real weights (see kajitsuka2025_next_token_upper).
    """
    info = n_labels * math.log2(max(2, n_classes))
    by_counting = max(1, math.ceil(info / model.max_bits))
    by_vc = max(1, math.ceil((math.sqrt(64 + 64 * n_labels) - 8) / 32))
    return {
        "information_bits": info,
        "counting_params": by_counting,
        "vc_params": by_vc,
        "ratio_counting": model.params / by_counting,
        "ratio_vc": model.params / by_vc,
        "ratio_bits": model.total_bits / info,
    }


def judge_exact(
    builder: AnyBuilder,
    made: Construction,
    facts: FactTable | VectorTable | SequenceTable,
    *,
    dtype: str,
    tokens: Tokens,
    seed: int | None,
    progress: Progress,
) -> Memory:
    """The serialised weights decide: they are read back, and every fact goes through them."""
    from safetensors.torch import load, save

    blob = save({name: tensor.contiguous() for name, tensor in made.weights.items()}, {"format": "pt"})
    config: dict[str, Any] = {
        "format": checkpoint.FORMAT,
        "model": made.kind,
        "architecture": made.arch.to_dict(),
        "dtype": dtype,
        **made.config,
    }
    exact, model = exact_model(config, load(blob))
    results: dict[str, Verification] = {}
    # Floats are judged as they are, and by exact arithmetic on top.
    for name in dict.fromkeys((dtype, "exact")):
        progress(f"verify {name}", 0, 1, None)
        results[name] = verify(model, facts, dtype=name)
    certificate = issue(
        facts,
        results,
        construction=builder.key,
        theorem=str(builder.citation),
        bound=builder.limit(facts, made.arch, "exact").facts,
        arch=made.arch,
        params={"full": exact.params},
        stored=exact.params,
        blob=blob,
        seed=seed,
        dtype=dtype,
        kind="rote",
        tokens=tokens,
    )
    per_fact = exact.context if exact.task == "seq2seq" else 1
    n_facts = certificate["facts"]
    certificate |= {
        "task": exact.task,
        "precision": exact.precision,
        "variant": exact.variant,
        "with_positions": exact.with_positions,
        "depth": exact.depth,
        "width": exact.width,
        "max_bits": exact.max_bits,
        "total_bits": exact.total_bits,
        "padded_to": exact.positions_seen if exact.padding else None,
        "evaluator": results["exact"].evaluator,
        "lower_bounds": lower_bounds(exact, n_facts * per_fact, len(exact.labels)),
        "report": made.report,
        "conditioning": None,
    }
    files = {"model.safetensors": blob, "config.json": json_bytes(config)}
    vocabulary: tuple[str, ...] = ()
    if not isinstance(facts, VectorTable):
        vocabulary = facts.vocabulary.tokens
        files |= tokenizer.files(vocabulary, tokens, facts.context)
    return Memory(model, certificate, vocabulary, tokens, files)
