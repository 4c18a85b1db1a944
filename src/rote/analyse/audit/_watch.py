"""What is kept of a layer: verdicts on its contexts, the query's states, and what its heads look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rote.assumptions.context_rank import full_rank
from rote.data._arrays import FloatArray as Array

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ROUNDOFF", "SATURATED", "Layers", "Seen"]


ROUNDOFF = 2.0**-22
"""States are computed in float32; a few roundings add up."""
SATURATED = 0.99


class Seen:
    """One layer, batch after batch."""

    def __init__(self) -> None:
        self.queries: list[Array] = []
        self.verdicts: list[npt.NDArray[np.int8]] = []
        self.stable: list[Array] = []
        self.features: list[Array] = []
        self.saturated_rows: list[Array] = []
        self.query_peak: list[Array] = []


class Layers:
    """A watcher: every layer's states are looked at as they come and then let go.

    Head outputs z_h (the averages of the vectors read, before W_V) are kept through a fixed random projection to a few
    more dimensions than there are examples, which keeps their rank.
    """

    def __init__(self, wanted: set[int], samples: int, rng: np.random.Generator) -> None:
        self.wanted, self.samples, self.rng = wanted, samples, rng
        self.seen: dict[int, Seen] = {k: Seen() for k in sorted(wanted)}
        self._projection: dict[int, Tensor] = {}

    def states(self, layer: int, contexts: Tensor | None, queries: Tensor) -> None:
        if layer not in self.wanted:
            return
        seen = self.seen[layer]
        seen.queries.append(queries.double().numpy().copy())
        if contexts is None:
            return
        block = contexts.double()
        verdicts, _ = full_rank(block.numpy(), ROUNDOFF)
        seen.verdicts.append(verdicts)
        if block.shape[1] <= 4096:
            spectrum = np.linalg.eigvalsh((block @ block.transpose(1, 2)).numpy())
            total, top = spectrum.sum(axis=1), spectrum[:, -1]
            seen.stable.append(np.where(top > 0, total / np.where(top > 0, top, 1.0), 0.0))

    def heads(self, layer: int, weights: Tensor, contexts: Tensor, query: int) -> None:
        import torch

        if layer not in self.wanted:
            return
        seen = self.seen[layer]
        rows = weights
        causal = weights.shape[2] > 1 and float(weights[:, :, 0, 1:].abs().max()) == 0.0
        if causal:
            rows = weights[:, :, 1:]  # the first row sees one token and is saturated by force
        seen.saturated_rows.append((rows.amax(dim=-1) > SATURATED).double().mean(dim=2).numpy())
        at_query = weights[:, :, query]
        seen.query_peak.append(at_query.amax(dim=-1).double().numpy())
        z = torch.matmul(at_query, contexts).flatten(1)
        width = min(z.shape[1], self.samples + 32)
        if z.shape[1] not in self._projection:
            drawn = self.rng.standard_normal((z.shape[1], width), dtype=np.float32) / z.shape[1] ** 0.5
            self._projection[z.shape[1]] = torch.from_numpy(drawn)
        seen.features.append((z @ self._projection[z.shape[1]]).double().numpy())
