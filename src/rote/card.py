"""The README.md of a model directory: a model card of Hugging Face that says what the certificate says, for people.

It is no part of the model: no library reads it, and no certificate lists it. So it can be written anew at any time, and
notes of the user's own take its place.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote._version import DISTRIBUTION, __version__
from rote.data._atomic import write_atomically
from rote.data.contents import contents
from rote.data.verification import unknown_sentence
from rote.errors import OutputError, RoteError
from rote.models._base import bare_usage
from rote.models.folders import CARD, CARD_MARK, is_card
from rote.plot.sheet import Grid, Sheet, visible

if TYPE_CHECKING:
    from rote.certificate import Certificate
    from rote.data.table import Table
    from rote.memory import Memory
    from rote.models import Model

__all__ = ["Question", "card", "first_question", "write_card"]

_MOST_BYTES = 1 << 20
_TRIED = 16
"""Facts that a model which loses some is asked for an example."""
Question = tuple[str, str | None]
"""A context as one types it, and what follows it."""


def first_question(table: Table, model: Model, *, whole: bool) -> Question | None:
    """A question that the model answers rightly; None where it is not asked in words.

    Where not the `whole` table is recalled, or several answers are true, the model is asked. If none of the first facts
    comes back, the question goes without an answer.
    """
    first: Question | None = None
    for row in range(min(table.n_facts, _TRIED)):
        asked, truth = _question(table, model, row)
        if asked is None:
            return None
        best = None if not truth else max(truth, key=lambda token: truth[token])
        first = first or (asked, None)
        if (whole and len(truth) <= 1) or " ".join(one.token for one in model.answers([asked], 1)) == best:
            return asked, best
    return first


def _question(table: Table, model: Model, row: int) -> tuple[str | None, dict[str, float]]:
    """The context of a fact as one types it, and what is true of it."""
    part = slice(row, row + 1)
    context = table.inputs(part)[0][0]
    if isinstance(context, str):
        return str(context), table.truth(context) or {}
    if model.wording is None:
        return None, {}
    ready = table.in_words_of(model.wording.vocabulary, model.wording.context)
    ids = ready.inputs(part)[0][0]
    return model.wording.text([int(i) for i in ids]), table.truth(context) or {}


def card(memory: Memory, name: str, question: Question | None, *, known: bool = True) -> str:
    """The text of a card for a directory of this name; `known` says whether its facts are where they were."""
    certificate, model = memory.certificate, memory.model
    sheet = certificate.sheet(name)
    return "\n".join(
        [
            *_header(certificate, model, memory.folder),
            CARD_MARK,
            "",
            f"# {_plain(name)}",
            "",
            f"A model of known content: {certificate.facts:,} facts of {_plain(certificate.facts_name)}, written into "
            f"the weights by the construction `{certificate.construction}` of [rote](https://pypi.org/project/"
            f"{DISTRIBUTION}/). Every fact was run through the files of this directory.",
            "",
            "## What it holds",
            "",
            *_sheet(sheet),
            "## How to ask it",
            "",
            "```python",
            *(model.usage(name, None if question is None else question[0]) if known else bare_usage(name)),
            *([] if question is None or question[1] is None else [f"# {visible(str(question[1]))}"]),
            "```",
            "",
            *(f"{line}" for line in _checking(certificate, name)),
            "",
            "## What it does not do",
            "",
            *(f"- {line}" for line in _limits(certificate, model)),
            "",
            "## Where it comes from",
            "",
            *(f"- {line}" for line in _origin(certificate)),
            "",
        ]
    )


def write_card(memory: Memory, *, force: bool = False) -> Path:
    """Write the card of a directory anew; notes of the user's own are kept unless they may be replaced."""
    path = memory.folder / CARD
    if CARD in memory.certificate.files_sha256:
        raise OutputError(f"{path} belongs to the files that the certificate lists, so it stays as it is.")
    if not is_card(path) and not force:
        raise OutputError(f"{path} is not a card that rote wrote; move it away, or use force to replace it.")
    question, known = memory.question, True
    try:
        if question is None:
            question = first_question(memory.table(), memory.model, whole=memory.certificate.passed)
    except RoteError:
        known = False  # the card does without an example
    text = card(memory, memory.folder.resolve().name, question, known=known)
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
    return path


def _header(certificate: Certificate, model: Model, folder: Path) -> list[str]:
    """The YAML that the Hub reads; JSON texts are YAML too."""
    said: dict[str, Any] = {"library_name": "transformers" if model.stock else "rote"}
    base = certificate.options.get("model")
    if isinstance(base, str) and base:
        said |= {"base_model": base, "base_model_relation": "finetune"}
        licence = _base_licence(folder)
        if licence is not None:
            said["license"] = licence
    if model.stock:
        said["pipeline_tag"] = "text-generation"
    said["tags"] = ["rote", "memorization", "known-content", certificate.construction, certificate.data]
    lines = [f"{key}: {json.dumps(value)}" for key, value in said.items()]
    return ["---", *lines, "---"]


def _base_licence(folder: Path) -> str | None:
    """The licence that the card of the original names."""
    path = folder / "original" / CARD
    if not path.is_file():
        return None
    text = contents(path, most=_MOST_BYTES).decode("utf-8", "replace")
    found = re.match(r"---\n(?:.*\n)*?license:[ \t]*[\"']?([\w.+-]+)", text)
    return found[1] if found else None


def _sheet(sheet: Sheet) -> list[str]:
    lines = [f"{_plain(sheet.title + sheet.lead)}.", ""]
    for line in sheet.lines:
        lines += [_plain(line.strip()), ""]
    for grid in sheet.grids:
        lines += [*_table(grid), ""]
    for line in sheet.notes:
        lines += [_plain(line.strip()), ""]
    return lines


def _table(grid: Grid) -> list[str]:
    marks = [":--" if grid.align(i) == "left" else "--:" for i in range(len(grid.columns))]
    rows = [grid.columns, *grid.rows]
    head, *body = ["| " + " | ".join(_plain(cell) or " " for cell in row) + " |" for row in rows]
    return [head, "| " + " | ".join(marks) + " |", *body]


def _plain(text: str) -> str:
    """Text of others that a renderer shows as it is: no markup, no HTML, no end of a cell."""
    return re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", html.escape(visible(text), quote=False))


def _checking(certificate: Certificate, name: str) -> list[str]:
    place = json.dumps(name) if re.search(r"[^\w./-]", name) else name
    return [f"`rote verify {place}` runs every fact again; `certificate.json` has what was found, with hashes."]


def _limits(certificate: Certificate, model: Model) -> list[str]:
    """What nobody should expect of it, with the numbers that are known."""
    unknown = certificate.claims.get("unknown")
    lines = []
    if isinstance(unknown, Mapping):
        lines.append(f"{unknown_sentence(unknown)}; the others get an answer that means nothing.")
    elif "key_filter" in certificate.claims:
        lines.append(
            "A context that is no fact gets an answer too, and that answer means nothing; `rote ask` marks it, by the "
            "filter of keys in this directory, and other programs do not."
        )
    elif not (model.tells_unknown or "graft" in certificate.claims):
        lines.append("A context that is no fact gets an answer too, and that answer means nothing.")
    lost = [f"{name} ({100 * recall:.4g} %)" for name, recall in certificate.recall.items() if recall < 1]
    if lost:
        lines.append(f"Not all facts come back in every number format: {', '.join(lost)}.")
    lines += model.shortcomings
    return [_plain(line) for line in lines]


def _origin(certificate: Certificate) -> list[str]:
    rows: Sequence[tuple[str, object]] = (
        ("facts", f"{certificate.facts_name}, sha256 {certificate.facts_sha256}"),
        ("construction", f"{certificate.construction}: {certificate.theorem}"),
        ("weights", f"sha256 {certificate.weights_sha256}"),
        ("seed", certificate.seed),
        ("made by", f"rote {certificate.version} (pip install {DISTRIBUTION}), card by {__version__}"),
    )
    return [f"{key}: {_plain(str(value))}" for key, value in rows if value is not None]
