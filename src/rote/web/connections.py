"""One connection: how long and how much a client may send, and how long it may take to fetch its answer.

uvicorn waits for ever for the rest of a request, and for ever for a client that does not read. Here a request has to
be whole after a few seconds (a body at a pace that any program on this machine keeps), what is no HTTP is refused in
one sentence, and clients that keep the server waiting make room when there are many. Nothing in here waits for
anybody, so pages are answered whatever else is going on.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from rote.web.guard import refusal_headers, refusal_text

__all__ = ["MOST_BYTES", "REQUEST_SECONDS", "Connection"]

REQUEST_SECONDS = 5.0
"""The head of a request has so long to arrive, and so has its body, with a second more for every `PACE` bytes."""
PACE = 500_000
MOST_BYTES = 100_000_000
"""So much of a body is read, and thrown away, until the client listens; then the connection is cut."""
HEAD_BYTES = 32_768
_SLICE = 16_384
"""So much is parsed at once, so that a long head is refused before it is whole."""
ANSWER_SECONDS = 30.0
"""So long an answer may lie without anybody fetching it."""
LINGER_SECONDS = 2.0
"""So long a client that was refused may go on sending before it is cut off, so that it hears why."""
CROWD = 100
"""From so many connections on, one that has kept the server waiting makes room for each new one."""
MOST_CONNECTIONS = 200


class Conversation(h11.Connection):
    """The parser of one connection. It wants to be told the length of a body, and keeps why it refused a request."""

    refusal: h11.RemoteProtocolError | None = None

    def next_event(self) -> Any:
        try:
            event = super().next_event()
            if isinstance(event, h11.Request) and any(name == b"transfer-encoding" for name, _ in event.headers):
                # Chunks of one byte cost a thousand times what they carry, and no browser sends them.
                raise h11.RemoteProtocolError("send the length of the body in Content-Length", error_status_hint=411)
        except h11.RemoteProtocolError as error:
            self.refusal = error
            raise
        return event


class Connection(H11Protocol):
    """uvicorn's protocol with limits of time and size."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.conn: Conversation = Conversation(h11.SERVER, HEAD_BYTES)
        self._since = self._fetched = self.loop.time()
        self._sent = 0
        self._refused = False
        self._watching: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self._fetched = self.loop.time()
        self._watch()
        if len(self.connections) > CROWD:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watching is not None:
            self._watching.cancel()
        super().connection_lost(exc)

    def _make_room(self) -> None:
        """Cut the one that has kept the server waiting longest, for a second at least unless there are far too many."""
        full = len(self.connections) > MOST_CONNECTIONS
        others = [one for one in self.connections if isinstance(one, Connection) and one is not self]
        waiting = [one for one in others if one.kept_waiting(0.0 if full else 1.0)]
        if waiting:
            min(waiting, key=lambda one: one._since).transport.abort()
        elif full:
            self.transport.abort()

    def kept_waiting(self, seconds: float) -> bool:
        """Whether the rest of a request, or somebody to fetch an answer, has been waited for so long."""
        now = self.loop.time()
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and now - self._since > seconds + self._sent / PACE:
            return True
        return self.transport.get_write_buffer_size() > 0 and now - self._fetched > seconds

    def _watch(self) -> None:
        if not self.transport.get_write_buffer_size():
            self._fetched = self.loop.time()
        if self.kept_waiting(REQUEST_SECONDS) and (
            self.conn.their_state is not h11.DONE or self.loop.time() - self._fetched > ANSWER_SECONDS
        ):
            self.transport.abort()
        else:
            self._watching = self.loop.call_later(1.0, self._watch)

    def _begin(self) -> None:
        self._since, self._sent = self.loop.time(), 0

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self.timeout_keep_alive_task is not None:
            self._begin()
        for start in range(0, len(data), _SLICE):
            before = self.cycle
            super().data_received(data[start : start + _SLICE])
            if self._refused or self.transport.is_closing():
                return
            if self.cycle is not before:
                self._begin()
        self._sent += len(data)
        if self._sent > MOST_BYTES:
            self.transport.abort()

    def on_response_complete(self) -> None:
        self._begin()
        super().on_response_complete()

    def resume_writing(self) -> None:
        self._fetched = self.loop.time()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Say why a request is refused, and close; the client may send its rest, so that it hears it."""
        self._refused = True
        refusal = self.conn.refusal
        hint = 400 if refusal is None else refusal.error_status_hint
        status = hint if 400 <= hint < 500 else 400
        body = refusal_text(f"this is no request that the explorer understands ({refusal or msg}).")
        events = (
            h11.Response(status_code=status, headers=[*refusal_headers(body), (b"connection", b"close")]),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        try:
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
            self.transport.write_eof()
        except (h11.LocalProtocolError, OSError):
            # An answer was on its way already.
            self.transport.abort()
            return
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def shutdown(self) -> None:
        if self._refused or self.conn.their_state is h11.SEND_BODY:
            self.transport.abort()
        else:
            super().shutdown()
