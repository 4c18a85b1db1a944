"""What `measure`, `sweep` and `results` share: memory as people write it, and a line that says what is going on."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from rote.cli._output import console
from rote.errors import UsageError

__all__ = ["DeviceOption", "MemoryOption", "check_device", "duration", "memory_bytes", "working"]

MemoryOption = Annotated[
    str | None, typer.Option(help="Memory for a stack of replicas, such as 2GB; larger stacks are split.")
]
DeviceOption = Annotated[str, typer.Option(help="cpu, or cuda where there is one.")]

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def memory_bytes(text: str | None) -> int | None:
    """Bytes from "2GB", "500 MB" or a plain number."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if found is None or found[2].lower() not in _UNITS or float(found[1]) <= 0:
        raise UsageError(f"--max-memory must be a size such as 500MB or 2GB, got {text!r}.")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def check_device(name: str) -> str:
    """A device that torch has here."""
    import torch

    try:
        kind = torch.device(name).type
    except RuntimeError:
        raise UsageError(f"there is no device {name!r}; known: cpu, cuda.") from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise UsageError("torch finds no CUDA device here; leave out --device to use the CPU.")
    if kind not in ("cpu", "cuda"):
        raise UsageError(f"the trainer runs on cpu and cuda, not on {name!r}.")
    return name


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


@contextlib.contextmanager
def working(title: str, *, enabled: bool) -> Iterator[Callable[[str], None]]:
    """Yield a callback that shows one line on stderr, and only on a terminal."""
    out = console(stderr=True)
    if not (enabled and out.is_terminal):
        yield lambda _: None
        return
    with out.status(title) as status:
        yield lambda text: status.update(f"{title}: {text}")
