"""`measure`: one shape's capacity with an interval over seeds, beside what is built and what is proved."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rote.capacity import bounds
from rote.data.arguments import checked
from rote.data.generate import check_sharing
from rote.errors import CapacityError, UsageError
from rote.measurement.cell import Cell
from rote.measurement.journal import Journal
from rote.measurement.machine import check_device, memory_bytes
from rote.measurement.run import run_group
from rote.measurement.tries import Tries
from rote.plot import Grid, Sheet, Shown
from rote.plot.sheet import number
from rote.theorems import Bound, Setting

__all__ = ["Built", "Measurement", "measure", "measure_cell", "student_interval"]


@dataclass(frozen=True)
class Built:
    """What one construction holds at the same shape, on the facts of the first seed."""

    construction: str
    capacity: int | None
    reason: str = ""


@dataclass(frozen=True, repr=False)
class Measurement(Shown):
    """A capacity: the mean over seeds of the largest number of facts that came back, and how sure that is."""

    cell: Cell
    capacity: int
    interval: tuple[float, float] | None
    """95 % interval of the mean (Student's t); None with one seed."""
    by_seed: tuple[dict[str, Any], ...]
    params: int
    bounds: tuple[Bound, ...]
    built: tuple[Built, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def bits_per_param(self) -> float | None:
        bits = self.capacity * self.cell.bits_per_fact / self.params
        return None if math.isnan(bits) else bits

    def sheet(self) -> Sheet:
        """What was measured, what is built and what is proved at the same shape."""
        cell, arch = self.cell, self.cell.arch
        targets = "real targets" if cell.regression else f"{cell.vocab:,} {'classes' if cell.vectors else 'tokens'}"
        layers = f"{arch.n_layers} layer{'s' if arch.n_layers > 1 else ''}"
        shape = f"{arch.n_heads} heads of width {arch.d_head}, d_model {arch.d_model}, d_mlp {arch.d_mlp}"
        builders = ", ".join(dict.fromkeys(item["construction"] for item in self.by_seed))
        way = f"trained ({cell.recipe})" if cell.by == "train" else f"built ({builders})"
        span = "–" if self.interval is None else f"{self.interval[0]:,.0f} to {self.interval[1]:,.0f}"
        rows = [(way, number(self.capacity), span, number(self.bits_per_param))]
        for item in self.built:
            bits = None if item.capacity is None else item.capacity * cell.bits_per_fact / self.params
            shown = None if cell.regression else bits
            rows.append((f"built ({item.construction})", number(item.capacity), "", number(shown)))
        for bound in self.bounds:
            rows.append((f"{bound.kind}: {bound.theorem}", number(bound.facts), "", number(bound.bits_per_param)))
        held = [item["capacity"] for item in self.by_seed]
        return Sheet(
            f"{layers}, {shape}, context {arch.context}, {targets}",
            lines=(f"{self.params:,} dense parameters; recall of {100 * cell.recall:.4g} %; {len(held)} seeds",),
            grids=(Grid(("", "facts", "95 % interval", "bits/param"), tuple(rows)),),
            notes=(
                f"Seeds from {min(held):,} to {max(held):,}; brackets are {100 * cell.tolerance:.3g} % wide or "
                "narrower.",
                *(f"{one.construction}: {one.reason.rstrip('.')}." for one in self.built if one.capacity is None),
                *self.notes,
            ),
        )

    def __repr__(self) -> str:
        span = "" if self.interval is None else f" ({self.interval[0]:,.0f} to {self.interval[1]:,.0f})"
        way = f"trained by {self.cell.recipe}" if self.cell.by == "train" else f"built by {self.cell.by}"
        return f"Measurement({self.capacity:,} facts{span} in {self.params:,} parameters, {way})"

    def to_dict(self) -> dict[str, Any]:
        return {
            "capacity": self.capacity,
            "interval": None if self.interval is None else list(self.interval),
            "seeds": list(self.by_seed),
            "by": self.cell.by,
            "recipe": self.cell.recipe if self.cell.by == "train" else None,
            "recall": self.cell.recall,
            "tolerance": self.cell.tolerance,
            "params": self.params,
            "bits_per_param": None if self.bits_per_param is None else float(f"{self.bits_per_param:.6g}"),
            "family": self.cell.spec.family,
            "architecture": self.cell.arch.to_dict(),
            "built": [asdict(item) for item in self.built],
            "bounds": [item.to_dict() for item in self.bounds],
            "notes": list(self.notes),
        }


def student_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """An interval for the mean of a few values; None for fewer than two."""
    count = len(values)
    if count < 2:
        return None
    from scipy.stats import t

    mean = sum(values) / count
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1) / count)
    reach = float(t.ppf(0.5 + level / 2, count - 1)) * spread
    return mean - reach, mean + reach


@checked
def measure(
    *,
    n_heads: int,
    d_model: int,
    context: int,
    vocab: int,
    d_head: int | None = None,
    n_layers: int = 1,
    d_mlp: int = 0,
    gated: bool = False,
    with_: str = "train",
    recipe: str = "best",
    family: str | None = None,
    recall: float = 1.0,
    tolerance: float = 0.02,
    steps: int | None = None,
    rate: float | None = None,
    sharing: str | float = "own",
    dtype: str = "float32",
    seeds: int = 5,
    seed: int = 0,
    beside: bool = True,
    max_memory: int | str | None = None,
    device: str = "cpu",
    journal: str | Path | None = None,
    note: Callable[[str], None] | None = None,
) -> Measurement:
    """The largest number of random facts that a shape recalls: bracketing, then bisection, with a stack of seeds.

    `with_` is "train" (then `recipe` says how), "build" (the best construction), or the name of a construction.
    `family` is transformer, aot, prenorm or layer; for layer `vocab` is the number of classes, 0 for real targets, and
    `sharing` says how examples share their context: own, shared, or a share of the rows. `recall` is the share of the
    facts that must come back; the search stops when the bracket is narrower than `tolerance`. Seeds are `seed`,
    `seed + 1`, ...; each has facts and weights of its own. With `beside`, closed forms are measured at the same shape
    too. Every try is kept in the file `journal`, if one is named, and the same call goes on from what is there. `note`
    is told what goes on.

        >>> measure(n_heads=3, d_model=4, context=2, vocab=12, with_="dana2025_cor1", seeds=2)
        Measurement(16 facts (16 to 16) in 296 parameters, built by dana2025_cor1)
    """
    cell = Cell(
        n_heads=n_heads,
        d_model=d_model,
        context=context,
        vocab=vocab,
        d_head=d_head,
        n_layers=n_layers,
        d_mlp=d_mlp,
        gated=gated,
        by=with_,
        recipe=recipe,
        family=family,
        recall=recall,
        tolerance=tolerance,
        steps=steps,
        rate=rate,
        sharing=check_sharing(sharing),
        dtype=dtype,
        seed=seed,
    )
    with Journal(journal) if journal is not None else nullcontext() as kept:
        return measure_cell(
            cell,
            seeds=seeds,
            beside=beside,
            max_memory=memory_bytes(max_memory),
            device=check_device(device),
            tries=Tries(kept),
            note=note,
        )


def measure_cell(
    cell: Cell,
    *,
    seeds: int = 5,
    beside: bool = True,
    max_memory: int | None = None,
    device: str = "cpu",
    tries: Tries | None = None,
    note: Callable[[str], None] | None = None,
) -> Measurement:
    """The capacity of `cell` over its seed and the ones after it; with `beside`, closed forms at the same shape too.

    A trained capacity below a built one is possible, since training may fail where a construction does not; it is then
    said in `notes`.
    """
    if seeds < 1:
        raise UsageError(f"at least one seed is needed, got {seeds}.")
    if cell.task != "capacity":
        raise UsageError("measure searches for a capacity; for the recall of so many facts use a sweep.")
    cells = [cell.replace(seed=cell.seed + k) for k in range(seeds)]
    results = run_group([one.to_dict() for one in cells], max_memory=max_memory, device=device, note=note, tries=tries)
    lost = [item for item in results if item["status"] != "done"]
    if lost:
        raise CapacityError(f"{len(lost)} of {seeds} seeds gave no capacity: {lost[0]['reason'].rstrip('.')}.")
    values = [int(item["capacity"]) for item in results]
    built = tuple(_beside(cells[0], note, tries)) if beside and cell.by == "train" else ()
    return Measurement(
        cell=cell,
        capacity=math.floor(sum(values) / len(values)),
        interval=student_interval(values),
        by_seed=tuple(
            {
                "seed": one.seed,
                "capacity": item["capacity"],
                "failed_at": item["failed_at"],
                "tries": item["tries"],
                "construction": item["trained_by"],
            }
            for one, item in zip(cells, results, strict=True)
        ),
        params=int(results[0]["params"]),
        bounds=tuple(_bounds(cell)),
        built=built,
        notes=tuple(_notes(cell, values, built)),
    )


def _beside(cell: Cell, note: Callable[[str], None] | None, tries: Tries | None) -> list[Built]:
    """Every construction in floats that builds this family's shape, on the same facts."""
    from rote.constructions import measurable

    if cell.n_layers != 1 or cell.spec.family not in ("transformer", "aot", "layer"):
        return []
    capacities = []
    kind = "vectors" if cell.vectors else "facts"
    family = "layer" if cell.vectors else "transformer"
    for key, construction in measurable(kind).items():
        if "d_mlp" in construction.shaped_by and not cell.d_mlp:
            continue
        record = cell.replace(by=key, family=family, recipe="best", steps=None).to_dict()
        (item,) = run_group([record], note=note, tries=tries)
        if item["status"] == "done":
            capacities.append(Built(key, int(item["capacity"])))
        else:
            capacities.append(Built(key, None, str(item["reason"])))
    return capacities


def _bounds(cell: Cell) -> list[Bound]:
    """What the theorems say about the shape, those with a number."""
    from rote import theorems

    setting = Setting(cell.arch, shared_context=cell.vectors and cell.sharing == 1)
    known = theorems.registry()
    return [
        item
        for item in bounds(setting)
        if item.facts is not None and (item.theorem == "counting" or known[item.theorem].takes_vectors == cell.vectors)
    ]


def _notes(cell: Cell, values: Sequence[int], built: Sequence[Built]) -> list[str]:
    notes = []
    for item in built:
        if item.capacity is not None and item.capacity > values[0]:
            notes.append(
                f"{item.construction} builds {item.capacity:,} facts into this shape, training reached {values[0]:,} "
                "on the same facts: what was measured is the training, not the shape. Try more steps."
            )
    if all(value >= cell.most for value in values):
        notes.append(f"every context there is fits ({cell.most:,}): the shape may hold more than can be asked.")
    return notes
