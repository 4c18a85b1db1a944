"""Measuring: the capacity of a shape, sweeps over grids of cells, and the journal that keeps every result."""

from rote.measure.capacity import Measurement, measure, measure_cell
from rote.measure.cell import Cell
from rote.measure.journal import Journal
from rote.measure.results import Results, results
from rote.measure.sweeps import Sweep, Swept, read_sweep, run_sweep, sweep

__all__ = [
    "Cell",
    "Journal",
    "Measurement",
    "Results",
    "Sweep",
    "Swept",
    "measure",
    "measure_cell",
    "read_sweep",
    "results",
    "run_sweep",
    "sweep",
]
