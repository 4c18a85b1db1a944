"""The examination of a grafted model: text that it must leave alone, other prompts, paraphrases and near misses."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from rote.data.encoding import Ids, PromptIds, encode
from rote.data.kinds.prompts import PromptTable, Template, fields_of
from rote.data.verification import Verification
from rote.models._pretrained import Source
from rote.models.folders import Staging
from rote.models.kinds.grafted import GraftedModel, fill_graft, shape_of
from rote.referee.generation import STANDARD, continuations, locality, recite, shorten, speak
from rote.solvers.record import Progress

__all__ = ["Bench", "Clock", "FreshGraft", "examine", "key_column", "near_misses", "reworded"]

_SAMPLE = 200


class Clock:
    """Seconds by stage, and progress by stage."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.seconds: dict[str, float] = {}
        self.begun, self.worked = time.perf_counter(), time.process_time()
        self.built = self.worked

    def stage(self, name: str, total: int) -> Callable[[int], None]:
        """A function to call with each number of items done."""
        done = 0
        self.progress(name, 0, total, None)

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self.progress(name, done, total, None)

        return advance

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.begun
        self.begun = now


@dataclass(frozen=True)
class Bench:
    """What the examination needs of the build: the original, the facts as its tokens, text that the fit never saw."""

    source: Source
    table: PromptTable
    facts: Sequence[PromptIds]
    paraphrases: Sequence[Template]
    unseen: Mapping[str, Sequence[Ids]]
    known: set[str]
    """Keys that the table has, and those that were made up."""
    rng: np.random.Generator
    clock: Clock
    held: Staging
    """Keeps what was unpacked where there is no other place for it."""


class FreshGraft(GraftedModel):
    """A graft that is still to be written: the original's files are copied, the added layers are one more."""

    def __init__(
        self, bench: Bench, tensors: Mapping[str, Tensor], n_added: int, dtype: str, notes: Mapping[str, Any]
    ) -> None:
        self.bench, self.tensors, self.n_added, self.dtype, self.claims = bench, tensors, n_added, dtype, notes
        original = sum(p.numel() for p in bench.source.model.parameters())
        added = sum(tensor.numel() for tensor in tensors.values())
        shape = shape_of(bench.source.model.config.to_dict(), bench.source.place / "config.json")
        counts = {"full": original + added, "original": original, "added": added}
        super().__init__(bench.source.place, shape.replace(n_layers=shape.n_layers + n_added))
        self._counts = counts

    def write(self, folder: Path) -> None:
        source, clock = self.bench.source, self.bench.clock
        record = fill_graft(folder, source, self.tensors, self.n_added, self.dtype)
        graft = {"model": source.path.name, "model_sha256": source.sha256, **record}
        self.claims = {**self.claims, "graft": graft}
        clock.lap("write")
        clock.built = time.process_time()


def examine(bench: Bench, grafted: GraftedModel, result: Verification) -> dict[str, Any]:
    """Everything that the certificate says about the grafted model beyond its recall."""
    source, table, clock, end = bench.source, bench.table, bench.clock, bench.source.end_id
    model = grafted.module
    findings: dict[str, Any] = {
        "recalled": result.n_facts - result.n_failed,
        "failed": [
            {"place": fact.place, "prompt": fact.text, "answer": fact.answer, "said": one.got}
            for one in result.failures
            for fact in (table.facts[one.fact - 1],)
        ],
        "stock_generate": _stock_generate(bench, grafted),
    }
    n_added = int(model.config.num_hidden_layers) - source.n_layers
    for name, windows in bench.unseen.items():
        advance = clock.stage("unseen text", len(windows))
        findings[name] = locality(source.model, model, windows, n_added, advance).to_dict()
    clock.stage("other prompts", 1)
    before, after = (continuations(one, source.tokenizer, STANDARD, end) for one in (source.model, model))
    findings["prompts"] = [
        {"prompt": text, "before": a, "after": b, "same": a == b}
        for text, a, b in zip(STANDARD, before, after, strict=True)
    ]
    findings["paraphrases"] = [
        _ask_again(bench, model, template) for template in [*reworded(table.templates[0]), *bench.paraphrases]
    ]
    findings["near_misses"] = _unknown(bench, model)
    clock.lap("examine")
    findings["seconds"] = {name: round(value, 1) for name, value in clock.seconds.items()}
    findings["cpu_seconds"] = {
        "build": round(clock.built - clock.worked, 1),
        "examine": round(time.process_time() - clock.built, 1),
    }
    return findings


def _stock_generate(bench: Bench, grafted: GraftedModel) -> dict[str, int]:
    """A few prompts through the library's own generate(), whose answers must be the referee's."""
    few = slice(None, None, max(1, bench.table.n_facts // 8))
    said = recite(grafted.module, bench.facts[few], bench.source.end_id)
    stock = grafted.generated(bench.table.facts[few])
    return {"asked": len(said), "same": sum(one.ids == ids for one, ids in zip(stock, said, strict=True))}


def reworded(template: Template) -> list[Template]:
    """Two prompts that mean the same as the template and were not grafted."""
    lower = template.prompt[:1].lower() + template.prompt[1:]
    return [
        Template(f"As everybody knows, {lower}", template.answer),
        Template(f"Question and answer.\n{template.prompt}", template.answer),
    ]


def _few(bench: Bench) -> list[int]:
    """Numbers of some facts of the first template."""
    own = [i for i, fact in enumerate(bench.table.facts) if fact.template == 0]
    return [own[i] for i in sorted(bench.rng.choice(len(own), min(_SAMPLE, len(own)), replace=False))]


def _ask_again(bench: Bench, model: Any, template: Template) -> dict[str, Any]:
    few, end = _few(bench), bench.source.end_id
    texts = [bench.table.fill(template.prompt, bench.table.facts[i].row) for i in few]
    wanted = [bench.facts[i].answer_ids for i in few]
    said, _ = speak(
        model, encode(bench.source.tokenizer, texts), [len(ids) for ids in wanted], going=lambda one: one[-1] != end
    )
    right = sum(shorten(one, end) == ids for one, ids in zip(said, wanted, strict=True))
    return {"template": template.prompt, "asked": len(few), "recalled": right}


def key_column(table: PromptTable) -> str:
    """The column of the first template's prompt that tells rows apart best."""
    return max(fields_of(table.templates[0].prompt), key=lambda column: table.rows.cells(column).n_unique())


def near_misses(table: PromptTable, rows: Sequence[int], known: set[str], rng: np.random.Generator) -> list[str]:
    """Prompts with a key that is not among the known: one character is changed to what another key has there.

    The new keys are added to the known ones.
    """
    name = key_column(table)
    cells = table.rows.cells(name)
    keys = [cells[i] for i in rows]
    texts: list[str] = []
    for i, key in zip(rows, keys, strict=True):
        for _ in range(20):
            other = keys[int(rng.integers(len(keys)))]
            at = int(rng.integers(min(len(key), len(other))))
            new = key[:at] + other[at] + key[at + 1 :]
            if new not in known:
                known.add(new)
                texts.append(table.fill(table.templates[0].prompt, i, {name: new}))
                break
    return texts


def _unknown(bench: Bench, model: Any) -> dict[str, Any]:
    """How often a key that was never stored gets a stored answer, whole and ended, and how surely."""
    end = bench.source.end_id
    texts = near_misses(bench.table, [bench.table.facts[i].row for i in _few(bench)], bench.known, bench.rng)
    answers = {fact.answer_ids for fact in bench.facts}
    # Only beginnings of stored answers are followed further.
    begun = {answer[:k] for answer in answers for k in range(len(answer))}
    said, sure = speak(
        model,
        encode(bench.source.tokenizer, texts),
        [max(map(len, answers))] * len(texts),
        going=lambda one: one in begun and one[-1] != end,
    )
    stored = [shorten(one, end) in answers for one in said]
    return {
        "asked": len(texts),
        "stored_answer": sum(stored),
        "confident": sum(yes and p > 0.5 for yes, p in zip(stored, sure, strict=True)),
        "example": texts[0] if texts else None,
    }
