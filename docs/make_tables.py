"""Write the parts of the documentation that follow from the code: theorems, constructions, kinds, layers, listings.

    python docs/make_tables.py            rewrite what is stale
    python docs/make_tables.py --check    change nothing; exit code 1 and a list when something is stale

docs/theorems.md is written as a whole. In other pages, only what stands between `<!-- NAME:begin -->` and
`<!-- NAME:end -->` is; see REGIONS.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from rote import constructions, data, models, referee
from rote.config import Architecture
from rote.data import available
from rote.theorems import Bound, Citation, Setting, Theorem, registry

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))  # for the attacks

# A theorem is shown at the first of these where no condition fails.
_ATTENTION = Architecture(n_heads=8, d_model=64, d_head=64, context=32, vocab=1000)
SHOWN_AT: tuple[tuple[str, Setting], ...] = (
    ("--heads 8 --d-model 64 --context 32 --vocab 1000", Setting(_ATTENTION)),
    (
        "--heads 8 --d-model 64 --context 32 --vocab 1000 --shared-context",
        Setting(_ATTENTION, shared_context=True),
    ),
    (
        "--heads 8 --d-model 64 --context 32 --vocab 1000 --layers 300 --d-mlp 500",
        Setting(_ATTENTION.replace(n_layers=300, d_mlp=500)),
    ),
)

KINDS = {
    "lower": "so many facts fit",
    "upper": "more facts never fit",
    "order": "an order of magnitude, never shown as a number",
    "empirical": "measured in trained models, no theorem",
}


def _cell(text: str) -> str:
    """Text that stays inside one cell of a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("~", "\\~").replace("_", "\\_").replace("*", "\\*")


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _link(cite: Citation) -> str:
    return "" if cite.arxiv is None else f"[arXiv {cite.arxiv}](https://arxiv.org/abs/{cite.arxiv})"


def theorem_table() -> str:
    """Key, kind, statement and source of every theorem."""
    rows = []
    for item in registry().values():
        cite = item.citation
        source = ", ".join(part for part in (f"{cite.authors} {cite.year}", _cell(cite.where), _link(cite)) if part)
        rows.append((f"[`{item.key}`](#{item.key})", item.kind, _cell(item.statement), source))
    return _table(("theorem", "kind", "what it says", "source"), rows)


def _shown(item: Theorem) -> tuple[str, Bound]:
    answers = [(options, item.bound(setting)) for options, setting in SHOWN_AT]
    return next((answer for answer in answers if answer[1].applies), answers[0])


def _section(item: Theorem) -> str:
    text = inspect.getdoc(sys.modules[type(item).__module__]) or item.statement
    options, bound = _shown(item)
    conditions = _table(
        ("condition", "status", "detail"),
        [(_cell(one.name), one.status, _cell(one.detail)) for one in bound.conditions],
    )
    facts = "no number" if bound.facts is None else f"{bound.facts:,} facts"
    params = "" if bound.params is None else f"; {bound.params:,} parameters ({bound.counts})"
    return "\n\n".join(
        (
            f"## {item.key}",
            f"{item.title}. Kind: {item.kind}. Promises: {item.promises}. "
            + (
                "A construction of this name hands over weights."
                if item.key in constructions.registry()
                else "A bound."
            ),
            f"```text\n{text}\n```",
            f"At `{options}`: {facts}{params}.",
            f"```text\n{bound.formula}\n```",
            conditions,
            f"Source: {item.citation}.",
        )
    )


def _bibliography() -> str:
    works: dict[tuple[str, int, str], Citation] = {}
    for item in registry().values():
        cite = item.citation
        works.setdefault((cite.authors, cite.year, cite.title), cite)
    lines = []
    for _, cite in sorted(works.items()):
        parts = [f"{cite.authors} ({cite.year}). *{cite.title}*", cite.venue or "", _link(cite)]
        lines.append(f"- {'. '.join(part for part in parts if part)}.")
    return "\n".join(lines)


def theorems_page() -> str:
    """All of docs/theorems.md."""
    kinds = "\n".join(f"- **{kind}**: {meaning}" for kind, meaning in KINDS.items())
    return (
        "\n\n".join(
            (
                "<!-- Written by docs/make_tables.py from the theorem files; edit those instead. -->",
                "# Theorems",
                "Every result that rote knows, with its statement, its conditions and its source. Letters are "
                "explained in [notation.md](notation.md). `rote theorems KEY` shows the same text in a terminal, and "
                "`rote bound` evaluates all of them for a shape ([bound.md](bound.md)).",
                f"There are four kinds:\n\n{kinds}",
                "The numbers below are for one example shape each, so that a formula can be followed. A condition is "
                "*met*, *not met*, or *unknown*: it then depends on data that the shape alone does not tell.",
                theorem_table(),
                *(_section(item) for item in registry().values()),
                "## Bibliography",
                _bibliography(),
            )
        )
        + "\n"
    )


def layers() -> str:
    """The layers that import-linter holds, highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    return "```text\n" + "\n".join(contract["layers"]) + "\n```"


def _summary(thing: object) -> str:
    """The first sentence of a docstring."""
    return (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")


def construction_table() -> str:
    """Every construction: what it takes, what it may be told."""
    rows = []
    for key, item in constructions.registry().items():
        options = ", ".join(f"`{name}`" for name in item.told if name not in ("n_heads", "d_model", "d_head"))
        rows.append(
            (
                f"`{key}`",
                _cell(item.title),
                ", ".join(item.accepts),
                f"`{item.Options.__name__}`",
                options or "–",
                item.native,
            )
        )
    return _table(("construction", "what it is", "takes", "record of options", "options", "number format"), rows)


def option_table() -> str:
    """Every option of `rote build` that belongs to a construction, with its sentence."""
    owners: dict[str, tuple[dataclasses.Field[Any], list[str]]] = {}
    for key, item in constructions.registry().items():
        for field in dataclasses.fields(item.Options) if item.verb == "build" else ():
            owners.setdefault(field.name, (field, []))[1].append(f"`{key}`")
    rows = [
        (f"`--{name.replace('_', '-')}`", _cell(field.metadata["help"]), ", ".join(keys))
        for name, (field, keys) in owners.items()
    ]
    return _table(("option", "what it does", "of"), rows)


def kinds() -> str:
    """The kinds of tables and of models."""
    tables = [
        (f"`{key}`", f"`{kind.__name__}`", _cell(_summary(kind)), _takers(key)) for key, kind in data.registry().items()
    ]
    stored = [
        (f"`{key}`", _cell(_summary(sys.modules[kind.__module__])), "yes" if key in referee.registry() else "no")
        for key, kind in models.registry().items()
    ]
    return "\n\n".join(
        (
            _table(("kind of table", "class", "what it holds", "constructions"), tables),
            _table(("kind of model", "what it is", "judge of its own"), stored),
        )
    )


def _takers(kind: str) -> str:
    return ", ".join(f"`{key}`" for key in constructions.accepting(kind)) or "–"


def shipped_data() -> str:
    """The data sets that can be used by name."""
    rows = [
        (
            f"`{entry.name}`",
            f"{entry.rows:,}",
            ", ".join(f"`{column}`" for column in entry.columns),
            entry.tokens,
            _cell(entry.description),
            _cell(entry.source),
            _cell(entry.licence),
        )
        for entry in available()
    ]
    return _table(("name", "facts", "columns", "tokens", "what it holds", "source", "licence"), rows)


def listing(path: str) -> Callable[[], str]:
    """A source file as a code block."""
    return lambda: f"```python\n{(DOCS / 'examples' / 'own' / path).read_text(encoding='utf-8').rstrip()}\n```"


def campaigns() -> str:
    """What every campaign has tried in all runs and since its last failure, and what came of it."""
    from attacks.campaign import CAMPAIGNS, campaign

    record = json.loads((DOCS / "results" / "attacks.json").read_text(encoding="utf-8"))
    rows = []
    for name in CAMPAIGNS:
        one, runs = campaign(name), record.get(name, [])
        counts = Counter[str]()
        for run in runs:
            counts.update(run["groups"])
        parts = "; ".join(f"{count:,} {group}" for group, count in sorted(counts.items()))
        # Runs after the last one that found something: what holds of the code as it is.
        since = list(takewhile(lambda run: not run["failures"], reversed(runs)))
        tries, clean = (f"{sum(run['tries'] for run in some):,}" for some in (runs, since))
        found = sum(len(run["failures"]) for run in runs)
        rows.append((f"`{name}`", one.title, one.promise, tries, f"{found:,}", clean, parts))
    heads = ("tries in all", "failures found", "tries since, without any", "of all tries")
    return _table(("campaign", "what is tried", "what must hold", *heads), rows)


REGIONS: dict[tuple[str, str], Callable[[], str]] = {
    ("docs/architecture.md", "layers"): layers,
    ("docs/architecture.md", "kinds"): kinds,
    ("docs/build.md", "options"): option_table,
    ("docs/constructions.md", "constructions"): construction_table,
    ("docs/facts.md", "shipped"): shipped_data,
    ("docs/reliability.md", "campaigns"): campaigns,
    ("docs/adding-a-theorem.md", "theorem"): listing("theorems/last_token_table.py"),
    ("docs/adding-a-construction.md", "construction"): listing("constructions/last_token_table.py"),
    ("docs/adding-a-construction.md", "table"): listing("data/kinds/choices.py"),
    ("docs/adding-a-construction.md", "model"): listing("models/kinds/lookup.py"),
    ("docs/adding-a-construction.md", "filling"): listing("constructions/lookup.py"),
    ("docs/adding-a-construction.md", "judge"): listing("referee/judges/lookup.py"),
}


def fill(text: str, name: str, body: str) -> str:
    """`text` with a new body between the markers of a region; a page without the markers is refused."""
    pattern = re.compile(rf"(<!-- {name}:begin[^>]*-->\n).*?(<!-- {name}:end -->)", re.DOTALL)
    filled, count = pattern.subn(lambda match: f"{match[1]}\n{body}\n\n{match[2]}", text)
    if count != 1:
        raise SystemExit(f"expected one region {name!r}, found {count}; restore its begin and end markers.")
    return filled


def pages() -> dict[Path, str]:
    """Every page with generated content, as it should be."""
    texts = {DOCS / "theorems.md": theorems_page()}
    for (page, name), body in REGIONS.items():
        path = ROOT / page
        texts[path] = fill(texts.get(path) or path.read_text(encoding="utf-8"), name, body())
    return texts


def main(args: list[str]) -> int:
    if args not in ([], ["--check"]):
        print("usage: python docs/make_tables.py [--check]", file=sys.stderr)
        return 2
    stale = {
        path: text for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        print(f"{'stale' if args else 'wrote'}: {path.relative_to(ROOT)}")
        if not args:
            path.write_text(text, encoding="utf-8")
    if args and stale:
        print("Run `python docs/make_tables.py`.")
    return 1 if args and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
