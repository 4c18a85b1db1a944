"""`rote.export` and the check of GGUF files: a model for other programs, judged by the program that will run it.

An ONNX file is run by onnxruntime, a GGUF file by llama.cpp, fact by fact, before it is put in place. A GGUF file
carries the certificate of its model, so that it can be verified by itself; the model's certificate gets a row for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rote.card import write_card
from rote.certificate import Certificate
from rote.constructions import Progress, quiet
from rote.data._atomic import write_atomically
from rote.data.arguments import checked
from rote.data.contents import regular
from rote.data.records import parse_json
from rote.data.table import Table
from rote.data.verification import Verification
from rote.errors import CheckpointError, OutputError, UnknownName, UsageError
from rote.memory import Memory
from rote.models import folders
from rote.models._gguf import TYPES, gguf_tools
from rote.pipeline import load

__all__ = ["EXPORTS", "GgufFile", "export", "open_gguf", "refuse_gguf", "verify_gguf", "with_export"]

EXPORTS = "exports"
"""The claim of a certificate that lists what was exported."""
_CERTIFICATE, _MARKS = "rote.certificate", "rote.marks"
_MODELFILE = ".Modelfile"
_ROW = ("recall", "min_margin", "judged_by", "tensors", "sha256")
_EXACT = {"float64": "F32", "float32": "F32", "bfloat16": "BF16", "float16": "F16"}


@checked
def export(
    model: Memory | str | Path,
    output: str | Path,
    table: Table | None = None,
    *,
    form: str | None = None,
    partial: bool = False,
    force: bool = False,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Write a model as ONNX or GGUF, by the ending of `output`, if the program that runs it recalls every fact.

    The table is the one of the certificate unless given. `form` is the type of a GGUF file's matrices, such as F16 or
    Q8_0; the format that the model is stored in, if not given. With `partial` a GGUF file that loses facts is written
    too. What was found is returned, ready for JSON; nothing is written if `n_failed` is not 0.
    """
    memory, path = model if isinstance(model, Memory) else load(model), Path(output)
    _refuse_existing(path, force)
    known = memory.table() if table is None else memory.prepared(table)
    if not memory.certificate.refers_to(known):
        raise CheckpointError("these are not the facts that the model was built from; give the original ones.")
    ending = path.suffix.lower()
    if ending == ".onnx":
        if form is not None or partial:
            raise UsageError(
                "an ONNX file has the number format of the model and all of its facts; leave out the type."
            )
        return memory.model.export(path, known)
    if ending != ".gguf":
        raise UsageError(f"{path} ends in neither .onnx nor .gguf, so it is not clear what to write; name it so.")
    return _gguf(memory, path, known, form, partial, progress)


def refuse_gguf(path: Path, form: str | None, force: bool) -> None:
    """Refuse what cannot be written as GGUF whatever the model is, before one is made."""
    gguf_tools()
    _kind(form, "float32")
    _refuse_existing(path, force)


def _refuse_existing(path: Path, force: bool) -> None:
    if path.is_dir():
        raise OutputError(f"{path} is a directory, and a file of that name is to be written; name another one.")
    taken = [path] if path.exists() else []
    if path.suffix.lower() == ".gguf":
        beside = path.with_suffix(_MODELFILE)
        taken += [beside] if beside.exists() and not _is_modelfile(beside, path) else []
    if taken and not force:
        raise OutputError(f"{taken[0]} exists already; name another file, or use force to replace it.")


def _is_modelfile(beside: Path, path: Path) -> bool:
    """Whether a file speaks of a GGUF file, as what is written beside it does."""
    return beside.is_file() and beside.read_text(encoding="utf-8", errors="replace").startswith(f"FROM ./{path.name}\n")


def _kind(form: str | None, dtype: str) -> str:
    kind = _EXACT.get(dtype, "F32") if form is None else form.upper()
    if kind not in TYPES:
        raise UnknownName("type of GGUF matrices", str(form), TYPES)
    return kind


def _gguf(
    memory: Memory, path: Path, table: Table, form: str | None, partial: bool, progress: Progress
) -> dict[str, Any]:
    kind = _kind(form, memory.certificate.dtype)
    notes = {_CERTIFICATE: json.dumps(memory.seen_from(path.parent).to_dict(), ensure_ascii=False)}
    found: dict[str, Any] = {}

    class Lost(Exception):
        """Facts are lost, so the file is not put in place."""

    def write(part: Path) -> None:
        found["tensors"] = memory.model.export_gguf(part, table, kind, notes)
        verdict = _judged(part, table, kind, _notes(part), progress)
        found.update(bytes=part.stat().st_size, verdict=verdict)
        if verdict.n_failed and not partial:
            raise Lost

    try:
        write_atomically(path, write)
        written = True
    except Lost:
        written = False
    verdict: Verification = found["verdict"]
    row = {
        "recall": verdict.recall,
        "min_margin": verdict.to_dict()["min_margin"],
        "judged_by": verdict.judged_by,
        "tensors": dict(sorted(found["tensors"].items())),
    }
    if written:
        _write_modelfile(path, memory, table)
        row["sha256"] = folders.file_sha256(path)
        record_export(memory, kind, row)
    return {"file": path.name, "bytes": found["bytes"], "dtype": kind, **verdict.to_dict(), **row, "written": written}


def with_export(certificate: Certificate, found: Mapping[str, Any]) -> Certificate:
    """A certificate with a row about a file, of all that `export` returned."""
    return _with_row(certificate, str(found["dtype"]), {key: found[key] for key in _ROW if key in found})


def _with_row(certificate: Certificate, kind: str, row: Mapping[str, Any]) -> Certificate:
    rows = {**certificate.claims.get(EXPORTS, {}), f"GGUF {kind}": dict(row)}
    return certificate.replace(claims={**certificate.claims, EXPORTS: rows})


def record_export(memory: Memory, kind: str, row: Mapping[str, Any]) -> None:
    """Write a row about an exported file into the certificate of a directory."""
    path = memory.folder / folders.CERTIFICATE
    if memory.staging is not None or not path.is_file():
        return
    certificate = _with_row(memory.certificate, kind, row)
    write_atomically(path, lambda part: folders.write_json(part, certificate.to_dict()))
    if folders.CARD not in certificate.files_sha256 and folders.is_card(memory.folder / folders.CARD):
        write_card(replace(memory, certificate=certificate))


def _write_modelfile(path: Path, memory: Memory, table: Table) -> None:
    """What `ollama create` reads, beside the file that it speaks of."""
    lines = memory.model.modelfile(path.name, table)
    text = "\n".join(lines) + "\n"
    write_atomically(path.with_suffix(_MODELFILE), lambda part: part.write_text(text, encoding="utf-8"))


@dataclass(frozen=True)
class GgufFile:
    """A GGUF file that rote exported, with the certificate of its model."""

    path: Path
    certificate: Certificate
    form: str
    """The type of most of its matrices."""
    notes: Mapping[str, str]


def open_gguf(path: str | Path) -> GgufFile:
    """What a GGUF file says about itself; one that rote did not export is refused."""
    file = Path(path)
    notes = _notes(file)
    if _CERTIFICATE not in notes:
        raise CheckpointError(f"{file} carries no certificate of rote, so it is not known how its facts are asked.")
    record = parse_json(
        notes[_CERTIFICATE], f"the certificate in {file}", refuse=CheckpointError, remedy="export again"
    )
    if not isinstance(record, dict):
        raise CheckpointError(f"the certificate in {file} is no record; the file was edited, export it again.")
    return GgufFile(file, Certificate.from_dict(record, f"the certificate in {file}"), notes["form"], notes)


@checked
def verify_gguf(path: str | Path, table: Table, *, progress: Progress = quiet) -> Verification:
    """Run every fact of a table through a GGUF file in llama.cpp."""
    file = open_gguf(path)
    return _judged(file.path, table, file.form, file.notes, progress)


def _judged(path: Path, table: Table, form: str, notes: Mapping[str, str], progress: Progress) -> Verification:
    from rote.referee.llama_cpp import GgufOutputs, LlamaCpp

    marks = parse_json(
        notes.get(_MARKS, '["", ""]'), f"{_MARKS} in {path}", refuse=CheckpointError, remedy="export again"
    )
    if not isinstance(marks, list) or len(marks) != 2:
        raise CheckpointError(f"{_MARKS} in {path} is no pair of texts; the file was edited, export it again.")
    words = None if table.words is None else table.words.tokens
    longest = max(256, int(notes["context"]) if int(notes["context"]) < 4096 else 4096)
    with LlamaCpp(path, longest) as runtime:
        outputs = GgufOutputs(runtime, words, (str(marks[0]), str(marks[1])))
        outputs.advance = lambda done: progress(f"verify {form}", done, table.n_facts, None)
        return replace(table.score(outputs, form), judged_by=runtime.name)


def _notes(path: Path) -> dict[str, str]:
    """The texts that rote wrote into a file, its longest context, and the type of its matrices (`form`)."""
    tools = gguf_tools()
    regular(path, CheckpointError)
    try:
        reader = tools.GGUFReader(path)
        notes = {name: str(field.contents()) for name, field in reader.fields.items() if name.startswith("rote.")}
        lengths = [field.contents() for name, field in reader.fields.items() if name.endswith(".context_length")]
        kind = tools.LlamaFileType(int(reader.fields["general.file_type"].contents())).name
        return {**notes, "context": str(int(lengths[0])), "form": kind.removeprefix("MOSTLY_").removeprefix("ALL_")}
    except Exception as error:  # whatever a damaged or foreign file makes the library raise
        raise CheckpointError(f"{path} is no GGUF file that can be read ({type(error).__name__}: {error}).") from None
