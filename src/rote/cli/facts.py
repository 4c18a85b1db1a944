"""`rote facts`: list, show, export and generate facts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rote.cli import _distribution_facts
from rote.cli._output import JsonOption, console, emit_json, number
from rote.cli._source import ConflictOption, ContextOption, TargetOption, TokensOption
from rote.errors import OutputError, UnknownName, UsageError

if TYPE_CHECKING:
    from rote.data import FactTable, ReadReport, VectorTable

__all__ = ["app"]

app = typer.Typer(help="Facts: list the shipped ones, look into a file, export, generate.", no_args_is_help=True)
app.command("ngrams")(_distribution_facts.ngrams)
app.command("distribution")(_distribution_facts.distribution)

SourceArgument = Annotated[str, typer.Argument(metavar="NAME|FILE", help="A shipped data set, or a file of facts.")]
WeightOption = Annotated[str | None, typer.Option(metavar="COL", help="Column with the weight of each fact.")]
OutputOption = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")]

# generate KIND: the options it needs, then the ones that it may have besides
_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "random": (("facts", "context", "vocab"), ()),
    "bigrams": (("vocab",), ()),
    "sequences": (("facts", "context", "vocab", "classes"), ()),
    "vectors": (("facts", "context", "d-model"), ("classes", "sharing", "distribution")),
}


def _visible(text: str) -> str:
    """Text that cannot move the cursor or break a table: control characters are spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _print_pairs(pairs: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for key, value in pairs.items():
        shown = number(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)
        grid.add_row(Text(key, style="bold"), Text(_visible(shown)))
    console().print(grid)


def _print_rows(header: list[str], rows: list[list[str]], right: tuple[str, ...] = ()) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in header:
        table.add_column(Text(_visible(name)), overflow="fold", justify="right" if name in right else "left")
    for row in rows:
        table.add_row(*(Text(_visible(cell)) for cell in row))
    console().print(table)


def _load(
    source: str, tokens: str | None, target: str | None, context: str | None, on_conflict: str, weight: str | None
) -> tuple[FactTable, ReadReport]:
    from rote.data import check_on_conflict, check_tokens, load_source

    return load_source(
        source,
        target=target,
        context=None if context is None else [name.strip() for name in context.split(",")],
        tokens=None if tokens is None else check_tokens(tokens),
        on_conflict=check_on_conflict(on_conflict),
        weight=weight,
    )


def _refuse_overwrite(path: Path, force: bool) -> None:
    if path.exists() and not path.is_dir() and not force:
        raise OutputError(f"{path} exists already; pass --force to overwrite it, or choose another name.")


@app.command("list")
def list_facts(as_json: JsonOption = False) -> None:
    """List the data sets that ship with rote.

    Example:

        $ rote facts list
    """
    from rote.data import available

    found = available()
    if as_json:
        emit_json([entry.to_dict() for entry in found])
        return
    rows = [
        [
            entry.name,
            number(entry.rows),
            entry.tokens,
            "yes" if entry.installed else "pip install 'rote[data]'",
            f"{entry.description} Source: {entry.source}. Licence: {entry.licence}.",
        ]
        for entry in found
    ]
    _print_rows(["name", "facts", "tokens", "installed", "what it holds"], rows, right=("facts",))


@app.command("show")
def show(
    source: SourceArgument,
    rows: Annotated[int, typer.Option(min=0, help="How many facts to print.")] = 10,
    tokens: TokensOption = None,
    target: TargetOption = None,
    context: ContextOption = None,
    on_conflict: ConflictOption = "error",
    weight: WeightOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a data set or a file holds: its sizes, and its first facts.

    Example:

        $ rote facts show airports --rows 3

        $ rote facts show my.csv --target answer --context question --tokens words
    """
    if source.lower().endswith(".safetensors"):
        from rote.data import VectorTable

        made = VectorTable.load(source).describe()
        emit_json(made) if as_json else _print_pairs(made)
        return
    table, report = _load(source, tokens, target, context, on_conflict, weight)
    shown = range(min(rows, table.n_facts))
    if as_json:
        listed = [
            {
                "context": list(table.context_tokens(i)),
                "target": table.vocabulary.token(int(table.targets[i])),
                **({} if table.weights is None else {"weight": float(table.weights[i])}),
            }
            for i in shown
        ]
        emit_json({**table.describe(), "read": report.to_dict(), "facts": listed})
        return
    _print_pairs(_summary(table, report))
    if shown:
        cells = [
            [
                str(i + 1),
                (" " if report.tokens == "words" else "" if report.tokens == "chars" else ", ").join(
                    table.context_tokens(i)
                ),
                table.vocabulary.token(int(table.targets[i])),
            ]
            for i in shown
        ]
        _print_rows(["fact", ", ".join(report.context_columns), report.target_column], cells, right=("fact",))
    if table.n_facts > len(shown):
        console().print(f"... and {number(table.n_facts - len(shown))} more", markup=False)


def _summary(table: FactTable, report: ReadReport) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": table.name,
        "facts": table.n_facts,
        "context": f"{table.context} tokens ({report.tokens} of {', '.join(report.context_columns)})",
        "vocab": table.vocab,
        "targets": f"{table.n_targets:,} distinct, from {report.target_column}",
        "last tokens": f"{table.distinct_last_tokens:,} distinct",
        "sha256": table.sha256,
    }
    if report.n_padded:
        made["padded"] = f"{report.n_padded:,} shorter contexts, on the left"
    if report.n_duplicates:
        made["dropped"] = f"{report.n_duplicates:,} exact duplicates"
    if report.n_conflicts_resolved:
        made["settled"] = f"{report.n_conflicts_resolved:,} contradictory facts left out"
    return made


@app.command("export")
def export(
    source: SourceArgument,
    output: OutputOption,
    force: ForceOption = False,
    target: TargetOption = None,
    context: ContextOption = None,
    on_conflict: ConflictOption = "error",
    weight: WeightOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a data set to a file, or a file to another format: .csv, .tsv, .jsonl, .parquet.

    Example:

        $ rote facts export elements -o elements.csv
    """
    from rote.data import write_facts

    _refuse_overwrite(output, force)
    # whole cells: the file keeps the columns as they are, and reading it again can cut them into any tokens
    table, report = _load(source, "cells", target, context, on_conflict, weight)
    write_facts(table, output, columns=[*report.context_columns, report.target_column])
    _report_written(output, table, as_json)


def _report_written(output: Path, table: FactTable | VectorTable, as_json: bool) -> None:
    if as_json:
        emit_json({"output": str(output), **table.describe()})
    else:
        what = "example" if "n_examples" in table.describe() else "fact"
        console().print(f"wrote {number(len(table))} {what}s to {_visible(str(output))}", markup=False, soft_wrap=True)


@app.command("generate")
def generate(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="random, bigrams, sequences or vectors.")],
    output: OutputOption,
    facts: Annotated[int | None, typer.Option("--facts", help="How many facts (or examples).")] = None,
    context: Annotated[int | None, typer.Option(help="Tokens (or vectors) per context.")] = None,
    vocab: Annotated[int | None, typer.Option(help="How many tokens there are.")] = None,
    classes: Annotated[int | None, typer.Option(help="How many labels; real targets for vectors without it.")] = None,
    d_model: Annotated[int | None, typer.Option("--d-model", help="Width of a vector.")] = None,
    sharing: Annotated[
        str | None, typer.Option(help="Vectors: own, shared, or the share of common context rows, 0 to 1.")
    ] = None,
    distribution: Annotated[str | None, typer.Option(help="Vectors: uniform or gaussian.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same facts.")] = 0,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make facts up: random contexts, all bigrams, permutation-distinct sequences, or vectors (as .safetensors).

    Example:

        $ rote facts generate random --facts 1000 --context 4 --vocab 50 --seed 1 -o random.csv

        $ rote facts generate vectors --facts 500 --context 32 --d-model 64 --classes 100 -o vectors.safetensors
    """
    if kind not in _KINDS:
        raise UnknownName("kind of facts", kind, _KINDS)
    given = {
        "facts": facts,
        "context": context,
        "vocab": vocab,
        "classes": classes,
        "d-model": d_model,
        "sharing": sharing,
        "distribution": distribution,
    }
    needed, optional = _KINDS[kind]
    for name, value in given.items():
        if value is None and name in needed:
            raise UsageError(f"facts of kind {kind!r} need --{name}; add it.")
        if value is not None and name not in (*needed, *optional):
            raise UsageError(f"facts of kind {kind!r} have no --{name}; leave it out.")
    is_safetensors = output.suffix.lower() == ".safetensors"
    if is_safetensors != (kind == "vectors"):
        ending = ".safetensors" if kind == "vectors" else ".csv, .tsv, .jsonl or .parquet"
        raise UsageError(f"facts of kind {kind!r} are written to a file that ends in {ending}, got {output.name!r}.")
    _refuse_overwrite(output, force)
    if kind == "vectors":
        vectors = _vectors(facts or 0, context or 0, d_model or 0, classes, sharing or "own", distribution, seed)
        vectors.save(output)
        _report_written(output, vectors, as_json)
        return
    from rote.data import write_facts

    table = _token_facts(kind, facts or 0, context or 0, vocab or 0, classes or 0, seed)
    write_facts(table, output)
    _report_written(output, table, as_json)


def _token_facts(kind: str, facts: int, context: int, vocab: int, classes: int, seed: int) -> FactTable:
    import numpy as np

    from rote.data import bigram_facts, random_facts, random_sequences

    rng = np.random.default_rng(seed)
    if kind == "random":
        return random_facts(facts, context, vocab, rng=rng)
    if kind == "bigrams":
        return bigram_facts(vocab, rng=rng)
    return random_sequences(facts, context, vocab, classes, rng=rng)


def _vectors(
    facts: int, context: int, d_model: int, classes: int | None, sharing: str, distribution: str | None, seed: int
) -> VectorTable:
    import numpy as np

    from rote.data import check_distribution, check_sharing, random_vectors

    return random_vectors(
        facts,
        context,
        d_model,
        rng=np.random.default_rng(seed),
        sharing=check_sharing(sharing),
        distribution=check_distribution(distribution or "uniform"),
        n_classes=classes,
    )
