"""The contract of constructions: what hands over weights, and everything that it may be told.

A file of this package makes one instance, called `construction`; its key is the file's name. The pipeline goes through
`shapes` (the plan first, then what to try if that loses facts), calls `admit` and then `build`, writes the model down
and lets the referee judge the files. `rote.testing.check_construction` holds a construction against this contract.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from rote.config import Architecture, Dtype, Shape, bits_of, check_dtype
from rote.data.arguments import check_fields
from rote.data.demand import Demand
from rote.data.left_out import LeftOut, told
from rote.data.table import Table
from rote.errors import AssumptionError, CapacityError, UnknownName, UsageError
from rote.plot.sheet import Grid, Sheet
from rote.solvers.record import Progress, quiet

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rote.constructions._operations import Edit, Edited, Located, Search
    from rote.data.verification import Verification
    from rote.models import Model
    from rote.theorems import Bound, Theorem

CHECKED: tuple[Dtype, ...] = ("float64", "float32", "bfloat16")
"""Number formats that every model of floats is judged in, besides its own."""


def stored_bytes(params: int, dtype: Dtype) -> int:
    """Bytes of so many weights; exact numbers are counted as 64-bit ones by callers that do not know better."""
    return params * (bits_of(dtype) or 64) // 8


def words(arch: Architecture) -> str:
    """A shape for people: `8 heads of 4, d_model 16`."""
    mlp = f", d_mlp {arch.d_mlp}" if arch.d_mlp else ""
    return f"{arch.n_heads} head{'s' if arch.n_heads > 1 else ''} of {arch.d_head}, d_model {arch.d_model}{mlp}"


DENSE = "all weights of the shape"


@dataclass(frozen=True)
class Needs:
    """What one attempt takes, roughly: the largest arrays, and the operations on them at a usual speed."""

    bytes: int
    seconds: float


@dataclass(frozen=True)
class Plan:
    """The smallest shape that a construction needs for a demand."""

    construction: str
    architecture: Architecture
    params: int
    bytes: int
    facts: int
    """How many facts the shape holds: at least as many as were asked for."""
    note: str = ""
    dtype: Dtype = "float32"
    max_bits: int | None = None
    """Bits of the widest weight, for exact networks."""
    counts: str = DENSE
    """Which weights `params` counts."""
    needs: Needs | None = None
    """What building it takes, where that is known."""
    measures: Mapping[str, Any] = field(default_factory=dict)
    """What else the construction promises of the shape, such as a divergence."""

    @property
    def size(self) -> str:
        """The parameters in words, and which of them are counted."""
        return f"{self.params:,} {'dense parameters' if self.counts == DENSE else f'parameters ({self.counts})'}"

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "construction": self.construction,
            "architecture": self.architecture.to_dict(),
            "params": self.params,
            "bytes": self.bytes,
            "facts": self.facts,
            "dtype": self.dtype,
            "counts": self.counts,
            "note": self.note,
        }
        if self.max_bits is not None:
            record["max_bits"] = self.max_bits
        if self.needs is not None:
            record |= {"build_seconds": round(self.needs.seconds, 1), "build_bytes": self.needs.bytes}
        return {**record, **self.measures}


@dataclass(frozen=True)
class NoPlan:
    """Why a construction has no shape for a demand."""

    construction: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        return {"construction": self.construction, "reason": self.reason}


@dataclass(frozen=True)
class Options:
    """What a construction may be told beyond the shape. Each has a frozen record of its own, made of `option` fields.

    The command line reads its switches off these records, and so does the explorer.
    """

    def __post_init__(self) -> None:
        check_fields(self)
        for item in dataclasses.fields(self):
            value, choices = getattr(self, item.name), item.metadata.get("choices")
            if choices and value not in (None, *choices):
                raise UnknownName(item.name, value, choices)

    def to_dict(self) -> dict[str, Any]:
        """For certificates: what differs from the defaults, but for where the work was done."""
        changed = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if value != item.default and not item.metadata.get("place"):
                changed[item.name] = [str(v) for v in value] if isinstance(value, tuple) else (
                    value if isinstance(value, (bool, int, float, str)) else str(value)
                )  # fmt: skip
        return changed

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; what is no record of these options is refused."""
        try:
            return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in record.items()})
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"these are no options of a {cls.__name__}: {error}; check their names and values."
            ) from None


def option(default: Any, help: str, **more: Any) -> Any:
    """A field of an Options record: its default, and the sentence that `--help` shows.

    With `place=True` it says where work is done: the weights do not depend on it, and the explorer has no field for it.
    """
    return field(default=default, metadata={"help": help, **more})


class SupportsSheet(Protocol):
    """A record that can be shown and written as JSON."""

    def sheet(self) -> Sheet: ...
    def to_dict(self) -> dict[str, Any]: ...


T = TypeVar("T", bound=Table)
O = TypeVar("O", bound=Options)  # noqa: E741


@dataclass(frozen=True)
class Job(Generic[T, O]):
    """One attempt: a table, a shape, and how."""

    table: T
    arch: Architecture
    options: O
    dtype: Dtype
    rng: np.random.Generator
    progress: Progress = quiet
    partial: bool = False
    """A model that loses facts is wanted too."""
    shape: Shape = field(default_factory=Shape)
    """What the caller fixed of the shape."""
    workplace: Path | None = None
    """A directory on the disk of the output, for what has to be kept until the model is written."""


_SPEED = 3e10
"""Operations per second that an ordinary machine gets out of matrix products."""


def fit_needs(demand: Demand, features: int, width: int, heads: int) -> Needs:
    """A convex fit of all facts with so many features, after heads of so many numbers together: the Gram matrix and its
    eigenvectors, the whitened rows, and scores of all classes in pieces, in some dozens of iterations."""
    rows, classes = demand.n_facts, demand.n_targets or demand.vocab
    memory = 40 * features**2 + 8 * rows * features + 16 * rows * width + 80_000 * classes
    work = 4 * rows * features**2 + 20 * features**3 + 120 * rows * width * (features + 2 * classes)
    return Needs(memory, (work + 600 * rows * demand.context * heads) / _SPEED)


def solve_needs(rows: int, unknowns: int) -> Needs:
    """A linear system in float64, factorised once or twice."""
    return Needs(40 * rows * unknowns, 8 * rows * unknowns * min(rows, unknowns) / _SPEED)


class Construction(ABC, Generic[T, O]):
    """A way to hand over weights."""

    key: str = ""
    accepts: ClassVar[tuple[str, ...]]
    """Kinds of tables."""
    Options: ClassVar[type[Options]] = Options
    title: ClassVar[str]
    """A few words, for lists."""
    verb: ClassVar[str] = "build"
    """The verb of the command line that builds with it."""
    arch: ClassVar[str] = "rote"
    """The architecture of the model: rote's own, or one of a stock library."""
    native: ClassVar[Dtype] = "float32"
    """The number format unless another is asked for."""
    dtypes: ClassVar[tuple[Dtype, ...]] = ("float64", "float32", "bfloat16", "float16")
    """Number formats that it can be asked for."""
    automatic: ClassVar[bool] = True
    """Whether `auto` tries it; one that needs to be told more than a table is only built by name."""
    shaped_by: ClassVar[tuple[str, ...]] = ("n_heads", "d_model", "d_head")
    """What of the shape may be given."""
    example_options: ClassVar[Mapping[str, Any]] = {}
    """Options with which the examples of the contract suite are built."""
    seeded: ClassVar[bool] = True
    """Whether the seed changes the weights."""
    exact: ClassVar[bool] = True
    """Whether `limit` is a promise: then more facts are refused before anything is computed."""
    estimate: ClassVar[str] = "bound"
    """What the certificate calls the limit."""
    edits: ClassVar[tuple[str, ...]] = ()
    """Changes of single facts that its models allow: set, forget, insert."""

    @property
    def told(self) -> tuple[str, ...]:
        """Everything that it may be told, by name: what of the shape, and its options."""
        return (*self.shaped_by, *(item.name for item in dataclasses.fields(self.Options)))

    @property
    def theorem(self) -> Theorem | None:
        """The statement of the same name, where there is one."""
        from rote import theorems

        return theorems.find(self.key)

    @property
    def source(self) -> str:
        """Where the construction comes from, for the certificate."""
        return self.title if self.theorem is None else str(self.theorem.citation)

    def prepare(self, table: T, options: O) -> T:
        """The table that is built and judged: the one given, unless something has to be done to it first."""
        return table

    def unfit(self, table: T, options: O) -> Sequence[LeftOut]:
        """Facts that no shape of this construction can hold, each with the reason."""
        return ()

    def fitting(self, table: T, options: O, *, drop: bool = False) -> T:
        """A prepared table, if all of it fits; with `drop`, without the facts that do not fit."""
        unfit = self.unfit(table, options)
        if unfit and not drop:
            raise AssumptionError(
                f"{self.key} cannot hold {len(unfit):,} of the {table.n_facts:,} {table.noun}: {told(unfit)}. Change "
                f"them, leave such {table.noun} out with drop_unfit, or build with another construction."
            )
        return table.leaving_out(unfit)

    # --- shapes -----------------------------------------------------------------------------------------------------

    def asked(self, demand: Demand, options: O) -> Demand:
        """The demand with what the options change about it, for `plan`; options that no plan knows of are refused."""
        return demand

    def plan(self, demand: Demand) -> Plan | NoPlan:
        """The smallest shape for a demand, without looking at data."""
        return NoPlan(self.key, "it needs the data to plan a shape")

    def variants(self, demand: Demand, plan: Plan) -> Iterator[Plan]:
        """Shapes to try, smallest first."""
        yield plan

    def shapes(self, table: T, shape: Shape, dtype: Dtype, options: O) -> Iterator[Plan]:
        """Shapes to try for a table, smallest first; a refusal where there is none."""
        demand = self.asked(table.demand(dtype, shape), options)
        if shape.n_heads is not None and demand.d_model is not None and shape.d_head is not None:
            yield self.as_plan(self.fixed(shape, demand), demand)
            return
        answer = self.plan(demand)
        if isinstance(answer, NoPlan):
            raise CapacityError(f"{self.key}: {answer.reason}.")
        for plan in self.variants(demand, answer):
            if shape.d_mlp is None:
                yield plan
            else:
                yield dataclasses.replace(plan, architecture=plan.architecture.replace(d_mlp=shape.d_mlp))

    def fixed(self, shape: Shape, demand: Demand) -> Architecture:
        """The architecture of a shape that is given in full."""
        assert shape.n_heads is not None and shape.d_head is not None and demand.d_model is not None
        if shape.d_mlp:
            raise UsageError(f"{self.key} has no MLP; leave out d_mlp, or build with mlp_fit.")
        return demand.shape(shape.n_heads, demand.d_model, shape.d_head)

    def as_plan(self, arch: Architecture, demand: Demand, *, params: int | None = None, **said: Any) -> Plan:
        """A shape with its size; `params` where not all weights count, and what else the plan says."""
        count = arch.params(demand.convention) if params is None else params
        said = {"facts": demand.n_facts, "dtype": demand.dtype, **said}
        return Plan(self.key, arch, count, stored_bytes(count, demand.dtype), **said)

    # --- one attempt ------------------------------------------------------------------------------------------------

    def check(self, table: T, arch: Architecture, options: O) -> None:
        """Refuse data that break an assumption (AssumptionError, naming the offenders), and shapes that do not fit."""

    def limit(self, table: T, arch: Architecture, dtype: Dtype) -> Bound | None:
        """What the statement says about these data and this shape; None where it says nothing."""
        return None

    def held(self, table: T, claims: Mapping[str, Any]) -> int:
        """The number of facts that `limit` is to be compared with; `claims` are the certificate's."""
        return table.n_facts

    def limits(
        self, table: T, shape: Shape, options: O, *, rng: int = 0, progress: Progress = quiet
    ) -> SupportsSheet | None:
        """What a table allows any model to do, apart from facts in shapes; None where there is no such thing."""
        return None

    def needs(self, demand: Demand, plan: Plan) -> Needs | None:
        """What an attempt at this shape takes; None where nobody knows."""
        return None

    def admit(self, job: Job[T, O]) -> None:
        """Refuse what cannot work, before anything is computed."""
        self.check(job.table, job.arch, job.options)
        if not self.exact:
            return
        bound = self.limit(job.table, job.arch, job.dtype)
        if bound is None:
            return
        failing = [c for c in bound.conditions if c.status == "not met"]
        if failing:
            reasons = "; ".join(f"{c.name} ({c.detail})" for c in failing)
            raise AssumptionError(f"{self.key} does not apply to {words(job.arch)}: {reasons}.")
        if bound.facts is None or job.table.n_facts <= bound.facts:
            return
        enough = self.plan(job.table.demand(job.dtype, Shape()))
        hint = (
            f"the smallest shape that would do is {words(enough.architecture)}"
            if isinstance(enough, Plan)
            else "see rote plan"
        )
        raise CapacityError(
            f"{self.key} holds {bound.facts:,} facts with {words(job.arch)} ({bound.formula}), "
            f"but there are {job.table.n_facts:,}; {hint}."
        )

    @abstractmethod
    def build(self, job: Job[T, O]) -> Model:
        """The model; the referee decides whether it recalls everything."""

    def measures(
        self, job: Job[T, O], model: Model, folder: Path, results: Mapping[str, Verification]
    ) -> Mapping[str, Any]:
        """What else is measured on the written model, for the certificate."""
        return self.remeasured(job.table, model, job.dtype, results, model.claims)

    def remeasured(
        self, table: T, model: Model, dtype: str, results: Mapping[str, Verification], claims: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Those of the measures that can be found out again when a stored model is verified.

        `dtype` is the format that it is stored in, `results` are verdicts by format, and `claims` the certificate's.
        """
        return {}

    # --- what may be done to its models -----------------------------------------------------------------------------

    def edited(self, edit: Edit) -> Edited:
        """A model with some facts changed and as little else as can be; called for the changes in `edits` only."""
        raise UsageError(
            f"{self.key} spreads every fact over weights that others use, so that none can be changed by itself; build "
            "the model again from the changed table."
        )

    def located(self, search: Search, row: int) -> Located | None:
        """Where a fact, by its number in the table, lies exactly; None where facts share their weights."""
        return None

    def readers(self, search: Search, tensor: str, index: tuple[Any, ...]) -> npt.NDArray[np.bool_] | None:
        """Which facts read some weights, if no other fact can notice what they are; None where that is not known."""
        return None

    # --- what is said about it --------------------------------------------------------------------------------------

    def formats(self, dtype: Dtype) -> tuple[Dtype, ...]:
        """Number formats in which the model is judged, the one that it is stored in among them."""
        return tuple(dict.fromkeys((*CHECKED, dtype)))

    def check_format(self, dtype: str | None) -> Dtype:
        """The number format to build in."""
        chosen = self.native if dtype is None else check_dtype(dtype)
        if chosen not in self.dtypes:
            raise UsageError(f"{self.key} is not made for {chosen}; choose one of {', '.join(self.dtypes)}.")
        return chosen

    def sheet(self, certificate: Mapping[str, Any], place: str) -> Sheet:
        """A certificate of this construction for people: shape, sizes, and recall in every number format."""
        c, shape = certificate, certificate["shape"]
        heads = f"{shape['n_heads']:,} head{'s' if shape['n_heads'] > 1 else ''} of {shape['d_head']}"
        mlp = f", MLP of {shape['d_mlp']:,}" if shape["d_mlp"] > 1 else ""
        stored = f" ({c['stored_params']:,} stored)" if c["stored_params"] != c["params"] else ""
        kind = f"stock {c['report']['model_type']} model, " if "model_type" in c["report"] else ""
        limit = f"; {self.estimate} {c['bound']:,} facts" if c["bound"] else ""
        rows = []
        for name, recall in c["recall"].items():
            shown = "100 %" if recall == 1.0 else f"{100 * recall:.4f} %"
            margin = c["min_margin"][name]
            own = f"{name}{'  (stored)' if name == c['dtype'] else ''}"
            rows.append((own, shown, "–" if margin is None else f"{margin:.3g}"))
        bits = f"{c['bits_per_param']:.3g} bits each"
        size = f"{kind}{c['params']:,} dense parameters{stored}, {bits}{limit}; seed {c['seed']}"
        lost = [f"{round((1 - r) * c['facts']):,} at {name}" for name, r in c["recall"].items() if r < 1]
        kept = c["recall"].get(c["dtype"]) == 1.0 and lost
        worst = min(c["recall"], key=lambda name: float(c["recall"][name]))
        warning = (f"facts lost in other number formats: {', '.join(lost)}; --dtype {worst} builds for it",)
        return Sheet(
            place,
            f": {c['facts']:,} facts by {c['construction']}, {heads}, d_model {shape['d_model']}{mlp}, "
            f"context {shape['context']}",
            (size, *(warning if kept else ())),
            (Grid(("number format", "recall", "smallest margin"), tuple(rows)),),
        )

    # --- for the contract suite -------------------------------------------------------------------------------------

    def examples(self, rng: np.random.Generator) -> Sequence[tuple[T, Shape | Architecture]]:
        """Small tables at the bound, with shapes that hold them."""
        return []

    def near_misses(self, rng: np.random.Generator) -> Sequence[tuple[T, Shape | Architecture, str]]:
        """Tables that break an assumption or exceed the bound, with a word that the refusal must contain."""
        return []


AnyConstruction = Construction[Any, Any]
