"""`report`: read folders and journals, render them, write the page whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.data._atomic import write_atomically
from rote.errors import DataError, UsageError
from rote.lab.report.entries import read_entries
from rote.lab.report.page import render
from rote.lab.report.section import Section
from rote.lab.report.sweeps import read_sweeps

__all__ = ["Report", "report"]


@dataclass(frozen=True)
class Report:
    """A page that was written, and what is in it."""

    path: Path
    sections: tuple[Section, ...]
    n_bytes: int

    @property
    def n_figures(self) -> int:
        return sum(len(section.pictures) for section in self.sections)

    def to_dict(self) -> dict[str, Any]:
        return {
            "page": str(self.path),
            "bytes": self.n_bytes,
            "sections": [
                {
                    "name": section.name,
                    "title": section.title,
                    "verdict": section.verdict or None,
                    "sentence": section.sentence,
                    "figures": [picture.name for picture in section.pictures],
                }
                for section in self.sections
            ],
        }


def report(sources: Sequence[str | Path], path: str | Path, *, title: str = "") -> Report:
    """Write one page from folders of `rote reproduce` and files of `rote sweep`, in the order given."""
    if not sources:
        raise UsageError(
            "there is nothing to report; name a folder of `rote reproduce -o` or a file of `rote sweep --db`."
        )
    out = Path(path)
    if out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"a report is an .html file, got {out.name!r}.")
    sections: list[Section] = []
    for source in map(Path, sources):
        if source.is_dir():
            sections += read_entries(source)
        elif source.exists():
            sections += read_sweeps(source)
        else:
            raise DataError(f"there is no file or folder {source}; check the path.")
    text = render(sections, title or _title(sections))
    write_atomically(out, lambda part: _write(part, text))
    return Report(out, tuple(sections), len(text.encode()))


def _write(part: Path, text: str) -> None:
    part.write_text(text, encoding="utf-8")


def _title(sections: Sequence[Section]) -> str:
    if len(sections) == 1:
        return sections[0].title
    return "How much transformers memorise: results"
