"""Do random tables fit where the estimates say so? Random shapes, each loaded right to the estimate.

python benchmarks/capacity.py [seed] [seconds]            the argmax fit
python benchmarks/capacity.py [seed] [seconds] trained    training, in the shapes that are planned for random tables
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import sys
import time
from collections.abc import Callable

import numpy as np

from rote import constructions
from rote.config import Shape
from rote.constructions.trained import Trained
from rote.data import random_facts
from rote.solvers.argmax import fit_attention
from rote.theorems._capacity_estimates import attention_capacity
from rote.training import ModelSpec, train

Lost = tuple[int, int]
"""Facts lost, and facts in all."""
Try = Callable[[np.random.Generator], tuple[str, Lost] | None]


def fitted(rng: np.random.Generator) -> tuple[str, Lost] | None:
    """A random shape for the argmax fit; None where it is too small or too large to be worth a try."""
    vocab, context = int(rng.choice([3, 5, 7, 10, 20, 50, 128, 300, 1000])), int(rng.choice([2, 3, 4, 6, 8]))
    d_model, heads = (
        int(rng.choice([3, 4, 6, 8, 12, 16, 24, 32])),
        int(rng.choice([1, 2, 3, 5, 8, 16, 32, 64, 128, 300])),
    )
    d_head = int(rng.choice([d_model, d_model, max(1, d_model // 2), max(1, d_model // 4), 1]))
    count = attention_capacity(vocab, vocab, context, d_model, d_head, heads)
    if not (10 <= count <= min(6000, vocab**context) and heads * d_head <= 1500 and count * vocab < 3_000_000):
        return None
    facts = random_facts(count, context, vocab, rng=rng)
    fit = fit_attention(facts.contexts.copy(), facts.targets.copy(), vocab, heads, d_model, d_head, rng, joint=False)
    return f"N {vocab}, S {context}, d {d_model}, d_h {d_head}, H {heads}", (fit.errors, count)


def trained(rng: np.random.Generator) -> tuple[str, Lost] | None:
    """A random table, trained in the first shape that is planned for it."""
    vocab, context = int(rng.choice([5, 10, 20, 50, 128, 300, 1000])), int(rng.choice([1, 2, 3, 4, 6, 8]))
    count = int(rng.choice([20, 60, 200, 600, 1500, 3000]))
    if (2 * count > vocab**context and context > 1) or count > vocab**context:
        return None
    facts = random_facts(count, context, vocab, rng=rng)
    arch = next(constructions.get("trained").shapes(facts, Shape(), "float32", Trained())).architecture
    outcome = train(ModelSpec("transformer", arch), [facts], Trained().training(count), [int(rng.integers(2**31))])[0]
    shape = f"T {count}, N {vocab}, S {context}, d {arch.d_model}, H {arch.n_heads}"
    return shape, (count - outcome.recalled, count)


def campaign(
    name: str, one: Callable[[np.random.Generator], tuple[str, Lost] | None], seed: int, seconds: float
) -> None:
    rng = np.random.default_rng(seed)
    tried = failed = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        found = one(rng)
        if found is None:
            continue
        shape, (lost, count) = found
        tried += 1
        if lost:
            failed += 1
            print(f"{shape}: {lost} of {count} facts lost", flush=True)
    print(f"{name}: {tried} shapes loaded to the estimate, {failed} lost facts", flush=True)


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    if "trained" in sys.argv:
        campaign("training", trained, seed, seconds)
    else:
        campaign("argmax fit", fitted, seed, seconds)


if __name__ == "__main__":
    main()
