"""A label for every position with O~(sqrt(n T)) parameters (Kajitsuka, Sato 2025, sequence to sequence).

Statement: for any T sequences of n tokens that are distinct up to order, with a label in [C] for every position such
           that equal tokens of one sequence have equal labels, there is a transformer as in the next-token case that
           gives every position its label, with O~(sqrt(n T)) parameters.
Notation:  T = n_facts (sequences), n = context, V = C = vocab.
Source:    arXiv 2409.17677.
Differs:   explicit sizes, see `_kajitsuka`; a fact is a sequence with all its n labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rote.config import Architecture
from rote.errors import AssumptionError
from rote.theorems._base import Setting
from rote.theorems._citations import kajitsuka2025
from rote.theorems._kajitsuka import seq2seq_net
from rote.theorems._kajitsuka_build import BitExtractionBuilder

if TYPE_CHECKING:
    import numpy as np

    from rote.data import SequenceTable
    from rote.solvers.exact.memorise import Made
    from rote.solvers.exact.transformer import Precision
    from rote.solvers.record import Options

__all__ = ["theorem"]


class _Theorem(BitExtractionBuilder["SequenceTable"]):
    title = "Bit extraction, a label a position"
    citation = kajitsuka2025("sequence to sequence")
    statement = "O~(sqrt(n T)) exact weights label every position of any T sequences of length n."
    network = staticmethod(seq2seq_net)
    labels_per_fact = staticmethod(lambda context: context)
    bag_note = "no two contexts may be permutations of each other, and equal tokens of one have equal labels"
    takes = "sequences"

    def check_data(self, data: SequenceTable, options: Options) -> None:
        from rote.solvers.exact.bags import unequal_labels

        super().check_data(data, options)
        clash = None if options.with_positions else unequal_labels(data.contexts, data.targets)
        if clash is not None:
            row, one, other = clash
            words = data.vocabulary.token
            raise AssumptionError(
                f"{self.key} gives equal tokens of one sequence equal labels; sequence {row + 1} has "
                f"{words(int(data.contexts[row, one]))!r} at positions {one + 1} and {other + 1} with labels "
                f"{words(int(data.targets[row, one]))!r} and {words(int(data.targets[row, other]))!r}. "
                "Pass --with-positions, which tells positions apart."
            )

    def memorise(
        self, data: SequenceTable, precision: Precision, variant: str | None, with_positions: bool,
        rng: np.random.Generator,
    ) -> Made:  # fmt: skip
        from rote.solvers.exact.memorise import check_variant, memorise_positions

        labels, spelled = self.labelled(data)
        return memorise_positions(
            data.contexts, labels, len(spelled), data.vocab, spelled, precision=precision,
            variant=check_variant(variant, precision), with_positions=with_positions, rng=rng,
        )  # fmt: skip

    def examples(self, rng: np.random.Generator) -> list[tuple[SequenceTable, Architecture]]:
        found = []
        for facts, context, vocab in ((12, 5, 30), (20, 3, 50)):
            net = seq2seq_net(facts, context, vocab, vocab)
            assert net is not None, "no width is asked for"
            arch = Architecture(1, net.width, 1, context, vocab, n_layers=net.depth, d_mlp=net.width)
            most = self.bound(Setting(arch, dtype="exact")).facts or 1
            found.append((_random(most, context, vocab, rng), arch))
        return found

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


theorem = _Theorem()
