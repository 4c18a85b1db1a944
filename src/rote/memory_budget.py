"""How much memory a build may take, and how an allocation that failed is told from other errors."""

from __future__ import annotations

import os

from rote.errors import UsageError

__all__ = ["memory_budget", "out_of_memory"]

_SHARE = 0.6
"""Of what is free, what a build takes unless it is told otherwise."""


_COMFORT, _COMFORT_OF_A_FACT = 1.2e9, 1000.0
"""Bytes that an attempt takes at most where nobody asked for the smallest model at any price: so many, or so many a
fact."""


def memory_budget(gigabytes: float | None = None, comfort: int | None = None) -> float:
    """Bytes that one attempt may take: what was asked for, or a share of what is free; where a table of `comfort` facts
    is to be built without further ado, no more than that takes."""
    if gigabytes is None:
        share = _SHARE * _free()
        return share if comfort is None else min(share, max(_COMFORT, _COMFORT_OF_A_FACT * comfort))
    if isinstance(gigabytes, bool) or not isinstance(gigabytes, (int, float)) or not gigabytes > 0:
        raise UsageError(f"max_memory is a number of gigabytes above 0, got {gigabytes!r}.")
    return 1e9 * gigabytes


def _free() -> float:
    """Bytes of memory that are free or can be freed, as far as the system tells."""
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            for line in stream:
                if line.startswith("MemAvailable:"):
                    return 1024.0 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) / 2
    except (AttributeError, OSError, ValueError):
        return 8e9


def out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed: Python says so by its type, torch only in words."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error)
