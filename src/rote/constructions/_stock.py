"""What constructions of stock checkpoints share: which facts a stock tokenizer can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.errors import UsageError

if TYPE_CHECKING:
    from rote.data import FactTable

__all__ = ["unspoken"]

_MARKS = {"": "every character", " ": "white space", "\t": "a tab"}


def unspoken(table: FactTable) -> dict[int, str]:
    """Facts with tokens that a stock tokenizer would not read as they are meant, by row.

    It cuts a text at the separator and looks the parts up, so a token that is read right alone is right everywhere.
    """
    import numpy as np

    from rote.models import tokenizer

    words = table.vocabulary
    if len(words) < 2:
        raise UsageError(
            f"a stock checkpoint needs two tokens or more to choose from, and {words[0]!r} is the only one."
        )
    reads = tokenizer.build_tokenizer(words.tokens, table.tokens, table.properties)
    before = table.contexts[:, :-1] if table.properties else table.contexts
    wrong = [int(i) for i in np.unique(before) if i != words.pad_id and not _reads(reads, words.tokens[i], int(i))]
    named = [] if not table.properties else [int(i) for i in np.unique(table.contexts[:, -1])]
    wrong += [i for i in named if not _reads(reads, f"\t{words.tokens[i]}", i)]
    if not wrong:
        return {}
    mark = _MARKS[tokenizer.separator(words.tokens, table.tokens)]
    hit = np.isin(table.contexts, wrong)
    return {
        int(row): f"a stock tokenizer, which cuts texts at {mark}, cannot read "
        f"{words.tokens[int(table.contexts[row, int(hit[row].argmax())])]!r}"
        for row in np.flatnonzero(hit.any(axis=1))
    }


def _reads(tokenizer: Any, text: str, token: int) -> bool:
    try:
        return bool(tokenizer.encode(text).ids == [token])
    except Exception:  # the library has no class for an unknown word
        return False
