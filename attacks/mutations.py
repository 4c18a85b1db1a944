"""Inputs that are not what they should be: bytes, texts, values and records, bent at random."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from random import Random
from typing import Any

__all__ = ["NUMBERS", "TEXTS", "bent_bytes", "bent_record", "hostile_value"]

NUMBERS = (
    "0", "-0", "1", "-1", "2", "3", "7", "1e999", "-1e999", "1e-999", "nan", "NaN", "Infinity", "-inf", "1.5", "٣",
    "0x10", "1_000", "1e5", "9" * 19, "9" * 20, "9" * 400, "9" * 5000,
    "00", "+1", "1.", ".5", "0.1", "1e308", "١٢", "²",
    "true", "null",
)  # fmt: skip
TEXTS = (
    "", " ", "\t", "a", "b", "\ufeff", "\u202e", "é", "e\u0301", "😀", "\x85", "\u2028", "\x1b[31m", "<pad>",
    "<unk>", "../x", "/dev/null", "[red]x", "%s", "{x}", "{", "}", "{0.__class__}",
    '"', "'", "#", "\\", "a,b", "count",
    "weight", "auto", "None", "x" * 300, "a" * 20_000, "-", "--", "*", "$HOME", "~",
)  # fmt: skip
_PIECES = (
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n\r", b"\r\n", b"\n\n", b'"', b'""', b",", b",,,,", b"\t",
    b"[" * 5000, b'{"a":' * 2000, b"{" * 300, b"]" * 9, b"\xc3", b"\xed\xa0\x80", b"\\ud800",
    b"1e999", b"9" * 5000, b"NaN",
    b"-Infinity", b"null", b"a." * 3000, b"=" * 10, b'"""', b"\x1f\x8b", b"PAR1", b"SQLite format 3\0", b" " * 3000,
    b"A" * 200_000,
)  # fmt: skip


def hostile_value(rng: Random, depth: int = 2) -> Any:
    """A value of JSON, of any type and size."""
    kind = rng.randrange(9)
    if kind < 3:
        plain = (
            None,
            True,
            False,
            0,
            -1,
            1,
            2**31,
            2**63,
            10**299,
            10**400,
            0.5,
            -0.0,
            1e308,
            float("nan"),
            float("inf"),
        )
        return rng.choice(plain)
    if kind < 6:
        return rng.choice((*TEXTS, *NUMBERS, "\ud800", "\0"))
    if kind == 6 or not depth:
        return [] if rng.random() < 0.5 else {}
    if kind == 7:
        return [hostile_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(TEXTS): hostile_value(rng, depth - 1) for _ in range(rng.randrange(4))}


def bent_record(record: Any, rng: Random) -> Any:
    """A copy of a JSON value with one place changed: dropped, renamed, wrapped, or replaced."""
    places: list[tuple[str | int, ...]] = []

    def walk(value: Any, path: tuple[str | int, ...]) -> None:
        if isinstance(value, (dict, list)):
            for key in list(value) if isinstance(value, dict) else range(len(value)):
                places.append((*path, key))
                walk(value[key], (*path, key))

    walk(record, ())
    if not places:
        return hostile_value(rng)
    return _changed(record, rng.choice(places), rng)


def _changed(value: Any, path: Sequence[str | int], rng: Random) -> Any:
    key, rest = path[0], path[1:]
    copied: Any = dict(value) if isinstance(value, dict) else list(value)
    if rest:
        copied[key] = _changed(value[key], rest, rng)
        return copied
    kind = rng.randrange(6)
    if kind == 0:
        del copied[key]
    elif kind == 1 and isinstance(copied, dict):
        copied[rng.choice(TEXTS)] = copied.pop(key)
    elif kind == 2:
        for _ in range(rng.choice((1, 3, 70))):
            copied[key] = [copied[key]] if rng.random() < 0.5 else {"a": copied[key]}
    else:
        copied[key] = hostile_value(rng)
    return copied


def bent_bytes(data: bytes, rng: Random) -> bytes:
    """A file's bytes with a few changes, or something else altogether."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        data = _bent_once(data, rng)
    return data


def _bent_once(data: bytes, rng: Random) -> bytes:
    at, to = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    kind = rng.randrange(12)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[to:]
    if kind == 2:
        return data[:to] + data[at:]
    if kind == 3 and data:
        some = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            some[rng.randrange(len(some))] = rng.choice((0, 1, 9, 10, 13, 34, 44, 127, 128, 255, rng.randrange(256)))
        return bytes(some)
    if kind < 6:
        return data[:at] + rng.choice(_PIECES) + data[at:]
    if kind < 8:
        words = (rng.choice(NUMBERS) if kind == 6 else rng.choice(TEXTS)).encode()
        cuts = [i for i, byte in enumerate(data) if byte in b",\t\n:= "] or [0]
        start = rng.choice(cuts)
        end = next((i for i in cuts if i > start), len(data))
        return data[: start + 1] + words + data[end:]
    if kind == 8:
        lines = data.split(b"\n")
        rng.shuffle(lines)
        return b"\n".join(lines)
    if kind == 9:
        return rng.choice((b"", rng.randbytes(rng.randrange(60)), gzip.compress(data[:2000]), b"\xef\xbb\xbf" + data))
    if kind == 10:
        return data.replace(b"\n", rng.choice((b"\r", b"\r\n", b"\n\r\n", b"\x85", b"")))
    return data.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-32-be", "latin-1")), "replace")
