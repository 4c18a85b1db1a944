"""Layer by layer: the rank of the head outputs of an attention-only transformer, as trained and with fresh weights.

Z of a layer has a row for every fact and H d columns: what each head has gathered at the last position, before W_V. A
linear readout of one layer can give at most rank(Z) facts arbitrary real labels (Mahdavi et al. 2024), so the rank says
what the layers before have made of the tokens. In the first layer a head gathers token and position vectors only, so
its rank has a limit of its own, H min(d, N + S - 2) + 1. Ranks are numerical, singular values above `tolerance` times
the largest; the stable rank is the squared Frobenius norm over the squared spectral norm of Z less its mean row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rote.config import Architecture
from rote.data import random_facts
from rote.errors import UsageError
from rote.lab.studies._params import Params
from rote.training import ModelSpec, get_recipe, initial_weights, train

__all__ = ["KEYS", "PARAMS", "head_outputs", "run", "seconds"]

PARAMS: Params = {
    "n_layers": (int, 2),
    "n_heads": (int, 6),
    "d_model": (int, 8),
    "context": (int, 3),
    "vocab": (int, 32),
    "n_facts": (int, 600),
    "steps": (int, 2000),
    "tolerance": (float, 1e-6),
}
KEYS = ("layer",)


def seconds(params: Mapping[str, Any]) -> float:
    """About how long one run takes."""
    return 4e-6 * int(params["steps"]) * int(params["n_facts"]) * int(params["n_layers"])


def run(p: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """A row for each layer, trained and fresh."""
    if not 0 < p["tolerance"] < 1:
        raise UsageError(f"tolerance must lie between 0 and 1, got {p['tolerance']}.")
    arch = Architecture(
        p["n_heads"], p["d_model"], p["d_model"], p["context"], p["vocab"], n_layers=p["n_layers"]
    )  # fmt: skip
    spec = ModelSpec("transformer", arch)
    facts = random_facts(p["n_facts"], p["context"], p["vocab"], rng=np.random.default_rng([seed, 0]))
    (outcome,) = train(spec, [facts], get_recipe("best").replace(steps=max(1, p["steps"])), [seed])
    fresh = {name: torch.from_numpy(w) for name, w in initial_weights(spec, np.random.default_rng([seed, 1])).items()}
    contexts = torch.from_numpy(np.array(facts.contexts))
    first_limit = arch.n_heads * min(arch.d_model, arch.vocab + arch.context - 2) + 1
    rows = []
    for weights, which, share in ((outcome.weights, "trained", outcome.share), (fresh, "fresh", math.nan)):
        outputs = head_outputs(spec, {name: tensor.double() for name, tensor in weights.items()}, contexts)
        for layer, (Z, stream) in enumerate(outputs, start=1):
            columns = arch.n_heads * arch.d_model
            limit = min(len(facts), columns, first_limit if layer == 1 else columns)
            rows.append(
                {
                    **p,
                    "source": "train:best" if which == "trained" else "fresh",
                    "weights": which,
                    "layer": layer,
                    "rank": (rank := _rank(Z, p["tolerance"])),
                    "rank_share": rank / limit,
                    "columns": columns,
                    "rank_limit": limit,
                    "stable_rank": _stable(Z),
                    "stream_rank": _rank(stream, p["tolerance"]),
                    "stream_stable_rank": _stable(stream),
                    "params": spec.params,
                    "share_of_facts": None if math.isnan(share) else share,
                }
            )
    return rows


def head_outputs(spec: ModelSpec, w: Mapping[str, Tensor], contexts: Tensor) -> list[tuple[Tensor, Tensor]]:
    """For every layer Z (T, H d) at the last position, and the stream (T, d) behind it; attention only."""
    if spec.family != "transformer" or spec.arch.d_mlp:
        raise UsageError("head outputs are looked at in attention-only models of the family 'transformer'.")
    x = w["W_E"][contexts] + w["W_pos"]
    s = x.shape[1]
    future = torch.ones(s, s, dtype=torch.bool).triu(1)
    outputs = []
    for layer in range(spec.arch.n_layers):
        W_Q, W_K, W_V, W_O = (w[f"{name}.{layer}"] for name in ("W_Q", "W_K", "W_V", "W_O"))
        queries = torch.einsum("hkd,tsd->thsk", W_Q, x)
        keys = torch.einsum("hkd,tsd->thsk", W_K, x)
        scores = queries @ keys.transpose(2, 3) / math.sqrt(spec.arch.d_head)
        share = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
        mixed = share @ x[:, None]
        x = x + torch.einsum("hdk,hke,thse->tsd", W_O, W_V, mixed)
        outputs.append((mixed[:, :, -1].reshape(len(x), -1), x[:, -1]))
    return outputs


def _rank(matrix: Tensor, tolerance: float) -> int:
    singular = torch.linalg.svdvals(matrix)
    return int((singular > tolerance * singular[0]).sum())


def _stable(matrix: Tensor) -> float:
    singular = torch.linalg.svdvals(matrix - matrix.mean(0))
    return float((singular**2).sum() / singular[0] ** 2) if singular[0] > 0 else 0.0
