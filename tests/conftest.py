"""One thread a process: the tests run side by side, and threads that wait for each other by spinning slow all down."""

from __future__ import annotations

import os

import pytest

for name, value in (("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1"), ("OMP_WAIT_POLICY", "PASSIVE")):
    os.environ.setdefault(name, value)

from browser import browser  # noqa: E402  (after the threads are set)
from explorer import explorer, short_explorer  # noqa: E402
from grafts import tiny_graft  # noqa: E402

__all__ = ["browser", "explorer", "pytest_xdist_auto_num_workers", "short_explorer", "tiny_graft"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: many tests wait for servers, browsers and other processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + cores // 2
