"""Cells into token ids: what a token is, one vocabulary for contexts and targets, padding on the left.

The vocabulary is the sorted distinct tokens (by code point), with `<pad>` in front if something is padded. No step
runs once per row in Python: columns are factorised as a whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rote.data._arrays import IntArray
from rote.data.reading import Tokens
from rote.data.rows import WHITESPACE, RawRows
from rote.data.vocabulary import PAD, Vocabulary
from rote.errors import DataError

__all__ = ["Encoded", "encode"]

# A single long cell among many short ones would blow the padded rectangle up beyond all proportion to the file.
_MAX_FILL = 64
_FREE_CELLS = 20_000_000


@dataclass(frozen=True)
class Encoded:
    """Token ids of every row, and the vocabulary that they refer to."""

    contexts: IntArray
    targets: IntArray
    vocabulary: Vocabulary


@dataclass(frozen=True)
class _Coded:
    """One column: its distinct tokens, the ids of all its tokens row after row, and how many each row has."""

    tokens: pl.Series
    ids: IntArray
    lengths: IntArray


def encode(raw: RawRows, context: Sequence[str], target: str, tokens: Tokens, *, whole: Sequence[str] = ()) -> Encoded:
    """The chosen columns of `raw` as ids; cells of the context columns in `whole` are one token in any case."""
    goals = _whole(raw.cells(target))
    if tokens == "cells":
        # All columns at once, one after the other: a table may have thousands of them.
        coded = _whole(raw.stacked(context))
        parts = [dataclasses.replace(coded, lengths=np.full(len(goals.ids), len(context), dtype=np.int64))]
    else:
        cut = _words if tokens == "words" else _chars
        parts = [(_whole if column in whole else cut)(raw.cells(column)) for column in context]
    _refuse_pad_target(raw, target, goals)
    lengths = np.sum([part.lengths for part in parts], axis=0)
    longest = int(lengths.max())
    _refuse_bloat(raw, lengths, longest)
    padding = int(lengths.min()) < longest
    every = pl.concat([part.tokens for part in [*parts, goals]])
    merged = _whole(every)
    marked = PAD in merged.tokens
    if marked and tokens != "cells":
        _refuse_pad_word(raw, context)
    distinct = merged.tokens.sort()
    if padding or marked:
        distinct = pl.concat([pl.Series([PAD], dtype=pl.String), distinct.filter(distinct != PAD)])
    place = _places(merged.tokens, distinct)[merged.ids]
    rows = np.zeros((len(lengths), longest), dtype=np.int64)  # 0 is the pad where there is one
    start = longest - lengths
    done = 0
    for part in parts:
        ids = place[done : done + len(part.tokens)][part.ids]
        done += len(part.tokens)
        if tokens == "cells":
            rows[:] = ids.reshape(len(context), -1).T
        else:
            within = np.arange(len(ids)) - np.repeat(np.cumsum(part.lengths) - part.lengths, part.lengths)
            rows[np.repeat(np.arange(len(rows)), part.lengths), np.repeat(start, part.lengths) + within] = ids
        start = start + part.lengths
    if marked:
        _refuse_pad_inside(raw, rows)
    targets = place[done:][goals.ids]
    return Encoded(rows, targets, Vocabulary._trusted(distinct.to_list()))


def _places(keys: pl.Series, among: pl.Series) -> IntArray:
    """The place in `among`, whose values are distinct, of every key.

    By hashes, as sorting integers beats comparing strings; a comparison at the end shows whether two strings shared a
    hash, in which case a join does the work.
    """
    known = among.hash().to_numpy()
    order = np.argsort(known)
    at = np.searchsorted(known[order], keys.hash().to_numpy())
    places: IntArray = order[np.minimum(at, len(order) - 1)]
    if not (among.gather(places) == keys).all():
        table = pl.DataFrame({"key": among, "place": np.arange(len(among), dtype=np.int64)})
        joined = keys.alias("key").to_frame().join(table, on="key", how="left", maintain_order="left")
        places = joined["place"].to_numpy()
    return places


def _factorise(values: pl.Series) -> tuple[pl.Series, IntArray]:
    """The distinct values, and the place of every value among them; by hashes, as in `_places`."""
    _, first, inverse = np.unique(values.hash().to_numpy(), return_index=True, return_inverse=True)
    distinct, ids = values.gather(first), inverse.reshape(-1).astype(np.int64, copy=False)
    if not (distinct.gather(ids) == values).all():
        distinct = values.unique()
        ids = _places(values, distinct)
    return distinct, ids


def _whole(cells: pl.Series) -> _Coded:
    return _Coded(*_factorise(cells), np.ones(len(cells), dtype=np.int64))


def _words(cells: pl.Series) -> _Coded:
    parts = cells.str.extract_all(f"[^{WHITESPACE}]+")
    lengths = parts.list.len().to_numpy().astype(np.int64)
    return _Coded(*_factorise(parts.explode()), lengths)


def _chars(cells: pl.Series) -> _Coded:
    lengths = cells.str.len_chars().to_numpy().astype(np.int64)
    points = np.frombuffer("".join(cells.to_list()).encode("utf-32-le"), dtype="<u4")
    present = np.flatnonzero(np.bincount(points))
    place = np.zeros(int(present[-1]) + 1, dtype=np.int64)
    place[present] = np.arange(len(present))
    return _Coded(pl.Series([chr(point) for point in present], dtype=pl.String), place[points], lengths)


def _refuse_pad_target(raw: RawRows, target: str, goals: _Coded) -> None:
    if PAD in goals.tokens:
        at = int((raw.cells(target) == PAD).arg_max() or 0)
        raise DataError(
            f"{raw.source}: {raw.place(at)}: column {target!r} holds {PAD!r}, which is reserved for padding and cannot "
            "be a target; rename it."
        )


def _refuse_pad_word(raw: RawRows, context: Sequence[str]) -> None:
    for column in context:
        cells = raw.cells(column)
        hit = cells.str.contains(PAD, literal=True)
        for at in hit.arg_true():
            if PAD in cells[at].split():
                raise DataError(
                    f"{raw.source}: {raw.place(at)}: column {column!r} holds the word {PAD!r}, which is reserved for "
                    "padding; rename it."
                )


def _refuse_pad_inside(raw: RawRows, rows: IntArray) -> None:
    """Whole cells may be `<pad>` where a padded table was written out: left of the first real token."""
    is_pad = rows == 0
    wrong = is_pad[:, -1] | (is_pad[:, 1:] & ~is_pad[:, :-1]).any(axis=1)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise DataError(
            f"{raw.source}: {raw.place(at)}: a cell is {PAD!r}, which is reserved for padding on the left of a "
            "context, and here a token stands before it or none after it; rename it."
        )


def _refuse_bloat(raw: RawRows, lengths: IntArray, longest: int) -> None:
    size = len(lengths) * longest
    if size > _FREE_CELLS and size > _MAX_FILL * int(lengths.sum()):
        at = int(lengths.argmax())
        raise DataError(
            f"{raw.source}: {raw.place(at)}: this context has {longest} tokens, the average has {lengths.mean():.1f}; "
            f"padding all {len(lengths)} rows to it would take {size * 8 / 2**30:.1f} GiB. Shorten or drop it."
        )
