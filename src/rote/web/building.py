"""The build page: facts in (shipped, or dropped on the page), checks, builds, downloads."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from rote.config import check_dtype
from rote.data.reading import check_on_conflict, check_on_missing, check_tokens
from rote.errors import UnknownName, UsageError, install_command
from rote.web.answers import file_answer, flag, guarded, in_thread, number, read_json, text, texts, told
from rote.web.asking import answers
from rote.web.commands import command
from rote.web.jobs import Build
from rote.web.options import SHAPE, architectures, constructions_answer, given_options
from rote.web.store import MAX_UPLOAD_BYTES, MAX_UPLOAD_LINES, Upload

if TYPE_CHECKING:
    from starlette.requests import Request

    from rote.web.state import State

__all__ = ["routes"]

CHECK_SECONDS = 60.0
PREVIEW_SECONDS = 20.0


def routes(state: State) -> list[Route]:
    """The questions of this page."""
    quick = partial(in_thread, state.light)
    return [
        Route("/api/shipped", quick(lambda request: _shipped())),
        Route("/api/constructions", quick(lambda request: constructions_answer())),
        Route("/api/warm", told(partial(_warm, state)), methods=["POST"]),
        Route("/api/uploads", told(partial(_upload, state)), methods=["POST"]),
        Route("/api/check", told(partial(_check, state)), methods=["POST"]),
        Route("/api/builds", quick(lambda request: {"builds": state.builds.records()}), methods=["GET"]),
        Route("/api/builds", told(partial(_start, state)), methods=["POST"]),
        Route("/api/builds/{id}", quick(partial(_one, state)), methods=["GET"]),
        Route("/api/builds/{id}", quick(partial(_forget, state)), methods=["DELETE"]),
        Route("/api/builds/{id}/cancel", quick(partial(_cancel, state)), methods=["POST"]),
        Route("/api/builds/{id}/zip", guarded(partial(_zip, state))),
    ]


def _shipped() -> list[dict[str, Any]]:
    from rote.data import available

    return [{**item.to_dict(), "hint": install_command("data")} for item in available()]


async def _warm(state: State, request: Request) -> dict[str, Any]:
    (state.builds if request.query_params.get("builder") == "1" else state.reader).worker.warm()
    return {}


async def _upload(state: State, request: Request) -> dict[str, Any]:
    """The body is the file."""
    id_, path = state.store.begin_upload()
    try:
        with state.incoming.one():
            size, lines = await _received(request, path)
        # Refused only now, so that a browser has sent all and hears the sentence.
        name = request.query_params.get("name", "")
        upload = await state.light.do(request, partial(state.store.named_upload, id_, name, size, lines))
        wanted = {"source": _of_upload(upload)}
        content = await state.reader.ask(request, "columns", wanted, seconds=PREVIEW_SECONDS)
    except BaseException:
        state.store.drop_upload(id_)
        raise
    state.store.keep_upload(upload, state.builds.sources_in_use())
    return {"id": id_, "label": upload.label, "size": size, **content}


async def _received(request: Request, path: Path) -> tuple[int, int]:
    """Bytes and lines of a body. They are counted while it comes in, and what is too much is never kept."""
    size = lines = 0
    with path.open("wb") as file:
        async for piece in request.stream():
            size += len(piece)
            lines += piece.count(b"\n") + piece.count(b"\r") - piece.count(b"\r\n")
            if size <= MAX_UPLOAD_BYTES and lines <= MAX_UPLOAD_LINES:
                file.write(piece)
    return size, lines


def _of_upload(upload: Upload) -> dict[str, str]:
    return {"upload": upload.id, "path": str(upload.path), "label": upload.label}


def _source(state: State, record: dict[str, Any]) -> dict[str, str]:
    """Shipped facts by name, or an upload by id; never a path."""
    shipped, upload = text(record, "shipped", 100), text(record, "upload", 100)
    if (shipped is None) == (upload is None):
        raise UsageError("name shipped facts, or drop a file.")
    if upload is not None:
        return _of_upload(state.store.upload(upload))
    assert shipped is not None
    from rote.data import available

    names = [item.name for item in available()]
    if shipped not in names:
        raise UnknownName("data set named", shipped, names)
    return {"shipped": shipped}


def _reading(state: State, record: dict[str, Any]) -> dict[str, Any]:
    """How the facts are read, and what decides of which kind they are."""
    cut, conflict, missing = (text(record, name, 20) for name in ("tokens", "on_conflict", "on_missing"))
    return {
        "source": _source(state, record),
        "target": texts(record, "target", 1000),
        "columns": texts(record, "columns", 1000),
        "tokens": None if cut is None else check_tokens(cut),
        "on_conflict": "error" if conflict is None else check_on_conflict(conflict),
        "on_missing": "error" if missing is None else check_on_missing(missing),
        "weight": text(record, "weight"),
        "with_": text(record, "with", 100) or "auto",
        "options": given_options(record),
    }


def _read_options(reading: dict[str, Any]) -> dict[str, Any]:
    names = {key: None if reading[key] is None else ",".join(reading[key]) for key in ("target", "columns")}
    settled = {key: None if reading[key] == "error" else reading[key] for key in ("on_conflict", "on_missing")}
    return {"tokens": reading["tokens"], **names, "weight": reading["weight"], **settled}


def _named(reading: dict[str, Any]) -> str | None:
    return None if reading["with_"] == "auto" else str(reading["with_"])


async def _check(state: State, request: Request) -> dict[str, Any]:
    record = await read_json(request)
    reading = await state.light.do(request, partial(_reading, state, record))
    source = reading["source"]
    name = source.get("shipped") or source["label"]
    checked = await state.reader.ask(request, "check", reading, seconds=CHECK_SECONDS)
    # Where there is nothing to check, the plans are the answer.
    verb, more = ("plan", {"with_": _named(reading)}) if checked["findings"] is None else ("check", {})
    return {**checked, "command": command(verb, name, **more, **_read_options(reading))}


async def _start(state: State, request: Request) -> dict[str, Any]:
    record = await read_json(request)
    build = await state.light.do(request, partial(_build, state, record))
    state.builds.add(build)
    return {"id": build.id}


def _build(state: State, record: dict[str, Any]) -> Build:
    reading = _reading(state, record)
    dtype, arch = text(record, "dtype", 20), text(record, "arch", 20)
    if dtype is not None:
        check_dtype(dtype)
    if arch is not None and arch not in architectures():
        raise UnknownName("architecture", arch, architectures())
    seed = number(record, "seed") or 0
    if seed < 0:
        raise UsageError(f"a seed is a whole number from 0, got {seed}.")
    shape = {name: number(record, said) for name, said in SHAPE.items()}
    partial, drop_unfit = flag(record, "partial"), flag(record, "drop_unfit")
    with_, source = reading["with_"], reading["source"]
    name = source.get("shipped") or source["label"]
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(name).stem).strip("-")[:40] or "facts"
    id_ = state.store.new_id()
    said = command(
        "build",
        name,
        o=f"{stem}-model",
        with_=_named(reading),
        **{SHAPE[part]: value for part, value in shape.items()},
        dtype=dtype,
        **reading["options"],
        partial=partial,
        drop_unfit=drop_unfit,
        arch=arch,
        seed=seed or None,
        **_read_options(reading),
    )
    args = {**reading, "shape": shape, "partial": partial, "dtype": dtype, "arch": arch, "seed": seed}
    args |= {"drop_unfit": drop_unfit, "zip_name": f"{stem}-model"}
    title = f"{name}, {with_}" if with_ != "auto" else name
    return Build(id_, title, args, said, state.store.build_home(id_), source)


def _one(state: State, request: Request) -> dict[str, Any]:
    build, record = state.builds.record(request.path_params["id"])
    return {**record, "certificate": build.certificate, "sheet": build.sheet, "speaks": answers(build)}


def _cancel(state: State, request: Request) -> dict[str, Any]:
    state.builds.cancel(request.path_params["id"])
    return {}


def _forget(state: State, request: Request) -> dict[str, Any]:
    state.builds.forget(request.path_params["id"])
    return {}


async def _zip(state: State, request: Request) -> Response:
    build = state.builds.get(request.path_params["id"])
    if build.state != "done":
        raise UsageError("this build is not finished, so there is nothing to download.")
    named = f'attachment; filename="{build.args["zip_name"]}.zip"'
    return file_answer(build.zip, "application/zip", content_disposition=named, cache_control="no-store")
