"""`rote verify`: does what is on disk recall every fact?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli._gather import gather, source_options
from rote.cli._output import JsonOption, console, emit_json
from rote.cli._progress import display
from rote.cli._render import show
from rote.data.changes import read_changes
from rote.data.reading import Choices
from rote.errors import CheckpointError, UsageError

if TYPE_CHECKING:
    from rote.data.verification import Verification

__all__ = ["verify"]


@gather(choices=source_options(conflict=None))
def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model directory, or a GGUF file of one.")],
    source: Annotated[
        str | None, typer.Argument(metavar="[FACTS]", help="The facts it was built from; found again if not given.")
    ] = None,
    *,
    dtype: Annotated[
        str | None, typer.Option(help="float64, float32, bfloat16, float16 or exact; as stored if not given.")
    ] = None,
    other_facts: Annotated[
        bool, typer.Option("--other-facts", help="Check facts that are not the ones of the certificate.")
    ] = False,
    all_formats: Annotated[
        bool, typer.Option("--all-formats", help="Run the model in all formats that its certificate lists.")
    ] = False,
    changed_weights: Annotated[
        bool, typer.Option("--changed-weights", help="Take weights that are not those of the certificate.")
    ] = False,
    choices: Choices,
    as_json: JsonOption = False,
) -> None:
    """Reload a model directory, check its hashes, run every fact through the referee, and compare the claims.

    A GGUF file that `rote export` wrote is run in llama.cpp. With --changed-weights, weights that were trained or
    edited since are run, and the certificate is history. A directory that transformers saved, which has no certificate,
    is asked FACTS in text.

    The facts and how they are read (columns, tokens) are taken from the certificate unless given. Exit code 1: some
    fact is lost, a model of distributions is farther off than its certificate says, or another claim of the certificate
    is not what was found.

    Examples:

        $ rote verify countries-model

        $ rote verify countries-model countries --dtype bfloat16

        $ rote verify airports.gguf
    """
    from rote import pipeline

    if directory.suffix.lower() == ".gguf" and not directory.is_dir():
        if dtype is not None or all_formats:
            raise UsageError("a GGUF file is run in the types that it holds; leave out --dtype and --all-formats.")
        _verify_gguf(directory, source, choices, other_facts, as_json)
        return

    if _foreign(directory):
        _verify_text(directory, source, choices, as_json)
        return
    memory = pipeline.load(directory, changed_weights=changed_weights)
    table = memory.table(source, choices, changed=source is None or not other_facts)
    with display(table.n_facts, enabled=not as_json) as progress:
        result = pipeline.verify(
            memory, table, dtype=dtype, other_facts=other_facts, all_formats=all_formats, progress=progress
        )
    same = memory.certificate.refers_to(memory.prepared(table, changed=False))
    confirmed = result.confirms(memory.certificate) if same else result.passed and not result.contradicted
    if as_json:
        emit_json({**result.to_dict(), "confirmed": confirmed})
    else:
        show(result.sheet())
        for other in result.others:
            show(replace(other.sheet(), lines=()))
        remark = result.remark(memory.certificate) if same else ""
        if remark:
            console().print(remark, markup=False)
        if result.changed_files:
            console().print("Hashes of all other files checked.", style="dim")
            if not confirmed:
                raise typer.Exit(1)
            return
        checked = "Hashes of files and facts checked." if same else "Hashes of files checked; these are other facts."
        edits = read_changes(memory.folder) if same else None
        if edits is not None:
            checked = f"Edited since it was built, changes: {len(edits.changes):,}. {checked}"
        console().print(f"{checked}\n{_on_claims(result)}", style="dim")
        for contradiction in result.contradicted:
            console().print(f"The certificate is wrong: {contradiction}.", markup=False)
        if not confirmed and result.passed and not result.contradicted:
            console().print("The certificate promises more than this.")
    if not confirmed:
        raise typer.Exit(1)


def _foreign(directory: Path) -> bool:
    """A directory that transformers saved, without a certificate of rote."""
    return (directory / "config.json").is_file() and not (directory / "certificate.json").exists()


def _verify_text(directory: Path, source: str | None, choices: Choices, as_json: bool) -> None:
    from rote import pipeline
    from rote.cli._source import read
    from rote.data.stock import load_model, load_tokenizer

    if source is None:
        raise UsageError(f"{directory} has no certificate that could name its facts; give them as well.")
    table = read(source, choices)
    with display(table.n_facts, enabled=not as_json) as progress:
        model, tokenizer = load_model(directory, "auto"), load_tokenizer(directory)
        result = pipeline.verify(model, table, tokenizer=tokenizer, progress=progress)
    if as_json:
        emit_json({**result.to_dict(), "confirmed": result.passed})
    else:
        show(result.sheet())
        console().print("There is no certificate; facts were asked in text, and generated greedily.", style="dim")
    if not result.passed:
        raise typer.Exit(1)


def _verify_gguf(path: Path, source: str | None, choices: Choices, other_facts: bool, as_json: bool) -> None:
    from rote import exporting
    from rote.memory import stated_table

    file = exporting.open_gguf(path)
    table = stated_table(file.certificate, path.parent, source, choices, of=path)
    same = file.certificate.refers_to(table)
    if not (same or other_facts):
        raise CheckpointError(
            f"{table.name} is not what {path} was built from (its certificate names {file.certificate.facts_name!r}); "
            "give the original, or pass --other-facts to check these all the same."
        )
    with display(table.n_facts, enabled=not as_json) as progress:
        result = exporting.verify_gguf(path, table, progress=progress)
    if as_json:
        emit_json(result.to_dict())
    else:
        show(result.sheet())
        by = result.judged_by.partition(" (")[0]
        console().print(f"Run by {by}{'' if same else '; these are other facts'}.", style="dim")
    if not result.passed:
        raise typer.Exit(1)


def _on_claims(result: Verification) -> str:
    """How many claims of the certificate hold, and how many were not checked."""
    later = sum("." in name for name in result.unchecked)
    return (
        f"{len(result.checked) - len(result.contradicted)} claims of the certificate hold"
        + (f", {later} are for --all-formats" if later else "")
        + f", {len(result.unchecked) - later} cannot be measured again."
    )
