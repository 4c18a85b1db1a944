"""Answers and refusals in JSON, and reading what a request carries."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from rote.data.records import json_value
from rote.errors import RoteError, UsageError
from rote.web.desk import Busy, Desk
from rote.web.guard import MAX_JSON_BYTES

__all__ = [
    "Handler",
    "answer",
    "file_answer",
    "flag",
    "guarded",
    "in_thread",
    "number",
    "read_json",
    "text",
    "texts",
    "told",
]

PAGE_HEADER = "x-rote-page"
"""Sent by the pages with every question."""

Handler = Callable[[Request], Awaitable[Response]]


def answer(record: Any, status: int = 200, **headers: str) -> Response:
    """JSON that no browser takes for anything else; results are never cached."""
    body = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    # Half of a pair of surrogates, from the name of a file say, is written as JSON writes it.
    content = body.encode("utf-8", "backslashreplace")
    return Response(content, status, {"cache-control": "no-store", **named}, "application/json")


def file_answer(path: Path, kind: str, **headers: str) -> Response:
    """A file as it is now: it is open before the answer begins, and may be removed while it is sent."""
    try:
        file = path.open("rb")
    except OSError:
        raise UsageError("this file was removed; make it again.") from None
    size = os.fstat(file.fileno()).st_size
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return StreamingResponse(_pieces(file), headers={**named, "content-length": str(size)}, media_type=kind)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(1 << 18):
            yield piece


async def read_json(request: Request) -> dict[str, Any]:
    """The body as a JSON object; anything else, and anything long, is refused."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_JSON_BYTES:
            raise UsageError(f"a request may carry {MAX_JSON_BYTES:,} bytes, this one has more.")
    try:
        found = json_value(body.decode())
    except ValueError:
        raise UsageError("the request holds no JSON.") from None
    if not isinstance(found, dict):
        raise UsageError("the request holds no JSON object.")
    return found


def guarded(work: Handler) -> Handler:
    """The handler, with refusals as answers."""

    async def handle(request: Request) -> Response:
        try:
            return await work(request)
        except ClientDisconnect:
            return Response(status_code=400)
        except Busy as error:
            return answer({"error": str(error)}, 503, retry_after=str(error.seconds))
        except RoteError as error:
            sentence = str(error)
        except OSError as error:
            sentence = f"a file could not be read or written: {error.strerror or error}."
        # The pages show the sentence, and a browser would put any other status on its console as a fault.
        return answer({"error": sentence}, 200 if PAGE_HEADER in request.headers else 400)

    return handle


def told(work: Callable[[Request], Awaitable[Any]]) -> Handler:
    """A handler whose result is JSON."""

    async def tell(request: Request) -> Response:
        return answer(await work(request))

    return guarded(tell)


def in_thread(desk: Desk, ask: Callable[[Request], Any]) -> Handler:
    """A handler whose work may block for a moment, and whose result is JSON."""
    return told(lambda request: desk.do(request, partial(ask, request)))


def text(record: Mapping[str, Any], name: str, most: int = 2000) -> str | None:
    """An optional text of a request."""
    value = record.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > most:
        raise UsageError(f"{name} must be a text of at most {most:,} characters.")
    return value


def texts(record: Mapping[str, Any], name: str, most: int = 10_000) -> list[str] | None:
    """An optional list of texts."""
    value = record.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > most or not all(isinstance(one, str) for one in value):
        raise UsageError(f"{name} must be a list of at most {most:,} texts.")
    return value or None


def number(record: Mapping[str, Any], name: str) -> int | None:
    """An optional whole number."""
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 10**15:
        raise UsageError(f"{name} must be a whole number, got {str(value)[:40]!r}.")
    return value


def flag(record: Mapping[str, Any], name: str) -> bool:
    """A truth value, False if not given."""
    value = record.get(name, False)
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false.")
    return value
