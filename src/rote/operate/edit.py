"""`edit`: single facts of a model changed, forgotten or added, and the whole of it certified again.

The construction of the model makes the change. What is then written is judged like any build, and beyond that every
fact that was not to change is run through the old files and the new ones: are all of its logits the same, bit by bit?
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote import constructions, pipeline
from rote.constructions import Job, Progress, quiet
from rote.constructions._operations import NOBODY, Edit
from rote.data.arguments import checked
from rote.data.changes import Change, Context, read_changes
from rote.data.vocabulary import PAD
from rote.errors import CapacityError, CheckpointError, UnknownName, UsageError
from rote.memory import Memory
from rote.operate.difference import Difference
from rote.operate.weights import weight_changes

if TYPE_CHECKING:
    from rote.data.table import Table
    from rote.models import Wording

__all__ = ["changes_of", "edit", "known_table"]


def changes_of(
    memory: Memory,
    set_: Mapping[Context, str] | None = None,
    forget: Iterable[Context] | None = None,
    insert: Mapping[Context, str] | None = None,
) -> list[Change]:
    """Changes whose contexts are written as for `memory.ask`: tokens, or one text."""
    cut = _cutter(memory)
    changes = [Change("set", cut(context), answer) for context, answer in (set_ or {}).items()]
    changes += [Change("forget", cut(context)) for context in forget or ()]
    with _no_new_words(memory):
        return changes + [Change("insert", cut(context), answer) for context, answer in (insert or {}).items()]


@contextmanager
def _no_new_words(memory: Memory) -> Iterator[None]:
    """Somebody who adds a fact may well mean a word that the model does not know: it says what to do then."""
    try:
        yield
    except UnknownName as error:
        known = [token for token in memory.vocabulary if token != PAD]
        raise UnknownName("token", error.name, known, _NEW_WORDS) from None


_NEW_WORDS = "A model has no weights for new words: to add them, build it again from a table that has the fact."


def _cutter(memory: Memory) -> Any:
    wording = _wording(memory)

    def cut(context: Context) -> tuple[str, ...]:
        ids = wording.encode([context] if isinstance(context, str) else list(context))
        return tuple(wording.vocabulary[i] for i in ids if i != wording.pad_id)

    return cut


def _wording(memory: Memory) -> Wording:
    if memory.model.wording is None:
        raise UsageError("this model takes vectors, so that no fact of it can be named by a context; build it again.")
    return memory.model.wording


@checked
def edit(
    model: Memory | str | Path,
    changes: Sequence[Change] = (),
    *,
    set: Mapping[Context, str] | None = None,
    forget: Iterable[Context] | None = None,
    insert: Mapping[Context, str] | None = None,
    table: Table | None = None,
    rng: int = 0,
    progress: Progress = quiet,
) -> Memory:
    """A model with some facts changed (`set`), taken out (`forget`) or added (`insert`), judged and certified again.

    Contexts are written as for `memory.ask`. As few weights as can be are touched, and the certificate says how many
    (`edited`), and for how many of the other facts all logits are the same, bit by bit. `table` is the table that the
    model was built from, found again if not given. `rng` is a seed for what is drawn in the place of something
    forgotten. A construction that cannot change single facts refuses. The model given stays as it is.
    """
    if rng < 0:
        raise UsageError(f"a seed is a whole number from 0, got {rng}.")
    memory = model if isinstance(model, Memory) else pipeline.load(model)
    changes = [*changes, *changes_of(memory, set, forget, insert)]
    if not changes:
        raise UsageError("an edit needs something to change: facts to set, to forget or to insert.")
    construction = constructions.get(memory.certificate.construction)
    before = known_table(memory, table)
    refused = next((one.action for one in changes if one.action not in construction.edits), None)
    if refused is not None:
        able = f"its models allow to {' and '.join(construction.edits)}" if construction.edits else "it allows no edit"
        raise UsageError(
            f"{construction.key} cannot {refused} a single fact: facts share their weights, and {able}; build the "
            f"model again from the changed table ({_instead(refused)})."
        )
    began = time.process_time()
    wording, certificate = _wording(memory), memory.certificate
    for change in changes:
        # Words that the model does not know are refused here, with the nearest ones.
        wording.encode_tokens(change.context)
        if change.answer is not None:
            with _no_new_words(memory):
                wording.known(change.answer)
    after = before.changed(changes)
    task = _task(memory, before, after, changes, rng)
    edited = construction.edited(task)
    solved = time.process_time() - began
    edited.model.claims = {}
    options = construction.Options.from_dict(certificate.options)
    number = construction.check_format(certificate.dtype)
    arch = edited.model.arch
    job = Job(after, arch, options, number, task.rng, progress)
    difference = Difference(memory, task.table, after.in_words_of(wording.vocabulary, wording.context), task.keys)
    written, verdict = pipeline.certified(construction, job, edited.model, certificate.seed, difference.judged)
    if not verdict.passed:
        raise CapacityError(
            f"the change found for {construction.key} {verdict.summary()}; nothing was written. Build the model again "
            "from the changed table."
        )
    alike, apart = difference.alike(written.folder, edited.model.kind, number)
    record = {
        "changes": len(changes),
        "how": list(edited.how),
        **weight_changes(memory.model.module.state_dict(), edited.model.module.state_dict()),
        "other_facts": difference.others,
        "bit_equal": alike,
        "largest_difference": apart if math.isfinite(apart) else None,
        "run": dict(difference.run),
        "from_weights_sha256": certificate.weights_sha256,
        "processor_seconds": {"solve": round(solved, 3), "all": round(time.process_time() - began, 3)},
    }
    said = {**certificate.claims, **written.certificate.claims, "edited": record}
    read = written.certificate.read or _read(memory)
    return replace(written, certificate=written.certificate.replace(claims=said, chosen=certificate.chosen, read=read))


def _instead(action: str) -> str:
    return {"set": "table.replace", "forget": "table.without", "insert": "table.insert"}[action]


def _read(memory: Memory) -> Any:
    from rote.models import folders

    read, file = memory.certificate.read, folders.facts_file(memory.folder, memory.certificate.read)
    return read if read is None or file is None else {**read, "file": str(file)}


def known_table(memory: Memory, table: Table | None) -> Table:
    """The table of the model, with what was changed before."""
    known = memory.table() if table is None else memory.prepared(table)
    if not memory.certificate.refers_to(known):
        raise CheckpointError(
            f"{known.name} is not what {memory.folder} was built from, so that its facts cannot be told; give the "
            "original table."
        )
    history = read_changes(memory.folder)
    return known if history is None or known.history is not None else replace(known, history=history)  # type: ignore[type-var]


def _task(memory: Memory, before: Table, after: Table, changes: Sequence[Change], rng: int) -> Edit:
    """What changes in the end, in the model's ids."""
    import numpy as np

    wording = _wording(memory)
    words, length = wording.vocabulary, wording.context
    old, new = before.in_words_of(words, length), after.in_words_of(words, length)
    keys = np.array(list(dict.fromkeys(tuple(wording.encode_tokens(one.context)) for one in changes)), dtype=np.int64)
    now, then = (_targets(one, keys) for one in (old, new))
    # What is drawn depends on the contexts, and on nothing that is to be forgotten.
    spoken = int(hashlib.sha256(keys.astype("<i8").tobytes()).hexdigest()[:15], 16)
    return Edit(memory.model, old, keys, now, then, memory.certificate, np.random.default_rng([rng, spoken]))


def _targets(table: Any, keys: Any) -> Any:
    """The target of every key; NOBODY where it is no fact."""
    import numpy as np

    rows = np.flatnonzero(np.isin(table.contexts[:, -1], keys[:, -1]))
    places = {table.contexts[row].tobytes(): int(table.targets[row]) for row in rows.tolist()}
    return np.array([places.get(key.tobytes(), NOBODY) for key in keys], dtype=np.int64)
