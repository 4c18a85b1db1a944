"""Contract suites for theorems, constructions, models and tables: for our own tests, and for yours.

Each raises AssertionError with a sentence that says which promise is broken. Call them from a test, for a kind of your
own as well as for the registered ones.
"""

from rote.testing.constructions import check_construction
from rote.testing.models import check_model
from rote.testing.tables import check_table
from rote.testing.theorems import check_theorem

__all__ = ["check_construction", "check_model", "check_table", "check_theorem"]
