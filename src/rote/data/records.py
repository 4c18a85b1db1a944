"""JSON and TOML that somebody hands in: the one reader of each.

Both have limits on bytes, on depth and on digits, so that what comes back can be walked, printed, written again and
turned into floats by whoever asked for it. Keys occur once, numbers are finite, and texts are whole Unicode. What a
record has to hold is for its user to check.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from rote.data.contents import contents, read_plain
from rote.errors import DataError, RoteError

__all__ = ["MOST_DEPTH", "MOST_DIGITS", "json_value", "parse_json", "read_json", "read_toml"]

MOST_DEPTH = 64
MOST_DIGITS = 300
"""Whole numbers of so many digits are still floats."""
_MOST_JSON = 1 << 28
_MOST_TOML = 1 << 20

# The time that tomllib takes for a dotted key grows with the square of its parts; these find one in a single pass.
_PART = r"[^\s.=\[\]{},#]"
_LONG_KEY = re.compile(rf"(?<!{_PART})(?:{_PART}++[ \t]*+\.[ \t]*+){{{MOST_DEPTH}}}")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_QUOTED_KEY = re.compile(r"[\"'][ \t]*+\.")


def read_json(
    path: Path, *, refuse: type[RoteError] = DataError, remedy: str = "write it again", most: int = _MOST_JSON
) -> dict[str, Any]:
    """The JSON object of a file; `remedy` is what to do about one that is none."""
    found = parse_json(contents(path, most=most, refuse=refuse), str(path), refuse=refuse, remedy=remedy)
    if not isinstance(found, dict):
        raise refuse(f"{path} must hold a JSON object, got a {type(found).__name__}; {remedy}.")
    return found


def parse_json(
    text: bytes | str, where: str, *, refuse: type[RoteError] = DataError, remedy: str = "write it again"
) -> Any:
    """The value of a JSON text; `where` names its place."""
    try:
        return json_value(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
    except ValueError as error:
        raise refuse(f"{where} is no valid JSON ({error}); {remedy}.") from None


def json_value(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """The value of a JSON text, or a ValueError that says in words why it has none; `pairs` makes objects."""
    try:
        value = _decoder(pairs or _distinct).decode(text)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise
        raise ValueError(f"something follows the value: {text[error.pos :][:20]!r}") from None
    _check_depth(value)
    if _SURROGATE.search(text):
        # Half of a surrogate pair can only be written as an escape: the text itself was decoded from bytes.
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a string holds half a surrogate pair") from None
    return value


@cache
def _decoder(pairs: Callable[[list[tuple[str, Any]]], Any]) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=pairs, parse_constant=_no_constant, parse_int=_whole, parse_float=_finite)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    text = read_plain(path, most=_MOST_TOML)
    try:
        if _LONG_KEY.search(text) or any(len(_QUOTED_KEY.findall(line)) > MOST_DEPTH for line in text.split("\n")):
            raise ValueError(f"a key has more than {MOST_DEPTH} parts")
        record = tomllib.loads(text, parse_float=_finite)
        _check_depth(record)
        _check_numbers(record)
    except RecursionError:
        raise DataError(f"{path} is no valid TOML: {_too_deep()}.") from None
    except ValueError as error:
        raise DataError(f"{path} is no valid TOML: {_worded(error)}.") from None
    return record


def _worded(error: ValueError) -> str:
    """Why, without advice to programmers."""
    text = str(error).rstrip(".")
    return f"a number has more than {MOST_DIGITS} digits" if "set_int_max_str_digits" in text else text


def _too_deep() -> str:
    return f"it is nested more than {MOST_DEPTH} levels deep"


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {twice[:60]!r} appears twice")
    return record


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number has more than {MOST_DIGITS} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:20]} is too large for a number" if text[-1:].isdigit() else f"{text} is no number")
    return number


def _check_depth(value: Any) -> None:
    level = [value] if isinstance(value, (dict, list, tuple)) else []
    for _ in range(MOST_DEPTH + 1):
        if not level:
            return
        level = [item for held in level for item in _items(held) if isinstance(item, (dict, list, tuple))]
    raise ValueError(_too_deep())


def _items(held: dict[str, Any] | list[Any] | tuple[Any, ...]) -> Iterable[Any]:
    return held.values() if isinstance(held, dict) else held


def _check_numbers(value: Any) -> None:
    """Whole numbers in other notations than ten may have any length."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, (dict, list)):
            left.extend(_items(one))
        elif isinstance(one, int) and abs(one) >= 10**MOST_DIGITS:
            raise ValueError(f"a number has more than {MOST_DIGITS} digits")
