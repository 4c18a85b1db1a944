"""The runs page: results databases, fits, reproduced figures, the report."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import FileResponse, Response
from starlette.routing import Route

from rote.errors import RoteError, UsageError
from rote.web.answers import Handler, guarded, in_thread, texts, told
from rote.web.commands import command
from rote.web.figures import entry_answer, entry_line

if TYPE_CHECKING:
    from starlette.requests import Request

    from rote.web.state import State

__all__ = ["routes"]

RUN_SECONDS = 120.0
_REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
"""A report is a page of its own: it runs in an origin that can ask this server nothing."""


def routes(state: State) -> list[Route]:
    """The questions of this page."""
    return [
        Route("/api/runs", in_thread(lambda request: _list(state))),
        Route("/api/runs/{id}", in_thread(partial(_journal, state))),
        Route("/api/runs/{id}/fit", in_thread(partial(_fit, state))),
        Route("/api/entries/{id}", in_thread(partial(_entry, state))),
        Route("/api/report", told(partial(_report, state)), methods=["POST"]),
        Route("/report/{id}", _page(state)),
    ]


def _list(state: State) -> dict[str, Any]:
    entries = []
    for item in state.folder.look("entry"):
        try:
            entries.append({"id": item.id, "name": item.name, **entry_line(item.path)})
        except RoteError as error:
            entries.append({"id": item.id, "name": item.name, "entry": item.name, "title": str(error), "verdict": ""})
    results = [
        {"id": item.id, "name": item.name, "size": item.path.stat().st_size} for item in state.folder.look("results")
    ]
    return {
        "folder": state.folder.root.resolve().name,
        "results": results,
        "entries": entries,
        "reports": True,
    }


def _journal(state: State, request: Request) -> dict[str, Any]:
    item = state.folder.get("results", request.path_params["id"])
    grids = [str(grid.path) for grid in state.folder.look("grid")]
    journal = state.reader.call(
        "journal", {"path": str(item.path), "scratch": str(state.store.root), "grids": grids}, seconds=RUN_SECONDS
    )
    return {**journal, "name": item.name, "command": command("results", item.name)}


def _fit(state: State, request: Request) -> dict[str, Any]:
    item = state.folder.get("results", request.path_params["id"])
    query = request.query_params
    where = [text[:200] for text in query.getlist("where")][:20]
    x, y, law = (query.get(name, usual)[:40] for name, usual in (("x", ""), ("y", ""), ("law", "auto")))
    if not x or not y:
        raise UsageError("a fit needs x and y.")
    args = {"path": str(item.path), "scratch": str(state.store.root), "x": x, "y": y, "law": law, "where": where}
    said = command("fit", item.name, x=x, y=y, law=None if law == "auto" else law, where=where)
    return {**state.reader.call("fit", args, seconds=RUN_SECONDS), "command": said}


def _entry(state: State, request: Request) -> dict[str, Any]:
    return entry_answer(state.folder.get("entry", request.path_params["id"]).path)


def _report(state: State, request: Request, record: dict[str, Any]) -> dict[str, Any]:
    """Write the report of the chosen results into the working folder."""
    ids = texts(record, "ids") or []
    chosen = [item for item in (*state.folder.look("entry"), *state.folder.look("results")) if item.id in ids]
    if not chosen:
        raise UsageError("choose a results database or a reproduced figure to report on.")
    id_ = state.store.new_id()
    args = {"sources": [str(item.path) for item in chosen], "out": str(state.store.report_file(id_))}
    page = state.reader.call("report", args, seconds=RUN_SECONDS)
    said = command("report", *(item.name for item in chosen), o="report.html")
    return {**page, "address": f"/report/{id_}", "command": said}


def _page(state: State) -> Handler:
    async def work(request: Request) -> Response:
        path: Path | None = state.store.reports.get(request.path_params["id"])
        if path is None or not path.is_file():
            raise UsageError("there is no such report; make it again on the runs page.")
        return FileResponse(path, media_type="text/html", headers={"content-security-policy": _REPORT_POLICY})

    return guarded(work)
