"""A graft with other facts than before: written from the files of the one before, and what could have changed is asked.

What is asked again: every new or changed fact in all of its wordings, some of the others, keys that are gone, and near
misses of the new ones. Of all keys in groups that were solved again, it is read off the stream above the store, where
the answer's number stands in signs, whether it is still theirs: nothing else of them can have changed. The answers
before are those of the same files without their added layers, which is the original but for rounding.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rote.constructions._keyed_changes import Changed
from rote.data.encoding import Ids, batches, encode
from rote.data.kinds.prompts import PromptTable
from rote.data.rows import RawRows
from rote.data.verification import Verification
from rote.models._graft_record import write_record
from rote.models._rewidening import refill_widened
from rote.models.kinds.grafted import GraftedModel
from rote.solvers.keyed.frame import channels_of
from rote.solvers.keyed.network import Network

__all__ = ["ChangedWidened", "some_rows"]

_TOKENS = 4
_AT_ONCE = 2048
"""Tokens of a batch."""
_OTHERS = 4
_NEAR = 4
_HALF = 0.4
"""From how much on a key that is on no level counts as wrong, in the stream."""
OF_THE_BUILD = ("wordings", "behind_a_fact", "unchanged", "locality", "mentions", "prompts", "formats", "gate")
"""What is measured when a graft is built, and not again when single facts of it change."""


def some_rows(table: PromptTable, rows: Sequence[int]) -> PromptTable:
    """The table with some of its rows only, all of which are in use."""
    return PromptTable(RawRows(table.rows.frame[list(rows)], table.rows.source), table.templates, name=table.name)


@dataclass(frozen=True)
class Asked:
    """Which keys of the changed table are looked at, by number, and which were there before and are gone."""

    new: Sequence[int]
    affected: Sequence[int]
    others: Sequence[int]
    gone: Sequence[str]

    @property
    def again(self) -> list[int]:
        return sorted({*self.new, *self.affected, *self.others})


class ChangedWidened(GraftedModel):
    """A graft that is still to be written."""

    def __init__(
        self,
        folder: Path,
        table: PromptTable,
        changed: Changed,
        network: Network,
        claims: Mapping[str, Any],
        new: Sequence[int],
        gone: Sequence[str],
        counts: Mapping[str, int],
        rng: np.random.Generator,
        *,
        chat: bool,
        linked: bool,
        hashes: Mapping[str, str],
    ) -> None:
        before = GraftedModel.read(folder, {})
        layers = int(claims["graft"]["layers"]["original"]) + len(network.bottom) + len(network.top)
        super().__init__(folder, before.arch.replace(n_layers=layers), chat=chat)
        self.table, self.changed, self.network, self.rng, self.linked = table, changed, network, rng, linked
        self.claims, self.hashes = dict(claims), hashes
        self.done, self.began = dict(counts), time.process_time()
        self._heard: GraftedModel | None = None
        left = np.setdiff1d(np.arange(len(changed.keys)), [*new, *changed.affected])
        others = rng.choice(left, min(_OTHERS, len(left)), replace=False).tolist()
        near = np.setdiff1d(changed.affected, new)
        near = rng.choice(near, min(_OTHERS, len(near)), replace=False)
        self.asked = Asked(new, sorted(near.tolist()), sorted(others), gone)

    @cached_property
    def _counts(self) -> dict[str, int]:
        return GraftedModel(self.written, self.arch).counts

    @property
    def known_hashes(self) -> Mapping[str, str]:
        """Those of files that are the same as before, under a second name."""
        there = {name: self.written / name for name in self.hashes if (self.written / name).exists()}
        return {name: self.hashes[name] for name, path in there.items() if path.samefile(self.folder / name)}

    def write(self, folder: Path) -> None:
        design = self.changed.design
        record = refill_widened(folder, self.folder, design, self.network, self.claims["graft"], linked=self.linked)
        write_record(folder, design, self.table)
        self.written = folder
        self.claims = {**self.claims, "graft": record}

    def hear(self, outputs: Any) -> None:
        """Go on with what the referee has read from the files that were written."""
        self._heard = self.at(self.written)
        vars(self._heard).update(module=outputs.model, tokenizer=outputs.tokenizer)

    def asked_table(self) -> PromptTable:
        """The facts that are asked again in their first wording."""
        lost = {one["prompt"] for one in self.claims["failed"]}
        rows = [self.changed.rows[i] for i in self.asked.again]
        some = some_rows(self.table, rows)
        new = {self.changed.rows[i] for i in self.asked.new}
        bad = {rows[fact.row] for fact in some.facts if fact.text in lost} - new
        return some_rows(self.table, [row for row in rows if row not in bad])

    @property
    def lost_before(self) -> int:
        """Facts that were lost at the build and are still there."""
        there = {(fact.text, fact.answer) for fact in self.table.facts}
        gone = sum((one["prompt"], one["answer"]) not in there for one in self.claims["failed"])
        return int(self.claims["facts"]) - int(self.claims["recalled"]) - gone

    def examined(self, folder: Path, result: Verification, dtype: str) -> dict[str, Any]:
        """What a certificate says of the change, and of what was found at the build."""
        model, changed, asked = self._heard or self.at(folder), self.changed, self.asked
        wordings = [(one, r) for r, some in enumerate(changed.relations) for one in some.wordings]
        design, each = changed.design, [(one, r, i) for one, r in wordings for i in asked.new]
        first = wordings[0][0]
        new = [one.at(changed.rows[i]) for one, _, i in each]
        gone = [one.at(changed.rows[0], key) for one, _ in wordings for key in asked.gone]
        near = [first.at(changed.rows[0], key) for key in self._near()]
        prompts = encode(model.speaker, [*new, *gone, *near])
        wanted = [design.answers[r][int(design.numbers[r, i])] for _, r, i in each]
        with model.original():
            wanted += _goes_on(model.module, prompts[len(new) :])
        said = _says(model.module, prompts, wanted)
        recalled, tried = sum(said[: len(new)]), len(new)
        behind = len(new) + len(gone)
        moved = [said[len(new) : behind].count(False), said[behind:].count(False)]
        wrong = self._misread(model)
        keys = ("new_in_all_wordings", "gone", "near_misses")
        counted = ((recalled, tried), *((m, len(p)) for m, p in zip(moved, (gone, near), strict=True)))
        names = ("recalled", "changed", "changed")
        found = {
            key: {"asked": asked_, name: count} for key, name, (count, asked_) in zip(keys, names, counted, strict=True)
        }
        record = {
            **self.done,
            "groups_solved": len(changed.solved),
            "tokens_with_new_codes": len(changed.recoded),
            "asked_again": {
                "facts": len(asked.again),
                "of_changed_groups": len(asked.affected),
                "others": len(asked.others),
                "lost": result.n_failed - self.lost_before,
            },
            "numbers_read": {"keys": len(changed.affected), "wrong": wrong},
            **found,
            "measured_at_the_build": [name for name in OF_THE_BUILD if name in self.claims],
            "processor_seconds": round(time.process_time() - self.began, 1),
        }
        history = [*self.claims.get("changes", []), record]
        return {
            "recalled": result.n_facts - result.n_failed,
            "changes": history,
        }

    def _near(self) -> list[str]:
        """Keys that differ from new or gone ones, or from some others, by one character."""
        keys, rng = self.changed.keys, self.rng
        known = {key.casefold() for key in (*keys, *self.asked.gone)}
        letters = sorted({c for key in keys for c in key if not c.isspace()})
        from_ = [keys[i] for i in self.asked.new] + list(self.asked.gone)
        from_ = (from_ * _NEAR)[:_NEAR] if from_ else [keys[int(rng.integers(len(keys)))] for _ in range(_NEAR)]
        made = []
        for key in from_:
            at = int(rng.integers(len(key)))
            made.append(key[:at] + letters[int(rng.integers(len(letters)))] + key[at + 1 :])
        return [key for key in dict.fromkeys(made) if key.casefold() not in known]

    @torch.no_grad()
    def _misread(self, model: GraftedModel) -> int:
        """Keys in groups that were solved again whose number does not stand in the stream above the store."""
        design, changed = self.changed.design, self.changed
        channels, _ = channels_of(design.body, design.book.bits, design.plan)
        first = changed.relations[0].wordings[0]
        prompts = encode(model.speaker, [first.at(changed.rows[i]) for i in changed.affected])
        inner, wrong = model.module.model, 0
        every, norm = inner.layers, inner.norm
        inner.layers, inner.norm = every[: len(self.network.bottom)], torch.nn.Identity()
        try:
            for batch in batches(prompts, [len(ids) for ids in prompts]):
                ids = torch.tensor([prompts[i] for i in batch])
                stream = inner(input_ids=ids, use_cache=False).last_hidden_state[:, -1].double()
                stream = stream / float(self.network.small * self.network.usual)
                said = (stream[:, channels["answer"]] > 0).numpy()
                missed = (stream[:, channels.at("wrong")] > _HALF).numpy()
                for k, i in enumerate(batch):
                    key, at, same = changed.affected[i], 0, not missed[k]
                    for number, bits in zip(design.numbers[:, key], design.plan.bits, strict=True):
                        same &= bool((said[k, at : at + bits] == (int(number) >> np.arange(bits) & 1)).all())
                        at += bits
                    wrong += not same
        finally:
            inner.layers, inner.norm = every, norm
        return wrong


@torch.no_grad()
def _says(model: Any, prompts: Sequence[Ids], wanted: Sequence[Ids]) -> list[bool]:
    """Whether the model, going on greedily from each prompt, says just what is wanted there.

    It does if each token of that is the likeliest behind those before it, so one pass tells.
    """
    right = [False] * len(prompts)
    rows = [(*p, *w) for p, w in zip(prompts, wanted, strict=True)]
    for batch in _alike(rows):
        # What stands behind a row does not count in it: no token is seen by those before it.
        longest = max(len(rows[i]) for i in batch)
        ids = torch.tensor([rows[i] + (0,) * (longest - len(rows[i])) for i in batch])
        states = model.model(input_ids=ids, use_cache=False).last_hidden_state
        places = [range(len(prompts[i]) - 1, len(rows[i]) - 1) for i in batch]
        told = model.lm_head(torch.cat([states[k, list(some)] for k, some in enumerate(places)])).argmax(-1)
        for i, part in zip(batch, told.split([len(some) for some in places]), strict=True):
            right[i] = tuple(part.tolist()) == tuple(wanted[i])
    return right


@torch.no_grad()
def _goes_on(model: Any, prompts: Sequence[Ids]) -> list[Ids]:
    """Some tokens that the model says greedily to each prompt; shorter prompts of a batch are padded at the front."""
    said: list[Ids] = [()] * len(prompts)
    for batch in _alike(prompts):
        longest = max(len(prompts[i]) for i in batch)
        ids = torch.tensor([(0,) * (longest - len(prompts[i])) + prompts[i] for i in batch])
        seen = torch.tensor([[longest - at <= len(prompts[i]) for at in range(longest)] for i in batch]).long()
        places, past = (seen.cumsum(1) - 1).clamp(min=0), None
        for _ in range(_TOKENS):
            out = model.model(
                input_ids=ids, attention_mask=seen, position_ids=places, past_key_values=past, use_cache=True
            )
            past, ids = out.past_key_values, model.lm_head(out.last_hidden_state[:, -1].contiguous()).argmax(1)[:, None]
            seen, places = torch.cat([seen, torch.ones_like(ids)], 1), places[:, -1:] + 1
            for i, token in zip(batch, ids[:, 0].tolist(), strict=True):
                said[i] += (token,)
    return said


def _alike(rows: Sequence[Ids]) -> Iterator[list[int]]:
    """Numbers of rows in batches, the shortest first."""
    batch: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: len(rows[i])):
        if batch and (len(batch) + 1) * len(rows[i]) > _AT_ONCE:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
