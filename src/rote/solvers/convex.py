"""The convex core of the fits: multinomial cross-entropy in one linear map, on whitened features.

Problem:   find W (d x P) with  argmax_j  unembed_j . (offset_t + W phi_t) = target_t  for every row t.
Method:    the loss  mean_t  CE(unembed (offset_t + W phi_t), target_t)  is convex in W.  The features are whitened by
           the eigenvectors of their Gram matrix, which makes the Hessian at the start close to the identity, and L-BFGS
           then needs tens of iterations where gradient descent needs tens of thousands.  The stream
           ``offset + W phi`` is kept and updated by the step, so a line search costs no product with the features.
Memory:    one float32 (rows x rank) matrix and chunks; nothing grows as rows x rows or as rows x classes.
Precision: Gram, eigenvectors and the map back to the feature basis are float64; the iterations are float32.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rote.solvers.record import Advance, still

FeatureFn = Callable[[int, int], Tensor]
"""``features(start, stop)`` -> the rows start..stop of the feature matrix, as the deployed model computes them."""

Progress = Callable[[int, int, int], None]
"""``progress(iteration, rows_wrong, rows)``, called once an iteration."""

Check = Callable[[NDArray[np.float64], NDArray[np.float32]], int]
"""``check(weight, unembed)`` -> rows the deployed model gets wrong with these weights, in its own precision."""


_CHUNK = 4096
_MEMORY = 12


@dataclass(frozen=True)
class Spectrum:
    """What whitening found: how many directions carry signal, and how unequal they are."""

    n_features: int
    rank: int
    largest: float
    smallest_kept: float

    @property
    def condition(self) -> float:
        """Condition number of the kept part of the feature matrix (not of the Gram matrix)."""
        return float(np.sqrt(self.largest / self.smallest_kept)) if self.rank else float("inf")


@dataclass(frozen=True)
class ReadoutFit:
    """The fitted map in the original feature basis, and how the fit went."""

    weight: NDArray[np.float64]
    unembed: NDArray[np.float32]
    errors: int
    deployed_errors: int
    iterations: int
    loss: float
    spectrum: Spectrum


def whiten(
    features: FeatureFn, n_rows: int, *, cutoff: float, advance: Advance = still
) -> tuple[Tensor, Tensor, Spectrum]:
    """Whitened features Z (rows x rank), the map back M (rank x P, so that Z = F M^T), and the spectrum.

    Directions whose Gram eigenvalue is below ``cutoff`` times the largest are dropped: in float32 a feature carries
    noise of about 1e-7 of its size, so what lies below (1e-7)^2 is noise that W would have to amplify.
    """
    gram: Tensor | None = None
    for start in range(0, n_rows, _CHUNK):
        rows = features(start, min(start + _CHUNK, n_rows)).double()
        gram = rows.T @ rows if gram is None else gram.addmm_(rows.T, rows)
        advance("features", min(start + _CHUNK, n_rows), n_rows)
    assert gram is not None, "there is at least one fact"
    advance("spectrum of the features", 0, 0)
    values, vectors = torch.linalg.eigh(gram / n_rows)
    largest = float(values[-1])
    keep = values > cutoff * max(largest, 1e-300)
    values, vectors = values[keep], vectors[:, keep]
    back = (vectors / values.sqrt()).T.contiguous()
    rank = int(keep.sum())
    white = torch.empty(n_rows, rank)
    # Rounding in this product is amplified by the condition number; float64 is worth its price when that is large.
    exact = largest > 1e6 * float(values[0]) if rank else False
    cast = back if exact else back.float()
    for start in range(0, n_rows, _CHUNK):
        stop = min(start + _CHUNK, n_rows)
        white[start:stop] = features(start, stop).to(cast.dtype) @ cast.T
        advance("features, whitened", stop, n_rows)
    advance("begin the fit", 0, 0)
    smallest = float(values[0]) if rank else 0.0
    return white, back, Spectrum(int(gram.shape[0]), rank, largest, smallest)


class _Objective:
    """Mean cross-entropy of ``stream @ unembed.T`` against the targets, chunked over rows."""

    def __init__(self, targets: Tensor) -> None:
        self.targets = targets

    def value(
        self, stream: Tensor, unembed: Tensor, gradient: Tensor, by_unembed: Tensor | None = None
    ) -> tuple[float, int]:
        """Loss and rows wrong; the derivatives by the stream (and the unembedding) are written into the buffers."""
        n_rows = stream.shape[0]
        loss, wrong = 0.0, 0
        if by_unembed is not None:
            by_unembed.zero_()
        for start in range(0, n_rows, _CHUNK):
            rows = slice(start, min(start + _CHUNK, n_rows))
            target = self.targets[rows]
            logits = stream[rows] @ unembed.T
            right = logits.gather(1, target[:, None])
            top, where = logits.max(1, keepdim=True)
            # A row is right only if its target strictly wins or is the first of equals, as argmax decides.
            wrong += int((where[:, 0] != target).sum())
            logits.sub_(top).exp_()
            total = logits.sum(1, keepdim=True)
            loss += float((total.log() + top - right).sum(dtype=torch.float64))
            logits.div_(total * n_rows)
            logits.scatter_add_(1, target[:, None], torch.full_like(right, -1.0 / n_rows))
            torch.mm(logits, unembed, out=gradient[rows])
            if by_unembed is not None:
                by_unembed.addmm_(logits.T, stream[rows])
        return loss / n_rows, wrong


def two_loop(gradient: Tensor, pairs: deque[tuple[Tensor, Tensor, float]]) -> Tensor:
    """The L-BFGS direction (Nocedal and Wright, algorithm 7.4), negated."""
    direction = gradient.clone()
    alphas: list[float] = []
    for step, change, rho in reversed(pairs):
        alpha = rho * float((step * direction).sum())
        alphas.append(alpha)
        direction.sub_(change, alpha=alpha)
    if pairs:
        step, change, rho = pairs[-1]
        direction.mul_(1.0 / (rho * float((change * change).sum())))
    for (step, change, rho), alpha in zip(pairs, reversed(alphas), strict=True):
        direction.add_(step, alpha=alpha - rho * float((change * direction).sum()))
    return direction.neg_()


def tally(logits: Tensor, exact: Tensor, target: Tensor) -> tuple[int, int, float]:
    """Rows lost, rows right by less than twice their rounding against ``exact``, and the smallest lead.

    ``target`` is a column of class numbers; ``logits`` is overwritten.
    """
    noise = (exact - logits).abs().amax(1)
    right = logits.gather(1, target)[:, 0]
    wrong = logits.argmax(1) != target[:, 0]
    lead = right - logits.scatter_(1, target, -torch.inf).amax(1)
    return int(wrong.sum()), int((~wrong & (lead <= 2.0 * noise)).sum()), float(lead.min())


def _hopeless(history: list[int], n_rows: int) -> bool:
    """Many rows wrong, and forty iterations have not put a third of them right."""
    return len(history) > 80 and history[-1] > 0.01 * n_rows and history[-1] > 0.67 * history[-41]


class ReadoutProblem:
    """One fit: whitened features, targets, offset and unembedding. ``solve`` may be called again to go on."""

    def __init__(
        self,
        features: FeatureFn,
        targets: NDArray[np.int64],
        unembed: NDArray[np.floating],
        offsets: NDArray[np.floating],
        *,
        cutoff: float = 1e-11,
        advance: Advance = still,
    ) -> None:
        self.white, self.back, self.spectrum = whiten(features, len(targets), cutoff=cutoff, advance=advance)
        self.objective = _Objective(torch.as_tensor(np.ascontiguousarray(targets)))
        self.unembed = torch.as_tensor(np.array(unembed), dtype=torch.float32)
        self.stream = torch.as_tensor(np.array(offsets), dtype=torch.float32)
        self.solution = torch.zeros(unembed.shape[1], self.spectrum.rank)
        self.pairs: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=_MEMORY)
        self.unembed_scale = 0.0
        self.iterations = 0
        self.history: list[int] = []

    def weight(self) -> NDArray[np.float64]:
        """The current map in the original feature basis, (d, P)."""
        result: NDArray[np.float64] = (self.solution.double() @ self.back).numpy()
        return result

    def _free_unembed(self) -> None:
        """From here on the unembedding is fitted too, in units that give it the curvature the solution has."""
        size = float(self.stream.square().mean())
        self.unembed_scale = float(np.sqrt(self.unembed.shape[0] / max(size, 1e-12)))
        self.pairs = deque(maxlen=2 * _MEMORY)

    def _evaluate(self, stream: Tensor, unembed: Tensor, by_stream: Tensor) -> tuple[float, int, Tensor | None]:
        by_unembed = torch.empty_like(unembed) if self.unembed_scale else None
        loss, wrong = self.objective.value(stream, unembed, by_stream, by_unembed)
        return loss, wrong, by_unembed

    def _gradient(self, by_stream: Tensor, by_unembed: Tensor | None) -> Tensor:
        flat = (by_stream.T @ self.white).flatten()
        return flat if by_unembed is None else torch.cat([flat, self.unembed_scale * by_unembed.flatten()])

    def solve(
        self,
        *,
        max_iterations: int = 400,
        extra: int = 3,
        patience: int = 20,
        joint: bool = False,
        check: Check | None = None,
        progress: Progress | None = None,
    ) -> ReadoutFit:
        """Descend until no row is wrong, ``extra`` more iterations for margin, then until ``check`` agrees.

        Gives up when ``patience`` iterations lower the loss by less than a thousandth while rows are still wrong; with
        ``joint`` it then fits the unembedding as well (no longer convex, more weights at work) before giving up.
        """
        n_rows, split = self.stream.shape[0], self.solution.numel()
        by_stream = torch.empty_like(self.stream)
        loss, wrong, by_unembed = self._evaluate(self.stream, self.unembed, by_stream)
        gradient = self._gradient(by_stream, by_unembed)
        clean, deployed, pause = 0, -1, 1
        losses: deque[float] = deque([loss], maxlen=patience + 1)
        for _ in range(max_iterations):
            if wrong == 0:
                clean += 1
                if clean > extra:
                    deployed = check(self.weight(), self.unembed.numpy()) if check is not None else 0
                    if deployed == 0:
                        break
                    # Each failed check waits twice as long as the last: checks cost a whole forward pass.
                    clean, pause = -pause, 2 * pause
            direction = two_loop(gradient, self.pairs)
            slope = float(gradient.dot(direction))
            if not slope < 0.0:
                self.pairs.clear()
                direction = -gradient
                slope = -float(gradient.dot(gradient))
                if slope == 0.0:
                    break
            turn = direction[:split].view_as(self.solution)
            move = self.white @ turn.T
            tilt = direction[split:].view_as(self.unembed) * self.unembed_scale if self.unembed_scale else None
            step, accepted = 1.0, False
            for _ in range(12):
                stream = torch.add(self.stream, move, alpha=step)
                unembed = self.unembed if tilt is None else torch.add(self.unembed, tilt, alpha=step)
                new_loss, new_wrong, by_unembed = self._evaluate(stream, unembed, by_stream)
                if new_loss <= loss + 1e-4 * step * slope + 1e-9 * abs(loss):
                    accepted = True
                    break
                bend = new_loss - loss - step * slope
                step *= min(0.5, max(0.1, -slope * step / (2.0 * bend))) if np.isfinite(bend) and bend > 0 else 0.1
            if not accepted:
                if not self.pairs:
                    break
                self.pairs.clear()
                loss, wrong, by_unembed = self._evaluate(self.stream, self.unembed, by_stream)
                gradient = self._gradient(by_stream, by_unembed)
                continue
            new_gradient = self._gradient(by_stream, by_unembed)
            moved, change = step * direction, new_gradient - gradient
            curvature = float(moved.dot(change))
            if curvature > 1e-10 * float(change.norm() * moved.norm()):
                self.pairs.append((moved, change, 1.0 / curvature))
            self.solution += step * turn
            self.stream, self.unembed = stream, unembed
            gradient, loss, wrong = new_gradient, new_loss, new_wrong
            self.iterations += 1
            self.history.append(wrong)
            losses.append(loss)
            if progress is not None:
                progress(self.iterations, wrong, n_rows)
            if not joint and _hopeless(self.history, n_rows):
                break
            if (
                wrong
                and len(losses) > patience
                and losses[0] - loss < (0.01 if joint and not self.unembed_scale else 1e-3) * loss
            ):
                # A finite minimum with rows still wrong: the loss is convex, so no later iteration puts them right.
                if not joint or self.unembed_scale:
                    break
                self._free_unembed()
                loss, wrong, by_unembed = self._evaluate(self.stream, self.unembed, by_stream)
                gradient = self._gradient(by_stream, by_unembed)
                losses.clear()
        if deployed < 0:
            # A check costs a whole forward pass, and what is wrong already is not put right by it.
            deployed = wrong if wrong or check is None else check(self.weight(), self.unembed.numpy())
        return ReadoutFit(
            weight=self.weight(),
            unembed=self.unembed.numpy(),
            errors=wrong,
            deployed_errors=deployed,
            iterations=self.iterations,
            loss=loss,
            spectrum=self.spectrum,
        )
