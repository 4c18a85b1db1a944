"""Where questions wait. A desk has few hands and few places; whoever finds no place is told so at once.

Handlers stay on the server's own thread and wait there without holding anything, so that pages and their parts never
wait behind them. A question whose client has gone is taken off the desk.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import ClientDisconnect

from rote.errors import RoteError

if TYPE_CHECKING:
    from starlette.requests import Request

    from rote.web.pool import Worker

__all__ = ["Busy", "Desk", "Places", "Reader"]

T = TypeVar("T")

PATIENCE = 10.0
"""So many seconds a question waits for its turn."""
GRACE = 2.0
"""So many seconds work goes on for a client that has gone: ending a process costs more than most answers."""


class Busy(RoteError):
    """There is no place; it is worth trying again after `seconds`."""

    seconds = 5

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; try again in a few seconds.")


class Places:
    """So many at a time; for use on the server's own thread."""

    def __init__(self, most: int, what: str) -> None:
        self.most = most
        self.what = what
        self._held = 0

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        if self._held >= self.most:
            raise Busy(f"the explorer has {self._held} {self.what} already")
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1


class Desk:
    """Threads that do short work, `hands` at a time, for at most `places` questions."""

    def __init__(self, name: str, hands: int, places: int) -> None:
        self.places = places
        self._pool = ThreadPoolExecutor(hands, thread_name_prefix=f"rote-ui-{name}")
        self._inside = 0
        self._lock = threading.Lock()

    async def do(self, request: Request, work: Callable[[], T], stop: Callable[[], None] = lambda: None) -> T:
        """The result of the work. `stop` must end it early: it is called when the client has gone while it runs."""
        job = self._enter(work)
        result = asyncio.wrap_future(job)
        result.add_done_callback(lambda one: one.cancelled() or one.exception())
        gone = asyncio.create_task(_gone(request))
        either: set[asyncio.Future[Any]] = {result, gone}
        first = partial(asyncio.wait, either, return_when=asyncio.FIRST_COMPLETED)
        try:
            over, _ = await first(timeout=PATIENCE)
            if not over and job.cancel():
                raise Busy(f"the explorer has worked on other questions for {PATIENCE:.0f} seconds")
            if not over:
                await first()
            if result.done():
                return result.result()
            if not job.cancel():
                await asyncio.wait({result}, timeout=GRACE)
                stop()
            raise ClientDisconnect
        finally:
            job.cancel()
            gone.cancel()

    def _enter(self, work: Callable[[], T]) -> Future[T]:
        with self._lock:
            if self._inside >= self.places:
                raise Busy(f"{self._inside} questions are waiting already")
            try:
                job = self._pool.submit(work)
            except RuntimeError:
                raise Busy("the explorer is closing") from None
            self._inside += 1
        job.add_done_callback(self._leave)
        return job

    def _leave(self, _: object) -> None:
        with self._lock:
            self._inside -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class Reader(Desk):
    """The desk in front of a worker process: one question at a time, each with a limit of time."""

    def __init__(self, worker: Worker, places: int = 16) -> None:
        super().__init__("reader", 1, places)
        self.worker = worker

    async def ask(
        self,
        request: Request,
        task: str,
        args: Mapping[str, Any],
        *,
        seconds: float,
        notice: Callable[[dict[str, Any]], None] | None = None,
    ) -> Any:
        """What the worker answers; if the client goes, what runs for it is ended. `notice` is told what the worker says
        on the way, in another thread."""
        ticket = object()
        work = partial(self.worker.call, task, args, notice=notice, seconds=seconds, ticket=ticket)
        return await self.do(request, work, partial(self.worker.stop, ticket))

    def close(self) -> None:
        super().close()
        self.worker.close()


async def _gone(request: Request) -> None:
    """Ends when the client has."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
