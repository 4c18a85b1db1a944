"""Next-token labels with O~(sqrt T) parameters (Kajitsuka, Sato 2025, next-token prediction).

Statement: for any T sequences of n tokens that are distinct up to the order of their tokens, with labels in [C], there
           is a transformer (token-wise ReLU network, one self-attention layer with uniform attention, token-wise ReLU
           network) that gives every sequence its label, with O~(sqrt T) parameters of O~(sqrt T) bits, nearly
           independently of n. (For vectors instead of token ids: tokens of norm <= r that are equal or delta apart.)
Notation:  T = n_facts, n = context, V = C = vocab.
Source:    arXiv 2409.17677.
Differs:   the networks are derived anew, so that the size is an explicit number and not an order; see `_kajitsuka`.
           A shape "holds" T facts if it has enough layers and width for the network of any T facts. What is built for
           given data is smaller: tokens are hashed where that tells the sequences apart, and variants B and C of the
           second network store no keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.config import Architecture
from rote.errors import AssumptionError, UsageError
from rote.theorems._base import Setting
from rote.theorems._citations import kajitsuka2025
from rote.theorems._kajitsuka import next_token_net
from rote.theorems._kajitsuka_build import BitExtractionBuilder, check_bags

if TYPE_CHECKING:
    import numpy as np

    from rote.data import FactTable, VectorTable
    from rote.solvers.exact.memorise import Made
    from rote.solvers.exact.transformer import Precision
    from rote.solvers.record import Options

__all__ = ["theorem"]


class _Theorem(BitExtractionBuilder[Any]):
    title = "Bit extraction, one label a sequence"
    citation = kajitsuka2025("next-token prediction")
    statement = "O~(sqrt T) exact weights label any T sequences that differ by more than the order of their tokens."
    network = staticmethod(next_token_net)
    labels_per_fact = staticmethod(lambda context: 1)
    bag_note = "no two contexts may be permutations of each other"
    takes = "facts"
    also_takes = ("vectors",)

    def setting(self, data: FactTable | VectorTable, arch: Architecture, dtype: str) -> Setting:
        return super().setting(data, arch, dtype)

    def admit(self, data: FactTable | VectorTable, arch: Architecture) -> None:
        from rote.data import FactTable

        if isinstance(data, FactTable):
            super().admit(data, arch)
        elif data.n_classes is None:
            raise AssumptionError(f"{self.key} stores labels, and these vectors have real targets; give class labels.")

    def check_data(self, data: FactTable | VectorTable, options: Options) -> None:
        from rote.data import FactTable

        if isinstance(data, FactTable):
            if options.delta is not None or options.radius is not None:
                raise UsageError("--delta and --radius are for vectors; token ids are whole numbers, 1 apart.")
            check_bags(data, options.with_positions, self.key)
            return
        from rote.theorems._kajitsuka_vectors import check_vectors

        check_vectors(data, options, self.key)

    def memorise(
        self, data: FactTable | VectorTable, precision: Precision, variant: str | None, with_positions: bool,
        rng: np.random.Generator,
    ) -> Made:  # fmt: skip
        from rote.data import FactTable
        from rote.solvers.exact.memorise import check_variant, memorise_sequences

        chosen = check_variant(variant, precision)
        if not isinstance(data, FactTable):
            from rote.solvers.exact.vectors import memorise_vectors

            return memorise_vectors(
                data.sequences(), data.targets.astype(int), int(data.n_classes or 2), variant=chosen, rng=rng
            )
        labels, spelled = self.labelled(data)
        return memorise_sequences(
            data.contexts, labels, len(spelled), data.vocab, spelled,
            precision=precision, variant=chosen, with_positions=with_positions, rng=rng,
        )  # fmt: skip

    def examples(self, rng: np.random.Generator) -> list[tuple[Any, Architecture]]:
        from rote.data import random_sequences

        found: list[tuple[Any, Architecture]] = []
        for facts, context, tokens, classes, narrow in ((30, 6, 40, 3, False), (60, 4, 100, 2, True)):
            vocab = tokens + classes
            net = next_token_net(facts, context, vocab, vocab, max_width=7 if narrow else None)
            assert net is not None, "width 7 is enough"
            arch = Architecture(1, net.width, 1, context, vocab, n_layers=net.depth, d_mlp=net.width)
            most = self.bound(Setting(arch, dtype="exact")).facts or 1
            found.append((random_sequences(most, context, tokens, classes, rng=rng), arch))
        return found

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


theorem = _Theorem()
