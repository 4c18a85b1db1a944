"""Draw the pictures of exact networks in docs/images, each as .svg and .png.

    python docs/make_exact_figures.py

tent_shift     the shift lemma: tent maps take digits off a fraction (`shift_data`, `draw_shift`)
exact_params   weights against points, for variants A, B and C, beside what no network can go below (`data`, `figure`)

The first is drawn here, since it has texts and shaded cells all over; the second is a record of rote.plot. The largest
networks take a minute or two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.plot import Axis, Figure, Panel, Series
from rote.solvers.exact.blocks import memorise_blocks
from rote.solvers.exact.digits import memorise_digits
from rote.solvers.exact.network import Network
from rote.solvers.exact.slots import memorise_slots

IMAGES = Path(__file__).resolve().parent / "images"

DIGITS, BITS = (6, 10, 4), 4
MOST, MOST_B = 10**6, 10**5
CLASSES = 2

INK, GREY, BLUE, ORANGE = "#222222", "#6b6b6b", "#1d4ed8", "#c2410c"
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "rote",
    "svg.fonttype": "path",
}


@dataclass(frozen=True)
class Shift:
    """A few digits as one fraction, and its orbit under the tent map."""

    digits: tuple[int, ...]
    bits: int
    orbit: tuple[Fraction, ...]

    @property
    def stops(self) -> tuple[Fraction, ...]:
        """The fraction before each digit, and what is left in the end."""
        return self.orbit[:: self.bits]

    def spelled(self, at: int) -> str:
        """The binary digits that are left after so many digits were shifted out."""
        return "0." + (" ".join(f"{digit:0{self.bits}b}" for digit in self.digits[at:]) or "0")


def tent(s: Fraction) -> Fraction:
    """relu(2 s) - relu(4 s - 2)."""
    return max(2 * s, Fraction(0)) - max(4 * s - 2, Fraction(0))


def shift_data() -> Shift:
    """Three even digits of four bits each, and twelve tents."""
    s = sum((Fraction(digit, 2 ** (BITS * at)) for at, digit in enumerate(DIGITS, 1)), Fraction(0))
    orbit = [s]
    for _ in range(BITS * len(DIGITS)):
        orbit.append(tent(orbit[-1]))
    return Shift(DIGITS, BITS, tuple(orbit))


def draw_shift(shift: Shift, folder: Path) -> list[Path]:
    """Write tent_shift.svg and .png into `folder`."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with mpl.rc_context(STYLE):
        canvas = plt.figure(figsize=(12.0, 4.7))
        _draw_cells(canvas.add_axes((0.05, 0.2, 0.36, 0.62)), 3, 4, Fraction(7, 10))
        _draw_orbit(canvas.add_axes((0.485, 0.2, 0.495, 0.62)), shift)
        canvas.text(0.05, 0.92, "a   Three tents: even cells rise, and leave the remainder", fontsize=11)
        canvas.text(0.485, 0.92, "b   Twelve tents shift three digits out of one fraction", fontsize=11)
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / "tent_shift.svg", folder / "tent_shift.png"]
        canvas.savefig(paths[0], facecolor="white", metadata={"Date": None})
        canvas.savefig(paths[1], facecolor="white", dpi=160, metadata={"Software": None})
        plt.close(canvas)
    return paths


def _draw_cells(axes: Any, bits: int, digit: int, rest: Fraction) -> None:
    cells = 2**bits
    for cell in range(cells):
        even = cell % 2 == 0
        axes.axvspan(cell / cells, (cell + 1) / cells, color="#fdeee4" if even else "white", lw=0)
        ends = (0, 1) if even else (1, 0)
        axes.plot(
            [cell / cells, (cell + 1) / cells],
            ends,
            color=ORANGE if even else "#b5b5b5",
            linewidth=2.2 if even else 1.4,
        )
        axes.text((cell + 0.5) / cells, 1.03, str(cell), ha="center", va="bottom", color=ORANGE if even else GREY)
    s = float((digit + rest) / cells)
    axes.plot([s, s, -0.02], [0, float(rest), float(rest)], color=INK, linewidth=1.0, linestyle=(0, (4, 3)))
    axes.plot(s, float(rest), "o", color=INK, markersize=6, zorder=5)
    axes.set_xlim(-0.02, 1.0)
    axes.set_ylim(0, 1.0)
    axes.set_xticks([0, digit / cells, s, 1], ["0", f"{digit}/{cells}", "s", "1"])
    axes.set_yticks([0, float(rest), 1], ["0", "r", "1"])
    axes.set_xlabel(f"s = (D + r) / {cells}, here D = {digit} (the number of the cell), r = {float(rest):g}")
    axes.set_ylabel("tent(tent(tent(s)))")


def _draw_orbit(axes: Any, shift: Shift) -> None:
    steps = len(shift.orbit) - 1
    values = [float(value) for value in shift.orbit]
    for at in range(len(shift.digits)):
        axes.axvspan(at * shift.bits, (at + 1) * shift.bits, color=("#eef3fd", "white")[at % 2], lw=0)
        before, after = shift.stops[at], shift.stops[at + 1]
        read = 2**shift.bits * before - after
        middle = (at + 0.5) * shift.bits
        axes.text(middle, 1.3, shift.spelled(at), ha="center", va="center", family="DejaVu Sans Mono", color=BLUE)
        axes.text(
            middle,
            1.15,
            f"{2**shift.bits} × {float(before):.4f} − {float(after):.4f} = {read}",
            ha="center",
            va="center",
            fontsize=9,
            color=BLUE,
        )
    axes.plot(range(steps + 1), values, color="#b5b5b5", linewidth=1.2, zorder=2)
    axes.plot(range(steps + 1), values, "o", color="white", mec=GREY, markersize=5, zorder=3)
    for at, value in enumerate(shift.stops):
        axes.plot(at * shift.bits, float(value), "o", color=BLUE, markersize=8, zorder=4)
    axes.set_xlim(-0.3, steps + 0.3)
    axes.set_ylim(-0.04, 1.4)
    axes.set_xticks(range(steps + 1))
    axes.set_yticks([0, 0.5, 1])
    axes.set_xlabel("tents so far; every four tents a digit is gone, and can be read off linearly")
    axes.set_ylabel("the fraction")


@dataclass(frozen=True)
class Point:
    """A network that was built: points held, weights, bits of the widest weight."""

    n: int
    params: int
    max_bits: int


@dataclass(frozen=True)
class Curve:
    """One line of the figure."""

    key: str
    points: tuple[tuple[int, float], ...]


def keys_and_labels(n: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Distinct random keys in [0, n^2) and random labels; the same draw as in benchmarks/exact.py."""
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(0, n * n, size=n + n // 10 + 10))
    return rng.permutation(keys)[:n], rng.integers(CLASSES, size=n)


def _built(variant: str, n: int) -> Point:
    keys, labels = keys_and_labels(n)
    network: Network
    if variant == "A":
        network = memorise_digits(keys, labels, CLASSES).network
    elif variant == "B":
        network = memorise_slots(keys, labels, CLASSES, precision="float64").network
    else:
        network = memorise_blocks(keys, labels, CLASSES).network
    return Point(n, network.params, network.max_bits)


def data(most: int = MOST) -> list[Curve]:
    """Every curve up to so many points; the networks are built, the bounds are formulas."""
    sizes = [n for n in (round(10 ** (k / 2)) for k in range(4, 13)) if n <= most]
    built = {
        variant: [_built(variant, n) for n in sizes if variant != "B" or n <= MOST_B] for variant in ("A", "B", "C")
    }
    # 16 W^2 + 8 W >= N, solved for W; and W B >= N log2 C at the widest weight of variant C.
    by_vc = [(n, (math.sqrt(64 + 64 * n) - 8) / 32) for n in sizes]
    by_counting = [(point.n, point.n * math.log2(CLASSES) / point.max_bits) for point in built["C"]]
    return [
        Curve("naive", tuple((n, 3.0 * n) for n in sizes)),
        *(Curve(variant, tuple((p.n, float(p.params)) for p in points)) for variant, points in built.items()),
        Curve("counting", tuple(by_counting)),
        Curve("vc", tuple(by_vc)),
    ]


_NAMES = {
    "naive": ("reference", "interpolation by ReLU: 3 weights a point"),
    "A": ("line", "variant A, 0 at other keys: {:,.0f} weights"),
    "B": ("line", "variant B, float64: {:,.0f} weights"),
    "C": ("line", "variant C, fewest weights: {:,.0f} weights"),
    "counting": ("bound_lower", "counting bound at the widest weight of C"),
    "vc": ("bound_lower", "VC bound, weights of any number of bits"),
}


def figure(curves: Sequence[Curve]) -> Figure:
    """Every curve with its name at its end; below both bounds the ground is shaded."""
    values = {curve.key: [y for _, y in curve.points] for curve in curves}
    floor = tuple(max(pair) for pair in zip(values["vc"], values["counting"], strict=True))
    series = []
    for curve in curves:
        kind, name = _NAMES[curve.key]
        x, y = (tuple(map(float, part)) for part in zip(*curve.points, strict=True))
        band = ((1.0,) * len(floor), floor) if curve.key == "vc" else (None, None)
        series.append(Series(name.format(y[-1]), kind, x, y, *band))
    panel = Panel(
        "",
        Axis("points (N random keys below N², one of two labels each)", "log"),
        Axis("non-zero weights and biases", "log"),
        tuple(series),
        names="ends",
    )
    return Figure("Weights that hold N labels exactly", (panel,))


if __name__ == "__main__":
    shown = figure(data())
    for path in draw_shift(shift_data(), IMAGES):
        print(f"wrote {path.name}")
    for kind in ("svg", "png"):
        shown.draw(IMAGES / f"exact_params.{kind}")
        print(f"wrote exact_params.{kind}")
