"""Recipes as data: how a model is trained, complete enough to be repeated.

dana2025        as published: 2^14 draws with replacement, batches of 2^8, 64 epochs, Adam. Their scheduler multiplies,
                so the rate falls per epoch from 0.1 * 0.1 to 0.1 * 0.005. Published accuracy: mean over the last 100
                training batches (the very last one is left out), so a fact counts as often as it was drawn.
dana2025_mlp    the same with the smaller end rate that they use for the MLP model, 2^18 draws, batches of 2^10
dana2025_exp5   the same as dana2025_mlp with the end rate that they use for attention alone, 0.0005
dana2025_large  2^16 draws, batches of 2^10, as in their notebook
dana2025_deep   2^16 draws, batches of 2^9, constant rate 0.0025
dana2025_full   the same draws as weights of a full batch: 2^14 * 64 samples in 419 steps
mahdavi2024     as published: batches of 256, Adam, 5 % linear warm-up from 1/100, then cosine to zero, 500 epochs
                but at least 50,000 steps; checked every 500 steps, stopped at 100 %, best loss kept
best            full batch, SOAP, cross-entropy; stopped when every fact is recalled, best checkpoint kept
best_overload   for more facts than fit: late generalised cross-entropy, which gives up the hopeless ones
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

from rote.errors import UnknownName, UsageError, check_names

__all__ = ["RECIPES", "Recipe", "get_recipe"]


@dataclass(frozen=True)
class Recipe:
    """One way to train. Exactly one of `epochs` and `steps` counts the work."""

    name: str
    optimiser: Literal["adam", "soap"]
    rate: float
    rate_end: float
    schedule: Literal["linear_epochs", "linear", "warmup_cosine"]
    batch: int | None = None
    """Facts in a step; None for all of them."""
    draws: int | None = None
    """Facts drawn with replacement before training; None for every fact once."""
    epochs: int | None = None
    steps: int | None = None
    least_steps: int = 0
    betas: tuple[float, float] = (0.9, 0.999)
    warmup: float = 0.0
    gce: float = 0.0
    """Exponent q of the generalised cross-entropy (1 - p^q)/q that is reached at the end; 0 for cross-entropy."""
    gce_from: float = 0.5
    gce_to: float = 0.8
    check_every: int = 10
    stop_when_all: bool = False
    keep: Literal["last", "best_recall", "best_loss"] = "last"
    family: Literal["transformer", "aot", "layer"] = "transformer"
    """The model that the recipe was published for, taken where none is named."""

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.steps is None):
            raise UsageError(f"recipe {self.name}: give epochs or steps, and not both.")
        if self.rate <= 0 or not math.isfinite(self.rate):
            raise UsageError(f"recipe {self.name}: the learning rate must be positive, got {self.rate}.")

    def replace(self, **changes: object) -> Recipe:
        """A copy with some fields changed; an unknown field is refused with the nearest name."""
        check_names("field of Recipe", changes, {item.name for item in dataclasses.fields(self)})
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def adjusted(self, *, steps: int | None = None, rate: float | None = None, batch: int | None = None) -> Recipe:
        """A copy with another number of steps, another first rate (the last one moves with it), or another batch.

        Schedules that count epochs count steps instead where the number of steps is given.
        """
        recipe = self
        if steps is not None:
            schedule = "linear" if self.schedule == "linear_epochs" else self.schedule
            recipe = recipe.replace(steps=steps, epochs=None, schedule=schedule)
        if rate is not None:
            recipe = recipe.replace(rate=rate, rate_end=recipe.rate_end * rate / recipe.rate)
        return recipe if batch is None else recipe.replace(batch=batch)

    def n_steps(self, n_facts: int) -> int:
        """How many steps so many facts take."""
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        rows = self.draws or n_facts
        if self.schedule == "warmup_cosine":
            # As published: whole steps of epochs times facts, not of batches.
            return max(self.epochs * rows // (self.batch or rows), self.least_steps)
        return max(self.epochs * -(-rows // (self.batch or rows)), self.least_steps)

    def rate_at(self, step: int, total: int) -> float:
        """The learning rate of a step, counted from 0."""
        if self.schedule == "linear_epochs":
            assert self.epochs is not None
            epoch = step * self.epochs // total
            return self.rate + (self.rate_end - self.rate) * epoch / self.epochs
        if self.schedule == "warmup_cosine":
            warm = int(self.warmup * total)
            if step < warm:
                return self.rate * (0.01 + 0.99 * step / warm)
            return self.rate_end + (self.rate - self.rate_end) * 0.5 * (
                1 + math.cos(math.pi * (step - warm) / max(1, total - warm))
            )
        warm = int(self.warmup * total)
        if step < warm:
            return self.rate * (step + 1) / warm
        return self.rate + (self.rate_end - self.rate) * (step - warm) / max(1, total - warm)

    def gce_at(self, step: int, total: int) -> float:
        """The exponent q of a step."""
        if not self.gce:
            return 0.0
        share = step / max(1, total)
        return self.gce * min(1.0, max(0.0, (share - self.gce_from) / (self.gce_to - self.gce_from)))


_DANA = Recipe("dana2025", "adam", 0.01, 0.0005, "linear_epochs", batch=2**8, draws=2**14, epochs=64, family="aot")
_BEST = Recipe(
    "best",
    "soap",
    0.01,
    0.0005,
    "linear",
    steps=4000,
    betas=(0.95, 0.95),
    warmup=0.01,
    stop_when_all=True,
    keep="best_recall",
)

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        _DANA,
        dataclasses.replace(_DANA, name="dana2025_mlp", rate_end=0.0001, draws=2**18, batch=2**10),
        dataclasses.replace(_DANA, name="dana2025_exp5", draws=2**18, batch=2**10),
        dataclasses.replace(_DANA, name="dana2025_large", draws=2**16, batch=2**10),
        dataclasses.replace(_DANA, name="dana2025_deep", draws=2**16, batch=2**9, rate=0.0025, rate_end=0.0025),
        Recipe(
            "dana2025_full",
            "adam",
            0.05,
            0.0025,
            "linear",
            draws=2**14,
            steps=419,
            family="aot",
        ),
        Recipe(
            "mahdavi2024",
            "adam",
            0.001,
            0.0,
            "warmup_cosine",
            batch=256,
            epochs=500,
            least_steps=50_000,
            warmup=0.05,
            check_every=500,
            stop_when_all=True,
            keep="best_loss",
            family="layer",
        ),
        _BEST,
        dataclasses.replace(_BEST, name="best_overload", rate=0.02, rate_end=0.001, gce=0.7, steps=1100),
    )
}


def get_recipe(name: str) -> Recipe:
    """A recipe by name; an unknown one is refused with the nearest."""
    if name not in RECIPES:
        raise UnknownName("recipe", name, RECIPES)
    return RECIPES[name]
