"""One thread a process: the tests run side by side, and threads that wait for each other by spinning slow all down."""

from __future__ import annotations

import os

for name, value in (("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1"), ("OMP_WAIT_POLICY", "PASSIVE")):
    os.environ.setdefault(name, value)

from browser import browser  # noqa: E402  (after the threads are set)
from explorer import explorer, short_explorer  # noqa: E402
from grafts import tiny_graft  # noqa: E402

__all__ = ["browser", "explorer", "short_explorer", "tiny_graft"]
