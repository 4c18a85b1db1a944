"""Model directories: `config.json`, `model.safetensors`, `tokenizer.json` and `certificate.json`.

A directory is written under a temporary name and renamed, so that it is there whole or not at all. Reading checks that
every file is there, that the weights are complete, and that they are the ones the certificate speaks of.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rote.config import Architecture
from rote.data import records
from rote.data._atomic import disk_is_full, put_directory
from rote.data._temporary import Temporary
from rote.data.contents import regular
from rote.data.reading import Reading, check_tokens
from rote.errors import CheckpointError, OutputError
from rote.models import tokenizer
from rote.models._base import Wording

__all__ = [
    "CARD",
    "CARD_MARK",
    "CERTIFICATE",
    "FORMAT",
    "HARMLESS",
    "Staging",
    "check_files",
    "facts_file",
    "file_sha256",
    "hashes",
    "inside",
    "is_card",
    "listed_files",
    "read_config",
    "read_json",
    "read_tensors",
    "read_wording",
    "reading_record",
    "refusal",
    "refuse_existing",
    "stock_usage",
    "weights_hash",
    "write_directory",
    "write_json",
    "write_model",
]

FORMAT = "rote-1"
CERTIFICATE = "certificate.json"
HARMLESS = frozenset({"README.md", "LICENSE", "LICENSE.txt", ".gitattributes", ".gitignore", ".git", ".DS_Store"})
"""What may lie in a model directory unlisted: no library reads it as a part of a model."""

CARD = "README.md"
_LONGEST_CARD = 1 << 20
CARD_MARK = "<!-- written by rote card -->"
"""What tells the card that rote writes from notes of the user's own."""


class Staging(Temporary):
    """A temporary directory that is removed when nobody needs it any more."""

    def __init__(self, near: Path | None = None) -> None:
        place = Path(tempfile.gettempdir() if near is None else near)
        try:
            super().__init__(place, "staging", directory=True)
        except (OSError, ValueError) as error:
            raise refusal(place, error) from None


def file_sha256(path: Path) -> str:
    """The hash of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def refuse_existing(path: Path, force: bool, *, closely: bool = True) -> None:
    """Refuse to touch what is already there, unless told to; and then whatever is not a model directory alone.

    Without `closely` its certificate is not read again: another writer may be at work there.
    """
    if os.path.lexists(path) and not force:
        raise OutputError(f"{path} exists already; name another directory, or use force to replace it.")
    if path.is_symlink():
        raise OutputError(f"{path} is a symbolic link, which is not replaced; name the directory that it leads to.")
    if path.exists() and not path.is_dir():
        raise OutputError(f"{path} is a file; name a directory.")
    if not path.is_dir() or not any(path.iterdir()):
        return
    if not (path / CERTIFICATE).is_file():
        raise OutputError(f"{path} is no model directory of rote, so it is not replaced; name another directory.")
    if closely:
        try:
            listed_files(path, read_json(path / CERTIFICATE))
        except CheckpointError as error:
            raise OutputError(f"{path} is not replaced, since not all of it is a model of rote: {error}") from None


def write_directory(path: Path, fill: Callable[[Path], None], *, force: bool = False) -> None:
    """Let `fill` write into a temporary directory, then move it to `path`; nothing half-done is ever at `path`."""
    refuse_existing(path, force)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = Temporary(path.parent, path.name, directory=True)
    except OSError as error:
        raise refusal(path, error) from error
    try:
        fill(part.path)
        for name in HARMLESS:
            # Notes of the user's that may lie beside a model stay where they are.
            if path.is_dir() and (path / name).exists() and not (part.path / name).exists():
                _copy(path / name, part.path / name)
        mask = os.umask(0)
        os.umask(mask)
        part.path.chmod(0o777 & ~mask)
        for file in part.path.rglob("*"):
            # Some libraries write private files; these are for whoever may read the directory.
            if file.is_file() and not file.is_symlink():
                file.chmod(0o666 & ~mask)
        put_directory(part.path, path, lambda: refuse_existing(path, force, closely=False))
    except Exception as error:
        if not isinstance(error, OSError) and not disk_is_full(error):
            raise
        raise refusal(path, error) from error
    finally:
        part.close()


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copyfile(source, target)


def refusal(path: Path, error: BaseException) -> OutputError:
    """What to say where something could not be written."""
    reason, advice = getattr(error, "strerror", None) or str(error), "check the path and its permissions"
    if disk_is_full(error):
        reason, advice = "the disk is full", "free some space and try again"
    return OutputError(f"cannot write {path}: {reason}; {advice}. Nothing was left behind.")


def is_card(path: Path) -> bool:
    """Whether a file is a card of ours, or nothing at all, so that one may be written there."""
    if not os.path.lexists(path):
        return True
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LONGEST_CARD:
        return False
    return CARD_MARK in path.read_text(encoding="utf-8", errors="replace")


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


def hashes(folder: Path, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """The hash of every file of a directory, by its name as seen from there; sub-directories are included.

    Of some files it may be `known`.
    """
    files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
    known = known or {}
    return {name: known.get(name) or file_sha256(files[name]) for name in sorted(files)}


def inside(folder: Path, name: object) -> Path:
    """A file of a directory by the name that a certificate has for it; a name that leads elsewhere is refused."""
    parts = name.split("/") if isinstance(name, str) else []
    if not parts or any(part in ("", ".", "..") or set(part) & set("\\:\0") for part in parts):
        raise CheckpointError(
            f"{folder / CERTIFICATE} names a file {name!r}, which is no plain name inside of the directory; it was "
            "edited."
        )
    return folder.joinpath(*parts)


def weights_hash(files: Mapping[str, str]) -> str:
    """One hash for the weights: that of model.safetensors, or of the hashes of several files."""
    shards = {name: value for name, value in files.items() if name.endswith(".safetensors")}
    if "model.safetensors" in shards:
        return shards["model.safetensors"]
    return hashlib.sha256("".join(f"{name} {value}\n" for name, value in sorted(shards.items())).encode()).hexdigest()


def check_files(folder: Path, certificate: Mapping[str, Any], *, changed_weights: bool = False) -> tuple[str, ...]:
    """Refuse a directory whose files are not, one by one, the ones that its certificate was made for.

    With `changed_weights` those of the weights may be others; the names of the ones that are come back.
    """
    changed: list[str] = []
    for path, sha256 in listed_files(folder, certificate).items():
        if not os.path.isfile(path):
            raise CheckpointError(f"{path.parent} has no {path.name}; it is incomplete, build it again.")
        if file_sha256(path) != sha256:
            if not changed_weights or path.suffix != ".safetensors":
                raise CheckpointError(
                    f"{path} is not what its certificate speaks of; it was changed or truncated, build it again."
                )
            changed.append(path.relative_to(folder).as_posix())
    if weights_hash(certificate["files_sha256"]) != certificate["weights_sha256"]:
        raise CheckpointError(f"{folder / CERTIFICATE} has two hashes for the weights; the file was edited.")
    return tuple(changed)


def listed_files(folder: Path, certificate: Mapping[str, Any]) -> dict[Path, str]:
    """The files that a certificate lists, with their hashes.

    Whatever else is there is refused: libraries look for files by name, so that one more may change a model.
    """
    stored = certificate.get("files_sha256")
    if not isinstance(stored, Mapping):
        raise CheckpointError(f"{folder / CERTIFICATE} lists no files; it was edited, build the model again.")
    listed = {inside(folder, name): str(sha256) for name, sha256 in stored.items()}
    known = {folder / CERTIFICATE, *listed}
    parents = {parent for path in known for parent in path.parents}
    left = [folder]
    while left:
        for path in sorted(left.pop().iterdir()):
            if path.is_symlink():
                raise CheckpointError(
                    f"{path} is a symbolic link, and a model directory holds its files itself; put the file there."
                )
            if path in parents and path.is_dir():
                left.append(path)
            elif path not in known and path.relative_to(folder).as_posix() not in HARMLESS:
                raise CheckpointError(
                    f"{path} is not listed in the certificate of the model; move it away, or build the model again."
                )
    return listed


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
        words = (wording.vocabulary, wording.tokens, wording.context, wording.properties)
        for name, content in tokenizer.files(*words).items():
            (folder / name).write_bytes(content)


def stock_usage(name: str, question: str, *, tokens: int, chat: bool = False) -> list[str]:
    """Lines of Python that ask a stock checkpoint with nothing but Hugging Face transformers."""
    asked = [f'asked = tokenizer({question!r}, return_tensors="pt")']
    if chat:
        asked = [
            f'turns = [{{"role": "user", "content": {question!r}}}]',
            "asked = tokenizer.apply_chat_template(",
            '    turns, add_generation_prompt=True, return_tensors="pt", return_dict=True',
            ")",
        ]
    return [
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        f"model, tokenizer = AutoModelForCausalLM.from_pretrained({name!r}), AutoTokenizer.from_pretrained({name!r})",
        *asked,
        f'said = model.generate(**asked, max_new_tokens={tokens}, do_sample=False)[0, asked["input_ids"].shape[1]:]',
        "print(tokenizer.decode(said, skip_special_tokens=True))",
    ]


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
    return Wording(vocabulary, check_tokens(str(certificate["tokens"])), arch.context, _properties(certificate))


def _properties(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """The properties of a table that was read from several target columns."""
    read = certificate.get("read")
    if not isinstance(read, Mapping):
        return ()
    return Reading.from_dict({key: value for key, value in read.items() if key != "file"}).properties
