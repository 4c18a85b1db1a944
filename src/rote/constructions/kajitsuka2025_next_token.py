"""Bit extraction, one label per sequence. See `rote.theorems.kajitsuka2025_next_token`.

What is built for given data is smaller than the network of the bound: tokens are hashed where that tells the sequences
apart, and variants B and C of the second network store no keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rote.config import Architecture
from rote.constructions._base import Job, option
from rote.constructions._bits import BitConstruction, BitOptions, check_tokens, labelled
from rote.data.left_out import LeftOut
from rote.errors import UsageError
from rote.theorems import Setting
from rote.theorems._kajitsuka import next_token_net

if TYPE_CHECKING:
    import numpy as np

    from rote.solvers.exact.memorise import Made
    from rote.solvers.exact.transformer import Precision

__all__ = ["BitExtraction", "construction"]


@dataclass(frozen=True)
class BitExtraction(BitOptions):
    """What bit extraction of one label per sequence may be told."""

    delta: float | None = option(None, "Bit extraction of vectors: refuse tokens that are closer.")
    radius: float | None = option(None, "Bit extraction of vectors: refuse tokens that are longer.")


class _Construction(BitConstruction[Any, BitExtraction]):
    """From token facts, or from vectors: tables without words."""

    accepts = ("facts", "vectors")
    Options = BitExtraction
    title = "Bit extraction, one label per sequence"
    automatic = False

    def unfit(self, table: Any, options: BitExtraction) -> list[LeftOut]:
        """Facts whose contexts differ from that of an earlier one by order only; positions tell them apart."""
        import numpy as np

        from rote.solvers.rows import first_equal

        if table.words is None or options.with_positions:
            return []
        later, twins = first_equal(np.sort(table.contexts, axis=1))
        return [
            LeftOut(
                row,
                table.fact_text(row),
                table.place(row),
                f"differs only by order from {table.place(twin)}; tokens are added up unless built with positions",
            )
            for row, twin in zip(later.tolist(), twins.tolist(), strict=True)
        ]

    def check_data(self, job: Job[Any, BitExtraction]) -> None:
        if job.table.words is None:
            from rote.constructions._bit_vectors import check_vectors

            check_vectors(job, self.key)
            return
        if job.options.delta is not None or job.options.radius is not None:
            raise UsageError("delta and radius are for vectors; token ids are whole numbers, 1 apart.")
        check_tokens(job, self.key)

    def memorise(self, job: Job[Any, BitExtraction], precision: Precision) -> Made:
        from rote.solvers.exact.memorise import check_variant, memorise_sequences

        table, variant = job.table, check_variant(job.options.variant, precision)
        if table.words is None:
            from rote.solvers.exact.vectors import memorise_vectors

            labels = table.targets.astype(int)
            return memorise_vectors(table.sequences(), labels, table.n_classes, variant=variant, rng=job.rng)
        labels, spelled = labelled(table)
        return memorise_sequences(
            table.contexts, labels, len(spelled), table.vocab, spelled,
            precision=precision, variant=variant, with_positions=job.options.with_positions, rng=job.rng,
            unknown=job.options.unknown or 0,
        )  # fmt: skip

    def examples(self, rng: np.random.Generator) -> list[tuple[Any, Architecture]]:
        from rote.data import random_sequences

        examples: list[tuple[Any, Architecture]] = []
        for facts, context, tokens, classes, narrow in ((30, 6, 40, 3, False), (60, 4, 100, 2, True)):
            vocab = tokens + classes
            net = next_token_net(facts, context, vocab, vocab, max_width=7 if narrow else None)
            assert net is not None, "width 7 is enough"
            arch = Architecture(1, net.width, 1, context, vocab, n_layers=net.depth, d_mlp=net.width)
            most = self.statement.bound(Setting(arch, dtype="exact")).facts or 1
            examples.append((random_sequences(most, context, tokens, classes, rng=rng), arch))
        return examples

    def near_misses(self, rng: np.random.Generator) -> list[tuple[Any, Architecture, str]]:
        import numpy as np

        from rote.data import FactTable, Vocabulary, random_sequences

        words = Vocabulary(["a", "b", "c", "d"])
        swapped = FactTable(np.array([[0, 1, 2], [2, 0, 1]]), np.array([3, 2]), words)
        roomy = Architecture(1, 64, 1, 3, 4, n_layers=10_000, d_mlp=10_000)
        many = random_sequences(400, 4, 50, 2, rng=rng)
        return [
            (swapped, roomy, "order"),
            (many, Architecture(1, 8, 1, 4, 52, n_layers=60, d_mlp=8), "kajitsuka2025_next_token"),
            (many, Architecture(1, 8, 1, 5, 52, n_layers=6000, d_mlp=800), "context"),
        ]


construction = _Construction()
