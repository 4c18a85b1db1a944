"""Figures as files: read where they were drawn already, drawn where not."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from rote.plot import Figure
from rote.plot.draw import FORMATS, draw

__all__ = ["drawn"]


def drawn(figure: Figure, beside: Path | None = None) -> Mapping[str, bytes]:
    """PNG, SVG and PDF of a figure; `beside` is its JSON, next to which they may lie."""
    found: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="rote-report-") as folder:
        for ending in FORMATS:
            file = beside.with_suffix(f".{ending}") if beside is not None else None
            if file is None or not file.is_file():
                file = Path(folder) / f"figure.{ending}"
                draw(figure, file)
            found[ending] = file.read_bytes()
    return found
