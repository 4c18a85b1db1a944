"""Multi-head attention lower bound (Mahdavi, Liao, Thrampoulidis 2024, Theorem 1).

Statement: let T examples have contexts E_t (n rows in R^d, rank n), queries e_t in R^d of Kruskal rank at least n, and
           any real labels. With r = min(n, d_h), one layer of H heads of width d_h memorises all T labels whenever
           T <= H (r - 1) + 1.
Notation:  H = n_heads, d = d_model, d_h = d_head, n = context, T = n_facts, d_v = value width (1 for real labels).
Source:    arXiv 2306.02010 v3.
Differs:   nothing; parameters are counted for real labels, H (2 d d_h + d).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rote.config import Architecture
from rote.theorems._base import Bound, Condition, Demand, NoPlan, Plan, Setting, condition, stored_bytes
from rote.theorems._citations import mahdavi2024
from rote.theorems._vectors import VectorBuilder

if TYPE_CHECKING:
    import numpy as np

    from rote.data import VectorTable
    from rote.solvers.record import Construction, Options, Progress

__all__ = ["layer_params", "rank_of_contexts", "theorem"]

COUNTS = "W_Q, W_K and a value row for each head, real labels; inputs are vectors, so no embedding is counted"


def layer_params(arch: Architecture) -> int:
    """H (2 d d_h + d): query and key maps, and a value row for each head (d_v = 1, readout absorbed)."""
    return arch.n_heads * (2 * arch.d_model * arch.d_head + arch.d_model)


def rank_of_contexts(arch: Architecture) -> Condition:
    """Assumption 2: every context matrix has rank n, which is impossible for n > d."""
    n, d = arch.context, arch.d_model
    if n > d:
        return condition("rank of contexts", False, f"{n} rows in {d} dimensions have rank at most {d}")
    return condition("rank of contexts", None, f"every context must have rank {n} (Assumption 2); depends on the data")


def _kruskal(setting: Setting) -> Condition:
    n, q = setting.arch.context, setting.kruskal
    name = "Kruskal rank of queries"
    if q is None:
        return condition(name, None, f"any {n} queries must be independent (Assumption 1); depends on the data")
    return condition(name, q >= n, f"Kruskal rank {q}, needs {n}")


class _Theorem(VectorBuilder):
    title = "One attention layer, by softmax saturation"
    kind = "lower"
    citation = mahdavi2024("Theorem 1")
    statement = (
        "H heads memorise H(min(n, d_h) - 1) + 1 examples whose queries and contexts are in general enough position."
    )

    def bound(self, setting: Setting) -> Bound:
        arch = setting.arch
        r = min(arch.context, arch.d_head)
        facts = arch.n_heads * (r - 1) + 1
        return self.make(
            setting,
            facts=facts,
            params=layer_params(arch),
            conditions=(_kruskal(setting), rank_of_contexts(arch)),
            formula=f"H(min(n, d_h) - 1) + 1 = {arch.n_heads}(min({arch.context}, {arch.d_head}) - 1) + 1 = {facts:,}",
            counts=COUNTS,
        )

    def plan(self, demand: Demand) -> Plan | NoPlan:
        n, d = demand.context, demand.d_model or demand.context
        if d < n:
            return NoPlan(self.key, f"contexts of {n} vectors have rank {n} only if d_model is at least {n}, not {d}")
        if n == 1 and demand.n_facts > 1:
            return NoPlan(self.key, "a context of one vector holds one fact whatever the heads; it needs context >= 2")
        best: Architecture | None = None
        for r in {*range(min(2, n), min(n, 4096) + 1), n}:
            heads = max(1, -(-(demand.n_facts - 1) // max(1, r - 1)))
            if demand.n_heads is not None:
                if heads > demand.n_heads:
                    continue
                heads = demand.n_heads
            arch = Architecture(n_heads=heads, d_model=d, d_head=r, context=n, vocab=demand.vocab)
            if best is None or layer_params(arch) < layer_params(best):
                best = arch
        if best is None:
            most = (demand.n_heads or 0) * (n - 1) + 1
            return NoPlan(self.key, f"{demand.n_heads} heads on contexts of {n} hold at most {most:,} facts")
        params = layer_params(best)
        return Plan(
            construction=self.key,
            architecture=best,
            params=params,
            bytes=stored_bytes(params, demand.dtype),
            facts=best.n_heads * (best.d_head - 1) + 1,
            note="for vectors in general position with real labels; no embedding counted",
            counts=COUNTS,
            dtype=demand.dtype,
        )

    def limit(self, data: VectorTable, arch: Architecture, dtype: str) -> Bound:
        import numpy as np

        # The Kruskal rank is at most the matrix rank; where it is smaller still, `build` finds the dependent group.
        q = int(np.linalg.matrix_rank(data.queries))
        r = min(arch.context, arch.d_head, q)
        facts = arch.n_heads * (r - 1) + 1
        return self.make(
            self.setting(data, arch, dtype),
            facts=facts,
            params=layer_params(arch),
            conditions=(rank_of_contexts(arch), condition("Kruskal rank of queries", None, f"at most {q}")),
            formula=f"H(r - 1) + 1 with r = min(n, d_h, Q) = min({arch.context}, {arch.d_head}, {q}): {facts:,}",
            counts=COUNTS,
        )

    def admit(self, data: VectorTable, arch: Architecture) -> None:
        from rote.solvers.saturation import check_queries

        self.check_shape(data, arch)
        check_queries(data.queries)

    def build(
        self, data: VectorTable, arch: Architecture, *, rng: np.random.Generator, options: Options, progress: Progress
    ) -> Construction:
        from rote.solvers.saturation import saturation_layer

        progress("saturate", 0, arch.n_heads, None)
        made = saturation_layer(
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
            {
                "r": report.r,
                "readout": report.readout,
                "rank_Z": report.rank,
                "condition_Z": report.cond,
                "condition_blocks": report.block_cond,
                "gain_median": report.c_median,
                "gain_max": report.c_max,
                "base_example": report.base,
                "served_by_head": [group.tolist() for group in report.groups],
                "saturated_share_of_others": [round(float(x), 9) for x in report.saturated_share],
            },
        )

    def examples(self, rng: np.random.Generator) -> list[tuple[VectorTable, Architecture]]:
        from rote.data import random_vectors

        found: list[tuple[VectorTable, Architecture]] = []
        sharing: Literal["shared", "own"]
        for heads, d, d_head, n, sharing, classes in (
            (3, 6, 4, 4, "shared", None),
            (4, 8, 3, 5, "own", None),
            (2, 5, 5, 5, "shared", 3),
            (1, 4, 4, 4, "own", 2),
        ):
            count = heads * (min(n, d_head) - 1) + 1
            table = random_vectors(count, n, d, rng=rng, sharing=sharing, distribution="gaussian", n_classes=classes)
            found.append((table, Architecture(heads, d, d_head, n, max(2, classes or 2))))
        return found

    def near_misses(self, rng: np.random.Generator) -> list[tuple[VectorTable, Architecture, str]]:
        import numpy as np

        from rote.data import VectorTable, random_vectors

        shape = Architecture(3, 6, 4, 4, 2)
        full = random_vectors(10, 4, 6, rng=rng, sharing="own", distribution="gaussian")
        over = random_vectors(11, 4, 6, rng=rng, sharing="own", distribution="gaussian")
        twice, parallel, flat = np.array(full.queries), np.array(full.queries), np.array(full.contexts)
        twice[7] = twice[2]
        parallel[7] = -3.0 * parallel[2]
        flat[5, 3] = flat[5, 0]
        return [
            (over, shape, "11"),
            (VectorTable(full.contexts, twice, full.targets), shape, "8"),
            (VectorTable(full.contexts, parallel, full.targets), shape, "8"),
            (VectorTable(flat, full.queries, full.targets), shape, "6"),
        ]


theorem = _Theorem()
