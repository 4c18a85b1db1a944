"""Heads that serve a few facts and are blind to all others: who serves whom, and the weights.

Tokens have numbers t, and W_E holds t and t^2, so that a linear map of an embedding is any quadratic in t. A head is
told a place in the context, an interval of tokens and a last token v. With these its scores are whole numbers times a
large unit, and softmax is one-hot:

    at its place      (2 t - lo - hi)^2 - (hi - lo)^2       0 or less inside of the interval, 4 or more outside of it
    at other places   far below, whatever the tokens
    at the end        2 - (4 + (hi - lo)^2) (t - v)^2       below all of that unless the last token is v

So a head looks at the end of the context if its place holds a token of the interval and the last token is v. Its value
there is 1, and 0 everywhere else: it adds its answer to the stream, or exactly nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rote.errors import CapacityError

__all__ = ["LocalHead", "Table", "local_heads", "ordered_tokens", "served_by", "weights", "width"]

IntArray = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]

_MOST_COLUMNS = 64

UNIT = 512.0
"""Twice this is how far softmax is from a tie: exp(-1024) is 0 in every number format."""
SQUARE, END, SPOKEN, PLACE, PLACE_SQUARE = 1, 2, 3, 4, 5
"""Coordinates of the stream behind the number of a token: its square, the end of the context, the answer, the place."""


@dataclass(frozen=True)
class Table:
    """Facts by numbers: tokens (T, S) as they are ordered, answers (T,)."""

    tokens: IntArray
    answers: IntArray


@dataclass(frozen=True)
class LocalHead:
    """One head: it adds its answer where the token at its place is from `low` to `high` and the last one is `last`."""

    place: int
    low: int
    high: int
    last: int
    answer: int


def width(context: int) -> int:
    """Coordinates of the stream."""
    return 4 if context == 2 else 6


def ordered_tokens(contexts: IntArray, targets: IntArray, vocab: int) -> IntArray:
    """The number (N,) of every token: tokens that share answers stand side by side, so that heads can share them. One
    that stands in no context needs none, and has -1."""
    columns = []
    for last in np.unique(contexts[:, -1]).tolist():
        own = contexts[:, -1] == last
        column = np.full(vocab, -1, dtype=np.int64)
        column[contexts[own, 0]] = targets[own]
        columns.append((len(np.unique(targets[own])) / np.count_nonzero(own), column))
    # What says the most facts with the fewest answers counts first.
    columns.sort(key=lambda one: one[0])
    order = np.lexsort((np.arange(vocab), *(column for _, column in reversed(columns[:_MOST_COLUMNS]))))
    order = order[np.isin(order, contexts)]
    numbers = np.full(vocab, -1, dtype=np.int64)
    numbers[order] = np.arange(len(order))
    return numbers


def local_heads(table: Table, bits: int, *, separate: bool = False) -> list[LocalHead]:
    """Heads that serve all facts, each fact by one; refused where a fact has no place that tells it from others.

    `bits` are those of a whole number that the format holds.
    """
    most = _longest(int(table.tokens.max()) + 1, table.tokens.shape[1], bits)
    heads: list[LocalHead] = []
    for last in np.unique(table.tokens[:, -1]).tolist():
        own = np.flatnonzero(table.tokens[:, -1] == last)
        left = np.ones(len(own), dtype=np.bool_)
        for place in _places(table, own):
            tokens, answers = table.tokens[own, place], table.answers[own]
            clean = _clean(tokens, answers)
            # A head sees all facts with its token: none of them may have been served already.
            chosen = left & clean & ~np.isin(tokens, tokens[~left])
            heads += _runs(place, last, tokens, answers, chosen, 0 if separate else most)
            left &= ~chosen
        if left.any():
            raise CapacityError(
                f"{int(left.sum()):,} of the facts with one last token have no token that tells them from all others "
                "with another answer: a head sees two tokens, the last one and one more; use hashed_table."
            )
    return heads


def _clean(tokens: IntArray, answers: IntArray) -> npt.NDArray[np.bool_]:
    """Facts whose token says the answer, among facts with one last token."""
    order = np.lexsort((answers, tokens))
    apart = np.flatnonzero((np.diff(tokens[order]) == 0) & (np.diff(answers[order]) != 0))
    return ~np.isin(tokens, tokens[order][apart])


def _places(table: Table, own: IntArray) -> list[int]:
    """Places of the context, those first that tell the most facts."""
    told = [
        (-int(_clean(table.tokens[own, place], table.answers[own]).sum()), place)
        for place in range(table.tokens.shape[1] - 1)
    ]
    return [place for _, place in sorted(told)]


def _runs(
    place: int, last: int, tokens: IntArray, answers: IntArray, chosen: npt.NDArray[np.bool_], most: int
) -> list[LocalHead]:
    """Neighbours with one answer in one head, as far as nobody else stands between them."""
    heads: list[LocalHead] = []
    going_on = False
    for row in np.argsort(tokens, kind="stable").tolist():
        token, answer, head = int(tokens[row]), int(answers[row]), heads[-1] if going_on else None
        if chosen[row]:
            near = head is not None and (token == head.high or token - head.low <= most)
            if head is not None and near and head.answer == answer:
                heads[-1] = LocalHead(place, head.low, token, last, answer)
            else:
                heads.append(LocalHead(place, token, token, last, answer))
        # No interval goes on across somebody whom another head serves.
        going_on = bool(chosen[row])
    return heads


def _longest(count: int, context: int, bits: int) -> int:
    """The longest interval for which all sums of scores are exact; a vocabulary that is too large is refused."""
    for length in range(count, -1, -1):
        if _largest(count, context, length) < 2**bits:
            return length
    raise CapacityError(
        f"squares of {count:,} tokens do not fit into {bits} bits, which the scores need to be exact; use float64."
    )


def _largest(count: int, context: int, length: int) -> int:
    """The largest number of units that is met on the way to a score, in whatever order it is summed up."""
    square = (count // 2 + 1) ** 2
    places = 4 * _apart(count) * context * context if context > 2 else 0
    return (24 + 8 * (4 + length**2)) * square + places


def _apart(count: int) -> int:
    """Units by which other places are lower for every step that they are away: more than any token can add."""
    return 1 << (4 * count * count + 8).bit_length()


def served_by(heads: list[LocalHead], tokens: IntArray) -> IntArray:
    """The head of every fact; -1 where there is none."""
    found = np.full(len(tokens), -1, dtype=np.int64)
    for number, head in enumerate(heads):
        at = tokens[:, head.place]
        found[(tokens[:, -1] == head.last) & (at >= head.low) & (at <= head.high)] = number
    return found


def weights(heads: list[LocalHead], numbers: IntArray, said: IntArray, context: int) -> dict[str, Array]:
    """All matrices of the reference transformer. `numbers` (N,) are those of the tokens, and `said` (N,) those that
    they have as answers, from 0; -1 for tokens that are none."""
    vocab, d, end = len(numbers), width(context), context - 1
    count = int(numbers.max()) + 1
    half = count // 2
    t = np.where(numbers < 0, 0, numbers - half).astype(np.float64)
    W_E, W_pos = np.zeros((vocab, d)), np.zeros((context, d))
    W_E[:, 0], W_E[:, SQUARE] = t, t * t
    W_pos[end, END] = 1.0
    apart = float(_apart(count)) if context > 2 else 0.0
    if context > 2:
        W_pos[:, PLACE] = np.arange(context)
        W_pos[:, PLACE_SQUARE] = np.arange(context) ** 2
    W_Q, W_K = np.zeros((len(heads), 2, d)), np.zeros((len(heads), 2, d))
    W_V, W_O = np.zeros((len(heads), 2, d)), np.zeros((len(heads), d, 2))
    codes = _codes(int(said.max()) + 1)
    for number, head in enumerate(heads):
        low, high, last = head.low - half, head.high - half, float(head.last - half)
        steep = 4.0 + (high - low) ** 2
        # Scores at the place of the head, in units: the interval's, less what is the same for all tokens.
        level = (high - low) ** 2 - (low + high) ** 2 + apart * head.place**2
        W_K[number, 0, [0, SQUARE]] = -4.0 * (low + high), 4.0
        if context > 2:
            W_K[number, 0, [PLACE, PLACE_SQUARE]] = 2.0 * apart * head.place, -apart
        W_K[number, 1, END] = 1.0
        W_Q[number, 0, END] = 1.0
        # At the end: what its own token and place add is taken off again.
        W_Q[number, 1, [0, SQUARE]] = 2.0 * steep * last + 4.0 * (low + high), -steep - 4.0
        W_Q[number, 1, END] = level + 2.0 - steep * last**2 + apart * (end**2 - 2 * end * head.place)
        W_V[number, 0, END] = 1.0
        W_O[number, SPOKEN, 0] = codes[head.answer]
    W_Q *= UNIT
    W_U = np.zeros((vocab, d))
    # 2 i y - i^2 is largest at i = y. Where no head speaks, y is 0, and no answer has the lead.
    own = said >= 0
    W_U[own, SPOKEN], W_U[own, END] = 2.0 * codes[said[own]], -(codes[said[own]] ** 2)
    W_U[~own, END] = -4.0 * float(np.abs(codes).max()) ** 2
    return {"W_E": W_E, "W_pos": W_pos, "W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O, "W_U": W_U}


def _codes(count: int) -> Array:
    """Small whole numbers for answers, none of them 0."""
    numbers = np.arange(count) - count // 2
    return np.where(numbers < 0, numbers, numbers + 1).astype(np.float64)
