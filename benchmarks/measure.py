"""How fast shapes are measured, against a plain per-head, one-seed PyTorch loop with a DataLoader in the same run.

    python benchmarks/measure.py            all rows, some minutes
    python benchmarks/measure.py dana best mahdavi bookkeeping memory    only these

CPU-seconds on one thread. The plain loop is timed for some steps and extrapolated to the schedule.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from rote.config import Architecture
from rote.data import FactTable, VectorTable, bigram_facts, random_facts, random_vectors
from rote.training import ModelSpec, Outcome, Recipe, get_recipe, initial_weights, train

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from plain_twin import plain_model

torch.set_num_threads(1)
DANA = ModelSpec("aot", Architecture(16, 10, 10, 2, 50))
MAHDAVI = ModelSpec("layer", Architecture(8, 64, 64, 32, 100))


def spent(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def plain_step(
    spec: ModelSpec, inputs: torch.Tensor, targets: torch.Tensor, place: int, steps: int, batch: int
) -> float:
    """CPU-seconds of one step of the plain loop."""
    weights = {k: torch.from_numpy(v).float() for k, v in initial_weights(spec, np.random.default_rng(0)).items()}
    model = plain_model(spec, weights)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.001)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=batch, shuffle=True)

    def loop() -> None:
        done = 0
        while done < steps:
            for rows, goals in loader:
                logits = model(rows)[:, place]
                loss = nn.functional.cross_entropy(logits, goals)
                with torch.no_grad():
                    (logits.argmax(-1) == goals).float().mean().item()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                optimiser.zero_grad()
                done += 1
                if done == steps:
                    break

    loop()
    return spent(loop) / steps


def stacked(
    spec: ModelSpec, tables: list[FactTable] | list[VectorTable], recipe: Recipe
) -> tuple[float, list[Outcome]]:
    """CPU-seconds of each replica, and the outcomes."""
    found: list[Outcome] = []
    seconds = spent(lambda: found.extend(train(spec, tables, recipe, range(len(tables)))))
    return seconds / len(tables), found


def peak() -> int:
    """Peak memory of this process in MB; the kernel's other counter starts with what the parent had."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1000


def row(name: str, text: str) -> None:
    print(f"{name:<58} {text}", flush=True)


def pairs(count: int) -> list[FactTable]:
    return [bigram_facts(50, rng=np.random.default_rng(seed)) for seed in range(count)]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def dana() -> None:
    """The cell N = 50, d = d_h = 10, H = 16: the published schedule, and the same samples at full batch."""
    table = pairs(1)[0]
    chosen = np.random.default_rng(0).integers(2500, size=2**14)
    contexts, targets = torch.from_numpy(table.contexts[chosen]), torch.from_numpy(table.targets[chosen])
    one = plain_step(DANA, contexts, targets, 1, 40, 256)
    whole = one * 4096
    row("plain loop, published schedule", f"{whole:6.1f} CPU-s a seed ({1000 * one:.1f} ms a step, 4,096 steps)")
    seconds, found = stacked(DANA, pairs(5), get_recipe("dana2025"))
    row(
        "stacked, identical schedule, 5 seeds",
        f"{seconds:6.2f} CPU-s a seed, {whole / seconds:.0f}x; published metric "
        f"{mean([o.published for o in found]):.3f} (paper 0.685), share of facts {mean([o.share for o in found]):.3f}",
    )
    seconds, found = stacked(DANA, pairs(5), get_recipe("dana2025_full"))
    row(
        "stacked, same samples at full batch, 5 seeds",
        f"{seconds:6.2f} CPU-s a seed, {whole / seconds:.0f}x; published metric "
        f"{mean([o.published for o in found]):.3f}",
    )


def best() -> None:
    """The same cell by the strongest recipes."""
    spec = ModelSpec("transformer", DANA.arch)
    seconds, found = stacked(spec, pairs(2), get_recipe("best_overload"))
    row(
        "2,500 facts, best_overload, 2 seeds",
        f"{seconds:6.2f} CPU-s a seed, share {mean([o.share for o in found]):.3f}",
    )
    tables = [random_facts(2000, 2, 50, rng=np.random.default_rng(seed)) for seed in range(2)]
    seconds, found = stacked(spec, tables, get_recipe("best"))
    row("2,000 facts, best, 2 seeds", f"{seconds:6.2f} CPU-s a seed, recalled {[o.recalled for o in found]}")


def mahdavi() -> None:
    """The cell d = 64, n = 32, H = 8, T = 1,300: steps of batches of 256, and the way to 100 %."""
    for sharing, steps in (("shared", 6), ("own", 6)):
        tables = [
            random_vectors(1300, 32, 64, rng=np.random.default_rng(seed), sharing=sharing, n_classes=100)  # type: ignore[arg-type]
            for seed in range(6)
        ]
        first = tables[0]
        context = np.broadcast_to(first.contexts, (1300, 32, 64))
        rows = torch.from_numpy(np.concatenate([first.queries[:, None], context], axis=1)).float()
        one = plain_step(MAHDAVI, rows, torch.from_numpy(first.targets.copy()), 0, steps, 256)
        recipe = get_recipe("mahdavi2024").replace(epochs=None, steps=80, check_every=10**6)
        train(MAHDAVI, tables, recipe.replace(steps=5), range(6))
        # Two lengths, so that only steps are counted, as in the plain loop.
        short, _ = stacked(MAHDAVI, tables, recipe.replace(steps=20))
        long, _ = stacked(MAHDAVI, tables, recipe)
        step = (long - short) / 60
        row(
            f"{sharing} contexts, one step, six replicas",
            f"{1000 * step:6.2f} ms a replica; plain {1000 * one:.0f} ms; {one / step:.0f}x",
        )
    shared = [
        random_vectors(1300, 32, 64, rng=np.random.default_rng(seed), sharing="shared", n_classes=100)
        for seed in range(2)
    ]
    seconds, found = stacked(MAHDAVI, shared, get_recipe("best"))
    row(
        "1,300 examples, shared, best, 2 seeds",
        f"{seconds:6.2f} CPU-s a seed, recalled {[o.recalled for o in found]}, {found[0].steps} steps",
    )


def bookkeeping() -> None:
    """The share of a sweep that goes into the journal and the display."""
    from rote.measurement import Journal, read_sweep, run_sweep
    from rote.measurement.executors import Local
    from rote.measurement.sweeps import Progress

    text = (
        'name = "book"\nseeds = 2\n[base]\ntask = "recall"\nd_model = 8\ncontext = 2\nvocab = 20\nn_facts = 200\n'
        "steps = 150\n[grid]\nn_heads = [1, 2, 3, 4, 5, 6, 7, 8]\n"
    )
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "book.toml"
        file.write_text(text)
        before = time.perf_counter()
        with Journal(Path(place) / "book.db") as journal:
            made = run_sweep(read_sweep(file), journal, Local(), progress=Progress(draw=lambda _: None))
        whole = time.perf_counter() - before
    row("bookkeeping of 16 cells", f"{100 * made.book_seconds / whole:6.2f} % of {whole:.1f} s")


def memory() -> None:
    """Peak memory by replicas, each measured in a process of its own, and with --max-memory."""
    script = (
        "import sys; sys.path[:0] = [{here!r}]\n"
        "from measure import *\n"
        "before = peak()\n"
        "tables = [random_facts(20000, 4, 200, rng=np.random.default_rng(s)) for s in range({count})]\n"
        "spec = ModelSpec('transformer', Architecture(16, 16, 16, 4, 200))\n"
        "train(spec, tables, get_recipe('best').replace(steps=2, check_every=5), range({count}), max_memory={limit})\n"
        "print(peak() - before)\n"
    )
    here = str(Path(__file__).parent)
    said = []
    for count, limit in ((1, None), (2, None), (4, None), (4, 400_000_000)):
        made = subprocess.run(
            [sys.executable, "-c", script.format(here=here, count=count, limit=limit)],
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(f"{count} replicas{' with --max-memory 400MB' if limit else ''}: {int(made.stdout):,} MB")
    row("20,000 facts, H 16, d 16, N 200", "; ".join(said))


ROWS = {"dana": dana, "best": best, "mahdavi": mahdavi, "bookkeeping": bookkeeping, "memory": memory}

if __name__ == "__main__":
    for name in sys.argv[1:] or list(ROWS):
        ROWS[name]()
