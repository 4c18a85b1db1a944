"""The contract suite of constructions.

`check_construction(construction)` raises AssertionError with a sentence that says which promise of the `Construction`
interface is broken.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator
from typing import Any

from rote.config import Architecture, Dtype, Shape
from rote.constructions import AnyConstruction, NoPlan, Options, Plan
from rote.data.demand import Demand
from rote.errors import RoteError
from rote.testing.operations import check_comparisons, check_edits, check_locations
from rote.theorems import Setting

_ASKED = 12
__all__ = [
    "built",
    "check_construction",
    "check_examples",
    "check_near_misses",
    "check_options",
    "check_plans",
    "sample_demands",
]


def sample_demands() -> Iterator[Demand]:
    """A grid of demands, from one fact to very many."""
    fixed = ((None, None, None), (16, None, None), (None, 12, None), (None, None, 2000))
    for n_facts, (vocab, context) in itertools.product(
        (1, 2, 17, 500, 20_000), ((2, 16), (40, 4), (1000, 2), (300, 32))
    ):
        for d_model, n_heads, max_params in fixed:
            if n_facts <= vocab**context:
                yield Demand(n_facts, vocab, context, d_model=d_model, n_heads=n_heads, max_params=max_params)


def check_construction(construction: AnyConstruction) -> None:
    """Every promise of the interface: what it says of itself, its plans, its examples, and what it refuses."""
    check_options(construction)
    check_plans(construction)
    check_examples(construction)
    check_near_misses(construction)
    check_edits(construction)
    check_locations(construction)
    check_comparisons(construction)


def check_options(construction: AnyConstruction) -> None:
    """It says what it takes and makes, and everything it may be told has a default and a sentence of help."""
    key = construction.key
    assert key, "a construction needs a key; the registry sets it"
    assert construction.title.strip() and construction.source.strip(), f"{key}: no title, or no source"
    assert construction.accepts, f"{key}: it must accept some kind of table"
    assert construction.native in construction.dtypes, f"{key}: its own number format is not among those it takes"
    assert {*construction.shaped_by} <= {f.name for f in dataclasses.fields(Shape)}, f"{key}: no such part of a shape"
    record = construction.Options
    assert record is not Options, f"{key}: it needs an Options record of its own"
    default = record()
    assert default.to_dict() == {}, f"{key}: the defaults differ from themselves"
    for item in dataclasses.fields(record):
        help_text = item.metadata.get("help", "")
        assert help_text.endswith("."), f"{key}: the option {item.name} has no sentence of help"
        try:
            setattr(default, item.name, None)
        except dataclasses.FrozenInstanceError:
            continue
        raise AssertionError(f"{key}: the options can be changed after the fact")
    for dtype in construction.dtypes:
        assert dtype in construction.formats(dtype), f"{key}: stored as {dtype}, but not judged in it"


def check_plans(construction: AnyConstruction) -> None:
    """A planned shape holds what was asked for by the theorem's own bound, and does not with one head less."""
    for demand in sample_demands():
        answer = construction.plan(demand)
        if isinstance(answer, NoPlan):
            assert answer.reason, f"{construction.key}: a refusal gives its reason"
            continue
        _check_plan(construction, demand, answer)
        for arch in _variants(construction, demand, answer):
            assert demand.n_heads in (None, arch.n_heads), f"{construction.key}: a variant moves the heads"
            assert demand.d_model in (None, arch.d_model), f"{construction.key}: a variant moves the width"


def _variants(construction: AnyConstruction, demand: Demand, plan: Plan) -> list[Architecture]:
    """Shapes to try; none where so many facts are refused."""
    try:
        return [one.architecture for one in itertools.islice(construction.variants(demand, plan), 60)]
    except RoteError:
        return []


def _check_plan(construction: AnyConstruction, demand: Demand, plan: Plan) -> None:
    arch, key = plan.architecture, construction.key
    assert plan.construction == key, f"{key}: the plan says it is {plan.construction!r}"
    assert plan.facts >= demand.n_facts, f"{key}: the plan holds {plan.facts} of {demand.n_facts} facts"
    assert plan.params > 0 and plan.bytes > 0, f"{key}: a plan has a size"
    assert demand.d_model in (None, arch.d_model), f"{key}: d_model was fixed to {demand.d_model}"
    assert demand.n_heads in (None, arch.n_heads), f"{key}: n_heads was fixed to {demand.n_heads}"
    json.dumps(plan.to_dict(), allow_nan=False)
    if construction.theorem is None:
        return
    bound = construction.theorem.bound(Setting(arch, plan.dtype))
    if bound.own_shape or (bound.facts is None and not construction.shaped_by):
        # It speaks of networks of another shape with as many parameters, or of none that is so small.
        return
    holds = bound.facts
    assert holds is not None and holds >= demand.n_facts, (
        f"{key}: planned for {demand.n_facts} facts, but the bound of that shape is {holds}"
    )
    if demand.n_heads is None and arch.n_heads > 1:
        less = construction.theorem.bound(Setting(arch.replace(n_heads=arch.n_heads - 1), plan.dtype)).facts
        assert less is None or less < demand.n_facts, f"{key}: one head less would do for {demand}"


def _format(construction: AnyConstruction) -> Dtype:
    """The number format in which a construction has to show what it can do: the finest that it takes."""
    return next(dtype for dtype in ("exact", "float64", construction.native) if dtype in construction.dtypes)


def built(construction: AnyConstruction, table: Any, shape: Shape | Architecture, seed: int) -> Any:
    from rote.pipeline import build, build_at

    dtype, options = _format(construction), construction.example_options
    if isinstance(shape, Architecture):
        return build_at(construction, table, shape, construction.Options(**options), dtype=dtype, rng=seed)
    return build(
        table,
        construction.key,
        n_heads=shape.n_heads,
        d_model=shape.d_model,
        d_head=shape.d_head,
        d_mlp=shape.d_mlp,
        dtype=dtype,
        options=options,
        rng=seed,
    )


def check_examples(construction: AnyConstruction) -> None:
    """Every example at the bound is recalled with a positive margin, in the finest number format that it takes.

    Also: the same seed gives the same weights, another one others; inputs and the global random state stay untouched;
    the file holds as many numbers as is claimed; judging in another format leaves the model as it is; and the model
    answers as the referee says it does.
    """
    import numpy as np
    import torch

    key, native = construction.key, _format(construction)
    examples = construction.examples(np.random.default_rng(0))
    assert examples or not construction.automatic, f"{key}: a construction that auto tries brings examples"
    for table, shape in examples:
        assert table.kind in construction.accepts, f"{key}: an example of a kind that it does not accept"
        before, state = table.sha256, (repr(np.random.get_state()), torch.get_rng_state())  # noqa: NPY002
        memories = [built(construction, table, shape, seed) for seed in (3, 3, 4)]
        first, again, other = (memory.certificate for memory in memories)
        assert first.passed, f"{key}: loses facts at its bound, {shape}"
        margin = first.min_margin[native]
        assert margin is None or margin > 0 or first.recall[native] < 1, f"{key}: no margin at its bound, {shape}"
        assert first.weights_sha256 == again.weights_sha256, f"{key}: not reproducible"
        changed = first.weights_sha256 != other.weights_sha256
        assert changed == construction.seeded, f"{key}: the seed has {'an' if changed else 'no'} effect on the weights"
        assert table.sha256 == before, f"{key}: the data were changed"
        assert repr(np.random.get_state()) == state[0], f"{key}: numpy's global random state was touched"  # noqa: NPY002
        assert torch.equal(torch.get_rng_state(), state[1]), f"{key}: torch's global random state was touched"
        assert first.stored_params == first.params, f"{key}: the parameter count is not the claimed one"
        assert first.construction == key and first.data == table.kind, f"{key}: the certificate names something else"
        json.dumps(first.to_dict(), allow_nan=False)
        assert first.sheet().title, f"{key}: the certificate cannot be shown"
        _check_answers(construction, memories[0], table)


def _check_answers(construction: AnyConstruction, memory: Any, table: Any) -> None:
    from rote.pipeline import verify

    before = {name: tensor.clone() for name, tensor in memory.module.state_dict().items()}
    for dtype in construction.formats(_format(construction)):
        verdict = verify(memory, table, dtype=dtype)
        claimed = memory.certificate.recall.get(dtype)
        assert verdict.recall == claimed, f"{construction.key}: {claimed} certified at {dtype}, {verdict.recall} found"
    for name, tensor in memory.module.state_dict().items():
        assert tensor.equal(before[name]), f"{construction.key}: judging changed {name}"
    if memory.model.wording is None or memory.certificate.recall[memory.certificate.dtype] < 1:
        # A model that is good by another measure than the right answer may well say another one.
        return
    asked = range(min(_ASKED, table.n_facts))
    for i, answer in zip(asked, memory.model.first_answers(table.inputs(slice(0, len(asked)))[0]), strict=True):
        said = table.fact_text(i).rpartition("->")[2]
        assert all(word in said for word in answer.split()), (
            f"{construction.key}: asked for {table.fact_text(i)}, it says {answer!r}, though all is certified"
        )


def check_near_misses(construction: AnyConstruction) -> None:
    """Tables that break an assumption or exceed the bound are refused, with the word that says why."""
    import numpy as np

    for table, shape, word in construction.near_misses(np.random.default_rng(1)):
        try:
            built(construction, table, shape, 0)
        except RoteError as error:
            assert word in str(error), f"{construction.key}: the refusal does not name {word!r}: {error}"
        else:
            raise AssertionError(f"{construction.key}: accepted a near miss ({word}) for {shape}")
