"""A trained model: gradient descent on the facts, judged and certified as what was built is.

Nothing is promised. A shape is planned from what training was measured to hold, and the referee says what came
back; `auto` never trains. So a built and a trained model of the same facts can stand side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rote.config import Architecture, Dtype, Shape
from rote.constructions._base import Job, Options, Plan, option
from rote.constructions._data import ESTIMATE, TokenConstruction, wording
from rote.data.verification import finite
from rote.errors import FactsLost, UsageError
from rote.plot.sheet import Sheet

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from rote.data import FactTable
    from rote.data.demand import Demand
    from rote.models import Model
    from rote.models.kinds.transformer import Activation, TransformerModel
    from rote.training import Outcome, Recipe

__all__ = ["Trained", "construction"]

BITS = 1.0
"""Bits of random targets that a parameter is planned for; `python benchmarks/capacity.py 0 60 trained` tries it."""
COARSE = 0.5
"""The same where weights are rounded to 16 bits."""
WIDTHS = (8, 12, 16, 24, 32, 48, 64, 96, 128)
FEWEST_HEADS = 4
"""Heads that are planned at least, where contexts have so many tokens: one or two mix long contexts badly."""
MOST_HEADS = 4
"""Heads for each dimension of the stream: a wider stream is planned beyond that."""
LARGER = (1.0, 1.5, 2.25)
"""How much larger the shapes are that are tried where facts are lost."""
MOST_BYTES = 4 * 2**30
"""A step that needs more memory than this is refused."""


@dataclass(frozen=True)
class Trained(Options):
    """What training may be told."""

    recipe: str = option("best", "How to train: the name of a recipe of rote measure; best if not given.")
    steps: int | None = option(None, "Train for so many steps; as the recipe says if not given.", min=1)
    rate: float | None = option(None, "Learning rate at the start; as the recipe says if not given.")
    batch: int | None = option(None, "Facts in a step; as the recipe says if not given, all of them for best.", min=1)
    restarts: int = option(0, "Start anew so many times where facts are lost, and keep the best.", min=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("steps", 1), ("batch", 1), ("restarts", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} must be at least {least}, got {value}.")
        if self.rate is not None and not (math.isfinite(self.rate) and self.rate > 0):
            raise UsageError(f"the learning rate must be a positive number, got {self.rate}.")

    def training(self, n_facts: int) -> Recipe:
        """The recipe with these changes; an unknown one is refused.

        Counting recalled facts takes all of them, so with batches it is done once for every time through the facts.
        """
        from rote.training import get_recipe

        recipe = get_recipe(self.recipe).adjusted(steps=self.steps, rate=self.rate, batch=self.batch)
        through = n_facts // recipe.batch if recipe.batch else 1
        return recipe.replace(check_every=max(recipe.check_every, through))


class _Construction(TokenConstruction[Trained]):
    Options = Trained
    title = "Trained by gradient descent"
    automatic = False
    exact = False
    shaped_by = ("n_heads", "d_model", "d_head", "d_mlp")
    example_options = {"steps": 600}  # noqa: RUF012

    @property
    def source(self) -> str:
        return "gradient descent by rote"

    def shapes(self, table: FactTable, shape: Shape, dtype: Dtype, options: Trained) -> Iterator[Plan]:
        options.training(table.n_facts)
        demand = table.demand(dtype, shape)
        for factor in LARGER:
            yield self._plan(demand, shape, shape.d_model or self._width(demand, shape, factor), factor)
            if shape.n_heads is not None and shape.d_model is not None:
                return

    def _width(self, demand: Demand, shape: Shape, factor: float) -> int:
        """The width of the stream that costs the fewest parameters, of those whose heads are not too many."""
        least = shape.d_head or 1
        able = [
            d for d in WIDTHS
            if d >= least and self._heads(demand, shape, d, factor) <= (shape.n_heads or MOST_HEADS * d)
        ]  # fmt: skip
        if not able:
            return max(WIDTHS[-1], least)
        return min(able, key=lambda d: self._plan(demand, shape, d, factor).params)

    @staticmethod
    def _heads(demand: Demand, shape: Shape, width: int, factor: float) -> int:
        """Heads that hold the facts as random ones, beside what embeddings and MLP hold."""
        if demand.context == 1:
            # Attention has nothing to choose from; the embedding of its one token is a fact's own.
            return 1
        each = COARSE if demand.dtype in ("bfloat16", "float16") else BITS
        bits = demand.n_facts * math.log2(max(2, demand.n_targets or demand.vocab))
        least = min(FEWEST_HEADS, demand.context)
        beside = 2 * demand.vocab + demand.context + 3 * (shape.d_mlp or 0)
        rest = factor * bits / each - beside * width
        return max(least, math.ceil(rest / (4 * width * (shape.d_head or width))))

    def _plan(self, demand: Demand, shape: Shape, width: int, factor: float) -> Plan:
        heads = shape.n_heads or self._heads(demand, shape, width, factor)
        full = replace(shape, n_heads=heads, d_model=width, d_head=shape.d_head or width)
        return self.as_plan(self.fixed(full, replace(demand, d_model=width)), demand, note=ESTIMATE)

    def fixed(self, shape: Shape, demand: Demand) -> Architecture:
        attention = super().fixed(replace(shape, d_mlp=None), demand).replace(own_rows=None)
        return attention if shape.d_mlp is None else attention.replace(d_mlp=shape.d_mlp, gated=True)

    def check(self, table: FactTable, arch: Architecture, options: Trained) -> None:
        from rote.training import ModelSpec, bytes_needed

        super().check(table, arch, options)
        recipe = options.training(table.n_facts)
        needed = bytes_needed(ModelSpec("transformer", arch), recipe, table.n_facts)
        if needed > MOST_BYTES:
            at_once = min(recipe.batch or table.n_facts, recipe.draws or table.n_facts)
            raise UsageError(
                f"{self.key} would need about {needed / 1e9:.1f} GB for a step on {at_once:,} facts at once, more than "
                f"the {MOST_BYTES / 1e9:.1f} GB that it takes; give a smaller batch, or a smaller shape."
            )

    def solve(self, job: Job[FactTable, Trained]) -> Model:
        best: Outcome | None = None
        for start in range(1 + job.options.restarts):
            outcome = self._trained(job, int(job.rng.integers(2**31)), start)
            if best is None or outcome.recalled > best.recalled:
                best, chosen = outcome, start
            if best.recalled == best.n_facts:
                break
        assert best is not None, "there is one start at least"
        report = {**self._report(job, best), "starts": start + 1, "start": chosen + 1}
        return self._model(job, best.weights, report)

    def _trained(self, job: Job[FactTable, Trained], seed: int, start: int) -> Outcome:
        """One training, stopped when the referee finds every fact in weights rounded to the format asked for."""
        from rote.training import ModelSpec, train

        options = job.options
        stage = f"train, start {start + 1} of {1 + options.restarts}" if options.restarts else "train"
        outcome = train(
            ModelSpec("transformer", job.arch),
            [job.table],
            options.training(job.table.n_facts),
            [seed],
            recalls=lambda weights: self._recalled(job, weights),
            steps=lambda done, total, recalled: job.progress(stage, done, total, recalled),
        )[0]
        if not all(bool(tensor.isfinite().all()) for tensor in outcome.weights.values()):
            raise FactsLost(f"did not converge: {outcome.reason or 'weights became infinite'}; lower the rate")
        return outcome

    def _recalled(self, job: Job[FactTable, Trained], weights: dict[str, Tensor]) -> int:
        """Facts that the referee finds in the weights as they would be stored."""
        from rote.referee import Stored, judge

        verdict = judge(Stored(*self._model(job, weights, {}).module.stored()), job.table, job.dtype)
        return verdict.n_facts - verdict.n_failed

    @staticmethod
    def _report(job: Job[FactTable, Trained], outcome: Outcome) -> dict[str, Any]:
        recipe = job.options.training(outcome.n_facts)
        return {
            "recipe": recipe.name,
            "optimiser": recipe.optimiser,
            "rate": recipe.rate,
            "batch": recipe.batch,
            "steps": outcome.steps,
            "most_steps": recipe.n_steps(outcome.n_facts),
            "loss": finite(outcome.loss),
            "recalled": outcome.recalled,
            "training_seed": outcome.seed,
        }

    def sheet(self, certificate: Mapping[str, Any], place: str) -> Sheet:
        """As for what was built, and how it was trained."""
        sheet, said = super().sheet(certificate, place), certificate["report"]
        loss = "unknown" if said["loss"] is None else f"{said['loss']:.3g}"
        starts = f"; start {said['start']} of {said['starts']}" if said["starts"] > 1 else ""
        line = (
            f"recipe {said['recipe']}: {said['steps']:,} of at most {said['most_steps']:,} steps, loss {loss}{starts}"
        )
        return replace(sheet, lines=(*sheet.lines, line))

    @staticmethod
    def _model(job: Job[FactTable, Trained], weights: dict[str, Tensor], report: dict[str, Any]) -> TransformerModel:
        """The weights as the reference transformer has them: scores are not divided there, so W_Q is."""
        from rote.models.kinds.transformer import TransformerModel

        tensors = {name.partition(".")[0]: tensor.cpu().double() for name, tensor in weights.items()}
        tensors["W_Q"] = tensors["W_Q"] / math.sqrt(job.arch.d_head)
        activation: Activation = "silu" if job.arch.d_mlp else "identity"
        return TransformerModel(
            job.arch, tensors, wording=wording(job.table), dtype=job.dtype, activation=activation, report=report
        )

    def examples(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture]]:
        from rote.data import random_facts

        shapes = (
            Architecture(2, 8, 8, 3, 20),
            Architecture(1, 8, 4, 2, 12, d_mlp=16, gated=True),
            Architecture(1, 8, 8, 1, 9),
        )
        counts = (60, 30, 9)
        return [(random_facts(n, a.context, a.vocab, rng=rng), a) for n, a in zip(counts, shapes, strict=True)]

    def near_misses(self, rng: np.random.Generator) -> list[tuple[FactTable, Architecture, str]]:
        from rote.data import random_facts

        table = random_facts(20, 3, 9, rng=rng)
        return [
            (table, Architecture(2, 8, 8, 4, 9), "context"),
            (table, Architecture(2, 8, 16, 3, 9), "wider"),
            (table, Architecture(200_000, 1000, 1000, 3, 9), "GB"),
        ]


construction = _Construction()
