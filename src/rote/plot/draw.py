"""Figures on paper: matplotlib, as PNG, SVG and PDF of publication quality."""

from __future__ import annotations

import io
import math
import textwrap
from pathlib import Path
from typing import Any

from rote.errors import MissingExtra, UsageError
from rote.plot.colours import LIGHT, N_COLOURS, slots
from rote.plot.figure import Figure, Heat, Panel, Series, write_bytes

__all__ = ["FORMATS", "colours_of", "draw", "need_matplotlib", "picture"]

FORMATS = ("png", "svg", "pdf")
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "rote",
    "svg.fonttype": "path",
}
_STAMPS: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Nothing of the moment goes into a file: the same data give the same bytes."""
_MARKS = "osD^vPX*"
_DASHES: dict[str, tuple[Any, ...]] = {
    "bound_lower": ("--", (0, (1.2, 1.6)), (0, (7, 2)), (0, (5, 1.5, 1, 1.5))),
    "bound_upper": ("-.",),
    "reference": (":", (0, (5, 2)), (0, (3, 1.5, 1, 1.5))),
    "line": ("-", (0, (4, 2)), (0, (1.2, 1.6))),
}
_FIXED = {"bound_lower": LIGHT["lower"], "bound_upper": LIGHT["upper"], "reference": LIGHT["reference"]}
_MARKED = 14
"""Curves of so many points show where these are."""
_TALL = 4.1
_WIDE = 5.2
_BESIDE = 2.2
"""Inches for names right of a panel."""
_EARLY = 0.55
"""Lines that end before this share of the width are named at their last point."""


def need_matplotlib(extra: str = "plots", purpose: str = "a figure") -> None:
    """Refuse before the work begins, not after it; `extra` of rote brings it for the purpose."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError:
        raise MissingExtra("matplotlib", extra, purpose) from None


def colours_of(panel: Panel) -> list[str]:
    """The colour of every series."""
    return [
        _FIXED.get(item.kind, LIGHT["ink"] if slot is None else LIGHT[f"series-{slot % N_COLOURS + 1}"])
        for item, slot in zip(panel.series, slots(panel.series), strict=True)
    ]


def draw(figure: Figure, path: Path) -> None:
    """Write the figure as .png, .svg or .pdf, by the file's ending; the same data give the same file."""
    kind = path.suffix.lower().lstrip(".")
    if kind not in FORMATS:
        raise UsageError(f"a figure is a .png, .svg or .pdf file, got {path.name!r}.")
    write_bytes(path, picture(figure, kind))


def picture(figure: Figure, kind: str = "png") -> bytes:
    """The figure as the content of a .png, .svg or .pdf file."""
    need_matplotlib()
    if not figure.panels:
        raise UsageError("the figure has no panels, so there is nothing to draw.")
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Sheet

    count = len(figure.panels)
    columns = min(count, 3) if count != 4 else 2
    lines = math.ceil(count / columns)
    beside = _BESIDE if any(panel.names == "ends" for panel in figure.panels) else 0.0
    content = io.BytesIO()
    with rc_context(_STYLE):
        sheet = Sheet(figsize=(max(6.6, (_WIDE + beside) * columns), _TALL * lines + 0.8), layout="constrained")
        FigureCanvasAgg(sheet)
        for place, panel in enumerate(figure.panels, 1):
            axes = sheet.add_subplot(lines, columns, place)
            if panel.heat is not None:
                _heat(sheet, axes, panel.heat)
            else:
                _series(axes, panel)
            axes.set_xlabel(panel.x.label)
            axes.set_ylabel(panel.y.label)
            for names, ticks in ((panel.x.names, axes.set_xticks), (panel.y.names, axes.set_yticks)):
                if names:
                    ticks(range(len(names)), names)
            if panel.title:
                axes.set_title(panel.title, fontsize=10, loc="left")
        sheet.suptitle(_wrapped(figure.title, 34 * columns + 30), fontsize=11.5, fontweight="bold")
        sheet.savefig(content, format=kind, dpi=160, facecolor="white", metadata=_STAMPS[kind])
    return content.getvalue()


def _heat(sheet: Any, axes: Any, heat: Heat) -> None:
    if not heat.values or not heat.columns:
        axes.set_axis_off()
        return
    image = axes.imshow(heat.values, aspect="auto", cmap="viridis", vmin=heat.low, vmax=heat.high, origin="lower")
    for names, ticks in ((heat.columns, axes.set_xticks), (heat.rows, axes.set_yticks)):
        step = math.ceil(len(names) / 24)
        ticks(range(0, len(names), step), names[::step])
    axes.spines[:].set_visible(False)
    sheet.colorbar(image, ax=axes, label=heat.label).outline.set_visible(False)


def _series(axes: Any, panel: Panel) -> None:
    for scale, choose in ((panel.x.scale, axes.set_xscale), (panel.y.scale, axes.set_yscale)):
        choose(scale, **({"linthresh": 1} if scale == "symlog" else {}))
    colours = colours_of(panel)
    turns: dict[str, int] = {}
    for place, (item, colour) in enumerate(zip(panel.series, colours, strict=True)):
        # Lines of one colour differ in their dashes, other series of one kind in dashes, marks and sizes.
        kin = colour if item.kind == "line" else item.kind
        turn = turns[kin] = turns.get(kin, -1) + 1
        if item.kind in ("points", "excluded", "published"):
            _points(axes, item, colour, turn)
        else:
            later = zip(panel.series[place + 1 :], colours[place + 1 :], strict=True)
            _line(axes, item, colour, turn, wide=any(c != colour and _covers(other, item) for other, c in later))
    for item, colour in zip(panel.series, colours, strict=True):
        for x, y, text in zip(item.x, item.y, item.texts, strict=False):
            if text:
                axes.plot(x, y, "o", color=colour, markersize=4.5, zorder=5)
                _beside(axes, text, (x, y), colour, right=_share(axes, x) < 0.4)
    measured = [x for item in panel.series if item.kind in ("points", "line") for x in item.x]
    if panel.x.scale == "linear" and measured and all(x == int(x) for x in measured):
        axes.xaxis.get_major_locator().set_params(integer=True)
    for scale, axis in ((panel.x.scale, axes.xaxis), (panel.y.scale, axes.yaxis)):
        if scale == "log":
            _log_ticks(axis)
        elif scale == "symlog":
            axis.set_major_formatter(_written)
    axes.grid(True, color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
    if panel.y.scale == "log":
        _out_of_reach(axes, panel)
    else:
        _limits(axes, panel)
        _name_what_is_beyond(axes, panel)
    if panel.names == "ends":
        _name_at_ends(axes, panel, colours)
    _legend(axes, below=panel.names == "ends")


def _covers(later: Series, item: Series) -> bool:
    """Whether a later line lies on this one, at half of its places or more."""
    if not later.kind == item.kind == "line" or len(item.x) > _MARKED:
        return False
    there = dict(zip(later.x, later.y, strict=True))
    reach = 0.02 * max(map(abs, item.y), default=0.0)
    return 2 * sum(abs(there.get(x, math.inf) - y) <= reach for x, y in zip(item.x, item.y, strict=True)) >= len(item.x)


def _line(axes: Any, item: Series, colour: str, turn: int, *, wide: bool) -> None:
    dashes = _DASHES.get(item.kind, ("-",))
    style: dict[str, Any] = {"linestyle": dashes[turn % len(dashes)], "color": colour, "linewidth": 1.3, "zorder": 2}
    if item.kind == "fit":
        style |= {"linewidth": 1.1, "alpha": 0.85, "zorder": 3}
    elif item.kind == "line":
        # One that another lies on is wide and pale, so that both are seen.
        style |= {"linewidth": 4.6, "alpha": 0.45, "zorder": 2} if wide else {"linewidth": 1.7, "zorder": 3}
        if len(item.x) <= _MARKED and not item.texts:
            style |= {"marker": _MARKS[turn % len(_MARKS)], "markersize": 6.4 if wide else 3.8}
    level = item.kind == "reference" and len(set(item.y)) == 1
    axes.plot(item.x, item.y, label=None if level else item.name, **style)
    if level:
        # A line across says itself what it is: the first on the left above it, the next on the right below.
        left = turn % 2 == 0
        words = {"fontsize": 7.5, "color": colour, "ha": "left" if left else "right", "va": "bottom" if left else "top"}
        place, offset = (min(item.x) if left else max(item.x), item.y[0]), (0, 1.5 if left else -1.5)
        axes.annotate(item.name, place, xytext=offset, textcoords="offset points", **words)
    if item.low is not None and item.high is not None:
        axes.fill_between(item.x, item.low, item.high, color=colour, alpha=0.13, linewidth=0, zorder=1)


def _points(axes: Any, item: Series, colour: str, turn: int) -> None:
    if item.low is not None and item.high is not None:
        for x, low, high in zip(item.x, item.low, item.high, strict=True):
            axes.plot([x, x], [low, high], color=colour, linewidth=1.3, zorder=4)
    # Later marks are smaller, so that equal points show both.
    mark, size = _MARKS[turn % len(_MARKS)], max(3.6, 6.2 - 0.8 * turn)
    style: dict[str, Any] = {"marker": mark, "markersize": size, "zorder": 5}
    if item.kind == "published":
        style = {"marker": "D", "markersize": 8, "markerfacecolor": "none", "zorder": 6}
    elif item.kind == "excluded":
        style |= {"marker": "o", "markerfacecolor": "white"}
    axes.plot(item.x, item.y, linestyle="none", color=colour, label=item.name, **style)


def _legend(axes: Any, *, below: bool) -> None:
    """In the picture where there is room, below it where there are many names."""
    handles, labels = axes.get_legend_handles_labels()
    names = [_wrapped(label, 72 if below else 48) for label in labels]
    if below and names:
        axes.legend(handles, names, fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(-0.02, -0.11))
    elif len(names) > 4:
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16)}
        axes.legend(handles, names, fontsize=7, frameon=False, ncols=2, **place)
    elif names:
        axes.legend(handles, names, fontsize=8, frameon=False, loc="best")


def _wrapped(text: str, width: int) -> str:
    """Lines of about one length, as few as the width allows."""
    fewest = len(textwrap.wrap(text, width, break_long_words=False))
    for narrow in range(max(1, len(text) // max(1, fewest)), width + 1):
        lines = textwrap.wrap(text, narrow, break_long_words=False)
        if len(lines) <= fewest:
            return "\n".join(lines)
    return text


def _share(axes: Any, x: float) -> float:
    """How far right a place is, from 0 to 1."""
    axes.autoscale_view()
    return float(axes.transAxes.inverted().transform(axes.transData.transform((x, 1.0)))[0])


def _beside(axes: Any, text: str, place: tuple[float, float], colour: str, *, right: bool) -> None:
    axes.annotate(
        text,
        place,
        xytext=(8, -8) if right else (-8, 4),
        textcoords="offset points",
        ha="left" if right else "right",
        fontsize=8,
        color=colour,
    )


def _name_at_ends(axes: Any, panel: Panel, colours: list[str]) -> None:
    """Names right of the picture at the height of their lines' ends, moved apart where they would meet."""
    drawn = {line.get_label(): line for line in axes.get_lines()}
    back = axes.transAxes.inverted()
    names: list[tuple[float, str, str]] = []
    for item, colour in zip(panel.series, colours, strict=True):
        line = next((line for label, line in drawn.items() if label.startswith(item.name)), None)
        if item.kind in ("points", "excluded", "published", "fit") or line is None:
            continue
        text = _wrapped(line.get_label(), 36)
        line.set_label("_")
        end = (item.x[-1], item.y[-1])
        if _share(axes, item.x[-1]) < _EARLY and item.kind == "line":
            _beside(axes, f"{text}\n" if any(item.texts) else text, end, colour, right=False)
        else:
            names.append((float(back.transform(axes.transData.transform(end))[1]), text, colour))
    names.sort()
    sizes = [0.038 * (1 + text.count("\n")) + 0.012 for _, text, _ in names]
    places = [height - size / 2 for (height, _, _), size in zip(names, sizes, strict=True)]
    free = 0.0
    for k, size in enumerate(sizes):
        places[k] = max(places[k], free)
        free = places[k] + size
    free = 1.02
    for k in reversed(range(len(names))):
        places[k] = min(places[k], free - sizes[k])
        free = places[k]
    for (_, text, colour), place in zip(names, places, strict=True):
        style = {"fontsize": 8, "color": colour, "va": "bottom", "annotation_clip": False}
        axes.annotate(text, (1.01, place), xycoords="axes fraction", **style)


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
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    few = low > 0 and math.log10(high / low) < 2
    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=12))
    axis.set_major_formatter(_written)
    axis.set_minor_formatter(NullFormatter())


def _written(value: float, _: object = None) -> str:
    if value == 0 or 1e-3 <= value < 1e6:
        return f"{value:,.0f}" if value >= 1 else f"{value:g}"
    power = round(math.log10(value)) if value > 0 else 0
    return f"$10^{{{power}}}$"


def _limits(axes: Any, panel: Panel) -> None:
    """From zero where nothing is negative; bounds and intervals far off do not flatten what was measured."""
    values = [y for item in panel.series for y in item.y]
    if not values:
        return
    near = [y for item in panel.series if item.kind in ("points", "excluded", "published", "line") for y in item.y]
    top = max(near) if near else max(values)
    ends = [y for item in panel.series for y in (*item.y, *(item.high or ())) if top <= 0 or y <= 1.6 * top]
    low = min(0.0, *(near or values))
    high = max(ends, default=top)
    if panel.y.scale == "symlog":
        axes.set_ylim(low, 2 * high)
        return
    reach = high - low if high > low else 1.0
    axes.set_ylim(low if low == 0 and high > 0 else low - 0.05 * reach, low + 1.06 * reach)
