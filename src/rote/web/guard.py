"""What stands in front of every request: who may ask, how much may be sent, and the headers of every answer.

A page on the web can make a browser talk to this machine. So the name in Host must be a loopback name (a foreign
name that was pointed here is refused), and Origin, where a browser sends it, must be this server's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["CONTENT_POLICY", "MAX_JSON_BYTES", "Guard", "own_hosts", "refusal_headers", "refusal_text"]

MAX_JSON_BYTES = 256 * 1024
"""The most that a request may carry, uploads aside."""

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Only what this server sends is run. Inline styles are allowed because plotly sets them; inline scripts are not."""

_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def own_hosts(port: int) -> frozenset[str]:
    """The names by which a browser on this machine may call the server."""
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))


class Guard:
    """Refuses foreign Host and Origin headers and long bodies; adds the headers of safety to every answer."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self.app = app
        self.hosts = frozenset(hosts)
        self.origins = frozenset(f"http://{host}" for host in self.hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self.refusal(scope["method"], headers)
        if refusal is not None:
            await _refuse(send, *refusal)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(item for item in _HEADERS if item[0] not in given)]
            await send(message)

        await self.app(scope, receive, sealed)

    def refusal(self, method: str, headers: dict[bytes, str]) -> tuple[int, str] | None:
        """Status and sentence, where a request is refused."""
        if headers.get(b"host", "").lower() not in self.hosts:
            return 421, "this explorer answers only to its own address on this machine."
        origin = headers.get(b"origin")
        if origin is not None and origin.lower() not in self.origins:
            return 403, "this request came from a page of another site."
        if headers.get(b"sec-fetch-site", "none") == "cross-site" and headers.get(b"sec-fetch-mode") != "navigate":
            return 403, "this request came from a page of another site."
        if method not in ("GET", "HEAD", "POST", "DELETE"):
            return 405, "this explorer knows GET, POST and DELETE."
        return None


def refusal_text(sentence: str) -> bytes:
    """A refusal as a line of text."""
    return f"rote: {sentence}\n".encode()


def refusal_headers(body: bytes) -> list[tuple[bytes, bytes]]:
    """The headers of such a line."""
    start = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    return [*start, *_HEADERS]


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = refusal_text(sentence)
    await send({"type": "http.response.start", "status": status, "headers": refusal_headers(body)})
    await send({"type": "http.response.body", "body": body})
