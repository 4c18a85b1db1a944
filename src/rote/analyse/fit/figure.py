"""What a fit shows: points with intervals, the law with its band, the theorems beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rote.plot import Axis, Figure, Panel, Series, describe

if TYPE_CHECKING:
    from rote.analyse.fit.compare import Fit, Prediction
    from rote.analyse.fit.points import Point

__all__ = ["bound_series", "curve_series", "fit_figure", "point_series"]

_PLACES = 121
_KINDS = {"lower": "bound_lower", "upper": "bound_upper"}


def fit_figure(fit: Fit) -> Figure:
    """One panel: everything that was measured, the chosen law, and every theorem that has a number here."""
    series = (
        *point_series("mean over seeds", fit.points, fit.level),
        curve_series("mean over seeds", fit),
        *bound_series(fit.used, fit.predictions),
    )
    panels = (Panel("", Axis(fit.x), Axis(fit.y), series, names="ends"),)
    percent = f"{100 * fit.level:.3g} %"
    caption = f"{fit.chosen.law.name}, {fit.why}. Intervals and bands are of {percent}."
    return Figure(f"{fit.y} against {fit.x}", panels, caption, describe(panels))


def point_series(name: str, points: Sequence[Point], level: float) -> list[Series]:
    """Means with their intervals; saturated ones, which no law is fitted to, are a series of their own."""
    series = []
    for kind, told in (("points", name), ("excluded", f"{name}: saturated, not fitted")):
        chosen = [point for point in points if point.saturated == (kind == "excluded")]
        spans = [point.interval(level) or (point.mean, point.mean) for point in chosen]
        low, high = tuple(span[0] for span in spans), tuple(span[1] for span in spans)
        x, y = tuple(point.x for point in chosen), tuple(point.mean for point in chosen)
        several = any(len(point.values) > 1 for point in chosen)
        if chosen:
            series.append(Series(told, kind, x, y, *((low, high) if several else (None, None))))
    return series


def curve_series(name: str, fit: Fit) -> Series:
    """The chosen law with its band, named with its parameters."""
    places = [point.x for point in fit.used]
    low, high = min(places), max(places)
    wide = low > 0 and high >= 30 * low
    dense = np.geomspace(low, high, _PLACES) if wide else np.linspace(low, high, _PLACES)
    curve = fit.chosen
    band = np.array(curve.band(dense, fit.level))
    ends = tuple(tuple(map(float, end)) for end in band) if np.isfinite(band).all() else (None, None)
    told = ", ".join(f"{one} = {value:.3g}" for one, value in zip(curve.law.names, curve.params, strict=True))
    label = f"{name}: {curve.law.name} {curve.law.formula}, {told}"
    return Series(label, "fit", tuple(map(float, dense)), tuple(map(float, curve.at(dense))), *ends)


def bound_series(points: Sequence[Point], predictions: Sequence[Prediction]) -> list[Series]:
    """The theorems as lines; those that say the same share one."""
    groups: dict[tuple[str, tuple[float, ...]], list[str]] = {}
    for item in predictions:
        groups.setdefault((item.kind, item.values), []).append(item.theorem)
    places = tuple(point.x for point in points)
    return [
        Series(f"{kind}: {', '.join(names)}", _KINDS.get(kind, "reference"), places, values)
        for (kind, values), names in groups.items()
    ]
