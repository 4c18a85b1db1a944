"""The added layers: gates, features, and the convex fit of each down projection.

One layer is the rule. Where rows are many, the last of them would cost more iterations than all others, so a few are
left to another layer, which reads the states that the first leaves behind. Its gates open on those rows and on little
else; so the fit is the same convex problem, but only over the rows that they open on, and all others stay as they are.
Where more is left than a layer can single out, the next one has random gates and all rows, like the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rote.errors import DataError
from rote.solvers.graft.gate import Gate, choose_gate, features, normalise, singling_out
from rote.solvers.graft.readout import Readout, Solution, even_tokens, needy, whitening
from rote.solvers.record import Progress

__all__ = ["Layer", "Problem", "fit_layers", "refuse_twins"]

_CHUNK = 4096
_PRICE = 1e4
_CLOSE = 1e-5
_ROUNDING = 4e-5
_CROWDED = 8


@dataclass(frozen=True)
class Layer:
    """The MLP of one added layer."""

    gate: Tensor = field(repr=False)
    up: Tensor = field(repr=False)
    down: Tensor = field(repr=False)
    report: dict[str, Any]


def refuse_twins(x: Tensor, targets: Tensor, words: Callable[[int], str], rng: np.random.Generator) -> None:
    """Refuse two rows with different targets whose states agree to rounding: no layer on top can tell them apart.

    Equal vectors have equal projections, so only neighbours in the order of a random projection are compared.
    """
    line = torch.as_tensor(rng.standard_normal(x.shape[1]), dtype=torch.float32)
    height = x @ line
    order = torch.argsort(height)
    twins: list[tuple[int, int]] = []
    limit = _CLOSE * float(x.square().sum(1).mean().sqrt())
    for gap in range(1, 9):
        low, high = order[:-gap], order[gap:]
        near = ((height[high] - height[low]) < limit * float(line.norm())) & (targets[low] != targets[high])
        pairs = near.nonzero()[:, 0]
        if len(pairs):
            apart = (x[low[pairs]] - x[high[pairs]]).norm(dim=1)
            twins += [(int(low[i]), int(high[i])) for i in pairs[apart < limit]]
        elif not ((height[high] - height[low]) < limit * float(line.norm())).any():
            break
    if twins:
        first, second = sorted(twins[0])
        more = f"; {len(twins):,} such pairs in all" if len(twins) > 1 else ""
        raise DataError(
            f"two facts with different answers end in the same state of the model: {words(first)} and "
            f"{words(second)}{more}; put what tells them apart nearer to the end of the template."
        )


def fit_layers(
    model: Any,
    facts: Tensor,
    targets: Tensor,
    text: Tensor,
    decoys: Tensor,
    *,
    rng: np.random.Generator,
    max_layers: int,
    progress: Progress,
    words: Callable[[int], str],
) -> tuple[list[Layer], Tensor]:
    """Layers that give every row its target, and the rows that the original gets wrong.

    `decoys` are states after which the model shall say what the original says; they count as rows without a promise.
    """
    refuse_twins(normalise(facts, float(model.model.norm.variance_epsilon))[0], targets, words, rng)
    silent = model.lm_head.weight[targets].abs().amax(1) == 0
    if silent.any():
        first = int(silent.nonzero()[0, 0])
        raise DataError(
            f"the model can never say token {int(targets[first])}, whose row of the head is zero, but it has to follow "
            f"{words(first)}; write the answer with other tokens, or use a model with another end token."
        )
    n_facts = len(facts)
    if len(decoys):
        said = torch.cat(
            [model.lm_head(model.model.norm(h.to(model.dtype))).argmax(1) for h in torch.split(decoys, 1024)]
        )
        facts, targets = torch.cat([facts, decoys]), torch.cat([targets, said])
    problem = Problem(model, facts, targets, text, n_facts, rng, progress)
    base = problem.leads[:n_facts] <= 0.0
    layers: list[Layer] = []
    while len(layers) < max_layers:
        layer = problem.next_layer(last=len(layers) + 1 == max_layers)
        if layer is None:
            break
        layers.append(layer)
        if not problem.n_wrong:
            break
    return layers, base


def _as_stored(value: Tensor, dtype: torch.dtype) -> Tensor:
    return value.to(dtype).float()


def _phi(layer: Gate | Layer, states: Tensor, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Features and rms of states, rounded where the model rounds."""
    x, rms = normalise(states, eps)
    phi = features(_as_stored(x, dtype), _as_stored(layer.gate, dtype), _as_stored(layer.up, dtype))
    return _as_stored(phi, dtype), rms


def _run(layer: Layer, states: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    """States after the layer."""
    down = _as_stored(layer.down, dtype)
    return torch.cat([part + _phi(layer, part, eps, dtype)[0] @ down.T for part in torch.split(states, _CHUNK)])


class Problem:
    """States, what the model so far says to them, and the next layer's fit."""

    def __init__(
        self,
        model: Any,
        facts: Tensor,
        targets: Tensor,
        text: Tensor,
        n_facts: int,
        rng: np.random.Generator,
        progress: Progress,
    ) -> None:
        self.facts, self.targets, self.text, self.n_facts = facts, targets, text, n_facts
        # Facts as they might be in another batch, with other last bits and some more; layers magnify the difference.
        self.shaken = facts * (1.0 + _ROUNDING * torch.as_tensor(rng.standard_normal(facts.shape), dtype=torch.float32))
        self.n_layers = 0
        self.rng, self.progress, self.dtype = rng, progress, model.dtype
        self.eps, self.width = float(model.model.norm.variance_epsilon), int(model.config.intermediate_size)
        self.norm = model.model.norm.weight.float()
        self.scale = torch.where(self.norm.abs() < 1e-6, torch.full_like(self.norm, 1e-6), self.norm)
        progress("gates", 0, 1, None)
        unembed = model.lm_head.weight.float()
        self.even, self.uneven = even_tokens(unembed)
        self.unembed = unembed @ self.even
        self.leads, self.classes = Readout.before(self._offsets(facts), targets, self.unembed)

    def _offsets(self, facts: Tensor) -> Tensor:
        offsets: Tensor = (normalise(facts, self.eps)[0] * self.norm) @ self.uneven
        return offsets

    @property
    def n_wrong(self) -> int:
        """Facts that are wrong."""
        return int((self.leads[: self.n_facts] <= 0.0).sum())

    def _left(self) -> Tensor:
        """Rows for a further layer to single out, the worst first, facts before decoys; none if they are too many."""
        short = needy(self.leads).nonzero()[:, 0]
        if not self.n_layers or 2 * len(short) > self.width:
            return short[:0]
        order = sorted(short.tolist(), key=lambda row: (row >= self.n_facts, float(self.leads[row])))
        return torch.tensor(order)

    def next_layer(self, *, last: bool) -> Layer | None:
        """One more layer, whose result is the next one's start; None if it would not help.

        Only a first, crowded layer leaves rows to the next one for the sake of time. What is singled out must at least
        halve what is wrong.
        """
        self.progress("gates", 0, 1, None)
        x, on_text = normalise(self.facts, self.eps)[0], normalise(self.text, self.eps)[0]
        before, leads = self.n_wrong, self.leads
        left = self._left()
        layer = self._singled_out(x, on_text, left) if len(left) else None
        if layer is None or 2 * self.n_wrong > before:
            self.leads = leads
            gate = choose_gate(x, on_text, self.width, self.rng)
            crowded = len(x) > _CROWDED * self.width and not (last or self.n_layers)
            layer = self._fit(gate, torch.arange(len(x)), self.width // 2 if crowded else 0)
        if self.n_layers and self.n_wrong >= before:
            self.leads = leads
            return None
        self.n_layers += 1
        if not last:
            self.facts, self.text, self.shaken = (
                _run(layer, part, self.eps, self.dtype) for part in (self.facts, self.text, self.shaken)
            )
        return layer

    def _singled_out(self, x: Tensor, on_text: Tensor, left: Tensor) -> Layer | None:
        """A layer whose gates open on `left`, fitted on the rows that they open on; None if those are most."""
        gates = singling_out(x[left], x, on_text, self.width)
        gate = choose_gate(x[left], on_text, self.width, self.rng, rows=gates)
        height = torch.cat([self._psi(gate, part).abs().amax(1) for part in torch.split(self.facts, _CHUNK)])
        opened = height > 1e-6 * height[left].median()
        opened[left] = True
        rows = opened.nonzero()[:, 0]
        return None if 2 * len(rows) > len(x) else self._fit(gate, rows, 0, {"singled_out": len(left)})

    def _psi(self, gate: Gate, states: Tensor) -> Tensor:
        phi, rms = _phi(gate, states, self.eps, self.dtype)
        return phi / rms

    def _fit(self, gate: Gate, rows: Tensor, leave: int, notes: dict[str, Any] | None = None) -> Layer:
        """The down projection for these gates and rows; `leads` are then those after the layer."""
        solution, n_open = self._solve(gate, rows, leave)
        wrong = int((self.leads[rows] <= 0.0).sum())
        self.leads = self.leads.index_copy(0, rows, solution.leads)
        self.classes = solution.classes
        report = {
            "width": self.width,
            "rows": len(rows),
            "rows_wrong_before": wrong,
            "rows_wrong": int((solution.leads <= 0.0).sum()),
            "smallest_lead": float(solution.leads.min()),
            "iterations": solution.iterations,
            "rounds": solution.rounds,
            "competitors": len(solution.classes),
            "active_rows": solution.n_active,
            "rank": solution.rank,
            "beta": gate.beta,
            "score_facts": [gate.fact_low, gate.fact_high],
            "score_text": gate.text_high,
            "text_tokens": len(self.text),
            "text_tokens_open": n_open,
            **(notes or {}),
        }
        return Layer(gate.gate, gate.up, solution.down, report)

    def _solve(self, gate: Gate, rows: Tensor, leave: int) -> tuple[Solution, int]:
        """The convex fit, and the number of tokens of text on which a gate opens."""
        facts = self.facts if len(rows) == len(self.facts) else self.facts[rows]
        on_text = torch.cat([_open(self._psi(gate, part)) for part in torch.split(self.text, _CHUNK)])
        n_open, quiet = len(on_text), on_text / max(1, len(self.text)) ** 0.5
        if len(rows) < len(self.facts):
            # Gates that single out are steep. What they make of rounding is kept small like what they make of text.
            pairs = zip(torch.split(self.shaken[rows], _CHUNK), torch.split(facts, _CHUNK), strict=True)
            noise = torch.cat([self._psi(gate, a) - self._psi(gate, b) for a, b in pairs])
            quiet = torch.cat([quiet, noise / len(facts) ** 0.5])
        back = whitening(
            lambda start, stop: self._psi(gate, facts[start:stop]),
            len(facts),
            quiet * len(quiet) ** 0.5,
            price=_PRICE,
        )
        white = torch.cat([self._psi(gate, part) @ back.T for part in torch.split(facts, _CHUNK)])
        readout = Readout(white, self._offsets(facts), self.targets[rows], self.unembed)
        readout.classes = self.classes
        start = self.leads[rows]
        if len(rows) == len(self.facts) and needy(start).any():
            readout.active = needy(start)

        def report(iteration: int, right: int) -> None:
            self.progress("fit", min(iteration, 400), 400, None)

        few = self.width // 2
        solution = readout.solve(back, self.even, self.scale, few=few, leave=leave, start=start, report=report)
        return solution, n_open


def _open(psi: Tensor) -> Tensor:
    """The rows of text on which a gate opens."""
    return psi[psi.abs().amax(1) > 1e-9]
