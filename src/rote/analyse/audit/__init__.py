"""Do the hidden states of a model meet the theorems' assumptions? `audit` looks at every layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from rote.analyse.audit._models import AuditedModel, open_model
from rote.analyse.audit._report import Audit, HeadReport, LayerReport, layer_report, reading
from rote.analyse.audit._texts import read_text
from rote.analyse.audit._watch import Layers
from rote.analyse.audit.figure import audit_figure
from rote.data.arguments import checked
from rote.errors import UsageError

__all__ = ["Audit", "HeadReport", "LayerReport", "audit", "audit_figure", "parse_layers", "reading"]

_BATCH_TOKENS = 2_048


def parse_layers(text: str, n_layers: int) -> set[int]:
    """`all`, or numbers and ranges such as `0,3,5-8`; 0 is what enters the first block."""
    if text == "all":
        return set(range(n_layers + 1))
    wanted: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            raise UsageError(f"layers are all, or numbers and ranges such as 0,3,5-8; got {text!r}.")
        wanted |= set(range(int(first), int(last or first) + 1)) if int(last or first) <= n_layers else {n_layers + 1}
    if not wanted or max(wanted) > n_layers:
        raise UsageError(f"this model has layers 0 to {n_layers} (0 is what enters the first block); got {text!r}.")
    return wanted


@checked
def audit(
    path: str | Path,
    texts: str | Path,
    *,
    layers: str = "all",
    context: int = 128,
    samples: int = 400,
    reinitialised: bool = False,
    seed: int = 0,
    allow_pickle: bool = False,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Audit:
    """Run windows of a text through a model, and hold every layer's states against the theorems' assumptions.

    `path` is a Hugging Face directory, a .gguf file or a model that rote built; it stays on this machine and is run on
    the CPU in float32. `texts` is a file of UTF-8 text, cut into `samples` windows of `context` tokens; a rote model
    reads one context from each line. `layers` are "all", or numbers and ranges as in "0,3,5-8"; 0 is what enters the
    first block. With `reinitialised` the same architecture with freshly drawn weights goes the same way, for
    comparison. `seed` is for fresh weights, sampled subsets and labels. Weights stored as pickle are read with
    `allow_pickle` only.

        >>> audit("models/minilm", "book.txt", reinitialised=True).write("minilm-audit")  # doctest: +SKIP
    """
    if samples < 2:
        raise UsageError(f"an audit compares examples, so it needs at least 2 samples, got {samples}.")
    if context < 1:
        raise UsageError(f"a window has at least one token, got {context}.")
    text = read_text(Path(texts))
    model = open_model(Path(path), allow_pickle=allow_pickle)
    wanted = parse_layers(layers, model.n_layers)
    ids = model.windows(text, context, samples, Path(texts).name)
    stored = _run(model, ids, wanted, seed, "", progress)
    fresh: tuple[LayerReport, ...] = ()
    if reinitialised:
        fresh = _run(model.reinitialised(seed), ids, wanted, seed, "fresh weights, ", progress)
    return Audit(
        model=model.name,
        kind=model.kind,
        query=model.query,
        text=Path(texts).name,
        context=int(ids.shape[1]),
        samples=int(ids.shape[0]),
        seed=seed,
        shape={
            "n_layers": model.n_layers,
            "n_heads": model.n_heads,
            "d_model": model.d_model,
            "d_head": model.d_head,
            "vocab": model.vocab,
        },
        layers=stored,
        fresh=fresh,
    )


def _run(
    model: AuditedModel,
    ids: object,
    wanted: set[int],
    seed: int,
    what: str,
    progress: Callable[[str, int, int], None],
) -> tuple[LayerReport, ...]:
    import torch

    assert isinstance(ids, torch.Tensor)
    count, length = ids.shape
    watcher = Layers(wanted, count, np.random.default_rng(seed))
    step = max(1, _BATCH_TOKENS // length)
    for start in range(0, count, step):
        progress(f"{what}windows", start, count)
        model.run(ids[start : start + step], watcher)
    reports = []
    for done, (layer, seen) in enumerate(watcher.seen.items()):
        progress(f"{what}layers", done, len(watcher.seen))
        reports.append(layer_report(layer, seen, model, length, np.random.default_rng([seed, layer])))
    return tuple(reports)
