"""Measuring: the capacity of a shape, sweeps over grids of cells, and the journal that keeps every result."""

from rote.measure.capacity import Measurement, measure
from rote.measure.cell import Cell
from rote.measure.journal import Journal
from rote.measure.sweep import Sweep, read_sweep, run_sweep

__all__ = ["Cell", "Journal", "Measurement", "Sweep", "measure", "read_sweep", "run_sweep"]
