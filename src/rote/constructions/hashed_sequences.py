"""The hashed table of sequences: a label for every position, exactly, in an ordinary network of a usual number format.

A key is a sequence and the position that asks; the position is one more token of the key. See
`rote.theorems.hashed_table`, with N sequences of S tokens as N S keys of S + 1 tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rote.config import Architecture, Dtype, Shape
from rote.constructions._base import Job, Needs, NoPlan, Options, Plan
from rote.constructions._data import wording
from rote.constructions._hashed import HashedConstruction, renumbered, used_ids
from rote.errors import AssumptionError
from rote.solvers.hashed.planning import layouts

if TYPE_CHECKING:
    import numpy as np

    from rote.data import SequenceTable
    from rote.data._arrays import IntArray
    from rote.data.demand import Demand
    from rote.data.verification import Verification
    from rote.models import Model
    from rote.solvers.hashed.layout import Layout

__all__ = ["HashedSequences", "construction"]


@dataclass(frozen=True)
class HashedSequences(Options):
    """A hashed table of sequences needs to be told nothing."""


class _Construction(HashedConstruction["SequenceTable", HashedSequences]):
    accepts = ("sequences",)
    Options = HashedSequences
    title = "Hashed table, a label for every position"
    noun = "sequences"

    def plan(self, demand: Demand) -> Plan | NoPlan:
        if refusal := self.refusal(demand):
            return refusal
        sizes = (demand.n_facts, demand.context, demand.vocab, demand.n_targets or demand.vocab, demand.dtype)
        layout = next(_layouts(*sizes))
        return self.planned(layout, demand.vocab, demand.dtype, demand.n_facts, layout.bits)

    def shapes(self, table: SequenceTable, shape: Shape, dtype: Dtype, options: HashedSequences) -> Iterator[Plan]:
        every = _layouts_of(table, dtype)
        return self.different(self.planned(one, table.vocab, dtype, table.n_facts, table.bits) for one in every)

    def needs(self, demand: Demand, plan: Plan) -> Needs:
        keys = demand.n_facts * demand.context
        return Needs(400 * keys + 24 * plan.params, 3 + 1e-4 * keys * demand.context)

    def build(self, job: Job[SequenceTable, HashedSequences]) -> Model:
        from rote.models.kinds.hashed_sequences import HashedSequencesModel
        from rote.models.kinds.hashed_transformer import Words, as_tensors
        from rote.solvers.hashed.memorise import memorise
        from rote.solvers.hashed.network import matrices

        table = job.table
        layout, _ = self.of_shape(((one, None) for one in _layouts_of(table, job.dtype)), job.arch)
        inputs, spelled = used_ids(table.contexts), used_ids(table.targets)
        keys, labels = _asked(renumbered(table.contexts, inputs), renumbered(table.targets, spelled), len(inputs))

        def progress(stage: str, done: int, of: int, kept: int | None) -> None:
            job.progress(stage, done, of, None if kept is None else kept // table.context)

        made = memorise(keys, labels, layout, job.rng, progress=progress)
        job.progress("write the matrices", 0, 1, None)
        weights = as_tensors(matrices(made.hashing, made.rows), job.dtype)
        words = Words(tuple(inputs.tolist()), tuple(spelled.tolist()))
        report = {"layout": layout.to_dict(), "rows_used": len(made.rows), "seeds_tried": made.seeds_tried}
        spoken = wording(table)
        assert spoken is not None, "sequences have words"
        return HashedSequencesModel(job.arch, words, weights, spoken, report=report)

    def admit(self, job: Job[SequenceTable, HashedSequences]) -> None:
        """Equal sequences must have equal labels; otherwise any data will do."""
        import numpy as np

        contexts, targets = job.table.contexts, job.table.targets
        _, first, which = np.unique(contexts, axis=0, return_index=True, return_inverse=True)
        wrong = (targets != targets[first[which.ravel()]]).any(axis=1)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise AssumptionError(
                f"sequence {row + 1} has the tokens of sequence {int(first[which.ravel()[row]]) + 1} and other labels; "
                "correct or leave out one of them."
            )

    def remeasured(
        self,
        table: SequenceTable,
        model: Model,
        dtype: str,
        results: Mapping[str, Verification],
        claims: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        return self.counted(model, table.bits)

    def examples(self, rng: np.random.Generator) -> list[tuple[SequenceTable, Shape]]:
        import numpy as np

        from rote.data import SequenceTable, Vocabulary

        examples = []
        for facts, context, vocab, labels in ((40, 3, 20, 20), (60, 5, 4, 2), (30, 1, 40, 3)):
            spelled = Vocabulary([f"t{i}" for i in range(vocab)])
            numbers = rng.permutation(min(vocab**context, 10_000))[:facts]
            contexts = numbers[:, None] // vocab ** np.arange(context) % vocab
            examples.append((SequenceTable(contexts, rng.integers(labels, size=contexts.shape), spelled), Shape()))
        return examples

    def near_misses(self, rng: np.random.Generator) -> list[tuple[SequenceTable, Architecture, str]]:
        import numpy as np

        from rote.data import SequenceTable, Vocabulary

        words = Vocabulary(["a", "b", "c"])
        twice = SequenceTable(np.array([[0, 1], [0, 1]]), np.array([[1, 2], [1, 1]]), words)
        return [(twice, Architecture(3, 9, 3, 2, 3, n_layers=9, d_mlp=9), "other labels")]


def _layouts(facts: int, context: int, tokens: int, classes: int, dtype: Dtype) -> Iterator[Layout]:
    return layouts(facts * context, context + 1, tokens + context, classes, dtype, asking=context)


def _layouts_of(table: SequenceTable, dtype: Dtype) -> Iterator[Layout]:
    tokens = len(used_ids(table.contexts))
    return _layouts(table.n_facts, table.context, tokens, table.n_targets, dtype)


def _asked(contexts: IntArray, targets: IntArray, tokens: int) -> tuple[IntArray, IntArray]:
    """(keys, labels): every different sequence with every position that asks, behind the tokens in number."""
    import numpy as np

    length = contexts.shape[1]
    contexts, first = np.unique(contexts, axis=0, return_index=True)
    places = np.tile(tokens + np.arange(length), len(contexts))
    return np.column_stack([np.repeat(contexts, length, axis=0), places]), targets[first].ravel()


construction = _Construction()
