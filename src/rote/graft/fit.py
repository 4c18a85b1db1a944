"""The added layers: gates, features, and the convex fit of each down projection.

One layer is the rule. Where its fit leaves rows wrong, another layer reads the states that the first leaves behind,
with random rows of its own, and is fitted in the same way; what is right already stays right, because the first layer's
result is the second one's start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rote.construct.record import Progress
from rote.errors import DataError
from rote.graft.gate import Gate, choose_gate, features, normalise
from rote.graft.readout import Readout, Solution, even_tokens, whitening

__all__ = ["Layer", "fit_layers", "refuse_twins"]

_CHUNK = 4096
_PRICE = 1e4
_CLOSE = 1e-5


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
    found: list[tuple[int, int]] = []
    limit = _CLOSE * float(x.square().sum(1).mean().sqrt())
    for gap in range(1, 9):
        low, high = order[:-gap], order[gap:]
        near = ((height[high] - height[low]) < limit * float(line.norm())) & (targets[low] != targets[high])
        pairs = near.nonzero()[:, 0]
        if len(pairs):
            apart = (x[low[pairs]] - x[high[pairs]]).norm(dim=1)
            found += [(int(low[i]), int(high[i])) for i in pairs[apart < limit]]
        elif not ((height[high] - height[low]) < limit * float(line.norm())).any():
            break
    if found:
        first, second = sorted(found[0])
        more = f"; {len(found):,} such pairs in all" if len(found) > 1 else ""
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
    eps = float(model.model.norm.variance_epsilon)
    x, _ = normalise(facts, eps)
    refuse_twins(x, targets, words, rng)
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
    base: Tensor | None = None
    layers: list[Layer] = []
    for _ in range(max_layers):
        layer, solution, wrong = _fit_one(model, facts, targets, text, eps, rng, progress)
        base = wrong[:n_facts] if base is None else base
        layers.append(layer)
        if not solution.wrong[:n_facts].any():
            break
        facts, text = (_run(layer, states, eps, model.dtype) for states in (facts, text))
    assert base is not None
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


def _fit_one(
    model: Any,
    facts: Tensor,
    targets: Tensor,
    text: Tensor,
    eps: float,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[Layer, Solution, Tensor]:
    scale, unembed = model.model.norm.weight.float(), model.lm_head.weight.float()
    scale = torch.where(scale.abs() < 1e-6, torch.full_like(scale, 1e-6), scale)
    width = int(model.config.intermediate_size)
    progress("gates", 0, 1, None)
    x, _ = normalise(facts, eps)
    even, uneven = even_tokens(unembed)
    offsets, unembed = (x * model.model.norm.weight.float()) @ uneven, unembed @ even
    wrong, near, classes = Readout.before(offsets, targets, unembed)
    gate = choose_gate(x, normalise(text, eps)[0], width, rng)

    def psi(states: Tensor) -> Tensor:
        phi, rms = _phi(gate, states, eps, model.dtype)
        return phi / rms

    on_text = torch.cat([_open(psi(part)) for part in torch.split(text, _CHUNK)])
    n_open = len(on_text)
    back = whitening(
        lambda start, stop: psi(facts[start:stop]),
        len(facts),
        on_text * (n_open / max(1, len(text))) ** 0.5,
        price=_PRICE,
    )
    white = torch.cat([psi(part) @ back.T for part in torch.split(facts, _CHUNK)])
    problem = Readout(white, offsets, targets, unembed)
    problem.classes = classes
    if near.any():
        problem.active = near
    n_rows = len(targets)

    def report(iteration: int, right: int) -> None:
        progress("fit", min(iteration, 400), 400, None)

    solution = problem.solve(back, even, scale, report=report)
    notes = {
        "width": width,
        "rows": n_rows,
        "rows_wrong_before": int(wrong.sum()),
        "rows_wrong": int(solution.wrong.sum()),
        "smallest_lead": solution.lead,
        "iterations": solution.iterations,
        "rounds": solution.rounds,
        "competitors": solution.n_classes,
        "active_rows": solution.n_active,
        "rank": solution.rank,
        "beta": gate.beta,
        "score_facts": [gate.fact_low, gate.fact_high],
        "score_text": gate.text_high,
        "text_tokens": len(text),
        "text_tokens_open": n_open,
    }
    return Layer(gate.gate, gate.up, solution.down, notes), solution, wrong


def _open(psi: Tensor) -> Tensor:
    """The rows of text on which a gate opens."""
    return psi[psi.abs().amax(1) > 1e-9]
