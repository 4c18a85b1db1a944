"""Measuring: the capacity of a shape, sweeps over grids of cells, and the journal that keeps every result."""

from rote.measurement.capacity import Measurement, measure, measure_cell
from rote.measurement.cell import Cell
from rote.measurement.journal import Journal
from rote.measurement.results import Results, results
from rote.measurement.sweeps import Sweep, Swept, read_sweep, run_sweep, sweep

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
