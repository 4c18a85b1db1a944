"""Constructions for the build page: which there are, and what each may be told, read off their Options records.

A new construction, or a new option of one, is on the page without a change here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

from rote import constructions
from rote.constructions import AnyConstruction, Construction
from rote.errors import UnknownName, UsageError
from rote.web.answers import flag, number, text

__all__ = ["SHAPE", "architectures", "constructions_answer", "given_options"]

SHAPE = {"n_heads": "heads", "d_model": "d_model", "d_head": "d_head", "d_mlp": "d_mlp"}
"""What of a shape may be given, and how the command line calls it."""

_FORMS = {bool: "flag", int: "whole", float: "number"}


def _built_here() -> dict[str, AnyConstruction]:
    return {key: one for key, one in constructions.registry().items() if one.verb == "build"}


def architectures() -> list[str]:
    """Architectures that something is built of, the usual one first."""
    return list(dict.fromkeys([Construction.arch, *(one.arch for one in _built_here().values())]))


def constructions_answer() -> dict[str, Any]:
    """Every construction that `rote build` has, with its options."""
    return {"constructions": [_record(one) for one in _built_here().values()], "architectures": architectures()}


def _record(one: AnyConstruction) -> dict[str, Any]:
    return {
        "construction": one.key,
        "title": one.title,
        "statement": None if one.theorem is None else one.theorem.statement,
        "accepts": list(one.accepts),
        "arch": one.arch,
        "automatic": one.automatic,
        "native": one.native,
        "dtypes": list(one.dtypes),
        "shape": [SHAPE[name] for name in one.shaped_by],
        "options": _options(one),
    }


def _options(one: AnyConstruction) -> list[dict[str, Any]]:
    kinds = get_type_hints(one.Options)
    return [
        {
            "name": item.name,
            "form": _form(kinds[item.name]),
            "default": item.default,
            "help": item.metadata.get("help", ""),
            "choices": item.metadata.get("choices"),
        }
        for item in dataclasses.fields(one.Options)
        if not item.metadata.get("place")
    ]


def _form(kind: Any) -> str:
    """What is typed into the field of an option: a flag, a whole number, a number, or text."""
    inner = [one for one in get_args(kind) if one is not type(None)]
    return _FORMS.get(inner[0] if inner else kind, "text")


def given_options(record: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a request that were given, each of the right form; whose they are is the pipeline's to say."""
    given = record.get("options") or {}
    if not isinstance(given, dict):
        raise UsageError("options must be names with values.")
    forms = {item["name"]: item["form"] for one in _built_here().values() for item in _options(one)}
    for name in given:
        if name not in forms:
            raise UnknownName("option", name[:100], forms)
    read: dict[str, Callable[[Mapping[str, Any], str], Any]] = {
        "flag": flag,
        "whole": number,
        "number": _real,
        "text": text,
    }
    values = {name: read[forms[name]](given, name) for name in given}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def _real(record: Mapping[str, Any], name: str) -> float | None:
    """An optional number."""
    value = record[name]
    if value is None:
        return None
    try:
        if not isinstance(value, bool) and isinstance(value, (int, float)) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise UsageError(f"{name} must be a number, got {str(value)[:40]!r}.")
