"""`rote.graft`, `rote.ungraft` and `rote.prompts`: facts into a pretrained model, and out of it again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rote import pipeline
from rote.constructions import Progress, quiet
from rote.constructions.graft import Graft
from rote.data._temporary import held, remove
from rote.data.arguments import checked
from rote.data.kinds.prompts import prompts
from rote.data.table import Table
from rote.errors import OutputError, RoteError, UsageError
from rote.memory import Memory
from rote.models import folders
from rote.models.kinds.grafted import ungraft

__all__ = ["graft", "prompts", "ungraft"]


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
    force: bool = False,
    progress: Progress = quiet,
) -> Memory:
    """Write facts into a pretrained language model: a few more layers, and nothing else is touched.

    `model` is a local directory of the Llama family or a GGUF file. `facts` is a table of `rote.prompts`, or what that
    takes, with its `template`, `answer` and `sample`. Every fact is then asked in free generation; a graft that loses
    some is handed over too, and its certificate says so. With an `output` the model is written there, and a graft that
    was interrupted goes on where it stopped.
    """
    if not isinstance(options, (Graft, type(None))):
        raise UsageError(f"options are a record of rote.Graft, got a {type(options).__name__}.")
    told = replace(options or Graft(), model=Path(model))
    target = None if output is None else Path(output)
    if target is not None:
        folders.refuse_existing(target, force)
    if isinstance(facts, Table):
        if template or answer or sample is not None:
            raise UsageError("a table of prompts has its templates already; leave template, answer and sample out.")
        table = facts
    else:
        table = prompts(facts, template=template, answer=answer, sample=sample, seed=seed)
    with _workplace(target, told.cache is None) as workplace:
        memory = pipeline.build(
            table, told, dtype=dtype, rng=seed, partial=True, workplace=workplace, progress=progress
        )
        return memory if target is None else memory.save(target, force=force)


@contextlib.contextmanager
def _workplace(output: Path | None, resumable: bool) -> Iterator[Path | None]:
    """A hidden directory beside the output, removed at the end; after an interruption it is kept, to go on from."""
    if output is None:
        yield None
        return
    place = output.parent / f".{output.name}.graft"
    place.mkdir(parents=True, exist_ok=True)
    release = held(place)
    if release is None:
        raise OutputError(f"another graft is writing {output}; wait for it, or name another directory.")
    try:
        yield place
    except BaseException as error:
        # What is refused will be asked differently, so its states are of no use.
        if isinstance(error, RoteError) or not resumable:
            remove(place)
        raise
    else:
        remove(place)
    finally:
        release()
