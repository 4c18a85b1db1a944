"""`fit`: choose a law, and hold its slope against the slopes that theorems predict for the same shapes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rote.analyse.fit.figure import fit_figure
from rote.analyse.fit.laws import LAWS, Curve, fit_law, get_law
from rote.analyse.fit.points import Point, gather, variances
from rote.capacity import bounds
from rote.data.arguments import checked
from rote.errors import DataError, UsageError
from rote.measurement.results import Results, results
from rote.measurement.where import select
from rote.plot import Figure, Grid, Pictured, Sheet
from rote.theorems import Setting

__all__ = ["Fit", "Prediction", "fit", "predict"]

_SHARES = ("share", "published")


@dataclass(frozen=True)
class Prediction:
    """What a theorem says at every x, and its slope there."""

    theorem: str
    kind: str
    values: tuple[float, ...]
    slope: float
    ratio: float | None
    """Measured slope over predicted slope; None where the prediction is flat."""


@dataclass(frozen=True, repr=False)
class Fit(Pictured):
    """Points, the chosen law and the others, and the theorems beside them."""

    x: str
    y: str
    points: tuple[Point, ...]
    curves: tuple[Curve, ...]
    chosen: Curve
    why: str
    level: float
    predictions: tuple[Prediction, ...]

    @property
    def used(self) -> list[Point]:
        return [point for point in self.points if not point.saturated]

    def curve(self, name: str) -> Curve | None:
        return next((curve for curve in self.curves if curve.law.name == name), None)

    @property
    def verdict(self) -> str:
        """Is it linear? By the curvature where it can be told, and by the exponent."""
        bent, power = self.curve("quadratic"), self.curve("power")
        said = []
        if bent is not None:
            low, high = bent.intervals[2]
            straight = low <= 0 <= high
            said.append(
                f"no curvature can be told from zero ({low:.3g} to {high:.3g})"
                if straight
                else f"the curvature is {'positive' if low > 0 else 'negative'} ({low:.3g} to {high:.3g})"
            )
        if power is not None:
            low, high = power.intervals[1]
            said.append(f"the exponent is {power.params[1]:.3g} ({low:.3g} to {high:.3g})")
        return "; ".join(said)

    def figure(self) -> Figure:
        """Points, the law with its band, and the theorems, as data; `figure().draw("law.png")` draws it."""
        return fit_figure(self)

    def sheet(self) -> Sheet:
        """The laws, the verdict and the slopes of the theorems, as tables."""
        full = [point for point in self.points if point.saturated]
        lead = f": {len(self.used)} points"
        if full:
            lead += f", and {len(full)} saturated from {self.x} = {full[0].x:g}"
        lines = [f"Chosen: {self.chosen.law.name}, {self.why}."]
        if self.verdict:
            lines.append(f"Is it linear? {self.verdict[0].upper()}{self.verdict[1:]}.")
        intervals = f"{100 * self.level:.3g} % interval"
        rows = [
            (
                f"{curve.law.name}, {curve.law.formula}" if i == 0 else "",
                f"{name} = {value:.4g}",
                f"{low:.4g} to {high:.4g}",
                f"{curve.cv:.3g}" if i == 0 else "",
                f"{curve.aic:.3g}" if i == 0 else "",
            )
            for curve in self.curves
            for i, (name, value, (low, high)) in enumerate(
                zip(curve.law.names, curve.params, curve.intervals, strict=True)
            )
        ]
        laws = Grid(("law", "parameter", intervals, "CV error", "AIC"), tuple(rows), left=("parameter", intervals))
        slopes = tuple(
            (item.theorem, item.kind, f"{item.slope:.3g}", "–" if item.ratio is None else f"{item.ratio:.3g}")
            for item in self.predictions
        )
        beside = Grid(("theorem", "kind", "predicted slope", "measured/predicted"), slopes, left=("kind",))
        grids = (laws, beside) if slopes else (laws,)
        return Sheet(f"{self.y} against {self.x}", lead, lines=tuple(lines), grids=grids)

    def __repr__(self) -> str:
        told = ", ".join(
            f"{name} = {value:.4g}" for name, value in zip(self.chosen.law.names, self.chosen.params, strict=True)
        )
        return f"Fit({self.y} against {self.x}: {self.chosen.law.name} {self.chosen.law.formula}, {told})"

    def to_dict(self) -> dict[str, Any]:
        return {
            "x": self.x,
            "y": self.y,
            "law": self.chosen.law.name,
            "why": self.why,
            "level": self.level,
            "points": [point.to_dict() for point in self.points],
            "laws": [
                {
                    "law": curve.law.name,
                    "formula": curve.law.formula,
                    "params": {
                        name: {"value": float(value), "error": float(error), "interval": list(interval)}
                        for name, value, error, interval in zip(
                            curve.law.names, curve.params, curve.errors, curve.intervals, strict=True
                        )
                    },
                    "chi2": curve.chi2,
                    "aic": curve.aic if math.isfinite(curve.aic) else None,
                    "cross_validated_error": curve.cv,
                }
                for curve in self.curves
            ],
            "verdict": self.verdict,
            "predictions": [{**asdict(item), "values": list(item.values)} for item in self.predictions],
        }


def _rows(source: object) -> list[Mapping[str, Any]]:
    """Rows that were given as such."""
    held: list[Any] = list(source) if isinstance(source, Iterable) and not isinstance(source, Mapping) else [source]
    if isinstance(source, Mapping) or not all(isinstance(row, Mapping) for row in held):
        raise UsageError(f"a fit needs the file of a sweep, or rows as mappings, got a {type(source).__name__}.")
    return held


@checked
def fit(
    source: str | Path | Results | Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    *,
    law: str = "auto",
    where: Iterable[str] = (),
    saturation: float = 0.95,
    level: float = 0.95,
    seed: int = 0,
) -> Fit:
    """Fit a law for `y` along `x` to the results of a sweep: weighted, saturated points left out.

    `source` is the file of a sweep, or rows such as `results` gives; `where` keeps some of them, as in "d_model=10".
    `law` is linear, power, quadratic, or auto: of the laws whose cross-validated error is within one standard error of
    the smallest, the one with the smallest AIC. Shares of facts of `saturation` or more are left out. Intervals cover
    `level`, by the bootstrap, whose seed is `seed`.

        >>> fit("heads.db", "n_heads", "capacity", where=["d_model=10"])  # doctest: +SKIP
        Fit(capacity against n_heads: linear a + b x, a = 60.1, b = 119.8)
    """
    rows = select(list(results(source)) if isinstance(source, str | Path) else _rows(source), where)
    if not 0.5 <= level < 1:
        raise UsageError(f"level is a share from 0.5 to below 1, got {level}.")
    if law != "auto":
        get_law(law)
    points = gather(rows, x, y, saturation=saturation)
    used = [point for point in points if not point.saturated]
    least = 4 if law == "auto" else get_law(law).size + 1
    if len(used) < least:
        raise DataError(
            f"{len(used)} values of {x} are not saturated, and a fit needs {least}; measure more, or smaller, shapes."
        )
    place = np.array([point.x for point in used])
    mean = np.array([point.mean for point in used])
    spread = np.array(variances(used))
    curves = []
    for one in LAWS.values():
        if len(used) <= one.size or (one.name == "power" and place.min() <= 0):
            continue
        curves.append(fit_law(one, place, mean, spread, rng=np.random.default_rng(seed), level=level))
    if law == "auto":
        best = min(curves, key=lambda curve: curve.cv)
        near = [curve for curve in curves if curve.cv**2 <= best.cv**2 + best.cv_spread]
        chosen = min(near, key=lambda curve: (curve.aic, curve.law.size))
        why = (
            f"smallest AIC ({chosen.aic:.3g}) of the laws within one standard error of the smallest cross-validated "
            f"error ({best.law.name}, {best.cv:.3g})"
        )
    else:
        asked = [curve for curve in curves if curve.law.name == law]
        if not asked:
            raise UsageError(f"the law {law} needs positive {x}; choose another law.")
        chosen, why = asked[0], "asked for"
    line = next(curve for curve in curves if curve.law.name == "linear")
    return Fit(x, y, tuple(points), tuple(curves), chosen, why, level, tuple(predict(used, y, float(line.params[1]))))


def predict(points: Sequence[Point], y: str, slope: float | None = None) -> list[Prediction]:
    """Every theorem that has a number at every point: its values in units of y, and a line's slope.

    `slope` is what was measured, for the ratio; two points or more.
    """
    if y != "capacity" and y not in _SHARES:
        return []
    from rote import theorems

    tables: list[dict[str, Any]] = []
    for point in points:
        setting = Setting(point.cell.arch, shared_context=point.cell.vectors and point.cell.sharing == 1)
        tables.append({item.theorem: item for item in bounds(setting) if item.facts is not None})
    vectors = points[0].cell.vectors
    place = np.array([point.x for point in points])
    predictions = []
    for name, theorem in theorems.registry().items():
        if not all(name in table for table in tables) or theorem.promises.startswith("accuracy"):
            continue
        if name != "counting" and theorem.takes_vectors != vectors:
            continue
        values = [float(table[name].facts) for table in tables]
        if y in _SHARES:
            if any(point.n_facts is None for point in points):
                continue
            values = [min(1.0, value / (point.n_facts or 1)) for value, point in zip(values, points, strict=True)]
        predicted = float(np.polyfit(place, values, 1)[0])
        flat = abs(predicted) < 1e-12 * max(abs(value) for value in values)
        predictions.append(
            Prediction(
                name,
                tables[0][name].kind,
                tuple(values),
                predicted,
                None if flat or slope is None else slope / predicted,
            )
        )
    order = {"lower": 0, "upper": 1, "order": 2, "empirical": 3}
    return sorted(predictions, key=lambda item: (order.get(item.kind, 9), -item.values[-1]))
