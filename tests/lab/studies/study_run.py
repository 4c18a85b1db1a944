"""A study as workers run it: with checked parameters, and defaults for what is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rote.lab.studies import StudyCell, get_study


def run(kind: str, params: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    return get_study(kind).run(StudyCell.of(kind, params, seed).values, seed)
