"""What `measure`, `sweep` and `reproduce` share: options, and a line that says what is going on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli._output import console
from rote.cli._progress import shown, ticking

if TYPE_CHECKING:
    from rote.measurement.sweeps import Progress

__all__ = ["AddressOption", "DeviceOption", "MemoryOption", "OnOption", "RetryOption", "following", "working"]

MemoryOption = Annotated[
    str | None, typer.Option(help="Memory for a stack of replicas, such as 2GB; larger stacks are split.")
]
DeviceOption = Annotated[str, typer.Option(help="cpu, or cuda where there is one.")]
OnOption = Annotated[str, typer.Option(help="Where to run: local or ray.")]
AddressOption = Annotated[str | None, typer.Option(help="Ray cluster; one is started here if not given.")]
RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Run failed and diverged cells again.")]

_LINE_EVERY = 15.0
"""Seconds between lines where there is no terminal to draw on."""


@contextlib.contextmanager
def working(title: str, *, enabled: bool) -> Iterator[Callable[[str], None]]:
    """Yield a callback that shows one line on stderr: a live one on a terminal, one now and then in a log. What was
    told last is told again when the work is interrupted."""
    out, told = console(stderr=True), "start"
    status = out.status(title) if enabled and shown() and out.is_terminal else None

    def tell(text: str) -> None:
        nonlocal told
        told = text
        if status is not None:
            status.update(f"{title}: {text}")

    logged = enabled and shown() and status is None
    with status or (ticking(out, lambda: f"{title}: {told}") if logged else contextlib.nullcontext()):
        try:
            yield tell
        except KeyboardInterrupt:
            out.print(f"{title} so far: {told}", markup=False, soft_wrap=True)
            raise


@contextlib.contextmanager
def following(*, enabled: bool) -> Iterator[Progress]:
    """How a sweep stands: a live line on a terminal; a plain line now and then in a log; nothing for --json."""
    from rote.measurement.sweeps import Progress

    out = console(stderr=True)
    if not enabled:
        yield Progress()
    elif out.is_terminal:
        from rich.live import Live
        from rich.text import Text

        with Live(Text(""), console=out, refresh_per_second=4, transient=True) as live:
            yield Progress(draw=lambda progress: live.update(Text(progress.line())))
    else:
        last = time.monotonic()

        def plain(progress: Progress) -> None:
            nonlocal last
            if time.monotonic() - last >= _LINE_EVERY:
                last = time.monotonic()
                out.print(progress.line(), markup=False)

        yield Progress(draw=plain)
