"""Facts that a construction or an architecture cannot hold: which, where they stand, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["FILE", "LeftOut", "left_out_file", "told"]

FILE = "left_out.jsonl"
_SHOWN = 3


@dataclass(frozen=True)
class LeftOut:
    """One fact: its number in the table (from 0), its text, its place in the file, and what stands in the way."""

    row: int
    fact: str
    place: str
    reason: str


def told(left_out: Sequence[LeftOut]) -> str:
    """The first with its reason, the next few, and how many more there are."""
    first, *rest = left_out
    said = [f"{first.place}: {first.fact} ({first.reason})"]
    said += [f"{one.place}: {one.fact}" for one in rest[: _SHOWN - 1]]
    more = [f"and {len(left_out) - _SHOWN:,} more"] if len(left_out) > _SHOWN else []
    return "; ".join([*said, *more])


def left_out_file(left_out: Sequence[LeftOut]) -> dict[str, bytes]:
    """A file of a model directory that lists them, one JSON object per line; none where nothing was left out."""
    if not left_out:
        return {}
    records = ({"fact": one.fact, "place": one.place, "reason": one.reason} for one in left_out)
    return {FILE: "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records).encode()}
