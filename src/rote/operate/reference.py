"""References for unlearning: the model that never had some facts, with everything else as in the one that has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from rote import constructions, pipeline
from rote.constructions import Job, Progress, quiet
from rote.data.arguments import checked
from rote.data.changes import Change, Context
from rote.errors import CapacityError, FactsLost, UsageError
from rote.memory import Memory
from rote.operate.edit import changes_of, edit, known_table

if TYPE_CHECKING:
    from rote.data.table import Table

__all__ = ["reference"]


@checked
def reference(
    memory: Memory, contexts: Iterable[Context], *, table: Table | None = None, progress: Progress = quiet
) -> Memory:
    """The model that was never given the facts with these contexts: same construction, shape, seed and words.

    Where single facts can be forgotten without a trace, as in a hashed table, their rows are solved without them, and
    all else is shared, weight by weight. Everywhere else it is built again, at the same shape and from the same seed.
    """
    construction, certificate = constructions.get(memory.certificate.construction), memory.certificate
    changes: list[Change] = changes_of(memory, forget=contexts)
    if not changes:
        raise UsageError("a reference without nothing is the model itself; name the facts that it shall not have.")
    known = known_table(memory, table)
    if certificate.seed is None and construction.seeded:
        raise UsageError(
            "this model was built from a generator and not from a seed, so it cannot be built in the same way."
        )
    if "forget" in construction.edits:
        made, how = (
            edit(memory, changes, table=known, rng=certificate.seed or 0, progress=progress),
            "all other weights shared",
        )
    else:
        import numpy as np

        options = construction.Options.from_dict(certificate.options)
        number = construction.check_format(certificate.dtype)
        rest, rng = known.changed(changes), np.random.default_rng(certificate.seed or 0)
        job = Job(rest, memory.model.arch, options, number, rng, progress)
        try:
            made, verdict = pipeline.certified(construction, job, construction.build(job), certificate.seed)
            lost = "" if verdict.passed else verdict.summary()
        except FactsLost as error:
            lost = str(error)
        if lost:
            raise CapacityError(
                f"{construction.key}, built again at the same shape without these facts, {lost}; build both models in "
                "a larger shape."
            )
        how = "built again at the same shape and seed"
    record = {"without": len(changes), "of_weights_sha256": certificate.weights_sha256, "how": how}
    return replace(made, certificate=made.certificate.replace(claims={**made.certificate.claims, "reference": record}))
