"""Serving: a socket on the loopback interface, the browser, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

from rote.errors import MissingExtra, OutputError, UsageError

__all__ = ["LOOPBACK", "PORT", "bind", "serve"]

LOOPBACK = "127.0.0.1"
PORT = 7683
"""ROTE on the keys of a telephone."""


def bind(port: int) -> socket.socket:
    """A listening socket that only this machine can reach; 0 takes any free port."""
    # Named as TCP, so that asyncio turns off Nagle's algorithm: it would keep every answer back for 40 ms.
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((LOOPBACK, port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise OutputError(
            f"port {port} of {LOOPBACK} cannot be used ({error.strerror or error}); "
            "is an explorer open already? Give another with --port, or --port 0 for any free one."
        ) from None
    return made


def serve(port: int, folder: Path, *, browser: bool, say: Callable[[str], None]) -> None:
    """Run the explorer until it is interrupted; nothing that it wrote is left behind."""
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise MissingExtra("starlette", "ui", "the explorer") from None
    from rote.web.app import create_app
    from rote.web.assets import Assets
    from rote.web.connections import Connection
    from rote.web.state import State

    class Server(uvicorn.Server):
        """Ends what is being worked on before it waits for those who ask."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await asyncio.to_thread(state.hush)
            await super().shutdown(sockets)

    if not folder.is_dir():
        raise UsageError(f"--dir must name a folder, and {folder} is none.")
    assets = Assets()
    listening = bind(port)
    number = int(listening.getsockname()[1])
    state = State.for_folder(folder)
    try:
        app = create_app(state, number, assets)
        config = uvicorn.Config(
            app,
            http=Connection,
            loop="asyncio",
            log_level="error",
            access_log=False,
            ws="none",
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        address = f"http://{LOOPBACK}:{number}/"
        say(address)
        if browser:
            opener = threading.Timer(0.3, webbrowser.open, (address,))
            opener.daemon = True
            opener.start()
        with contextlib.suppress(KeyboardInterrupt):
            # Pages share the interpreter with short questions; let them have it back soon.
            sys.setswitchinterval(0.001)
            Server(config).run(sockets=[listening])
    finally:
        listening.close()
        state.close()
