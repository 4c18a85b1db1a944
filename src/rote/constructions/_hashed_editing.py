"""Edits of hashed tables: the rows of the facts in question are solved anew, and no other weight is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from rote.constructions._operations import NOBODY, Edit, Edited, Located, Search
from rote.errors import CapacityError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rote.models.kinds.hashed_transformer import HashedTransformerModel
    from rote.solvers.hashed.editing import Reads, StoredTable

__all__ = ["edited_rows", "located_words", "readers_of", "reads_of", "table_in"]

_AT_ONCE = 8192


def table_in(model: HashedTransformerModel, certificate: Mapping[str, Any]) -> StoredTable:
    """Where the table lies in a network."""
    from rote.solvers.hashed.editing import stored_table

    shapes = [tuple(layer.get_parameter("weight").shape) for layer in model.module.layers]
    record = certificate["report"].get("layout", {})
    words = model.words
    return stored_table(
        record, shapes, classes=len(words.labels), context=model.arch.context, vocab=len(words.inputs)
    )  # fmt: skip


def reads_of(model: HashedTransformerModel, stored: StoredTable, contexts: Any) -> Reads:
    """What the network reads for contexts (N, S) of token ids, found out by running it up to its table."""
    import copy

    import torch

    # A format that is fast and holds all that is in front of the table: small whole numbers.
    front = copy.deepcopy(model.module).to("cpu", torch.float64 if model.dtype == "float64" else torch.float32)
    parts = []
    for part in torch.split(torch.tensor(np.asarray(contexts)), _AT_ONCE):
        with torch.no_grad():
            parts.append(stored.reads(front.units(part, stored.layer).numpy()))
    return parts[0].with_(*parts[1:])


def facts_in_rows(
    model: HashedTransformerModel, stored: StoredTable, positions: list[int], contexts: Any, rows: Any
) -> Any:
    """Which of many contexts (N, S) some rows answer for.

    Every head copies the code of the token at its position, which can be looked up instead; all other rows are left out
    of the computation.
    """
    import torch

    module, wide = model.module, torch.float64 if model.dtype == "float64" else torch.float32
    with torch.no_grad():
        embedded, marks = module.W_E.to(wide), module.W_pos.to(wide)
        values = module.W_V.to(wide).chunk(len(positions))
        codes = [(embedded + marks[p]) @ value.T for p, value in zip(positions, values, strict=True)]
        before = [layer.get_parameter("weight").to(wide) for layer in module.layers[: stored.layer]]
        wanted = torch.tensor(np.asarray(rows))
        # Back to front: of every layer those units that somebody reads.
        for i in reversed(range(len(before))):
            before[i] = before[i][wanted]
            wanted = torch.nonzero((before[i] != 0).any(dim=0))[:, 0]
            if i:
                before[i] = before[i][:, wanted]
        found = []
        for part in torch.split(torch.tensor(np.asarray(contexts)[:, positions]), _AT_ONCE):
            tokens = module.rows[part]
            stream = torch.cat([code[tokens[:, i]] for i, code in enumerate(codes)], dim=1)
            stream = torch.cat([stream, stream.new_ones(len(stream), 1)], dim=1)
            for matrix in before:
                stream = torch.relu(stream @ matrix.T)
            found.append((stream > 0).any(dim=1))
    return np.flatnonzero(torch.cat(found).numpy())


def edited_rows(edit: Edit) -> Edited:
    """The model with the rows of the changed facts solved anew."""
    import torch

    from rote.models.kinds.hashed_transformer import HashedTransformerModel

    model = cast("HashedTransformerModel", edit.model)
    labels = {token: label for label, token in enumerate(model.words.labels)}
    spoken = model.wording.vocabulary
    for target in edit.after.tolist():
        if target != NOBODY and target not in labels:
            raise UsageError(
                f"{spoken[target]!r} is none of the {len(labels):,} answers of this model, which has no weights to say "
                "it; build it anew from a table that has the answer."
            )
    if len(labels) == 1 and not model.words.unknown:
        raise UsageError("all facts of this model have one answer, so that no weight belongs to a single one.")
    strange = [token for token in np.unique(edit.keys).tolist() if token not in set(model.words.inputs)]
    if strange:
        raise UsageError(
            f"{spoken[strange[0]]!r} stands in no context of this model, which has no code for it; build it anew from "
            "a table that has the fact."
        )
    stored = table_in(model, edit.certificate)
    if stored.layout.openers:
        raise UsageError(
            "facts of this model share keys by a rule, so that no weight belongs to a single one; build it with a key "
            "for every fact (plain)."
        )
    own, told = reads_of(model, stored, edit.keys), np.array([labels.get(t, 0) for t in edit.after.tolist()])
    contexts, targets = edit.table.inputs(slice(0, edit.table.n_facts))[0], getattr(edit.table, "targets", None)
    if (own.rows < 0).any():
        raise CapacityError("no row of the table answers for this context; build the model anew with the fact.")
    positions = [int(at) for at in edit.certificate["report"]["positions"]]
    near = facts_in_rows(model, stored, positions, contexts, np.unique(own.rows))
    contexts, targets = contexts[near], np.asarray(targets)[near]
    every = reads_of(model, stored, contexts)
    numbers = np.zeros(model.arch.vocab, dtype=np.int64)
    numbers[list(model.words.labels)] = np.arange(len(model.words.labels))
    name = f"layers.{stored.layer}.weight"
    weights = dict(model.module.state_dict())
    matrix = _matrix(model, stored).copy()
    changed = {key.tobytes() for key in edit.keys}
    how = []
    for row in np.unique(own.rows).tolist():
        others = np.array([i for i in np.flatnonzero(every.rows == row) if contexts[i].tobytes() not in changed], int)
        mine = np.flatnonzero(own.rows == row)
        rest = every.of(others)
        symbols = stored.symbols(numbers[targets[others]], rest.prints)
        column = _solved(stored, matrix, row, (rest, symbols), own.of(mine), told[mine], edit.after[mine], edit.rng)
        if column is None:
            count = len(others) + int((edit.after[mine] != NOBODY).sum())
            raise CapacityError(
                f"row {row} of the table has no room for all {count:,} facts that would lie in it; build the model "
                "anew from the changed table."
            )
        touched = int(np.count_nonzero(column != matrix[:, row]))
        matrix[:, row] = column
        count = len(others) + len(mine)
        how.append(
            f"row {row} of {name}, {count:,} context{'s' if count > 1 else ''}, solved anew: {touched:,} "
            f"word{'s' if touched != 1 else ''} changed"
        )
    weights[name] = torch.from_numpy(matrix).to(weights[name].dtype)
    report = edit.certificate["report"]
    return Edited(HashedTransformerModel(model.arch, model.words, weights, model.wording, report=report), tuple(how))


def _solved(
    stored: StoredTable,
    matrix: Any,
    row: int,
    others: tuple[Reads, Any],
    mine: Reads,
    labels: Any,
    after: Any,
    rng: Any,
) -> Any:
    """One row for the other facts of it and those in question. What is forgotten gets a symbol that nobody knows; where
    that leaves no room, the row is filled at random and solved as if it had never been there."""
    rest, symbols = others
    own = stored.symbols(labels, mine.prints)
    drawn = rng.integers(0, 1 << stored.layout.symbol_bits, len(own))
    gone = after == NOBODY
    start = stored.words(matrix, row)
    column = stored.solved(matrix, row, rest.with_(mine), np.concatenate([symbols, np.where(gone, drawn, own)]), start)
    if column is None and gone.any():
        kept = mine.of(~gone)
        column = stored.solved(matrix, row, rest.with_(kept), np.concatenate([symbols, own[~gone]]), stored.drawn(rng))
    return column


def located_words(search: Search, row: int) -> Located:
    """The row of a fact, and the words that it reads there."""
    from rote.models import Piece

    model = cast("HashedTransformerModel", search.model)
    stored = table_in(model, search.certificate)
    every = reads_of(model, stored, search.table.inputs(slice(0, search.table.n_facts))[0])
    at = int(every.rows[row])
    mine = np.flatnonzero(every.rows == at)
    reading = stored.reading(_matrix(model, stored), at, every.of(mine))
    words = np.flatnonzero(reading[int(np.searchsorted(mine, row))]).tolist()
    name = f"layers.{stored.layer}.weight"
    pieces = [Piece(f"row {at}", name, (None, at)), *(Piece(f"word {word}", name, (word, at)) for word in words)]
    readers = (len(mine), *(int(reading[:, word].sum()) for word in words))
    said = (
        f"Row {at} of the table holds it and {len(mine) - 1:,} other facts, and nothing of any fact beyond: it is read "
        f"off the sum of {len(words)} words of that row."
    )
    return Located(tuple(pieces), readers, said)


def _matrix(model: HashedTransformerModel, stored: StoredTable) -> npt.NDArray[np.float64]:
    """The matrix of the words."""
    import torch

    weight = model.module.layers[stored.layer].get_parameter("weight")
    return np.asarray(weight.detach().to(torch.float64).numpy())


def readers_of(search: Search, tensor: str, index: tuple[Any, ...]) -> npt.NDArray[np.bool_] | None:
    """The facts that read words of the table: all of one row (`[:, r]`), or those that read one word (`[i, r]`)."""
    model = cast("HashedTransformerModel", search.model)
    stored = table_in(model, search.certificate)
    layout = stored.layout
    if tensor != f"layers.{stored.layer}.weight" or len(index) < 2 or not isinstance(index[1], int):
        return None
    if index[1] >= layout.rows:
        return None
    every = reads_of(model, stored, search.table.inputs(slice(0, search.table.n_facts))[0])
    mine = every.rows == index[1]
    if isinstance(index[0], int) and index[0] < layout.blocks * layout.width:
        mine[mine] = stored.reading(_matrix(model, stored), index[1], every.of(mine))[:, index[0]]
    return np.asarray(mine, dtype=np.bool_)
