"""What a worker process can be asked: checks, builds, questions, results. Plain records in, plain records out.

Each is a few calls of the library, in the order in which the command line makes them; nothing here knows a kind of
table, model or construction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import RoteError, UsageError
from rote.web import graft_tasks, run_tasks, vector_tasks

if TYPE_CHECKING:
    from rote.data import Table
    from rote.memory import Memory

__all__ = ["TASKS"]

Notice = Callable[[dict[str, Any]], None]
Task = Callable[[dict[str, Any], Notice], Any]

_SHOWN = 8
_MOST_LOCATED, _RUN_WITHOUT = 200_000, 200
"""Tables in which facts are located, and facts that are run without each part, so that the answer comes at once."""
_MODELS = 3
_held: dict[str, tuple[Memory, Table | None]] = {}


def _warm(args: dict[str, Any], notice: Notice) -> bool:
    """What checks and builds need, so that the first one does not wait for it."""
    import torch

    from rote import assumptions, pipeline, plans

    return all((torch, assumptions, pipeline, plans))


def _bounds(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    from rote.web.capacity import bounds_answer

    return bounds_answer(args)


def _read(args: dict[str, Any]) -> Table:
    """The table as the command line reads it; the name of an upload stands where its path would."""
    from rote import constructions, data

    source = args["source"]
    try:
        return data.read(
            source["shipped"] if "shipped" in source else Path(source["path"]),
            kind=constructions.kind_for(args["with_"], args["options"]),
            target=args["target"],
            columns=args["columns"],
            tokens=args["tokens"],
            on_conflict=args["on_conflict"],
            on_missing=args["on_missing"],
            weight=args["weight"],
            name=source.get("shipped") or Path(source["label"]).stem,
        )
    except RoteError as error:
        raise _renamed(error, source) from None


def _renamed(error: RoteError, source: dict[str, Any]) -> RoteError:
    if "label" in source:
        error.args = (str(error).replace(Path(source["path"]).name, source["label"]),)
    return error


def _columns(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    """The columns of a file and its first rows, before anything is chosen; a file without columns is read whole."""
    from rote import data

    source = args["source"]
    try:
        origin = data.Source.of(Path(source["path"]))
        if not origin.has_rows:
            return {"columns": [], "rows": data.read(Path(source["path"])).n_facts, "first": []}
        raw = origin.rows
    except RoteError as error:
        raise _renamed(error, source) from None
    first = [[str(cell) for cell in row] for row in raw.frame.head(_SHOWN).rows()]
    return {"columns": list(raw.columns), "rows": len(raw.frame), "first": first}


def _check(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    """The table, the assumptions that it meets, and the smallest shapes for it."""
    from rote import assumptions, plans

    table = _read(args)
    answer: dict[str, Any] = {
        "kind": table.kind,
        "noun": table.noun,
        "extent": table.extent,
        "table": table.describe(),
        "tokens": table.tokens,
        "read": None if table.reading is None else table.reading.to_dict(),
        "first": [table.fact_text(i) for i in range(min(_SHOWN, table.n_facts))],
        "findings": None,
        "usable": [],
        **plans.plan(table).to_dict(),
    }
    try:
        findings = assumptions.check(table, rng=0)
    except UsageError:
        # No theorem makes an assumption about such tables that could be checked.
        return answer
    answer["findings"] = [
        {**finding.to_dict(), "offenders": [_words(table, one) for one in finding.offenders[:_SHOWN]]}
        for finding in findings
    ]
    answer["usable"] = findings.to_dict()["usable"]
    return answer


def _words(table: Table, offender: Any) -> str:
    """An offender for people: facts by their words, whatever else as it is."""
    rows = offender if isinstance(offender, (list, tuple)) else [offender]
    if table.words is None or not all(isinstance(i, int) and 0 <= i < table.n_facts for i in rows):
        return str(offender)
    return " / ".join(f"fact {i + 1}: {table.fact_text(i)}" for i in rows)


def _build(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    """Read, build, verify, save, pack; progress on the way."""
    from rote.pipeline import build

    notice({"stage": "read the facts", "done": 0, "total": 1, "recalled": None, "n_facts": None})
    table = _read(args)
    last = ("", 0.0)

    def progress(stage: str, done: int, total: int, recalled: int | None) -> None:
        nonlocal last
        now = time.monotonic()
        if stage == last[0] and now - last[1] < 0.1:
            return
        last = (stage, now)
        notice({"stage": stage, "done": done, "total": total, "recalled": recalled, "n_facts": table.n_facts})

    folder = Path(args["folder"])
    folder.parent.mkdir(parents=True, exist_ok=True)
    memory = build(
        table,
        args["with_"],
        **args["shape"],
        dtype=args["dtype"],
        arch=args["arch"],
        options=args["options"],
        rng=args["seed"],
        partial=args["partial"],
        drop_unfit=args["drop_unfit"],
        workplace=folder.parent,
        progress=progress,
    )
    progress("save", 0, 1, None)
    memory = _named(memory, args["source"]).save(folder)
    _pack(folder, args["zip_name"])
    return {"certificate": memory.certificate.to_dict(), "sheet": asdict(memory.sheet())}


def _named(memory: Memory, source: Mapping[str, Any]) -> Memory:
    """The certificate names an upload as its owner does; where it lay here is nobody's business."""
    read = memory.certificate.read
    if read is None or "label" not in source:
        return memory
    kept = {key: value for key, value in read.items() if key != "file"}
    return replace(memory, certificate=memory.certificate.replace(read={**kept, "source": source["label"]}))


def _pack(folder: Path, name: str) -> None:
    """The model directory as one zip file beside it."""
    import os
    import zipfile

    part, whole = folder.with_suffix(".part"), folder.with_suffix(".zip")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"{name}/{file.name}")
    os.replace(part, whole)


def _model(args: dict[str, Any]) -> tuple[Memory, Table | None]:
    """A model and its facts, kept for the next question."""
    from rote.pipeline import load

    folder = Path(args["folder"])
    # A directory that was written anew is another model.
    key = " ".join([str(folder), *(str(path.stat().st_mtime_ns) for path in sorted(folder.glob("*")))])
    if key in _held:
        _held[key] = _held.pop(key)
        return _held[key]
    memory = load(folder)
    try:
        table = _facts(memory, args.get("source") or {})
    except RoteError:
        table = None
    _held[key] = (memory, table)
    for old in list(_held)[: max(0, len(_held) - _MODELS)]:
        del _held[old]
    return _held[key]


def _facts(memory: Memory, source: Mapping[str, Any]) -> Table | None:
    """The table that a model was built from, in the model's words, where it is at hand: carried beside the weights,
    shipped, dropped on the page, or in the folder that is shown. A certificate may name any other file, and that is not
    opened."""
    from rote.data import available

    reading, wording = memory.certificate.reading, memory.model.wording
    table = memory.carried
    if table is None:
        shipped = reading is not None and reading.shipped and reading.source in {item.name for item in available()}
        path = None if shipped else source.get("path") or _shown(memory, source.get("within"))
        if not shipped and path is None:
            return None
        table = memory.table(path)
        if not memory.certificate.refers_to(table):
            return None
    if table.words is None or wording is None:
        return None
    return table.in_words_of(wording.vocabulary, wording.context)


def _shown(memory: Memory, within: str | None) -> Path | None:
    """The file that a certificate names, where it lies in the folder that is shown and is no larger than an upload."""
    from rote.models.folders import facts_file
    from rote.web.store import MAX_UPLOAD_BYTES

    named = None if within is None else facts_file(memory.folder, memory.certificate.read)
    if named is None or not named.is_relative_to(Path(str(within)).resolve()) or not named.is_file():
        return None
    return named if named.stat().st_size <= MAX_UPLOAD_BYTES else None


def _contexts(table: Table) -> Any:
    """The contexts (T, S) of a table of tokens."""
    return table.inputs(slice(0, table.n_facts))[0]


def _about(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    """A model's certificate, how it is asked, and a few of its facts."""
    import numpy as np

    from rote.data import PAD

    memory, facts = _model(args)
    words, examples = memory.vocabulary, [list(texts) for texts in _prompts(memory)]
    if facts is not None:
        rows = np.random.default_rng(0).permutation(facts.n_facts)[:6]
        examples = [[words[i] for i in row if words[i] != PAD] for row in _contexts(facts)[rows].tolist()]
    return {
        "certificate": memory.certificate.to_dict(),
        "tokens": memory.certificate.tokens,
        "context": int(memory.certificate.shape["context"]),
        "vocab": len(words) or None,
        "facts_known": facts is not None,
        "examples": examples,
        "trials": memory.model.trials(memory.certificate),
        "sheet": asdict(memory.certificate.sheet()),
        "vectors": vector_tasks.sizes(memory, args.get("source") or {}),
    }


def _prompts(memory: Memory) -> list[tuple[str]]:
    """A few prompts of a table of text, where it is shipped: no other file that a certificate names is opened."""
    from rote.data import available

    reading = memory.certificate.reading
    if memory.vocabulary or reading is None or not reading.shipped:
        return []
    if reading.source not in {item.name for item in available() if item.installed}:
        return []
    try:
        texts = memory.table().inputs(slice(0, 4))[0].tolist()
    except RoteError:
        return []
    return [(text,) for text in texts if isinstance(text, str)]


def _complete(args: dict[str, Any], notice: Notice) -> list[str]:
    """Tokens that go on from a prefix; where it is known which tokens stand at this position, these only."""
    memory, facts = _model(args)
    prefix, usual = args["prefix"].casefold(), _tokens_at(memory, facts, args["position"])

    def rank(token: str) -> tuple[bool, int, str]:
        return (not token.casefold().startswith(prefix), len(token), token)

    return sorted((token for token in usual if prefix in token.casefold()), key=rank)[:12]


def _tokens_at(memory: Memory, facts: Table | None, position: int) -> set[str]:
    """The tokens of the facts at a position, or anywhere in a context where contexts differ in length; all tokens
    where the facts are not at hand."""
    import numpy as np

    from rote.data import PAD

    words, wording = memory.vocabulary, memory.model.wording
    if wording is not None and wording.properties and wording.tokens == "cells" and position == wording.context - 1:
        return set(wording.properties)
    if facts is None:
        return {*words} - {PAD}
    place = min(max(0, position), facts.context - 1)
    rows = _contexts(facts) if PAD in words else _contexts(facts)[:, place]
    return {words[i] for i in np.unique(rows).tolist()} - {PAD}


def _ask(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    """The answers, and what the model did to find them."""
    from rote.analyse.inspect import near_misses
    from rote.data import PAD
    from rote.web.figures import digits_figure, figure_answer, heads_figure

    memory, facts = _model(args)
    words = args["words"]
    answers, ids = memory.ask(*words, top=args["top"]), memory.encode(words)
    context = [memory.vocabulary[i] for i in ids] if memory.vocabulary else words
    truth = None if facts is None else facts.truth(ids)
    view, digits = memory.model.heads(ids), memory.model.trace(ids)
    heads = None if view is None else view.to_dict()
    return {
        "context": context,
        "padding": context.count(PAD),
        "answers": [asdict(answer) for answer in answers],
        "labels": memory.model.speaks_labels,
        "facts_known": facts is not None,
        "truth": None if truth is None else max(truth, key=truth.__getitem__),
        "divergence": memory.divergence(words),
        "before": memory.model.before(words),
        "heads": heads and {**heads, "figure": figure_answer(heads_figure(context, heads["heads"]))},
        "located": _located(memory, facts, ids),
        "digits": digits and {**digits, "figure": figure_answer(digits_figure(digits["lengths"]))},
        "near": [one.to_dict() for one in near_misses(memory, ids, facts)],
    }


def _located(memory: Memory, facts: Table | None, ids: list[int]) -> dict[str, Any] | None:
    """Where the fact lies, as `rote locate` says it; None where the context is no fact, or facts are not at hand."""
    from rote.operate.locate import located, row_of

    if facts is None or facts.n_facts > _MOST_LOCATED:
        return None
    row = row_of(facts, ids)
    try:
        return None if row is None else located(memory, facts, row, _RUN_WITHOUT).to_dict()
    except RoteError:
        # Kinds of tables whose facts are not lost one by one.
        return None


def _graft(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    return graft_tasks.about(_model(args)[0])


def _speak(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    return graft_tasks.speak(_model(args)[0], args["text"], notice)


def _example(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    return vector_tasks.example(_model(args)[0], args.get("source") or {}, args["number"], args["query"])


TASKS: dict[str, Task] = {
    "warm": _warm,
    "bounds": _bounds,
    "columns": _columns,
    "check": _check,
    "build": _build,
    "about": _about,
    "complete": _complete,
    "ask": _ask,
    "example": _example,
    "graft": _graft,
    "speak": _speak,
    **run_tasks.TASKS,
}
