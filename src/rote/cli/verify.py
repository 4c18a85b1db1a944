"""`rote verify`: does what is on disk recall every fact?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rote.cli import _distribution
from rote.cli._graft import is_grafted, show_graft
from rote.cli._output import JsonOption, console, emit_json, number
from rote.cli._source import ContextOption, TargetsOption, TokensOption, read_any

__all__ = ["verify"]


def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model directory.")],
    source: Annotated[str, typer.Argument(metavar="FACTS", help="The facts it was built from.")],
    dtype: Annotated[
        str | None, typer.Option(help="float64, float32, bfloat16, float16 or exact; as stored if not given.")
    ] = None,
    other_facts: Annotated[
        bool, typer.Option("--other-facts", help="Check facts that are not the ones of the certificate.")
    ] = False,
    tokens: TokensOption = None,
    target: TargetsOption = None,
    context: ContextOption = None,
    on_conflict: Annotated[str | None, typer.Option(help="As for build; as it was built if not given.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Reload a model directory, check its hashes, and run every fact through a forward pass of its own.

    How FACTS is read (columns, tokens) is taken from the certificate unless given. Exit code 1: some fact is lost. A
    model of distributions is measured by its divergence from the table; exit code 1: more than its certificate says.

    Example:

        $ rote verify countries-model countries --dtype bfloat16
    """
    from rote import memory as memories
    from rote.errors import CheckpointError, UsageError

    if is_grafted(directory):
        if any(option is not None for option in (tokens, target, context, on_conflict)):
            raise UsageError(
                f"{directory} is a graft, whose templates name the columns; leave out --tokens, --target, --context "
                "and --on-conflict."
            )
        show_graft(directory, source, dtype=dtype, other_facts=other_facts, as_json=as_json)
        return
    stored = memories.load(directory)
    if stored.certificate.get("task") == "distribution":
        _distribution.verify_distribution(
            stored,
            directory,
            source,
            dtype=dtype,
            other_facts=other_facts,
            tokens=tokens,
            target=target,
            context=context,
            as_json=as_json,
        )
        return
    read = stored.certificate.get("read") or {}
    facts, _ = read_any(
        source,
        target=target or read.get("target"),
        context=context or read.get("context"),
        tokens=tokens or stored.certificate.get("tokens"),
        on_conflict=on_conflict or read.get("on_conflict") or "error",
        sequences=stored.certificate.get("data") == "sequences",
    )
    if facts.sha256 != stored.certificate.get("facts_sha256") and not other_facts:
        raise CheckpointError(
            f"{source} is not what {directory} was built from (its certificate names "
            f"{stored.certificate.get('facts_name')!r}, {stored.certificate.get('facts')} facts, with another hash); "
            "give the original facts, or pass --other-facts to check these all the same."
        )
    result = memories.verify(stored, facts, dtype=dtype or str(stored.certificate["dtype"]))
    if as_json:
        emit_json(result.to_dict())
    else:
        out = console()
        kept = result.n_facts - result.n_failed
        same = facts.sha256 == stored.certificate.get("facts_sha256")
        checked = "hashes of files and facts checked" if same else "hashes of files checked, these are other facts"
        out.print(
            f"{kept:,} of {result.n_facts:,} facts recalled at {result.dtype} ({100 * result.recall:.4g} %), "
            f"smallest margin {number(result.min_margin)}; {checked}.",
            markup=False,
        )
        for failure in result.failures:
            out.print(
                f"  lost: fact {failure.fact}, {failure.context} -> expected {failure.expected}, got {failure.got} "
                f"(margin {failure.margin:.3g})",
                markup=False,
            )
        if result.n_failed > len(result.failures):
            out.print(f"  and {result.n_failed - len(result.failures):,} more", markup=False)
    if result.n_failed:
        raise typer.Exit(1)
