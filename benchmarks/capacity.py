"""Does the argmax fit hold as many random facts as its estimate says? Random shapes, each loaded right to the estimate.

python benchmarks/capacity.py [seed] [seconds]
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import sys
import time

import numpy as np

from rote.data import random_facts
from rote.solvers.argmax import fit_attention
from rote.theorems._capacity_estimates import attention_capacity

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
rng = np.random.default_rng(seed)
tried = failed = 0
end = time.perf_counter() + seconds
while time.perf_counter() < end:
    vocab, context = int(rng.choice([3, 5, 7, 10, 20, 50, 128, 300, 1000])), int(rng.choice([2, 3, 4, 6, 8]))
    d_model, heads = (
        int(rng.choice([3, 4, 6, 8, 12, 16, 24, 32])),
        int(rng.choice([1, 2, 3, 5, 8, 16, 32, 64, 128, 300])),
    )
    d_head = int(rng.choice([d_model, d_model, max(1, d_model // 2), max(1, d_model // 4), 1]))
    count = attention_capacity(vocab, vocab, context, d_model, d_head, heads)
    if not (10 <= count <= min(6000, vocab**context) and heads * d_head <= 1500 and count * vocab < 3_000_000):
        continue
    facts = random_facts(count, context, vocab, rng=rng)
    fit = fit_attention(facts.contexts.copy(), facts.targets.copy(), vocab, heads, d_model, d_head, rng, joint=False)
    tried += 1
    if fit.errors:
        failed += 1
        print(f"N {vocab}, S {context}, d {d_model}, d_h {d_head}, H {heads}: {fit.errors} of {count} facts lost")
print(f"{tried} shapes loaded to the estimate, {failed} lost facts")
