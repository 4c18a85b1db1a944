"""Token facts: the frozen `FactTable`.

Notation: T = n_facts, S = context, N = vocab. A fact is (context tokens -> target token).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.data.conflicts import Clash, OnConflict, check_on_conflict, n_repeats, resolve
from rote.data.vocabulary import PAD, Vocabulary
from rote.errors import ConflictError, DataError, UsageError

__all__ = ["FactTable"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


def _integers(values: npt.ArrayLike, what: str, n_axes: int) -> IntArray:
    """A private read-only int64 copy, or an error that says which part is not a whole number or has a wrong shape."""
    try:
        raw = np.asarray(values)
    except ValueError:
        raise DataError(f"{what} must be a rectangular array of token ids; its rows have different lengths.") from None
    if raw.size == 0 and raw.dtype == np.float64:
        raw = raw.astype(np.int64)
    if raw.dtype.kind not in "iu":
        raise DataError(f"{what} must hold whole-number token ids, got values of type {raw.dtype}.")
    if raw.ndim != n_axes:
        raise DataError(f"{what} must have {n_axes} axes, got shape {raw.shape}.")
    made = np.array(raw, dtype=np.int64, order="C")
    made.flags.writeable = False
    return made


@dataclass(frozen=True, eq=False)
class FactTable:
    """T facts with distinct contexts of S tokens each, one target token, and perhaps a weight.

    Contexts are distinct by construction: repeats and contradictions are refused here, and settled by
    `FactTable.from_rows` and `read_facts`. The arrays are read-only copies. `<pad>` may stand only at the left of a
    context, never fills one, and is never a target.
    """

    contexts: IntArray
    targets: IntArray
    vocabulary: Vocabulary
    weights: FloatArray | None = None
    name: str = "facts"

    def __post_init__(self) -> None:
        contexts = _integers(self.contexts, "contexts", 2)
        targets = _integers(self.targets, "targets", 1)
        if not isinstance(self.vocabulary, Vocabulary):
            raise DataError(f"vocabulary must be a Vocabulary, got {type(self.vocabulary).__name__}.")
        if len(contexts) != len(targets):
            raise DataError(f"every context needs one target: {len(contexts)} contexts and {len(targets)} targets.")
        if len(contexts) == 0:
            raise DataError("a table needs at least one fact, got none.")
        if contexts.shape[1] == 0:
            raise DataError("a context needs at least one token, got contexts of length 0.")
        for what, ids in (("contexts", contexts), ("targets", targets)):
            low, high = int(ids.min()), int(ids.max())
            if low < 0 or high >= len(self.vocabulary):
                row = int(np.argwhere((ids < 0) | (ids >= len(self.vocabulary)))[0][0])
                bad = low if low < 0 else high
                raise DataError(
                    f"{what} must hold ids from 0 to {len(self.vocabulary) - 1} (the vocabulary has "
                    f"{len(self.vocabulary)} tokens), got {bad}; the first offender is fact {row + 1}."
                )
        weights = None if self.weights is None else _check_weights(self.weights, len(targets))
        object.__setattr__(self, "contexts", contexts)
        object.__setattr__(self, "targets", targets)
        object.__setattr__(self, "weights", weights)
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
        found = resolve(self.contexts, self.targets, self.weights, len(self.vocabulary), "error")
        if found.n_conflicts:
            raise conflict_error(
                found.clashes, found.n_conflicts, self.fact_text, lambda i: f"fact {i + 1}", self.weights
            )
        raise ConflictError(
            f"facts must be distinct, but {found.n_duplicates} of {self.n_facts} repeat an earlier one; "
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
        shares = None if weights is None else _check_weights(weights, len(goals))
        found = resolve(rows, goals, shares, len(vocabulary), on_conflict)
        if found.n_conflicts and on_conflict == "error":
            raise conflict_error(
                found.clashes,
                found.n_conflicts,
                lambda i: _text(contexts[i], targets[i]),
                lambda i: f"fact {i + 1}",
                shares,
            )
        keep = found.keep
        made = cls(rows[keep], goals[keep], vocabulary, None if shares is None else shares[keep], name)
        return made._without_unused_tokens() if len(keep) < len(rows) else made

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
    def n_facts(self) -> int:
        return len(self.targets)

    @property
    def context(self) -> int:
        """Tokens per context, padding included."""
        return int(self.contexts.shape[1])

    @property
    def vocab(self) -> int:
        return len(self.vocabulary)

    @property
    def distinct_last_tokens(self) -> int:
        return len(np.unique(self.contexts[:, -1]))

    @property
    def n_targets(self) -> int:
        """Distinct targets in use."""
        return len(np.unique(self.targets))

    @property
    def n_padded(self) -> int:
        """Facts whose context is shorter than the longest one."""
        pad = self.vocabulary.pad_id
        return 0 if pad is None else int(np.count_nonzero(self.contexts[:, 0] == pad))

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
            chosen = _integers(chosen, "indices", 1)
            if int(chosen.min()) < 0 or int(chosen.max()) >= self.n_facts:
                raise UsageError(f"indices must lie between 0 and {self.n_facts - 1}; mend the ones outside.")
        elif not chosen.size:
            chosen = chosen.astype(np.int64)
        weights = None if self.weights is None else self.weights[chosen]
        return FactTable(self.contexts[chosen], self.targets[chosen], self.vocabulary, weights, name or self.name)

    def context_tokens(self, i: int) -> tuple[str, ...]:
        """The tokens of one context, without padding."""
        pad = self.vocabulary.pad_id
        return tuple(self.vocabulary.tokens[k] for k in self.contexts[i] if k != pad)

    def fact_text(self, i: int) -> str:
        """One fact for people: `(paris, capital-of) -> france`."""
        if not -self.n_facts <= i < self.n_facts:
            raise UsageError(f"there is no fact {i}; they run from 0 to {self.n_facts - 1}.")
        return _text(self.context_tokens(i), self.vocabulary.tokens[self.targets[i]])

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

    def __len__(self) -> int:
        return self.n_facts

    def __eq__(self, other: object) -> bool:
        """Equal content; the name does not count."""
        return isinstance(other, FactTable) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __repr__(self) -> str:
        return f"FactTable({self.name!r}: {self.n_facts} facts, context {self.context}, vocab {self.vocab})"


def _check_weights(values: npt.ArrayLike, n_facts: int) -> FloatArray:
    try:
        weights = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("weights must be numbers, one per fact.") from None
    if weights.shape != (n_facts,):
        raise DataError(f"weights need shape ({n_facts},), one per fact, got {weights.shape}.")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"weights must be finite and not negative, but fact {row + 1} has {weights[row]}.")
    weights.flags.writeable = False
    return weights


def _text(context: Sequence[str], target: str) -> str:
    return f"({', '.join(context)}) -> {target}"


def conflict_error(
    clashes: Sequence[Clash],
    count: int,
    text: Callable[[int], str],
    place: Callable[[int], str],
    weights: FloatArray | None,
) -> ConflictError:
    """The error for contradictory facts: the first few, the count, the remedy. `text`, `place`: index -> words."""

    def told(i: int) -> str:
        return f"{place(i)}: {text(i)}" + ("" if weights is None else f" (weight {weights[i]:g})")

    shown = "; ".join(f"{told(c.first)} against {told(c.second)}" for c in clashes)
    more = f"; and {count - len(clashes)} more" if count > len(clashes) else ""
    noun = "fact contradicts" if count == 1 else "facts contradict"
    return ConflictError(
        f"equal contexts need equal targets, but {count} {noun} an earlier one: "
        f"{shown}{more}. Correct them, or pass on_conflict='first' or 'last' (--on-conflict first|last)."
    )
