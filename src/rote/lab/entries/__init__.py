"""Reproducing figures: an entry is one TOML in experiments/, its cells go through the journal, its claim is tested.

entry     the files, what they may say, and their cells
cost      about how long cells take
cells     single cells as text, kept beside an entry's rows, from which a run on another machine goes on
table     rows of results, means over seeds with intervals, and the published points beside them
claims/   the tests that decide claims, one file each
figure    from rows to the data of figures
kept      entries of which rows were kept and single cells were not, judged again
writing   from rows to files: rows.csv, figures, entry.json with the verdict
run       the driver: what is missing is run, every finished entry is written
"""

from rote.lab.entries.entry import Entry, entries, find_entries, read_entry
from rote.lab.entries.run import Catalogue, catalogue, estimate, reproduce, run_entries, take_over
from rote.lab.entries.writing import Reproduced

__all__ = [
    "Catalogue",
    "Entry",
    "Reproduced",
    "catalogue",
    "entries",
    "estimate",
    "find_entries",
    "read_entry",
    "reproduce",
    "run_entries",
    "take_over",
]
