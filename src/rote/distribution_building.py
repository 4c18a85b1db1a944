"""Models of distributions: build, verify, and the numbers that say how good they can be.

The road of `build_distribution`: smooth where a probability is zero, find the best encoder of the width (no model of
that width does better), choose the heads, build the layer, serialise it, and let the referee measure its divergence
from the table. The certificate has all of it.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote import theorems
from rote._version import __version__
from rote.building import as_generator
from rote.certificate import CHECKED, json_bytes
from rote.config import CONVENTIONS, LARGEST, Architecture, check_dtype
from rote.data import DEFAULT_SMOOTHING, DistributionTable, Tokens
from rote.data.distribution import check_share, in_bits
from rote.data.distribution_store import FILE, pack
from rote.errors import CapacityError, CheckpointError, ShapeError, UnknownName, UsageError
from rote.memory import Memory
from rote.models import checkpoint, tokenizer
from rote.models.transformer import Transformer
from rote.solvers.record import Progress, finite, quiet
from rote.theorems._distribution import DistributionBuilder

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from rote.referee.divergence import Divergence
    from rote.solvers.distribution import Layer
    from rote.solvers.encoder import EncoderBound

__all__ = [
    "LARGEST_SOLVE",
    "build_distribution",
    "capacity_of",
    "distribution_builders",
    "distribution_limits",
    "head_width",
    "prepare",
    "verify_distribution",
]

LARGEST_SOLVE = 12_000
"""Contexts beyond which the T_eps x T_eps solve is refused: more than a gigabyte for each copy of the matrix."""
_MOST_FEATURES = 250_000_000
_BEATEN = 1e-9  # nats by which a model must beat the bound before the bound is called unfinished
_SLACKS = (1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0)


def distribution_builders() -> dict[str, DistributionBuilder]:
    """The theorems that hand over models of distributions, by key."""
    return {key: t for key, t in theorems.registry().items() if isinstance(t, DistributionBuilder)}


def prepare(table: DistributionTable, smoothing: float | None) -> DistributionTable:
    """Full support: mixed with the uniform distribution if asked to, or by the usual share where something is zero."""
    if table.smoothing:
        if smoothing not in (None, table.smoothing):
            raise UsageError("this table is smoothed already; leave smoothing out, or give the original.")
        return table
    if smoothing is None:
        smoothing = 0.0 if table.full_support else DEFAULT_SMOOTHING
    return table.smoothed(check_share(smoothing, "smoothing"))


def head_width(table: DistributionTable, d_model: int, d_head: int | None) -> int:
    """The width of a head: as given, or the widest that still adds features."""
    if d_head is not None and d_head > d_model:
        raise ShapeError(f"a head of width {d_head} is wider than d_model = {d_model}; lower d_head.")
    return d_head if d_head is not None else max(1, min(d_model, table.vocab + table.context - 2))


def capacity_of(table: DistributionTable, arch: Architecture) -> int:
    """The most likely contexts, as many as a shape tells apart: the T_eps that it affords."""
    from rote.solvers.token_rank import rank_limit

    possible = table.t_eps(0.0)
    if arch.context == 1:
        return possible
    low, high = 1, min(possible, arch.n_heads * arch.d_head + arch.d_model)
    while low < high:
        middle = (low + high + 1) // 2
        likely = table.contexts[table.likely_first[:middle]]
        if rank_limit(likely, arch.vocab, arch.n_heads, arch.d_model, arch.d_head).value >= middle:
            low = middle
        else:
            high = middle - 1
    return low


def epsilon_of(table: DistributionTable, n_contexts: int) -> float:
    """The smallest eps, up to rounding, whose T_eps is `n_contexts`."""
    left = table.leftover(n_contexts)
    return 0.0 if n_contexts >= table.t_eps(0.0) else min(left + 1e-9, 1 - 1e-12)


@dataclass(frozen=True)
class _Job:
    """What is settled before anything is computed."""

    table: DistributionTable
    arch: Architecture
    epsilon: float
    t_eps: int
    planned: bool
    """Whether the number of heads is ours to raise."""
    least: int
    """The fewest heads with H d_h + d >= T_eps, or the number given."""


def build_distribution(
    table: DistributionTable,
    *,
    d_model: int,
    with_: str = "auto",
    n_heads: int | None = None,
    d_head: int | None = None,
    epsilon: float | None = None,
    smoothing: float | None = None,
    dtype: str = "float32",
    rank1_qk: bool = False,
    starts: int | None = None,
    tokens: Tokens = "cells",
    rng: np.random.Generator | int = 0,
    progress: Progress = quiet,
) -> Memory:
    """An attention-only transformer for a table of distributions, as good as its width allows on T_eps contexts.

    `epsilon` is 0 if neither it nor `n_heads` is given, and with `n_heads` the smallest that the shape affords. `with_`
    is "dana2025_thm1" (interpolation of the likely contexts), "distribution_refit" (a convex fit of all), or "auto":
    the refit, which is the same as the theorem's construction where no context is left out.
    """
    if not isinstance(table, DistributionTable):
        raise UsageError(f"build_distribution needs a DistributionTable, got a {type(table).__name__}.")
    known = distribution_builders()
    if with_ != "auto" and with_ not in known:
        raise UnknownName("construction of distributions", with_, [*known, "auto"])
    if check_dtype(dtype) == "exact":
        raise UsageError("these constructions live in floating point; choose float64, float32, bfloat16 or float16.")
    if starts is not None and starts < 1:
        raise UsageError(f"starts must be at least 1, got {starts}.")
    generator, seed = as_generator(rng)
    for_bound, for_layer, for_other = generator.spawn(3)
    given = table
    table = prepare(table, smoothing)
    job = _settle(table, d_model, n_heads, d_head, epsilon)
    from rote.solvers.encoder import encoder_bound, tighten

    progress("best encoder", 0, 1, None)
    bound = encoder_bound(
        table, d_model, rng=for_bound, starts=starts, report=lambda i, n: progress("best encoder", i, n, None)
    )
    builder = known["distribution_refit" if with_ == "auto" else with_]
    settled = job
    layer, job = _layer(builder, settled, bound, for_layer, rank1_qk, progress)
    tightened = layer.kl32 < bound.kl - _BEATEN
    if tightened:
        # The search for the best encoder stopped early: go on from what did better, and build again.
        bound = tighten(table, bound, layer.weights.W_U, rng=for_bound)
        layer, job = _layer(builder, settled, bound, for_layer, rank1_qk, progress)
    left = table.leftover(job.t_eps)
    others: dict[str, Layer] = {builder.method: layer}
    if left and table.context > 1:
        # For the certificate: what the other construction makes of this table, with the theorem's number of heads.
        bare = job.arch.replace(n_heads=job.least)
        for other in known.values():
            if other.method not in others and _affordable(job):
                others[other.method] = other.layer(
                    table, bound, bare, n_contexts=job.t_eps, rng=for_other, rank1_qk=rank1_qk, tries=1
                )
    made, certificate = _judge(builder, job, layer, dtype, rank1_qk, tokens, seed, given, progress)
    certificate["encoder_tightened"] = tightened
    certificate |= _measures(bound, others, left, certificate["kl"])
    return replace(made, certificate=certificate)


def _affordable(job: _Job) -> bool:
    return job.t_eps <= LARGEST_SOLVE // 2


def _settle(
    table: DistributionTable, d_model: int, n_heads: int | None, d_head: int | None, epsilon: float | None
) -> _Job:
    for name, value in (("d_model", d_model), ("n_heads", n_heads), ("d_head", d_head)):
        if value is not None and not 1 <= value <= LARGEST:
            raise ShapeError(f"{name} must be from 1 to {LARGEST:,}, got {value:,}.")
    if epsilon is not None:
        check_share(epsilon, "epsilon")
    width = head_width(table, d_model, d_head)
    arch = Architecture(n_heads or 1, d_model, width, table.context, table.vocab)
    _refuse_size(table, arch)
    if n_heads is not None and epsilon is None:
        t_eps = capacity_of(table, arch)
        return _Job(table, arch, epsilon_of(table, t_eps), t_eps, False, arch.n_heads)
    epsilon = epsilon or 0.0
    t_eps = table.t_eps(epsilon)
    if table.context > 1 and t_eps > LARGEST_SOLVE:
        raise CapacityError(
            f"T_eps is {t_eps:,} contexts at epsilon = {epsilon:g}, and the limit of the solve is {LARGEST_SOLVE:,}; "
            "pass a larger --epsilon, or fewer --heads without one."
        )
    if n_heads is None:
        from rote.solvers.distribution import fewest_heads

        heads = fewest_heads(table, t_eps, d_model, width)
        if heads is None:
            raise CapacityError(
                f"no number of heads of width {width} tells the {t_eps:,} likely contexts apart at d_model = {d_model}"
                "; pass a larger --epsilon or another --d-model."
            )
        arch = arch.replace(n_heads=heads)
        _refuse_size(table, arch)
    elif capacity_of(table, arch) < t_eps:
        affords = capacity_of(table, arch)
        raise CapacityError(
            f"Theorem 1 needs H d_head + d_model >= T_eps = {t_eps:,} at epsilon = {epsilon:g}, and this shape tells "
            f"{affords:,} contexts apart; use more heads, or epsilon = {epsilon_of(table, affords):.4g} or more."
        )
    return _Job(table, arch, epsilon, t_eps, n_heads is None, arch.n_heads)


def _refuse_size(table: DistributionTable, arch: Architecture) -> None:
    features = table.n_contexts * (arch.n_heads * arch.d_head + arch.d_model)
    maps = arch.n_heads * arch.d_model * max(arch.d_model, arch.d_head)
    if max(features, maps, table.vocab * arch.d_model) > _MOST_FEATURES:
        raise CapacityError(
            f"{arch.n_heads:,} heads of {arch.d_head:,} at d_model = {arch.d_model:,} for {table.n_contexts:,} contexts"
            " need more memory than is sensible; lower --d-model (N - 1 is enough for any distribution) or raise "
            "--epsilon."
        )


def _layer(
    builder: DistributionBuilder,
    job: _Job,
    bound: EncoderBound,
    rng: np.random.Generator,
    rank1_qk: bool,
    progress: Progress,
) -> tuple[Layer, _Job]:
    """The layer; more heads where rounding shows although nothing is left out, or the gap is more than 2 eps."""
    from rote.solvers.distribution import fewest_heads

    table, least = job.table, job.arch.n_heads
    left = table.leftover(job.t_eps) > 0
    # With as many heads as this nothing needs to be left out at all.
    whole = table.t_eps(0.0)
    most = fewest_heads(table, whole, job.arch.d_model, job.arch.d_head) if left and whole <= LARGEST_SOLVE else None
    best: tuple[Layer, _Job] | None = None
    for number, slack in enumerate(_SLACKS if job.planned and table.context > 1 else (1.0,)):
        heads = max(math.ceil(slack * least), least + number)
        exact = most is not None and heads >= most
        now = replace(job, arch=job.arch.replace(n_heads=most if exact and most is not None else heads))
        _refuse_size(table, now.arch)
        progress("layer", number, len(_SLACKS), None)
        layer = builder.layer(
            table,
            bound,
            now.arch,
            n_contexts=whole if exact else now.t_eps,
            rng=rng,
            rank1_qk=rank1_qk,
            tries=1 if left and number else None,
        )
        if best is None or layer.kl32 < best[0].kl32:
            best = layer, now
        if exact or (builder.method == "interpolation" and left):
            break
        if layer.kl32 - bound.kl <= (2 * job.epsilon if left else 5e-7):
            break
    assert best is not None
    return best


def _measures(bound: EncoderBound, layers: dict[str, Layer], left: float, kl: float | None) -> dict[str, Any]:
    """What the certificate says about the bound and about both constructions."""
    theorem = layers.get("interpolation")
    excess = None if theorem is None else theorem.excess(left)
    gap = None if theorem is None else theorem.kl64 - bound.kl
    refit = layers.get("refit")
    return {
        "encoder_kl": bound.kl,
        "encoder_kl_bits": in_bits(bound.kl),
        "encoder_starts": list(bound.starts),
        "encoder_spread": bound.spread,
        "encoder_exact": bound.reason or None,
        "gap": None if kl is None else kl - bound.kl,
        "C": None if theorem is None else theorem.C,
        "norm_WE": None if theorem is None else theorem.norm,
        "theorem_bound": None if excess is None else bound.kl + excess,
        "theorem_excess": excess,
        "looseness": excess / gap if excess and gap and gap > 0 else None,
        "interpolation_kl": None if theorem is None else finite(theorem.kl64),
        "refit_kl": None if refit is None else finite(refit.kl64),
    }


def _judge(
    builder: DistributionBuilder,
    job: _Job,
    layer: Layer,
    dtype: str,
    rank1_qk: bool,
    tokens: Tokens,
    seed: int | None,
    given: DistributionTable,
    progress: Progress,
) -> tuple[Memory, dict[str, Any]]:
    """Serialise, read back, and let the referee measure."""
    import torch
    from safetensors.torch import load, save

    number = getattr(torch, dtype)
    names = ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "W_U")
    tensors = {name: torch.from_numpy(getattr(layer.weights, name).copy()) for name in names}
    if rank1_qk:
        tensors |= {name: tensors[name][:, :1].contiguous() for name in ("W_Q", "W_K")}
    blob = save({name: tensor.to(number).contiguous() for name, tensor in tensors.items()}, {"format": "pt"})
    stored = load(blob)
    table, arch = job.table, job.arch
    model = Transformer(arch, stored)
    results = {}
    for name in dict.fromkeys((*CHECKED, dtype)):
        progress(f"verify {name}", 0, 1, None)
        results[name] = verify_distribution(model, table, dtype=name)
    found = results[dtype]
    config = {
        "format": checkpoint.FORMAT,
        "model": "transformer",
        "architecture": arch.to_dict(),
        "dtype": dtype,
        "activation": "identity",
    }
    raw = given if not given.smoothing else table
    certificate: dict[str, Any] = {
        "task": "distribution",
        "construction": builder.key,
        "theorem": str(builder.citation),
        "facts": table.n_contexts,
        "bound": arch.n_heads * arch.d_head + arch.d_model,
        "bound_exceeded": job.t_eps > arch.n_heads * arch.d_head + arch.d_model and table.context > 1,
        "epsilon": job.epsilon,
        "t_eps": job.t_eps,
        "leftover": table.leftover(job.t_eps),
        "kl": finite(found.kl),
        "kl_bits": finite(found.kl_bits),
        "kl_by_dtype": {name: finite(result.kl) for name, result in results.items()},
        "entropy": table.entropy,
        "entropy_bits": in_bits(table.entropy),
        "perplexity": finite(found.perplexity),
        "perplexity_floor": math.exp(table.entropy),
        "unigram": table.unigram_kl,
        "uniform": table.uniform_kl,
        "smoothing": table.smoothing,
        "smoothing_says": _said(table, given),
        "params": arch.params("full"),
        "params_by_convention": {name: arch.params(name) for name in CONVENTIONS},
        "stored_params": sum(tensor.numel() for tensor in stored.values()),
        "recall": {name: result.agreement for name, result in results.items()},
        "facts_sha256": table.sha256,
        "weights_sha256": hashlib.sha256(blob).hexdigest(),
        "facts_name": table.name,
        "shape": arch.to_dict(),
        "dtype": dtype,
        "arch": "rote",
        "data": "distribution",
        "stored_smoothing": 0.0 if raw is given else table.smoothing,
        "tokens": tokens,
        "seed": seed,
        "version": __version__,
        "report": {
            "method": layer.method,
            "condition": finite(layer.cond),
            "condition_fold": finite(layer.cond_fold),
            "draw": layer.draws,
            "theorem_heads": job.least,
        },
        "conditioning": finite(layer.cond),
    }
    files = {"model.safetensors": blob, "config.json": json_bytes(config), FILE: pack(raw)}
    files |= tokenizer.files(table.vocabulary.tokens, tokens, table.context)
    return Memory(model, certificate, table.vocabulary.tokens, tokens, files), certificate


def _said(table: DistributionTable, given: DistributionTable) -> str | None:
    if not table.smoothing:
        return None
    zeros = f"{given.n_zeros:,} probabilities were 0, so " if not given.full_support and not given.smoothing else ""
    return (
        f"{zeros}every distribution was mixed with {100 * table.smoothing:g} % of the uniform one; all numbers are "
        "about the smoothed table"
    )


def verify_distribution(
    model: Memory | nn.Module | str | Path, table: DistributionTable, *, dtype: str = "float32"
) -> Divergence:
    """The divergence of a model from a table, by the referee's own forward pass in the given number format."""
    import torch

    from rote.memory import load
    from rote.referee.divergence import score_distributions
    from rote.referee.forward import TORCH_DTYPES, rows_at_once, token_logits

    if dtype not in TORCH_DTYPES:
        raise UnknownName("number format", dtype, TORCH_DTYPES)
    number = TORCH_DTYPES[dtype]
    if isinstance(model, (str, Path)):
        model = load(model)
    module = model
    if isinstance(model, Memory):
        table, module = _in_words_of(model, table), model.model
    assert not isinstance(module, Memory)
    with torch.no_grad():
        if isinstance(module, Transformer):
            weights, activation = dict(module.state_dict()), module.activation
            size = rows_at_once(weights, table.context)
            return score_distributions(table, lambda c: token_logits(weights, c, number, activation), dtype, chunk=size)
        typed = module.to(number)
        return score_distributions(table, lambda c: torch.as_tensor(typed(c)), dtype)


def _in_words_of(memory: Memory, table: DistributionTable) -> DistributionTable:
    """The table with the model's token ids; unknown tokens and other lengths are refused."""
    import numpy as np

    from rote.data import Vocabulary

    length = int(memory.certificate["shape"]["context"])
    if table.context != length:
        raise CheckpointError(f"the model reads contexts of {length} tokens, this table has {table.context}.")
    if table.vocabulary.tokens == memory.vocabulary:
        return table
    places = {token: i for i, token in enumerate(memory.vocabulary)}
    unknown = [token for token in table.vocabulary.tokens if token not in places]
    if unknown:
        raise CheckpointError(
            f"the model does not know {len(unknown)} tokens of this table, the first is {unknown[0]!r}; it was built "
            "from another one, or it was read with other --tokens."
        )
    ids = np.array([places[token] for token in table.vocabulary.tokens])
    rows = np.zeros((table.n_contexts, len(memory.vocabulary)))
    rows[:, ids] = table.probabilities
    return DistributionTable(ids[table.contexts], table.prior, rows, Vocabulary(memory.vocabulary), table.name)


def distribution_limits(
    table: DistributionTable, d_model: int, *, rng: np.random.Generator | int = 0, starts: int | None = None
) -> dict[str, Any]:
    """What any model of a width can reach: the encoder bound, Theorem 2, and guesses for scale. `table` as prepared."""
    from rote.solvers.encoder import encoder_bound
    from rote.solvers.lookup import lookup_bound

    if not 1 <= d_model <= LARGEST:
        raise ShapeError(f"d_model must be from 1 to {LARGEST:,}, got {d_model:,}.")
    if table.vocab * d_model > _MOST_FEATURES:
        raise ShapeError(f"d_model = {d_model:,} is beyond sense; N - 1 = {table.vocab - 1:,} fits any distribution.")
    generator, _ = as_generator(rng)
    for_bound, for_frame = generator.spawn(2)
    bound = encoder_bound(table, d_model, rng=for_bound, starts=starts)
    lookup = lookup_bound(table, d_model, rng=for_frame)
    return {
        "d_model": d_model,
        "encoder_kl": bound.kl,
        "encoder_kl_bits": in_bits(bound.kl),
        "encoder_starts": list(bound.starts),
        "encoder_spread": bound.spread,
        "encoder_exact": bound.reason or None,
        "theorem2": lookup.measured,
        "theorem2_C": lookup.measured_c,
        "theorem2_printed": lookup.printed,
        "theorem2_printed_C": lookup.printed_c,
        "welch": lookup.welch,
    }
