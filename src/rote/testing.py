"""Contract checks for theorems, for our own tests and for yours.

`check_theorem(theorem)` raises AssertionError with a sentence that says which promise of the `Theorem` interface is
broken. Call it from a test, for a theorem of your own as well as for the registered ones.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

from rote.config import DTYPES, Architecture
from rote.errors import RoteError
from rote.theorems import Bound, Demand, NoPlan, Plan, Setting, Theorem
from rote.theorems._builder import AnyBuilder, Builder
from rote.theorems._distribution import DistributionBuilder

__all__ = [
    "check_bounds",
    "check_builder",
    "check_citation",
    "check_distribution_builder",
    "check_plans",
    "check_theorem",
    "sample_demands",
    "sample_settings",
]

_KINDS = ("lower", "upper", "order", "empirical")


def sample_settings() -> Iterator[Setting]:
    """A grid of shapes, small and large, degenerate ones among them."""
    shapes = itertools.product((1, 3, 8), (2, 7, 32), (1, 2, 9), (2, 50), ((1, 0), (2, 16), (60, 8)))
    for heads, d_model, context, vocab, (layers, d_mlp) in shapes:
        for d_head in {1, d_model}:
            arch = Architecture(heads, d_model, d_head, context, vocab, n_layers=layers, d_mlp=d_mlp)
            for shared, kruskal in itertools.product((False, True), (None, 2)):
                yield Setting(
                    arch, shared_context=shared, kruskal=kruskal, dtype=DTYPES[(heads + context) % len(DTYPES)]
                )


def sample_demands() -> Iterator[Demand]:
    """A grid of demands, from one fact to very many."""
    for n_facts, (vocab, context) in itertools.product(
        (1, 2, 17, 500, 20_000), ((2, 16), (40, 4), (1000, 2), (300, 32))
    ):
        for d_model, n_heads, max_params in (
            (None, None, None),
            (16, None, None),
            (None, 12, None),
            (None, None, 2000),
        ):
            if n_facts <= vocab**context:
                yield Demand(n_facts, vocab, context, d_model=d_model, n_heads=n_heads, max_params=max_params)


def check_theorem(theorem: Theorem) -> None:
    """Every promise of the interface, on a grid of shapes and demands."""
    check_citation(theorem)
    check_bounds(theorem)
    check_plans(theorem)
    if isinstance(theorem, Builder):
        check_builder(theorem)
    if isinstance(theorem, DistributionBuilder):
        check_distribution_builder(theorem)


def check_citation(theorem: Theorem) -> None:
    """A citation names authors, title, year and place, and where to find it; kind and statement are filled in."""
    cite = theorem.citation
    assert theorem.key, "a theorem needs a key; the registry sets it"
    assert theorem.kind in _KINDS, f"{theorem.key}: kind {theorem.kind!r} is none of {_KINDS}"
    for name in ("title", "statement", "promises"):
        assert getattr(theorem, name).strip(), f"{theorem.key}: {name} is empty"
    for name in ("authors", "title", "where"):
        assert getattr(cite, name).strip(), f"{theorem.key}: the citation has no {name}"
    assert 1900 < cite.year < 2100, f"{theorem.key}: the citation's year is {cite.year}"
    assert cite.arxiv or cite.venue, f"{theorem.key}: the citation says neither arXiv nor venue"


def _check_record(theorem: Theorem, bound: Bound) -> None:
    assert bound.theorem == theorem.key, f"{theorem.key}: the bound says it is {bound.theorem!r}"
    assert bound.kind == theorem.kind, f"{theorem.key}: the bound is {bound.kind}, the theorem {theorem.kind}"
    assert bound.conditions, f"{theorem.key}: a bound lists its conditions"
    assert bound.formula and bound.source, f"{theorem.key}: a bound has a formula and a source"
    if bound.kind == "order":
        assert bound.facts is None, f"{theorem.key}: an order of magnitude is no number"
    if not bound.applies:
        assert bound.facts is None, f"{theorem.key}: a condition fails, so there is no number"
    if bound.facts is not None:
        assert isinstance(bound.facts, int), f"{theorem.key}: facts are whole"
        assert bound.facts >= 1, f"{theorem.key}: a bound of {bound.facts} facts is none"
        assert bound.params is not None and bound.params > 0, f"{theorem.key}: a bound counts parameters"
    json.dumps(bound.to_dict(), allow_nan=False)


def check_bounds(theorem: Theorem) -> None:
    """Records are complete, numbers are withheld where conditions fail, and one more head never lowers the bound."""
    for setting in sample_settings():
        bound = theorem.bound(setting)
        _check_record(theorem, bound)
        assert bound == theorem.bound(setting), f"{theorem.key}: the same question has two answers"
        arch = setting.arch.replace(n_heads=setting.arch.n_heads + 1)
        more = theorem.bound(Setting(arch, setting.dtype, setting.shared_context, setting.kruskal))
        if bound.facts is not None:
            assert more.facts is not None, f"{theorem.key}: with one head more the bound is lost"
            assert more.facts >= bound.facts, f"{theorem.key}: with one head more the bound falls"


def check_plans(theorem: Theorem) -> None:
    """A planned shape holds what was asked for by the theorem's own bound, and does not with one head less."""
    for demand in sample_demands():
        answer = theorem.plan(demand)
        if not theorem.constructive:
            assert answer is None, f"{theorem.key}: plans, but is not marked constructive"
            continue
        assert answer is not None, f"{theorem.key}: is constructive and must answer with a plan or a reason"
        if isinstance(answer, NoPlan):
            assert answer.reason, f"{theorem.key}: a refusal gives its reason"
            continue
        _check_plan(theorem, demand, answer)


def _check_plan(theorem: Theorem, demand: Demand, plan: Plan) -> None:
    arch = plan.architecture
    assert plan.construction == theorem.key, f"{theorem.key}: the plan says it is {plan.construction!r}"
    assert plan.facts >= demand.n_facts, f"{theorem.key}: the plan holds {plan.facts} of {demand.n_facts} facts"
    assert plan.params > 0 and plan.bytes > 0, f"{theorem.key}: a plan has a size"
    assert demand.d_model in (None, arch.d_model), f"{theorem.key}: d_model was fixed to {demand.d_model}"
    assert demand.n_heads in (None, arch.n_heads), f"{theorem.key}: n_heads was fixed to {demand.n_heads}"
    holds = theorem.bound(Setting(arch, plan.dtype)).facts
    assert holds is not None and holds >= demand.n_facts, (
        f"{theorem.key}: planned for {demand.n_facts} facts, but the bound of that shape is {holds}"
    )
    if demand.n_heads is None and arch.n_heads > 1:
        less = theorem.bound(Setting(arch.replace(n_heads=arch.n_heads - 1), plan.dtype)).facts
        assert less is None or less < demand.n_facts, f"{theorem.key}: one head less would do for {demand}"
    json.dumps(plan.to_dict(), allow_nan=False)


def _format(builder: AnyBuilder) -> str:
    """The number format in which a construction has to show what it can do."""
    return "exact" if builder.native == "exact" else "float64"


def check_builder(builder: AnyBuilder) -> None:
    """Every example at the bound is recalled with a positive margin; every near miss is refused.

    Recall is judged in float64, or in exact arithmetic for constructions that are made for it.

    Also: the same seed gives the same weights, another one others; inputs and the global random state stay untouched;
    the file holds as many numbers as the shape claims.
    """
    import numpy as np
    import torch

    from rote.building import Request, build_at

    examples = builder.examples(np.random.default_rng(0))
    assert examples, f"{builder.key}: a builder brings examples"
    for data, arch in examples:
        before, state = data.sha256, (repr(np.random.get_state()), torch.get_rng_state())  # noqa: NPY002
        native = _format(builder)
        request = Request(with_=builder.key, dtype=native)
        made = [build_at(builder, data, arch, request, seed) for seed in (3, 3, 4)]
        first = made[0].certificate
        assert first["recall"][native] == 1.0, f"{builder.key}: loses facts at its bound, {arch}"
        assert first["min_margin"][native] > 0, f"{builder.key}: no margin at its bound, {arch}"
        assert first["weights_sha256"] == made[1].certificate["weights_sha256"], f"{builder.key}: not reproducible"
        assert first["weights_sha256"] != made[2].certificate["weights_sha256"], (
            f"{builder.key}: the seed has no effect"
        )
        assert data.sha256 == before, f"{builder.key}: the data were changed"
        assert repr(np.random.get_state()) == state[0], f"{builder.key}: numpy's global random state was touched"  # noqa: NPY002
        assert torch.equal(torch.get_rng_state(), state[1]), f"{builder.key}: torch's global random state was touched"
        assert first["stored_params"] == first["params"], f"{builder.key}: the parameter count is not the claimed one"
    for data, arch, word in builder.near_misses(np.random.default_rng(1)):
        try:
            build_at(builder, data, arch, Request(with_=builder.key, dtype=_format(builder)), 0)
        except RoteError as error:
            assert word in str(error), f"{builder.key}: the refusal does not name {word!r}: {error}"
        else:
            raise AssertionError(f"{builder.key}: accepted a near miss ({word}) for {arch}")


def check_distribution_builder(builder: DistributionBuilder) -> None:
    """At eps = 0 the bound of the width is met in float64 and in float32, and the seed alone decides the weights."""
    import numpy as np

    from rote.data import random_distributions
    from rote.distribution_building import build_distribution

    table = random_distributions(30, 2, 9, rng=np.random.default_rng(0), spread=1.5)
    before = table.sha256
    made = [
        build_distribution(table, d_model=3, with_=builder.key, starts=1, rng=seed).certificate for seed in (3, 3, 4)
    ]
    first = made[0]
    for dtype in ("float64", "float32"):
        gap = first["kl_by_dtype"][dtype] - first["encoder_kl"]
        assert abs(gap) <= 1e-6, f"{builder.key}: {gap} nats from the best encoder at {dtype}"
    assert first["weights_sha256"] == made[1]["weights_sha256"], f"{builder.key}: not reproducible"
    assert first["weights_sha256"] != made[2]["weights_sha256"], f"{builder.key}: the seed has no effect"
    assert first["stored_params"] == first["params"], f"{builder.key}: the parameter count is not the claimed one"
    assert table.sha256 == before, f"{builder.key}: the data were changed"
