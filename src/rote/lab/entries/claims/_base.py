"""Verdicts, and the registry of tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from rote.errors import UnknownName, UsageError, check_names
from rote.lab._modules import modules
from rote.lab.entries.table import Table

__all__ = ["VERDICTS", "Claim", "Verdict", "claims", "get_claim", "number_of", "text_list", "text_of"]

VERDICTS = ("holds", "does not hold", "undecided", "not judged")
"""What a test says; the last is for runs that are not the claim's own grid."""
_COMMON = ("kind", "name", "decides")


@dataclass(frozen=True)
class Verdict:
    """One of VERDICTS, why in a few words, and the numbers behind it."""

    verdict: str
    why: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise UnknownName("verdict", self.verdict, VERDICTS)


@dataclass(frozen=True)
class Claim:
    """One module of this package."""

    kind: str
    keys: tuple[str, ...]
    decide: Callable[[Table, Mapping[str, Any]], Verdict]
    title: str

    def check(self, spec: Mapping[str, Any]) -> None:
        """Refuse names that the test does not know."""
        check_names(f"key of the test {self.kind}", spec, (*_COMMON, *self.keys))


@cache
def claims() -> MappingProxyType[str, Claim]:
    """All tests by kind."""
    known = {}
    for name, module, title in modules("rote.lab.entries.claims"):
        if not callable(getattr(module, "decide", None)):
            raise TypeError(f"claim file {name!r} must define decide(table, spec) and KEYS.")
        known[name] = Claim(name, tuple(module.KEYS), module.decide, title)
    return MappingProxyType(known)


def get_claim(kind: str) -> Claim:
    """The test of that kind, or an error that suggests the nearest."""
    if kind not in claims():
        raise UnknownName("test of a claim", kind, claims())
    return claims()[kind]


def text_of(spec: Mapping[str, Any], name: str) -> str:
    """A parameter that is a text and must be there."""
    value = spec.get(name)
    if not isinstance(value, str) or not value:
        raise UsageError(f"the test {spec.get('kind')} needs {name}, a text.")
    return value


def text_list(spec: Mapping[str, Any], name: str) -> list[str]:
    """A parameter that is a list of texts; empty if not given."""
    value = spec.get(name, [])
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UsageError(f"{name} in the test {spec.get('kind')} must be a list of texts, got {value!r}.")
    return list(value)


def number_of(spec: Mapping[str, Any], name: str, default: float | None = None) -> float:
    """A parameter that is a number."""
    value = spec.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"the test {spec.get('kind')} needs {name}, a number, got {value!r}.")
    return float(value)
