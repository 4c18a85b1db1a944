"""Changes made to the arrays of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from rote.data._arrays import IntArray, padded
from rote.data.changes import Change
from rote.data.vocabulary import PAD, Vocabulary
from rote.errors import DataError

__all__ = ["Applied", "applied"]


@dataclass(frozen=True)
class Applied:
    """The arrays of a table after changes: `kept` are the old rows that are still there, in their order, and the rows
    behind them are new."""

    contexts: IntArray
    targets: IntArray
    vocabulary: Vocabulary
    kept: IntArray


def applied(contexts: IntArray, targets: IntArray, vocabulary: Vocabulary, changes: Iterable[Change]) -> Applied:
    """One change after the other. Answers change in place, new facts are appended, and no token is dropped."""
    changes = tuple(changes)
    length, pad = contexts.shape[1], vocabulary.pad_id
    known = {token: i for i, token in enumerate(vocabulary.tokens)}
    for change in changes:
        if change.action == "insert":
            for token in (*change.context, change.answer or ""):
                known.setdefault(token, len(known))
            if len(change.context) < length and pad is None:
                raise DataError(
                    f"contexts of this table have {length} tokens, and {change} has {len(change.context)}; give all."
                )
        elif change.answer is not None:
            known.setdefault(change.answer, len(known))
        if len(change.context) > length:
            raise DataError(f"contexts of this table have at most {length} tokens, and {change} has more.")
    # Rows of the contexts that are spoken of, found by one pass over the table.
    wanted = [_ids(change, known, length, pad) for change in changes]
    places: dict[bytes, int] = {}
    spoken = {key for key in wanted if key is not None}
    if spoken:
        first = np.array(sorted({np.frombuffer(key, dtype=np.int64)[-1] for key in spoken}))
        for row in np.flatnonzero(np.isin(contexts[:, -1], first)).tolist():
            key = contexts[row].tobytes()
            if key in spoken:
                places[key] = row
    goals, gone = targets.copy(), set[int]()
    more: dict[bytes, int] = {}
    for change, key in zip(changes, wanted, strict=True):
        at = None if key is None else places.get(key)
        if change.action == "insert":
            assert key is not None, "its tokens are known by now"
            if at is not None or key in more:
                raise DataError(f"{change}: this context is a fact already; set its answer instead.")
            more[key] = known[change.answer or ""]
        elif key is None or (at is None and key not in more):
            raise DataError(f"{change}: there is no fact with this context; look it up, or insert it.")
        elif change.action == "forget":
            if at is None:
                del more[key]
            else:
                gone.add(at)
                del places[key]
        elif at is None:
            more[key] = known[change.answer or ""]
        else:
            goals[at] = known[change.answer or ""]
    kept = np.delete(np.arange(len(contexts)), sorted(gone))
    if not len(kept) and not more:
        raise DataError(f"none of the {len(contexts):,} facts would be left; a table needs at least one fact.")
    new = np.frombuffer(b"".join(more), dtype=np.int64).reshape(-1, length)
    words = vocabulary if len(known) == len(vocabulary) else Vocabulary(list(known))
    return Applied(
        np.concatenate([contexts[kept], new]),
        np.concatenate([goals[kept], np.array(list(more.values()), dtype=np.int64)]),
        words,
        kept,
    )


def _ids(change: Change, known: Mapping[str, int], length: int, pad: int | None) -> bytes | None:
    """The row of ids of a context; None where it has a token that the table does not know, or too few."""
    ids = [known.get(token, -1) for token in change.context]
    if min(ids) < 0 or (len(ids) < length and pad is None) or PAD in change.context:
        if change.action == "insert":
            raise DataError(f"{PAD} fills short contexts from the left and stands for nothing else; rename that token.")
        return None
    return padded(np.array([ids], dtype=np.int64), length, pad or 0).tobytes()
