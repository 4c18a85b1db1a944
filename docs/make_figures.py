"""Draw the pictures in docs/images, each as .svg and .png.

    python docs/make_figures.py                    all but the runs for the figure of distributions
    python docs/make_figures.py --distributions    these runs too

bounds            facts against parameters, for one family of shapes (`data`, `figure`)
who_serves_whom   which head serves which examples in a layer built by saturation (`attention_data`, `draw_attention`)
distributions     divergence against d_model, and the gap against epsilon, on a real text (`distribution_data`,
                  `distribution_figure`); minutes, so its numbers are kept in distributions.json beside it

audit_*           what `rote audit` found in pretrained models, from docs/audits/*.json (`rote.analyse.audit.figure`)

All are records of rote.plot, but for who_serves_whom, which has frames around cells and is drawn here. Needs
matplotlib, which the development set-up brings.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rote import Architecture, Demand, DistributionRefit, Setting, bounds, build, constructions, plan
from rote.analyse.audit import audit_figure
from rote.data import DistributionTable, random_vectors
from rote.data.ngrams import ngrams
from rote.plot import Axis, Figure, Panel, Series
from rote.solvers.lookup import lookup_bound

IMAGES = Path(__file__).resolve().parent / "images"

D_MODEL, CONTEXT, VOCAB = 64, 32, 1000
HEADS = tuple(2**k for k in range(13))
MOST_FACTS = 10**7


@dataclass(frozen=True)
class Curve:
    """One line of the figure: (parameters, facts), and the bits of the widest weight where it is known."""

    key: str
    kind: str
    points: tuple[tuple[int, int], ...]
    max_bits: tuple[int, ...] = ()


def _bound_curve(key: str, shapes: list[Architecture]) -> Curve:
    said = [bounds(Setting(shape), only=[key])[0] for shape in shapes]
    points = tuple((item.params, item.facts) for item in said if item.params is not None and item.facts is not None)
    return Curve(key, said[0].kind, points)


def _plan_curve(key: str) -> Curve:
    sizes = sorted({round(10 ** (k / 8)) for k in range(8 * round(math.log10(MOST_FACTS)) + 1)})
    plans = [plan(Demand(size, VOCAB, CONTEXT), only=[key]).plans[0] for size in sizes]
    return Curve(
        key, "lower", tuple((item.params, item.facts) for item in plans), tuple(item.max_bits or 0 for item in plans)
    )


def data() -> list[Curve]:
    """The curves, every number from `rote.bounds` or `rote.plan`."""
    family = [Architecture(heads, D_MODEL, D_MODEL, CONTEXT, VOCAB) for heads in HEADS]
    # Counting and the measured constants only see the number of parameters: narrower shapes extend their lines.
    narrow = [Architecture(1, d, 1, CONTEXT, VOCAB) for d in (1, 2, 4, 8, 16, 32)]
    return [
        _bound_curve("counting", narrow + family),
        _bound_curve("morris2025", narrow + family),
        _bound_curve("allenzhu2024", narrow + family),
        _bound_curve("mahdavi2024_thm1", family),
        _bound_curve("dana2025_cor1", family),
        _plan_curve("kajitsuka2025_next_token"),
    ]


_NAMES = {
    "counting": ("bound_upper", "counting bound, float32: no more than this fits"),
    "morris2025": ("reference", "3.6 bits/parameter, measured"),
    "allenzhu2024": ("reference", "2 bits/parameter, measured"),
    "mahdavi2024_thm1": (
        "line",
        "Mahdavi et al. 2024, Theorem\u00a01 (vectors in, real labels out; no embedding counted)",
    ),
    "dana2025_cor1": ("line", "Dana et al. 2025, Corollary\u00a01 (tokens in, tokens out)"),
    "kajitsuka2025_next_token": ("line", "Kajitsuka & Sato 2025, exact bit extraction"),
}


def figure(curves: list[Curve]) -> Figure:
    """Every curve with its name at its end, and the widest weights of bit extraction beside it."""
    series = []
    for curve in curves:
        kind, name = _NAMES[curve.key]
        points = [point for point in curve.points if point[0] >= 1000]
        bits = dict(zip(curve.points, curve.max_bits, strict=False))
        texts = tuple(f"weights of up to {bits[p]:,} bits" if p[1] in (10**3, 10**5, 10**7) else "" for p in points)
        x, y = (tuple(map(float, values)) for values in zip(*points, strict=True))
        series.append(Series(name, kind, x, y, texts=texts if bits else ()))
    shapes = f"d_model = d_head = {D_MODEL}, vocabulary {VOCAB:,}, context {CONTEXT}, {HEADS[0]} to {HEADS[-1]:,} heads"
    panel = Panel(
        shapes,
        Axis("parameters (how many numbers the result counts)", "log"),
        Axis(f"facts ({CONTEXT} tokens → one of {VOCAB:,} tokens)", "log"),
        tuple(series),
        names="ends",
    )
    return Figure("Facts held by one family of shapes", (panel,))


def draw(shown: Figure, name: str, folder: Path) -> list[Path]:
    """Write NAME.svg and NAME.png into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{kind}" for kind in ("svg", "png")]
    for path in paths:
        shown.draw(path)
    return paths


@dataclass(frozen=True)
class Attention:
    """A layer built by saturation: what its heads look at, and which examples each of them serves."""

    weights: npt.NDArray[np.float64]
    """(examples, heads, rows of the context), each row sums to one."""
    served: tuple[tuple[int, ...], ...]
    base: int

    @property
    def spilled(self) -> npt.NDArray[np.float64]:
        """(examples, heads): the attention that is not on the row looked at most."""
        ordered = np.sort(self.weights, axis=2)
        return np.asarray(ordered[:, :, :-1].sum(axis=2), dtype=np.float64)


LAYER = Architecture(n_heads=6, d_model=8, d_head=4, context=4, vocab=2)


def attention_data() -> Attention:
    """One build by `mahdavi2024_thm1` at its bound, 6 (4 - 1) + 1 = 19 examples with contexts of their own."""
    count = LAYER.n_heads * (LAYER.d_head - 1) + 1
    table = random_vectors(
        count, LAYER.context, LAYER.d_model, rng=np.random.default_rng(0), sharing="own", distribution="gaussian"
    )
    memory = build(
        table,
        with_="mahdavi2024_thm1",
        n_heads=LAYER.n_heads,
        d_model=LAYER.d_model,
        d_head=LAYER.d_head,
        dtype="float64",
        rng=0,
    )
    tensors = {name: value.double().numpy() for name, value in memory.module.state_dict().items()}
    scores = np.einsum(
        "hkd,tnd,hke,te->thn", tensors["W_K"], table.contexts, tensors["W_Q"], table.queries, optimize=True
    )
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    report = memory.certificate["report"]
    return Attention(
        weights / weights.sum(axis=2, keepdims=True),
        tuple(tuple(group) for group in report["served_by_head"]),
        report["base_example"],
    )


def draw_attention(layer: Attention, folder: Path) -> list[Path]:
    """Write who_serves_whom.svg and .png into `folder`."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import colors, patches
    from matplotlib import pyplot as plt

    order = [layer.base, *(example for group in layer.served for example in group)]
    place = {example: x for x, example in enumerate(order)}
    shown = [layer.base, *layer.served[0]]
    heads = layer.weights.shape[1]
    names = [str(head + 1) for head in range(heads)]
    mark = "#d9480f"
    with mpl.rc_context(
        {"font.family": "DejaVu Sans", "font.size": 9.5, "svg.hashsalt": "rote", "svg.fonttype": "path"}
    ):
        canvas = plt.figure(figsize=(12.2, 3.9))
        left = canvas.add_axes((0.045, 0.2, 0.45, 0.62))
        floor = 1e-12
        image = left.imshow(
            np.maximum(layer.spilled[order].T, floor),
            norm=colors.LogNorm(floor, 1e-2),
            cmap="viridis",
            aspect="auto",
            interpolation="nearest",
        )
        for head, group in enumerate(layer.served):
            for example in group:
                left.add_patch(
                    patches.Rectangle((place[example] - 0.46, head - 0.46), 0.92, 0.92, fill=False, ec=mark, lw=2)
                )
        left.set_xticks(range(len(order)), [str(example + 1) for example in order])
        left.set_yticks(range(heads), names)
        left.set_xlabel("example, ordered by the head that serves it")
        left.set_ylabel("head")
        left.set_title("how far the attention is from one-hot", fontsize=9.5, pad=4)
        canvas.text(0.045, 0.915, "a   Who serves whom", fontsize=10.5)
        bar = canvas.colorbar(image, cax=canvas.add_axes((0.505, 0.2, 0.011, 0.62)), extend="min")
        bar.set_label("1 − largest attention weight")
        right_start, gap = 0.622, 0.0105
        width = (0.93 - right_start - gap * (len(shown) - 1)) / len(shown)
        for i, example in enumerate(shown):
            axes = canvas.add_axes((right_start + i * (width + gap), 0.2, width, 0.62))
            picture = axes.imshow(
                layer.weights[example], vmin=0, vmax=1, cmap="Greys", aspect="auto", interpolation="nearest"
            )
            for head, group in enumerate(layer.served):
                if example in group:
                    axes.add_patch(
                        patches.Rectangle(
                            (-0.46, head - 0.46), layer.weights.shape[2] - 0.08, 0.92, fill=False, ec=mark, lw=2
                        )
                    )
            axes.set_xticks(range(layer.weights.shape[2]), [str(row + 1) for row in range(layer.weights.shape[2])])
            axes.set_yticks(range(heads), names if i == 0 else [""] * heads)
            axes.set_title(f"example {example + 1}", fontsize=9.5, pad=4)
            if i == 0:
                axes.set_ylabel("head")
        canvas.text(
            right_start,
            0.915,
            "b   What each head looks at",
            fontsize=10.5,
        )
        canvas.text((right_start + 0.93) / 2, 0.098, "row of the context", ha="center")
        bar = canvas.colorbar(picture, cax=canvas.add_axes((0.94, 0.2, 0.011, 0.62)))
        bar.set_label("attention weight")
        canvas.legend(
            handles=[patches.Patch(fc="none", ec=mark, lw=2, label="this head serves this example")],
            loc="lower left",
            bbox_to_anchor=(0.04, -0.005),
            frameon=False,
            fontsize=9.5,
        )
        folder.mkdir(parents=True, exist_ok=True)
        made = [folder / "who_serves_whom.svg", folder / "who_serves_whom.png"]
        canvas.savefig(made[0], facecolor="white", metadata={"Date": None})
        canvas.savefig(made[1], facecolor="white", dpi=160, metadata={"Software": None})
        plt.close(canvas)
    return made


def draw_audits(folder: Path) -> list[Path]:
    """One picture for each stored audit."""
    paths = []
    for record in sorted((IMAGES.parent / "audits").glob("*.json")):
        shown = audit_figure(json.loads(record.read_text(encoding="utf-8")))
        paths += draw(shown, f"audit_{record.stem}", folder)
    return paths


TEXT = Path(__file__).resolve().parent / "examples" / "ruth.txt"
WIDTHS = (2, 3, 4, 6, 8, 12, 16, 20)
EPSILONS = (0.01, 0.03, 0.1, 0.3)
GAP_WIDTH = 8


def distribution_data() -> dict[str, Any]:
    """Character trigrams and word bigrams of the book of Ruth: bounds and builds, every number measured."""
    letters = ngrams(TEXT, order=3, tokens="chars", plain=True)[0]
    words = ngrams(TEXT, order=2, tokens="words", plain=True)[0]
    found: dict[str, Any] = {"chars": _curve(letters, WIDTHS), "words": _curve(words, (4, 8, 32))}
    smooth = _smoothed(letters)
    rows = []
    for epsilon in EPSILONS:
        c = build(letters, DistributionRefit(epsilon=epsilon), d_model=GAP_WIDTH).certificate
        rows.append(
            {
                "epsilon": epsilon,
                "t_eps": c["t_eps"],
                "heads": c["shape"]["n_heads"],
                "theorem_heads": c["report"]["theorem_heads"],
                "gap": c["gap"],
                "interpolation_gap": c["interpolation_kl"] - c["encoder_kl"],
                "theorem_excess": c["theorem_excess"],
                "C": c["C"],
                "looseness": c["looseness"],
            }
        )
    found["gaps"] = {"d_model": GAP_WIDTH, "uniform": smooth.uniform_kl, "rows": rows}
    return found


def _smoothed(table: DistributionTable) -> DistributionTable:
    """The table as it is built."""
    ready: DistributionTable = constructions.get("distribution_refit").prepare(table, DistributionRefit())
    return ready


def _curve(table: DistributionTable, widths: tuple[int, ...]) -> dict[str, Any]:
    smooth = _smoothed(table)
    rows = []
    for width in widths:
        c = build(table, DistributionRefit(), d_model=width).certificate
        lookup = lookup_bound(smooth, width, rng=np.random.default_rng(0))
        rows.append(
            {
                "d_model": width,
                "encoder_kl": c["encoder_kl"],
                "kl": c["kl"],
                "gap": c["gap"],
                "heads": c["shape"]["n_heads"],
                "params": c["params"],
                "theorem2": lookup.measured,
                "theorem2_C": lookup.measured_c,
            }
        )
    return {**smooth.describe(), "rows": rows}


def distribution_figure(record: dict[str, Any]) -> Figure:
    """Divergence against the width, and what is left out against epsilon."""
    chars, gaps = record["chars"], record["gaps"]

    def line(rows: list[dict[str, Any]], x: str, y: str, name: str, kind: str = "line") -> Series:
        known = [(float(row[x]), float(row[y])) for row in rows if row[y] is not None]
        return Series(name, kind, tuple(a for a, _ in known), tuple(b for _, b in known))

    def across(series: Series, name: str, value: float) -> Series:
        return Series(name, "reference", (series.x[0], series.x[-1]), (value, value))

    best = line(chars["rows"], "d_model", "encoder_kl", "best encoder: no model of this width is below")
    refit = line(gaps["rows"], "epsilon", "gap", "convex refit, as built")
    left = (
        best,
        line(chars["rows"], "d_model", "kl", "attention-only transformer, built, float32", "points"),
        line(chars["rows"], "d_model", "theorem2", "Theorem 2, measured coherence"),
        across(best, "uniform guess", chars["uniform"]),
        across(best, "unigram guess", chars["unigram"]),
    )
    right = (
        refit,
        line(gaps["rows"], "epsilon", "interpolation_gap", "its construction, interpolation"),
        line(gaps["rows"], "epsilon", "theorem_excess", "Theorem 1's allowance, C ε ||WE||"),
        Series("2 ε", "reference", refit.x, tuple(2 * x for x in refit.x)),
        across(refit, "uniform guess", gaps["uniform"]),
    )
    panels = (
        Panel(
            f"a   Character trigrams: {chars['n_contexts']} contexts, {chars['vocab']} characters",
            Axis("d_model"),
            Axis("divergence from the table (nats)", "log"),
            left,
        ),
        Panel(
            f"b   What is left out costs: d_model {gaps['d_model']}",
            Axis("ε, prior of the contexts left out", "log"),
            Axis("divergence above the best encoder (nats)", "log"),
            right,
        ),
    )
    return Figure("Distributions of the book of Ruth, built into attention", panels)


if __name__ == "__main__":
    record = IMAGES / "distributions.json"
    if "--distributions" in sys.argv[1:] or not record.exists():
        record.write_text(json.dumps(distribution_data(), indent=1) + "\n", encoding="utf-8")
    kept = json.loads(record.read_text(encoding="utf-8"))
    drawn = draw(figure(data()), "bounds", IMAGES) + draw_attention(attention_data(), IMAGES)
    for path in drawn + draw_audits(IMAGES) + draw(distribution_figure(kept), "distributions", IMAGES):
        print(f"wrote {path.name}")
