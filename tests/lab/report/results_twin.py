"""Small results made by hand, as `rote reproduce` and `rote sweep` leave them; some texts mean harm."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from rote.measurement import Cell, Journal
from rote.plot import Axis, Figure, Panel, Series

__all__ = ["HOSTILE", "cells", "entry", "folder", "journal"]

HOSTILE = "</script><script>window.harmed=1</script><img src=x onerror=window.harmed=2>\"'&lt;`$x$"


def _figure(title: str, n_panels: int, scale: str) -> Figure:
    x = (1.0, 6.0, 11.0, 16.0)
    panels = []
    for number in range(n_panels):
        y = tuple((0.1 + 0.01 * number) * place**0.5 for place in x)
        panels.append(
            Panel(
                f"d = {10 + number}",
                Axis("number of heads", scale),
                Axis("accuracy <b>", scale),
                (
                    Series("train:dana2025", "points", x, y, tuple(0.9 * v for v in y), tuple(1.1 * v for v in y)),
                    Series("published", "published", x, tuple(1.02 * v for v in y)),
                    Series(
                        "train:dana2025: power", "fit", x, y, tuple(0.95 * v for v in y), tuple(1.05 * v for v in y)
                    ),
                    Series(HOSTILE, "line", x, tuple(0.5 * v for v in y)),
                    Series("lower: dana2025_cor1", "bound_lower", x, tuple(0.4 * v for v in y)),
                    Series("upper: counting", "bound_upper", x, tuple(1e6 * v for v in y)),
                    Series("two bits", "reference", x, tuple(0.3 for _ in x)),
                ),
            )
        )
    return Figure(title, tuple(panels), f"A caption. {HOSTILE}", f"Accuracy grows with heads. {HOSTILE}")


def entry(place: Path, name: str, verdict: str, *, n_panels: int = 1, scale: str = "linear", **changes: Any) -> Path:
    """The folder of one entry. A PDF lies beside the figure, and the report draws the other pictures."""
    own = place / name
    own.mkdir(parents=True)
    figure = _figure(f"Figure of {name}", n_panels, scale)
    figure.write(own / "figure.json")
    (own / "figure.pdf").write_bytes(b"%PDF drawn before")
    columns = "n_heads,d_model,d_head,vocab,context,n_facts,published_metric,share_of_facts,source,seeds,low,high"
    rows = [
        f"{h},10,10,50,2,2500,{0.02 * h:.3f},{0.018 * h:.3f},train:dana2025,3,,{0.03 * h:.3f}" for h in range(1, 30)
    ]
    (own / "rows.csv").write_text("\n".join([columns, *rows]) + "\n", encoding="utf-8")
    record = {
        "entry": name,
        "title": f"Accuracy against heads, {name}",
        "paper": name.split("/", maxsplit=1)[0],
        "source": "Dana, Pydi, Chevaleyre 2025, experiment 1",
        "question": f"How does accuracy grow with heads? {HOSTILE}",
        "claim": "Accuracy is linear in the number of heads.",
        "verdict": verdict,
        "sentence": f"The claim {verdict}: the exponent is 0.5 (0.4 to 0.6).",
        "answer": "One line.\nAnother line.",
        "deviations": ["Every seed has a table of its own.", HOSTILE],
        "mode": "quick",
        "command": f"rote reproduce {name} --quick",
        "versions": {"rote": "0.1.0", "torch": "2.6", "python": "3.11"},
        "seconds": 12.5,
        "cells": {"done": 8, "failed": 0},
        "config": {"title": HOSTILE, "sweep": [{"seeds": 3, "base": {"d_model": 10}, "grid": {"n_heads": [1, 6]}}]},
        "numbers": {"exponent": 0.5, "why": None},
        "figures": [{"name": "figure", "caption": figure.caption, "alt": figure.alt}],
        **changes,
    }
    (own / "entry.json").write_text(json.dumps(record), encoding="utf-8")
    return own


def folder(place: Path) -> Path:
    """Three entries of two papers, with one, two and three panels."""
    entry(place, "dana2025/exp1", "holds", n_panels=2)
    entry(place, "dana2025/exp2", "does not hold", scale="log")
    entry(place, "open/gap", "undecided", n_panels=3)
    return place


def cells() -> list[Cell]:
    return [
        Cell(n_heads=heads, d_model=4, context=2, vocab=30, by=by, seed=seed)
        for heads in (1, 2, 3, 4, 6)
        for by in ("argmax_fit", "dana2025_cor1")
        for seed in range(3)
    ]


def journal(path: Path, *, name: str = "built", failed: bool = True) -> Path:
    """A sweep of capacities, linear in heads up to noise; one cell without a result."""
    noise = random.Random(0)
    with Journal(path) as held:
        for cell in cells():
            slope = 4 if cell.by == "dana2025_cor1" else 11
            result: dict[str, Any] = {
                "status": "done",
                "capacity": 4 + slope * cell.n_heads + noise.randrange(3),
                "params": cell.spec.params,
                "duration": 0.25,
            }
            if failed and cell.n_heads == 6 and cell.seed == 2 and cell.by == "argmax_fit":
                result = {"status": "failed", "reason": f"not enough memory {HOSTILE}"}
            held.put(name, [cell], [result])
    return path
