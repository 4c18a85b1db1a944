"""Gates that open on facts and stay shut on ordinary text.

Let x = h / rms(h) be what the added MLP reads. A direction w with w.x about 0 on facts and w.x <= -1 on ordinary text
makes gate rows r_i + beta w: on ordinary text the pre-activation is below -beta + |r_i.x|, and silu(-40) is -2e-16,
so the layer adds nothing that float32 could hold. No bias exists in these architectures, and none is needed.

w minimises  ridge |w|^2 / 2 + mean_facts a (|w.x| - zone)_+^2 / 2 + mean_text (w.x + 1)_+^2 / 2,  a support vector
machine with squared hinges: convex, and solved by Newton's method, one linear solve of size d a step. Facts that stay
outside of the zone get more weight a, and w is found again.

The random rows r_i are made orthogonal to the facts' mean and scaled, so that gates differ between facts.

Where a few facts are left over, gates can do more than differ: they can open on those and on little else. For a fact
with x_t, the row  a C^-1 x_t - b C^-1 mean,  C being the second moments of facts and text, answers x_t with 1 and the
mean with about -b; a is chosen for that. It is a linear discriminant with a bar to clear, one for each fact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = ["Gate", "choose_gate", "direction", "features", "normalise", "singling_out"]

_SHUT = 150.0
_SPREAD = 3.0
_STEEP = 10.0
_ZONE = 0.02
_BAR = 4.0
_HEIGHT = 40.0
_TEXT = 10.0


@dataclass(frozen=True)
class Gate:
    """The first two matrices of the added MLP, and how well w tells facts from text."""

    gate: Tensor
    up: Tensor
    beta: float
    fact_low: float
    fact_high: float
    text_high: float


def normalise(states: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x = h / rms(h) and rms(h), as RMSNorm with unit weights computes them."""
    rms = torch.sqrt(states.square().mean(1, keepdim=True) + eps)
    return states / rms, rms


def features(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate x) * (up x), row by row."""
    return torch.nn.functional.silu(x @ gate.T) * (x @ up.T)


def direction(facts: Tensor, text: Tensor, weights: Tensor, ridge: float) -> Tensor:
    """The minimiser of the squared-hinge problem above, in float64."""
    d = facts.shape[1]
    w = torch.zeros(d, dtype=torch.float64)
    share = weights / weights.sum()

    def slacks(w: Tensor) -> tuple[Tensor, Tensor]:
        on_facts, on_text = (facts @ w.float()).double(), (text @ w.float()).double()
        outside = on_facts - on_facts.clamp(-_ZONE, _ZONE)
        return outside, (on_text + 1.0).clamp(min=0.0)

    def loss(w: Tensor, outside: Tensor, leak: Tensor) -> float:
        return float(ridge * w.square().sum() + (share * outside.square()).sum() + leak.square().mean())

    outside, leak = slacks(w)
    value = loss(w, outside, leak)
    for _ in range(30):
        gradient = ridge * w
        hessian = ridge * torch.eye(d, dtype=torch.float64)
        for rows, slack, scale in (
            (facts, outside, share.float()),
            (text, leak, torch.full((len(text),), 1.0 / len(text))),
        ):
            active = slack != 0.0
            chosen = rows[active]
            scaled = chosen * scale[active][:, None]
            gradient = gradient + (scaled.T @ slack[active].float()).double()
            hessian += (scaled.T @ chosen).double()
        step = torch.linalg.solve(hessian, gradient)
        size = 1.0
        while size > 1e-4:
            new = w - size * step
            outside, leak = slacks(new)
            new_value = loss(new, outside, leak)
            if new_value < value:
                break
            size *= 0.5
        else:
            break
        done = value - new_value < 1e-7 * value
        w, value = new, new_value
        if done:
            break
    return w


def choose_gate(
    facts: Tensor,
    text: Tensor,
    width: int,
    rng: np.random.Generator,
    *,
    rows: Tensor | None = None,
) -> Gate:
    """Gate and up rows for facts and text (normalised states); `rows` in place of random gate rows."""
    weights = torch.ones(len(facts), dtype=torch.float64)
    for _ in range(4):
        w = direction(facts, text, weights, 1e-4)
        scores = (facts @ w.float()).double()
        lost = scores.abs() > 3 * _ZONE
        if not lost.any():
            break
        weights[lost] *= 8.0
    on_text = text @ w.float()
    # Shut for all but the most eager tokens of the text, which are left to the penalty of the fit; but never so steep
    # that w alone decides what a fact's features are: rounding of w.x is magnified by beta as well.
    top = float(torch.quantile(on_text[:: max(1, len(on_text) // 1_000_000)], 0.999))
    spread = float(torch.quantile(scores[:: max(1, len(scores) // 1_000_000)].abs(), 0.999))
    beta = min(_SHUT / min(1.0, max(0.3, -top)), _STEEP / max(spread, 1e-3))
    singled = rows is not None
    if rows is None:
        mean = facts.mean(0)
        rows = torch.as_tensor(rng.standard_normal((width, facts.shape[1])), dtype=torch.float32)
        rows -= torch.outer(rows @ mean, mean) / mean.square().sum()
        rows *= _SPREAD / (facts @ rows.T).std(0, keepdim=True).T.clamp(min=1e-6)
    else:
        # These rows are mostly shut on text by themselves; w, made for a few facts, might open them on others, so no
        # more of it is taken than the text needs.
        need = ((text @ rows.T).amax(1) + 0.5 * _HEIGHT) / (-on_text).clamp(min=0.3)
        beta = max(1.5 * _HEIGHT, float(torch.quantile(need[:: max(1, len(need) // 1_000_000)], 0.999)))
    up = torch.as_tensor(rng.standard_normal((width, facts.shape[1])), dtype=torch.float32)
    seen = facts @ up.T
    # Of facts that are singled out there may be one alone, and then nothing spreads.
    size = seen.square().mean(0).sqrt() if singled else seen.std(0)
    up /= size[:, None].clamp(min=1e-6)
    return Gate(
        rows + beta * w.float(),
        up,
        beta,
        float(scores.min()),
        float(scores.max()),
        float(on_text.max()),
    )


def singling_out(chosen: Tensor, facts: Tensor, text: Tensor, width: int) -> Tensor:
    """Gate rows, each of which opens on one of `chosen` (normalised states) and on few other facts, and not on text.

    There are `width` of them, so that each chosen fact has several, or the last ones none.
    """
    second = (facts.T @ facts).double() / len(facts) + _TEXT * (text.T @ text).double() / len(text)
    second.diagonal().add_(1e-2 * float(second.diagonal().mean()))
    mean = facts.double().mean(0) + _TEXT * text.double().mean(0)
    bar = torch.linalg.solve(second, mean)
    turned = torch.linalg.solve(second, chosen.double().T).T
    # A fact that is far on the other side of the mean clears the bar without a gain of its own.
    gain = (1.0 + _BAR * (chosen.double() @ bar)).clamp(min=0.5) / (turned * chosen.double()).sum(1)
    rows: Tensor = _HEIGHT * (gain[:, None] * turned - _BAR * bar)
    return rows.repeat(-(-width // len(rows)), 1)[:width].float()
