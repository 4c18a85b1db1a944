"""Plain arguments of functions and fields of records: another type than the annotation is refused in a sentence.

Texts, numbers, paths, lists, mappings, shapes and functions are looked at. What takes anything else, such as a table,
says itself what it wants.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from typing import TYPE_CHECKING, ParamSpec, TypeVar, get_origin

from rote.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["check_fields", "checked"]

P = ParamSpec("P")
R = TypeVar("R")

_WORDS = {
    "str": "a text",
    "Path": "a path",
    "os.PathLike[str]": "a path",
    "int": "a whole number",
    "float": "a number",
    "bool": "True or False",
    "None": "None",
    "Mapping": "a mapping",
    "Architecture": "an Architecture",
    "Callable": "a function",
}
_LISTS = ("Sequence", "Iterable", "list")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, behind a check of its arguments."""
    signature = inspect.signature(function)
    declared = {name: _spelled(one.annotation, function) for name, one in signature.parameters.items()}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # which says in Python's own words what is missing or too much
        for name, value in given.items():
            several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
            for one in value if several else (value,):
                _check(f"rote.{function.__qualname__}", name, declared[name], one)
        return function(*args, **kwargs)

    return call


def _spelled(annotation: object, function: Callable[..., object]) -> str:
    """An annotation as a text; the name of a kind of function, such as Progress, as what it stands for."""
    named = function.__globals__.get(str(annotation))
    return "Callable" if get_origin(named) is Callable else str(annotation)


def check_fields(record: DataclassInstance) -> None:
    """Refuse a record with a field that is of another type than its annotation."""
    for field in dataclasses.fields(record):
        _check(type(record).__name__, field.name, str(field.type), getattr(record, field.name))


def _check(whose: str, name: str, declared: str, value: object) -> None:
    if not _fits(declared, value):
        wanted = " or ".join(dict.fromkeys(_worded(part) for part in _parts(declared)))
        raise UsageError(f"{whose} needs {wanted} for {name}, got the {type(value).__name__}{_shown(value)}.")


def _fits(declared: str, value: object) -> bool:
    return any(_is(part, value) for part in _parts(declared))


@cache
def _parts(declared: str) -> list[str]:
    """The members of a union; unions in brackets stay together."""
    return re.split(r" \| (?![^\[]*\])", declared)


def _is(part: str, value: object) -> bool:
    name, _, inner = part.partition("[")
    if part == "None":
        return value is None
    if part in ("str", "Path") or name == "os.PathLike":
        return isinstance(value, str) or (part != "str" and isinstance(value, os.PathLike))
    if part in ("int", "float"):
        return isinstance(value, Integral if part == "int" else Real) and not isinstance(value, bool)
    if part == "bool":
        return type(value).__name__ in ("bool", "bool_")
    if name == "Mapping":
        return isinstance(value, Mapping)
    if name == "Callable":
        return callable(value)
    if part == "Architecture":
        return type(value).__name__ == part
    if name in _LISTS:
        kind: type = Iterable if name == "Iterable" else Sequence
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, kind):
            return False
        # What can be gone through only once is not touched.
        return not isinstance(value, Collection) or all(_fits(inner.removesuffix("]"), one) for one in value)
    return True


def _worded(part: str) -> str:
    name, _, inner = part.partition("[")
    if part in _WORDS:
        return _WORDS[part]
    if name in _LISTS:
        each = " or ".join(_worded(one).removeprefix("a ") for one in _parts(inner.removesuffix("]")))
        return f"a list of {each}s"
    return _WORDS.get(name, part)


def _shown(value: object) -> str:
    """A short value, for people who wonder where it came from."""
    return f" ({value!r})" if isinstance(value, (str, int, float)) and len(str(value)) <= 40 else ""
