"""Edits of hashed tables: the rows of the facts in question are solved anew, and no other weight is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rote.constructions._operations import NOBODY, Edit, Edited
from rote.errors import CapacityError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rote.models.kinds.hashed_transformer import HashedTransformerModel
    from rote.solvers.hashed.editing import Reads, StoredTable

__all__ = ["edited_rows", "reads_of", "table_in"]

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

    # Everything before the table is a small whole number, which float32 holds.
    number = torch.float64 if model.dtype == "float64" else torch.float32
    front = copy.deepcopy(model.module).to(number)
    parts = []
    with torch.no_grad():
        for part in torch.split(torch.tensor(np.asarray(contexts)), _AT_ONCE):
            parts.append(stored.reads(front.units(part, stored.layer).numpy()))
    return parts[0].with_(*parts[1:])


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
    own, told = reads_of(model, stored, edit.keys), np.array([labels.get(t, 0) for t in edit.after.tolist()])
    contexts, targets = edit.table.inputs(slice(0, edit.table.n_facts))[0], getattr(edit.table, "targets", None)
    every = reads_of(model, stored, contexts)
    numbers = np.zeros(model.arch.vocab, dtype=np.int64)
    numbers[list(model.words.labels)] = np.arange(len(model.words.labels))
    name = f"layers.{stored.layer}.weight"
    weights = dict(model.module.state_dict())
    matrix = weights[name].to(torch.float64).numpy().copy()
    changed = {key.tobytes() for key in edit.keys}
    how = []
    for row in np.unique(own.rows).tolist():
        if row < 0:
            raise CapacityError("no row of the table answers for this context; build the model anew with the fact.")
        others = np.array([i for i in np.flatnonzero(every.rows == row) if contexts[i].tobytes() not in changed], int)
        mine = np.flatnonzero(own.rows == row)
        rest = every.of(others)
        symbols = stored.symbols(numbers[np.asarray(targets)[others]], rest.prints)
        column = _solved(stored, matrix, row, (rest, symbols), own.of(mine), told[mine], edit.after[mine], edit.rng)
        if column is None:
            raise CapacityError(
                f"row {row} of the table has no room for this context beside its {len(others):,} other facts; build "
                "the model anew with the fact."
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
