"""How fast the encoder bound is found, start by start, and how close the starts end.

    python benchmarks/distributions.py            all rows
    python benchmarks/distributions.py small      N 20, 400 contexts, d 8, three tables
    python benchmarks/distributions.py large      N 1,000, 20,000 contexts, d 64

Beside each row: Adam on W and all E together, from one start, for as many seconds as the bound took in
all (a minute at most).
The tables are random (softmax of Gaussian logits under a power-law prior), seeds fixed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import resource
import sys
import time

import numpy as np
import torch

from rote.data import DistributionTable, random_distributions
from rote.solvers.encoder import encoder_bound


def plain(table: DistributionTable, d: int, seconds: float) -> float:
    """Adam on everything, the divergence it reaches."""
    maker = torch.Generator().manual_seed(0)
    pi = torch.from_numpy(np.array(table.probabilities)).float()
    prior = torch.from_numpy(np.array(table.prior)).float()
    W = (0.1 * torch.randn((table.vocab, d), generator=maker)).requires_grad_()
    E = (0.1 * torch.randn((len(pi), d), generator=maker)).requires_grad_()
    optimiser = torch.optim.Adam([W, E], lr=0.02)
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        optimiser.zero_grad()
        loss = -(prior * (pi * torch.log_softmax(E @ W.T, dim=1)).sum(dim=1)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        true = torch.from_numpy(np.array(table.probabilities))
        ratio = true.log() - torch.log_softmax(E.double() @ W.double().T, dim=1)
        return float(torch.from_numpy(np.array(table.prior)) @ (true * ratio).sum(dim=1))


def row(vocab: int, contexts: int, d: int, seed: int) -> None:
    table = random_distributions(contexts, 2, vocab, rng=np.random.default_rng(seed))
    begun, used = time.perf_counter(), time.process_time()
    bound = encoder_bound(table, d, rng=np.random.default_rng(seed))
    took, processor = time.perf_counter() - begun, time.process_time() - used
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"N {vocab}, {contexts:,} contexts, d {d}, seed {seed}: {len(bound.starts)} starts in {took:.1f} s "
        f"({took / len(bound.starts):.2f} s each, {processor:.1f} CPU-s in all), {bound.kl:.6f} nats, "
        f"spread {bound.spread:.1e}; {memory:.1f} GB",
        flush=True,
    )
    seconds = min(took, 60.0)
    print(f"    Adam in {seconds:.1f} s: {plain(table, d, seconds):.6f} nats", flush=True)


def small() -> None:
    for seed in range(3):
        row(20, 400, 8, seed)


def large() -> None:
    row(1000, 20_000, 64, 0)


ROWS = {"small": small, "large": large}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or ROWS:
        ROWS[chosen]()
