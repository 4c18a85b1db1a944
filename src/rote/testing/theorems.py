"""The contract suite for theorems: `check_theorem` raises AssertionError with a sentence that says what is broken."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

from rote.config import DTYPES, Architecture
from rote.theorems import Bound, Setting, Theorem

__all__ = ["check_bounds", "check_citation", "check_theorem", "sample_settings"]

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


def check_theorem(theorem: Theorem) -> None:
    """Every promise of the interface, on a grid of shapes."""
    check_citation(theorem)
    check_bounds(theorem)


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
