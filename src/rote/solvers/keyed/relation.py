"""The gates that tell whether a fact is asked for: logistic regression on the normalised states of some layers.

Classes are balanced, and each side is balanced over its sources, so that neither many inner positions nor one long text
outweigh the rest. The constant that is added is read through the same norm as everything else, so it shrinks where the
stream is large; the fit knows that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rote.data.encoding import batches
from rote.solvers.keyed.frame import Gate, Jury

__all__ = ["States", "fit_gate", "gate_scores", "joined", "jury_scores", "normed_states"]

States = tuple[Tensor, Tensor]
"""Normalised states, and the root mean square of each before."""
_ROWS = 20_000
_NONE: States = (torch.zeros(0, 0), torch.zeros(0))


def joined(parts: Sequence[States]) -> States:
    return torch.cat([rows for rows, _ in parts]), torch.cat([sizes for _, sizes in parts])


def gate_scores(gate: Gate, states: States) -> Tensor:
    """Positive where the gate opens."""
    rows, sizes = states
    return rows.double() @ torch.tensor(gate.weights) + gate.bias * gate.size / sizes.double()


def jury_scores(jury: Jury, states: Mapping[int, States]) -> Tensor:
    """Positive where a jury opens, given the states of the same positions in all of its layers.

    What an earlier gate hands on is written, and read again by the last one, through the norms of their layers.
    """
    *early, last = jury.gates

    def shrunk(gate: Gate) -> Tensor:
        return gate.size / states[gate.layer][1].double()

    handed = [gate_scores(gate, states[gate.layer]) * shrunk(gate) for gate in early]
    return gate_scores(last, states[last.layer]) + shrunk(last) * sum(handed, torch.zeros(()))


def fit_gate(
    layer: int, asked: Sequence[States], other: Sequence[States], *, penalty: float = 3e-3, iterations: int = 100
) -> Gate:
    """A gate that opens on states of `asked` and stays shut on `other`, each a sequence of sources.

    Of a source with very many rows some are taken, evenly.
    """
    size = float(torch.cat([sizes for _, sizes in asked]).double().median())
    rows, labels, weights = [], [], []
    for label, sources in ((1.0, asked), (-1.0, other)):
        for states, sizes in (tuple(part[:: 1 + len(part) // _ROWS] for part in source) for source in sources):
            rows.append(torch.cat([states.double(), size / sizes.double()[:, None]], 1))
            labels.append(torch.full((len(states),), label, dtype=torch.float64))
            weights.append(torch.full((len(states),), 0.5 / len(sources) / max(1, len(states)), dtype=torch.float64))
    x, y, weight = torch.cat(rows).float(), torch.cat(labels).float(), torch.cat(weights).float()
    centre = (x * weight[:, None]).sum(0)
    centre[-1] = 0.0
    spread = ((x - centre * x[:, -1:]).pow(2) * weight[:, None]).sum(0).sqrt().clamp_min(1e-6)
    spread[-1] = 1.0
    z = (x - centre * x[:, -1:]) / spread
    w = torch.zeros(z.shape[1], requires_grad=True)
    solver = torch.optim.LBFGS([w], max_iter=iterations, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        scores = z @ w
        loss = (weight * torch.nn.functional.softplus(-y * scores)).sum() + penalty * w[:-1].pow(2).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with torch.enable_grad():
        solver.step(closure)  # type: ignore[no-untyped-call]
    found = (w.detach() / spread).double()
    bias = float(found[-1] - (found[:-1] * centre[:-1].double()).sum())
    return Gate(layer, found[:-1].numpy(), bias, size)


@torch.no_grad()
def normed_states(
    model: Any, sequences: Sequence[Sequence[int]], layers: Sequence[int], advance: Callable[[int], None]
) -> dict[int, list[States]]:
    """For each layer and sequence, what stands behind the norm before its MLP, at all positions."""
    caught: dict[int, States] = {}
    hooks = []
    eps = float(model.config.rms_norm_eps)

    def catch(layer: int) -> Callable[..., None]:
        def hook(_: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            caught[layer] = output.float(), (inputs[0].double().pow(2).mean(-1) + eps).sqrt()

        return hook

    states: dict[int, list[States]] = {layer: [_NONE] * len(sequences) for layer in layers}
    for layer in layers:
        hooks.append(model.model.layers[layer].post_attention_layernorm.register_forward_hook(catch(layer)))
    try:
        for batch in batches(sequences, [len(ids) for ids in sequences], tokens=2048):
            model.model(input_ids=torch.tensor([tuple(sequences[i]) for i in batch]), use_cache=False)
            for layer in layers:
                rows, sizes = caught[layer]
                for k, i in enumerate(batch):
                    states[layer][i] = rows[k].clone(), sizes[k].clone()
            advance(len(batch))
    finally:
        for hook in hooks:
            hook.remove()
    return states
