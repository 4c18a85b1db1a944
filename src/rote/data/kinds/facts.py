"""Token facts: the frozen `FactTable`.

Notation: T = n_facts, S = context, N = vocab. A fact is (context tokens -> target token).
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from rote.data._arrays import FloatArray, IntArray, amounts, check_ids, freeze, integers, padded, reworded
from rote.data._changed import applied
from rote.data.changes import Change, History, changes_file
from rote.data.conflicts import conflict_error, n_repeats, resolve
from rote.data.files import check_cells, write_frame
from rote.data.holes import settle
from rote.data.left_out import LeftOut, left_out_file
from rote.data.reading import Choices, OnConflict, Reading, check_on_conflict
from rote.data.roles import Roles
from rote.data.rows import Places
from rote.data.source import Source
from rote.data.token_table import TokenTable
from rote.data.tokenise import encode
from rote.data.vocabulary import PAD, Vocabulary
from rote.errors import ConflictError, DataError, UsageError

__all__ = ["FactTable", "write_facts"]


@dataclass(frozen=True, eq=False, repr=False)
class FactTable(TokenTable):
    """T facts with distinct contexts of S tokens each, one target token, and perhaps a weight.

    Contexts are distinct by construction: repeats and contradictions are refused here, and settled by
    `FactTable.from_rows` and `rote.read`. The arrays are read-only copies. `<pad>` may stand only at the left of a
    context, never fills one, and is never a target.
    """

    contexts: IntArray
    targets: IntArray
    vocabulary: Vocabulary
    weights: FloatArray | None = None
    name: str = "facts"
    reading: Reading | None = None
    places: Places | None = None
    """Where each fact stands in the file; None for facts that were not read from one."""
    left_out: tuple[LeftOut, ...] = ()
    """Facts of the file that a construction cannot hold."""
    history: History | None = None
    """What was changed since it was read or made."""

    kind: ClassVar[str] = "facts"

    def __post_init__(self) -> None:
        contexts = integers(self.contexts, "contexts", 2)
        targets = integers(self.targets, "targets", 1)
        if len(contexts) != len(targets):
            raise DataError(f"every context needs one target: {len(contexts)} contexts and {len(targets)} targets.")
        if len(contexts) == 0:
            raise DataError("a table needs at least one fact, got none.")
        if contexts.shape[1] == 0:
            raise DataError("a context needs at least one token, got contexts of length 0.")
        check_ids(contexts, "contexts", self.vocabulary, "fact")
        check_ids(targets, "targets", self.vocabulary, "fact")
        weights = None if self.weights is None else amounts(self.weights, "weights", targets.shape, "fact")
        freeze(self, contexts=contexts, targets=targets, weights=weights)
        self._check_pad()
        if n_repeats(contexts, len(self.vocabulary)):
            self._refuse_repeats()

    def _check_pad(self) -> None:
        pad = self.vocabulary.pad_id
        if pad is None:
            return
        is_pad = self.contexts == pad
        wrong = is_pad[:, -1] | (is_pad[:, 1:] & ~is_pad[:, :-1]).any(axis=1) | (self.targets == pad)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"{PAD} is reserved for the left of short contexts, but fact {row + 1} has it elsewhere: "
                f"{self.fact_text(row)}; rename that token."
            )

    def _refuse_repeats(self) -> None:
        resolution = resolve(self.contexts, self.targets, self.weights, len(self.vocabulary), "error")
        if resolution.n_conflicts:
            raise conflict_error(resolution, self.fact_text, lambda i: f"fact {i + 1}", self.weights)
        raise ConflictError(
            f"facts must be distinct, but {resolution.n_duplicates} of {self.n_facts} repeat an earlier one; "
            "build the table with FactTable.from_rows, which drops repeats."
        )

    @classmethod
    def from_rows(
        cls,
        contexts: Sequence[Sequence[str]],
        targets: Sequence[str],
        *,
        weights: npt.ArrayLike | None = None,
        on_conflict: OnConflict = "error",
        name: str = "facts",
    ) -> FactTable:
        """A table from token strings: pads short contexts on the left, drops repeats, settles contradictions.

        The vocabulary is the sorted distinct tokens, `<pad>` first if something was padded.
        """
        check_on_conflict(on_conflict)
        if len(contexts) != len(targets):
            raise DataError(f"every context needs one target: {len(contexts)} contexts and {len(targets)} targets.")
        if not contexts:
            raise DataError("a table needs at least one fact, got none.")
        longest = max(len(row) for row in contexts)
        for number, row in enumerate(contexts, 1):
            if isinstance(row, str) or not row:
                raise DataError(f"a context must be a sequence of one or more tokens; fact {number} has {row!r}.")
        used = {token for row in contexts for token in row} | set(targets)
        for token in used:
            if not isinstance(token, str):
                raise DataError(f"a token must be a string, got {token!r}.")
        padded = any(len(row) < longest for row in contexts)
        if padded and PAD in used:
            raise DataError(f"{PAD} is reserved where contexts differ in length; rename that token.")
        vocabulary = Vocabulary(([PAD] if padded or PAD in used else []) + sorted(used - {PAD}))
        ids = vocabulary._index
        rows = np.array([[ids[t] for t in [PAD] * (longest - len(row)) + list(row)] for row in contexts])
        goals = np.array([ids[token] for token in targets])
        shares = None if weights is None else amounts(weights, "weights", goals.shape, "fact")
        resolution = resolve(rows, goals, shares, len(vocabulary), on_conflict)
        if resolution.n_conflicts and on_conflict == "error":
            raise conflict_error(
                resolution, lambda i: _text(contexts[i], targets[i]), lambda i: f"fact {i + 1}", shares
            )
        keep = resolution.keep
        table = cls(rows[keep], goals[keep], vocabulary, None if shares is None else shares[keep], name)
        return table._without_unused_tokens() if len(keep) < len(rows) else table

    @classmethod
    def claims(cls, source: Source, choices: Choices) -> int:
        """Whatever nobody else knows better; what cannot be read at all is then refused by the reader of files."""
        return 1

    @classmethod
    def of(cls, source: Source, choices: Choices, name: str | None = None) -> FactTable:
        """Repeats are dropped and counted, contradictions refused or settled."""
        reading = source.reading(choices)
        roles = Roles.of(source.rows, choices)
        raw, columns, target = roles.raw, roles.columns, roles.target
        settled = settle(raw, columns, [target], choices.weight, reading.tokens, choices.on_missing)
        raw = settled.raw
        weights = None if choices.weight is None else raw.numbers(choices.weight)
        coded = encode(raw, columns, target, reading.tokens, whole=roles.whole)
        rows, goals = coded.contexts, coded.targets
        resolution = resolve(rows, goals, weights, len(coded.vocabulary), choices.on_conflict)
        if resolution.n_conflicts and choices.on_conflict == "error":
            words = coded.vocabulary.tokens

            def text(i: int) -> str:
                return _text([words[k] for k in rows[i] if words[k] != PAD], words[goals[i]])

            raise conflict_error(resolution, text, lambda i: f"{raw.source} {raw.place(i)}", weights)
        n_rows, places = len(rows), raw.places
        if len(resolution.keep) < n_rows:
            rows, goals = rows[resolution.keep], goals[resolution.keep]
            weights = None if weights is None else weights[resolution.keep]
            places = places.of(resolution.keep)
        table = cls(rows, goals, coded.vocabulary, weights, name or source.stem)
        if resolution.n_conflicts:
            table = table._without_unused_tokens()
        reading = dataclasses.replace(
            reading,
            n_rows=n_rows,
            n_duplicates=resolution.n_duplicates,
            n_conflicts_resolved=resolution.n_conflicts,
            n_missing=settled.n_missing,
            n_padded=table.n_padded,
            columns=roles.keys,
            target=roles.targets,
            weight=choices.weight,
            key=roles.key,
            unread=roles.unread,
        )
        return dataclasses.replace(table, reading=reading, places=places)

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[FactTable]:
        from rote.data.generate import bigram_facts, random_facts

        short = cls.from_rows([["new", "york"], ["rome"]], ["usa", "italy"], weights=[2.0, 0.5])
        return [random_facts(40, 3, 9, rng=rng), bigram_facts(4, rng=rng), short]

    def write(self, path: str | os.PathLike[str]) -> Choices:
        """Columns keep the names that they were read under, where a token is a whole cell."""
        read, columns = self.reading, None
        if read is not None and read.tokens == "cells" and len(read.columns) == self.context:
            columns = (*read.columns, *read.target)
        write_facts(self, path, columns=columns)
        return Choices(self.kind, tokens="cells", weight=None if self.weights is None else "weight")

    def _without_unused_tokens(self) -> FactTable:
        """The same facts over only the tokens that they use."""
        used = np.union1d(self.contexts, self.targets)
        if len(used) == self.vocab:
            return self
        tokens = self.vocabulary.tokens
        smaller = Vocabulary([tokens[i] for i in used])
        rows = np.searchsorted(used, self.contexts)
        return FactTable(rows, np.searchsorted(used, self.targets), smaller, self.weights, self.name)

    @property
    def n_targets(self) -> int:
        """Distinct targets in use."""
        return len(np.unique(self.targets))

    @cached_property
    def sha256(self) -> str:
        """A hash of the content (not of the name): equal for equal tables, on every machine."""
        digest = hashlib.sha256(b"rote.FactTable.1\n")
        for token in self.vocabulary:
            raw = token.encode()
            digest.update(b"%d:" % len(raw) + raw)
        digest.update(b"\n%d %d %d\n" % (self.n_facts, self.context, self.weights is not None))
        digest.update(self.contexts.astype("<i8", copy=False).tobytes())
        digest.update(self.targets.astype("<i8", copy=False).tobytes())
        if self.weights is not None:
            digest.update((self.weights + 0.0).astype("<f8", copy=False).tobytes())
        return digest.hexdigest()

    def subset(self, indices: npt.ArrayLike, *, name: str | None = None) -> FactTable:
        """The facts at these places, in this order, over the same vocabulary."""
        chosen = np.asarray(indices)
        if chosen.dtype == np.bool_ and chosen.shape != self.targets.shape:
            raise UsageError(f"a mask needs one value per fact, {self.n_facts}, got shape {chosen.shape}.")
        if chosen.dtype != np.bool_ and chosen.size:
            chosen = integers(chosen, "indices", 1)
            if int(chosen.min()) < 0 or int(chosen.max()) >= self.n_facts:
                raise UsageError(f"indices must lie between 0 and {self.n_facts - 1}; mend the ones outside.")
        elif not chosen.size:
            chosen = chosen.astype(np.int64)
        weights = None if self.weights is None else self.weights[chosen]
        places = self.places
        if places is not None:
            places = places.of(np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen)
        contexts, targets = self.contexts[chosen], self.targets[chosen]
        return FactTable(contexts, targets, self.vocabulary, weights, name or self.name, places=places)

    def place(self, i: int) -> str:
        return f"fact {i + 1}" if self.places is None else f"{self.places.source} {self.places.row(i)}"

    def leaving_out(self, left_out: Sequence[LeftOut]) -> FactTable:
        """The facts but for some, over the tokens that they use; what was left out is kept as a record."""
        if not left_out:
            return self
        keep = np.setdiff1d(np.arange(self.n_facts), np.array([one.row for one in left_out], dtype=np.int64))
        if not len(keep):
            raise DataError(f"none of the {self.n_facts:,} facts of {self.name} is left; bring other facts.")
        rest = self.subset(keep)._without_unused_tokens()
        told = (*self.left_out, *left_out)
        return dataclasses.replace(
            rest, reading=self.reading, places=self.subset(keep).places, left_out=told, history=self.history
        )

    def changed(self, changes: Sequence[Change]) -> FactTable:
        done = applied(self.contexts, self.targets, self.vocabulary, changes)
        new, weights, places = len(done.targets) - len(done.kept), None, None
        if self.weights is not None:
            weights = np.concatenate([self.weights[done.kept], np.ones(new)])
        if self.places is not None and not new:
            places = self.places.of(done.kept)
        before = self.history or History(self.sha256, ())
        return dataclasses.replace(
            self,
            contexts=done.contexts,
            targets=done.targets,
            vocabulary=done.vocabulary,
            weights=weights,
            places=places,
            history=dataclasses.replace(before, changes=(*before.changes, *changes)),
        )

    def files(self) -> dict[str, bytes]:
        """What was left out and what was changed, where that is anything."""
        return {**left_out_file(self.left_out), **changes_file(self.history)}

    def fact_text(self, i: int) -> str:
        """One fact for people: `(paris, capital-of) -> france`."""
        if not -self.n_facts <= i < self.n_facts:
            raise UsageError(f"there is no fact {i}; they run from 0 to {self.n_facts - 1}.")
        return _text(self.context_tokens(i), self.vocabulary.tokens[self.targets[i]])

    def record(self, i: int) -> dict[str, Any]:
        weight = {} if self.weights is None else {"weight": float(self.weights[i])}
        target = self.vocabulary.tokens[self.targets[i]]
        return {"context": list(self.context_tokens(i)), "target": target, **weight}

    def describe(self) -> dict[str, Any]:
        """Name, sizes and hash, ready for JSON."""
        return {
            "name": self.name,
            "n_facts": self.n_facts,
            "context": self.context,
            "vocab": self.vocab,
            "n_targets": self.n_targets,
            "distinct_last_tokens": self.distinct_last_tokens,
            "n_padded": self.n_padded,
            "weighted": self.weights is not None,
            "sha256": self.sha256,
        }

    @property
    def bits(self) -> float:
        return self.n_facts * math.log2(max(2, self.n_targets))

    @property
    def both_sides(self) -> int:
        return len(np.intersect1d(self.contexts, self.targets))

    def structure_factors(self) -> tuple[float, ...]:
        """Shares of the size for random tables that are worth a try, by how often neighbours have the same target.

        Two facts are neighbours if their contexts differ in one position only. Where neighbours agree far more often
        than chance, as for codes whose first letters tell the country, a fit needs a fraction of what a random table
        needs.
        """
        mixer = np.random.default_rng(0).integers(1, 2**62, size=self.context, dtype=np.int64) | 1
        pairs = agree = 0
        with np.errstate(over="ignore"):
            whole = (self.contexts + 1) @ mixer
        for position in range(self.context):
            with np.errstate(over="ignore"):
                key = whole - (self.contexts[:, position] + 1) * mixer[position]
            order = np.argsort(key, kind="stable")
            same = key[order][1:] == key[order][:-1]
            pairs += int(same.sum())
            agree += int((same & (self.targets[order][1:] == self.targets[order][:-1])).sum())
        if self.n_targets > 0.5 * self.n_facts and self.n_facts <= 3000:
            # Nearly every fact has a target of its own: its code can be put where the features already are.
            return (0.05, 0.15, 0.4)
        if pairs < 30:
            return ()
        shares = np.bincount(self.targets) / self.n_facts
        beyond_chance = agree / pairs - float((shares**2).sum())
        if beyond_chance > 0.5:
            return (0.025, 0.05, 0.1, 0.2, 0.4)
        return (0.3, 0.5, 0.75) if beyond_chance > 0.2 else ()

    def in_words_of(self, tokens: tuple[str, ...], length: int) -> FactTable:
        if self.vocabulary.tokens == tokens and self.context == length:
            return self
        ids = reworded(self.vocabulary, tokens, self.context, length)
        known = Vocabulary(tokens)
        contexts = padded(ids[self.contexts], length, known.pad_id or 0)
        return dataclasses.replace(self, contexts=contexts, targets=ids[self.targets], vocabulary=known)

    def truth(self, ids: Any) -> dict[str, float] | None:
        rows = np.flatnonzero((self.contexts == np.asarray(ids)).all(axis=1))
        return {self.vocabulary.token(int(self.targets[row])): 1.0 for row in rows} or None


table = FactTable


def _text(context: Sequence[str], target: str) -> str:
    return f"({', '.join(context)}) -> {target}"


def write_facts(table: FactTable, path: str | os.PathLike[str], *, columns: Sequence[str] | None = None) -> None:
    """Write a table: context columns, then `weight` if there are weights, then the target; padding as `<pad>`.

    `columns` names the context columns and the target. Reading the file with tokens="cells" (and weight="weight") gives
    an equal table, up to the order of the vocabulary and tokens that no fact uses. A token that reading would
    change, because white space is at its end or it holds a NUL, is refused.
    """
    names = _output_names(table, columns)
    check_cells(table.vocabulary)
    words = pl.Series(table.vocabulary.tokens, dtype=pl.String)
    frame = pl.DataFrame({names[k]: words.gather(table.contexts[:, k]) for k in range(table.context)})
    if table.weights is not None:
        frame = frame.with_columns(pl.Series("weight", table.weights))
    write_frame(frame.with_columns(words.gather(table.targets).alias(names[-1])), path)


def _output_names(table: FactTable, columns: Sequence[str] | None) -> list[str]:
    names = list(columns) if columns is not None else [*(f"c{k + 1}" for k in range(table.context)), "target"]
    if len(names) != table.context + 1:
        raise UsageError(f"columns must name {table.context} context columns and the target, got {len(names)} names.")
    taken = [*names, "weight"] if table.weights is not None else names
    if len(set(taken)) < len(taken) or any(not name or name != name.strip() or "\0" in name for name in names):
        raise UsageError(f"column names must be distinct, not empty, and not end in white space, got {taken}.")
    return names
