"""Hashed tables as stock checkpoints: dense parameters, bits each, and recall through AutoTokenizer and generate.

Facts are random: 4 tokens of 256, one of 256 answers. Every row builds, writes a directory, and the referee asks every
fact as text, in the number format of the row. All entries of all tensors count, zeros too.

    python benchmarks/stock.py                      all rows
    python benchmarks/stock.py 10000 bfloat16       only this one
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import sys
import time

import numpy as np

import rote
from rote.data import random_facts

ROWS = [(n, dtype) for n in (1_000, 10_000, 100_000) for dtype in ("bfloat16", "float16", "float32")]


def row(n_facts: int, dtype: str) -> None:
    table = random_facts(n_facts, 4, 256, rng=np.random.default_rng(0))
    planned = rote.plan(table, ["stock_hashed"], dtype=dtype)[0]
    start = time.perf_counter()
    memory = rote.build(table, rote.StockHashed(), dtype=dtype)
    seconds = time.perf_counter() - start
    c = memory.certificate
    shape = c.shape
    print(
        f"{n_facts:>7,} facts  {dtype:<8}  {c.params:>9,} dense parameters (first plan {planned.params:>9,})  "
        f"{c.bits_per_param:.3f} bits each  {shape['n_layers']:>2} layers, d_model {shape['d_model']}, "
        f"d_mlp {shape['d_mlp']}  "
        f"recall {100 * c.recall[dtype]:.4f} %  {seconds:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    chosen = [(int(sys.argv[1]), sys.argv[2])] if len(sys.argv) > 2 else ROWS
    for n_facts, dtype in chosen:
        row(n_facts, dtype)
