"""One cell of a measurement: a frozen, typed configuration with a content hash."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rote.config import Architecture, check_dtype, content_hash
from rote.data.generate import check_sharing
from rote.errors import ShapeError, UnknownName, UsageError, check_names
from rote.training import ModelSpec, Recipe, get_recipe
from rote.training.spec import check_family

__all__ = ["TASKS", "Cell"]

TASKS = ("capacity", "recall")
_FORMAT = 1
"""Part of every hash: results of another way of counting never answer for this one."""
_OVERLOADED = 1.6
"""Bits a parameter beyond which no trained model of ours has recalled everything."""
_MOST_SEED = 2**63 - 1


@dataclass(frozen=True)
class Cell:
    """What is measured: the capacity of a shape, or the recall of so many facts; by training or by a construction.

    `n_facts` is for the task "recall"; None means every context there is. `d_head` is d_model if not given, `family`
    the recipe's own. For the family "layer" `vocab` is the number of classes, or 0 for real targets.
    """

    n_heads: int
    d_model: int
    context: int
    vocab: int
    d_head: int | None = None
    n_layers: int = 1
    d_mlp: int = 0
    gated: bool = False
    task: str = "capacity"
    by: str = "train"
    recipe: str = "best"
    family: str | None = None
    n_facts: int | None = None
    recall: float = 1.0
    tolerance: float = 0.02
    steps: int | None = None
    rate: float | None = None
    sharing: float = 0.0
    dtype: str = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_type(field.name, getattr(self, field.name), str(field.type))
        if self.task not in TASKS:
            raise UnknownName("task", self.task, TASKS)
        if not 0 < self.recall <= 1:
            raise UsageError(f"recall is a share above 0 and up to 1, got {self.recall}.")
        if not 0 <= self.tolerance < 1:
            raise UsageError(f"tolerance is a share from 0 to below 1, got {self.tolerance}.")
        if not 0 <= self.seed <= _MOST_SEED:
            raise UsageError(f"a seed is a whole number from 0, got {self.seed}.")
        for name, value in (("n_facts", self.n_facts), ("steps", self.steps)):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}.")
        if self.task == "capacity" and self.n_facts is not None:
            raise UsageError("a capacity is searched for, so n_facts is for the task 'recall'; leave it out.")
        check_sharing(self.sharing)
        check_dtype(self.dtype)
        get_recipe(self.recipe)
        if self.family is not None:
            check_family(self.family)
        if self.by != "train":
            self._check_builder()
        self.spec  # noqa: B018  (refuses shapes that cannot be)
        if self.task == "recall":
            self._check_count()

    def _check_builder(self) -> None:
        from rote.constructions import measurable

        names = list(measurable("vectors" if self.vectors else "facts"))
        if self.by not in (*names, "build"):
            raise UnknownName("way to measure", self.by, ["train", "build", *names])

    def _check_count(self) -> None:
        if self.vectors:
            if self.n_facts is None:
                raise UsageError("for vectors the task 'recall' needs n_facts: there is no end of vectors.")
            return
        most = self.most
        if self.n_facts is None and most > 10**7:
            raise UsageError(f"there are {most:.3g} contexts; say how many facts (n_facts).")
        if self.n_facts is not None and self.n_facts > most:
            raise UsageError(
                f"{self.vocab} tokens in {self.context} places make {most:,} contexts, so n_facts cannot be "
                f"{self.n_facts:,}."
            )

    @property
    def vectors(self) -> bool:
        return (self.family or self._recipe_family) == "layer"

    @property
    def _recipe_family(self) -> str:
        return get_recipe(self.recipe).family if self.by == "train" else "transformer"

    @property
    def regression(self) -> bool:
        return self.vectors and self.vocab == 0

    @property
    def arch(self) -> Architecture:
        return Architecture(
            n_heads=self.n_heads,
            d_model=self.d_model,
            d_head=self.d_model if self.d_head is None else self.d_head,
            context=self.context,
            vocab=2 if self.regression else self.vocab,
            n_layers=self.n_layers,
            d_mlp=self.d_mlp,
            gated=self.gated,
        )

    @property
    def spec(self) -> ModelSpec:
        return ModelSpec(check_family(self.family or self._recipe_family), self.arch, self.regression)

    @property
    def most(self) -> int:
        """Distinct contexts, as far as that is a limit."""
        if self.vectors or self.context * math.log2(self.vocab) > 40:
            return 10**12
        return int(self.vocab**self.context)

    @property
    def bits_per_fact(self) -> float:
        """log2 of the number of targets; not a number for real targets."""
        return math.nan if self.regression else math.log2(self.vocab)

    def training(self) -> Recipe:
        """The recipe with this cell's changes; the one for overload where more is asked than can be held."""
        recipe = get_recipe(self.recipe)
        if recipe.name == "best" and self.task == "recall" and not self.regression:
            count = self.n_facts or self.most
            if count * self.bits_per_fact > _OVERLOADED * self.spec.params:
                recipe = get_recipe("best_overload")
        return recipe.adjusted(steps=self.steps, rate=self.rate)

    def replace(self, **changes: Any) -> Cell:
        return Cell.from_dict({**self.to_dict(), **changes})

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Cell:
        """The inverse of `to_dict`; unknown keys are refused with the nearest name, missing ones by name."""
        check_names("key", record, {field.name for field in dataclasses.fields(cls)})
        missing = [name for name in ("n_heads", "d_model", "context", "vocab") if name not in record]
        if missing:
            raise ShapeError(f"a cell needs {', '.join(missing)}, missing here.")
        values = dict(record)
        for name in ("recall", "tolerance", "rate", "sharing"):
            if name == "sharing" and isinstance(values.get(name), str):
                values[name] = check_sharing(values[name])
            if isinstance(values.get(name), int) and not isinstance(values[name], bool):
                values[name] = float(values[name])
        return cls(**values)

    @property
    def hash(self) -> str:
        """A content hash: the same cell has the same one on every machine."""
        return content_hash({"format": _FORMAT, **self.to_dict()})

    @property
    def group(self) -> str:
        """The hash without the seed: cells of one group are trained as one stack."""
        record = self.to_dict()
        del record["seed"]
        return content_hash({"format": _FORMAT, **record})

    @property
    def short(self) -> str:
        """The cell in a few words, for messages."""
        d_head = "" if self.d_head is None else f", d_head {self.d_head}"
        return f"(n_heads {self.n_heads}, d_model {self.d_model}{d_head}, vocab {self.vocab}, seed {self.seed})"

    @property
    def runner(self) -> Callable[..., list[dict[str, Any]]]:
        """What a worker calls with the records of a group."""
        from rote.measurement.run import run_group

        return run_group


_TYPES: dict[str, tuple[type, str]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "str": (str, "a text"),
    "bool": (bool, "true or false"),
}


def _check_type(name: str, value: object, declared: str) -> None:
    optional = declared.endswith("| None")
    kind, words = _TYPES[declared.split(" ", 1)[0]]
    if value is None and optional:
        return
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise UsageError(f"{name} must be {words}, got {value!r}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{name} must be a finite number, got {value!r}.")
