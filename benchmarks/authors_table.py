"""Experiment 3 of Dana et al. 2025 on the authors' own table and sample, drawn again by the seed of their notebook.

    python benchmarks/authors_table.py --widths 10 11 12 --runs 5

Their five runs a point share one random table of 2,500 facts and one sample of 2^14 draws; ours have a table and
a sample each. torch draws the same numbers for the same seed, so theirs can be had again: a permutation for every
conditional distribution, then the first tokens, the second tokens and the targets. The rest is rote's own trainer.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from rote.data import FactTable, random_facts
from rote.lab.entries.entry import experiments
from rote.lab.entries.published import published_rows
from rote.measurement import Cell
from rote.training.loop import _Run

SEED, TOKENS, DRAWS = 2222, 50, 2**14


def authors_table() -> tuple[np.ndarray, np.ndarray]:
    """Targets (N, N) by first and second token, and the sample as rows of the table of all pairs."""
    torch.manual_seed(SEED)
    laws = []
    for order, support in enumerate((TOKENS, TOKENS, 1)):
        law = torch.zeros(TOKENS)
        law[:support] = 1 / support
        laws.append(torch.stack([law[torch.randperm(TOKENS)] for _ in range(TOKENS**order)]))
    first = torch.multinomial(laws[0][0], DRAWS, replacement=True)
    second = torch.multinomial(laws[1][first], 1)[:, 0]
    rows = first * TOKENS + second
    targets = laws[2].argmax(1)
    return targets.numpy(), rows.numpy()


class _Sampled:
    """A generator whose sample is given; shuffles are its own."""

    def __init__(self, rng: np.random.Generator, rows: np.ndarray) -> None:
        self.rng, self.rows = rng, rows

    def integers(self, _: int, *, size: int) -> np.ndarray:
        assert size == len(self.rows)
        return self.rows.copy()

    def permutation(self, count: int) -> np.ndarray:
        return self.rng.permutation(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[10, 11, 12])
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    targets, rows = authors_table()
    words = random_facts(1, 2, TOKENS, rng=np.random.default_rng(0)).vocabulary
    pairs = np.stack(np.divmod(np.arange(TOKENS**2), TOKENS), axis=1)
    told = {
        row["d_model"]: row["published_metric"] for row in published_rows(experiments(), {"table": "dana2025.exp3"})
    }
    for width in asked.widths:
        cell = Cell(20, width, 2, TOKENS, d_head=10, task="recall", recipe="dana2025")
        table = FactTable(pairs, targets, words, None, "authors")
        seeds = list(range(100, 100 + asked.runs))
        run = _Run(cell.spec, [table] * asked.runs, cell.training(), seeds, torch.device("cpu"), 1.0, None, None)
        run.rngs = [_Sampled(rng, rows) for rng in run.rngs]  # type: ignore[misc]
        before = time.process_time()
        found = np.array([outcome.published for outcome in run.go()])
        spread = found.std(ddof=1) if len(found) > 1 else float("nan")
        print(
            f"d = {width}: {found.mean():.4f} +- {spread / np.sqrt(len(found)):.4f} over {len(found)} runs (spread "
            f"{spread:.4f}), published {told.get(width, float('nan')):.4f}; {time.process_time() - before:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
