"""Conditions on rows, as text: `n_heads>=6 and recipe=best`. They are compared here and never become SQL."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rote.errors import UnknownName, UsageError

__all__ = ["select"]

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONDITION = re.compile(r"\s*([A-Za-z_]\w*)\s*(==|!=|<=|>=|=|<|>)\s*(.*?)\s*", re.DOTALL)


def select(rows: Sequence[Mapping[str, Any]], conditions: Iterable[str]) -> list[dict[str, Any]]:
    """The rows that meet every condition."""
    known = {name for row in rows for name in row}
    kept = [dict(row) for row in rows]
    for text in conditions:
        for part in re.split(r"\s+and\s+", text, flags=re.IGNORECASE):
            condition = _CONDITION.fullmatch(part)
            if condition is None:
                raise UsageError(
                    f"{part!r} is no condition; write COLUMN OPERATOR VALUE, as in n_heads>=6, with one of "
                    f"{' '.join(_OPERATORS)}."
                )
            name, sign, value = condition.groups()
            if rows and name not in known:
                raise UnknownName("column", name, known)
            kept = [row for row in kept if _meets(row.get(name), sign, value.strip("'\""))]
    return kept


def _meets(held: object, sign: str, value: str) -> bool:
    compare = _OPERATORS[sign]
    if held is None:
        return compare(value.lower() in ("", "none", "null"), True) if sign in ("=", "==", "!=") else False
    if isinstance(held, bool):
        return compare(str(held).lower(), value.lower()) if sign in ("=", "==", "!=") else False
    if isinstance(held, (int, float)):
        try:
            return compare(held, float(value))
        except ValueError:
            return sign == "!="
    return compare(str(held), value)
