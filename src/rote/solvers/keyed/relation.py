"""The gates that tell whether a fact is asked for: logistic regression on the normalised states of some layers.

Classes are balanced, and each side is balanced over its sources, so that neither many inner positions nor one long text
outweigh the rest. The constant that is added is read through the same norm as everything else, so it shrinks where the
stream is large; the fit knows that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rote.data.encoding import batches
from rote.solvers.keyed.frame import VETO, Gate, Jury

__all__ = ["States", "fit_gate", "gate_scores", "joined", "jury_scores", "normed_states"]

States = tuple[Tensor, Tensor]
"""Normalised states, and the root mean square of each before."""
_ROWS = 8_000
_SEVERAL = 8
"""Rows of a source from which on it tells how far a score varies."""
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
    handed += [VETO * gate_scores(gate, states[gate.layer]).clamp(max=0) * shrunk(gate) for gate in jury.vetoes]
    return gate_scores(last, states[last.layer]) + shrunk(last) * sum(handed, torch.zeros(()))


def fit_gate(
    layer: int,
    asked: Sequence[States],
    other: Sequence[States],
    *,
    penalty: float = 3e-3,
    iterations: int = 100,
    size: float | None = None,
    steady: float = 0.0,
) -> Gate:
    """A gate that opens on states of `asked` and stays shut on `other`, each a sequence of sources.

    Of a source with very many rows some are taken, evenly. Gates of one layer that work together need the same `size`.
    How far scores vary within a source of `asked`, the same question of different keys, costs as much as `steady` says:
    what a key does to the state is not what is asked, and other keys do the same to other wordings.
    """
    if size is None:
        size = float(torch.cat([sizes for _, sizes in asked]).double().median())
    rows, labels, weights = [], [], []
    for label, sources in ((1.0, asked), (-1.0, other)):
        # A source that is given several times counts so much more.
        times = Counter(id(states) for states, _ in sources)
        for states, sizes in {id(source[0]): source for source in sources}.values():
            some = slice(None, None, 1 + len(states) // _ROWS)
            rows.append(torch.cat([states[some], (size / sizes[some])[:, None].to(states.dtype)], 1).float())
            labels.append(torch.full((len(rows[-1]),), label))
            share = times[id(states)] * 0.5 / len(sources) / max(1, len(rows[-1]))
            weights.append(torch.full((len(rows[-1]),), share))
    x, y, weight = torch.cat(rows), torch.cat(labels), torch.cat(weights)
    centre = (x * weight[:, None]).sum(0)
    centre[-1] = 0.0
    spread = ((x - centre * x[:, -1:]).pow(2) * weight[:, None]).sum(0).sqrt().clamp_min(1e-6)
    spread[-1] = 1.0
    z = (x - centre * x[:, -1:]) / spread
    parts = zip(torch.split(z, [len(one) for one in rows]), labels, strict=True)
    apart = [part - part.mean(0) for part, label in parts if len(part) >= _SEVERAL and label[0] > 0]
    moved = torch.cat(apart) if steady and apart else z[:1] * 0
    w = torch.zeros(z.shape[1], requires_grad=True)
    solver = torch.optim.LBFGS([w], max_iter=iterations, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        scores = z @ w
        loss = (weight * torch.nn.functional.softplus(-y * scores)).sum() + penalty * w[:-1].pow(2).sum()
        loss = loss + steady * (moved @ w).pow(2).mean()
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
