"""The ask page: models that were built here or lie in the folder, completion, and questions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from rote.data.records import read_json as read_record
from rote.errors import RoteError, UsageError
from rote.web.answers import in_thread, number, texts, told
from rote.web.commands import command
from rote.web.store import has_words

if TYPE_CHECKING:
    from starlette.requests import Request

    from rote.web.state import State

__all__ = ["routes"]

ASK_SECONDS = 120.0


def routes(state: State) -> list[Route]:
    """The questions of this page."""
    return [
        Route("/api/models", in_thread(lambda request: {"models": models(state)})),
        Route("/api/models/{id}", in_thread(partial(_about, state))),
        Route("/api/models/{id}/complete", in_thread(partial(_complete, state))),
        Route("/api/models/{id}/ask", told(partial(_ask, state)), methods=["POST"]),
    ]


def models(state: State) -> list[dict[str, Any]]:
    """Builds of this explorer, newest first, then model directories of the folder: all that can be asked in words."""
    built = [
        {"id": build.id, "name": build.title, "from": "built here", **_summary(build.certificate or {})}
        for build in reversed(state.builds.finished())
        if has_words(build.folder)
    ]
    lying = []
    for item in state.folder.look("model"):
        try:
            certificate = read_record(item.path / "certificate.json")
        except RoteError:
            continue
        if has_words(item.path):
            lying.append({"id": item.id, "name": item.name, "from": "folder", **_summary(certificate)})
    return built + lying


def _summary(certificate: dict[str, Any]) -> dict[str, Any]:
    return {name: certificate.get(name) for name in ("facts", "construction", "params", "dtype")}


def _model(state: State, id_: str) -> tuple[dict[str, Any], str]:
    """What the worker needs to load a model, and the name that a command would use."""
    for build in state.builds.finished():
        if build.id == id_:
            return {"folder": str(build.folder), "source": build.source}, str(build.args["zip_name"])
    item = state.folder.get("model", id_)
    return {"folder": str(item.path)}, item.name


def _about(state: State, request: Request) -> dict[str, Any]:
    args, name = _model(state, request.path_params["id"])
    return {**state.reader.call("about", args, seconds=ASK_SECONDS), "name": name}


def _complete(state: State, request: Request) -> dict[str, Any]:
    args, _ = _model(state, request.path_params["id"])
    query = request.query_params
    prefix, position = query.get("prefix", "")[:200], query.get("position", "0")
    if not position.isdecimal() or len(position) > 6:
        raise UsageError("position must be a whole number.")
    wanted = {**args, "prefix": prefix, "position": int(position)}
    return {"tokens": state.reader.call("complete", wanted, seconds=ASK_SECONDS)}


def _ask(state: State, request: Request, record: dict[str, Any]) -> dict[str, Any]:
    words = texts(record, "words")
    if words is None:
        raise UsageError("type a context to ask about.")
    top = number(record, "top") or 5
    if not 1 <= top <= 50:
        raise UsageError(f"top must be from 1 to 50, got {top}.")
    args, name = _model(state, request.path_params["id"])
    said = state.reader.call("ask", {**args, "words": words, "top": top}, seconds=ASK_SECONDS)
    return {**said, "command": command("ask", name, *words, top=None if top == 5 else top)}
