"""`report`: read folders and journals, render them, write the page whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.data.arguments import checked
from rote.errors import DataError, UsageError
from rote.lab.report.entries import read_entries
from rote.lab.report.page import render
from rote.lab.report.section import Section
from rote.lab.report.sweeps import read_sweeps
from rote.plot import Grid, Sheet, Shown
from rote.plot.figure import write_bytes
from rote.plot.sheet import megabytes

__all__ = ["Report", "report"]


_USUAL = Path("reproduced")
_TEXTS = ("verdict", "in a sentence")


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """A page that was written, and what is in it."""

    path: Path
    sections: tuple[Section, ...]
    n_bytes: int

    @property
    def n_figures(self) -> int:
        return sum(len(section.pictures) for section in self.sections)

    def sheet(self) -> Sheet:
        rows = tuple((section.title, section.verdict, section.sentence) for section in self.sections)
        lead = f": {self._counts}; open it in a browser."
        return Sheet(str(self.path), lead, grids=(Grid(("section", "verdict", "in a sentence"), rows, left=_TEXTS),))

    @property
    def _counts(self) -> str:
        count, figures = len(self.sections), self.n_figures
        size = megabytes(self.n_bytes)
        return f"{count} section{'s' * (count != 1)}, {figures} figure{'s' * (figures != 1)}, {size}"

    def __repr__(self) -> str:
        return f"Report({self.path}: {self._counts})"

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


@checked
def report(
    sources: str | Path | Sequence[str | Path] | None = None, output: str | Path = "report.html", *, title: str = ""
) -> Report:
    """Write results as one HTML page that needs no network: figures, tables, claims with verdicts, configuration.

    `sources` are folders that `reproduce` wrote and files of `sweep`, in the order given; the folder reproduced/ if
    none is named.

        >>> report("heads.db", title="Heads")  # doctest: +SKIP
        Report(report.html: 1 section, 1 figure, 1.7 MB)
    """
    if sources is None:
        sources = [_USUAL] if _USUAL.is_dir() else []
    chosen = [sources] if isinstance(sources, str | Path) else list(sources)
    if not chosen:
        raise UsageError("there is nothing to report; name a folder that `reproduce` wrote, or the file of a sweep.")
    out = Path(output)
    if out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"a report is an .html file, got {out.name!r}.")
    sections: list[Section] = []
    for source in map(Path, chosen):
        if source.is_dir():
            sections += read_entries(source)
        elif source.exists():
            sections += read_sweeps(source)
        else:
            raise DataError(f"there is no file or folder {source}; check the path.")
    text = render(sections, title or _title(sections))
    write_bytes(out, text.encode())
    return Report(out, tuple(sections), len(text.encode()))


def _title(sections: Sequence[Section]) -> str:
    if len(sections) == 1:
        return sections[0].title
    return "How much transformers memorise: results"
