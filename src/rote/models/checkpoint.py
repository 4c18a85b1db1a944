"""Model directories: `config.json`, `model.safetensors`, `tokenizer.json` and `certificate.json`.

A directory is written under a temporary name and renamed, so that it is there whole or not at all. Reading checks that
every file is there, that the weights are complete, and that they are the ones the certificate speaks of.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rote.errors import CheckpointError, OutputError

__all__ = [
    "FORMAT",
    "check_files",
    "check_weights",
    "file_sha256",
    "read_json",
    "read_tensors",
    "refuse_existing",
    "write_directory",
    "write_json",
]

FORMAT = "rote-1"


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
        raise OutputError(f"{path} exists already; name another directory, or pass --force to replace it.")
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
    except OSError as error:
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


def _refusal(path: Path, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    advice = "free some space and build again" if error.errno == errno.ENOSPC else "check the path and its permissions"
    return OutputError(f"cannot write {path}: {reason}; {advice}. Nothing was left behind.")


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a model directory."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise CheckpointError(
                f"{path.parent} does not exist; give the directory that `rote build -o` wrote."
            ) from None
        raise CheckpointError(
            f"{path.parent} has no {path.name}; it is no model directory of rote, or incomplete."
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} is no valid JSON ({error}); the file was truncated or edited.") from None
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}.") from None
    if not isinstance(record, dict):
        raise CheckpointError(f"{path} must hold a JSON object, got a {type(record).__name__}.")
    return record


def read_tensors(path: Path) -> dict[str, Any]:
    """The tensors of a safetensors file (torch); a truncated or foreign file is refused."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise CheckpointError(f"{path.parent} has no {path.name}; it is no model directory of rote, or incomplete.")
    try:
        return load_file(path)
    except (SafetensorError, ValueError, OSError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}); the file is truncated or damaged, build it again."
        ) from None


def check_weights(directory: Path, certificate: Mapping[str, Any]) -> None:
    """Refuse weights that are not the ones the certificate was made for."""
    stored, found = certificate.get("weights_sha256"), file_sha256(directory / "model.safetensors")
    if stored != found:
        raise CheckpointError(
            f"{directory / 'model.safetensors'} has hash {found[:12]}, its certificate says {str(stored)[:12]}; "
            "the weights were changed or the file is truncated. Build it again."
        )


def check_files(directory: Path, certificate: Mapping[str, Any]) -> None:
    """Refuse a configuration or a tokenizer that was changed after the certificate was made."""
    hashes = certificate.get("files_sha256") or {}
    for name, stored in hashes.items() if isinstance(hashes, dict) else ():
        path = directory / Path(name).name
        if not path.is_file():
            raise CheckpointError(f"{directory} has no {path.name}; it is incomplete, build it again.")
        if file_sha256(path) != stored:
            raise CheckpointError(f"{path} is not what its certificate speaks of; it was changed, build it again.")
