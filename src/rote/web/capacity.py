"""The capacity page: every bound at a shape, every bound along one axis, and the shapes that hold so many facts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rote import capacity, plans
from rote.config import LARGEST, Architecture, check_dtype
from rote.errors import RoteError, UnknownName, UsageError
from rote.grids import bounds_figure, why_not
from rote.theorems import Bound, Demand, Setting, registry
from rote.web.commands import command
from rote.web.figures import figure_answer

__all__ = ["AXES", "bounds_answer", "plan_answer", "whole"]

AXES: dict[str, tuple[int, int, int | None]] = {
    "heads": (1, 128, 8),
    "d_model": (2, 1024, 64),
    "d_head": (1, 256, None),
    "context": (1, 512, 32),
    "vocab": (2, 50_000, 1000),
    "layers": (1, 512, 1),
    "d_mlp": (1, 4096, 0),
}
"""What may lie along the chart: from where to where it is drawn unless the shape itself is beyond, and the usual value.
Heads are as wide as the model unless told otherwise."""

POINTS = 20
_FIELDS = {"heads": "n_heads", "layers": "n_layers"}


def whole(query: Mapping[str, str], name: str, usual: int | None) -> int | None:
    """A whole number from an address; nothing at all is the usual."""
    text = query.get(name, "").strip()
    if not text:
        return usual
    if not re.fullmatch(r"-?[0-9]{1,15}", text):
        raise UsageError(f"{name} must be a whole number, got {text[:40]!r}.")
    return int(text)


def _needed(query: Mapping[str, str], name: str) -> int:
    value = whole(query, name, AXES[name][2])
    assert value is not None, "there is a usual value"
    return value


def setting_of(query: Mapping[str, str]) -> tuple[Setting, bool]:
    """The setting that an address asks for, and whether heads are as wide as the model by default."""
    d_model, d_head = _needed(query, "d_model"), whole(query, "d_head", None)
    arch = Architecture(
        n_heads=_needed(query, "heads"),
        d_model=d_model,
        d_head=d_model if d_head is None else d_head,
        context=_needed(query, "context"),
        vocab=_needed(query, "vocab"),
        n_layers=_needed(query, "layers"),
        d_mlp=_needed(query, "d_mlp"),
    )
    setting = Setting(
        arch,
        dtype=check_dtype(query.get("dtype") or "float32"),
        shared_context=query.get("shared") == "1",
        kruskal=whole(query, "kruskal", None),
        distinct_last=whole(query, "last_tokens", None),
        n_facts=whole(query, "facts", None),
    )
    return setting, d_head is None


@lru_cache(maxsize=4096)
def _bounds(setting: Setting, without: tuple[str, ...]) -> tuple[Bound, ...]:
    """All bounds but some."""
    return tuple(capacity.bounds(setting, [key for key in registry() if key not in without]))


def _places(low: int, high: int, also: int) -> list[int]:
    """Whole numbers from low to high, evenly spaced in the logarithm, and the present one among them."""
    steps = {round(low * (high / low) ** (i / (POINTS - 1))) for i in range(POINTS)}
    return sorted(steps | {also})


def bounds_answer(query: Mapping[str, str], *, slow: bool = True) -> dict[str, Any]:
    """What every theorem says about the shape, and along the axis.

    Without `slow`, theorems that would search for more than a moment are named in `waiting` and left out.
    """
    setting, tied = setting_of(query)
    axis = query.get("axis") or "heads"
    if axis not in AXES:
        raise UnknownName("axis", axis, AXES)
    now = int(getattr(setting.arch, _FIELDS.get(axis, axis)))
    low, high, _ = AXES[axis]
    high = min(LARGEST, max(high, 2 * now))
    xs = _places(min(low, max(1, now)), high, max(low, now))
    far = setting.arch.replace(**{_FIELDS.get(axis, axis): high})
    waiting = () if slow else tuple(key for key, one in registry().items() if one.searches(far))
    lines: dict[str, list[Bound]] = {}
    for x in xs:
        for bound in _along(setting, axis, x, tied, waiting):
            lines.setdefault(bound.theorem, []).append(bound)
    here = _bounds(setting, waiting)
    parts = setting.arch.count("full")
    return {
        "axis": axis,
        "now": now,
        "figure": figure_answer(bounds_figure(axis, "linear" if query.get("linear") == "1" else "log", xs, lines)),
        "waiting": list(waiting),
        "bounds": [{**bound.to_dict(), "why": why_not(bound)} for bound in here],
        "params": parts.to_dict(),
        "shape": setting.arch.to_dict(),
        "dtype": setting.dtype,
        "command": bound_command(setting, tied),
    }


def _along(setting: Setting, axis: str, x: int, tied: bool, without: tuple[str, ...]) -> tuple[Bound, ...]:
    """The bounds at one place of the axis; a place that no shape has is left empty, with the reason."""
    changes = {_FIELDS.get(axis, axis): x}
    if axis == "d_model" and tied:
        changes["d_head"] = x
    arch = setting.arch.replace(**changes)
    kruskal = None if setting.kruskal is None else min(setting.kruskal, arch.d_model)
    last = None if setting.distinct_last is None else min(setting.distinct_last, arch.vocab)
    return _bounds(Setting(arch, setting.dtype, setting.shared_context, kruskal, last, setting.n_facts), without)


def bound_command(setting: Setting, tied: bool) -> str:
    arch = setting.arch
    return command(
        "bound",
        heads=arch.n_heads,
        d_model=arch.d_model,
        d_head=None if tied else arch.d_head,
        context=arch.context,
        vocab=arch.vocab,
        layers=arch.n_layers if arch.n_layers > 1 else None,
        d_mlp=arch.d_mlp or None,
        dtype=setting.dtype if setting.dtype != "float32" else None,
        shared_context=setting.shared_context,
        kruskal=setting.kruskal,
        last_tokens=setting.distinct_last,
        facts=setting.n_facts,
    )


def plan_answer(query: Mapping[str, str]) -> dict[str, Any]:
    """The smallest shapes that hold so many facts."""
    facts = whole(query, "facts", 10_000)
    vocab, context = whole(query, "vocab", 1000), whole(query, "context", 4)
    assert facts is not None and vocab is not None and context is not None
    dtype = check_dtype(query.get("dtype") or "float32")
    most = whole(query, "max_params", None)
    said = command(
        "plan",
        facts=facts,
        vocab=vocab,
        context=context,
        dtype=dtype if dtype != "float32" else None,
        max_params=most,
    )
    try:
        planned = plans.plan(Demand(facts, vocab, context, dtype, max_params=most))
    except RoteError as error:
        return {"plans": [], "refused": [], "refusal": str(error), "command": said}
    return {
        "plans": [
            {**item.to_dict(), "bits_per_param": facts * math.log2(vocab) / item.params} for item in planned.plans
        ],
        "refused": [item.to_dict() for item in planned.refused],
        "refusal": None,
        "command": said,
    }
