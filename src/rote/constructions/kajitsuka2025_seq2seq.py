"""Bit extraction, a label for every position. See `rote.theorems.kajitsuka2025_seq2seq`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rote.config import Architecture
from rote.constructions._base import Job
from rote.constructions._bits import BitConstruction, BitOptions, check_tokens, labelled
from rote.errors import AssumptionError
from rote.theorems import Setting
from rote.theorems._kajitsuka import seq2seq_net

if TYPE_CHECKING:
    import numpy as np

    from rote.data import SequenceTable
    from rote.solvers.exact.memorise import Made
    from rote.solvers.exact.transformer import Precision

__all__ = ["SequenceBitExtraction", "construction"]


@dataclass(frozen=True)
class SequenceBitExtraction(BitOptions):
    """What bit extraction of a label for every position may be told."""


class _Construction(BitConstruction["SequenceTable", SequenceBitExtraction]):
    accepts = ("sequences",)
    Options = SequenceBitExtraction
    title = "Bit extraction, a label for every position"

    def check_data(self, job: Job[SequenceTable, SequenceBitExtraction]) -> None:
        from rote.solvers.exact.bags import unequal_labels

        check_tokens(job, self.key)
        contexts, targets = job.table.contexts, job.table.targets
        clash = None if job.options.with_positions else unequal_labels(contexts, targets)
        if clash is not None:
            row, one, other = clash
            word = job.table.vocabulary.token
            raise AssumptionError(
                f"{self.key} gives equal tokens of one sequence equal labels; sequence {row + 1} has "
                f"{word(int(contexts[row, one]))!r} at positions {one + 1} and {other + 1} with labels "
                f"{word(int(targets[row, one]))!r} and {word(int(targets[row, other]))!r}. "
                "Build with positions, which tells them apart."
            )

    def memorise(self, job: Job[SequenceTable, SequenceBitExtraction], precision: Precision) -> Made:
        from rote.solvers.exact.memorise import check_variant, memorise_sequences

        table, options = job.table, job.options
        labels, spelled = labelled(table)
        return memorise_sequences(
            table.contexts, labels, len(spelled), table.vocab, spelled, precision=precision,
            variant=check_variant(options.variant, precision), with_positions=options.with_positions, rng=job.rng,
            unknown=options.unknown or 0,
        )  # fmt: skip

    def examples(self, rng: np.random.Generator) -> list[tuple[SequenceTable, Architecture]]:
        examples = []
        for facts, context, vocab in ((12, 5, 30), (20, 3, 50)):
            net = seq2seq_net(facts, context, vocab, vocab)
            assert net is not None, "no width is asked for"
            arch = Architecture(1, net.width, 1, context, vocab, n_layers=net.depth, d_mlp=net.width)
            most = self.statement.bound(Setting(arch, dtype="exact")).facts or 1
            examples.append((_random(most, context, vocab, rng), arch))
        return examples

    def near_misses(self, rng: np.random.Generator) -> list[tuple[SequenceTable, Architecture, str]]:
        import numpy as np

        from rote.data import SequenceTable, Vocabulary

        words = Vocabulary(["a", "b", "c", "d"])
        roomy = Architecture(1, 64, 1, 3, 4, n_layers=10_000, d_mlp=10_000)
        twice = SequenceTable(np.array([[0, 1, 0]]), np.array([[1, 2, 3]]), words)
        swapped = SequenceTable(np.array([[0, 1, 2], [1, 0, 2]]), np.array([[3, 2, 1], [3, 3, 3]]), words)
        many = _random(300, 4, 40, rng)
        return [
            (twice, roomy, "equal labels"),
            (swapped, roomy, "order"),
            (many, Architecture(1, 9, 1, 4, 40, n_layers=80, d_mlp=9), "kajitsuka2025_seq2seq"),
        ]


def _random(n_facts: int, context: int, vocab: int, rng: np.random.Generator) -> SequenceTable:
    """Sequences that differ as bags, with a random label for every token of each."""
    from rote.data import SequenceTable, random_sequences

    table = random_sequences(n_facts, context, vocab - 1, 1, rng=rng)
    labels = rng.integers(vocab, size=(n_facts, vocab))
    targets = labels[[[row] for row in range(n_facts)], table.contexts]
    return SequenceTable(table.contexts, targets, table.vocabulary)


construction = _Construction()
