"""Ink for figures: matplotlib, as PNG, SVG and PDF of publication quality."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rote.data._atomic import write_atomically
from rote.errors import MissingExtra, UsageError
from rote.plot.model import Figure, Panel, Series

__all__ = ["COLOURS", "FORMATS", "colours_of", "draw", "need_matplotlib"]

FORMATS = ("png", "svg", "pdf")
COLOURS = ("#1f4e8c", "#c2410c", "#2a7f62", "#8e44ad", "#b8860b", "#0e7490", "#9f1239", "#4d4d4d")
"""Told apart by people with the common kinds of colour blindness, and dark enough on white."""
_MARKS = "osD^vPX*"
_GREY = "#6b6b6b"
_STYLES: dict[str, dict[str, Any]] = {
    "bound_lower": {"linestyle": "--", "color": "#1d4ed8", "linewidth": 1.2},
    "bound_upper": {"linestyle": "-.", "color": "#111111", "linewidth": 1.2},
    "reference": {"linestyle": ":", "color": _GREY, "linewidth": 1.3},
}
_MARKED = 14
"""Curves of so many points show where these are."""
_DASHES: tuple[Any, ...] = ("--", (0, (1.2, 1.6)), (0, (7, 2)), (0, (5, 1.5, 1, 1.5)))
_TALL = 4.1
_WIDE = 5.2


def need_matplotlib() -> None:
    """Refuse before the work begins, not after it."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError:
        raise MissingExtra("matplotlib", "plots", "a figure") from None


def colours_of(panel: Panel) -> dict[str, str]:
    """A colour for each series by name: a fit, and what was published, have the colour of what they belong to."""
    found: dict[str, str] = {}
    plain = [item for item in panel.series if item.kind in ("points", "line")]
    for index, item in enumerate(plain):
        found[item.name] = COLOURS[index % len(COLOURS)]
    for item in panel.series:
        if item.kind in ("fit", "published"):
            plainly = [name for name in found if _belongs(item.name, name)]
            owner = max(plainly or [name for name in found if _beside(item, name)], key=len, default=None)
            found[item.name] = "#111111" if owner is None else found[owner]
        elif item.kind in _STYLES:
            found[item.name] = str(_STYLES[item.kind]["color"])
    return found


def _belongs(name: str, owner: str) -> bool:
    return name.startswith(f"{owner}: ") or name.endswith(f": {owner}")


def _beside(item: Series, owner: str) -> bool:
    """What was published as "d = 10, published" stands beside "d = 10, their recipe"."""
    first, comma, _ = item.name.partition(", ")
    return item.kind == "published" and bool(comma) and owner.startswith(f"{first}, ")


def draw(figure: Figure, path: Path) -> None:
    """Write the figure as .png, .svg or .pdf, by the file's ending; the same data give the same file."""
    need_matplotlib()
    import matplotlib as mpl

    kind = path.suffix.lower().lstrip(".")
    if kind not in FORMATS:
        raise UsageError(f"a figure is a .png, .svg or .pdf file, got {path.name!r}.")
    if not figure.panels:
        raise UsageError("the figure has no panels, so there is nothing to draw.")
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    style: Any = {
        "font.family": "DejaVu Sans",
        "font.size": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "rote",
        "svg.fonttype": "path",
    }
    count = len(figure.panels)
    columns = min(count, 3) if count != 4 else 2
    lines = math.ceil(count / columns)
    with mpl.rc_context(style):
        made, axes = plt.subplots(
            lines,
            columns,
            figsize=(max(6.6, _WIDE * columns), _TALL * lines + 0.8),
            layout="constrained",
            squeeze=False,
        )
        flat = list(axes.flat)
        for spare in flat[count:]:
            spare.set_visible(False)
        for place, panel in zip(flat, figure.panels, strict=False):
            _panel(place, panel)
        made.suptitle(figure.title, fontsize=11.5, fontweight="bold")
        stamp = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
        try:
            write_atomically(
                path, lambda part: made.savefig(part, format=kind, dpi=160, facecolor="white", metadata=stamp)
            )
        finally:
            plt.close(made)


def _panel(axes: Any, panel: Panel) -> None:
    colours = colours_of(panel)
    axes.set_xscale(panel.x.scale)
    axes.set_yscale(panel.y.scale)
    measured = [item for item in panel.series if item.kind == "points"]
    lower = [item for item in panel.series if item.kind == "bound_lower"]
    for item in panel.series:
        colour = colours[item.name]
        if item.kind in _STYLES:
            level = item.kind == "reference" and len(set(item.y)) == 1
            style = dict(_STYLES[item.kind])
            if item.kind == "bound_lower":
                style["linestyle"] = _DASHES[lower.index(item) % len(_DASHES)]
            axes.plot(item.x, item.y, label=None if level else item.name, zorder=2, **style)
            if level:
                # A line across says itself what it is.
                place = (min(item.x), item.y[0])
                words = {"fontsize": 7.5, "color": _GREY, "ha": "left", "va": "bottom"}
                axes.annotate(item.name, place, xytext=(0, 1.5), textcoords="offset points", **words)
        elif item.kind == "fit":
            axes.plot(item.x, item.y, color=colour, linewidth=1.1, alpha=0.85, label=item.name, zorder=3)
        elif item.kind == "line":
            mark = {"marker": "o", "markersize": 3.6} if len(item.x) <= _MARKED else {}
            axes.plot(item.x, item.y, color=colour, linewidth=1.8, label=item.name, zorder=3, **mark)
            if item.low is not None and item.high is not None:
                axes.fill_between(item.x, item.low, item.high, color=colour, alpha=0.15, linewidth=0)
        elif item.kind == "published":
            axes.plot(
                item.x, item.y, "D", color=colour, markerfacecolor="none", markersize=8, label=item.name, zorder=6
            )
        else:
            index = measured.index(item)
            # Later marks are smaller, so that equal points show both.
            _points(axes, item, colour, _MARKS[index % len(_MARKS)], max(3.6, 6.2 - 0.8 * index))
    if panel.x.scale == "linear" and all(x == int(x) for item in measured for x in item.x):
        axes.xaxis.get_major_locator().set_params(integer=True)
    for scale, axis in ((panel.x.scale, axes.xaxis), (panel.y.scale, axes.yaxis)):
        if scale == "log":
            _log_ticks(axis)
    axes.set_xlabel(panel.x.label)
    axes.set_ylabel(panel.y.label)
    if panel.title:
        axes.set_title(panel.title, fontsize=10, loc="left")
    axes.grid(True, color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
    if panel.y.scale == "linear":
        _limits(axes, panel)
        _name_what_is_beyond(axes, panel)
    else:
        _out_of_reach(axes, panel)
    named = axes.get_legend_handles_labels()[1]
    if named:
        many = len(named) > 4
        axes.legend(
            fontsize=7 if many else 8,
            frameon=False,
            loc="upper center" if many else "best",
            bbox_to_anchor=(0.5, -0.16) if many else None,
            ncols=2 if many else 1,
        )


def _name_what_is_beyond(axes: Any, panel: Panel) -> None:
    """A bound above the picture is named with its values instead."""
    top = axes.get_ylim()[1]
    lines = {line.get_label(): line for line in axes.get_lines()}
    for item in panel.series:
        if item.y and min(item.y) > top and item.name in lines:
            first, last = (f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in (min(item.y), max(item.y)))
            span = first if first == last else f"{first} to {last}"
            lines[item.name].set_label(f"{item.name} (above, {span})")


def _out_of_reach(axes: Any, panel: Panel) -> None:
    """What an upper bound forbids is grey, up to the frame."""
    low, high = axes.get_ylim()
    for item in panel.series:
        if item.kind == "bound_upper":
            axes.fill_between(item.x, item.y, high, color="#9a9a9a", alpha=0.16, linewidth=0, zorder=1)
    axes.set_ylim(low, high)


def _log_ticks(axis: Any) -> None:
    """Numbers as people write them; 2 and 5 between the powers of ten where there are few of these."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    few = low > 0 and math.log10(high / low) < 2
    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=12))
    axis.set_major_formatter(FuncFormatter(_written))
    axis.set_minor_formatter(NullFormatter())


def _written(value: float, _: object = None) -> str:
    if 1e-3 <= value < 1e6:
        return f"{value:,.0f}" if value >= 1 else f"{value:g}"
    power = round(math.log10(value)) if value > 0 else 0
    return f"$10^{{{power}}}$"


def _points(axes: Any, item: Series, colour: str, mark: str, size: float) -> None:
    if item.low is not None and item.high is not None:
        for x, low, high in zip(item.x, item.low, item.high, strict=True):
            axes.plot([x, x], [low, high], color=colour, linewidth=1.3, zorder=4)
    axes.plot(item.x, item.y, mark, color=colour, markersize=size, label=item.name, zorder=5)


def _limits(axes: Any, panel: Panel) -> None:
    """From zero where nothing is negative; bounds and intervals far off do not flatten what was measured."""
    values = [y for item in panel.series for y in item.y]
    if not values:
        return
    near = [y for item in panel.series if item.kind in ("points", "published", "line") for y in item.y]
    top = max(near) if near else max(values)
    ends = [y for item in panel.series for y in (*item.y, *(item.high or ())) if top <= 0 or y <= 1.6 * top]
    low = min(0.0, *(near or values))
    high = max(ends, default=top)
    reach = high - low if high > low else 1.0
    axes.set_ylim(low if low == 0 and high > 0 else low - 0.05 * reach, low + 1.06 * reach)
