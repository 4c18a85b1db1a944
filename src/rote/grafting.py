"""`rote.graft`, `rote.ungraft` and `rote.prompts`: facts into a pretrained model, and out of it again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rote import exporting, pipeline
from rote.certificate import Certificate
from rote.constructions import Progress, quiet
from rote.constructions.graft import Graft
from rote.data._atomic import disk_is_full
from rote.data._temporary import held, remove
from rote.data.arguments import checked
from rote.data.chat import Chat
from rote.data.contents import as_path, read_plain
from rote.data.kinds.prompts import PromptTable, prompts
from rote.data.table import Table
from rote.errors import CheckpointError, OutputError, RoteError, UsageError
from rote.memory import Memory
from rote.models import folders
from rote.models._pretrained import source_tokenizer
from rote.models._widening import restore

__all__ = ["graft", "paired_templates", "prompts", "read_templates", "ungraft", "workplace_of"]


@checked
def graft(
    model: str | os.PathLike[str],
    facts: Table | str | os.PathLike[str] | Sequence[Mapping[str, str]],
    *,
    template: str | Sequence[str] = (),
    answer: str | Sequence[str] = (),
    sample: int | None = None,
    options: Graft | None = None,
    dtype: str | None = None,
    seed: int = 0,
    output: str | os.PathLike[str] | None = None,
    form: str | None = None,
    force: bool = False,
    progress: Progress = quiet,
) -> Memory:
    """Write facts into a pretrained language model: a few more layers, and what it said before stays as it was.

    `model` is a local directory of the Llama family or a GGUF file. `facts` is a table of `rote.prompts`, or what that
    takes, with its `template`, `answer` and `sample`. Templates after the first are further wordings. Every fact is
    then asked in free generation; a graft that loses some is handed over too, and its certificate says so. With an
    `output` the model is written there: a directory, or a GGUF file if it ends in .gguf, with matrices of the type
    `form`. A file is written even if llama.cpp loses facts of it; `certificate["exports"]` of what is returned says how
    many came back.
    """
    if not isinstance(options, (Graft, type(None))):
        raise UsageError(f"options are a record of rote.Graft, got a {type(options).__name__}.")
    told = replace(options or Graft(), model=Path(model))
    target = None if output is None else Path(output)
    as_file = target is not None and target.suffix.lower() == ".gguf"
    if target is not None and as_file:
        exporting.refuse_gguf(target, form, force)
    elif form is not None:
        raise UsageError("a type is for the matrices of a GGUF file; name an output that ends in .gguf.")
    elif target is not None:
        folders.refuse_existing(target, force)
    if isinstance(facts, Table):
        if template or answer or sample is not None:
            raise UsageError("a table of prompts has its templates already; leave template, answer and sample out.")
        if told.chat:
            raise UsageError("for a chat give the facts themselves, and templates as users type them, not a table.")
        table = facts
        given = [one.prompt for one in table.templates] if isinstance(table, PromptTable) else []
    else:
        wordings = [template] if isinstance(template, str) else list(template)
        answers = [answer] if isinstance(answer, str) else list(answer)
        if len(wordings) > 1:
            told, wordings, answers = _first_wordings(told, wordings, answers)
        given = wordings
        if told.chat:
            chat = Chat.of(source_tokenizer(Path(model)), model)
            wordings = [chat.template(one) for one in wordings]
        table = prompts(facts, template=wordings, answer=answers, sample=sample, seed=seed)
    _refuse_fitted(told, [*given, *told.wording])
    with workplace_of(target, told.cache is None) as workplace:
        memory = pipeline.build(
            table, told, dtype=dtype, rng=seed, partial=True, workplace=workplace, progress=progress
        )
        if target is None:
            return memory
        if not as_file:
            return memory.save(target, force=force)
        row = exporting.export(memory, target, table, form=form, partial=True, force=force, progress=progress)
        return replace(memory, certificate=exporting.with_export(memory.certificate, row))


def _first_wordings(told: Graft, wordings: list[str], answers: list[str]) -> tuple[Graft, list[str], list[str]]:
    """All facts are asked for in the first wording of their answer, some in the others."""
    if len(answers) not in (1, len(wordings)):
        return told, wordings, answers
    paired = list(dict.fromkeys(zip(wordings, answers * len(wordings) if len(answers) == 1 else answers, strict=True)))
    first = {answer: prompt for prompt, answer in reversed(paired)}
    rest = [(prompt, answer) for prompt, answer in paired if first[answer] != prompt]
    told = replace(told, wording=tuple(p for p, _ in rest), wording_answer=tuple(a for _, a in rest))
    kept = [(prompt, answer) for prompt, answer in paired if first[answer] == prompt]
    return told, [p for p, _ in kept], [a for _, a in kept]


def _refuse_fitted(told: Graft, fitted: Sequence[str]) -> None:
    """What is fitted tells nothing of wordings that are not."""
    both = next((one for one in told.held_out_template if one in fitted), None)
    if both is not None:
        raise UsageError(
            f"the template {both!r} is to be fitted and held out; a held-out wording is measured and not fitted, so "
            "give it as one of both."
        )
    both = next((one for one in told.other_template if one in (*fitted, *told.held_out_template)), None)
    if both is not None:
        raise UsageError(
            f"the template {both!r} is to be answered and to be left alone; give it as a wording or as another "
            "question."
        )


def paired_templates(
    given: Sequence[str], files: Sequence[Path], answers: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Templates as given and from files, each with its answer, if there is one for each of those."""
    groups = [[text] for text in given] + [read_templates(path) for path in files]
    prompts = [text for group in groups for text in group]
    if len(answers) == len(groups) > 1:
        return prompts, [answer for group, answer in zip(groups, answers, strict=True) for _ in group]
    return prompts, list(answers)


def read_templates(path: Path) -> list[str]:
    """Templates of a text file, one a line, in which \\n stands for a new line; empty lines are left out."""
    lines = [line.replace("\\n", "\n") for line in read_plain(path).splitlines() if line.strip()]
    if not lines:
        raise UsageError(f"{path} has no templates; write one a line, such as 'The capital of {{country}} is'.")
    return lines


@checked
def ungraft(
    directory: str | os.PathLike[str], output: str | os.PathLike[str] | None = None, *, force: bool = False
) -> list[str]:
    """Restore the original from a grafted directory, bit for bit; the names of the restored files.

    Without an `output` the directory itself becomes the original again.
    """
    folder = as_path(directory, "a model directory")
    target = None if output is None else as_path(output, "a directory")
    if target is None or target == folder:
        # What is not restored would be lost, and which files those are, only the certificate knows.
        path = folder / folders.CERTIFICATE
        try:
            Certificate.from_dict(folders.read_json(path), str(path))
        except CheckpointError as error:
            raise CheckpointError(f"{error} The original may still be restored into another directory.") from None
    return restore(folder, target, force=force)


@contextlib.contextmanager
def workplace_of(output: Path | None, resumable: bool) -> Iterator[Path | None]:
    """A hidden directory beside the output, removed at the end.

    After an interruption it is kept, to go on from, if a model was unpacked there.
    """
    if output is None:
        yield None
        return
    place = output.parent / f".{output.name}.graft"
    try:
        place.mkdir(parents=True, exist_ok=True)
        release = held(place)
    except OSError as error:
        raise folders.refusal(output, error) from None
    if release is None:
        raise OutputError(f"another graft is writing {output}; wait for it, or name another directory.")
    try:
        yield place
    except BaseException as error:
        # What is refused will be asked differently, so its states are of no use; on a full disk they are in the way.
        full = isinstance(error, Exception) and not isinstance(error, RoteError) and disk_is_full(error)
        unpacked = any(not one.name.startswith(".") for one in place.iterdir())
        if isinstance(error, RoteError) or full or not (resumable and unpacked):
            remove(place)
        if full:
            raise folders.refusal(output, error) from None
        raise
    else:
        remove(place)
    finally:
        release()
