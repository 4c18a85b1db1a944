"""What a worker process can be asked: checks, builds, questions, results. Plain records in, plain records out.

Each is a few calls of the library, in the order in which the command line makes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import RoteError
from rote.web import run_tasks

if TYPE_CHECKING:
    from rote.data import FactTable, ReadReport, SequenceTable, Tokens
    from rote.memory import Memory

__all__ = ["TASKS"]

Notice = Callable[[dict[str, Any]], None]
Task = Callable[[dict[str, Any], Notice], Any]

_SHOWN = 8
_MODELS = 3
_held: dict[str, tuple[Memory, FactTable | None]] = {}


def _warm(args: dict[str, Any], notice: Notice) -> bool:
    import torch

    return torch.get_num_threads() > 0


def _bounds(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    from rote.web.capacity import bounds_answer

    return bounds_answer(args)


def _read(args: dict[str, Any]) -> tuple[FactTable | SequenceTable, Tokens, ReadReport | None]:
    """Facts as the command line reads them; the name of an upload stands where its path would."""
    from rote.data import check_on_conflict, check_tokens, load_source, read_facts, read_sequences

    source, tokens = args["source"], args.get("tokens")
    cut = None if tokens is None else check_tokens(tokens)
    conflict = check_on_conflict(args.get("on_conflict") or "error")
    target, context = args.get("target"), args.get("context")
    if "shipped" in source:
        table, report = load_source(source["shipped"], target=target, context=context, tokens=cut, on_conflict=conflict)
        return table, report.tokens, report
    path, name = source["path"], Path(source["label"]).stem
    try:
        if args.get("with_") == "kajitsuka2025_seq2seq":
            names = None if target is None else [column.strip() for column in target.split(",")]
            return (
                read_sequences(path, target=names, context=context, tokens=cut or "cells", name=name),
                cut or "cells",
                None,
            )
        table, report = read_facts(
            path, target=target, context=context, tokens=cut or "cells", on_conflict=conflict, name=name
        )
    except RoteError as error:
        raise _renamed(error, source) from None
    return table, report.tokens, report


def _renamed(error: RoteError, source: dict[str, Any]) -> RoteError:
    if "label" in source:
        error.args = (str(error).replace(Path(source["path"]).name, source["label"]),)
    return error


def _columns(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    """The columns of a file and its first rows, before anything is chosen."""
    from rote.data.files import read_raw

    source = args["source"]
    try:
        raw = read_raw(Path(source["path"]))
    except RoteError as error:
        raise _renamed(error, source) from None
    first = [[str(cell) for cell in row] for row in raw.frame.head(_SHOWN).rows()]
    return {"columns": list(raw.columns), "rows": len(raw.frame), "first": first}


def _check(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    """The table, the assumptions that it meets, and the smallest shapes for it."""
    from rote import assumptions, capacity
    from rote.data import FactTable

    table, cut, report = _read(args)
    answer: dict[str, Any] = {
        "table": table.describe()
        if isinstance(table, FactTable)
        else {"n_facts": table.n_facts, "context": table.context, "vocab": table.vocab},
        "tokens": cut,
        "read": None if report is None else report.to_dict(),
        "findings": [],
        "usable": [],
        "plans": [],
        "refused": [],
    }
    if not isinstance(table, FactTable):
        return answer
    findings = assumptions.check(table, rng=0)
    answer["first"] = [
        {"context": list(table.context_tokens(i)), "target": table.vocabulary.tokens[table.targets[i]]}
        for i in range(min(_SHOWN, table.n_facts))
    ]
    answer["findings"] = [
        {**finding.to_dict(), "offenders": [_words(table, one) for one in finding.offenders[:_SHOWN]]}
        for finding in findings
    ]
    answer["usable"] = [
        {"theorem": one.theorem, "verdict": one.verdict, "reasons": list(one.reasons)}
        for one in assumptions.usable(findings)
    ]
    planned = capacity.plan(capacity.data_demand(table))
    answer["plans"] = [plan.to_dict() for plan in planned.plans]
    answer["refused"] = [refusal.to_dict() for refusal in planned.refused]
    return answer


def _words(table: FactTable, offender: Any) -> str:
    """An offender for people: facts by their words, whatever else as it is."""
    if isinstance(offender, int) and 0 <= offender < table.n_facts:
        return f"fact {offender + 1}: {table.fact_text(offender)}"
    if isinstance(offender, (list, tuple)) and all(isinstance(i, int) and 0 <= i < table.n_facts for i in offender):
        return " / ".join(f"fact {i + 1}: {table.fact_text(i)}" for i in offender)
    return str(offender)


def _build(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    """Read, build, verify, save, pack; progress on the way."""
    from rote.building import build

    notice({"stage": "read the facts", "done": 0, "total": 1, "recalled": None, "n_facts": None})
    facts, cut, _ = _read(args)
    last = ("", 0.0)

    def progress(stage: str, done: int, total: int, recalled: int | None) -> None:
        nonlocal last
        now = time.monotonic()
        if stage == last[0] and now - last[1] < 0.1:
            return
        last = (stage, now)
        notice({"stage": stage, "done": done, "total": total, "recalled": recalled, "n_facts": facts.n_facts})

    memory = build(
        facts,
        with_=args["with_"],
        n_heads=args.get("heads"),
        d_model=args.get("d_model"),
        d_head=args.get("d_head"),
        d_mlp=args.get("d_mlp"),
        dtype=args.get("dtype"),
        rank1_qk=args["rank1_qk"],
        refine=args["refine"],
        arch=args["arch"],
        tokens=cut,
        rng=args["seed"],
        partial=args["partial"],
        variant=args.get("variant"),
        with_positions=args["with_positions"],
        progress=progress,
    )
    source = args["source"]
    context = args.get("context")
    memory.certificate["read"] = {
        "source": source.get("shipped") or source["label"],
        "target": args.get("target"),
        "context": None if context is None else ",".join(context),
        "tokens": cut,
        "on_conflict": args.get("on_conflict") or "error",
    }
    progress("save", 0, 1, None)
    folder = Path(args["folder"])
    memory.save(folder)
    _pack(folder, args["zip_name"])
    return memory.certificate


def _pack(folder: Path, name: str) -> None:
    """The model directory as one zip file beside it."""
    import os
    import zipfile

    part, whole = folder.with_suffix(".part"), folder.with_suffix(".zip")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"{name}/{file.name}")
    os.replace(part, whole)


def _model(args: dict[str, Any]) -> tuple[Memory, FactTable | None]:
    """A model and its facts, kept for the next question."""
    from rote.data import FactTable, available
    from rote.memory import load

    folder = Path(args["folder"])
    # A directory that was written anew is another model.
    key = " ".join([str(folder), *(str(path.stat().st_mtime_ns) for path in sorted(folder.glob("*")))])
    if key in _held:
        _held[key] = _held.pop(key)
        return _held[key]
    memory = load(folder)
    facts: FactTable | None = None
    source = args.get("source")
    read = memory.certificate.get("read") or {}
    if source is None and read.get("source") in {item.name for item in available()}:
        source = {"shipped": read["source"]}
    if source is not None:
        context = read.get("context")
        wanted = {
            "source": source,
            "target": read.get("target"),
            "context": None if context is None else [name.strip() for name in context.split(",")],
            "tokens": read.get("tokens"),
            "on_conflict": read.get("on_conflict"),
        }
        try:
            found = _read(wanted)[0]
        except RoteError:
            found = None
        same = found is not None and found.sha256 == memory.certificate.get("facts_sha256")
        facts = found if same and isinstance(found, FactTable) else None
    _held[key] = (memory, facts)
    for old in list(_held)[: max(0, len(_held) - _MODELS)]:
        del _held[old]
    return _held[key]


def _about(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    """A model's certificate, how it is asked, and a few of its facts."""
    import numpy as np

    memory, facts = _model(args)
    examples = []
    if facts is not None:
        rows = np.random.default_rng(0).permutation(facts.n_facts)[:6]
        examples = [
            {"context": list(facts.context_tokens(int(i))), "target": facts.vocabulary.tokens[facts.targets[i]]}
            for i in rows
        ]
    return {
        "certificate": memory.certificate,
        "tokens": memory.tokens,
        "context": int(memory.certificate["shape"]["context"]),
        "vocab": len(memory.vocabulary),
        "facts_known": facts is not None,
        "examples": examples,
    }


def _complete(args: dict[str, Any], notice: Notice) -> list[str]:
    """Tokens that go on from a prefix: those that stand at this position in some fact first."""
    from rote.data import PAD

    memory, facts = _model(args)
    prefix = args["prefix"].casefold()
    usual: set[int] = set()
    if facts is not None:
        import numpy as np

        place = min(max(0, args["position"]), facts.context - 1)
        usual = set(np.unique(facts.contexts[:, place]).tolist())

    def rank(item: tuple[int, str]) -> tuple[bool, bool, int, str]:
        number, token = item
        return (number not in usual, not token.casefold().startswith(prefix), len(token), token)

    found = [(i, t) for i, t in enumerate(memory.vocabulary) if t != PAD and prefix in t.casefold()]
    return [token for _, token in sorted(found, key=rank)[:12]]


def _ask(args: dict[str, Any], notice: Notice) -> dict[str, Any]:
    """The answers, and what the model did to find them."""
    from rote.analyse.inspect import digit_trace, look_at_heads, near_misses
    from rote.data import PAD
    from rote.memory import _as_exact

    memory, facts = _model(args)
    words = args["words"]
    answers = memory.ask(*words, top=args["top"])
    ids = memory.encode(words)
    exact = _as_exact(memory.model)
    heads = look_at_heads(memory, ids)
    trace = None
    if exact is not None:
        found = digit_trace(exact, ids)
        known = [memory.vocabulary[i] for i in exact.labels]
        trace = {**found.to_dict(), "variant": exact.variant, "precision": exact.precision}
        trace["steps"] = [
            {**step, "token": known[step["label"]] if step["label"] < len(known) else "–"} for step in trace["steps"]
        ]
    truth = None
    if facts is not None:
        import numpy as np

        rows = np.flatnonzero((facts.contexts == np.array(ids)).all(axis=1))
        truth = facts.vocabulary.tokens[facts.targets[rows[0]]] if len(rows) else None
    return {
        "context": [memory.vocabulary[i] for i in ids],
        "padding": sum(memory.vocabulary[i] == PAD for i in ids),
        "answers": [{"token": a.token, "probability": a.probability, "logit": a.logit} for a in answers],
        "exact": exact is not None,
        "facts_known": facts is not None,
        "truth": truth,
        "heads": None if heads is None else heads.to_dict(),
        "digits": trace,
        "near": [one.to_dict() for one in near_misses(memory, ids, facts)],
    }


TASKS: dict[str, Task] = {
    "warm": _warm,
    "bounds": _bounds,
    "columns": _columns,
    "check": _check,
    "build": _build,
    "about": _about,
    "complete": _complete,
    "ask": _ask,
    **run_tasks.TASKS,
}
