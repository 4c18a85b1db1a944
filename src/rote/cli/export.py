"""`rote export`: a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rote.cli._output import JsonOption, console, emit_json
from rote.cli._progress import display

__all__ = ["export"]


def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model directory.")],
    source: Annotated[
        str | None, typer.Argument(metavar="[FACTS]", help="The facts it was built from; found again if not given.")
    ] = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="File to write, ending in .onnx or .gguf.")
    ],
    form: Annotated[
        str | None,
        typer.Option(
            "--type", metavar="TYPE", help="F32, F16, BF16, Q8_0, Q4_0 or Q4_1 for GGUF; as stored if not given."
        ),
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Write a GGUF file that loses facts too.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a model as ONNX or GGUF, and check every fact by the program that runs it.

    GGUF is for stock checkpoints and grafts: llama.cpp runs every fact, a Modelfile for ollama is written beside the
    file, and the certificate of DIR gets a row. ONNX is for models of floats; onnxruntime runs every fact.
    Exit code 1: a fact is lost, and nothing is written.

    Examples:

        $ rote export model facts.csv -o model.onnx

        $ rote export airports-llama -o airports.gguf --type F16
    """
    from rote import exporting
    from rote.pipeline import load

    memory = load(directory)
    table = memory.table(source)
    with display(table.n_facts, enabled=not as_json) as progress:
        record = exporting.export(memory, output, table, form=form, partial=partial, force=force, progress=progress)
    if as_json:
        emit_json(record)
    else:
        console().print(_told(record, output), markup=False)
    if record["n_failed"]:
        raise typer.Exit(1)


def _told(record: dict[str, Any], output: Path) -> str:
    kept = record["n_facts"] - record["n_failed"]
    by, tensors = str(record.get("judged_by", "onnxruntime")).partition(" (")[0], record.get("tensors", {})
    kinds = "".join(f", {count} tensor{'s' if count > 1 else ''} {name}" for name, count in tensors.items())
    end = "" if record.get("written", not record["n_failed"]) else f"; nothing was written: {_remedy(record)}"
    return (
        f"{output}: {record['bytes']:,} bytes{kinds}; {kept:,} of {record['n_facts']:,} facts recalled by {by} "
        f"({record['dtype']}){end}."
    )


def _remedy(record: dict[str, Any]) -> str:
    if record["dtype"] in ("F32", "float32", "float64"):
        return "--partial keeps a GGUF file that loses facts"
    return f"choose F32, build the model in a format that {record['dtype']} holds, or keep the file with --partial"
