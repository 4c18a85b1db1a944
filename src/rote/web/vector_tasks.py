"""What a worker can be asked about models of vectors: what they say to an example, or to one that was changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rote.errors import RoteError, UsageError

if TYPE_CHECKING:
    from rote.data import VectorTable
    from rote.memory import Memory

__all__ = ["example", "sizes"]


def sizes(memory: Memory, source: Mapping[str, Any]) -> dict[str, Any] | None:
    """How many examples there are, and of what; None for any other model, and where the examples are not at hand."""
    try:
        table = _table(memory, source)
    except RoteError:
        return None
    return None if table is None else {"examples": table.n_facts, "width": table.d_model, "classes": table.n_classes}


def example(memory: Memory, source: Mapping[str, Any], number: int, query: Sequence[float] | None) -> dict[str, Any]:
    """What the table says about an example, and what the model says to it, with its own query or another one."""
    import numpy as np

    table = _table(memory, source)
    if table is None:
        raise UsageError("the examples of this model are not at hand; build it here, from the file.")
    if not 1 <= number <= table.n_facts:
        raise UsageError(f"there are the examples 1 to {table.n_facts:,}, not {number:,}.")
    if query is not None and len(query) != table.d_model:
        raise UsageError(f"a query of this model has {table.d_model:,} numbers, got {len(query):,}.")
    row = slice(number - 1, number)
    own = table.queries[row]
    asked = own if query is None else np.array([query], dtype=np.float64)
    contexts = table.contexts if table.shared else table.contexts[row]
    one = replace(table, contexts=contexts, queries=asked, targets=table.targets[row], reading=None)
    outputs = memory.model.outputs(memory.certificate.dtype)
    truth: Any
    said: Any
    if table.n_classes is None:
        said = [float(value) for value in outputs.values(one.inputs(slice(0, 1))).double().reshape(-1).tolist()]
        truth = table.targets[row].reshape(-1).tolist()
        lead = None
    else:
        (lead,), (other,) = (part.tolist() for part in outputs.leads(one.inputs(slice(0, 1)), one.targets))
        truth = int(table.targets[number - 1])
        said = truth if lead > 0 else int(other)
    return {
        "number": number,
        "query": asked[0].tolist(),
        "moved": float(np.linalg.norm(asked[0] - own[0])),
        "truth": truth,
        "said": said,
        "recalled": one.score(outputs, memory.certificate.dtype).passed,
        "lead": lead if lead is not None and np.isfinite(lead) else None,
    }


def _table(memory: Memory, source: Mapping[str, Any]) -> VectorTable | None:
    """The examples, where they were dropped on the page: no file that a certificate names is opened."""
    from rote.data import VectorTable

    if memory.certificate.data != VectorTable.kind or "path" not in source:
        return None
    table = memory.table(source["path"])
    return table if isinstance(table, VectorTable) and memory.certificate.refers_to(table) else None
