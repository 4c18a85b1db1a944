"""Models of distributions: what both constructions share.

The road of a build: find the best encoder of the width (no model of that width does better), choose the heads, build
the layer that follows it, and let the referee measure the divergence of what was written. The certificate has all of
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rote.config import Architecture, Dtype, Shape
from rote.constructions._base import Construction, Job, Options, Plan, Progress, option, quiet, stored_bytes
from rote.errors import CapacityError, ShapeError, UsageError
from rote.plot.sheet import Grid, Sheet, Shown

if TYPE_CHECKING:
    import numpy as np

    from rote.data import DistributionTable
    from rote.data.verification import Verification
    from rote.models import Model
    from rote.solvers.distribution import Layer, Method
    from rote.solvers.encoder import EncoderBound
    from rote.theorems import Bound

__all__ = ["LARGEST_SOLVE", "DistributionConstruction", "DistributionOptions", "Limits"]

LARGEST_SOLVE = 12_000
"""Contexts beyond which the T_eps x T_eps solve is refused: more than a gigabyte for each copy of the matrix."""
_MOST_FEATURES = 250_000_000
_BEATEN = 1e-9  # nats by which a model must beat the bound before the bound is called unfinished
_SLACKS = (1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class DistributionOptions(Options):
    """What a model of distributions may be told beyond its shape."""

    epsilon: float | None = option(None, "Prior of the contexts that may be left out; 0 if not given.")
    smoothing: float | None = option(
        None, "Share of the uniform distribution mixed in; 0.01 if not given and something has probability 0."
    )
    starts: int | None = option(None, "Starts of the search for the best encoder.")
    rank1_qk: bool = option(False, "Query-key maps of rank 1 (fewer parameters).")
    kl: float | None = option(None, "Divergence to reach, in nats, where the width is to be found.")

    def __post_init__(self) -> None:
        from rote.data.kinds.distributions import check_share

        if self.starts is not None and self.starts < 1:
            raise UsageError(f"starts must be at least 1, got {self.starts}.")
        for name in ("epsilon", "smoothing"):
            value = getattr(self, name)
            if value is not None:
                check_share(value, name)
        if self.kl is not None and not (math.isfinite(self.kl) and self.kl >= 0):
            raise UsageError(f"the divergence to reach must be a number of nats from 0, got {self.kl}.")


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
class Settled:
    """What is settled before anything is computed."""

    arch: Architecture
    epsilon: float
    t_eps: int
    planned: bool
    """Whether the number of heads is ours to raise."""
    least: int
    """The fewest heads with H d_h + d >= T_eps, or the number given."""


def settle(table: DistributionTable, shape: Shape, epsilon: float | None) -> Settled:
    """The shape that reaches epsilon, or the epsilon that a shape affords."""
    if shape.d_model is None:
        raise UsageError(
            "how good a model of distributions can be depends on its width: give d_model, or the divergence (kl) that "
            "a width is to be found for."
        )
    d_model, n_heads = shape.d_model, shape.n_heads
    width = head_width(table, d_model, shape.d_head)
    arch = Architecture(n_heads or 1, d_model, width, table.context, table.vocab)
    _refuse_size(table, arch)
    if n_heads is not None and epsilon is None:
        t_eps = capacity_of(table, arch)
        return Settled(arch, epsilon_of(table, t_eps), t_eps, False, arch.n_heads)
    epsilon = epsilon or 0.0
    t_eps = table.t_eps(epsilon)
    if table.context > 1 and t_eps > LARGEST_SOLVE:
        raise CapacityError(
            f"T_eps is {t_eps:,} contexts at epsilon = {epsilon:g}, and the limit of the solve is {LARGEST_SOLVE:,}; "
            "allow a larger epsilon, or fewer heads without one."
        )
    if n_heads is None:
        from rote.solvers.distribution import fewest_heads

        heads = fewest_heads(table, t_eps, d_model, width)
        if heads is None:
            raise CapacityError(
                f"no number of heads of width {width} tells the {t_eps:,} likely contexts apart at d_model = {d_model}"
                "; allow a larger epsilon or another d_model."
            )
        arch = arch.replace(n_heads=heads)
        _refuse_size(table, arch)
    elif capacity_of(table, arch) < t_eps:
        affords = capacity_of(table, arch)
        raise CapacityError(
            f"Theorem 1 needs H d_head + d_model >= T_eps = {t_eps:,} at epsilon = {epsilon:g}, and this shape tells "
            f"{affords:,} contexts apart; use more heads, or epsilon = {epsilon_of(table, affords):.4g} or more."
        )
    return Settled(arch, epsilon, t_eps, n_heads is None, arch.n_heads)


def _refuse_size(table: DistributionTable, arch: Architecture) -> None:
    features = table.n_facts * (arch.n_heads * arch.d_head + arch.d_model)
    maps = arch.n_heads * arch.d_model * max(arch.d_model, arch.d_head)
    if max(features, maps, table.vocab * arch.d_model) > _MOST_FEATURES:
        raise CapacityError(
            f"{arch.n_heads:,} heads of {arch.d_head:,} at d_model = {arch.d_model:,} for {table.n_facts:,} contexts"
            " need more memory than is sensible; lower d_model (N - 1 is enough for any distribution) or raise epsilon."
        )


class DistributionConstruction(Construction["DistributionTable", DistributionOptions]):
    """An attention-only layer for a table of distributions, as good as its width allows on T_eps contexts.

    `epsilon` is 0 if neither it nor the number of heads is given, and with heads the smallest that the shape affords.
    """

    accepts = ("distributions",)
    exact = False
    method: ClassVar[Method]
    """What is done about the contexts that are left out: "interpolation" or "refit"."""

    def prepare(self, table: DistributionTable, options: DistributionOptions) -> DistributionTable:
        """Full support: mixed with the uniform distribution if asked to, or by the usual share where something is 0."""
        from rote.data.kinds.distributions import DEFAULT_SMOOTHING

        smoothing = options.smoothing
        if table.smoothing:
            if smoothing not in (None, table.smoothing):
                raise UsageError("this table is smoothed already; leave smoothing out, or give the original.")
            return table
        if smoothing is None:
            smoothing = 0.0 if table.full_support else DEFAULT_SMOOTHING
        return table.smoothed(smoothing)

    def shapes(
        self, table: DistributionTable, shape: Shape, dtype: Dtype, options: DistributionOptions
    ) -> Iterator[Plan]:
        if options.kl is not None:
            from rote.constructions._distribution_plans import shapes_that_reach

            yield from shapes_that_reach(self, table, options.kl, shape, dtype)
            return
        settled = settle(table, shape, options.epsilon)
        params = settled.arch.params()
        yield Plan(
            self.key, settled.arch, params, stored_bytes(params, dtype), settled.t_eps, dtype=dtype,
            note=f"T_eps = {settled.t_eps:,} contexts at epsilon = {settled.epsilon:.4g}",
            measures={"epsilon": settled.epsilon, "t_eps": settled.t_eps},
        )  # fmt: skip

    def limit(self, table: DistributionTable, arch: Architecture, dtype: Dtype) -> Bound | None:
        from rote import theorems

        theorem = theorems.get("dana2025_thm1")
        return replace(theorem.bound(theorems.Setting(arch, dtype)), facts=arch.n_heads * arch.d_head + arch.d_model)

    def held(self, table: DistributionTable, model: Model) -> int:
        return int(model.claims["t_eps"]) if table.context > 1 else 0

    def layer(
        self,
        table: DistributionTable,
        bound: EncoderBound,
        arch: Architecture,
        *,
        n_contexts: int,
        rng: np.random.Generator,
        rank1_qk: bool = False,
        tries: int | None = None,
    ) -> Layer:
        """The layer that follows the encoder; CapacityError where the shape does not tell so many contexts apart."""
        from rote.solvers.distribution import attend

        return attend(
            table,
            bound,
            n_heads=arch.n_heads,
            d_head=arch.d_head,
            n_contexts=n_contexts,
            method=self.method,
            rng=rng,
            rank_one_qk=rank1_qk,
            tries=tries,
        )

    def build(self, job: Job[DistributionTable, DistributionOptions]) -> Model:
        import torch

        from rote.data.verification import finite
        from rote.models import Wording
        from rote.models.kinds.transformer import TransformerModel
        from rote.solvers.encoder import encoder_bound, tighten

        table, options, progress = job.table, job.options, job.progress
        open_heads = job.shape.n_heads is None and options.kl is None
        given = Shape(None if open_heads else job.arch.n_heads, job.arch.d_model, job.arch.d_head)
        settled = settle(table, given, options.epsilon)
        for_bound, for_layer, for_other = job.rng.spawn(3)
        progress("best encoder", 0, 1, None)
        bound = encoder_bound(
            table, job.arch.d_model, rng=for_bound, starts=options.starts,
            report=lambda i, n: progress("best encoder", i, n, None),
        )  # fmt: skip
        layer, arch = self._best_layer(table, settled, bound, for_layer, options.rank1_qk, progress)
        tightened = layer.kl32 < bound.kl - _BEATEN
        if tightened:
            # The search for the best encoder stopped early: go on from what did better, and build again.
            bound = tighten(table, bound, layer.weights.W_U, rng=for_bound)
            layer, arch = self._best_layer(table, settled, bound, for_layer, options.rank1_qk, progress)
        others = {self.method: layer, **self._compared(table, settled, arch, bound, for_other, options.rank1_qk)}
        names = ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "W_U")
        tensors = {name: torch.from_numpy(getattr(layer.weights, name).copy()) for name in names}
        if options.rank1_qk:
            tensors |= {name: tensors[name][:, :1].contiguous() for name in ("W_Q", "W_K")}
        left = table.leftover(settled.t_eps)
        return TransformerModel(
            arch,
            tensors,
            wording=Wording(table.vocabulary.tokens, table.tokens, table.context),
            dtype=job.dtype,
            report={
                "method": layer.method,
                "condition": finite(layer.cond),
                "condition_fold": finite(layer.cond_fold),
                "draw": layer.draws,
                "theorem_heads": settled.least,
            },
            claims={
                "epsilon": settled.epsilon,
                "t_eps": settled.t_eps,
                "leftover": left,
                "encoder_tightened": tightened,
                **_said_of_layers(bound, others, left),
            },
        )

    def _compared(
        self,
        table: DistributionTable,
        settled: Settled,
        arch: Architecture,
        bound: EncoderBound,
        rng: np.random.Generator,
        rank1_qk: bool,
    ) -> dict[str, Layer]:
        """For the certificate: what the other construction makes of this table, with the theorem's number of heads."""
        from rote import constructions

        if not table.leftover(settled.t_eps) or table.context == 1 or settled.t_eps > LARGEST_SOLVE // 2:
            return {}
        bare = arch.replace(n_heads=settled.least)
        return {
            other.method: other.layer(table, bound, bare, n_contexts=settled.t_eps, rng=rng, rank1_qk=rank1_qk, tries=1)
            for other in constructions.registry().values()
            if isinstance(other, DistributionConstruction) and other.method != self.method
        }

    def _best_layer(
        self,
        table: DistributionTable,
        settled: Settled,
        bound: EncoderBound,
        rng: np.random.Generator,
        rank1_qk: bool,
        progress: Progress,
    ) -> tuple[Layer, Architecture]:
        """The layer; more heads where rounding shows although nothing is left out, or the gap is more than 2 eps."""
        from rote.solvers.distribution import fewest_heads

        least = settled.arch.n_heads
        left = table.leftover(settled.t_eps) > 0
        # With as many heads as this nothing needs to be left out at all.
        whole = table.t_eps(0.0)
        most = None
        if left and whole <= LARGEST_SOLVE:
            most = fewest_heads(table, whole, settled.arch.d_model, settled.arch.d_head)
        best: tuple[Layer, Architecture] | None = None
        for number, slack in enumerate(_SLACKS if settled.planned and table.context > 1 else (1.0,)):
            heads = max(math.ceil(slack * least), least + number)
            complete = most is not None and heads >= most
            arch = settled.arch.replace(n_heads=most if complete and most is not None else heads)
            _refuse_size(table, arch)
            progress("layer", number, len(_SLACKS), None)
            layer = self.layer(
                table,
                bound,
                arch,
                n_contexts=whole if complete else settled.t_eps,
                rng=rng,
                rank1_qk=rank1_qk,
                tries=1 if left and number else None,
            )
            if best is None or layer.kl32 < best[0].kl32:
                best = layer, arch
            if complete or (self.method == "interpolation" and left):
                break
            if layer.kl32 - bound.kl <= (2 * settled.epsilon if left else 5e-7):
                break
        assert best is not None
        return best

    def measures(
        self,
        job: Job[DistributionTable, DistributionOptions],
        model: Model,
        folder: Path,
        results: Mapping[str, Verification],
    ) -> Mapping[str, Any]:
        from rote.data.kinds.distributions import in_bits

        table = job.table
        stored = results[job.dtype].to_dict()
        kl = stored["kl"]
        return {
            **{name: stored[name] for name in ("kl", "kl_bits", "perplexity", "perplexity_floor")},
            "kl_by_dtype": {name: result.to_dict()["kl"] for name, result in results.items()},
            "entropy": table.entropy,
            "entropy_bits": in_bits(table.entropy),
            "unigram": table.unigram_kl,
            "uniform": table.uniform_kl,
            "smoothing": table.smoothing,
            "stored_smoothing": table.stored_smoothing,
            "smoothing_says": _said_of_smoothing(table),
            "gap": None if kl is None else kl - model.claims["encoder_kl"],
        }

    def limits(
        self,
        table: DistributionTable,
        shape: Shape,
        options: DistributionOptions,
        *,
        rng: int = 0,
        progress: Progress = quiet,
    ) -> Limits:
        table = self.prepare(table, options)
        widths = [shape.d_model] if shape.d_model is not None else _usual_widths(table)
        starts = options.starts or (3 if shape.d_model is None else None)
        rows = []
        for i, width in enumerate(widths):
            progress("best encoders", i, len(widths), None)
            rows.append(_width_limits(table, width, rng, starts))
        return Limits(table, options.epsilon or 0.0, tuple(rows), single=shape.d_model is not None)

    def sheet(self, certificate: Mapping[str, Any], place: str) -> Sheet:
        return _sheet(certificate, place)

    def examples(self, rng: np.random.Generator) -> list[tuple[DistributionTable, Shape | Architecture]]:
        from rote.data import random_distributions

        return [(random_distributions(30, 2, 9, rng=rng, spread=1.5), Shape(d_model=3))]

    def near_misses(self, rng: np.random.Generator) -> list[tuple[DistributionTable, Shape | Architecture, str]]:
        from rote.data import random_distributions

        table = random_distributions(30, 2, 9, rng=rng, spread=1.5)
        return [(table, Shape(), "width"), (table, Shape(d_model=3, d_head=4), "wider")]


def _said_of_smoothing(table: DistributionTable) -> str | None:
    if not table.smoothing:
        return None
    before = 0 if table.original is None else table.original.n_zeros
    zeros = f"{before:,} probabilities were 0, so " if before else ""
    return (
        f"{zeros}every distribution was mixed with {100 * table.smoothing:g} % of the uniform one; all numbers are "
        "about the smoothed table"
    )


def _said_of_layers(bound: EncoderBound, layers: Mapping[str, Layer], left: float) -> dict[str, Any]:
    """What the certificate says about the bound and about both constructions."""
    from rote.data.kinds.distributions import in_bits
    from rote.data.verification import finite

    theorem, refit = layers.get("interpolation"), layers.get("refit")
    excess = None if theorem is None else theorem.excess(left)
    gap = None if theorem is None else theorem.kl64 - bound.kl
    return {
        "encoder_kl": bound.kl,
        "encoder_kl_bits": in_bits(bound.kl),
        "encoder_starts": list(bound.starts),
        "encoder_spread": bound.spread,
        "encoder_exact": bound.reason or None,
        "C": None if theorem is None else theorem.C,
        "norm_WE": None if theorem is None else theorem.norm,
        "theorem_bound": None if excess is None else bound.kl + excess,
        "theorem_excess": excess,
        "looseness": excess / gap if excess and gap and gap > 0 else None,
        "interpolation_kl": None if theorem is None else finite(theorem.kl64),
        "refit_kl": None if refit is None else finite(refit.kl64),
    }


def _sheet(c: Mapping[str, Any], place: str) -> Sheet:
    shape = c["shape"]
    heads = f"{shape['n_heads']:,} head{'s' if shape['n_heads'] > 1 else ''} of {shape['d_head']}"
    lines = [f"{c['params']:,} parameters; T_eps = {c['t_eps']:,} at epsilon {c['epsilon']:.4g}; seed {c['seed']}"]
    if c["smoothing_says"]:
        lines.append(f"{c['smoothing_says']}.")
    rows = [
        (f"this model, {name}" + ("  (stored)" if name == c["dtype"] else ""), value)
        for name, value in c["kl_by_dtype"].items()
    ]
    rows.append(("no model of this width is below", c["encoder_kl"]))
    if c["leftover"]:
        rows.append(("by interpolation, as in the proof", c["interpolation_kl"]))
        rows.append(("Theorem 1 promises", c["theorem_bound"]))
    rows += [("unigram guess", c["unigram"]), ("uniform guess", c["uniform"])]
    notes = [
        f"perplexity {c['perplexity']:.4g}, where {c['perplexity_floor']:.4g} is the table's own; gap to the width's "
        f"bound {small(c['gap'])} nats"
    ]
    if c["encoder_exact"]:
        notes.append(f"the bound is exactly 0: {c['encoder_exact']}.")
    elif c["encoder_spread"]:
        starts = len(c["encoder_starts"])
        notes.append(f"the bound is the best of {starts} starts, spread {small(c['encoder_spread'])}.")
    if c["C"] is not None and c["looseness"]:
        notes.append(f"C = {c['C']:.4g} (equation 14); the promise is {c['looseness']:.3g} times the excess it bounds.")
    return Sheet(
        place,
        f": distributions of {c['facts']:,} contexts by {c['construction']}, {heads}, d_model {shape['d_model']}, "
        f"context {shape['context']}",
        tuple(lines),
        (Grid(("divergence from the table", "nats", "bits"), tuple((name, *both(value)) for name, value in rows)),),
        tuple(notes),
    )


def both(value: float | None) -> tuple[str, str]:
    """Nats and bits, for people."""
    return ("–", "–") if value is None else (fixed(value), fixed(value / math.log(2)))


def fixed(value: float) -> str:
    return f"{value:.6f}" if value < 1e4 else f"{value:.3g}"


def small(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}" if abs(value) >= 1e-9 else "below 1e-9"


def _usual_widths(table: DistributionTable) -> list[int]:
    widths = sorted({*(2**k for k in range(1, 7) if 2**k < table.vocab - 1), table.vocab - 1})
    return widths[:4] if table.n_facts * table.vocab > 2_000_000 else widths


def _width_limits(table: DistributionTable, d_model: int, seed: int, starts: int | None) -> dict[str, Any]:
    """What any model of a width can reach: the encoder bound and Theorem 2. The table has full support."""
    import numpy as np

    from rote.data.kinds.distributions import in_bits
    from rote.solvers.encoder import encoder_bound
    from rote.solvers.lookup import lookup_bound

    if table.vocab * d_model > _MOST_FEATURES:
        raise ShapeError(f"d_model = {d_model:,} is beyond sense; N - 1 = {table.vocab - 1:,} fits any distribution.")
    for_bound, for_frame = np.random.default_rng(seed).spawn(2)
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


@dataclass(frozen=True)
class Limits(Shown):
    """How close any model of a width can come to a table of distributions, and guesses for scale."""

    table: DistributionTable
    epsilon: float
    widths: tuple[Mapping[str, Any], ...]
    single: bool
    """One width was asked for."""

    def to_dict(self) -> dict[str, Any]:
        from rote.data.kinds.distributions import in_bits

        record = {
            **self.table.describe(),
            "epsilon": self.epsilon,
            "t_eps": self.table.t_eps(self.epsilon),
            "unigram_bits": in_bits(self.table.unigram_kl),
            "uniform_bits": in_bits(self.table.uniform_kl),
        }
        return {**record, **self.widths[0]} if self.single else {**record, "widths": [dict(w) for w in self.widths]}

    def sheet(self) -> Sheet:
        from rote.data.kinds.distributions import in_bits

        table, rows = self.table, []
        for item in self.widths:
            starts = f"best of {len(item['encoder_starts'])} starts, spread {small(item['encoder_spread'])}"
            how = f"exact: {item['encoder_exact']}" if item["encoder_exact"] else starts
            rows.append((f"d_model {item['d_model']}: no model is below", *both(item["encoder_kl"]), how))
            needs = "" if item["theorem2"] else ", needs 1/2"
            measured = f"C = {item['theorem2_C']:.3f}, measured on a frame{needs}"
            rows.append(("  Theorem 2: some encoder is below", *both(item["theorem2"]), measured))
            if self.single:
                printed = f"C = {item['theorem2_printed_C']:.3f}" + ("" if item["theorem2_printed"] else ", needs 1/2")
                rows.append(("  with the printed constant", *both(item["theorem2_printed"]), printed))
        rows.append(("unigram guess", *both(table.unigram_kl), "the best that ignores the context"))
        rows.append(("uniform guess", *both(table.uniform_kl), ""))
        return Sheet(
            f"{table.n_facts:,} contexts of {table.context}, vocabulary {table.vocab:,}",
            f"; entropy {table.entropy:.4f} nats ({in_bits(table.entropy):.4f} bits), perplexity "
            f"{math.exp(table.entropy):.4g}; T_eps = {table.t_eps(self.epsilon):,} at epsilon {self.epsilon:g}",
            grids=(Grid(("predictor", "nats", "bits", "how"), tuple(rows), left=("how",)),),
        )

    def __repr__(self) -> str:
        return f"Limits({self.table.name!r}: {len(self.widths)} width{'s' if len(self.widths) > 1 else ''})"
