"""`rote export`: a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rote.cli._output import JsonOption, console, emit_json

__all__ = ["export"]


def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model directory.")],
    source: Annotated[
        str | None, typer.Argument(metavar="[FACTS]", help="The facts it was built from; found again if not given.")
    ] = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="ONNX file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a hashed table or a bit-extraction model of floats as ONNX, and check every fact with onnxruntime.

    The graph maps `contexts` (batch, S) of token ids to `labels`; label k stands for the k-th entry of `labels` in the
    model's config.json. Hashed tables also give the `scores` of all labels, and say which contexts are `unknown` (label
    -1). Exit code 1: onnxruntime loses a fact, and nothing is written.

    Example:

        $ rote export model facts.csv -o model.onnx
    """
    from rote.errors import CheckpointError, OutputError
    from rote.pipeline import load

    if output.exists() and not force:
        raise OutputError(f"{output} exists already; name another file, or pass --force to replace it.")
    memory = load(directory)
    table = memory.table(source)
    if not memory.certificate.refers_to(table):
        raise CheckpointError("these are not the facts that the model was built from; give the original ones.")
    record = memory.model.export(output, table)
    if as_json:
        emit_json(record)
    else:
        kept = record["n_facts"] - record["n_failed"]
        console().print(
            f"{output}: {record['bytes']:,} bytes; {kept:,} of {record['n_facts']:,} facts recalled by onnxruntime "
            f"({record['dtype']}).",
            markup=False,
        )
    if record["n_failed"]:
        raise typer.Exit(1)
