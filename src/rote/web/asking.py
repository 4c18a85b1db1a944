"""The ask page: models that were built here or lie in the folder, completion, and questions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from rote.errors import DataError, UsageError
from rote.web.answers import in_thread, number, read_json, texts, told
from rote.web.capacity import whole
from rote.web.commands import command
from rote.web.figures import read_object
from rote.web.store import has_words

if TYPE_CHECKING:
    from starlette.requests import Request

    from rote.web.jobs import Build
    from rote.web.state import State

__all__ = ["answers", "found_model", "routes"]

ASK_SECONDS = 30.0
MOST_NUMBERS, MOST_SIZE = 10_000, 1e30


def routes(state: State) -> list[Route]:
    """The questions of this page."""
    return [
        Route("/api/models", in_thread(state.light, lambda request: {"models": models(state)})),
        Route("/api/models/{id}", told(partial(_about, state))),
        Route("/api/models/{id}/complete", told(partial(_complete, state))),
        Route("/api/models/{id}/ask", told(partial(_ask, state)), methods=["POST"]),
        Route("/api/models/{id}/example", told(partial(_example, state)), methods=["POST"]),
    ]


def models(state: State) -> list[dict[str, Any]]:
    """Builds of this explorer, newest first, then model directories of the folder: all that can be asked."""
    built = [
        {"id": build.id, "name": build.title, "from": "built here", **_summary(build.certificate or {})}
        for build in reversed(state.builds.finished())
        if answers(build)
    ]
    lying = []
    for item in state.folder.look("model"):
        try:
            certificate = read_object(item.path / "certificate.json")
        except DataError:
            continue
        if has_words(item.path):
            lying.append({"id": item.id, "name": item.name, "from": "folder", **_summary(certificate)})
    return built + lying


def answers(build: Build) -> bool:
    """Whether a build can be asked: in words, or about the vectors that were dropped on the page."""
    return has_words(build.folder) or (build.certificate or {}).get("data") == "vectors"


def _summary(certificate: dict[str, Any]) -> dict[str, Any]:
    return {name: certificate.get(name) for name in ("facts", "construction", "params", "dtype")}


def _found(state: State, id_: str) -> tuple[dict[str, Any], str]:
    """What the worker needs to load a model, and the name that a command would use."""
    for build in state.builds.finished():
        if build.id == id_:
            return {"folder": str(build.folder), "source": build.source}, str(build.args["zip_name"])
    item = state.folder.get("model", id_)
    return {"folder": str(item.path), "source": {"within": str(state.folder.root)}}, item.name


async def found_model(state: State, request: Request) -> tuple[dict[str, Any], str]:
    """What the worker needs to load the model that an address names, and the name that a command would use."""
    return await state.light.do(request, partial(_found, state, request.path_params["id"]))


async def _about(state: State, request: Request) -> dict[str, Any]:
    args, name = await found_model(state, request)
    return {**await state.reader.ask(request, "about", args, seconds=ASK_SECONDS), "name": name}


async def _complete(state: State, request: Request) -> dict[str, Any]:
    position = whole(request.query_params, "position", 0)
    wanted = {"prefix": request.query_params.get("prefix", "")[:200], "position": position}
    args, _ = await found_model(state, request)
    return {"tokens": await state.reader.ask(request, "complete", {**args, **wanted}, seconds=ASK_SECONDS)}


async def _ask(state: State, request: Request) -> dict[str, Any]:
    record = await read_json(request)
    words = texts(record, "words")
    if words is None:
        raise UsageError("type a context to ask about.")
    top = number(record, "top") or 5
    if not 1 <= top <= 50:
        raise UsageError(f"top must be from 1 to 50, got {top}.")
    args, name = await found_model(state, request)
    said = await state.reader.ask(request, "ask", {**args, "words": words, "top": top}, seconds=ASK_SECONDS)
    return {**said, "command": command("ask", name, *words, top=None if top == 5 else top)}


async def _example(state: State, request: Request) -> dict[str, Any]:
    record = await read_json(request)
    query = record.get("query")
    if query is not None and not (isinstance(query, list) and len(query) <= MOST_NUMBERS and all(map(_finite, query))):
        raise UsageError(f"a query is a list of at most {MOST_NUMBERS:,} numbers.")
    wanted = {"number": number(record, "number") or 1, "query": query}
    args, name = await found_model(state, request)
    said = await state.reader.ask(request, "example", {**args, **wanted}, seconds=ASK_SECONDS)
    return {**said, "command": command("verify", name)}


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MOST_SIZE
