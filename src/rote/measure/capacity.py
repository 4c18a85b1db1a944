"""`measure`: one shape's capacity with an interval over seeds, beside what is built and what is proved."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rote.capacity import bounds
from rote.errors import CapacityError, UsageError
from rote.measure.cell import Cell
from rote.measure.run import run_group
from rote.theorems import Bound, Setting

__all__ = ["Built", "Measurement", "measure", "student_interval"]


@dataclass(frozen=True)
class Built:
    """What one construction holds at the same shape, on the facts of the first seed."""

    construction: str
    capacity: int | None
    reason: str = ""


@dataclass(frozen=True)
class Measurement:
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
            "built": [
                {"construction": item.construction, "capacity": item.capacity, "reason": item.reason}
                for item in self.built
            ],
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


def measure(
    cell: Cell,
    *,
    seeds: int = 5,
    beside: bool = True,
    max_memory: int | None = None,
    device: str = "cpu",
    note: Callable[[str], None] | None = None,
) -> Measurement:
    """The capacity of `cell` over seeds 0, 1, ...; with `beside`, closed forms are measured at the same shape too.

    A trained capacity below a built one is possible, since training may fail where a construction does not; it is then
    said in `notes`.
    """
    if seeds < 1:
        raise UsageError(f"at least one seed is needed, got {seeds}.")
    if cell.task != "capacity":
        raise UsageError("measure searches for a capacity; for the recall of so many facts use a sweep.")
    cells = [cell.replace(seed=cell.seed + k) for k in range(seeds)]
    results = run_group([one.to_dict() for one in cells], max_memory=max_memory, device=device, note=note)
    lost = [item for item in results if item["status"] != "done"]
    if lost:
        raise CapacityError(f"{len(lost)} of {seeds} seeds gave no capacity: {lost[0]['reason'].rstrip('.')}.")
    values = [int(item["capacity"]) for item in results]
    built = tuple(_beside(cells[0], note)) if beside and cell.by == "train" else ()
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


def _beside(cell: Cell, note: Callable[[str], None] | None) -> list[Built]:
    """Every construction in floats that builds this family's shape, on the same facts."""
    from rote.building import builders

    if cell.n_layers != 1 or cell.spec.family not in ("transformer", "aot", "layer"):
        return []
    found = []
    kind = "vectors" if cell.vectors else "facts"
    family = "layer" if cell.vectors else "transformer"
    for key, builder in builders(kind).items():
        if builder.native != "floats":
            continue
        if key == "mlp_fit" and not cell.d_mlp:
            continue
        (item,) = run_group([cell.replace(by=key, family=family, recipe="best", steps=None).to_dict()], note=note)
        if item["status"] == "done":
            found.append(Built(key, int(item["capacity"])))
        else:
            found.append(Built(key, None, str(item["reason"])))
    return found


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
