"""How fast subsets are judged: rote's sampler against a plain loop of `matrix_rank` on the same subsets, in one run.

    python benchmarks/check.py            all rows
    python benchmarks/check.py audit      the shapes of an audit only

Every row draws random n-subsets of T vectors, judges all of them with `Sampler`, judges as many as fit into a few
seconds with `numpy.linalg.matrix_rank`, compares the verdicts, and prints the ratio of the two rates. The time that the
sampler takes to set up (once for all subsets) is counted in full.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # faster for the loop too: its matrices are small

import sys
import time

import numpy as np
import numpy.typing as npt

from rote.assumptions._batched import positive
from rote.assumptions._independence import Rows
from rote.assumptions._kruskal import kruskal
from rote.assumptions._sampling import Sampler, draw_subsets
from rote.solvers.rows import closest_pair

SECONDS = 3.0


def row(name: str, vectors: npt.NDArray[np.float64], size: int, samples: int) -> None:
    subsets = draw_subsets(len(vectors), size, samples, np.random.default_rng(1))
    Sampler(Rows(vectors[: size + 8], 2.0**-53)).judge(subsets[:1] % (size + 8))  # load libraries
    for kind in (np.float32, np.float64):  # compile, or load what was compiled before
        positive(np.eye(4, dtype=kind), np.array([[0, 1]]), 0.5)
    begun = time.perf_counter()
    verdicts = Sampler(Rows(vectors, 2.0**-53)).judge(subsets)
    fast = samples / (time.perf_counter() - begun)
    begun, done, agree = time.perf_counter(), 0, 0
    while done < samples and time.perf_counter() - begun < SECONDS:
        full = int(np.linalg.matrix_rank(vectors[subsets[done]])) == size
        agree += int(verdicts[done] == (1 if full else 0))
        done += 1
    plain = done / (time.perf_counter() - begun)
    print(
        f"{name:<44} {fast:>11,.0f}/s  loop {plain:>8,.0f}/s  ratio {fast / plain:>7,.0f}  "
        f"same verdict on {agree:,} of {done:,}, {int(np.sum(verdicts == -1))} open"
    )
    sys.stdout.flush()


def gaussian(count: int, width: int, seed: int = 0) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal((count, width))


def audit() -> None:
    """The shapes of `rote audit` with its defaults: 400 examples, contexts of 128."""
    row("T 400, n 128, d 384 (MiniLM)", gaussian(400, 384), 128, 20_000)
    row("T 400, n 128, d 576 (SmolLM2)", gaussian(400, 576), 128, 20_000)
    row("T 1000, n 512, d 768 (BERT's shape)", gaussian(1000, 768), 512, 2_000)
    row("T 800, n 512, d 768", gaussian(800, 768), 512, 2_000)
    few = gaussian(60, 384)[np.random.default_rng(0).integers(0, 60, 1000)]
    row("T 1000, n 128, d 384, repeated queries", few, 128, 20_000)


def many() -> None:
    """Many more vectors than dimensions: every subset needs a factorisation of its own."""
    row("T 1000, n 8, d 64", gaussian(1000, 64), 8, 500_000)
    row("T 1000, n 32, d 64", gaussian(1000, 64), 32, 50_000)
    row("T 1000, n 64, d 64", gaussian(1000, 64), 64, 20_000)
    row("T 1000, n 128, d 384", gaussian(1000, 384), 128, 10_000)
    row("T 2000, n 512, d 768", gaussian(2000, 768), 512, 200)


def others() -> None:
    """Closest pair and witness search; seconds."""
    begun = time.perf_counter()
    closest_pair(gaussian(100_000, 64))
    print(f"closest pair of 100,000 tokens in 64 dimensions: {time.perf_counter() - begun:.1f} s")
    found, took = 0, 0.0
    rng = np.random.default_rng(0)
    for trial in range(20):
        vectors, size = gaussian(1000, 64, trial), 3 + trial % 4
        chosen = rng.choice(1000, size, replace=False)
        vectors[chosen[0]] = rng.choice([-1.0, 1.0], size - 1) @ vectors[chosen[1:]]
        begun = time.perf_counter()
        found += set(kruskal(Rows(vectors, 2.0**-53), rng).witness) == set(chosen.tolist())
        took += time.perf_counter() - begun
    print(f"planted circuits of 3 to 6 among 1,000 vectors in 64 dimensions: {found} of 20, {took / 20:.1f} s each")


ROWS = {"audit": audit, "many": many, "others": others}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or ROWS:
        ROWS[chosen]()
