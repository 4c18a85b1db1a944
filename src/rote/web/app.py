"""The application: one route a question. Handlers read the request, call the library, and answer in JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from rote.web import asking, building, capacity, grafts, runs, theorems
from rote.web.answers import Handler, in_thread, told
from rote.web.assets import PAGES, Assets
from rote.web.guard import Guard, own_hosts, refusal_text

if TYPE_CHECKING:
    from rote.web.state import State

__all__ = ["create_app"]

_FOR_EVER = "public, max-age=31536000, immutable"
Ask = Callable[[Mapping[str, str]], dict[str, Any]]


def create_app(state: State, port: int, assets: Assets | None = None) -> Guard:
    """The application behind its guard."""
    shown = assets if assets is not None else Assets()
    shown.warm()
    routes = [
        Route("/", lambda request: RedirectResponse("/capacity")),
        *(Route(f"/{name}", _page(shown, name)) for name in PAGES),
        Route("/static/{mark}/{name}", _part(shown)),
        Route("/favicon.ico", lambda request: Response(status_code=204)),
        Route("/api/bounds", _quick(state, partial(capacity.bounds_answer, slow=False))),
        Route("/api/bounds/all", _all_bounds(state)),
        Route("/api/plan", _quick(state, capacity.plan_answer)),
        Route("/api/theorems", _quick(state, lambda query: theorems.theorems_answer())),
        *building.routes(state),
        *asking.routes(state),
        *grafts.routes(state),
        *runs.routes(state),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _no_such, Exception: _fault})
    app.router.redirect_slashes = False
    return Guard(app, own_hosts(port))


async def _no_such(request: Request, error: Exception) -> Response:
    """What Starlette refuses: an address or a method that is not there."""
    assert isinstance(error, HTTPException)
    sentence = "there is no such page." if error.status_code == 404 else "this address does not take this method."
    return Response(refusal_text(sentence), error.status_code, error.headers, "text/plain")


async def _fault(request: Request, error: Exception) -> Response:
    return Response(refusal_text("a fault in rote itself; its log says more."), 500, media_type="text/plain")


def _all_bounds(state: State) -> Handler:
    """The same with the theorems that search, in a process of its own, so that sliders go on moving."""
    return told(lambda request: state.reader.ask(request, "bounds", dict(request.query_params), seconds=30))


def _quick(state: State, ask: Ask) -> Handler:
    """A question that is answered from its address alone."""
    return in_thread(state.light, lambda request: ask(dict(request.query_params)))


def _page(assets: Assets, name: str) -> Handler:
    async def work(request: Request) -> Response:
        return Response(assets.pages[name], headers={"cache-control": "no-cache"}, media_type="text/html")

    return work


def _part(assets: Assets) -> Handler:
    async def work(request: Request) -> Response:
        part = assets.parts.get(request.path_params["name"])
        if part is None:
            return Response("rote: there is no such part.\n", 404, media_type="text/plain")
        headers = {"cache-control": _FOR_EVER, "vary": "accept-encoding", "content-type": part.kind}
        if part.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(part.packed, headers={**headers, "content-encoding": "gzip"})
        return Response(part.content, headers=headers)

    return work
