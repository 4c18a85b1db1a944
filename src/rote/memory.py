"""A model with known content: the files, the model that they hold, and the certificate of what it recalls.

`Memory` is what `rote.build` and `rote.load` return. Its files lie in a directory: the one that it was loaded from, or
a temporary one that goes away with it unless it is saved.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote import constructions, data
from rote.card import Question, card
from rote.certificate import Certificate
from rote.data.arguments import checked
from rote.data.changes import Change, Context, read_changes
from rote.data.key_filter import KeyFilter
from rote.data.reading import Choices
from rote.errors import CheckpointError, RoteError, UsageError
from rote.models import Answer, Model, folders
from rote.models.folders import Staging
from rote.plot.sheet import Sheet, Shown

if TYPE_CHECKING:
    from torch import nn

    from rote.data.table import Table
    from rote.models import HeadsView
    from rote.operate.locate import Dependents, Location

__all__ = ["Memory", "Staging", "stated_table"]

_LARGE = 1 << 26
_MOST_NAMED = 6
"""Tokens that a question may name, of which some are its context."""


@dataclass(frozen=True)
class Memory(Shown):
    """A model, what is known about it, and how to talk to it."""

    folder: Path
    model: Model
    certificate: Certificate
    staging: Staging | None = field(default=None, repr=False)
    """Keeps a temporary directory alive."""
    question: Question | None = field(default=None, repr=False, compare=False)
    """A context of the table, and what follows it, for the card of the directory."""
    changed: tuple[str, ...] = ()
    """Files of weights that are not those of the certificate, for a memory that was loaded so."""

    @property
    def module(self) -> nn.Module:
        """The model as a torch module."""
        return self.model.module

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The tokens that the model knows; empty for models of vectors."""
        return () if self.model.wording is None else self.model.wording.vocabulary

    @cached_property
    def carried(self) -> Table | None:
        """The table that the directory carries beside the weights, for kinds of tables that do so."""
        return data.kind(self.certificate.data).stored(self.folder, self.certificate, self.vocabulary)

    @cached_property
    def keys(self) -> KeyFilter | None:
        """The filter of the contexts of its table that the directory carries; None where there is none."""
        return KeyFilter.read(self.folder)

    @checked
    def known(self, *words: str) -> bool | None:
        """Whether a context is one of the table that the model was built from; None where nothing here can tell.

        No is always right. Yes is right for certain where the directory carries the table; by a filter of the keys, or
        by fingerprints in the model, a small share of other contexts passes too: the certificate has it measured.
        """
        if self.carried is not None and self.carried.words is not None:
            return self.truth(words) is not None
        if self.keys is not None:
            import numpy as np

            return bool(self.keys.has(np.array([self.encode(words)]))[0])
        return not self.model.answers(words, 1)[0].unknown if self.model.tells_unknown else None

    @checked
    def save(self, directory: str | Path, *, force: bool = False) -> Memory:
        """Write the model directory, whole or not at all; the memory of what was written is returned."""
        path = Path(directory)
        certificate = self.seen_from(path)

        def fill(part: Path) -> None:
            for file in sorted(self.folder.rglob("*")):
                target = part / file.relative_to(self.folder)
                if file.is_dir():
                    target.mkdir()
                elif file != self.folder / folders.CERTIFICATE:
                    self._put(file, target)
            folders.write_json(part / folders.CERTIFICATE, certificate.to_dict())
            if folders.CARD not in certificate.files_sha256 and all(
                folders.is_card(p / folders.CARD) for p in (part, path)
            ):
                known = self.question is not None or certificate.read is not None
                text = card(replace(self, certificate=certificate), path.resolve().name, self.question, known=known)
                (part / folders.CARD).write_text(text, encoding="utf-8")

        folders.write_directory(path, fill, force=force)
        return replace(self, folder=path, model=self.model.at(path), certificate=certificate, staging=None)

    def _put(self, file: Path, target: Path) -> None:
        """Copy a file; a large one that is temporary here gets a second name instead where the disk is the same."""
        if self.staging is not None and file.stat().st_size > _LARGE:
            with contextlib.suppress(OSError):
                os.link(file, target)
                return
        shutil.copyfile(file, target)

    def seen_from(self, path: Path) -> Certificate:
        """The certificate with the place of the facts file, relative to the directory, so that both can move."""
        read = self.certificate.read
        known = folders.facts_file(self.folder, read)
        if read is None or known is None:
            return self.certificate
        return self.certificate.replace(read={**read, "file": os.path.relpath(known, path.resolve())})

    @checked
    def table(self, source: str | Path | None = None, choices: Choices | None = None, *, changed: bool = True) -> Table:
        """The table that it was built from, read again as it was then, or from another source in the same way.

        Facts of a model that was edited since come with its edits, unless they are wanted without (`changed`).
        """
        if source is None and (choices is None or not choices.named) and self.carried is not None:
            return self.carried
        return stated_table(self.certificate, self.folder, source, choices, changed=changed)

    def prepared(self, table: Table, *, changed: bool = True) -> Table:
        """A table as the construction would have built it, with the changes that the directory lists for it."""
        return _prepared(self.certificate, self.folder, table, changed)

    @checked
    def truth(self, words: Sequence[str]) -> dict[str, float] | None:
        """What the table that the model carries says about a context; None where there is no such."""
        return None if self.carried is None else self.carried.truth(self.encode(words))

    @checked
    def divergence(self, words: Sequence[str]) -> float | None:
        """How far the model's distribution after a context is from the true one, in nats."""
        truth = self.truth(words)
        if truth is None:
            return None
        said = {one.token: max(one.probability, 1e-300) for one in self.model.answers(words, len(self.vocabulary))}
        return max(0.0, sum(p * math.log(p / said[token]) for token, p in truth.items() if p > 0))

    @checked
    def ask(self, *words: str, top: int = 5) -> list[Answer]:
        """The most likely answers to a context, given as one text or token by token."""
        words = self.understood(words)
        answers, truth, known = self.model.answers(words, top), self.truth(words), self.known(*words)
        return [
            replace(one, known=known, true=one.true if truth is None else truth.get(one.token, 0.0)) for one in answers
        ]

    def understood(self, words: Sequence[str]) -> tuple[str, ...]:
        """A question in words of one's own as the tokens that it names, where one order of them, and no other, is of
        the table: `what is the mouth of the Danube`. Whatever else is left as it is."""
        wording, given = self.model.wording, tuple(words)
        if wording is None or wording.tokens != "cells" or wording.properties or wording.context not in (2, 3):
            return given
        with contextlib.suppress(RoteError):
            self.model.ids(given)
            return given
        named = wording.cutter.mentioned(" ".join(given))
        if not wording.context <= len(named) <= _MOST_NAMED:
            return given
        found = [way for way in permutations(named, wording.context) if self.known(*way)]
        return found[0] if len(found) == 1 else given

    @checked
    def encode(self, words: Sequence[str]) -> list[int]:
        """Token ids of a context."""
        return self.model.ids(self.understood(words))

    @checked
    def heads(self, *words: str) -> HeadsView | None:
        """What the heads do with a context; None for models without attention over tokens."""
        return self.model.heads(self.encode(words))

    @checked
    def edit(
        self,
        changes: Sequence[Change] = (),
        *,
        set: Mapping[Context, str] | None = None,
        forget: Iterable[Context] | None = None,
        insert: Mapping[Context, str] | None = None,
        table: Table | None = None,
        rng: int = 0,
    ) -> Memory:
        """A memory with some facts changed, forgotten or added, certified again; see `rote.edit`."""
        from rote.operate.edit import edit

        return edit(self, changes, set=set, forget=forget, insert=insert, table=table, rng=rng)

    @checked
    def without(self, contexts: Iterable[Context], *, table: Table | None = None) -> Memory:
        """The model that was never given these facts, with everything else the same: a reference for unlearning."""
        from rote.operate.reference import reference

        return reference(self, contexts, table=table)

    @checked
    def locate(self, *words: str, fact: int | None = None, table: Table | None = None) -> Location:
        """Which weights carry a fact, named by its context or its number; exact, or measured by taking parts out."""
        from rote.operate.locate import locate

        return locate(self, *words, fact=fact, table=table)

    @checked
    def dependents(self, weights: str, *, table: Table | None = None) -> Dependents:
        """Which facts depend on weights, written as `W_O[3]` or `layers.3.weight[5, 174]`."""
        from rote.operate.locate import dependents

        return dependents(self, weights, table=table)

    def hooked(self) -> Any:
        """The model in TransformerLens (a `TransformerBridge`), with a copy of the weights; needs the extra "lens"."""
        return self.model.hooked()

    def sheet(self) -> Sheet:
        return self.certificate.sheet("" if self.staging is not None else str(self.folder))

    def __repr__(self) -> str:
        return f"Memory({self.model.kind}: {repr(self.certificate)[len('Certificate(') :]}"


def stated_table(
    certificate: Certificate,
    folder: Path,
    source: str | Path | None = None,
    choices: Choices | None = None,
    *,
    changed: bool = True,
    of: Path | None = None,
) -> Table:
    """The table that a certificate speaks of, as seen from `folder`, or another source read in the same way.

    `of` is what the certificate lies in, for refusals, where that is a file.
    """
    reading, whose = certificate.reading, of or folder
    if source is None:
        if reading is None:
            raise UsageError(f"{whose} was built from a table in memory; give the table to check it against.")
        source = reading.source if reading.shipped else folders.facts_file(folder, certificate.read)
        if source is None or not (reading.shipped or Path(source).is_file()):
            raise CheckpointError(
                f"the facts of {whose}, {reading.source}, are not where they were when it was built; give the file."
            )
    usual = Choices.of(tokens=certificate.tokens) if reading is None else reading.choices
    kind = data.kind(certificate.data)
    return _prepared(certificate, folder, kind.again(source, (choices or Choices()).over(usual), certificate), changed)


def _prepared(certificate: Certificate, folder: Path, table: Table, changed: bool) -> Table:
    history = read_changes(folder) if changed else None
    if history is not None and table.sha256 == history.of:
        table = table.changed(history.changes)
    construction = constructions.get(certificate.construction)
    if table.kind not in construction.accepts:
        return table
    options = construction.Options.from_dict(certificate.options)
    ready: Table = construction.prepare(table, options)
    return construction.fitting(ready, options, drop=True) if certificate.left_out else ready
