"""Arrays of tables: private copies, checked, so that a table cannot change behind anybody's back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rote.data.vocabulary import PAD, Vocabulary
from rote.errors import CheckpointError, DataError

__all__ = ["FloatArray", "IntArray", "amounts", "check_ids", "freeze", "integers", "padded", "reworded"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


def freeze(record: Any, **arrays: npt.NDArray[Any] | None) -> None:
    """Set fields of a frozen record to arrays that nobody can write to any more."""
    for name, array in arrays.items():
        if array is not None:
            array.flags.writeable = False
        object.__setattr__(record, name, array)


def integers(values: npt.ArrayLike, what: str, n_axes: int) -> IntArray:
    """A private int64 copy, or an error that says which part is not a whole number or has a wrong shape."""
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
    return np.array(raw, dtype=np.int64, order="C")


def amounts(values: npt.ArrayLike, what: str, shape: tuple[int, ...], owner: str) -> FloatArray:
    """A private float64 copy without NaN, infinities or negative numbers; `owner` is what a row is called."""
    try:
        numbers = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise DataError(f"{what} must be numbers.") from None
    if numbers.shape != shape:
        raise DataError(f"{what} must have shape {shape}, got {numbers.shape}.")
    wrong = ~(np.isfinite(numbers) & (numbers >= 0))
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        where = f"{owner} {at[0] + 1}" + (f", token {at[1]}," if len(at) > 1 else "")
        raise DataError(
            f"{what} must be finite and not negative, but {where} has {numbers[at]} ({int(wrong.sum())} such in all)."
        )
    return numbers


def check_ids(ids: IntArray, what: str, vocabulary: Vocabulary, owner: str) -> None:
    """Refuse ids that no token has; `owner` is what a row is called."""
    if not isinstance(vocabulary, Vocabulary):
        raise DataError(f"vocabulary must be a Vocabulary, got {type(vocabulary).__name__}.")
    size = len(vocabulary)
    wrong = (ids < 0) | (ids >= size)
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise DataError(
            f"{what} must hold ids from 0 to {size - 1} (the vocabulary has {size} tokens), got {ids[at]}; the first "
            f"offender is {owner} {at[0] + 1}."
        )


def reworded(vocabulary: Vocabulary, tokens: tuple[str, ...], context: int, length: int) -> IntArray:
    """The id among a model's tokens of every token of a table; what the model does not know is refused."""
    places = {token: i for i, token in enumerate(tokens)}
    unknown = [token for token in vocabulary.tokens if token not in places]
    if unknown:
        raise CheckpointError(
            f"the model does not know {len(unknown)} token{'s' if len(unknown) > 1 else ''} of this table, the first "
            f"is {unknown[0]!r}; it was built from another table, or this one was cut into other tokens."
        )
    if context > length or (context < length and PAD not in places):
        raise CheckpointError(f"the model reads contexts of {length} tokens, this table has {context}.")
    return np.array([places[token] for token in vocabulary.tokens], dtype=np.int64)


def padded(rows: IntArray, length: int, pad: int) -> IntArray:
    """Rows with `pad` in front, up to a length."""
    return np.pad(rows, ((0, 0), (length - rows.shape[1], 0)), constant_values=pad)
