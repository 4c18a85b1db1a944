"""The page of grafts: what each holds, and what it says to a text before and after, while it says it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from rote.errors import DataError, RoteError, UsageError
from rote.web.answers import guarded, in_thread, read_json, text, told
from rote.web.asking import found_model
from rote.web.commands import command
from rote.web.figures import read_object

if TYPE_CHECKING:
    from starlette.requests import Request

    from rote.web.state import State

__all__ = ["routes"]

LOAD_SECONDS = 120.0
"""The first one waits for the library that loads the model, too."""
SPEAK_SECONDS = 120.0
"""Two texts of a few dozen tokens; a model that takes longer is none for this page."""
LONGEST = 2000


def routes(state: State) -> list[Route]:
    """The questions of this page."""
    return [
        Route("/api/grafts", in_thread(state.light, lambda request: {"grafts": _grafts(state)})),
        Route("/api/grafts/{id}", told(partial(_about, state))),
        Route("/api/grafts/{id}/speak", guarded(partial(_speak, state)), methods=["POST"]),
    ]


def _grafts(state: State) -> list[dict[str, Any]]:
    """Directories of the folder whose certificate tells of a graft."""
    rows = []
    for item in state.folder.look("model"):
        try:
            certificate = read_object(item.path / "certificate.json")
        except DataError:
            continue
        if isinstance(certificate.get("graft"), dict):
            rows.append({"id": item.id, "name": item.name, "facts": certificate.get("facts")})
    return rows


async def _about(state: State, request: Request) -> dict[str, Any]:
    args, name = await found_model(state, request)
    about = await state.reader.ask(request, "graft", args, seconds=LOAD_SECONDS)
    return {**about, "name": name}


async def _speak(state: State, request: Request) -> Response:
    """Lines of JSON, one for every token of either text, and a last one with both."""
    question = text(await read_json(request), "text", LONGEST)
    if question is None:
        raise UsageError("type a text for the model to go on from.")
    args, name = await found_model(state, request)
    lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    work = asyncio.create_task(
        state.reader.ask(
            request,
            "speak",
            {**args, "text": question},
            seconds=SPEAK_SECONDS,
            notice=lambda record: _from_thread(loop, lines, record),
        )
    )
    first = asyncio.create_task(lines.get())
    # A refusal that comes before anything was said is an answer like any other.
    await asyncio.wait({work, first}, return_when=asyncio.FIRST_COMPLETED)
    if work.done() and work.exception() is not None:
        first.cancel()
        work.result()
    said = command("ask", name, question)
    headers = {"cache-control": "no-store"}
    return StreamingResponse(_lines(work, first, lines, said), headers=headers, media_type="application/x-ndjson")


def _from_thread(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[dict[str, Any]], record: dict[str, Any]) -> None:
    loop.call_soon_threadsafe(lines.put_nowait, record)


async def _lines(
    work: asyncio.Task[Any], first: asyncio.Task[dict[str, Any]], lines: asyncio.Queue[dict[str, Any]], said: str
) -> AsyncIterator[bytes]:
    following = first
    try:
        while True:
            await asyncio.wait({work, following}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                break
            yield _line(following.result())
            following = asyncio.create_task(lines.get())
        try:
            yield _line({"done": work.result(), "command": said})
        except RoteError as error:
            yield _line({"error": str(error)})
    finally:
        # Work for a client that has gone is ended by the desk, which sees it go.
        following.cancel()
        work.add_done_callback(lambda one: one.cancelled() or one.exception())


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, allow_nan=False).encode() + b"\n"
