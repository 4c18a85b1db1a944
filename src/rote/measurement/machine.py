"""What measurements need of a machine: memory as people write it, a device that is there, processes, and time."""

from __future__ import annotations

import os
import re

from rote.errors import UsageError

__all__ = ["check_device", "cores", "duration", "memory_bytes"]

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_MOST_JOBS = 8


def memory_bytes(size: int | str | None) -> int | None:
    """Bytes from "2GB", "500 MB" or a plain number."""
    if size is None:
        return None
    parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", str(size))
    if parts is None or parts[2].lower() not in _UNITS or float(parts[1]) <= 0:
        raise UsageError(f"memory must be a size such as 500MB or 2GB, got {size!r}.")
    return int(float(parts[1]) * _UNITS[parts[2].lower()])


def check_device(name: str) -> str:
    """A device that torch has here."""
    import torch

    try:
        kind = torch.device(name).type
    except RuntimeError:
        raise UsageError(f"there is no device {name!r}; known: cpu, cuda.") from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise UsageError("torch finds no CUDA device here; use the device cpu.")
    if kind not in ("cpu", "cuda"):
        raise UsageError(f"the trainer runs on cpu and cuda, not on {name!r}.")
    return name


def cores() -> int:
    """Processes that suit this machine: one a core, at most 8."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(_MOST_JOBS, count))


def duration(seconds: float | None) -> str:
    """Time as people read it."""
    if seconds is None:
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
