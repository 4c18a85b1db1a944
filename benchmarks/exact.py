"""How small the exact networks are, how fast they are built, and that every point is right.

Each row builds a network, runs every point through it, and prints its size. Keys are random and distinct in [0, N^2),
labels uniform. The plain reference in the same run is interpolation by ReLU: three weights a point, and no fewer.

    python benchmarks/exact.py                 all rows
    python benchmarks/exact.py A B C next n seq2seq referee     only these
    python benchmarks/exact.py large           a million facts in float64, which takes minutes
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import math
import resource
import sys
import time

import numpy as np
import numpy.typing as npt
import torch

import rote
from rote.data import SequenceTable, random_facts, random_sequences
from rote.models.kinds._relu_transformer import chain
from rote.referee.exact import Values, evaluate, labels_of
from rote.solvers.exact.blocks import memorise_blocks
from rote.solvers.exact.blocks_fast import evaluate_blocks
from rote.solvers.exact.digits import memorise_digits
from rote.solvers.exact.digits_fast import evaluate_digits
from rote.solvers.exact.network import Network
from rote.solvers.exact.slots import Precision, memorise_slots

IntArray = npt.NDArray[np.int64]


def keys_and_labels(n: int, high: int, n_labels: int, seed: int = 0) -> tuple[IntArray, IntArray]:
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, high, size=n + n // 10 + 10))
    keys = rng.permutation(keys)[:n]
    return keys, rng.integers(n_labels, size=n)


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def show(name: str, n: int, c: int, network: Network, right: float, built: float, checked: float) -> None:
    info = n * math.log2(c)
    vc = max(1.0, (math.sqrt(64 + 64 * n) - 8) / 32)
    print(
        f"{name:<12} N {n:>9,} C {c:>4}  W {network.params:>8,}  W/N {network.params / n:6.3f}  3N/W "
        f"{3 * n / network.params:6.1f}  depth {network.depth:>5}  max bits {network.max_bits:>5}  "
        f"bits/info {network.total_bits / info:6.2f}  W/VC {network.params / vc:5.0f}  right {100 * right:.4f} %  "
        f"built {built:6.1f} s  checked {checked:6.1f} s  {peak_gb():.2f} GB"
    )
    sys.stdout.flush()


def variant_a() -> None:
    sizes = {}
    for n, c in ((10**3, 2), (10**4, 2), (10**5, 2), (10**6, 2), (10**5, 256)):
        keys, labels = keys_and_labels(n, n * n, c)
        start = time.perf_counter()
        made = memorise_digits(keys, labels, c)
        middle = time.perf_counter()
        found = evaluate_digits(made.network, made.shape, keys)
        right = 0.0 if found is None else float((found == labels).mean())
        show("A", n, c, made.network, right, middle - start, time.perf_counter() - middle)
        if c == 2:
            sizes[n] = made.network.params
    slope = math.log(sizes[10**6] / sizes[10**3]) / math.log(10**3)
    print(f"A: log-log slope of W over N = 10^3 .. 10^6: {slope:.3f}")


def variant_b() -> None:
    for precision, n, c, high in (
        ("float64", 10**4, 2, 10**8),
        ("float64", 10**5, 2, 10**10),
        ("float64", 10**5, 256, 10**10),
        ("float32", 4000, 2, 1 << 21),
    ):
        keys, labels = keys_and_labels(n, high, c)
        start = time.perf_counter()
        kind: Precision = "float64" if precision == "float64" else "float32"
        network = memorise_slots(keys, labels, c, precision=kind).network
        middle = time.perf_counter()
        right = float((_torch(network, keys, getattr(torch, precision)) == labels).mean())
        show(f"B {precision}", n, c, network, right, middle - start, time.perf_counter() - middle)


def _torch(network: Network, keys: IntArray, dtype: torch.dtype) -> npt.NDArray[np.float64]:
    module = chain(network, dtype)
    rows = max(1, 4_000_000 // network.width)
    with torch.no_grad():
        parts = [
            module(torch.from_numpy(keys[at : at + rows]).to(dtype)[:, None])[:, 0] for at in range(0, len(keys), rows)
        ]
    return torch.cat(parts).to(torch.float64).numpy()


def variant_c() -> None:
    for n, c in ((10**3, 2), (10**4, 2), (10**5, 2), (10**5, 256), (10**6, 2)):
        keys, labels = keys_and_labels(n, n * n, c)
        start = time.perf_counter()
        network = memorise_blocks(keys, labels, c).network
        middle = time.perf_counter()
        found = evaluate_blocks(network, keys)
        right = 0.0 if found is None else float((found == labels).mean())
        show("C", n, c, network, right, middle - start, time.perf_counter() - middle)


def _built(name: str, facts: rote.Table, options: rote.Options, dtype: str | None = None) -> None:
    start = time.perf_counter()
    memory = rote.build(facts, options, dtype=dtype)
    c = memory.certificate
    print(
        f"{name:<34} params {c['params']:>7,}  (F1 {c['report']['params_first']}, {c['report']['identify']})  "
        f"depth {c['depth']:>5}  max bits {c['max_bits']:>5}  bits/info {c['lower_bounds']['ratio_bits']:6.2f}  recall "
        f"{c['recall']}  {c['evaluator']}  {time.perf_counter() - start:6.1f} s"
    )
    sys.stdout.flush()


def next_token() -> None:
    facts = random_sequences(30_000, 32, 1000, 2, rng=np.random.default_rng(0))
    for dtype, variant in (("exact", "A"), ("exact", "C"), ("float64", "B")):
        _built(f"next token, N 30,000, n 32, {dtype} {variant}", facts, rote.BitExtraction(variant), dtype)


def lengths() -> None:
    for n in (8, 32, 128, 512):
        facts = random_sequences(2000, n, 1000, 2, rng=np.random.default_rng(n))
        for variant in ("A", "C"):
            _built(f"next token, N 2,000, n {n}, {variant}", facts, rote.BitExtraction(variant))


def seq2seq() -> None:
    for t, n, classes in ((100, 32, 2), (1000, 64, 2), (3000, 32, 2), (3000, 32, 1000)):
        rng = np.random.default_rng(t)
        table = random_sequences(t, n, 1000, classes, rng=rng)
        labels = 1000 + rng.integers(classes, size=(t, 1000))
        facts = SequenceTable(table.contexts, labels[np.arange(t)[:, None], table.contexts], table.vocabulary)
        for variant in ("A", "C"):
            _built(f"seq2seq, nN {n * t:,}, C {classes}, {variant}", facts, rote.SequenceBitExtraction(variant))


def referee() -> None:
    """The generic evaluator against the grouped ones, on the same networks."""
    for n, c in ((10**3, 2), (10**4, 2), (10**4, 10), (10**4, 256)):
        keys, labels = keys_and_labels(n, n * n, c, seed=n + c)
        digits = memorise_digits(keys, labels, c)
        blocks = memorise_blocks(keys, labels, c).network
        for name, network in (("A", digits.network), ("C", blocks)):
            start = time.perf_counter()
            slow = labels_of(evaluate(network, [Values(keys)])[0])
            middle = time.perf_counter()
            fast = evaluate_digits(network, digits.shape, keys) if name == "A" else evaluate_blocks(network, keys)
            end = time.perf_counter()
            agree = fast is not None and bool((fast == slow).all()) and bool((slow == labels).all())
            print(
                f"referee {name} N {n:>6,} C {c:>3}  agree {agree}  generic {middle - start:6.2f} s  grouped "
                f"{end - middle:6.2f} s  ratio {(middle - start) / (end - middle):5.1f}"
            )


def large() -> None:
    """Building and verifying in float64, by torch, by sparse products and in exact arithmetic."""
    for n in (10**5, 10**6):
        facts = random_facts(n, 4, 256, rng=np.random.default_rng(0))
        start = time.process_time()
        memory = rote.build(facts, rote.BitExtraction(with_positions=True), dtype="float64")
        middle = time.process_time()
        found = rote.verify(memory, facts, all_formats=True)
        print(
            f"large float64 N {n:>9,}  params {memory.certificate.params:,}  recall {memory.certificate.recall}  lost "
            f"{found.n_failed}  built {middle - start:.0f} CPU s  verified {time.process_time() - middle:.0f} CPU s  "
            f"{peak_gb():.2f} GB",
            flush=True,
        )


ROWS = {
    "A": variant_a,
    "B": variant_b,
    "C": variant_c,
    "next": next_token,
    "n": lengths,
    "seq2seq": seq2seq,
    "referee": referee,
}

if __name__ == "__main__":
    known = {**ROWS, "large": large}
    for row in sys.argv[1:] or list(ROWS):
        if row not in known:
            sys.exit(f"there is no row {row!r}; choose from {', '.join(known)}")
        known[row]()
