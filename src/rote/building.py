"""`rote.build`: facts in, a verified model out.

The road: choose a construction and a shape, refuse what cannot work, build, serialise, and let the referee run every
fact through the serialised weights. A certificate records what was found.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rote import theorems
from rote.assumptions._explain import explained
from rote.capacity import data_demand
from rote.certificate import check_all, issue, json_bytes
from rote.config import LARGEST, Architecture, check_dtype
from rote.data import FactTable, SequenceTable, Tokens, VectorTable
from rote.errors import AssumptionError, CapacityError, RoteError, ShapeError, UnknownName, UsageError
from rote.memory import Memory, verify
from rote.models import checkpoint, tokenizer
from rote.models.attention_layer import AttentionLayer
from rote.models.transformer import Transformer
from rote.solvers.record import Construction, Options, Progress, quiet
from rote.theorems import Demand, Plan
from rote.theorems._builder import AnyBuilder, Builder

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from rote.referee import Verification

__all__ = ["ARCHS", "Arch", "Request", "as_generator", "build", "build_at", "builders", "demand_of"]

Arch = Literal["rote", "llama"]
ARCHS: tuple[Arch, ...] = ("rote", "llama")
_MOST_ATTEMPTS = 40


def builders(takes: str | None = None) -> dict[str, AnyBuilder]:
    """The theorems that hand over weights, by key."""
    found = {key: t for key, t in theorems.registry().items() if isinstance(t, Builder)}
    return {key: t for key, t in found.items() if takes is None or takes in (t.takes, *t.also_takes)}


@dataclass(frozen=True)
class Request:
    """What is to be built, apart from the facts."""

    with_: str = "auto"
    n_heads: int | None = None
    d_model: int | None = None
    d_head: int | None = None
    d_mlp: int | None = None
    dtype: str = "float32"
    rank1_qk: bool = False
    tokens: Tokens = "cells"
    refine: bool = False
    partial: bool = False
    """Hand over a model that loses facts, instead of refusing."""
    variant: str | None = None
    with_positions: bool = False
    delta: float | None = None
    radius: float | None = None


Facts = FactTable | VectorTable | SequenceTable


def build(
    facts: Facts,
    *,
    with_: str = "auto",
    n_heads: int | None = None,
    d_model: int | None = None,
    d_head: int | None = None,
    d_mlp: int | None = None,
    dtype: str | None = None,
    rank1_qk: bool = False,
    refine: bool = False,
    arch: Arch = "rote",
    tokens: Tokens = "cells",
    rng: np.random.Generator | int = 0,
    partial: bool = False,
    variant: str | None = None,
    with_positions: bool = False,
    delta: float | None = None,
    radius: float | None = None,
    progress: Progress = quiet,
) -> Memory:
    """A model that recalls every fact, by construction and without a gradient step on the whole.

    `with_` names a construction, or is "auto" for the one with the fewest parameters that recalls all at `dtype`.
    What is not given of the shape is planned. `rng` is a seed or a generator. `tokens` says how texts are cut when the
    model is asked; it is recorded with the model. `dtype` is "float32", or "exact" for bit extraction, unless given;
    `variant`, `with_positions`, `delta` and `radius` are for bit extraction.
    """
    if not isinstance(facts, (FactTable, VectorTable, SequenceTable)):
        raise UsageError(f"rote.build needs a FactTable, VectorTable or SequenceTable, got a {type(facts).__name__}.")
    if isinstance(facts, SequenceTable) and with_ == "auto":
        with_ = "kajitsuka2025_seq2seq"
    named = builders().get(with_)
    native = named is not None and named.native == "exact"
    if not native and (variant is not None or with_positions or delta is not None or radius is not None):
        raise UsageError("variant, with-positions, delta and radius are for bit extraction (kajitsuka2025_...).")
    if native and (refine or rank1_qk):
        raise UsageError(f"{with_} has nothing to refine and no heads to narrow; leave out refine and rank-1 QK.")
    if native and not (n_heads is d_model is d_head is d_mlp is None):
        raise UsageError(f"{with_} finds its own depth and width; leave out the heads and widths.")
    if dtype is None:
        dtype = "exact" if native else "float32"
    for name, value in (("n_heads", n_heads), ("d_model", d_model), ("d_head", d_head), ("d_mlp", d_mlp)):
        if value is not None and not 1 <= value <= LARGEST:
            raise ShapeError(f"{name} must be from 1 to {LARGEST:,}, got {value:,}.")
    if d_mlp is not None and (with_ not in ("auto", "mlp_fit") or arch != "rote"):
        raise UsageError("only mlp_fit stores facts in an MLP; leave out d_mlp, or build with mlp_fit and arch rote.")
    if rank1_qk and (arch != "rote" or with_ not in ("auto", "dana2025_cor1", "argmax_fit")):
        raise UsageError("rank-1 QK is for dana2025_cor1 and argmax_fit with arch rote.")
    request = Request(
        with_,
        n_heads,
        d_model,
        d_head,
        d_mlp,
        dtype,
        rank1_qk,
        tokens,
        refine,
        partial,
        variant,
        with_positions,
        delta,
        radius,
    )
    if check_dtype(dtype) == "exact" and not native:
        raise UsageError(
            "these constructions live in floating point; choose float64, float32, bfloat16 or float16, or one of "
            "exact weights: kajitsuka2025_next_token, kajitsuka2025_seq2seq."
        )
    if arch not in ARCHS:
        raise UnknownName("architecture", arch, ARCHS)
    if arch == "llama":
        from rote.stock_building import build_stock

        if isinstance(facts, SequenceTable):
            raise UsageError("a stock Llama gives one answer a context; sequences are built with --arch rote.")
        return build_stock(facts, request, rng, progress)
    return _build_own(facts, request, rng, progress)


def _build_own(facts: Facts, request: Request, rng: np.random.Generator | int, progress: Progress) -> Memory:
    _, seed = as_generator(rng)
    chosen = _chosen(request.with_, _takes(facts))
    if request.d_mlp is not None:
        chosen = [builder for builder in chosen if builder.key == "mlp_fit"]
    if request.rank1_qk:
        chosen = [builder for builder in chosen if builder.key != "mlp_fit"]
    refused: list[str] = []
    best: Memory | None = None
    attempts = 0
    for builder, shape in _shapes(chosen, facts, request, refused):
        if attempts >= _MOST_ATTEMPTS:
            break
        try:
            # Every attempt starts from the seed, so that naming the construction and the shape gives the same weights.
            generator, _ = as_generator(rng)
            memory = _attempt(builder, facts, shape, request, generator, seed, refused, progress)
        except RoteError as error:
            if len(chosen) == 1:
                raise
            refused.append(f"{builder.key}: {error}")
            continue
        attempts += 1
        recall = memory.certificate["recall"][request.dtype]
        if recall == 1.0:
            return memory
        lost = round((1 - recall) * memory.certificate["facts"])
        refused.append(f"{builder.key} with {_words(shape)} lost {lost:,} facts at {request.dtype}")
        if best is None or recall > best.certificate["recall"][request.dtype]:
            best = memory
    if best is not None and request.partial:
        return best
    if best is None and len(refused) == 1:
        raise CapacityError(refused[0] if refused[0].endswith(".") else f"{refused[0]}.")
    raise CapacityError(
        f"no shape recalled all {_n_facts(facts):,} facts: {'; '.join(refused[-4:])}. "
        "Allow more heads or a larger d_model, or pass --partial to keep the best one."
    )


def build_at(
    builder: AnyBuilder,
    facts: Facts,
    arch: Architecture,
    request: Request,
    rng: np.random.Generator | int,
) -> Memory:
    """One construction at one shape, whatever it recalls; refusals are raised."""
    generator, seed = as_generator(rng)
    return _attempt(builder, facts, arch, request, generator, seed, [], quiet)


def _attempt(
    builder: AnyBuilder,
    facts: Facts,
    arch: Architecture,
    request: Request,
    generator: np.random.Generator,
    seed: int | None,
    refused: list[str],
    progress: Progress,
) -> Memory:
    options = Options(
        dtype=request.dtype,
        rank1_qk=request.rank1_qk,
        refine=request.refine,
        variant=request.variant,
        with_positions=request.with_positions,
        delta=request.delta,
        radius=request.radius,
    )
    try:
        builder.admit(facts, arch)
        if arch.n_layers < LARGEST:
            _refuse_overload(builder, facts, arch, request)
        made = builder.build(facts, arch, rng=generator, options=options, progress=progress)
    except AssumptionError as error:
        if isinstance(facts, SequenceTable) or builder.native == "exact":
            # Bit extraction names its offenders itself.
            raise
        raise explained(error, builder.key, facts, arch) from error
    if made.kind == "exact_transformer":
        from rote.exact_building import judge_exact

        return judge_exact(
            builder, made, facts, dtype=request.dtype, tokens=request.tokens, seed=seed, progress=progress
        )
    assert not isinstance(facts, SequenceTable), "only bit extraction takes sequences"
    return _judge(builder, made, facts, request, seed, refused, progress)


def as_generator(rng: np.random.Generator | int) -> tuple[np.random.Generator, int | None]:
    """A generator, and the seed if it was given as one."""
    import numpy as np

    if isinstance(rng, int):
        if rng < 0:
            raise UsageError(f"a seed is a whole number from 0, got {rng}.")
        return np.random.default_rng(rng), rng
    return rng, None


def _n_facts(facts: Facts) -> int:
    return facts.n_examples if isinstance(facts, VectorTable) else facts.n_facts


def _takes(facts: Facts) -> str:
    if isinstance(facts, VectorTable):
        return "vectors"
    return "facts" if isinstance(facts, FactTable) else "sequences"


def _words(arch: Architecture) -> str:
    mlp = f", d_mlp {arch.d_mlp}" if arch.d_mlp else ""
    return f"{arch.n_heads} head{'s' if arch.n_heads > 1 else ''} of {arch.d_head}, d_model {arch.d_model}{mlp}"


def _chosen(with_: str, takes: str) -> list[AnyBuilder]:
    if with_ == "auto":
        return [builder for builder in builders(takes).values() if builder.native == "floats"]
    known = builders()
    if with_ not in known:
        if with_ in ("dana2025_thm1", "distribution_refit"):
            raise UsageError(f"{with_} builds distributions; pass --task distribution.")
        if with_ in theorems.registry():
            raise UsageError(f"{with_} is a bound without a construction; choose one of {', '.join(known)}, or auto.")
        raise UnknownName("construction", with_, [*known, "auto"])
    if takes not in (known[with_].takes, *known[with_].also_takes):
        what = {
            "vectors": "vectors (a .safetensors file of queries and contexts)",
            "facts": "token facts",
            "sequences": "sequences (a facts file with a target for every token)",
        }[known[with_].takes]
        raise UsageError(f"{with_} builds from {what}; for these data choose one of {', '.join(builders(takes))}.")
    return [known[with_]]


def demand_of(facts: FactTable | VectorTable, request: Request) -> Demand:
    """What must fit, with what is fixed of the shape."""
    return data_demand(
        facts,
        dtype=check_dtype(request.dtype),
        d_model=request.d_model,
        n_heads=request.n_heads,
        d_head=request.d_head,
    )


def _shapes(
    chosen: list[AnyBuilder], facts: Facts, request: Request, refused: list[str]
) -> Iterator[tuple[AnyBuilder, Architecture]]:
    """Constructions with shapes, fewest parameters first."""
    if chosen and chosen[0].native == "exact":
        # Depth and width come from the data: any shape will do.
        vocab = max(2, (facts.n_classes or 2) if isinstance(facts, VectorTable) else facts.vocab)
        yield chosen[0], Architecture(1, 1, 1, facts.context, vocab, n_layers=LARGEST, d_mlp=LARGEST)
        return
    assert not isinstance(facts, SequenceTable), "only bit extraction takes sequences"
    demand = demand_of(facts, request)
    if request.n_heads is not None and (demand.d_model is not None) and request.d_head is not None:
        for builder in chosen:
            shape = Architecture(
                request.n_heads, demand.d_model, request.d_head, demand.context, demand.vocab, d_mlp=request.d_mlp or 0
            )
            yield builder, shape if not request.d_mlp else shape.replace(gated=True)
        return
    queue: list[tuple[int, int, Plan, Iterator[Plan]]] = []
    for i, builder in enumerate(chosen):
        answer = builder.plan(demand)
        if not isinstance(answer, Plan):
            refused.append(f"{builder.key}: {answer.reason if answer is not None else 'it plans no shapes'}")
            continue
        shapes = builder.shapes(demand)
        first = next(shapes, None)
        if first is not None:
            heapq.heappush(queue, (first.params, i, first, shapes))
    while queue:
        _, i, plan, shapes = heapq.heappop(queue)
        shape = plan.architecture
        yield chosen[i], shape if request.d_mlp is None else shape.replace(d_mlp=request.d_mlp)
        following = next(shapes, None)
        if following is not None:
            heapq.heappush(queue, (following.params, i, following, shapes))


def _refuse_overload(builder: AnyBuilder, facts: Facts, arch: Architecture, request: Request) -> None:
    """More facts than the theorem allows are refused before anything is computed, with a shape that would do."""
    asked = _n_facts(facts)
    bound = builder.limit(facts, arch, request.dtype)
    failing = [c for c in bound.conditions if c.status == "not met"]
    if failing and builder.exact:
        raise AssumptionError(
            f"{builder.key} does not apply to {_words(arch)}: "
            + "; ".join(f"{c.name} ({c.detail})" for c in failing)
            + "."
        )
    if not builder.exact or bound.facts is None or asked <= bound.facts:
        return
    enough = None
    if not isinstance(facts, SequenceTable):
        enough = builder.plan(demand_of(facts, Request(dtype=request.dtype)))
    hint = (
        f"the smallest shape that would do is {_words(enough.architecture)}"
        if isinstance(enough, Plan)
        else "see rote plan"
    )
    raise CapacityError(
        f"{builder.key} holds {bound.facts:,} facts with {_words(arch)} ({bound.formula}), "
        f"but there are {asked:,}; {hint}."
    )


def _judge(
    builder: AnyBuilder,
    made: Construction,
    facts: FactTable | VectorTable,
    request: Request,
    seed: int | None,
    refused: list[str],
    progress: Progress,
) -> Memory:
    """Serialise the weights, read them back, and let the referee decide."""
    import torch
    from safetensors.torch import load, save

    number = getattr(torch, request.dtype)
    blob = save({name: tensor.to(number).contiguous() for name, tensor in made.weights.items()}, {"format": "pt"})
    tensors = load(blob)
    config: dict[str, Any] = {
        "format": checkpoint.FORMAT,
        "model": made.kind,
        "architecture": made.arch.to_dict(),
        "dtype": request.dtype,
    }
    model: nn.Module
    params = None
    if made.kind == "transformer":
        config["activation"] = made.activation
        model = Transformer(made.arch, tensors, activation=made.activation)
    else:
        model = AttentionLayer(made.arch, tensors)
        params = {"full": sum(tensor.numel() for tensor in tensors.values())}

    def judge(dtype: str) -> Verification:
        progress(f"verify {dtype}", 0, 1, None)
        return verify(model, facts, dtype=dtype)

    certificate = issue(
        facts,
        check_all(judge, request.dtype, partial=request.partial),
        construction=builder.key,
        theorem=str(builder.citation),
        bound=builder.limit(facts, made.arch, request.dtype).facts,
        arch=made.arch,
        params=params,
        stored=sum(tensor.numel() for tensor in tensors.values()),
        blob=blob,
        seed=seed,
        dtype=request.dtype,
        kind="rote",
        tokens=request.tokens,
    )
    certificate["report"] = made.report
    certificate["conditioning"] = made.report.get("condition", made.report.get("condition_Z"))
    if request.with_ == "auto":
        certificate["chosen"] = "; ".join(
            [f"{builder.key} with {_words(made.arch)}: the smallest shape tried that recalls everything", *refused]
        )
    files = {"model.safetensors": blob, "config.json": json_bytes(config)}
    vocabulary: tuple[str, ...] = ()
    if isinstance(facts, FactTable):
        vocabulary = facts.vocabulary.tokens
        files |= tokenizer.files(vocabulary, request.tokens, facts.context)
    return Memory(model, certificate, vocabulary, request.tokens, files)
