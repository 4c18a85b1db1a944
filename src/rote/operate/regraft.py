"""`graft_add`, `graft_remove` and `graft_update`: single facts of a graft, in seconds, without the states of others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rote import constructions, pipeline
from rote.constructions import Job, Progress, quiet
from rote.data.arguments import checked
from rote.data.encoding import encode_prompts
from rote.data.kinds.prompts import PromptTable, fields_of
from rote.data.rows import RawRows
from rote.data.source import Source
from rote.data.table import Table
from rote.data.verification import Verification
from rote.errors import CapacityError, DataError, UnknownName, UsageError
from rote.grafting import workplace_of
from rote.memory import Memory
from rote.models import folders

__all__ = ["graft_add", "graft_remove", "graft_update"]

Rows = str | os.PathLike[str] | Sequence[Mapping[str, str]]


@checked
def graft_add(
    directory: str | os.PathLike[str],
    facts: Rows,
    *,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    seed: int = 0,
    progress: Progress = quiet,
) -> Memory:
    """Add facts to a graft: rows of a file, or rows themselves, with the columns that the graft was built from.

    Only the groups of the store that the new keys fall into are solved again. What could have changed is asked again;
    if any of it is lost, nothing is written. Without an `output` the directory itself is replaced, whole or not at all.
    """
    return _changed(directory, facts, (), "add", output, force, seed, progress)


@checked
def graft_update(
    directory: str | os.PathLike[str],
    facts: Rows,
    *,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    seed: int = 0,
    progress: Progress = quiet,
) -> Memory:
    """Give keys of a graft other answers: rows as for `graft_add`, of keys that are there."""
    return _changed(directory, facts, (), "update", output, force, seed, progress)


@checked
def graft_remove(
    directory: str | os.PathLike[str],
    facts: Rows | None = None,
    *,
    keys: Sequence[str] = (),
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    seed: int = 0,
    progress: Progress = quiet,
) -> Memory:
    """Take facts out of a graft, by rows or by their keys: the model says again what the original says to them."""
    if facts is None and not keys:
        raise UsageError("say what is to be removed: a table of facts, or keys.")
    return _changed(directory, facts, keys, "remove", output, force, seed, progress)


def _changed(
    directory: str | os.PathLike[str],
    facts: Rows | None,
    keys: Sequence[str],
    action: str,
    output: str | os.PathLike[str] | None,
    force: bool,
    seed: int,
    progress: Progress,
) -> Memory:
    folder = Path(directory)
    target = folder if output is None else Path(output)
    if output is not None:
        folders.refuse_existing(target, force)
    progress("read the graft", 0, 1, None)
    memory = pipeline.load(folder)
    construction = constructions.get(memory.certificate.construction)
    change = getattr(construction, "changed", None)
    if change is None:
        raise UsageError(
            f"{folder} was made by {construction.key}, which cannot {action} single facts; it takes a graft."
        )
    before = memory.carried
    if not isinstance(before, PromptTable):
        raise UsageError(f"{folder} does not carry its facts; graft the original again with all of them.")
    options = construction.Options.from_dict(memory.certificate.options)
    field = str(memory.certificate.claims["key"])
    folded = _folding(bool(getattr(options, "ignore_case", False)))
    given = None if facts is None else _rows(facts, before, field, action)
    after, counts = _table_after(before, given, keys, field, folded, action)
    if given is not None and action != "remove":
        # By themselves first, since the sentence of a refusal then has the place that the user knows.
        known: Any = memory.model
        some = PromptTable(given, before.templates)
        encode_prompts(some.facts, known.tokenizer, end_id=0, context=known.arch.context)
    with workplace_of(target, resumable=False) as workplace:
        number = construction.check_format(memory.certificate.dtype)
        job = Job(after, memory.model.arch, options, number, np.random.default_rng(seed), progress, workplace=workplace)
        model = change(job, memory, before, counts, linked=output is None)
        lost = model.lost_before

        def verdict(folder: Path, model: Any, table: Table, dtype: str, *, progress: Progress) -> Verification:
            found = pipeline.judged(folder, model, model.asked_table(), dtype, progress=progress, hear=model.hear)
            return replace(found, n_facts=table.n_facts, n_failed=found.n_failed + lost)

        made, result = pipeline.certified(construction, job, model, memory.certificate.seed, verdict)
        _refuse_lost(made, result, lost)
        claims = {name: value for name, value in made.certificate.claims.items() if name != "facts"}
        made = replace(made, certificate=made.certificate.replace(claims={**claims, "sample": None}, read=None))
        return made.save(target, force=force or output is None)


def _refuse_lost(memory: Memory, result: Verification, lost: int) -> None:
    """Nothing is written if a fact that was asked again is lost, or a key that is gone is still answered."""
    record = memory.certificate.claims["changes"][-1]
    if result.n_failed > lost:
        worst = result.failures[0] if result.failures else None
        what = "" if worst is None else f": to {worst.context} it says {worst.got!r}"
        raise CapacityError(
            f"after the change {result.n_failed - lost} of {record['asked_again']['facts']} facts that were asked "
            f"again are lost{what}; nothing was written. Graft the original again with all facts."
        )
    if record["numbers_read"]["wrong"]:
        raise CapacityError(
            f"{record['numbers_read']['wrong']} of {record['numbers_read']['keys']} keys that share weights with what "
            "was changed would be read otherwise; nothing was written. Try another seed, or graft the original again."
        )
    if record["gone"]["changed"]:
        raise CapacityError(
            f"{record['gone']['changed']} of {record['gone']['asked']} questions for what was removed are not answered "
            "as by the original; nothing was written. Graft the original again without it."
        )


def _folding(ignore_case: bool) -> Any:
    return lambda text: " ".join((text.casefold() if ignore_case else text).split())


def _rows(facts: Rows, table: PromptTable, field: str, action: str) -> RawRows:
    """Rows with the columns of the graft; for a removal the key is enough."""
    import polars as pl

    if isinstance(facts, (str, os.PathLike)):
        rows = Source.of(facts).rows
    else:
        rows = RawRows(pl.DataFrame(list(facts)), "facts")
        if not len(rows.frame):
            raise DataError(f"there are no rows to {action}; give at least one.")
    needed = [field] if action == "remove" else table.rows.columns
    for name in needed:
        if name not in rows.columns:
            wanted = f"{rows.source} needs what the graft was built from: {', '.join(needed)}."
            raise UnknownName("column named", name, rows.columns, wanted)
    return RawRows(pl.DataFrame({name: rows.cells(name) for name in needed}), rows.source, rows.lines, rows.first_line)


def _table_after(
    before: PromptTable, given: RawRows | None, keys: Iterable[str], field: str, folded: Any, action: str
) -> tuple[PromptTable, dict[str, int]]:
    """The table after a change, and how many keys were added, updated and removed, or were so already."""
    import polars as pl

    frame = before.rows.frame
    known: dict[str, list[int]] = {}
    for i, cell in enumerate(before.rows.cells(field)):
        known.setdefault(folded(cell), []).append(i)
    columns = frame.columns
    counts = dict.fromkeys(("added", "updated", "removed", "same_already"), 0)
    drop: set[int] = set()
    seen: dict[str, tuple[Any, ...]] = {}
    rows: list[tuple[Any, ...]] = []
    answers = dict.fromkeys(name for one in before.templates for name in fields_of(one.answer))
    wanted: list[tuple[str, int | None, str]] = [(cell, None, "") for cell in keys]
    if given is not None:
        cells = given.cells(field)
        wanted += [(cells[i], i, f"{given.source}: {given.place(i)}: ") for i in range(len(cells))]
    for cell, row, where in wanted:
        key = folded(cell)
        if action != "add" and key not in known:
            names = [before.rows.cells(field)[some[0]] for some in known.values()]
            which = f" This one is in {where[:-2]}." if where else ""
            raise UnknownName("key", cell, names, f"Only keys that the graft has can be changed or removed.{which}")
        if action == "remove":
            drop.update(known[key])
            counts["removed"] += key not in seen
            seen[key] = ()
            continue
        assert given is not None and row is not None, "facts are added and updated by rows"
        new = given.frame.select(columns).row(row)
        if key in seen:
            if seen[key] != new:
                raise DataError(f"{where}the key {cell!r} is there twice, with different cells; keep one of the rows.")
            continue
        seen[key] = new
        if key not in known:
            counts["added"] += 1
            rows.append(new)
            continue
        old = frame.row(known[key][0])
        if all(old[columns.index(name)] == new[columns.index(name)] for name in answers):
            counts["same_already"] += 1
            continue
        if action == "add":
            raise DataError(f"{where}the key {cell!r} is in the graft already, with another answer; update it instead.")
        counts["updated"] += 1
        drop.update(known[key])
        # The key stays as it was written: another spelling of it would be another key.
        at = columns.index(field)
        rows.append((*new[:at], old[at], *new[at + 1 :]))
    if not any(counts[name] for name in ("added", "updated", "removed")):
        raise DataError("there is nothing to change: the graft has all of these facts already.")
    kept = frame[[row for row in range(len(frame)) if row not in drop]]
    if rows:
        kept = pl.concat([kept, pl.DataFrame(rows, schema=frame.schema, orient="row")])
    if not len(kept):
        raise UsageError("that would leave no fact in the graft; take it off with ungraft instead.")
    table = PromptTable(RawRows(kept, before.rows.source), before.templates, None, 0, before.name)
    return table, counts
