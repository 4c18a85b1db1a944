"""What the two bit-extraction constructions share: plans, refusals, networks, and what the certificate says."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rote.config import LARGEST, Architecture, Dtype, Shape
from rote.constructions._base import Construction, Job, Needs, NoPlan, Options, Plan, T, option
from rote.constructions._data import check_sizes, wording
from rote.constructions._unknown import told_unknown
from rote.data.verification import unknown_sentence
from rote.errors import AssumptionError, CapacityError, UsageError
from rote.plot.sheet import Sheet
from rote.theorems import Bound, Demand, Setting
from rote.theorems._kajitsuka_theorem import BitExtraction, count_bags

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rote.data import FactTable, SequenceTable
    from rote.data.verification import Verification
    from rote.models import Model
    from rote.models.kinds.exact_transformer import ExactTransformerModel
    from rote.solvers.exact.memorise import Made
    from rote.solvers.exact.transformer import ExactTransformer, Precision

__all__ = ["BitConstruction", "BitOptions", "check_tokens", "labelled", "lower_bounds"]

TRIED = 1000
"""Contexts that are no facts of each kind, random ones and near misses, that a model is asked."""
_HOW = {"generic": "every weight read", "grouped": "after a check of every layer"}


def lower_bounds(exact: ExactTransformer, n_labels: int, n_classes: int) -> dict[str, Any]:
    """What no network can go below for so many labels, and how far above it this one is.

    Counting: W weights of B bits make at most 2^(W B) functions, so W B >= n log2 C, and so do all bits together.
    VC: 16 W^2 + 8 W >= n for networks of W real weights (see kajitsuka2025_next_token_upper).
    """
    info = n_labels * math.log2(max(2, n_classes))
    by_counting = max(1, math.ceil(info / exact.max_bits))
    by_vc = max(1, math.ceil((math.sqrt(64 + 64 * n_labels) - 8) / 32))
    return {
        "information_bits": info,
        "counting_params": by_counting,
        "vc_params": by_vc,
        "ratio_counting": exact.params / by_counting,
        "ratio_vc": exact.params / by_vc,
        "ratio_bits": exact.total_bits / info,
    }


@dataclass(frozen=True)
class BitOptions(Options):
    """What every bit extraction may be told."""

    variant: str | None = option(
        None, "Bit extraction: A (provable), B (for floats) or C (fewest weights).", choices=("A", "B", "C")
    )
    with_positions: bool = option(False, "Bit extraction: the order of tokens counts.")
    unknown: int | None = option(
        None, "Say unknown to contexts that are no facts, but for a share of 2^-BITS of them.", metavar="BITS", min=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unknown is not None and self.unknown < 1:
            raise UsageError(f"unknown must be a whole number of bits from 1, got {self.unknown}.")


B = TypeVar("B", bound=BitOptions)


class BitConstruction(Construction[T, B]):
    """An exact transformer of token-wise networks around one uniform attention layer.

    Depth and width come from the data, so the shape is left open unless a caller insists on one.
    """

    native = "exact"
    dtypes = ("exact", "float64", "float32")
    shaped_by = ()

    @property
    def statement(self) -> BitExtraction:
        """The theorem of the same name, which knows the sizes of the networks."""
        return cast(BitExtraction, self.theorem)

    def formats(self, dtype: Dtype) -> tuple[Dtype, ...]:
        """Floats are judged as they are, and by exact arithmetic on top."""
        return (dtype,) if dtype == "exact" else (dtype, "exact")

    def asked(self, demand: Demand, options: B) -> Demand:
        if options.variant not in (None, "A"):
            raise CapacityError(f"the size of variant {options.variant} depends on the data; build it to see.")
        if options.unknown is not None:
            raise CapacityError("with unknown the size depends on the tokens in use; build it to see.")
        return replace(demand, ordered=options.with_positions)

    def needs(self, demand: Demand, plan: Plan) -> Needs:
        # As measured: every fact is run by torch and in exact arithmetic.
        return Needs(700 * demand.n_facts, 1 + 3e-4 * demand.n_facts)

    def plan(self, demand: Demand) -> Plan | NoPlan:
        if demand.vectors:
            return NoPlan(self.key, "the network of vectors depends on how close they are; build it to see")
        bags = count_bags(demand.vocab, demand.context, demand.n_facts)
        bags = min(bags, demand.distinct_bags or bags)
        if demand.n_facts > bags and not demand.ordered:
            return NoPlan(
                self.key, f"it sums tokens, so order does not count: the {demand.n_facts:,} contexts are {bags:,} bags"
            )
        # A token at a position is then one token of a larger vocabulary.
        tokens = demand.vocab * (demand.context if demand.ordered else 1)
        network = partial(type(self.statement).network, demand.n_facts, demand.context, tokens, demand.vocab)
        net = network()
        if net is None:
            return NoPlan(self.key, "no network found")
        if demand.d_model is not None and demand.d_model < net.width:
            narrow = network(max_width=demand.d_model)
            if narrow is None:
                return NoPlan(self.key, f"d_model = {demand.d_model} is narrower than the network can be (8)")
            net = narrow
        arch = Architecture(
            n_heads=demand.n_heads or 1,
            d_model=demand.d_model or net.width,
            d_head=1,
            context=demand.context,
            vocab=demand.vocab,
            n_layers=net.depth,
            d_mlp=net.width,
        )
        # Whatever reads a token of the input reads its position too.
        readers = net.first.width if demand.ordered else 0
        differing = "positions count" if demand.ordered else "contexts must differ by more than order"
        return Plan(
            construction=self.key,
            architecture=arch,
            params=net.weights + readers,
            bytes=-(-(net.total_bits + readers * (tokens.bit_length() + 2)) // 8),
            facts=demand.n_facts,
            note=f"exact weights of up to {net.max_bits} bits; {differing}",
            dtype="exact",
            max_bits=net.max_bits,
            counts="non-zero weights of the explicit network",
        )

    def shapes(self, table: T, shape: Shape, dtype: Dtype, options: B) -> Iterator[Plan]:
        """Any depth and width will do."""
        demand = table.demand(dtype, shape)
        arch = Architecture(1, 1, 1, demand.context, demand.vocab, n_layers=LARGEST, d_mlp=LARGEST)
        yield self.as_plan(arch, demand)

    def limit(self, table: T, arch: Architecture, dtype: Dtype) -> Bound:
        return self.statement.bound(Setting(arch, dtype="exact"))

    def admit(self, job: Job[T, B]) -> None:
        if job.arch.n_layers < LARGEST:
            super().admit(job)
        self._check_unknown(job)
        job.progress("check the contexts", 0, 0, None)
        self.check_data(job)

    def _check_unknown(self, job: Job[T, B]) -> None:
        """Only variant A compares a key with those that it stores."""
        if job.options.unknown is None:
            return
        if job.table.words is None:
            raise UsageError("unknown is for contexts of tokens; leave it out for vectors.")
        if job.options.variant not in (None, "A") or job.dtype != "exact":
            raise UsageError(
                "variants B and C store no keys, so they cannot say unknown; use variant A, which is exact, or leave "
                "unknown out."
            )

    @abstractmethod
    def check_data(self, job: Job[T, B]) -> None:
        """Refuse data that break an assumption; the offenders are named."""

    @abstractmethod
    def memorise(self, job: Job[T, B], precision: Precision) -> Made:
        """The smallest exact transformer for these data."""

    def build(self, job: Job[T, B]) -> Model:
        from rote.models.kinds.exact_transformer import ExactTransformerModel

        job.progress("build the networks", 0, 0, None)
        made = self.memorise(job, cast("Precision", job.dtype))
        if made.transformer.depth > job.arch.n_layers or made.transformer.width > job.arch.d_mlp:
            made = self._within(job)
        return ExactTransformerModel(made.transformer, wording(job.table), report=made.report)

    def _within(self, job: Job[T, B]) -> Made:
        """The network of the bound, for a shape that the smallest one does not fit into."""
        from rote.solvers.exact.within import memorise_within

        arch, table, options = job.arch, cast("FactTable | SequenceTable", job.table), job.options
        net = self.statement.shallow(arch, table.n_facts)
        if (
            net is None
            or options.with_positions
            or options.unknown
            or job.dtype != "exact"
            or options.variant not in (None, "A")
        ):
            raise CapacityError(
                f"no network of {arch.n_layers:,} layers and width {arch.d_mlp:,} was found for these "
                f"{table.n_facts:,} facts; allow more depth or width, or leave the shape open."
            )
        labels, spelled = labelled(table)
        return memorise_within(
            table.contexts,
            labels,
            len(spelled),
            table.vocab,
            spelled,
            (net.first.cap, net.first.shape),
            (net.second.cap, net.second.shape),
            rng=job.rng,
        )

    def remeasured(
        self, table: T, model: Model, dtype: str, results: Mapping[str, Verification], claims: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        from rote.models.kinds.exact_transformer import ExactTransformerModel

        model = cast(ExactTransformerModel, model)
        exact = model.exact
        n_labels = table.n_facts * (exact.context if exact.task == "seq2seq" else 1)
        return {
            "task": exact.task,
            "precision": exact.precision,
            "variant": exact.variant,
            "with_positions": exact.with_positions,
            "depth": exact.depth,
            "width": exact.width,
            "max_bits": exact.max_bits,
            "total_bits": exact.total_bits,
            "padded_to": exact.positions_seen if exact.padding else None,
            **({"evaluator": results["exact"].evaluator} if "exact" in results else {}),
            **({"unknown": _said_unknown(model, table)} if exact.knows_unknown else {}),
            "lower_bounds": lower_bounds(exact, n_labels, exact.classes),
        }

    def sheet(self, certificate: Mapping[str, Any], place: str) -> Sheet:
        """The size of such a network is depth, weights and bits."""
        c, low = certificate, certificate["lower_bounds"]
        kept = round(c["recall"][c["dtype"]] * c["facts"])
        each = f" of {c['shape']['context']:,} labels" if c["task"] == "seq2seq" else ""
        lines = [
            f"{c['params']:,} non-zero weights of at most {c['max_bits']:,} bits, {c['total_bits']:,} bits in all; "
            f"depth {c['depth']:,}, width {c['width']:,}; seed {c['seed']}",
            f"{low['ratio_bits']:.2f} times the {low['information_bits']:,.0f} bits of the labels; "
            f"any labels need at least {max(low['vc_params'], low['counting_params']):,} weights",
        ]
        if c["padded_to"]:
            lines.append(
                f"contexts of {c['shape']['context']} are padded to {c['padded_to']} positions, so that means are exact"
            )
        if c.get("unknown"):
            lines.append(unknown_sentence(c["unknown"]))
        recalled = f"{kept:,} of {c['facts']:,} facts recalled"
        exactly = f"in exact arithmetic, {_HOW.get(c['evaluator'], 'not run')}"
        if c["dtype"] == "exact":
            lines.append(f"{recalled} {exactly}")
        else:
            also = round(c["recall"].get("exact", 0.0) * c["facts"])
            lines.append(f"{recalled} at {c['dtype']} by torch and referee; {also:,} {exactly}")
        lead = f": {c['facts']:,} facts{each} by {c['construction']}, variant {c['variant']}, {c['precision']}"
        return Sheet(place, lead, tuple(lines))


def _said_unknown(model: ExactTransformerModel, table: Any) -> dict[str, int]:
    """What a model says of contexts that are no facts."""
    import torch

    exact = model.exact

    def says_unknown(contexts: Any) -> Any:
        said = model.module(torch.from_numpy(contexts)).reshape(len(contexts), -1)
        # A context is told as unknown if a label of it is: one that is no label, or label 0.
        return ((said <= 0) | (said >= len(exact.labels))).any(dim=1).numpy()

    bits = exact.token_bits - table.n_facts.bit_length()
    return told_unknown(table, says_unknown, bits, TRIED, ordered=exact.with_positions)


def labelled(table: FactTable | SequenceTable) -> tuple[npt.NDArray[np.int64], tuple[int, ...]]:
    """Labels 0, 1, ... of the targets, and which tokens they stand for."""
    import numpy as np

    distinct, labels = np.unique(table.targets, return_inverse=True)
    return labels.reshape(table.targets.shape).astype(np.int64), tuple(int(t) for t in distinct)


def check_tokens(job: Job[Any, Any], key: str) -> None:
    """The shape must be that of the tokens, and contexts must differ by more than order; the pair is named."""
    from rote.solvers.exact.bags import equal_bags

    table: FactTable | SequenceTable = job.table
    sizes = (("context", table.context, job.arch.context), ("vocab", max(2, table.vocab), job.arch.vocab))
    check_sizes("facts", *sizes)
    clash = None if job.options.with_positions else equal_bags(table.contexts)
    if clash is None:
        return
    first, second, count = clash

    def text(row: int) -> str:
        return "(" + ", ".join(table.words.token(int(t)) for t in table.contexts[row]) + ")"

    if (table.contexts[first] == table.contexts[second]).all():
        alike, advice = "are equal", "Drop the duplicates."
    else:
        alike = "differ only by order"
        advice = "Build with positions, which counts (token, position), or drop one of them."
    raise AssumptionError(
        f"{key} adds up tokens, so contexts must differ as bags; facts {first + 1} {text(first)} and {second + 1} "
        f"{text(second)} {alike}, {count:,} such facts in all. {advice}"
    )
