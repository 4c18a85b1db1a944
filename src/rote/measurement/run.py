"""Running a group of cells that differ only in their seeds: plain dictionaries in, plain dictionaries out.

This is all that a worker does, on this machine or another. It writes nothing and knows no journal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from rote.data import FactTable, VectorTable, random_facts, random_vectors
from rote.errors import RoteError, UsageError
from rote.measurement.cell import Cell
from rote.measurement.search import largest
from rote.measurement.tries import Tries

__all__ = ["attempt", "draw", "run_group", "start_of"]

Note = Callable[[str], None]
Result = TypeVar("Result")
_START_BITS = 1.1
"""Bits a parameter at which the search for a trained capacity begins."""


def draw(cell: Cell, count: int) -> FactTable | VectorTable:
    """The first `count` of the facts that belong to a cell's seed; a longer table begins with the shorter one."""
    rng = np.random.default_rng([cell.seed, 0])
    if cell.vectors:
        whole = random_vectors(
            max(1024, 1 << (count - 1).bit_length()),
            cell.context,
            cell.d_model,
            rng=rng,
            sharing=cell.sharing,
            n_classes=None if cell.regression else cell.vocab,
        )
        contexts = whole.contexts if whole.shared else whole.contexts[:count]
        return VectorTable(contexts, whole.queries[:count], whole.targets[:count], whole.n_classes, whole.name)
    size = min(cell.most, max(4096, 1 << (count - 1).bit_length()))
    table = random_facts(size, cell.context, cell.vocab, rng=rng)
    name = f"random-{count}x{cell.context}-of-{cell.vocab}"
    return FactTable(table.contexts[:count], table.targets[:count], table.vocabulary, None, name)


def run_group(
    records: Sequence[Mapping[str, Any]],
    *,
    max_memory: int | None = None,
    device: str = "cpu",
    note: Note | None = None,
    tries: Tries | None = None,
) -> list[dict[str, Any]]:
    """Results of cells that differ only in their seeds, in order; a failure is a result with its reason.

    A search for a capacity makes use of `tries` of an earlier one, and keeps its own there.
    """
    before = time.process_time()
    results, reason = attempt(lambda: _run(records, max_memory, device, note or (lambda _: None), tries or Tries()))
    spent = (time.process_time() - before) / max(1, len(records))
    lost = {"status": "failed", "reason": reason}
    return [{**item, "duration": spent} for item in results or [lost for _ in records]]


def attempt(work: Callable[[], Result]) -> tuple[Result | None, str]:
    """What the work of one cell gives, or why it gives nothing: whatever goes wrong is its result, and others go on.

    On one thread, so that sums are taken in the same order whoever runs it.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return work(), ""
    except RoteError as error:
        return None, str(error)
    except MemoryError:
        return None, "not enough memory"
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        torch.set_num_threads(threads)


def _run(
    records: Sequence[Mapping[str, Any]], max_memory: int | None, device: str, note: Note, tries: Tries
) -> list[dict[str, Any]]:
    cells = [Cell.from_dict(record) for record in records]
    if len({cell.group for cell in cells}) != 1:
        raise UsageError("cells of one group may differ only in their seeds.")
    if cells[0].by != "train":
        return [_built(cell, note, tries) for cell in cells]
    if cells[0].task == "recall":
        return _recall(cells, max_memory, device, note)
    return _capacity(cells, max_memory, device, note, tries)


def _recall(cells: Sequence[Cell], max_memory: int | None, device: str, note: Note) -> list[dict[str, Any]]:
    from rote.training import train

    cell, recipe = cells[0], cells[0].training()
    count = cell.n_facts or cell.most
    tables: Any = [draw(one, count) for one in cells]
    note(f"{count:,} facts, {len(cells)} seeds, {recipe.n_steps(count):,} steps of {recipe.name}")
    outcomes = train(
        cell.spec,
        tables,
        recipe,
        [one.seed for one in cells],
        device=device,
        max_memory=max_memory,
        needed=cell.recall,
    )
    return [
        {
            "status": outcome.status,
            "reason": outcome.reason,
            "n_facts": outcome.n_facts,
            "recalled": outcome.recalled,
            "share": outcome.share,
            "published": outcome.published,
            "loss": outcome.loss if math.isfinite(outcome.loss) else None,
            "steps": outcome.steps,
            "trained_by": recipe.name,
            "params": cell.spec.params,
        }
        for outcome in outcomes
    ]


def start_of(cell: Cell) -> int:
    """Where a search begins: at the theorem's number for a construction, at a guess for training."""
    if cell.by == "train":
        bits = 4.0 if cell.regression else cell.bits_per_fact
        if cell.vectors:
            return max(1, cell.n_heads * (min(cell.context, cell.arch.d_head) - 1) + 1)
        return max(1, int(_START_BITS * cell.spec.params / bits))
    from rote import theorems

    shared = cell.vectors and cell.sharing == 1
    bound = theorems.get(cell.by).bound(theorems.Setting(cell.arch, shared_context=shared))
    return bound.facts or max(1, cell.n_heads * cell.arch.d_head + cell.d_model)


def _capacity(
    cells: Sequence[Cell], max_memory: int | None, device: str, note: Note, tries: Tries
) -> list[dict[str, Any]]:
    from rote.training import train

    cell, recipe = cells[0], cells[0].training()
    by_seed = {one.seed: one for one in cells}
    diverged: dict[int, int] = dict.fromkeys(by_seed, 0)
    reasons: dict[int, str] = dict.fromkeys(by_seed, "")
    held: dict[int, int] = {}
    failed: dict[int, int] = {}

    def ask(counts: Mapping[int, int]) -> dict[int, bool]:
        found = {seed: tries.get(by_seed[seed], count) for seed, count in counts.items()}
        seeds = [seed for seed, one in found.items() if one is None]
        tables: Any = [draw(by_seed[seed], counts[seed]) for seed in seeds]
        outcomes = (
            train(cell.spec, tables, recipe, seeds, device=device, max_memory=max_memory, needed=cell.recall)
            if seeds
            else []
        )
        for seed, outcome in zip(seeds, outcomes, strict=True):
            good = outcome.recalled >= math.ceil(cell.recall * counts[seed] - 1e-9)
            lost = outcome.status == "diverged" and not good
            found[seed] = {
                "good": good, "share": outcome.share, "diverged": lost, "reason": outcome.reason if lost else ""
            }  # fmt: skip
        tries.put({(by_seed[seed], counts[seed]): found[seed] or {} for seed in seeds})
        answers = {seed: bool(one and one["good"]) for seed, one in found.items()}
        for seed, one in found.items():
            if one is not None and one["diverged"]:
                diverged[seed] += 1
                reasons[seed] = str(one["reason"])
        span = _span(counts)
        for seed, good in answers.items():
            (held if good else failed)[seed] = counts[seed]
        note(
            f"{span} facts: {sum(answers.values())} of {len(answers)} seeds recall them; at least "
            f"{_span(held)}, fewer than {_span(failed)}"
        )
        return answers

    brackets = largest(list(by_seed), ask, start=start_of(cell), most=cell.most, tolerance=cell.tolerance)
    results = []
    for one in cells:
        bracket = brackets[one.seed]
        nothing = bracket.low == 0 and diverged[one.seed] == bracket.tries
        results.append(
            {
                "status": "diverged" if nothing else "done",
                "reason": reasons[one.seed] if nothing else "",
                "capacity": bracket.low,
                "failed_at": bracket.high,
                "tries": bracket.tries,
                "diverged_tries": diverged[one.seed],
                "trained_by": recipe.name,
                "params": cell.spec.params,
            }
        )
    return results


def _span(counts: Mapping[int, int]) -> str:
    """Numbers of facts by seed, in words."""
    if not counts:
        return "?"
    low, high = min(counts.values()), max(counts.values())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _built(cell: Cell, note: Note, tries: Tries) -> dict[str, Any]:
    """Capacity or recall by closed form; `build` is the best construction of all."""
    from rote.constructions import measurable

    if cell.by == "build":
        names = list(measurable("vectors" if cell.vectors else "facts"))
        tried = [_built(cell.replace(by=name), note, tries) for name in names]
        done = [item for item in tried if item["status"] == "done"]
        if not done:
            why = "; ".join(f"{name}: {item['reason']}" for name, item in zip(names, tried, strict=True))
            return {"status": "failed", "reason": why}
        key = "capacity" if cell.task == "capacity" else "share"
        return max(done, key=lambda item: item[key])
    if cell.task == "recall":
        return _built_once(cell, cell.n_facts or cell.most)
    last: dict[str, Any] = {}
    kept: dict[str, Any] = {}

    def ask(counts: Mapping[int, int]) -> dict[int, bool]:
        count = counts[cell.seed]
        item = tries.get(cell, count)
        if item is None:
            made = _built_once(cell, count)
            good = made["status"] == "done" and made["recalled"] >= math.ceil(cell.recall * count - 1e-9)
            item = {"good": good, "share": made.get("share"), "reason": made["reason"], "params": made.get("params")}
            tries.put({(cell, count): item})
        good = bool(item["good"])
        note(f"{cell.by}: {count:,} facts {'recalled' if good else 'not recalled'}")
        last.update(item)
        if good:
            kept.clear()
            kept.update(item)
        return {cell.seed: good}

    bracket = largest([cell.seed], ask, start=start_of(cell), most=cell.most, tolerance=cell.tolerance)[cell.seed]
    if bracket.low == 0:
        return {"status": "failed", "reason": last.get("reason") or "not even one fact is recalled"}
    return {
        "status": "done",
        "reason": "",
        "capacity": bracket.low,
        "failed_at": bracket.high,
        "tries": bracket.tries,
        "params": kept["params"],
        "trained_by": cell.by,
    }


def _built_once(cell: Cell, count: int) -> dict[str, Any]:
    from rote import constructions
    from rote.pipeline import build_at

    arch = cell.arch.replace(gated=True) if cell.d_mlp else cell.arch
    try:
        memory = build_at(constructions.get(cell.by), draw(cell, count), arch, dtype=cell.dtype, rng=cell.seed)
    except (RoteError, np.linalg.LinAlgError) as error:
        return {"status": "failed", "reason": str(error), "recalled": 0}
    share = memory.certificate.recall[cell.dtype]
    return {
        "status": "done",
        "reason": "",
        "n_facts": count,
        "recalled": round(share * count),
        "share": share,
        "published": share,
        "params": memory.certificate.params,
        "trained_by": cell.by,
    }
