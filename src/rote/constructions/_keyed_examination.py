"""The examination of a graft that knows its keys: what it says where it should, and where it should not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rote.constructions._clock import Clock
from rote.constructions._gating import filled
from rote.constructions._questions import UNSEEN_MENTIONS, UNSEEN_OTHER
from rote.constructions._wordings import Wording, spliced
from rote.data.chat import Chat, speaker
from rote.data.encoding import Ids, PromptIds, encode, encode_prompts
from rote.data.kinds.prompts import PromptTable
from rote.data.stock import load_model
from rote.data.verification import Verification
from rote.models._graft_record import write_record
from rote.models._pretrained import FORMATS, Source
from rote.models._widening import fill_widened, shape_of
from rote.models.folders import Staging
from rote.models.kinds.grafted import GraftedModel
from rote.referee.generation import STANDARD, compared, continuations, recite, shorten, speak
from rote.solvers.keyed.design import Design
from rote.solvers.keyed.network import Network

__all__ = ["FreshWidened", "KeyBench", "examine"]

_TOKENS = 4
_ROWS = 16
"""How many times more keys are asked for where every row has a prompt of its own."""


@dataclass(frozen=True)
class KeyBench:
    """What the examination needs of the build."""

    source: Source
    table: PromptTable
    facts: Sequence[PromptIds]
    keys: Sequence[str]
    rows: Sequence[int]
    """The first row of every key."""
    answer_ids: Sequence[Sequence[Ids]]
    """Of every relation and key."""
    wordings: Sequence[tuple[Wording, int, bool]]
    """Each with the number of its relation, and whether it was fitted."""
    others: Sequence[Wording]
    """Other questions that the user gave."""
    text: Sequence[Ids]
    sample: int
    rng: np.random.Generator
    clock: Clock
    held: Staging
    lower: Sequence[PromptTable] = ()
    """What grafts below this one hold."""
    chat: Chat | None = None

    @property
    def speaker(self) -> Any:
        """The tokenizer for questions."""
        return speaker(self.source.tokenizer, self.chat)


class FreshWidened(GraftedModel):
    """A graft that is still to be written."""

    def __init__(
        self,
        bench: KeyBench,
        design: Design,
        network: Network,
        carried: PromptTable,
        dtype: str,
        notes: dict[str, Any],
    ) -> None:
        self.bench, self.design, self.network, self.carried, self.dtype = bench, design, network, carried, dtype
        self.claims, body = notes, design.body
        shape = shape_of(bench.source.model.config.to_dict(), bench.source.place / "config.json")
        added = len(network.bottom) + len(network.top)
        super().__init__(
            bench.source.place,
            shape.replace(
                n_layers=shape.n_layers + added, d_model=network.channels.width, d_mlp=network.inner, d_head=body.head
            ),
            chat=bench.chat is not None,
        )

    @property
    def counts(self) -> dict[str, int]:
        return GraftedModel(self.written, self.arch).counts

    def write(self, folder: Path) -> None:
        source, clock = self.bench.source, self.bench.clock
        record = fill_widened(folder, source, self.design, self.network, self.dtype)
        write_record(folder, self.design, self.carried)
        self.written = folder
        self.claims = {
            **self.claims,
            "graft": {"model": source.path.name, "model_sha256": source.sha256, **record},
        }
        clock.lap("write")
        clock.built = time.process_time()

    def examined(self, folder: Path, result: Verification, dtype: str) -> dict[str, Any]:
        model = self.at(folder)
        findings = examine(self.bench, model, result, dtype)
        if self.bench.lower:
            findings["lower"] = [lower_recall(self.bench, one, model.module) for one in self.bench.lower]
        return findings


def examine(bench: KeyBench, model: GraftedModel, result: Verification, dtype: str) -> dict[str, Any]:
    """Everything that the certificate says beyond the recall of all facts on the first wording."""
    clock, rng = bench.clock, bench.rng
    grafted, original = model.module, bench.source.model
    findings: dict[str, Any] = {
        "recalled": result.n_facts - result.n_failed,
        "failed": [
            {"place": fact.place, "prompt": fact.text, "answer": fact.answer, "said": one.got}
            for one in result.failures
            for fact in (bench.table.facts[one.fact - 1],)
        ],
    }
    advance = clock.stage("wordings", len(bench.wordings))
    findings["wordings"] = []
    for wording, relation, fitted in bench.wordings:
        some = _some(bench, 1 if wording.fixed else _ROWS)
        wanted = [bench.answer_ids[relation][i] for i in some]
        right = _recalled(bench, grafted, [wording.at(bench.rows[i]) for i in some], wanted)
        findings["wordings"].append({"wording": wording.text, "fitted": fitted, "asked": len(some), "recalled": right})
        advance(1)
    findings["behind_a_fact"] = _behind_a_fact(bench, grafted)
    advance = clock.stage("what must not change", 6)
    findings["unchanged"] = []
    for name, prompts in _others(bench):
        before, after = (speak(one, encode(bench.speaker, prompts), [_TOKENS] * len(prompts))[0]
                         for one in (original, grafted))  # fmt: skip
        changed = [p for p, a, b in zip(prompts, before, after, strict=True) if a != b]
        findings["unchanged"].append(
            {"what": name, "asked": len(prompts), "changed": len(changed), "example": next(iter(changed), None)}
        )
        advance(1)
    mentions = [filled(one, bench.keys, rng) for one in UNSEEN_MENTIONS for _ in range(8)]
    mentions += [spliced(bench.source.tokenizer.decode(list(ids)), bench.keys, rng) for ids in bench.text[:6]]
    for name, windows in (("locality", bench.text), ("mentions", encode(bench.speaker, mentions))):
        findings[name] = compared(original, grafted, windows, clock.stage("unseen text", len(windows))).to_dict()
    end = bench.source.end_id
    said, says = (continuations(one, bench.speaker, STANDARD, end) for one in (original, grafted))
    findings["prompts"] = [
        {"prompt": text, "before": a, "after": b, "same": a == b}
        for text, a, b in zip(STANDARD, said, says, strict=True)
    ]
    findings["formats"] = {
        name: {"asked": asked, "recalled": right}
        for name in FORMATS
        if name != dtype
        for asked, right in [_in_format(bench, model.folder, name)]
    }
    clock.lap("examine")
    findings["seconds"] = {name: round(value, 1) for name, value in clock.seconds.items()}
    findings["cpu_seconds"] = {
        "build": round(clock.built - clock.worked, 1),
        "examine": round(time.process_time() - clock.built, 1),
    }
    return findings


def lower_recall(bench: KeyBench, table: PromptTable, grafted: Any) -> dict[str, Any]:
    """How many of some facts of a graft below are said in full, before and after."""
    source = bench.source
    some = bench.rng.choice(len(table.facts), min(bench.sample, len(table.facts)), replace=False)
    facts = encode_prompts(
        [table.facts[int(i)] for i in some], source.tokenizer, end_id=source.end_id, context=source.context
    )
    said = [recite(one, facts, source.end_id) for one in (source.model, grafted)]
    right = [sum(ids == fact.answer_ids for ids, fact in zip(all_, facts, strict=True)) for all_ in said]
    return {"facts": table.name, "of": table.n_facts, "asked": len(facts), "before": right[0], "recalled": right[1]}


def _some(bench: KeyBench, times: int = 1) -> list[int]:
    count = min(times * bench.sample, len(bench.keys))
    return [int(i) for i in bench.rng.choice(len(bench.keys), count, replace=False)]


def _recalled(bench: KeyBench, model: Any, prompts: Sequence[str], wanted: Sequence[Ids]) -> int:
    end = bench.source.end_id
    said, _ = speak(
        model, encode(bench.speaker, prompts), [len(ids) for ids in wanted], going=lambda one: one[-1] != end
    )
    return sum(shorten(one, end) == ids for one, ids in zip(said, wanted, strict=True))


def _behind_a_fact(bench: KeyBench, grafted: Any) -> dict[str, int]:
    """Facts asked for in the first wording, right behind another one with its answer."""
    first, answer, some = bench.wordings[0][0], bench.table.templates[0].answer, _some(bench)
    said = [first.at(bench.rows[i]) + bench.table.fill(answer, bench.rows[i]) for i in some[1:]]
    prompts = [f"{one}. {first.at(bench.rows[i])}" for one, i in zip(said, some, strict=False)]
    right = _recalled(bench, grafted, prompts, [bench.answer_ids[0][i] for i in some[:-1]])
    return {"asked": len(prompts), "recalled": right}


def _others(bench: KeyBench) -> list[tuple[str, list[str]]]:
    """Prompts that must go on as before, by what they are."""
    rng, known = bench.rng, {key.casefold() for key in bench.keys}
    first, some = bench.wordings[0][0], _some(bench)

    def ask(key: str) -> str:
        return first.at(bench.rows[some[0]], key)

    letters = sorted({c for key in bench.keys for c in key if not c.isspace()})

    def fresh(texts: list[str]) -> list[str]:
        return [text for text in texts if text and text.casefold() not in known]

    def one_changed(key: str) -> str:
        at = int(rng.integers(len(key)))
        return key[:at] + letters[int(rng.integers(len(letters)))] + key[at + 1 :]

    near = fresh([one_changed(bench.keys[i]) for i in some])
    made = fresh(["".join(rng.choice(letters, max(3, len(bench.keys[i])))) for i in some])
    parts = fresh(
        [bench.keys[i][:-1] if k % 2 else bench.keys[i] + letters[k % len(letters)] for k, i in enumerate(some)]
    )
    after = [f"{bench.keys[i]} was named first. {ask(key)}" for i, key in zip(some, near, strict=False)]
    few = max(1, bench.sample // 8)
    others = [filled(one, bench.keys, rng) for one in UNSEEN_OTHER for _ in range(few)]
    given = [one.at(bench.rows[i]) for one in bench.others for i in _some(bench)[:few]]
    return [
        ("unknown keys, one character changed", [ask(key) for key in near]),
        ("unknown keys, random characters", [ask(key) for key in made]),
        ("unknown keys, a stored key with a character more or less", [ask(key) for key in parts]),
        ("unknown keys behind a stored one", after),
        ("other questions about stored keys", others),
        *([("other questions that were given", given)] if given else []),
    ]


def _in_format(bench: KeyBench, folder: Path, name: str) -> tuple[int, int]:
    """Some facts on the first wording in another number format."""
    few = [int(i) for i in bench.rng.choice(len(bench.facts), min(bench.sample, len(bench.facts)), replace=False)]
    facts = [bench.facts[i] for i in few]
    said = recite(load_model(folder, getattr(torch, name)), facts, bench.source.end_id)
    return len(facts), sum(ids == fact.answer_ids for ids, fact in zip(said, facts, strict=True))
