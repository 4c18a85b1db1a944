"""`rote facts ngrams` and `rote facts distribution`: counts of a text, and distributions made up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rote.cli._output import JsonOption, console, emit_json

if TYPE_CHECKING:
    from rote.data import DistributionTable

__all__ = ["distribution", "ngrams"]

OutputOption = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")]


def _check_output(path: Path, force: bool) -> None:
    from rote.data.files import file_format
    from rote.errors import OutputError

    file_format(path)
    if path.exists() and not path.is_dir() and not force:
        raise OutputError(f"{path} exists already; pass --force to overwrite it, or choose another name.")


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
    """Count what follows what in a text: a file for --task distribution, with the columns c1, ..., next, count.

    In characters, white space is written ␣.

    Example:

        $ rote facts ngrams book.txt --order 3 --tokens chars -o trigrams.csv
    """
    from rote.data import write_distributions
    from rote.data.ngrams import ngrams as count

    _check_output(output, force)
    table, report = count(text, order=order, tokens=tokens, plain=plain, most=most)
    write_distributions(table, output, total=report.n_ngrams)
    record = {
        **table.describe(),
        "order": order,
        "tokens": tokens,
        "n_tokens": report.n_tokens,
        "n_ngrams": report.n_ngrams,
        "n_dropped": report.n_dropped,
    }
    dropped = f", {report.n_dropped:,} with rarer tokens left out" if report.n_dropped else ""
    _say(output, table, f"{report.n_ngrams:,} {order}-grams of {report.n_tokens:,} {tokens}{dropped}", record, as_json)


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
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same distributions.")] = 0,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make distributions up: a power-law prior, and random distributions or a noisy look-up table.

    Example:

        $ rote facts distribution --contexts 400 --vocab 20 --alpha 1 -o random.csv
    """
    import numpy as np

    from rote.data import lookup_distributions, random_distributions, write_distributions

    _check_output(output, force)
    rng = np.random.default_rng(seed)
    if noise is None:
        table = random_distributions(contexts, context, vocab, rng=rng, alpha=alpha, spread=spread)
    else:
        table = lookup_distributions(contexts, context, vocab, rng=rng, noise=noise, alpha=alpha)
    write_distributions(table, output)
    _say(output, table, table.name, table.describe(), as_json)


def _say(output: Path, table: DistributionTable, what: str, record: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit_json({"output": str(output), **record})
        return
    out = console()
    out.print(f"wrote {table.n_contexts:,} contexts of {table.context} to {output} ({what})", markup=False)
    out.print(
        f"vocabulary {table.vocab:,}; entropy {table.entropy:.4f} nats, perplexity {record['perplexity']:.4g}; "
        f"without the context {table.unigram_kl:.4f} nats more",
        markup=False,
    )
