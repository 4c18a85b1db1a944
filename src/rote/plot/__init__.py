"""Figures as data: panels of series that are kept as JSON, and drawn from it."""

from rote.plot.model import SERIES_KINDS, Axis, Figure, Panel, Series, describe, read_figure

__all__ = ["SERIES_KINDS", "Axis", "Figure", "Panel", "Series", "describe", "read_figure"]
