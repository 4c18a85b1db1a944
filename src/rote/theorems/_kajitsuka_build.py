"""Building bit-extraction transformers: what is refused, and which networks are made, for token facts and sequences."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from rote.config import Architecture, check_dtype
from rote.errors import AssumptionError, CapacityError, ShapeError, UsageError
from rote.theorems._base import Setting
from rote.theorems._kajitsuka_theorem import BitExtraction

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rote.data import FactTable, SequenceTable
    from rote.solvers.exact.memorise import Made
    from rote.solvers.exact.transformer import Precision
    from rote.solvers.record import Construction, Options, Progress

__all__ = ["BitExtractionBuilder", "check_bags", "precision_of", "wrapped"]

Data = TypeVar("Data", bound="FactTable | SequenceTable | Any")


def precision_of(dtype: str) -> Precision:
    """The number format as a precision of these networks."""
    for known in ("exact", "float64", "float32"):
        if dtype == known:
            return known
    raise UsageError(f"bit extraction needs exact weights, float64 or float32; {dtype} rounds them. Use --precision.")


def check_bags(data: FactTable | SequenceTable, with_positions: bool, theorem: str) -> None:
    """Contexts must differ by more than order; the pair is named."""
    from rote.solvers.exact.bags import equal_bags

    if with_positions:
        return
    clash = equal_bags(data.contexts)
    if clash is None:
        return
    first, second, count = clash
    words = data.vocabulary.token

    def text(row: int) -> str:
        return "(" + ", ".join(words(int(t)) for t in data.contexts[row]) + ")"

    if (data.contexts[first] == data.contexts[second]).all():
        alike, advice = "are equal", "Drop the duplicates."
    else:
        alike = "differ only by order"
        advice = "Pass --with-positions, which counts (token, position), or drop one of them."
    raise AssumptionError(
        f"{theorem} adds up tokens, so contexts must differ as bags; facts {first + 1} {text(first)} and {second + 1} "
        f"{text(second)} {alike}, {count:,} such facts in all. {advice}"
    )


def wrapped(made: Made) -> Construction:
    """The transformer as tensors, with its report."""
    import torch

    from rote.solvers.exact.checkpoint import transformer_arrays
    from rote.solvers.record import Construction

    model = made.transformer
    arch = Architecture(
        n_heads=1,
        d_model=model.width,
        d_head=1,
        context=model.context,
        vocab=max(2, model.vocab),
        n_layers=model.depth,
        d_mlp=model.width,
    )
    tensors = {name: torch.from_numpy(array.copy()) for name, array in transformer_arrays(model).items()}
    return Construction("exact_transformer", arch, tensors, made.report, config=model.to_dict())


class BitExtractionBuilder(BitExtraction[Data]):
    """Token facts or token sequences into exact transformers."""

    def setting(self, data: Data, arch: Architecture, dtype: str) -> Setting:
        return Setting(arch, dtype=check_dtype(dtype))

    def admit(self, data: Data, arch: Architecture) -> None:
        for name, given, found in (("context", arch.context, data.context), ("vocab", arch.vocab, max(2, data.vocab))):
            if given != found:
                raise ShapeError(f"the facts have {name} {found}, the shape says {given}.")

    def labelled(self, data: Data) -> tuple[npt.NDArray[np.int64], tuple[int, ...]]:
        """Labels 0, 1, ... of the targets, and which tokens they stand for."""
        import numpy as np

        distinct, labels = np.unique(data.targets, return_inverse=True)
        return labels.reshape(data.targets.shape).astype(np.int64), tuple(int(t) for t in distinct)

    @abstractmethod
    def memorise(
        self, data: Data, precision: Precision, variant: str | None, with_positions: bool, rng: np.random.Generator
    ) -> Made:
        """The smallest exact transformer for these data."""

    def check_data(self, data: Data, options: Options) -> None:
        """Refuse data that break an assumption."""
        check_bags(data, options.with_positions, self.key)

    def build(
        self, data: Data, arch: Architecture, *, rng: np.random.Generator, options: Options, progress: Progress
    ) -> Construction:
        progress("check the contexts", 0, 1, None)
        self.check_data(data, options)
        precision = precision_of(options.dtype)
        progress("build the networks", 0, 1, None)
        made = self.memorise(data, precision, options.variant, options.with_positions, rng)
        model = made.transformer
        if model.depth <= arch.n_layers and model.width <= arch.d_mlp:
            return wrapped(made)
        made = self._within(data, arch, rng, options)
        return wrapped(made)

    def _within(self, data: Data, arch: Architecture, rng: np.random.Generator, options: Options) -> Made:
        """The network of the bound, for a shape that the smallest one does not fit into."""
        from rote.solvers.exact.within import memorise_within

        net = self._shallow(arch, data.n_facts)
        if net is None or options.with_positions or options.dtype != "exact" or options.variant not in (None, "A"):
            raise CapacityError(
                f"no network of {arch.n_layers:,} layers and width {arch.d_mlp:,} was found for these "
                f"{data.n_facts:,} facts; allow more depth or width, or leave the shape open."
            )
        labels, spelled = self.labelled(data)
        return memorise_within(data.contexts, labels, len(spelled), data.vocab, spelled, net.first, net.second, rng=rng)
