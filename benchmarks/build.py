"""How much and how fast the constructions build: facts, parameters, recall, seconds, memory.

Every row builds, and the referee runs every fact on the serialised weights. The reference in the same run is a plain
gradient loop (Adam, cross-entropy, all parameters) on the same model shape and facts, for as many seconds as the
construction took; the ratio is what it recalls against what the construction recalls.

    python benchmarks/build.py            all rows
    python benchmarks/build.py saturation association argmax mlp airports llama    only these
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

import rote
from rote.config import Architecture
from rote.data import FactTable, VectorTable, random_facts, random_vectors


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def show(name: str, facts: int, params: int, recall: str, seconds: float, extra: str = "") -> None:
    print(
        f"{name:<52} {facts:>7,} facts {params:>10,} params  {recall:<22} {seconds:6.1f} s  {peak_gb():.2f} GB  {extra}"
    )
    sys.stdout.flush()


def recalls(memory: rote.Memory) -> str:
    recall = memory.certificate.recall
    return "/".join(f"{100 * recall[k]:.2f}" for k in ("float64", "float32", "bfloat16")) + " %"


def trained(facts: FactTable, arch: Architecture, seconds: float) -> float:
    """Share of facts that plain Adam on all parameters recalls after so many seconds."""
    torch.manual_seed(0)
    w = {
        "E": nn.Parameter(torch.randn(arch.vocab, arch.d_model) / arch.d_model**0.5),
        "P": nn.Parameter(torch.randn(arch.context, arch.d_model) / arch.d_model**0.5),
        "U": nn.Parameter(torch.randn(arch.vocab, arch.d_model) / arch.d_model**0.5),
    }
    for name in "QKV":
        w[name] = nn.Parameter(torch.randn(arch.n_heads, arch.d_head, arch.d_model) / arch.d_model**0.5)
    w["O"] = nn.Parameter(torch.randn(arch.n_heads, arch.d_model, arch.d_head) / (arch.n_heads * arch.d_head) ** 0.5)
    optimiser = torch.optim.Adam(list(w.values()), lr=0.01)
    contexts, targets = torch.from_numpy(facts.contexts.copy()), torch.from_numpy(facts.targets.copy())

    def logits(rows: torch.Tensor) -> torch.Tensor:
        x = w["E"][rows] + w["P"]
        query = torch.einsum("hrd,bd->bhr", w["Q"], x[:, -1])
        scores = torch.einsum("bhd,bsd->bhs", torch.einsum("bhr,hrd->bhd", query, w["K"]), x)
        mixed = torch.einsum("bhs,bsd->bhd", torch.softmax(scores, -1), x)
        return (x[:, -1] + torch.einsum("hdw,bhw->bd", w["O"], torch.einsum("hwd,bhd->bhw", w["V"], mixed))) @ w["U"].T

    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for part in torch.split(torch.randperm(facts.n_facts), 4096):
            optimiser.zero_grad()
            nn.functional.cross_entropy(logits(contexts[part]), targets[part]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if time.perf_counter() >= end:
                break
    with torch.no_grad():
        right = [
            (logits(contexts[p]).argmax(1) == targets[p]).sum() for p in torch.split(torch.arange(facts.n_facts), 4096)
        ]
    return float(sum(right)) / facts.n_facts


def vectors(name: str, with_: str, heads: int, n: int, d: int, d_head: int, sharing: str, count: int) -> None:
    rng = np.random.default_rng(0)
    data: VectorTable = random_vectors(count, n, d, rng=rng, sharing=sharing, distribution="gaussian")  # type: ignore[arg-type]
    begun = time.perf_counter()
    memory = rote.build(data, with_=with_, n_heads=heads, d_head=d_head, rng=0)
    seconds = time.perf_counter() - begun
    errors = memory.certificate["max_error"]
    double = rote.build(data, with_=with_, n_heads=heads, d_head=d_head, dtype="float64", rng=0).certificate[
        "max_error"
    ]
    extra = f"error float64 {double['float64']:.1e}, float32 {errors['float32']:.1e}"
    show(f"{name}, {sharing}", count, memory.certificate["params"], recalls(memory), seconds, extra)


def tokens(name: str, facts: rote.Table, reference: bool = True, **how: Any) -> None:
    begun = time.perf_counter()
    memory = rote.build(facts, rng=0, **how)
    seconds = time.perf_counter() - begun
    c = memory.certificate
    extra = f"{facts.n_facts / c['params']:.3f} facts/param (stored {facts.n_facts / c['stored_params']:.3f})"
    if reference:
        assert isinstance(facts, FactTable)
        share = trained(facts, Architecture.from_dict(c["shape"]), seconds)
        extra += f"; Adam in the same time recalls {100 * share:.1f} %"
    show(name, facts.n_facts, c["params"], recalls(memory), seconds, extra)


def saturation() -> None:
    for sharing in ("shared", "own"):
        vectors("mahdavi2024_thm1 H64 n32 d64 d_h32", "mahdavi2024_thm1", 64, 32, 64, 32, sharing, 1985)
    vectors("mahdavi2024_thm1 H256 n34 d64 d_h32", "mahdavi2024_thm1", 256, 34, 64, 32, "shared", 7937)
    vectors("mahdavi_random_features H64 n32 d64 d_h32", "mahdavi_random_features", 64, 32, 64, 32, "shared", 1985)
    vectors("mahdavi_random_features H16 n16 d64 d_h16", "mahdavi_random_features", 16, 16, 64, 16, "own", 1024)


def association() -> None:
    facts = random_facts(8256, 16, 1000, rng=np.random.default_rng(0))
    tokens(
        "dana2025_cor1 N1000 S16 d64 d_h64 H128",
        facts,
        False,
        with_="dana2025_cor1",
        n_heads=128,
        d_model=64,
        d_head=64,
    )


def argmax() -> None:
    shape: dict[str, Any] = {"with_": "argmax_fit", "n_heads": 32, "d_model": 64, "d_head": 64}
    tokens("argmax_fit N1000 S16 d64 d_h64 H32", random_facts(8256, 16, 1000, rng=np.random.default_rng(0)), **shape)
    facts = random_facts(7500, 8, 64, rng=np.random.default_rng(0))
    shape = {"with_": rote.ArgmaxFit(rank1_qk=True), "n_heads": 31, "d_model": 32, "d_head": 32}
    tokens("argmax_fit N64 S8 d32 H31, rank-1 QK", facts, False, **shape)
    facts = random_facts(2600, 8, 64, rng=np.random.default_rng(0))
    shape = {"with_": rote.ArgmaxFit(rank1_qk=True), "n_heads": 127, "d_model": 8, "d_head": 8}
    tokens("argmax_fit N64 S8 d8 H127, rank-1 QK", facts, False, **shape)


def mlp() -> None:
    import torch

    from rote.solvers.gated_mlp import _fit_gated, _Problem

    for d, m, count, joint in (
        (64, 64, 566, False),
        (32, 128, 582, False),
        (64, 64, 1700, True),
        (32, 128, 1500, True),
    ):
        lost, begun = 0, time.perf_counter()
        for seed in range(3):
            rng = np.random.default_rng(seed)
            keys, values = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in rng.standard_normal((2, count, d)))
            # Row i of the keys to row i of the values; sqrt(d) puts the curvature near one.
            rows = torch.as_tensor(keys).float(), torch.as_tensor(values * np.sqrt(d)).float()
            block = _Problem(rows[0], torch.zeros_like(rows[0]), torch.arange(count), rows[1])
            limit = 600 if joint else 400
            parts, _ = _fit_gated(block, m, rng, joint=joint, joint_unembed=False, max_iterations=limit, progress=None)
            lost += block.recall(parts)[0]
        recall = f"{100 * (1 - lost / (3 * count)):.2f} % of 3 seeds"
        kind = "refined" if joint else "convex"
        show(f"MLP block d{d} m{m}, {kind}", count, 3 * d * m, recall, (time.perf_counter() - begun) / 3)


def airports() -> None:
    tokens("airports, auto", rote.read("airports"))
    tokens("cities, argmax_fit", rote.read("cities"), False, with_="argmax_fit")
    tokens(
        "languages, argmax_fit d16",
        rote.read("languages"),
        False,
        with_="argmax_fit",
        d_model=16,
        n_heads=100,
        d_head=16,
    )


def llama() -> None:
    tokens("airports as a stock Llama", rote.read("airports"), False, arch="llama")
    facts = random_facts(4096, 4, 1000, rng=np.random.default_rng(0))
    shape: dict[str, Any] = {"arch": "llama", "n_heads": 32, "d_model": 64, "d_head": 64}
    tokens("random facts N1000 S4 d64 H32 as a stock Llama", facts, False, **shape)


ROWS: dict[str, Callable[[], None]] = {
    "saturation": saturation,
    "association": association,
    "argmax": argmax,
    "mlp": mlp,
    "airports": airports,
    "llama": llama,
}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or ROWS:
        ROWS[chosen]()
