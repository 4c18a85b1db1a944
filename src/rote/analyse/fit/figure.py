"""The picture of a fit: points with intervals, the law with its band, the theorems. `Fit` is data; this is ink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rote.analyse.fit.compare import Fit
from rote.data._atomic import write_atomically
from rote.errors import MissingExtra, UsageError

__all__ = ["draw"]

_COLOURS = {"lower": "#1d4ed8", "upper": "#222222", "empirical": "#6b6b6b"}


def _lines(fit: Fit) -> dict[tuple[str, tuple[float, ...]], str]:
    """One line for theorems that say the same, by kind and values; in words, their names."""
    found: dict[tuple[str, tuple[float, ...]], list[str]] = {}
    for item in fit.predictions:
        found.setdefault((item.kind, item.values), []).append(item.theorem)
    return {key: "\n".join(names) for key, names in found.items()}


def _label(axes: Any, beside: list[tuple[float, str, str]]) -> None:
    """Names right of the picture at the height of their lines, moved up where they would meet."""
    top = axes.get_ylim()[1]
    free = 0.0
    for height, text, colour in sorted(beside):
        size = 0.035 * top * (1 + text.count("\n"))
        place = max(height - size / 2, free)
        free = place + size + 0.01 * top
        axes.annotate(
            text,
            (1.01, place),
            xycoords=("axes fraction", "data"),
            fontsize=7.5,
            color=colour,
            va="bottom",
            annotation_clip=False,
        )


def draw(fit: Fit, path: Path) -> None:
    """Write the figure as .png, .svg or .pdf, by the file's ending."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtra("matplotlib", "plots", "a figure") from None
    kind = path.suffix.lower().lstrip(".")
    if kind not in ("png", "svg", "pdf"):
        raise UsageError(f"a figure is a .png, .svg or .pdf file, got {path.name!r}.")
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    style: Any = {
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "rote",
    }
    with mpl.rc_context(style):
        figure, axes = plt.subplots(figsize=(8.0, 5.0), layout="constrained")
        used = fit.used
        shown = np.array([point.x for point in used])
        dense = np.linspace(shown.min(), shown.max(), 200)
        top = max(point.mean for point in fit.points)
        for low_high, label in ((fit.chosen.band(dense, fit.level), f"{100 * fit.level:.3g} % band"),):
            axes.fill_between(dense, *low_high, color="#f4a261", alpha=0.3, linewidth=0, label=label)
        params = ", ".join(
            f"{name} = {value:.3g} ({low:.3g} to {high:.3g})"
            for name, value, (low, high) in zip(
                fit.chosen.law.names, fit.chosen.params, fit.chosen.intervals, strict=True
            )
        )
        axes.plot(dense, fit.chosen.at(dense), color="#c2410c", linewidth=2, label=f"{fit.chosen.law.name}: {params}")
        # Bounds far above the points would flatten them; they are named with their values instead.
        far: list[str] = []
        beside: list[tuple[float, str, str]] = []
        for (kind_, values), names in _lines(fit).items():
            if max(values) > 3 * top:
                far.append(f"{names} {max(values):,.4g}".replace("\n", ", "))
                continue
            style_ = "--" if kind_ == "lower" else ":"
            colour = _COLOURS.get(kind_, "#6b6b6b")
            axes.plot(shown, values, style_, color=colour, linewidth=1.3)
            beside.append((values[-1], f"{kind_}: {names}", colour))
        for point in fit.points:
            span = point.interval(fit.level)
            if span is not None:
                axes.plot([point.x, point.x], span, color="#264653", linewidth=1.4)
        full = [point for point in fit.points if point.saturated]
        axes.plot(shown, [p.mean for p in used], "o", color="#264653", label="mean over seeds", zorder=5)
        if full:
            axes.plot(
                [p.x for p in full],
                [p.mean for p in full],
                "o",
                color="#264653",
                markerfacecolor="white",
                label="saturated, not fitted",
                zorder=5,
            )
        axes.set_ylim(bottom=0)
        _label(axes, beside)
        axes.set_xlabel(fit.x)
        axes.set_ylabel(fit.y)
        if far:
            axes.set_title(f"beyond the picture at the largest {fit.x}: {'; '.join(far)}", fontsize=8, loc="left")
        axes.grid(True, color="#e5e5e5", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.legend(fontsize=8, frameon=False, loc="upper left")
        stamp = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
        try:
            write_atomically(
                path, lambda part: figure.savefig(part, format=kind, dpi=160, facecolor="white", metadata=stamp)
            )
        finally:
            plt.close(figure)
