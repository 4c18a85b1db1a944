"""Training a stack: many replicas of one shape, each with its own facts, weights and order of batches.

Replicas never mix: a replica's result depends on its own facts and seed, up to rounding. A stack that would need more
memory than allowed is split. Arithmetic is float32; whether a fact is recalled in the end is decided in float64, as the
referee does: the target's logit must be strictly the largest.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rote.data import FactTable, VectorTable
from rote.errors import UsageError
from rote.training import compiled, compiled_layer, tabled
from rote.training.forward import token_logits
from rote.training.optim import Adam, Optimiser, Soap
from rote.training.pairs import all_pairs, pair_logits, worthwhile
from rote.training.recipes import Recipe
from rote.training.spec import ModelSpec, initial_weights
from rote.training.tables import Stack, TokenStack, VectorStack
from rote.training.vectors import sinusoids, vector_outputs

__all__ = ["Outcome", "Recalls", "Steps", "bytes_needed", "outputs", "train"]

Recalls = Callable[[dict[str, Tensor]], int]
"""How many facts the weights of a replica recall, by somebody else's rule."""
Steps = Callable[[int, int, int | None], None]
"""steps(done, in all, facts that the best replica recalls, where they were counted)."""

_PUBLISHED_WINDOW = 100
_CHUNK = 2048
_TOLERANCE = 1e-2
"""A real target counts as recalled within this share of the largest target."""


@dataclass(frozen=True)
class Outcome:
    """What became of one replica."""

    seed: int
    n_facts: int
    recalled: int
    published: float
    """Accuracy as the recipe's authors count it; the share of facts where they count each fact once."""
    loss: float
    steps: int
    status: str
    """"done", or "diverged"."""
    reason: str
    cpu_seconds: float
    """Of the stack, divided by its replicas."""
    weights: dict[str, Tensor]

    @property
    def share(self) -> float:
        return self.recalled / self.n_facts


def bytes_needed(spec: ModelSpec, recipe: Recipe, n_facts: int) -> int:
    """An upper estimate of what one replica takes: weights and optimiser, and activations for a step with gradients."""
    a = spec.arch
    facts = min(recipe.batch or n_facts, recipe.draws or n_facts)
    if spec.takes_vectors:
        per_fact = 6 * a.n_heads * a.context + 4 * spec.outputs + 2 * a.context * a.d_model + 4 * a.n_heads * a.d_model
    else:
        heads = a.n_heads * (3 * spec.width + 3 * a.context) * (1 if a.n_layers == 1 else a.n_layers * a.context)
        per_fact = heads + 4 * a.vocab + a.n_layers * a.context * (8 * a.d_model + 3 * a.d_mlp)
    whole = (recipe.draws or n_facts) * (a.context + 2) * 16
    own = n_facts * a.context * a.d_model * 8 if spec.takes_vectors else 0
    return 4 * per_fact * facts + 8 * 4 * spec.params + whole + own


def train(
    spec: ModelSpec,
    tables: Sequence[FactTable] | Sequence[VectorTable],
    recipe: Recipe,
    seeds: Sequence[int],
    *,
    device: str = "cpu",
    max_memory: int | None = None,
    needed: float | None = None,
    recalls: Recalls | None = None,
    steps: Steps | None = None,
) -> list[Outcome]:
    """Train one replica for each table and seed, stacked as far as `max_memory` (bytes) allows.

    `needed` is the share of facts at which a replica counts as finished where the recipe stops early; 1 if not given.
    `recalls` counts recalled facts in the place of the rule in float64, for weights that are to be rounded; `steps` is
    told how far a stack has come.
    """
    if len(tables) != len(seeds) or not tables:
        raise UsageError(f"one table for each seed is needed, got {len(tables)} tables and {len(seeds)} seeds.")
    most = max(len(table) for table in tables)
    size = len(seeds)
    if max_memory is not None:
        size = max(1, min(size, max_memory // bytes_needed(spec, recipe, most)))
    found: list[Outcome] = []
    for start in range(0, len(seeds), size):
        part = slice(start, start + size)
        run = _Run(spec, tables[part], recipe, list(seeds[part]), torch.device(device), needed or 1.0, recalls, steps)
        found += run.go()
    return found


def outputs(spec: ModelSpec, weights: dict[str, Tensor], data: Stack) -> Tensor:
    """Logits or outputs (R, k, T) of stacked weights."""
    if isinstance(data, VectorStack):
        return vector_outputs(spec, weights, data)
    return token_logits(spec, weights, data.contexts)


class _Run:
    """One stack from its first weights to its outcomes."""

    def __init__(
        self,
        spec: ModelSpec,
        tables: Sequence[FactTable] | Sequence[VectorTable],
        recipe: Recipe,
        seeds: list[int],
        device: torch.device,
        needed: float,
        recalls: Recalls | None,
        steps: Steps | None,
    ) -> None:
        self.spec, self.recipe, self.seeds = spec, recipe, seeds
        self.recalls, self.steps = recalls, steps
        self.counts = [len(table) for table in tables]
        self.goal = torch.tensor([math.ceil(needed * count - 1e-9) for count in self.counts], device=device)
        stacks: type[Any] = VectorStack if spec.takes_vectors else TokenStack
        self.facts: Stack = stacks.of(tables).to(device)
        drawn = [initial_weights(spec, np.random.default_rng([seed, 1])) for seed in seeds]
        self.weights = {
            name: torch.from_numpy(np.stack([one[name] for one in drawn]).astype(np.float32)).to(device)
            for name in spec.shapes
        }
        for tensor in self.weights.values():
            tensor.requires_grad_()
        self.rngs = [np.random.default_rng([seed, 2]) for seed in seeds]
        self.total = recipe.n_steps(self.facts.n_facts)
        leaves = list(self.weights.values())
        self.optimiser: Optimiser = (
            Adam(leaves, recipe.betas) if recipe.optimiser == "adam" else Soap(leaves, recipe.betas)
        )
        r = len(seeds)
        self.bad_step = [0] * r
        self.best = torch.full((r,), -math.inf, device=device)
        self.kept = {name: tensor.detach().clone() for name, tensor in self.weights.items()}
        self.finished = torch.zeros(r, dtype=torch.bool, device=device)
        self.window: list[Tensor] = []
        self.last_loss = torch.full((r,), math.nan)

    def go(self) -> list[Outcome]:
        before = time.process_time()
        if self.recipe.batch is None:
            self._full_batch()
        else:
            self._minibatches()
        spent = (time.process_time() - before) / len(self.seeds)
        if self.recipe.keep == "last":
            self.kept = {name: tensor.detach() for name, tensor in self.weights.items()}
        else:
            self._consider(self.weights)
        right, loss = self._evaluate(self.kept)
        recalled, published = self._counted(self.kept, right), self._published(right)
        found = []
        for i, seed in enumerate(self.seeds):
            count = self.counts[i]
            bad = self.bad_step[i]
            found.append(
                Outcome(
                    seed=seed,
                    n_facts=count,
                    recalled=int(recalled[i]),
                    published=float(published[i]),
                    loss=float(loss[i]),
                    steps=self.step + 1,
                    status="diverged" if bad else "done",
                    reason=f"the loss was no longer a number by step {bad}" if bad else "",
                    cpu_seconds=spent,
                    weights={name: tensor[i].detach().cpu().clone() for name, tensor in self.kept.items()},
                )
            )
        return found

    # -- the two ways through the facts

    def _full_batch(self) -> None:
        data: Stack = self.facts
        if self.recipe.draws is not None:
            data = self._weighted()
        self.drawn = data
        tokens = data if isinstance(data, TokenStack) else None
        pairs = tokens is not None and worthwhile(self.spec, tokens)
        tables = tokens is not None and not pairs and tabled.worthwhile(self.spec, tokens, self.total)
        if tokens is not None and pairs:
            data = all_pairs(tokens, self.spec.arch.vocab)
        whole = data.weights.sum(1)

        def forward() -> Tensor:
            if pairs:
                return pair_logits(self.spec, self.weights)
            if tables:
                return tabled.tabled_logits(self.spec, self.weights, data.contexts)
            return outputs(self.spec, self.weights, data)

        for step in range(self.total):
            self.step = step
            made = forward()
            checked = step % self.recipe.check_every == 0 and self.recipe.keep == "best_recall"
            if checked:
                # Facts that are counted once each, whatever their weight.
                right = _right(made.detach(), data) & (data.weights > 0)
                if self._check(right.sum(1)):
                    return
            self._say(step)
            losses = _losses(made, data, self.recipe.gce_at(step, self.total), whole)
            self._move(losses, step)

    def _minibatches(self) -> None:
        recipe = self.recipe
        batch = recipe.batch or 1
        step = 0
        self.drawn = self.facts
        rows = recipe.draws or self.facts.n_facts
        source = None
        if recipe.draws is not None:
            source = np.stack(
                [rng.integers(count, size=recipe.draws) for rng, count in zip(self.rngs, self.counts, strict=True)]
            )
        if self.facts.targets.device.type == "cpu":
            if isinstance(self.facts, VectorStack) and compiled_layer.suits(self.facts, recipe, self.total):
                self._compiled_layers(batch)
                return
            if compiled.suits(self.spec, recipe, self.total):
                self._compiled(batch, rows, source)
                return
        while step < self.total:
            order = np.stack([rng.permutation(rows) for rng in self.rngs])
            if source is not None:
                order = np.take_along_axis(source, order, axis=1)
            chosen = torch.from_numpy(order).to(self.facts.targets.device)
            # Contexts of their own are too large to be shuffled at once.
            light = isinstance(self.facts, TokenStack) or self.facts.shared
            whole = self.facts.columns(chosen) if light else None
            for start in range(0, rows, batch):
                if step >= self.total:
                    break
                self.step = step
                part = slice(start, min(rows, start + batch))
                data = self.facts.columns(chosen[:, part]) if whole is None else whole.part(part)
                made = outputs(self.spec, self.weights, data)
                if step >= self.total - _PUBLISHED_WINDOW - 1 and recipe.draws is not None:
                    self.window.append(_right(made.detach(), data).float().mean(1))
                losses = _losses(made, data, 0.0, data.weights.sum(1).clamp_min(1e-9))
                self._move(losses, step)
                if step % recipe.check_every == 0 and recipe.keep != "last" and self._consider(self.weights):
                    return
                self._say(step)
                step += 1

    def _compiled(self, batch: int, rows: int, source: npt.NDArray[np.int64] | None) -> None:
        """The same steps, one replica after the other, by the compiled loop."""
        assert source is not None
        contexts, targets = self.facts.contexts.numpy(), self.facts.targets.numpy()
        per_epoch = -(-rows // batch)
        at = np.arange(self.total)
        checked = (at % self.recipe.check_every == 0) | (at == self.total - 1)
        found = []
        with torch.no_grad():
            for i, rng in enumerate(self.rngs):
                own = {name: tensor[i].numpy() for name, tensor in self.weights.items()}
                replica = compiled.Replica(self.spec, own, self.recipe.betas)
                right, losses = [], []
                while replica.steps < self.total:
                    left = self.total - replica.steps
                    order = source[i][rng.permutation(rows)][: left * batch]
                    rates = [self.recipe.rate_at(replica.steps + at, self.total) for at in range(min(left, per_epoch))]
                    seen, lost = replica.pass_over(contexts[i][:, order], targets[i][order], batch, rates)
                    right.append(seen)
                    losses.append(lost)
                found.append(np.concatenate(right)[-_PUBLISHED_WINDOW - 1 :])
                bad = ~np.isfinite(np.concatenate(losses)) & checked
                self.bad_step[i] = int(bad.argmax()) + 1 if bad.any() else 0
                self.step = (i + 1) * self.total // len(self.rngs) - 1
                self._say(self.step - self.step % self.recipe.check_every)
                for name, tensor in replica.weights().items():
                    self.weights[name][i] = torch.from_numpy(tensor)
        self.window = list(torch.from_numpy(np.stack(found, axis=1)))
        self.step = self.total - 1

    def _compiled_layers(self, batch: int) -> None:
        """The same for layers over vectors; between checks one replica after the other."""
        facts, total, every = self.facts, self.total, self.recipe.check_every
        assert isinstance(facts, VectorStack)
        places = sinusoids(self.spec.arch.context + 1, self.spec.arch.d_model).float().numpy()
        with torch.no_grad():
            replicas = [
                compiled_layer.LayerReplica(
                    self.spec,
                    {name: tensor[i].numpy() for name, tensor in self.weights.items()},
                    self.recipe.betas,
                    places,
                    facts.contexts[i].numpy()[None] if facts.shared else facts.contexts[i].numpy(),
                    facts.queries[i].numpy().T,
                    facts.targets[i].numpy(),
                )
                for i in range(len(self.seeds))
            ]
        batches = [_batches(rng, count, batch) for rng, count in zip(self.rngs, self.counts, strict=True)]
        done = 0
        while done < total:
            # To the step after which facts are counted: the first, and every so many.
            until = 1 if done == 0 else min(total, (done - 1) // every * every + every + 1)
            rates = [self.recipe.rate_at(at, total) for at in range(done, until)]
            for i, replica in enumerate(replicas):
                lost = replica.go(list(islice(batches[i], until - done)), rates)
                if not np.isfinite(lost[-1]):
                    self.bad_step[i] = self.bad_step[i] or until
                with torch.no_grad():
                    for name, tensor in replica.weights().items():
                        self.weights[name][i] = torch.from_numpy(tensor)
            done, self.step = until, until - 1
            if (done - 1) % every == 0 and self.recipe.keep != "last" and self._consider(self.weights):
                return
            self._say(self.step)

    def _move(self, losses: Tensor, step: int) -> None:
        # With one token in a context nothing is left to attend to, and W_Q and W_K have no gradient.
        grads = torch.autograd.grad(losses.sum(), list(self.weights.values()), materialize_grads=True)
        if step % self.recipe.check_every == 0 or step == self.total - 1:
            self.last_loss = losses.detach()
            for i in (~torch.isfinite(self.last_loss)).nonzero()[:, 0].tolist():
                self.bad_step[i] = self.bad_step[i] or step + 1
        self.optimiser.step(grads, self.recipe.rate_at(step, self.total))

    # -- keeping the best, and stopping

    def _say(self, step: int) -> None:
        """Report a step, with the facts that the best replica recalls where that is what is kept."""
        if self.steps is not None and step % self.recipe.check_every == 0:
            counted = self.recipe.keep == "best_recall" and bool(torch.isfinite(self.best).any())
            self.steps(step, self.total, int(self.best.max()) if counted else None)

    def _check(self, recalled: Tensor) -> bool:
        """Keep replicas that recall more than before; True when all have enough, by the referee's rule."""
        self._keep(recalled.float(), self.weights)
        if self.recipe.stop_when_all and bool((self.best >= self.goal).all()):
            right, _ = self._evaluate(self.kept)
            self.best = self._counted(self.kept, right).float()
            return bool((self.best >= self.goal).all())
        return False

    def _consider(self, weights: dict[str, Tensor]) -> bool:
        """Evaluate all facts, keep what is better, and say whether all replicas have enough."""
        right, loss = self._evaluate(weights)
        recalled = self._counted(weights, right)
        self._keep(-loss.float() if self.recipe.keep == "best_loss" else recalled.float(), weights)
        # Once enough is enough: a replica that had it at an earlier check is finished.
        self.finished |= recalled >= self.goal
        return bool(self.recipe.stop_when_all and self.finished.all())

    def _keep(self, score: Tensor, weights: dict[str, Tensor]) -> None:
        better = score > self.best
        if self.recipe.keep == "best_loss":
            better &= ~self.finished
        if bool(better.any()):
            self.best = torch.where(better, score, self.best)
            for name, tensor in weights.items():
                view = better.view(-1, *[1] * (tensor.ndim - 1))
                self.kept[name] = torch.where(view, tensor.detach(), self.kept[name])

    @torch.no_grad()
    def _evaluate(self, weights: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Which facts are recalled (R, T), in float64, and the mean loss of each replica."""
        exact = {name: tensor.detach().double() for name, tensor in weights.items()}
        right = []
        total = torch.zeros(len(self.seeds), dtype=torch.float64, device=self.facts.targets.device)
        for data in _chunks(self.facts):
            made = outputs(self.spec, exact, data)
            right.append(_right(made, data, self._scale()) & (data.weights > 0))
            total += _losses(made, data, 0.0, torch.ones_like(total))
        return torch.cat(right, 1), total / self.facts.weights.sum(1)

    def _counted(self, weights: dict[str, Tensor], right: Tensor) -> Tensor:
        """Facts recalled by each replica (R,); `right` is what the rule in float64 says of them."""
        if self.recalls is None:
            return right.sum(1)
        own = [{name: tensor[i].detach() for name, tensor in weights.items()} for i in range(len(self.seeds))]
        return torch.tensor([self.recalls(one) for one in own], device=right.device)

    def _scale(self) -> float:
        if not self.spec.regression:
            return 1.0
        return max(1.0, float(self.facts.targets.abs().max()))

    def _weighted(self) -> Stack:
        """Every fact once, weighted by how often it was drawn."""
        assert self.recipe.draws is not None
        weights = np.zeros(self.facts.weights.shape, dtype=np.float32)
        for i, (rng, count) in enumerate(zip(self.rngs, self.counts, strict=True)):
            weights[i, :count] = np.bincount(rng.integers(count, size=self.recipe.draws), minlength=count)
        return replace(self.facts, weights=torch.from_numpy(weights).to(self.facts.targets.device))

    def _published(self, right: Tensor) -> Tensor:
        if self.window:
            seen = self.window[:-1] if len(self.window) > 1 else self.window
            return torch.stack(seen).mean(0)
        weights = self.drawn.weights
        return (right * weights).sum(1) / weights.sum(1)


def _batches(rng: np.random.Generator, count: int, batch: int) -> Iterator[npt.NDArray[np.int64]]:
    """Batches of examples without end, every example once in a pass."""
    while True:
        order = rng.permutation(count)
        yield from (order[start : start + batch] for start in range(0, count, batch))


def _chunks(facts: Stack) -> Iterator[Stack]:
    """The facts in pieces of bounded size."""
    for start in range(0, facts.n_facts, _CHUNK):
        yield facts.part(slice(start, start + _CHUNK))


def _right(made: Tensor, data: Stack, scale: float = 1.0) -> Tensor:
    """Facts whose target is strictly ahead, (R, T); for real targets, those that are close."""
    if data.targets.is_floating_point():
        return (made[:, 0] - data.targets).abs() <= _TOLERANCE * scale
    own = made.gather(1, data.targets[:, None])
    # Not a number is never ahead, and a tie is lost: nobody but the target itself may reach it.
    return ((made >= own).sum(1) == 1) & torch.isfinite(own[:, 0])


class _CrossEntropy(torch.autograd.Function):
    """Weighted cross-entropy with its gradient made on the way: softmax minus target, each fact times its weight."""

    @staticmethod
    def forward(ctx: Any, made: Tensor, targets: Tensor, weights: Tensor, gce: float) -> Tensor:
        own = targets[:, None]
        chance = torch.softmax(made, dim=1)
        ahead = chance.gather(1, own)[:, 0].clamp_min(torch.finfo(made.dtype).tiny).log()
        if gce:
            # The gradient of (1 - p^q)/q is the one of -log p, weighted by p^q.
            weights = weights * torch.exp(gce * ahead)
        slope = chance.mul_(weights[:, None]).scatter_add_(1, own, -weights[:, None])
        ctx.save_for_backward(slope)
        return -(ahead * weights).sum(1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (slope,) = ctx.saved_tensors
        return slope * grad[:, None, None], None, None, None


def _losses(made: Tensor, data: Stack, gce: float, whole: Tensor) -> Tensor:
    """Mean loss of each replica (R,): cross-entropy, or squared error for real targets."""
    if data.targets.is_floating_point():
        return ((made[:, 0] - data.targets).square() * data.weights).sum(1) / whole
    weights = data.weights.to(made.dtype) / whole[:, None]
    found: Tensor = _CrossEntropy.apply(made, data.targets, weights, gce)  # type: ignore[no-untyped-call]
    return found
