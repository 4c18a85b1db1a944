"""Facts in a gated MLP: down projection by the convex fit, then gate, up and down together from that start.

Block:     y' = y + W_down ( silu(W_gate y) * (W_up y) ),  3 m d parameters, as in a stock Llama.
Step 1:    W_gate, W_up random; W_down minimises the cross-entropy of the facts, a convex problem (see ``convex``).
Step 2:    if asked for, and where step 1 stops short, L-BFGS on all three from there. The loss is convex in W_down
           alone and in W_up alone, not in all together, so this step carries no guarantee; measured, it stores 2.5
           times as many facts, because all of the 3 m d weights then work instead of a third of them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from rote.solvers.argmax import AttentionFeatures, Weights, random_heads, target_frame
from rote.solvers.convex import Progress, ReadoutProblem, tally, whiten
from rote.solvers.record import Advance, still

_NAMES = ("W_gate", "W_up", "W_down")
_CHUNK = 4096
_SCALE = (0.5, 5.0)
"""Score scales of the heads that mix."""


@dataclass(frozen=True)
class MlpFit:
    """Weights in float32, and how many facts a float32 pass with them gets wrong. ``fragile`` as in ``FitResult``."""

    weights: Weights = field(repr=False)
    errors: int
    fragile: int
    margin: float
    iterations: int


class _Done(Exception):
    """Raised out of scipy when the facts are held with room to spare."""


def features(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate x) * (up x), row by row."""
    return torch.nn.functional.silu(x @ gate.T) * (x @ up.T)


@dataclass
class _Problem:
    """Inputs, what is added to the block's output, classes and their directions."""

    inputs: Tensor
    offsets: Tensor
    targets: Tensor
    unembed: Tensor

    def logits(self, w: list[Tensor], rows: slice, dtype: torch.dtype) -> Tensor:
        gate, up, down, *rest = (part.to(dtype) for part in w)
        stream = features(self.inputs[rows].to(dtype), gate, up) @ down.T + self.offsets[rows].to(dtype)
        return stream @ (rest[0] if rest else self.unembed.to(dtype)).T

    def pieces(self) -> list[slice]:
        n_rows = len(self.targets)
        return [slice(at, min(at + _CHUNK, n_rows)) for at in range(0, n_rows, _CHUNK)]

    def recall(self, w: list[Tensor]) -> tuple[int, int, float]:
        """Facts lost, facts held by less than twice the rounding on their row, smallest margin."""
        lost, fragile, margin = 0, 0, float("inf")
        for rows in self.pieces():
            target = self.targets[rows][:, None]
            logits = self.logits(w, rows, torch.float32)
            part = tally(logits, self.logits(w, rows, torch.float64), target)
            lost, fragile, margin = lost + part[0], fragile + part[1], min(margin, part[2])
        return lost, fragile, margin


def _fit_gated(
    problem: _Problem,
    d_mlp: int,
    rng: np.random.Generator,
    *,
    joint: bool,
    joint_unembed: bool,
    max_iterations: int,
    progress: Progress | None,
    advance: Advance = still,
) -> tuple[list[Tensor], int]:
    """Weights [gate, up, down (, unembed)] in float32, and iterations."""
    n_rows, d_model = problem.inputs.shape
    norm = float(problem.inputs.double().square().sum(1).mean().sqrt())
    # Gate pre-activations of about 5 put silu to work on both its sides.
    gate = torch.as_tensor(rng.standard_normal((d_mlp, d_model)) * (5.0 / norm)).float()
    up = torch.as_tensor(rng.standard_normal((d_mlp, d_model)) / norm).float()

    def hidden(start: int, stop: int) -> Tensor:
        return features(problem.inputs[start:stop], gate, up)

    def check(weight: NDArray[np.float64], unembed: NDArray[np.float32]) -> int:
        lost, fragile, _ = problem.recall([gate, up, torch.as_tensor(weight).float()])
        return lost + fragile

    readout = ReadoutProblem(
        hidden, problem.targets.numpy(), problem.unembed.numpy(), problem.offsets.numpy(), advance=advance
    )
    start = readout.solve(
        max_iterations=80 if joint else max_iterations, patience=10 if joint else 20, check=check, progress=progress
    )
    weights = [gate, up, torch.as_tensor(start.weight).float()]
    iterations = start.iterations
    if not joint or start.deployed_errors == 0:
        return weights, iterations

    # Balance the blocks: the product is what counts, and L-BFGS starts from a multiple of the identity.
    ratio = float((weights[2].norm() / weights[1].norm()).sqrt())
    weights = [gate, up * ratio, weights[2] / ratio] + ([problem.unembed.clone()] if joint_unembed else [])
    dtype = torch.float64 if n_rows * problem.unembed.shape[0] < 4_000_000 else torch.float32
    sizes = [part.numel() for part in weights]
    state = {"clean": 0, "wait": 3, "best": n_rows + 1}
    kept = weights

    def unpack(x: NDArray[np.float64], dtype: torch.dtype) -> list[Tensor]:
        parts = torch.split(torch.as_tensor(x).to(dtype), sizes)
        return [part.view_as(like) for part, like in zip(parts, weights, strict=True)]

    def evaluate(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        leaves = [part.clone().requires_grad_() for part in unpack(x, dtype)]
        loss, wrong = 0.0, 0
        for rows in problem.pieces():
            logits = problem.logits(leaves, rows, dtype)
            part = torch.nn.functional.cross_entropy(logits, problem.targets[rows], reduction="sum") / n_rows
            part.backward()  # type: ignore[no-untyped-call]
            loss += float(part.detach())
            wrong += int((logits.detach().argmax(1) != problem.targets[rows]).sum())
        state["wrong"] = wrong
        slopes = [leaf.grad.flatten() for leaf in leaves if leaf.grad is not None]
        return loss, torch.cat(slopes).double().numpy()

    def after(intermediate_result: Any) -> None:
        nonlocal kept, iterations
        iterations += 1
        wrong = state["wrong"]
        if progress is not None:
            progress(iterations, wrong, n_rows)
        if wrong <= state["best"]:
            state["best"], kept = wrong, unpack(np.array(intermediate_result.x), torch.float32)
        state["clean"] = state["clean"] + 1 if wrong == 0 else 0
        if state["clean"] >= state["wait"]:
            lost, fragile, _ = problem.recall(kept)
            if lost + fragile == 0:
                raise _Done
            state["wait"] *= 2

    first = torch.cat([part.flatten() for part in weights]).double().numpy()
    options = {"maxiter": max_iterations, "maxfun": 2 * max_iterations, "maxcor": 20, "ftol": 0.0, "gtol": 0.0}
    with suppress(_Done):
        minimize(evaluate, first, jac=True, method="L-BFGS-B", callback=after, options=options)
    return kept, iterations


def fit_attention_mlp(
    contexts: NDArray[np.int64],
    targets: NDArray[np.int64],
    vocab: int,
    n_heads: int,
    d_model: int,
    d_head: int,
    d_mlp: int,
    rng: np.random.Generator,
    *,
    joint: bool,
    max_iterations: int,
    progress: Progress,
    advance: Advance = still,
) -> MlpFit:
    """One random attention layer to mix the tokens, then the fitted block; parameters d (S + 2N + 4 d_h H + 3 m)."""
    weights: Weights = {
        name: value.astype(np.float32)
        for name, value in random_heads(vocab, contexts.shape[1], n_heads, d_model, d_head, rng, scale=_SCALE).items()
    }
    heads = AttentionFeatures(weights, contexts)
    # The block stores best what looks like random directions: W_O whitens the heads' output, the skip is small.
    mixed, back, spectrum = whiten(heads, len(contexts), cutoff=1e-8)
    turn = np.linalg.qr(rng.standard_normal((max(d_model, spectrum.rank), min(d_model, spectrum.rank))))[0]
    turn = turn if spectrum.rank <= d_model else turn.T
    whitener = (turn @ back.numpy()).reshape(d_model, n_heads, d_head).transpose(1, 0, 2)
    weights["W_O"] = np.ascontiguousarray(whitener).astype(np.float32)
    del mixed
    out = torch.as_tensor(weights["W_O"]).permute(0, 2, 1).reshape(heads.n_features, d_model)
    stream = heads.offsets()
    for start in range(0, len(contexts), _CHUNK):
        stop = min(start + _CHUNK, len(contexts))
        stream[start:stop] += heads(start, stop) @ out
    used, classes = np.unique(targets, return_inverse=True)
    # A lone target is fitted against its own opposite, so that it beats the zero rows of the other tokens.
    frame = target_frame(max(len(used), 2), d_model, rng).astype(np.float32)
    problem = _Problem(stream, stream, torch.as_tensor(classes), torch.as_tensor(frame))
    parts, iterations = _fit_gated(
        problem,
        d_mlp,
        rng,
        joint=joint,
        joint_unembed=True,
        max_iterations=max_iterations,
        progress=progress,
        advance=advance,
    )
    rows = parts[3] if len(parts) == 4 else problem.unembed
    rows = rows - rows.double().mean(0).float()
    problem.unembed = rows
    lost, fragile, margin = problem.recall(parts[:3])
    full = np.zeros((vocab, d_model), np.float32)
    full[used] = rows.numpy()[: len(used)]
    weights |= {name: part.numpy() for name, part in zip(_NAMES, parts[:3], strict=True)} | {"W_U": full}
    return MlpFit(weights, lost, fragile, margin, iterations)
