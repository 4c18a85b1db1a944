"""Draw the pictures in docs/images, each as .svg and .png.

    python docs/make_figures.py                    all but the runs for the figure of distributions
    python docs/make_figures.py --distributions    these runs too

bounds            facts against parameters, for one family of shapes (`data`, `draw`)
who_serves_whom   which head serves which examples in a layer built by saturation (`attention_data`, `draw_attention`)
distributions     divergence against d_model, and the gap against epsilon, on a real text (`distribution_data`,
                  `draw_distributions`); minutes, so its numbers are kept in distributions.json beside it

audit_*           what `rote audit` found in pretrained models, from docs/audits/*.json (`rote.analyse.audit.figure`)

The first of each pair asks rote, the second only draws. Needs matplotlib, which the development set-up brings.
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
from rote.analyse.audit import figure as audit_figure
from rote.data import DistributionTable, random_vectors
from rote.data.ngrams import ngrams
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
    found = [bounds(Setting(shape), only=[key])[0] for shape in shapes]
    points = tuple((item.params, item.facts) for item in found if item.params is not None and item.facts is not None)
    return Curve(key, found[0].kind, points)


def _plan_curve(key: str) -> Curve:
    sizes = sorted({round(10 ** (k / 8)) for k in range(8 * round(math.log10(MOST_FACTS)) + 1)})
    found = [plan(Demand(size, VOCAB, CONTEXT), only=[key]).plans[0] for size in sizes]
    return Curve(
        key, "lower", tuple((item.params, item.facts) for item in found), tuple(item.max_bits or 0 for item in found)
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


@dataclass(frozen=True)
class _Look:
    """How a curve is drawn: the label stands beside its last point, moved by so many points."""

    colour: str
    line: str
    label: str
    offset: tuple[int, int]
    marker: str = ""
    align: str = "left"


_LOOKS: dict[str, _Look] = {
    "counting": _Look("#222222", "-", "counting bound, float32:\nno more than this fits", (7, -4)),
    "morris2025": _Look("#6b6b6b", "--", "3.6 bits/parameter, measured", (7, 0)),
    "allenzhu2024": _Look("#6b6b6b", ":", "2 bits/parameter, measured", (7, -7)),
    "mahdavi2024_thm1": _Look(
        "#0f766e",
        "-",
        "Mahdavi et al. 2024, Theorem 1\n(vectors in, real labels out;\nno embedding counted)",
        (33, -34),
        "s",
    ),
    "dana2025_cor1": _Look("#1d4ed8", "-", "Dana et al. 2025, Corollary 1\n(tokens in, tokens out)", (7, -2), "o"),
    "kajitsuka2025_next_token": _Look(
        "#c2410c", "-", "Kajitsuka & Sato 2025,\nexact bit extraction", (-9, 21), align="right"
    ),
}


def draw(curves: list[Curve], folder: Path) -> list[Path]:
    """Write bounds.svg and bounds.png into `folder`."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with mpl.rc_context(
        {
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "svg.hashsalt": "rote",
            "svg.fonttype": "path",
        }
    ):
        figure, axes = plt.subplots(figsize=(9.0, 5.2))
        figure.subplots_adjust(left=0.085, right=0.745, top=0.925, bottom=0.105)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(1e3, 1e8)
        axes.set_ylim(10, 1e9)
        axes.set_xlabel("parameters (how many numbers the result counts)")
        axes.set_ylabel(f"facts ({CONTEXT} tokens → one of {VOCAB:,} tokens)")
        axes.set_title(
            f"Facts held by one family of shapes: d_model = d_head = {D_MODEL}, vocabulary {VOCAB:,}, "
            f"context {CONTEXT}, {HEADS[0]} to {HEADS[-1]:,} heads",
            fontsize=10,
            loc="left",
        )
        axes.grid(True, which="major", color="#e5e5e5", linewidth=0.7)
        axes.set_axisbelow(True)
        for curve in curves:
            look = _LOOKS[curve.key]
            x, y = zip(*curve.points, strict=True)
            axes.plot(x, y, look.line, color=look.colour, marker=look.marker or None, markersize=4, linewidth=1.8)
            axes.annotate(
                look.label,
                curve.points[-1],
                xytext=look.offset,
                textcoords="offset points",
                ha=look.align,
                va="center",
                fontsize=8.5,
                color=look.colour,
                annotation_clip=False,
            )
            for point, bits in zip(curve.points, curve.max_bits, strict=False):
                if point[1] in (10**3, 10**5, 10**7):
                    axes.plot(*point, "o", color=look.colour, markersize=4.5)
                    axes.annotate(
                        f"weights of up to {bits:,} bits",
                        point,
                        xytext=(9, -9) if point[1] == 10**3 else (-9, 0),
                        ha="left" if point[1] == 10**3 else "right",
                        textcoords="offset points",
                        fontsize=8,
                        color=look.colour,
                    )
        folder.mkdir(parents=True, exist_ok=True)
        made = [folder / "bounds.svg", folder / "bounds.png"]
        figure.savefig(made[0], facecolor="white", metadata={"Date": None})
        figure.savefig(made[1], facecolor="white", dpi=160, metadata={"Software": None})
        plt.close(figure)
    return made


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
        figure = plt.figure(figsize=(12.2, 3.9))
        left = figure.add_axes((0.045, 0.2, 0.45, 0.62))
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
        figure.text(0.045, 0.915, "a   Who serves whom", fontsize=10.5)
        bar = figure.colorbar(image, cax=figure.add_axes((0.505, 0.2, 0.011, 0.62)), extend="min")
        bar.set_label("1 − largest attention weight")
        right_start, gap = 0.622, 0.0105
        width = (0.93 - right_start - gap * (len(shown) - 1)) / len(shown)
        for i, example in enumerate(shown):
            axes = figure.add_axes((right_start + i * (width + gap), 0.2, width, 0.62))
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
        figure.text(
            right_start,
            0.915,
            "b   What each head looks at",
            fontsize=10.5,
        )
        figure.text((right_start + 0.93) / 2, 0.098, "row of the context", ha="center")
        bar = figure.colorbar(picture, cax=figure.add_axes((0.94, 0.2, 0.011, 0.62)))
        bar.set_label("attention weight")
        figure.legend(
            handles=[patches.Patch(fc="none", ec=mark, lw=2, label="this head serves this example")],
            loc="lower left",
            bbox_to_anchor=(0.04, -0.005),
            frameon=False,
            fontsize=9.5,
        )
        folder.mkdir(parents=True, exist_ok=True)
        made = [folder / "who_serves_whom.svg", folder / "who_serves_whom.png"]
        figure.savefig(made[0], facecolor="white", metadata={"Date": None})
        figure.savefig(made[1], facecolor="white", dpi=160, metadata={"Software": None})
        plt.close(figure)
    return made


def draw_audits(folder: Path) -> list[Path]:
    """One picture for each stored audit."""
    made = []
    for record in sorted((IMAGES.parent / "audits").glob("*.json")):
        panels = audit_figure.data(json.loads(record.read_text(encoding="utf-8")))
        made += audit_figure.draw(panels, folder, f"audit_{record.stem}")
    return made


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


def draw_distributions(found: dict[str, Any], folder: Path) -> list[Path]:
    """Write distributions.svg and .png into `folder`."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    style: dict[Any, Any] = {
        "font.family": "DejaVu Sans",
        "font.size": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "rote",
        "svg.fonttype": "path",
    }
    with mpl.rc_context(style):
        figure, (left, right) = plt.subplots(1, 2, figsize=(11.4, 4.4))
        figure.subplots_adjust(left=0.065, right=0.985, top=0.88, bottom=0.12, wspace=0.22)
        chars = found["chars"]
        d = [row["d_model"] for row in chars["rows"]]
        left.semilogy(
            d,
            [row["encoder_kl"] for row in chars["rows"]],
            color="#222222",
            lw=2,
            label="best encoder: no model of this width is below",
        )
        left.semilogy(
            d,
            [row["kl"] for row in chars["rows"]],
            "o",
            color="#1d4ed8",
            ms=6,
            mfc="none",
            mew=1.6,
            label="attention-only transformer, built, float32",
        )
        upper = [(row["d_model"], row["theorem2"]) for row in chars["rows"] if row["theorem2"] is not None]
        left.semilogy(
            *zip(*upper, strict=True), "s-", color="#c2410c", ms=4, lw=1.4, label="Theorem 2, measured coherence"
        )
        left.axhline(chars["unigram"], color="#6b6b6b", ls="--", lw=1.2, label="unigram guess")
        left.axhline(chars["uniform"], color="#6b6b6b", ls=":", lw=1.2, label="uniform guess")
        left.set_xlabel("d_model")
        left.set_ylabel("divergence from the table (nats)")
        left.set_xticks(d)
        left.set_title(
            f"a   Character trigrams: {chars['n_contexts']} contexts, {chars['vocab']} characters",
            loc="left",
            fontsize=10,
        )
        left.set_ylim(1e-6, 1e3)
        left.legend(frameon=False, fontsize=8.5, loc="lower left")
        gaps = found["gaps"]
        eps = [row["epsilon"] for row in gaps["rows"]]
        right.loglog(
            eps,
            [row["theorem_excess"] for row in gaps["rows"]],
            "^-",
            color="#c2410c",
            ms=5,
            lw=1.4,
            label="Theorem 1's allowance, C ε ||WE||",
        )
        right.loglog(
            eps,
            [row["interpolation_gap"] for row in gaps["rows"]],
            "s-",
            color="#b45309",
            ms=5,
            lw=1.4,
            label="its construction, interpolation",
        )
        right.loglog(
            eps,
            [row["gap"] for row in gaps["rows"]],
            "o-",
            color="#1d4ed8",
            ms=5,
            lw=1.8,
            label="convex refit, as built",
        )
        right.loglog(eps, [2 * e for e in eps], color="#222222", ls="--", lw=1, label="2 ε")
        right.axhline(gaps["uniform"], color="#6b6b6b", ls=":", lw=1.2, label="uniform guess")
        right.set_xlabel("ε, prior of the contexts left out")
        right.set_ylabel("divergence above the best encoder (nats)")
        right.set_xticks(eps, [f"{e:g}" for e in eps])
        right.minorticks_off()
        right.set_title(f"b   What is left out costs: d_model {gaps['d_model']}", loc="left", fontsize=10)
        right.set_ylim(1e-3, 1e8)
        right.legend(frameon=False, fontsize=8.5, loc="upper left", ncols=2)
        for axes in (left, right):
            axes.grid(True, which="major", color="#e5e5e5", linewidth=0.7)
            axes.set_axisbelow(True)
        folder.mkdir(parents=True, exist_ok=True)
        made = [folder / "distributions.svg", folder / "distributions.png"]
        figure.savefig(made[0], facecolor="white", metadata={"Date": None})
        figure.savefig(made[1], facecolor="white", dpi=160, metadata={"Software": None})
        plt.close(figure)
    return made


if __name__ == "__main__":
    record = IMAGES / "distributions.json"
    if "--distributions" in sys.argv[1:] or not record.exists():
        record.write_text(json.dumps(distribution_data(), indent=1) + "\n", encoding="utf-8")
    kept = json.loads(record.read_text(encoding="utf-8"))
    drawn = draw(data(), IMAGES) + draw_attention(attention_data(), IMAGES)
    for path in drawn + draw_audits(IMAGES) + draw_distributions(kept, IMAGES):
        print(f"wrote {path.name}")
