"""A graft as a small file of its own: what its directory has beyond the base model, and the hash of that.

The file is of safetensors. Its metadata list every file of the directory, with its hash and how it comes about: as a
file of the base, as bytes that are kept, or as weights. Weights are kept as they differ, bit by bit (exclusive or),
from the base's tensors padded with zeros, so that neither the base nor zeros take room. All bytes are compressed, those
of weights with the first bytes of all numbers first. So `unpack` writes the same files again, bit for bit.
"""

from __future__ import annotations

import json
import math
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rote.data._atomic import write_atomically
from rote.data.contents import regular
from rote.errors import CheckpointError, UsageError
from rote.models import folders
from rote.models._pretrained import shard_names, source_sha256

__all__ = ["FORMAT", "pack", "unpack"]

FORMAT = "rote-graft-1"
_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I64": 8, "I32": 4, "I8": 1, "U8": 1, "BOOL": 1}
_MOST = 1 << 34
"""Bytes of one tensor or file, so that a few forged bytes do not unpack to more than any model has."""


@dataclass(frozen=True)
class _Shard:
    """A safetensors file: its header as it is on disk, and where each tensor stands, by name."""

    path: Path
    header: bytes
    places: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, path: Path) -> _Shard:
        with path.open("rb") as file:
            size = file.read(8)
            header = size + file.read(int.from_bytes(size, "little"))
        return cls(path, header, _places(header))

    def raw(self, name: str) -> np.ndarray:
        """The bytes of a tensor, a row of bytes for each number."""
        place = self.places[name]
        begin, end = place["data_offsets"]
        with self.path.open("rb") as file:
            file.seek(len(self.header) + begin)
            data = np.frombuffer(file.read(end - begin), np.uint8)
        return data.reshape(*place["shape"], _BYTES[place["dtype"]])


def _places(header: bytes) -> dict[str, Mapping[str, Any]]:
    return {name: place for name, place in json.loads(header[8:]).items() if name != "__metadata__"}


@dataclass
class _Pack:
    """What is gathered for the file."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    parts: dict[str, np.ndarray] = field(default_factory=dict)

    def keep(self, data: bytes) -> str:
        name = str(len(self.parts))
        self.parts[name] = np.frombuffer(zlib.compress(data, 6), np.uint8)
        return name


def pack(folder: Path, base: Path, graft: Mapping[str, Any], path: Path) -> dict[str, int]:
    """Write the graft in `folder` as one file; `base` is its base model, and `graft` what its certificate says of it.

    Returned are bytes of the file, of the directory, and how many of its files are the base's.
    """
    from safetensors.numpy import save_file

    below = int(graft.get("below", 0))
    owned = {folders.file_sha256(file): file.relative_to(base).as_posix() for file in _files(base)}
    shards = [_Shard.of(base / name) for name in shard_names(base)]
    homes = {_shifted(name, below): (shard, name) for shard in shards for name in shard.places}
    packed, size = _Pack(), 0
    for file in _files(folder):
        name, sha256 = file.relative_to(folder).as_posix(), folders.file_sha256(file)
        size += file.stat().st_size
        entry: dict[str, Any] = {"name": name, "sha256": sha256, "bytes": file.stat().st_size}
        if sha256 in owned:
            entry["base"] = owned[sha256]
        elif file.suffix == ".safetensors":
            shard = _Shard.of(file)
            entry["header"], entry["weights"] = packed.keep(shard.header), {}
            for tensor in shard.places:
                home, was = homes.get(tensor, (None, None))
                # Of a graft's own file beside the weights, nothing is the base's, whatever it is called.
                before = None if home is None or file.parent != folder else home.raw(str(was))
                apart = _expected(before, shard.raw(tensor)) ^ shard.raw(tensor)
                entry["weights"][tensor] = [None if before is None else was, _shuffled(packed, apart)]
        else:
            entry["bytes_of"] = packed.keep(file.read_bytes())
        packed.entries.append(entry)
    record = {
        "format": FORMAT,
        "base": str(graft["model"]),
        "base_sha256": str(graft["model_sha256"]),
        "files": packed.entries,
    }
    meta = {"format": FORMAT, "graft": json.dumps(record, ensure_ascii=False)}
    write_atomically(path, lambda part: save_file(packed.parts, part, metadata=meta))
    same = sum("base" in one for one in packed.entries)
    return {"bytes": path.stat().st_size, "of": size, "files": len(packed.entries), "of_base": same}


def _files(folder: Path) -> list[Path]:
    """The files of a model directory; of what may lie there unlisted, only a card of ours."""
    found = sorted(file for file in folder.rglob("*") if file.is_file())
    kept = []
    for file in found:
        first = file.relative_to(folder).parts[0]
        if first not in folders.HARMLESS or (file == folder / folders.CARD and folders.is_card(file)):
            kept.append(file)
    return kept


def _shifted(name: str, below: int) -> str:
    """The name of a tensor when so many layers were put below the first."""
    parts = name.split(".")
    if parts[:2] == ["model", "layers"]:
        parts[2] = str(int(parts[2]) + below)
    return ".".join(parts)


def _expected(before: np.ndarray | None, like: np.ndarray) -> np.ndarray:
    """The base's tensor with zeros around it, or nothing but zeros where it does not fit."""
    wider = np.zeros_like(like)
    if before is not None and (before.shape[-1], like.shape[-1]) == (2, 4):
        # A number of bfloat16 is the first half of one of float32.
        before = np.concatenate([np.zeros_like(before), before], -1)
    if before is None or before.ndim != like.ndim or before.shape[-1] != like.shape[-1]:
        return wider
    if any(a > b for a, b in zip(before.shape, like.shape, strict=True)):
        return wider
    wider[tuple(slice(size) for size in before.shape)] = before
    return wider


def _shuffled(packed: _Pack, data: np.ndarray) -> str | None:
    """Bytes by their place in the number, which compress better; None if all of them are zero."""
    if not data.any():
        return None
    return packed.keep(np.ascontiguousarray(data.reshape(-1, data.shape[-1]).T).tobytes())


def unpack(path: Path, base: Path, target: Path, *, force: bool = False) -> dict[str, Any]:
    """Write the directory of a packed graft again, from its base model; what the file says of itself is returned."""
    record, parts = _read(path)
    found = source_sha256(base)
    if found != record["base_sha256"]:
        raise CheckpointError(
            f"{path} is a graft for {record['base']!r} with the hash {record['base_sha256'][:16]}..., and {base} has "
            f"{found[:16]}...; apply it to the model that it was made for."
        )
    shards = [_Shard.of(base / name) for name in shard_names(base)]
    homes = {name: shard for shard in shards for name in shard.places}

    for entry in record["files"]:
        _inside(path, base, entry["name"])
        own = _inside(path, base, entry["base"]) if "base" in entry else None
        if own is not None and not own.is_file():
            raise CheckpointError(
                f"{base} has no {entry['base']}, which the model had that {path} was made for; put the file there."
            )

    def write(part: Path) -> None:
        for entry in record["files"]:
            file = part / entry["name"]
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                _rebuilt(file, entry, parts, base, homes)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError, zlib.error, OverflowError):
                raise _damaged(path, entry["name"]) from None
            if folders.file_sha256(file) != entry["sha256"]:
                if "base" in entry:
                    raise CheckpointError(
                        f"{base / entry['base']} is not the file that {path} was made for, though the weights are; "
                        "restore it, or apply the graft to the model that it was made for."
                    )
                raise _damaged(path, entry["name"])
        # What was packed is a model directory whose certificate lists these files.
        certificate = folders.read_json(part / folders.CERTIFICATE)
        try:
            listed = {file.relative_to(part).as_posix() for file in folders.listed_files(part, certificate)}
        except CheckpointError:
            raise _damaged(path, folders.CERTIFICATE) from None
        wrong = [e["name"] for e in record["files"] if certificate["files_sha256"].get(e["name"]) != e["sha256"]]
        lost = [name for name in wrong if name not in (folders.CERTIFICATE, folders.CARD)]
        if lost or listed - {entry["name"] for entry in record["files"]}:
            raise _damaged(path, folders.CERTIFICATE)

    folders.write_directory(target, write, force=force)
    return record


def _inside(path: Path, folder: Path, name: object) -> Path:
    """A file of a directory by the name that a packed graft has for it; a name that leads elsewhere is refused."""
    try:
        return folders.inside(folder, name)
    except CheckpointError:
        raise CheckpointError(
            f"{path} names a file {name!r}, which is no plain name inside of a directory; the file was changed."
        ) from None


def _damaged(path: Path, name: str) -> CheckpointError:
    return CheckpointError(f"{path} does not give the {name} that it speaks of; the file was changed or damaged.")


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The record of a packed graft, and its parts."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        raise UsageError(f"there is no file {path}; give one that `rote graft pack` wrote.")
    regular(path, CheckpointError)
    try:
        with safe_open(path, framework="np") as file:
            record = json.loads((file.metadata() or {})["graft"])
            parts = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        known = record["format"] == FORMAT and isinstance(record["base"], str) and isinstance(record["files"], list)
        names = [(str(one["name"]), str(one["sha256"])) for one in record["files"]]
        if not known or len(str(record["base_sha256"])) != 64 or folders.CERTIFICATE not in dict(names):
            raise ValueError
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError, AttributeError):
        raise CheckpointError(f"{path} is no packed graft of the format {FORMAT}, or it was damaged.") from None
    return record, parts


def _rebuilt(
    file: Path, entry: Mapping[str, Any], parts: Mapping[str, np.ndarray], base: Path, homes: Mapping[str, _Shard]
) -> None:
    """Write one file of the directory."""
    if "base" in entry:
        shutil.copyfile(folders.inside(base, entry["base"]), file)
        return
    if "bytes_of" in entry:
        file.write_bytes(_inflated(parts[entry["bytes_of"]], int(entry["bytes"])))
        return
    header = _inflated(parts[entry["header"]], int(entry["bytes"]))
    places = _places(header)
    with file.open("wb") as stream:
        stream.write(header)
        for name, place in sorted(places.items(), key=lambda item: item[1]["data_offsets"]):
            was, data = entry["weights"][name]
            width = _BYTES[place["dtype"]]
            shape = [*map(int, place["shape"]), width]
            apart = np.zeros(shape, np.uint8)
            if data is not None:
                count = math.prod(shape[:-1])
                flat = np.frombuffer(_inflated(parts[data], count * width), np.uint8)
                apart = flat.reshape(width, count).T.reshape(shape)
            before = None if was is None else homes[was].raw(was)
            stream.write((_expected(before, apart) ^ apart).tobytes())


def _inflated(data: np.ndarray, most: int) -> bytes:
    """Compressed bytes as they were; more than there may be are refused."""
    if not 0 <= most <= _MOST:
        raise ValueError
    stream = zlib.decompressobj()
    found = stream.decompress(data.tobytes(), most + 1)
    if len(found) > most:
        raise ValueError
    return found
