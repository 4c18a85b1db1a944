"""The runs page: results databases, fits, reproduced figures, the report."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from rote.errors import RoteError, UsageError
from rote.web.answers import file_answer, guarded, in_thread, read_json, texts, told
from rote.web.commands import command
from rote.web.figures import entry_answer, entry_line

if TYPE_CHECKING:
    from starlette.requests import Request

    from rote.web.scan import Item
    from rote.web.state import State

__all__ = ["routes"]

RUN_SECONDS = 60.0
_REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
"""A report is a page of its own: it runs in an origin that can ask this server nothing."""


def routes(state: State) -> list[Route]:
    """The questions of this page."""
    return [
        Route("/api/runs", in_thread(state.light, lambda request: _list(state))),
        Route("/api/runs/{id}", told(partial(_journal, state))),
        Route("/api/runs/{id}/fit", told(partial(_fit, state))),
        Route("/api/entries/{id}", in_thread(state.light, partial(_entry, state))),
        Route("/api/report", told(partial(_report, state)), methods=["POST"]),
        Route("/report/{id}", guarded(partial(_page, state))),
    ]


def _list(state: State) -> dict[str, Any]:
    entries = []
    for item in state.folder.look("entry"):
        try:
            entries.append({"id": item.id, "name": item.name, **entry_line(item.path)})
        except RoteError as error:
            entries.append({"id": item.id, "name": item.name, "entry": item.name, "title": str(error), "verdict": ""})
    results = []
    for item in state.folder.look("results"):
        with contextlib.suppress(OSError):  # removed a moment ago
            results.append({"id": item.id, "name": item.name, "size": item.path.stat().st_size})
    return {
        "folder": state.folder.root.resolve().name,
        "results": results,
        "entries": entries,
        "reports": True,
    }


async def _journal(state: State, request: Request) -> dict[str, Any]:
    def lying() -> tuple[Item, list[str]]:
        item = state.folder.get("results", request.path_params["id"])
        return item, [str(grid.path) for grid in state.folder.look("grid")]

    item, grids = await state.light.do(request, lying)
    args = {"path": str(item.path), "grids": grids}
    journal = await state.reader.ask(request, "journal", args, seconds=RUN_SECONDS)
    return {**journal, "name": item.name, "command": command("results", item.name)}


async def _fit(state: State, request: Request) -> dict[str, Any]:
    query = request.query_params
    where = [text[:200] for text in query.getlist("where")][:20]
    x, y, law = (query.get(name, usual)[:40] for name, usual in (("x", ""), ("y", ""), ("law", "auto")))
    item = await state.light.do(request, partial(state.folder.get, "results", request.path_params["id"]))
    if not x or not y:
        raise UsageError("a fit needs x and y.")
    args = {"path": str(item.path), "x": x, "y": y, "law": law, "where": where}
    said = command("fit", item.name, x=x, y=y, law=None if law == "auto" else law, where=where)
    return {**await state.reader.ask(request, "fit", args, seconds=RUN_SECONDS), "command": said}


def _entry(state: State, request: Request) -> dict[str, Any]:
    return entry_answer(state.folder.get("entry", request.path_params["id"]).path)


async def _report(state: State, request: Request) -> dict[str, Any]:
    """Write the report of the chosen results into the working folder."""
    ids = texts(await read_json(request), "ids") or []

    def lying() -> list[Item]:
        return [item for item in (*state.folder.look("entry"), *state.folder.look("results")) if item.id in ids]

    chosen = await state.light.do(request, lying)
    if not chosen:
        raise UsageError("choose a results database or a reproduced figure to report on.")
    report = state.store.begin_report([str(item.path) for item in chosen])
    args = {"sources": list(report.sources), "out": str(report.page)}
    try:
        page = await state.reader.ask(request, "report", args, seconds=RUN_SECONDS)
    except BaseException:
        report.clear()
        raise
    state.store.keep_report(report)
    said = command("report", *(item.name for item in chosen), o="report.html")
    return {**page, "address": f"/report/{report.id}", "command": said}


async def _page(state: State, request: Request) -> Response:
    page = state.store.report(request.path_params["id"]).page
    return file_answer(page, "text/html", content_security_policy=_REPORT_POLICY)
