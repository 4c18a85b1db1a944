"""Next-token distributions: the frozen `DistributionTable`.

Not every context has one right next token. A table gives each of its contexts a prior probability and a distribution
over the next token, as in the distribution task of Dana, Pydi, Chevaleyre 2025.

Notation: T = n_contexts, S = context, N = vocab, p = prior, pi = probabilities; T_eps = the fewest contexts whose prior
exceeds 1 - eps. Entropies and divergences are in nats unless a name says bits.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from rote.data._arrays import FloatArray, IntArray, amounts, check_ids, freeze, integers, reworded
from rote.data.conflicts import n_repeats, row_codes
from rote.data.distribution_store import FILE, pack, unpack
from rote.data.divergence import Divergence, score_divergence
from rote.data.files import check_cells, write_frame
from rote.data.holes import settle
from rote.data.outputs import Outputs
from rote.data.reading import Choices, Reading
from rote.data.source import Source
from rote.data.token_table import TokenTable
from rote.data.tokenise import encode
from rote.data.vocabulary import Vocabulary
from rote.errors import CheckpointError, DataError, UsageError

__all__ = [
    "DEFAULT_SMOOTHING",
    "MOST_CELLS",
    "WEIGHT_NAMES",
    "DistributionTable",
    "check_share",
    "in_bits",
    "write_distributions",
]

DEFAULT_SMOOTHING = 0.01
"""The share of the uniform distribution that is mixed in where some probability is zero."""
MOST_CELLS = 150_000_000
"""Contexts times vocabulary: more would take more than a gigabyte for each copy of the table."""

WEIGHT_NAMES = ("count", "weight")
"""Columns that are taken for counts unless another is named."""

_SUM_TOLERANCE = 1e-6


def in_bits(nats: float) -> float:
    return nats / math.log(2)


def check_share(value: float, name: str) -> float:
    """A number in [0, 1), or an error that names it."""
    if not (isinstance(value, (int, float)) and math.isfinite(value) and 0 <= value < 1):
        raise UsageError(f"{name} must be a number from 0 up to, but not including, 1; got {value}.")
    return float(value)


@dataclass(frozen=True, eq=False, repr=False)
class DistributionTable(TokenTable):
    """T distinct contexts of S tokens, a prior over them, and a distribution over N next tokens for each.

    Prior and rows must sum to one (within 1e-6, and are then brought to one exactly); `from_counts` normalises counts.
    The arrays are read-only copies. `smoothing` is the share of the uniform distribution that `smoothed` mixed in.
    """

    contexts: IntArray
    prior: FloatArray
    probabilities: FloatArray
    vocabulary: Vocabulary
    name: str = "distributions"
    smoothing: float = 0.0
    original: DistributionTable | None = field(default=None, repr=False)
    """The table that was smoothed; model directories carry it, as it has more zeros."""
    reading: Reading | None = None

    kind: ClassVar[str] = "distributions"
    noun: ClassVar[str] = "contexts"

    def __post_init__(self) -> None:
        contexts = integers(self.contexts, "contexts", 2)
        check_ids(contexts, "contexts", self.vocabulary, "context")
        n, size = len(contexts), len(self.vocabulary)
        if n == 0 or contexts.shape[1] == 0:
            raise DataError("a distribution table needs at least one context of at least one token, got none.")
        if size < 2:
            raise DataError("a distribution needs two tokens or more to choose from, and the vocabulary has one.")
        _refuse_size(n, size)
        repeats = n_repeats(contexts, size)
        if repeats:
            raise DataError(
                f"contexts must be distinct, but {repeats} of {n} repeat an earlier one; add their counts up with "
                "DistributionTable.from_counts."
            )
        prior = amounts(self.prior, "the prior", (n,), "context")
        rows = amounts(self.probabilities, "probabilities", (n, size), "context")
        _normalise(prior, rows)
        check_share(self.smoothing, "smoothing")
        freeze(self, contexts=contexts, prior=prior, probabilities=rows)

    @classmethod
    def from_counts(
        cls,
        contexts: npt.ArrayLike,
        targets: npt.ArrayLike,
        vocabulary: Vocabulary,
        *,
        counts: npt.ArrayLike | None = None,
        name: str = "distributions",
    ) -> DistributionTable:
        """One row per observation (or per count): contexts may repeat, and what they are followed by is added up."""
        rows, goals = integers(contexts, "contexts", 2), integers(targets, "targets", 1)
        if len(rows) != len(goals):
            raise DataError(f"every context needs one target: {len(rows)} contexts and {len(goals)} targets.")
        if len(rows) == 0 or rows.shape[1] == 0:
            raise DataError("a distribution table needs at least one observation of at least one token, got none.")
        size = len(vocabulary)
        check_ids(rows, "contexts", vocabulary, "row")
        check_ids(goals, "targets", vocabulary, "row")
        weights = np.ones(len(rows)) if counts is None else amounts(counts, "counts", goals.shape, "row")
        _, first, place = np.unique(row_codes(rows, size), return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")  # contexts keep the order in which they first appear
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        place = rank[place.reshape(-1)]
        _refuse_size(len(first), size)
        table = np.zeros((len(first), size))
        np.add.at(table, (place, goals), weights)
        kept = rows[first[order]]
        totals = table.sum(axis=1)
        if not (totals > 0).all():
            row = int(np.argmax(~(totals > 0)))
            words = ", ".join(vocabulary.token(int(k)) for k in kept[row])
            raise DataError(
                f"the counts of context {row + 1} ({words}) add up to 0 ({int((totals <= 0).sum())} such contexts); "
                "leave its rows out, or give it a positive count."
            )
        if not np.isfinite(totals.sum()):
            raise DataError("the counts add up to more than a number can hold; divide them by a common factor.")
        return cls(kept, totals / totals.sum(), table / totals[:, None], vocabulary, name)

    @property
    def n_contexts(self) -> int:
        """The papers' word for `n_facts`."""
        return len(self.contexts)

    @property
    def n_targets(self) -> int:
        return int(np.count_nonzero(self.unigram))

    @cached_property
    def n_zeros(self) -> int:
        """Zero probabilities; Assumption 2 (full support) wants none."""
        return int(np.count_nonzero(self.probabilities == 0))

    @property
    def full_support(self) -> bool:
        return self.n_zeros == 0

    @cached_property
    def is_association(self) -> bool:
        """Whether every context has exactly one next token (Assumption 1)."""
        return bool((np.count_nonzero(self.probabilities, axis=1) == 1).all())

    @cached_property
    def entropies(self) -> FloatArray:
        """The entropy of every context's distribution, in nats."""
        entropies: FloatArray = -_xlogx(self.probabilities).sum(axis=1)
        return entropies

    @cached_property
    def entropy(self) -> float:
        """The prior-weighted entropy of the next token, in nats: what no predictor gets below."""
        return max(0.0, float(self.prior @ self.entropies))

    @cached_property
    def unigram(self) -> FloatArray:
        """The distribution of the next token when the context is not looked at."""
        shares: FloatArray = self.prior @ self.probabilities
        return shares

    @property
    def unigram_kl(self) -> float:
        """The divergence of the best guess that does not look at the context."""
        return max(0.0, float(-_xlogx(self.unigram).sum()) - self.entropy)

    @property
    def uniform_kl(self) -> float:
        """The divergence of the uniform guess."""
        return max(0.0, math.log(self.vocab) - self.entropy)

    def kl(self, log_probabilities: npt.ArrayLike) -> float:
        """The prior-weighted divergence from predictions (T, N), given as logarithms; infinite where one is -inf."""
        return max(0.0, float(self.prior @ self.divergences(log_probabilities)))

    def divergences(self, log_probabilities: npt.ArrayLike) -> FloatArray:
        """KL(pi_t || prediction) of every context, in nats."""
        logs = np.asarray(log_probabilities, dtype=np.float64)
        if logs.shape != self.probabilities.shape:
            raise DataError(f"predictions must have shape {self.probabilities.shape}, got {logs.shape}.")
        if np.isnan(logs).any():
            return np.full(self.n_contexts, np.inf)
        with np.errstate(invalid="ignore"):
            cross = np.where(self.probabilities > 0, self.probabilities * logs, 0.0).sum(axis=1)
        divergences: FloatArray = np.maximum(0.0, -self.entropies - cross)
        return divergences

    @cached_property
    def likely_first(self) -> IntArray:
        """Contexts by falling prior; equal ones in their order."""
        return np.argsort(-self.prior, kind="stable")

    def t_eps(self, epsilon: float) -> int:
        """T_eps: the fewest contexts whose prior exceeds 1 - eps; at eps = 0 all that can occur."""
        check_share(epsilon, "epsilon")
        possible = int(np.count_nonzero(self.prior))
        if epsilon == 0:
            return possible
        reached = np.cumsum(self.prior[self.likely_first])
        # Strictly more than 1 - eps, but for rounding in the sum of the prior.
        return min(possible, int(np.searchsorted(reached, (1 - epsilon) * (1 + 1e-12), side="right")) + 1)

    def leftover(self, n_contexts: int) -> float:
        """The prior of all but the `n_contexts` most likely contexts."""
        return float(max(0.0, self.prior[self.likely_first[n_contexts:]].sum()))

    def smoothed(self, share: float) -> DistributionTable:
        """(1 - share) pi + share / N: full support, Assumption 2, for any share above 0."""
        check_share(share, "smoothing")
        if self.smoothing:
            raise UsageError("this table is smoothed already; smooth the original.")
        if share == 0:
            return self
        mixed = (1 - share) * self.probabilities + share / self.vocab
        return dataclasses.replace(self, probabilities=mixed, smoothing=share, original=self)

    @property
    def stored_smoothing(self) -> float:
        """The smoothing of the table that model directories carry: none where the original is known."""
        return 0.0 if self.original is not None else self.smoothing

    @cached_property
    def sha256(self) -> str:
        """A hash of the content (not of the name)."""
        digest = hashlib.sha256(b"rote.DistributionTable.1\n")
        for token in self.vocabulary:
            raw = token.encode()
            digest.update(b"%d:" % len(raw) + raw)
        digest.update(b"\n%d %d\n" % (self.n_contexts, self.context))
        digest.update(self.contexts.astype("<i8", copy=False).tobytes())
        for part in (self.prior, self.probabilities):
            # Nine digits: the sum of a column of counts may depend on the machine in the last one.
            digest.update(np.round(part, 9).astype("<f8", copy=False).tobytes())
        return digest.hexdigest()

    def find(self, ids: Sequence[int]) -> int | None:
        """The place of a context, or None where the table does not have it."""
        if len(ids) != self.context:
            return None
        hit = np.flatnonzero((self.contexts == np.asarray(ids)).all(axis=1))
        return int(hit[0]) if len(hit) else None

    def describe(self) -> dict[str, Any]:
        """Name, sizes, entropies and hash, ready for JSON."""
        return {
            "name": self.name,
            "n_facts": self.n_facts,
            "context": self.context,
            "vocab": self.vocab,
            "entropy": self.entropy,
            "entropy_bits": in_bits(self.entropy),
            "perplexity": math.exp(self.entropy),
            "unigram": self.unigram_kl,
            "uniform": self.uniform_kl,
            "zeros": self.n_zeros,
            "smoothing": self.smoothing,
            "sha256": self.sha256,
        }

    def fact_text(self, i: int) -> str:
        """A context with its most likely token: `(the) -> cat (67 %)`."""
        best = int(self.probabilities[i].argmax())
        share = 100 * self.probabilities[i, best]
        return f"({', '.join(self.context_tokens(i))}) -> {self.vocabulary.token(best)} ({share:.3g} %)"

    def record(self, i: int) -> dict[str, Any]:
        likely = {self.vocabulary.token(k): float(p) for k, p in enumerate(self.probabilities[i]) if p > 0}
        return {"context": list(self.context_tokens(i)), "prior": float(self.prior[i]), "next": likely}

    @property
    def bits(self) -> float:
        """T times the mutual information of context and next token: what the contexts tell about the next token.

        For contexts that are equally likely, each with one next token of K that are equally frequent, this is
        T log2 K, as for facts.
        """
        return self.n_facts * in_bits(self.unigram_kl)

    def score(self, outputs: Outputs, dtype: str, *, tolerance: float = 1e-3) -> Divergence:
        return score_divergence(self, outputs, dtype)

    def in_words_of(self, tokens: tuple[str, ...], length: int) -> DistributionTable:
        if self.context != length:
            raise CheckpointError(f"the model reads contexts of {length} tokens, this table has {self.context}.")
        if self.vocabulary.tokens == tokens:
            return self
        ids = reworded(self.vocabulary, tokens, self.context, length)
        rows = np.zeros((self.n_facts, len(tokens)))
        rows[:, ids] = self.probabilities
        return dataclasses.replace(
            self, contexts=ids[self.contexts], probabilities=rows, vocabulary=Vocabulary(tokens), original=None
        )

    @property
    def keys(self) -> None:
        """No filter: the directory carries the table."""

    def files(self) -> dict[str, bytes]:
        """The table without its words, which the tokenizer has."""
        return {FILE: pack(self.original or self)}

    @classmethod
    def stored(cls, folder: Path, certificate: Mapping[str, Any], words: tuple[str, ...]) -> DistributionTable:
        """The table of a model directory, smoothed as it was for building."""
        try:
            smoothing = float(certificate.get("smoothing") or 0.0) - float(certificate.get("stored_smoothing") or 0.0)
        except (TypeError, ValueError):
            raise CheckpointError(f"the certificate of {folder} names no smoothing; the file was edited.") from None
        contexts, prior, rows = unpack(folder / FILE, len(words))
        name = str(certificate.get("facts_name") or folder.name)
        return cls(contexts, prior, rows, Vocabulary(words), name).smoothed(smoothing)

    def truth(self, ids: Any) -> dict[str, float] | None:
        row = self.find(ids)
        if row is None:
            return None
        return {token: float(p) for token, p in zip(self.vocabulary, self.probabilities[row], strict=True)}

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[DistributionTable]:
        from rote.data.generate import lookup_distributions, random_distributions

        sure = lookup_distributions(8, 2, 5, rng=rng, noise=0.0)
        return [random_distributions(12, 2, 6, rng=rng), sure, sure.smoothed(0.05)]

    @classmethod
    def claims(cls, source: Source, choices: Choices) -> int:
        """Contexts that repeat with different targets, and a column of counts."""
        if not source.has_rows or choices.on_conflict != "error" or len(choices.target or ()) > 1:
            return 0
        raw = source.rows
        weight = _weight_column(raw.columns, choices)
        if weight is None or (choices.weight is None and raw.columns[-1] != "count"):
            # A column of some other name, or in another place, may well be a part of facts.
            return 0
        try:
            target, columns = raw.roles(choices.one_target, choices.columns, weight)
            if choices.on_missing != "error":
                raw = settle(raw, columns, [target], None, "cells", choices.on_missing).raw
            cells = pl.DataFrame({name: raw.cells(name) for name in (*columns, target)})
            counted = raw.some_number(weight)
        except (UsageError, DataError):
            return 0  # facts may do without that column; if they do not, they say what is wrong
        if cells.select(columns).n_unique() == cells.n_unique():
            return 0
        # One number is enough to call it a column of counts, so that a slip in another row is refused, and not read.
        return 2 if counted else 0

    @classmethod
    def of(cls, source: Source, choices: Choices, name: str | None = None) -> DistributionTable:
        """Every row is one observation, or so many as the column of counts says; contexts may repeat."""
        raw, reading = source.rows, source.reading(choices)
        weight = _weight_column(raw.columns, choices)
        target, columns = raw.roles(choices.one_target, choices.columns, weight)
        settled = settle(raw, columns, [target], weight, reading.tokens, choices.on_missing)
        raw = settled.raw
        counts = None if weight is None else raw.numbers(weight)
        coded = encode(raw, columns, target, reading.tokens)
        words = coded.vocabulary
        table = cls.from_counts(coded.contexts, coded.targets, words, counts=counts, name=name or source.stem)
        reading = dataclasses.replace(
            reading,
            n_rows=len(coded.targets),
            n_missing=settled.n_missing,
            n_padded=table.n_padded,
            columns=columns,
            target=(target,),
            weight=weight,
        )
        return dataclasses.replace(table, reading=reading)

    def write(self, path: str | os.PathLike[str]) -> Choices:
        write_distributions(self, path)
        return Choices(self.kind, tokens="cells", weight="count")


table = DistributionTable


def _weight_column(columns: Sequence[str], choices: Choices) -> str | None:
    """The column of counts: the one that is named, or one of the usual name that has no other part to play."""
    if choices.weight is not None:
        return choices.weight
    taken = (*(choices.target or ()), *(choices.columns or ()))
    return next((name for name in WEIGHT_NAMES if name in columns and name not in taken), None)


def write_distributions(table: DistributionTable, path: str | os.PathLike[str], *, total: float | None = None) -> None:
    """Write the rows c1, ..., next, count; counts are prior times probability, times `total` if it is given.

    With `total` (the number of observations) counts are rounded to whole numbers, as they were.
    """
    check_cells(table.vocabulary)
    row, token = np.nonzero(table.probabilities)
    mass = table.prior[row] * table.probabilities[row, token]
    words = pl.Series(table.vocabulary.tokens, dtype=pl.String)
    columns = {f"c{k + 1}": words.gather(table.contexts[row, k]) for k in range(table.context)}
    columns["next"] = words.gather(token)
    columns["count"] = pl.Series(mass if total is None else np.rint(mass * total).astype(np.int64))
    write_frame(pl.DataFrame(columns), path)


def _xlogx(values: FloatArray) -> FloatArray:
    products: FloatArray = values * np.log(np.where(values > 0, values, 1.0))
    return products


def _refuse_size(n: int, vocab: int) -> None:
    if n * vocab > MOST_CELLS:
        raise DataError(
            f"{n:,} contexts with {vocab:,} next tokens each are {n * vocab:,} probabilities, and the limit is "
            f"{MOST_CELLS:,}; keep fewer tokens or fewer contexts."
        )


def _normalise(prior: FloatArray, rows: FloatArray) -> None:
    """Refuse what does not sum to one; take the last rounding error out in place."""
    if not abs(prior.sum() - 1) <= _SUM_TOLERANCE:
        raise DataError(f"the prior must sum to 1, got {prior.sum():.9g}; divide it by its sum, or give counts.")
    sums = rows.sum(axis=1)
    wrong = ~(np.abs(sums - 1) <= _SUM_TOLERANCE)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"the probabilities of a context must sum to 1, but those of context {row + 1} sum to {sums[row]:.9g} "
            f"({int(wrong.sum())} such contexts); divide each row by its sum, or give counts."
        )
    prior /= prior.sum()
    rows /= sums[:, None]
