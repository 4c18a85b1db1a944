"""Model directories: `config.json`, `model.safetensors`, `tokenizer.json` and `certificate.json`.

A directory is written under a temporary name and renamed, so that it is there whole or not at all. Reading checks that
every file is there, that the weights are complete, and that they are the ones the certificate speaks of.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.config import Architecture
from rote.data import records
from rote.data._atomic import disk_is_full
from rote.data.contents import regular
from rote.data.reading import check_tokens
from rote.errors import CheckpointError, OutputError
from rote.models import tokenizer
from rote.models._base import Wording

if TYPE_CHECKING:
    from rote.data.reading import Reading

__all__ = [
    "CERTIFICATE",
    "FORMAT",
    "Staging",
    "check_files",
    "facts_file",
    "file_sha256",
    "hashes",
    "read_config",
    "read_json",
    "read_tensors",
    "read_wording",
    "reading_record",
    "refuse_existing",
    "weights_hash",
    "write_directory",
    "write_json",
    "write_model",
]

FORMAT = "rote-1"
CERTIFICATE = "certificate.json"


class Staging:
    """A temporary directory that is removed when nobody needs it any more."""

    def __init__(self, near: Path | None = None) -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix=".rote-", dir=near))
        except (OSError, ValueError) as error:
            raise _refusal(Path(near or tempfile.gettempdir()), error) from None
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def file_sha256(path: Path) -> str:
    """The hash of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def refuse_existing(path: Path, force: bool) -> None:
    """Refuse to touch what is already there, unless told to."""
    if path.exists() and not force:
        raise OutputError(f"{path} exists already; name another directory, or use force to replace it.")
    if path.exists() and not path.is_dir():
        raise OutputError(f"{path} is a file; name a directory.")
    if path.is_dir() and any(path.iterdir()) and not (path / "certificate.json").is_file():
        raise OutputError(f"{path} is no model directory of rote, so it is not replaced; name another directory.")


def write_directory(path: Path, fill: Callable[[Path], None], *, force: bool = False) -> None:
    """Let `fill` write into a temporary directory, then move it to `path`; nothing half-done is ever at `path`."""
    refuse_existing(path, force)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{path.name[:40]}.", suffix=".part", dir=path.parent))
    except OSError as error:
        raise _refusal(path, error) from error
    try:
        fill(part)
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o777 & ~mask)
        for file in part.rglob("*"):
            # Some libraries write private files; these are for whoever may read the directory.
            if file.is_file() and not file.is_symlink():
                file.chmod(0o666 & ~mask)
        _move(part, path)
    except Exception as error:
        if not isinstance(error, OSError) and not disk_is_full(error):
            raise
        raise _refusal(path, error) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(part)


def _move(part: Path, path: Path) -> None:
    if not path.exists():
        part.rename(path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name[:40]}.", suffix=".old", dir=path.parent))
    path.rename(old / "was")
    try:
        part.rename(path)
    except OSError:
        (old / "was").rename(path)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _refusal(path: Path, error: Exception) -> OutputError:
    reason, advice = getattr(error, "strerror", None) or str(error), "check the path and its permissions"
    if disk_is_full(error):
        reason, advice = "the disk is full", "free some space and build again"
    return OutputError(f"cannot write {path}: {reason}; {advice}. Nothing was left behind.")


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a model directory."""
    if not os.path.isdir(path.parent):
        what = "is a file" if os.path.exists(path.parent) else "does not exist"
        raise CheckpointError(f"{path.parent} {what}; give the directory of a model that rote built.")
    if not os.path.lexists(path):
        raise CheckpointError(f"{path.parent} has no {path.name}; it is no model directory of rote, or incomplete.")
    return records.read_json(path, refuse=CheckpointError, remedy="the file was truncated or edited")


def read_tensors(path: Path, dtype: str | None = None) -> dict[str, Any]:
    """The tensors of a safetensors file (torch), of one number format if it is named; what does not fit is refused."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not os.path.lexists(path):
        raise CheckpointError(f"{path.parent} has no {path.name}; it is no model directory of rote, or incomplete.")
    regular(path, CheckpointError)
    try:
        tensors: dict[str, Any] = load_file(path)
    except (SafetensorError, ValueError, OSError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}); the file is truncated or damaged, build it again."
        ) from None
    other = next((name for name, tensor in tensors.items() if dtype not in (None, str(tensor.dtype)[6:])), None)
    if other is not None:
        raise CheckpointError(
            f"{path}: {other} is not of the format {dtype} that the certificate names; it was edited."
        )
    return tensors


def hashes(folder: Path) -> dict[str, str]:
    """The hash of every file of a directory, by name."""
    return {file.name: file_sha256(file) for file in sorted(folder.iterdir()) if file.is_file()}


def weights_hash(files: Mapping[str, str]) -> str:
    """One hash for the weights: that of model.safetensors, or of the hashes of several files."""
    shards = {name: value for name, value in files.items() if name.endswith(".safetensors")}
    if "model.safetensors" in shards:
        return shards["model.safetensors"]
    return hashlib.sha256("".join(f"{name} {value}\n" for name, value in sorted(shards.items())).encode()).hexdigest()


def check_files(folder: Path, certificate: Mapping[str, Any]) -> None:
    """Refuse a directory whose files are not the ones that its certificate was made for."""
    for name, stored in certificate["files_sha256"].items():
        path = folder / Path(name).name
        if not os.path.isfile(path):
            raise CheckpointError(f"{folder} has no {path.name}; it is incomplete, build it again.")
        if file_sha256(path) != stored:
            raise CheckpointError(
                f"{path} is not what its certificate speaks of; it was changed or truncated, build it again."
            )
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".safetensors") and path.name not in (CERTIFICATE, *certificate["files_sha256"]):
            raise CheckpointError(f"{path} is not listed in the certificate beside it; remove it, or build it again.")
    if weights_hash(certificate["files_sha256"]) != certificate["weights_sha256"]:
        raise CheckpointError(f"{folder / CERTIFICATE} has two hashes for the weights; the file was edited.")


def reading_record(reading: Reading | None) -> dict[str, Any] | None:
    """How a table was read, with the place of its file, for a certificate that has no directory yet."""
    if reading is None:
        return None
    record = reading.to_dict()
    return record if reading.path is None else {**record, "file": str(reading.path.resolve())}


def facts_file(folder: Path, read: Mapping[str, Any] | None) -> Path | None:
    """The file that a model was built from, as far as its certificate knows; it may be gone."""
    place = None if read is None else read.get("file")
    return None if not isinstance(place, str) else (folder.resolve() / place).resolve()


def write_model(
    folder: Path, kind: str, arch: Architecture, tensors: Mapping[str, Any], wording: Wording | None, **more: Any
) -> None:
    """The files of a model of rote's own: config.json, model.safetensors, and the tokenizer where there are words."""
    from safetensors.torch import save

    config = {"format": FORMAT, "model": kind, "architecture": arch.to_dict(), **more}
    (folder / "config.json").write_bytes((json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode())
    blob = save({name: tensor.contiguous() for name, tensor in tensors.items()}, {"format": "pt"})
    (folder / "model.safetensors").write_bytes(blob)
    if wording is not None:
        for name, content in tokenizer.files(wording.vocabulary, wording.tokens, wording.context).items():
            (folder / name).write_bytes(content)


def read_config(folder: Path, kind: str) -> tuple[dict[str, Any], Architecture]:
    """config.json of a model of rote's own, and its architecture."""
    path = folder / "config.json"
    config = read_json(path)
    if config.get("format") != FORMAT:
        raise CheckpointError(f"{path} is of format {config.get('format')!r}, this version of rote reads {FORMAT!r}.")
    if config.get("model") != kind:
        raise CheckpointError(f"{path} speaks of a model {config.get('model')!r}, its certificate of {kind!r}.")
    record = config.get("architecture")
    if not isinstance(record, dict):
        raise CheckpointError(f"{path} names no architecture; the file was edited, build it again.")
    return config, Architecture.from_dict(record)


def read_wording(folder: Path, certificate: Mapping[str, Any], arch: Architecture) -> Wording | None:
    """The words of a model; None where its directory has no tokenizer."""
    if not (folder / "tokenizer.json").is_file():
        return None
    vocabulary = tuple(tokenizer.tokens_in(read_json(folder / "tokenizer.json")))
    if max(2, len(vocabulary)) != arch.vocab:
        raise CheckpointError(
            f"tokenizer.json has {len(vocabulary)} tokens, the model {arch.vocab}; one of the files was edited."
        )
    return Wording(vocabulary, check_tokens(str(certificate["tokens"])), arch.context)
