"""Draw docs/images/bounds.svg and .png: facts against parameters, for one family of shapes.

    python docs/make_figures.py

`data` asks rote, `draw` only draws. Needs matplotlib, which the development set-up brings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from rote import Architecture, Demand, Setting, bounds, plan

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


if __name__ == "__main__":
    for path in draw(data(), IMAGES):
        print(f"wrote {path.name}")
