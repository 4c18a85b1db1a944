"""Grafted directories: the original's files as they were, one more file of weights, and a raised layer count.

The original's safetensors files are copied byte for byte under the names of a sharded checkpoint; the added layers are
one more shard. What had to change (config.json, the index) is kept in `original/`, so that `ungraft` only has to put
files back, and to check their hashes.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rote.errors import CheckpointError
from rote.graft.source import Source, shard_names
from rote.models.checkpoint import file_sha256, read_json, write_directory, write_json

__all__ = ["fill_graft", "layer_tensors", "read_certificate", "ungraft", "write_certificate"]

_INDEX = "model.safetensors.index.json"
_KEPT = "original"
_WEIGHTS = (".bin", ".safetensors", ".gguf", ".pt", ".pth", ".msgpack", ".h5", ".onnx")


def layer_tensors(model: Any, number: int, gate: Tensor, up: Tensor, down: Tensor) -> dict[str, Tensor]:
    """One decoder layer of the model's own kind: attention of zeros, norms of ones, and the given MLP."""
    made: dict[str, Tensor] = {}
    ours = {"mlp.gate_proj.weight": gate, "mlp.up_proj.weight": up, "mlp.down_proj.weight": down}
    for name, like in model.model.layers[-1].state_dict().items():
        value = ours.get(name)
        if value is None:
            value = torch.ones(like.shape) if name.endswith("norm.weight") else torch.zeros(like.shape)
        made[f"model.layers.{number}.{name}"] = value.to(model.dtype).contiguous()
    return made


def fill_graft(part: Path, source: Source, tensors: Mapping[str, Tensor], n_added: int, dtype: str) -> dict[str, Any]:
    """Write everything but the certificate into `part`; what `ungraft` has to know is returned."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    names = shard_names(source.place)
    total = len(names) + 1
    keep = part / _KEPT
    keep.mkdir()
    weight_map: dict[str, str] = {}
    shards: list[dict[str, str]] = []
    size = 0
    for number, name in enumerate(names, 1):
        new = f"model-{number:05d}-of-{total:05d}.safetensors"
        shutil.copyfile(source.place / name, part / new)
        with safe_open(part / new, framework="pt") as file:
            weight_map.update(dict.fromkeys(file.keys(), new))
        size += (part / new).stat().st_size
        shards.append({"file": new, "was": name, "sha256": file_sha256(part / new)})
    added = f"model-{total:05d}-of-{total:05d}.safetensors"
    save_file(dict(tensors), part / added, metadata={"format": "pt"})
    weight_map.update(dict.fromkeys(tensors, added))
    size += (part / added).stat().st_size
    write_json(part / _INDEX, {"metadata": {"total_size": size}, "weight_map": weight_map})
    for path in sorted(source.place.iterdir()):
        if not path.is_file() or path.suffix in _WEIGHTS or path.name == "certificate.json":
            continue
        if path.name in ("config.json", _INDEX):
            shutil.copyfile(path, keep / path.name)
        else:
            shutil.copyfile(path, part / path.name)
    config = read_json(source.place / "config.json")
    layers = int(config["num_hidden_layers"])
    config["num_hidden_layers"] = layers + n_added
    if isinstance(config.get("layer_types"), list):
        config["layer_types"] = [*config["layer_types"], *config["layer_types"][-1:] * n_added]
    config["dtype"] = dtype
    config.pop("torch_dtype", None)
    write_json(part / "config.json", config)
    return {
        "layers": {"original": layers, "added": n_added},
        "shards": shards,
        "added": {"file": added, "sha256": file_sha256(part / added)},
        "original_sha256": {path.name: file_sha256(path) for path in sorted(keep.iterdir())},
    }


def write_certificate(directory: Path, certificate: Mapping[str, Any]) -> None:
    write_json(directory / "certificate.json", certificate)


def read_certificate(directory: Path) -> dict[str, Any]:
    """The certificate of a grafted directory."""
    certificate = read_json(directory / "certificate.json")
    if not isinstance(certificate.get("graft"), dict):
        raise CheckpointError(f"{directory} was not written by `rote graft`, so there is nothing to take off.")
    return certificate


def ungraft(directory: Path, output: Path, *, force: bool = False) -> Sequence[str]:
    """Restore the original from a grafted directory, bit for bit; the names of the restored files."""
    record = read_certificate(directory)["graft"]
    restored: list[str] = []

    def put(source: Path, target: Path, sha256: str) -> None:
        if not source.is_file():
            raise CheckpointError(f"{source.parent} has no {source.name}; the grafted directory is incomplete.")
        shutil.copyfile(source, target)
        if file_sha256(target) != sha256:
            raise CheckpointError(
                f"{source} is not what the graft's certificate speaks of; it was changed, so the original cannot be "
                "restored from it."
            )
        restored.append(target.name)

    def write(part: Path) -> None:
        renamed = {str(shard["file"]) for shard in record["shards"]} | {str(record["added"]["file"])}
        for shard in record["shards"]:
            put(directory / shard["file"], part / Path(shard["was"]).name, shard["sha256"])
        for name, sha256 in record["original_sha256"].items():
            put(directory / _KEPT / name, part / Path(name).name, sha256)
        for path in sorted(directory.iterdir()):
            if path.is_file() and path.name not in renamed | {"config.json", _INDEX, "certificate.json"}:
                shutil.copyfile(path, part / path.name)
                restored.append(path.name)

    write_directory(output, write, force=force)
    return sorted(restored)
