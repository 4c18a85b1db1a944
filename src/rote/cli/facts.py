"""`rote facts`: list, show, export, generate and count facts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rote.cli._gather import gather, source_options
from rote.cli._output import JsonOption, console, emit_json
from rote.cli._render import show as show_sheet
from rote.cli._source import read
from rote.data.reading import Choices
from rote.errors import OutputError, UnknownName, UsageError
from rote.plot.sheet import Grid, Sheet, number

if TYPE_CHECKING:
    from rote.data import Table

__all__ = ["app"]

app = typer.Typer(
    help="Facts: list the shipped ones, look into a file, export, generate.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

SourceArgument = Annotated[str, typer.Argument(metavar="NAME|FILE", help="A shipped data set, or a file of facts.")]
OutputOption = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")]
SeedOption = Annotated[int, typer.Option(min=0, help="The same seed gives the same facts.")]

# generate KIND: the options it needs, then the ones that it may have besides
_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "random": (("facts", "context", "vocab"), ()),
    "bigrams": (("vocab",), ()),
    "sequences": (("facts", "context", "vocab", "classes"), ()),
    "vectors": (("facts", "context", "d-model"), ("classes", "sharing", "distribution")),
}


def _refuse_overwrite(path: Path, force: bool) -> None:
    if path.exists() and not path.is_dir() and not force:
        raise OutputError(f"{path} exists already; pass --force to overwrite it, or choose another name.")


def _written(output: Path, table: Table, as_json: bool, more: dict[str, Any] | None = None, what: str = "") -> None:
    if as_json:
        emit_json({"output": str(output), **table.describe(), **(more or {})})
    else:
        console().print(f"wrote {len(table):,} {table.noun} to {output}{what}", markup=False, soft_wrap=True)


@app.command("list")
def list_facts(as_json: JsonOption = False) -> None:
    """List the data sets that ship with rote.

    Example:

        $ rote facts list
    """
    from rote.data import available
    from rote.errors import install_command

    entries = available()
    if as_json:
        emit_json([entry.to_dict() for entry in entries])
        return
    rows = tuple(
        (
            entry.name,
            number(entry.rows),
            entry.tokens,
            "yes" if entry.installed else install_command("data"),
            f"{entry.description} Source: {entry.source}. Licence: {entry.licence}.",
        )
        for entry in entries
    )
    columns = ("name", "facts", "tokens", "installed", "what it holds")
    show_sheet(Sheet("", grids=(Grid(columns, rows, left=columns[2:]),)))


@app.command("show")
@gather(choices=source_options())
def show(
    source: SourceArgument,
    *,
    rows: Annotated[int, typer.Option(min=0, help="How many facts to print.")] = 10,
    choices: Choices,
    as_json: JsonOption = False,
) -> None:
    """Show what a data set or a file holds: its kind, its sizes, and its first facts.

    Example:

        $ rote facts show airports --rows 3

        $ rote facts show my.csv --target answer --columns question --tokens words
    """
    table = read(source, choices)
    if as_json:
        reading = None if table.reading is None else table.reading.to_dict()
        first = [table.record(i) for i in range(min(rows, table.n_facts))]
        emit_json({"kind": table.kind, **table.describe(), "read": reading, "facts": first})
    else:
        show_sheet(table.sheet(rows))


@app.command("export")
@gather(choices=source_options())
def export(
    source: SourceArgument,
    *,
    output: OutputOption,
    force: ForceOption = False,
    choices: Choices,
    as_json: JsonOption = False,
) -> None:
    """Write a data set to a file, or a file to another format: .csv, .tsv, .jsonl, .parquet.

    Example:

        $ rote facts export elements -o elements.csv
    """
    from dataclasses import replace

    _refuse_overwrite(output, force)
    # whole cells: the file keeps the columns as they are, and reading it again can cut them into any tokens
    table = read(source, replace(choices, tokens=choices.tokens or "cells"))
    table.write(output)
    _written(output, table, as_json)


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
    seed: SeedOption = 0,
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
    table = _generated(kind, {name.replace("-", "_"): value for name, value in given.items()}, seed)
    table.write(output)
    _written(output, table, as_json)


def _generated(kind: str, given: dict[str, Any], seed: int) -> Table:
    import numpy as np

    from rote import data

    rng = np.random.default_rng(seed)
    if kind == "random":
        return data.random_facts(given["facts"], given["context"], given["vocab"], rng=rng)
    if kind == "bigrams":
        return data.bigram_facts(given["vocab"], rng=rng)
    if kind == "sequences":
        return data.random_sequences(given["facts"], given["context"], given["vocab"], given["classes"], rng=rng)
    return data.random_vectors(
        given["facts"],
        given["context"],
        given["d_model"],
        rng=rng,
        sharing=data.check_sharing(given["sharing"] or "own"),
        distribution=data.check_distribution(given["distribution"] or "uniform"),
        n_classes=given["classes"],
    )


@app.command("ngrams")
def ngrams(
    text: Annotated[Path, typer.Argument(metavar="TEXT", help="A text file, UTF-8.")],
    output: OutputOption,
    order: Annotated[int, typer.Option(help="Tokens in an n-gram: the last one follows the others.")] = 3,
    tokens: Annotated[str, typer.Option(help="words (between white space) or chars.")] = "words",
    plain: Annotated[
        bool, typer.Option("--plain", help="Lower case, letters and digits only; punctuation separates words.")
    ] = False,
    most: Annotated[int | None, typer.Option(help="Keep only so many of the most frequent tokens.")] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Count what follows what in a text: a table of distributions, with the columns c1, ..., next, count.

    In characters, white space is written ␣.

    Example:

        $ rote facts ngrams book.txt --order 3 --tokens chars -o trigrams.csv
    """
    from rote.data import write_distributions
    from rote.data.ngrams import ngrams as count

    _refuse_overwrite(output, force)
    table, report = count(text, order=order, tokens=tokens, plain=plain, most=most)
    write_distributions(table, output, total=report.n_ngrams)
    dropped = f", {report.n_dropped:,} with rarer tokens left out" if report.n_dropped else ""
    _written(
        output,
        table,
        as_json,
        {
            "order": order,
            "tokens": tokens,
            "n_tokens": report.n_tokens,
            "n_ngrams": report.n_ngrams,
            "n_dropped": report.n_dropped,
        },
        f" ({report.n_ngrams:,} {order}-grams of {report.n_tokens:,} {tokens}{dropped})",
    )
    if not as_json:
        _said_of(table)


@app.command("distribution")
def distribution(
    output: OutputOption,
    contexts: Annotated[int, typer.Option(min=1, help="How many contexts.")],
    vocab: Annotated[int, typer.Option(min=2, help="How many tokens there are.")],
    context: Annotated[int, typer.Option(min=1, help="Tokens per context.")] = 2,
    alpha: Annotated[float, typer.Option(help="Prior of the k-th context: k^-alpha; 0 for a uniform one.")] = 1.0,
    noise: Annotated[
        float | None, typer.Option(help="A look-up table with so much noise; random distributions if not given.")
    ] = None,
    spread: Annotated[float, typer.Option(help="Random distributions: deviation of their logits.")] = 1.0,
    seed: SeedOption = 0,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make distributions up: a power-law prior, and random distributions or a noisy look-up table.

    Example:

        $ rote facts distribution --contexts 400 --vocab 20 --alpha 1 -o random.csv
    """
    import numpy as np

    from rote.data import lookup_distributions, random_distributions

    _refuse_overwrite(output, force)
    rng = np.random.default_rng(seed)
    if noise is None:
        table = random_distributions(contexts, context, vocab, rng=rng, alpha=alpha, spread=spread)
    else:
        table = lookup_distributions(contexts, context, vocab, rng=rng, noise=noise, alpha=alpha)
    table.write(output)
    _written(output, table, as_json, what=f" ({table.name})")
    if not as_json:
        _said_of(table)


def _said_of(table: Table) -> None:
    sizes = table.describe()
    console().print(
        f"vocabulary {sizes['vocab']:,}; entropy {sizes['entropy']:.4f} nats, perplexity {sizes['perplexity']:.4g}; "
        f"without the context {sizes['unigram']:.4f} nats more",
        markup=False,
    )
