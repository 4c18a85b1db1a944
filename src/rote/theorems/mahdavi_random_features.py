"""Random attention features (rote; goes beyond Mahdavi, Liao, Thrampoulidis 2024, Theorem 1).

Statement: draw W_Q and W_K of H heads at random. With probability one the T x Hd matrix Z of head outputs has rank
           min(T, H(m - 1) + 1, H d) for one shared context of m distinct rows, and min(T, H d) for contexts of their
           own, for every head width d_h >= 1; then a linear readout interpolates as many real labels.
Notation:  H = n_heads, d = d_model, d_h = d_head, m = distinct context rows (at most n = context).
Source:    this project, measured; the upper limit for shared contexts is in arXiv 2306.02010 v3.
Differs:   ours: neither the head width nor the Kruskal rank of the queries limits the rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from rote.config import Architecture
from rote.theorems._base import Bound, Demand, NoPlan, Plan, Setting, condition, stored_bytes
from rote.theorems._citations import mahdavi2024
from rote.theorems._vectors import VectorBuilder
from rote.theorems.mahdavi2024_thm1 import COUNTS, layer_params

if TYPE_CHECKING:
    import numpy as np

    from rote.data import VectorTable
    from rote.solvers.record import Construction, Options, Progress

__all__ = ["theorem"]


def _limit(heads: int, n: int, d: int, shared: bool) -> int:
    return min(heads * (n - 1) + 1, heads * d) if shared else heads * d


class _Theorem(VectorBuilder):
    title = "One attention layer, random features"
    kind = "lower"
    citation = mahdavi2024("beyond Theorem 1, measured by rote")
    statement = "Random heads interpolate H(n - 1) + 1 labels over a shared context, H d over contexts of their own."
    promises = "recall of every fact, for random draws; measured, not proved"

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        h, n, d = arch.n_heads, arch.context, arch.d_model
        facts = _limit(h, n, d, setting.shared_context)
        own = f"H d = {h} * {d} = {facts:,}"
        shared = f"min(H(n - 1) + 1, H d) = min({h}({n} - 1) + 1, {h} * {d}) = {facts:,}"
        return self.make(
            setting,
            facts=facts,
            params=layer_params(arch),
            conditions=(
                condition("contexts vary", None, "distinct context rows; contexts of their own span R^d together"),
                condition("distinct examples", None, "no two examples with the same context and query"),
            ),
            formula=shared if setting.shared_context else own,
            counts=COUNTS,
        )

    def plan(self, demand: Demand) -> Plan | NoPlan:
        return self._plan(demand, demand.d_head or 1)

    def _plan(self, demand: Demand, d_head: int) -> Plan | NoPlan:
        d = demand.d_model or max(demand.context, 2)
        per_head = demand.context - 1 if demand.shared_context else d
        if demand.shared_context and demand.context == 1 and demand.n_facts > 1:
            return NoPlan(self.key, "one shared vector is the same for every query; it needs context >= 2")
        facts = demand.n_facts
        heads = -(-(facts - 1) // per_head) if demand.shared_context else -(-facts // d)
        heads = max(1, heads, -(-facts // d))
        if demand.n_heads is not None:
            if heads > demand.n_heads:
                most = _limit(demand.n_heads, demand.context, d, demand.shared_context)
                return NoPlan(self.key, f"{demand.n_heads} heads hold at most {most:,} facts")
            heads = demand.n_heads
        arch = Architecture(heads, d, d_head, demand.context, demand.vocab)
        return Plan(
            construction=self.key,
            architecture=arch,
            params=layer_params(arch),
            bytes=stored_bytes(layer_params(arch), demand.dtype),
            facts=_limit(heads, demand.context, d, demand.shared_context),
            note="for vectors that vary enough, with real labels; no embedding counted",
            dtype=demand.dtype,
            counts=COUNTS,
        )

    def shapes(self, demand: Demand) -> Iterator[Plan]:
        """Narrow heads are badly conditioned, so wider ones follow, then a tenth more heads."""
        d = demand.d_model or max(demand.context, 2)
        widths = [demand.d_head] if demand.d_head else sorted({min(w, d) for w in (1, 2, 4, 16)})
        for width in widths:
            answer = self._plan(demand, width)
            if isinstance(answer, Plan):
                yield answer
                last = answer
        if demand.n_heads is None and widths:
            arch = last.architecture
            more = arch.replace(n_heads=arch.n_heads + max(1, arch.n_heads // 10))
            yield Plan(self.key, more, layer_params(more), stored_bytes(layer_params(more), demand.dtype), last.facts)

    def limit(self, data: VectorTable, arch: Architecture, dtype: str) -> Bound:
        from rote.solvers.random_features import feature_rank_limit

        facts = feature_rank_limit(data.contexts, data.queries, arch.n_heads)
        return self.make(
            self.setting(data, arch, dtype),
            facts=facts,
            params=layer_params(arch),
            conditions=(condition("rank of these contexts", True, "computed from the data"),),
            formula=f"rank limit of these data with {arch.n_heads} heads: {facts:,}",
            counts=COUNTS,
        )

    def admit(self, data: VectorTable, arch: Architecture) -> None:
        from rote.solvers.random_features import distinct_examples

        self.check_shape(data, arch)
        distinct_examples(data.contexts, data.queries, data.targets.reshape(data.n_examples, -1).astype(float))

    def build(
        self, data: VectorTable, arch: Architecture, *, rng: np.random.Generator, options: Options, progress: Progress
    ) -> Construction:
        from rote.solvers.random_features import random_feature_layer

        progress("random features", 0, 1, None)
        made = random_feature_layer(
            data.contexts.copy(),
            data.queries.copy(),
            data.targets.copy(),
            n_heads=arch.n_heads,
            d_head=arch.d_head,
            rng=rng,
            n_classes=data.n_classes,
        )
        report = made.report
        return self.construction(
            arch,
            made.weights if options.dtype == "float64" else made.weights32,
            {"scale": report.scale, "rank_Z": report.rank, "condition_Z": report.cond},
        )

    def examples(self, rng: np.random.Generator) -> list[tuple[VectorTable, Architecture]]:
        from rote.data import random_vectors

        found: list[tuple[VectorTable, Architecture]] = []
        sharing: Literal["shared", "own"]
        for heads, d, d_head, n, sharing in ((4, 6, 4, 5, "shared"), (3, 6, 2, 4, "own"), (2, 4, 4, 9, "own")):
            count = _limit(heads, n, d, sharing == "shared")
            table = random_vectors(count, n, d, rng=rng, sharing=sharing, distribution="gaussian")
            found.append((table, Architecture(heads, d, d_head, n, 2)))
        return found

    def near_misses(self, rng: np.random.Generator) -> list[tuple[VectorTable, Architecture, str]]:
        import numpy as np

        from rote.data import VectorTable, random_vectors

        over = random_vectors(19, 4, 6, rng=rng, sharing="own", distribution="gaussian")
        good = random_vectors(10, 4, 6, rng=rng, sharing="shared", distribution="gaussian")
        clash = np.array(good.queries)
        clash[6] = clash[1]
        return [
            (over, Architecture(3, 6, 6, 4, 2), "19"),
            (VectorTable(good.contexts, clash, good.targets), Architecture(4, 6, 6, 4, 2), "7"),
        ]


theorem = _Theorem()
