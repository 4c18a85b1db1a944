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

from rote.config import Architecture, Convention, Dtype, Shape
from rote.constructions._base import Construction, Job, Options, Plan, option, stored_bytes
from rote.constructions._data import wording
from rote.constructions._distribution_limits import Limits, certificate_sheet, usual_widths, width_limits
from rote.constructions._distribution_shapes import LARGEST_SOLVE, Settled, refuse_size, settle
from rote.errors import UsageError
from rote.plot.sheet import Sheet
from rote.solvers.record import Progress, quiet

if TYPE_CHECKING:
    import numpy as np

    from rote.data import DistributionTable
    from rote.data.verification import Verification
    from rote.models import Model
    from rote.solvers.distribution import Layer, Method
    from rote.solvers.encoder import EncoderBound
    from rote.theorems import Bound

__all__ = ["DistributionConstruction", "DistributionOptions"]

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

        super().__post_init__()
        if self.starts is not None and self.starts < 1:
            raise UsageError(f"starts must be at least 1, got {self.starts}.")
        for name in ("epsilon", "smoothing"):
            value = getattr(self, name)
            if value is not None:
                check_share(value, name)
        if self.kl is not None and not (math.isfinite(self.kl) and self.kl >= 0):
            raise UsageError(f"the divergence to reach must be a number of nats from 0, got {self.kl}.")


class DistributionConstruction(Construction["DistributionTable", DistributionOptions]):
    """An attention-only layer for a table of distributions, as good as its width allows on T_eps contexts.

    `epsilon` is 0 if neither it nor the number of heads is given, and with heads the smallest that the shape affords.
    """

    accepts = ("distributions",)
    example_options: ClassVar[Mapping[str, Any]] = {"starts": 1}
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
        convention: Convention = "rank1_qk" if options.rank1_qk else "full"
        if options.kl is not None:
            from rote.constructions._distribution_plans import shapes_that_reach

            yield from shapes_that_reach(
                self, table, options.kl, shape, dtype, starts=options.starts, counts=convention
            )
            return
        settled = settle(table, shape, options.epsilon)
        params = settled.arch.params(convention)
        yield Plan(
            self.key, settled.arch, params, stored_bytes(params, dtype), settled.t_eps, dtype=dtype,
            note=f"T_eps = {settled.t_eps:,} contexts at epsilon = {settled.epsilon:.4g}",
            measures={"epsilon": settled.epsilon, "t_eps": settled.t_eps},
        )  # fmt: skip

    def limit(self, table: DistributionTable, arch: Architecture, dtype: Dtype) -> Bound | None:
        from rote import theorems

        theorem = theorems.get("dana2025_thm1")
        return replace(theorem.bound(theorems.Setting(arch, dtype)), facts=arch.n_heads * arch.d_head + arch.d_model)

    def held(self, table: DistributionTable, claims: Mapping[str, Any]) -> int:
        settled = claims.get("t_eps")
        return settled if isinstance(settled, int) and table.context > 1 else 0

    def build(self, job: Job[DistributionTable, DistributionOptions]) -> Model:
        import torch

        from rote.data.verification import finite
        from rote.models.kinds.transformer import TransformerModel
        from rote.solvers.encoder import encoder_bound, tighten

        table, options, progress = job.table, job.options, job.progress
        open_heads = job.shape.n_heads is None and options.kl is None
        given = Shape(None if open_heads else job.arch.n_heads, job.arch.d_model, job.arch.d_head)
        settled = settle(table, given, options.epsilon)
        for_bound, for_layer, for_other = job.rng.spawn(3)
        progress("best encoder", 0, 0, None)
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
        stored = layer.weights.stored(rank_one_qk=options.rank1_qk)
        left = table.leftover(settled.t_eps)
        return TransformerModel(
            arch,
            {name: torch.from_numpy(value.copy()) for name, value in stored.items()},
            wording=wording(table),
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
        from rote.solvers.distribution import attend

        if not table.leftover(settled.t_eps) or table.context == 1 or settled.t_eps > LARGEST_SOLVE // 2:
            return {}
        shape: dict[str, Any] = {"n_heads": settled.least, "d_head": arch.d_head, "n_contexts": settled.t_eps}
        return {
            other.method: attend(table, bound, method=other.method, rng=rng, rank_one_qk=rank1_qk, tries=1, **shape)
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
        from rote.solvers.distribution import attend, fewest_heads

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
            refuse_size(table, arch)
            progress("layer", number, len(_SLACKS), None)
            layer = attend(
                table,
                bound,
                n_heads=arch.n_heads,
                d_head=arch.d_head,
                n_contexts=whole if complete else settled.t_eps,
                method=self.method,
                rng=rng,
                rank_one_qk=rank1_qk,
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

    def remeasured(
        self,
        table: DistributionTable,
        model: Model,
        dtype: str,
        results: Mapping[str, Verification],
        claims: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        from rote.data.kinds.distributions import in_bits

        found: dict[str, Any] = {}
        if dtype in results:
            stored, best = results[dtype].to_dict(), claims.get("encoder_kl")
            found = {name: stored[name] for name in ("kl", "kl_bits", "perplexity", "perplexity_floor")}
            known = found["kl"] is not None and isinstance(best, (int, float))
            found["gap"] = found["kl"] - best if known else None
        return {
            **found,
            "kl_by_dtype": {name: result.to_dict()["kl"] for name, result in results.items()},
            "entropy": table.entropy,
            "entropy_bits": in_bits(table.entropy),
            "unigram": table.unigram_kl,
            "uniform": table.uniform_kl,
            "smoothing": table.smoothing,
        }

    def measures(
        self,
        job: Job[DistributionTable, DistributionOptions],
        model: Model,
        folder: Path,
        results: Mapping[str, Verification],
    ) -> Mapping[str, Any]:
        return {
            **super().measures(job, model, folder, results),
            "stored_smoothing": job.table.stored_smoothing,
            "smoothing_says": _said_of_smoothing(job.table),
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
        widths = [shape.d_model] if shape.d_model is not None else usual_widths(table)
        starts = options.starts or (3 if shape.d_model is None else None)
        rows = []
        for i, width in enumerate(widths):
            progress("best encoders", i, len(widths), None)
            rows.append(width_limits(table, width, rng, starts))
        return Limits(table, options.epsilon or 0.0, tuple(rows), single=shape.d_model is not None)

    def sheet(self, certificate: Mapping[str, Any], place: str) -> Sheet:
        return certificate_sheet(certificate, place)

    def examples(self, rng: np.random.Generator) -> list[tuple[DistributionTable, Shape | Architecture]]:
        from rote.data import random_distributions

        return [(random_distributions(10, 2, 6, rng=rng, spread=1.5), Shape(d_model=2))]

    def near_misses(self, rng: np.random.Generator) -> list[tuple[DistributionTable, Shape | Architecture, str]]:
        from rote.data import random_distributions

        table = random_distributions(10, 2, 6, rng=rng, spread=1.5)
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
