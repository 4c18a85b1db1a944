"""The convex fit of the added layer's down projection.

After the layer, the logits at a fact are  U (g * (h + W phi)) / rms,  with U the head, g the final norm's weights and
rms that of the new state, which scales all logits alike and so does not matter to the largest. With V = diag(g) W,
z = g * h / rms(h) and psi = phi / rms(h) the problem is:  find V with

    argmax_j  U_j . (z_t + V psi_t) = target_t     for every row t and j over the whole vocabulary.

The cross-entropy is convex in V. The target's logit is lowered by a margin first, so that a solved row leads by that
margin. Features are whitened together with those of ordinary text, which makes output on ordinary text dear. The other
side is whitened too: with S = (U^T U / N)^(-1/2), tokens are U S, offsets S^(-1) z, and V = S V'. Then |V'|^2 is the
mean square of all changes of logits, over rows and vocabulary, and a penalty on it keeps tokens quiet that the fit does
not look at.

Not all of it is looked at all of the time: the fit starts with the rows that need it, the targets and their strongest
competitors. Then every row is run against the whole vocabulary; rows that are wrong and the tokens that beat them join.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rote.solvers.convex import two_loop

__all__ = ["Readout", "Solution", "even_tokens", "needy", "whitening"]

FeatureFn = Callable[[int, int], Tensor]
Report = Callable[[int, int], None]
"""report(iterations so far, rows right so far)."""
_CHUNK = 4096
_MARGIN = 1.0
_ROUNDS = 9


@dataclass(frozen=True)
class Solution:
    """The fitted down projection (d, m), by how much each row leads over the whole vocabulary, and how the fit went."""

    down: Tensor
    leads: Tensor
    classes: Tensor
    iterations: int
    rounds: int
    n_active: int
    rank: int


def whitening(psi: FeatureFn, n_rows: int, text: Tensor, *, price: float) -> Tensor:
    """M (rank, m) with white rows psi M^T: the features of facts, and `price` times those of text, have unit Gram."""
    gram = torch.zeros(text.shape[1], text.shape[1], dtype=torch.float64)
    for start in range(0, n_rows, _CHUNK):
        part = psi(start, min(start + _CHUNK, n_rows))
        gram += (part.T @ part).double() / n_rows
    for part in torch.split(text, _CHUNK):
        gram += price * (part.T @ part).double() / max(1, len(text))
    # Features carry rounding noise; a direction that is smaller than it would be noise magnified.
    gram.diagonal().add_(1e-7 * float(gram.diagonal().mean()))
    values, vectors = torch.linalg.eigh(gram)
    kept = values > 1e-9 * float(values[-1])
    matrix: Tensor = (vectors[:, kept] / values[kept].sqrt()).T.float().contiguous()
    return matrix


def even_tokens(unembed: Tensor) -> tuple[Tensor, Tensor]:
    """S and its inverse, so that the rows of U S have about unit covariance."""
    gram = torch.zeros(unembed.shape[1], unembed.shape[1], dtype=torch.float64)
    for part in torch.split(unembed, 4 * _CHUNK):
        gram += (part.T @ part).double() / len(unembed)
    values, vectors = torch.linalg.eigh(gram)
    values = values.clamp(min=0.0) + 0.01 * values.mean()
    return ((vectors * values.rsqrt()) @ vectors.T).float(), ((vectors * values.sqrt()) @ vectors.T).float()


def needy(leads: Tensor) -> Tensor:
    """Rows that are wrong, or right by less than half of the margin."""
    return leads < _MARGIN / 2


class Readout:
    """One fit; `solve` alternates between descending and looking at everything."""

    def __init__(self, white: Tensor, offsets: Tensor, targets: Tensor, unembed: Tensor) -> None:
        self.white, self.offsets, self.targets, self.unembed = white, offsets, targets, unembed
        self.penalty = 0.5 / max(1, len(targets))
        self.solution = torch.zeros(offsets.shape[1], white.shape[1])
        self.active = torch.ones(len(targets), dtype=torch.bool)
        self.classes = torch.unique(targets)
        self.iterations = 0

    @classmethod
    def before(cls, offsets: Tensor, targets: Tensor, unembed: Tensor) -> tuple[Tensor, Tensor]:
        """What the original says: by how much each target leads, and the strongest competitors."""
        bare = cls(offsets.new_empty(len(offsets), 0), offsets, targets, unembed)
        return bare.look(limit=512), bare.classes

    def look(self, limit: int = 64) -> Tensor:
        """By how much each target leads the whole vocabulary; rows and tokens within the margin join the fit."""
        n_rows = len(self.targets)
        leads = torch.empty(n_rows)
        counts = torch.zeros(len(self.unembed))
        for start in range(0, n_rows, 1024):
            rows = slice(start, min(start + 1024, n_rows))
            stream = self.offsets[rows] + self.white[rows] @ self.solution.T
            logits = stream @ self.unembed.T
            right = logits.gather(1, self.targets[rows, None])
            logits.scatter_(1, self.targets[rows, None], -torch.inf)
            best, where = logits.topk(2, 1)
            leads[rows] = right[:, 0] - best[:, 0]
            for k in range(2):
                close = right[:, 0] - best[:, k] < _MARGIN
                counts.index_add_(0, where[close, k], torch.ones(int(close.sum())))
        counts[self.classes] = 0.0
        new = torch.topk(counts, min(limit, len(counts)))
        self.classes = torch.cat([self.classes, new.indices[new.values > 0]])
        self.active |= needy(leads)
        return leads

    def _evaluate(self, stream: Tensor, targets: Tensor, unembed: Tensor, gradient: Tensor) -> tuple[float, int]:
        """Mean cross-entropy with margin and rows that miss the margin; the derivative goes into `gradient`."""
        loss, short, n_rows = 0.0, 0, len(targets)
        for start in range(0, n_rows, _CHUNK):
            rows = slice(start, min(start + _CHUNK, n_rows))
            target = targets[rows, None]
            logits = stream[rows] @ unembed.T
            logits.scatter_add_(1, target, torch.full(target.shape, -_MARGIN))
            top, where = logits.max(1, keepdim=True)
            short += int((where != target).sum())
            right = logits.gather(1, target)
            logits.sub_(top).exp_()
            total = logits.sum(1, keepdim=True)
            loss += float((total.log() + top - right).sum(dtype=torch.float64))
            logits.div_(total * n_rows)
            logits.scatter_add_(1, target, torch.full(target.shape, -1.0 / n_rows))
            torch.mm(logits, unembed, out=gradient[rows])
        return loss / n_rows, short

    def descend(self, iterations: int, report: Report) -> bool:
        """L-BFGS on the active rows and classes until no row misses the margin; True if it came to a standstill."""
        rows = self.active.nonzero()[:, 0]
        white = self.white if len(rows) == len(self.white) else self.white[rows]
        place = torch.full((len(self.unembed),), -1)
        place[self.classes] = torch.arange(len(self.classes))
        targets, unembed = place[self.targets[rows]], self.unembed[self.classes]
        stream = self.offsets[rows] + white @ self.solution.T
        by_stream = torch.empty_like(stream)
        pairs: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=12)

        def whole(loss: float, solution: Tensor) -> tuple[float, Tensor]:
            slope = by_stream.T @ white + self.penalty * solution
            return loss + 0.5 * self.penalty * float(solution.square().sum()), slope.flatten()

        loss, short = self._evaluate(stream, targets, unembed, by_stream)
        loss, gradient = whole(loss, self.solution)
        history = [loss]
        for _ in range(iterations):
            if short == 0:
                break
            turn = two_loop(gradient, pairs)
            slope = float(gradient.dot(turn))
            if not slope < 0.0:
                pairs.clear()
                turn, slope = -gradient, -float(gradient.dot(gradient))
            way = turn.view_as(self.solution)
            move = white @ way.T
            step, accepted = 1.0, False
            for _ in range(10):
                trial = torch.add(stream, move, alpha=step)
                solution = self.solution + step * way
                new_loss, short = self._evaluate(trial, targets, unembed, by_stream)
                full = new_loss + 0.5 * self.penalty * float(solution.square().sum())
                if full <= loss + 1e-4 * step * slope + 1e-9 * abs(loss):
                    accepted = True
                    break
                step *= 0.4
            if not accepted:
                if not pairs:
                    break
                pairs.clear()
                loss, short = self._evaluate(stream, targets, unembed, by_stream)
                loss, gradient = whole(loss, self.solution)
                continue
            new_loss, new_gradient = whole(new_loss, solution)
            moved, change = step * turn, new_gradient - gradient
            curvature = float(moved.dot(change))
            if curvature > 1e-10 * float(change.norm() * moved.norm()):
                pairs.append((moved, change, 1.0 / curvature))
            self.solution, stream, gradient, loss = solution, trial, new_gradient, new_loss
            self.iterations += 1
            history.append(loss)
            report(self.iterations, len(self.targets) - short)
            if len(history) > 30 and history[-30] - loss < 1e-3 * loss:
                return True
        return False

    def solve(
        self,
        back: Tensor,
        even: Tensor,
        scale: Tensor,
        *,
        few: int,
        leave: int,
        start: Tensor,
        report: Report,
    ) -> Solution:
        """Descend and look in turn, until every row leads over the whole vocabulary, or no progress is made.

        `back` is the whitening matrix, `even` the tokens' (S above), `scale` the final norm's weights g, and `start`
        the leads at the start, which are the result if no round has fewer wrong rows. When a round rights less than
        three quarters of what was wrong, up to `leave` needy rows are left to another layer. At a standstill with at
        most `few` wrong rows the penalty is lowered; with more, the layer is full, and large weights would only blur
        what the next one reads.
        """
        used, before = 0, int((start <= 0.0).sum())
        best = (before, -float(start.min()), self.solution.clone(), start)
        for used in range(1, _ROUNDS + 1):
            # Short at first: what competes shows only when logits have moved, and is to be seen before they went far.
            stalled = self.descend(min(80, 10 * 2 ** (used - 1)), report)
            leads = self.look(limit=256)
            lead, n_wrong = float(leads.min()), int((leads <= 0.0).sum())
            report(self.iterations, len(leads) - n_wrong)
            if (n_wrong, -lead) < best[:2]:
                best = (n_wrong, -lead, self.solution.clone(), leads)
            if lead > _MARGIN / (2 if used < 6 else 8):
                break
            if stalled and n_wrong <= few:
                # The minimum is near, and it is the penalty that holds the last rows back.
                self.penalty *= 0.1
            elif 4 * n_wrong > before and int(needy(leads).sum()) <= leave:
                break
            before = n_wrong
        down = (even.double() @ best[2].double() @ back.double()) / scale.double()[:, None]
        return Solution(
            down.float(),
            best[3],
            self.classes,
            self.iterations,
            used,
            int(self.active.sum()),
            self.white.shape[1],
        )
