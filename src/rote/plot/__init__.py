"""Figures and sheets as data: records that are kept as JSON, and drawn from it, on paper and in a browser."""

from rote.plot.figure import SERIES_KINDS, Axis, Figure, Heat, Panel, Pictured, Series, describe, read_figure
from rote.plot.sheet import Grid, Sheet, Shown

__all__ = [
    "SERIES_KINDS",
    "Axis",
    "Figure",
    "Grid",
    "Heat",
    "Panel",
    "Pictured",
    "Series",
    "Sheet",
    "Shown",
    "describe",
    "read_figure",
]
