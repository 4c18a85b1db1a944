"""The files of a graft: the original's tensors padded with zeros, added layers, and what gives the original back.

The original's numbers are all in it, so what `ungraft` needs besides is little: its configuration, the headers of its
files, and the norms, which are rescaled in the graft.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rote.config import Architecture
from rote.errors import CheckpointError
from rote.models import folders
from rote.models._pretrained import Source, shard_names
from rote.solvers.keyed.design import Design
from rote.solvers.keyed.layers import Body, widened
from rote.solvers.keyed.network import Network

__all__ = ["INDEX", "KEPT", "fill_widened", "in_layer", "restore", "shape_of", "shifted", "with_network"]

INDEX = "model.safetensors.index.json"
KEPT = "original"
_NORMS = "norms.safetensors"
_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_SKIPPED = (".bin", ".safetensors", ".gguf", ".pt", ".pth", ".msgpack", ".h5", ".onnx")


def shape_of(config: Mapping[str, Any], where: Path) -> Architecture:
    """The shape that a configuration of the Llama family speaks of; `where` is its file."""

    def size(name: str, usual: int | None = None) -> int:
        value = config.get(name) or usual
        if type(value) is not int or value < 1:
            raise CheckpointError(f"{where} has no {name} that is a size; it is of another model, or was edited.")
        return value

    heads, width = size("num_attention_heads"), size("hidden_size")
    return Architecture(
        heads,
        width,
        size("head_dim", max(1, width // heads)),
        size("max_position_embeddings", 1),
        size("vocab_size"),
        size("num_hidden_layers"),
        size("intermediate_size"),
        gated=True,
    )


def restore(folder: Path, output: Path | None, *, force: bool = False) -> list[str]:
    """Put the original of a graft into `output`, or in its place, bit for bit; the names of the restored files."""
    from safetensors import SafetensorError

    certificate = folders.read_json(folder / folders.CERTIFICATE)
    record: Any = certificate.get("graft")
    if not isinstance(record, Mapping):
        raise CheckpointError(f"{folder} is no grafted model, so there is nothing to take off.")
    try:
        shards = [(str(one["was"]), str(one["sha256"])) for one in record["original"]]
        below, others = int(record["below"]), dict(record["others"])
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(
            f"{folder / folders.CERTIFICATE} does not say which files are the original's; it was edited."
        ) from None

    for name in (*(name for name, _ in shards), *others):
        folders.inside(folder, name)
    kept = {path.name for path in (folder / KEPT).glob("*.header")}
    if kept != {f"{name}.header" for name, _ in shards} or "config.json" not in others:
        raise CheckpointError(
            f"{folder / folders.CERTIFICATE} names other files of the original than {KEPT} has; one of both was "
            "edited, so the original cannot be restored."
        )

    def write(part: Path) -> None:
        for name, sha256 in shards:
            try:
                _rebuild(folder, part / name, below)
            except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, SafetensorError, struct.error):
                raise CheckpointError(
                    f"{name} cannot be made again from {folder}, whose files were damaged or edited, so the original "
                    "cannot be restored from it."
                ) from None
            _check(part / name, sha256)
        for name, sha256 in others.items():
            kept, own = folders.inside(folder / KEPT, name), folders.inside(folder, name)
            if not kept.is_file() and not own.is_file():
                raise CheckpointError(f"{folder} has no {name}; the grafted directory is incomplete.")
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(kept if kept.is_file() else own, part / name)
            _check(part / name, sha256)

    target = folder if output is None else output
    folders.write_directory(target, write, force=force or output is None)
    if output is None and folders.CARD not in others and folders.is_card(target / folders.CARD):
        (target / folders.CARD).unlink()  # the graft's own
    return sorted([name for name, _ in shards] + list(others))


def _check(path: Path, sha256: str) -> None:
    if folders.file_sha256(path) != sha256:
        raise CheckpointError(
            f"{path.name} does not come out as the original was; the grafted directory was changed, so it cannot be "
            "restored from it."
        )


def _header(path: Path) -> bytes:
    """The first part of a safetensors file: a length, and the names and places of its tensors."""
    with path.open("rb") as file:
        size = file.read(8)
        return size + file.read(struct.unpack("<Q", size)[0])


def _rebuild(folder: Path, target: Path, below: int) -> None:
    """Write one file of the original from the grafted tensors: each cut back to its size, norms from what was kept."""
    from safetensors import safe_open

    kept = folder / KEPT / f"{target.name}.header"
    for path in (kept, folder / KEPT / _NORMS):
        if not path.is_file():
            raise CheckpointError(f"{folder} has no {KEPT}/{path.name}; the grafted directory is incomplete.")
    header = kept.read_bytes()
    places = json.loads(header[8:])
    weights = folders.read_json(folder / INDEX)["weight_map"]
    with safe_open(folder / KEPT / _NORMS, framework="pt") as norms, target.open("wb") as file:
        file.write(header)
        opened: dict[str, Any] = {}
        own = {name: place for name, place in places.items() if name != "__metadata__"}
        for name, place in sorted(own.items(), key=lambda item: item[1]["data_offsets"]):
            if name in norms.keys():  # noqa: SIM118
                tensor = norms.get_tensor(name)
            else:
                new = shifted(name, below)
                if not (folder / weights[new]).is_file():
                    raise CheckpointError(f"{folder} has no {weights[new]}; the grafted directory is incomplete.")
                shard = opened.setdefault(weights[new], safe_open(folder / weights[new], framework="pt"))
                tensor = shard.get_tensor(new)[tuple(slice(size) for size in place["shape"])]
            tensor = tensor.to(_DTYPES.get(place["dtype"], tensor.dtype))
            file.write(tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")


def in_layer(name: str) -> bool:
    """Whether a tensor is of a layer, not of the embedding or the head."""
    parts = name.split(".")
    return parts[:2] == ["model", "layers"] and len(parts) > 2 and parts[2].isdecimal()


def shifted(name: str, below: int) -> str:
    """The name of a tensor when so many layers were put below the first."""
    parts = name.split(".")
    if parts[:2] == ["model", "layers"]:
        parts[2] = str(int(parts[2]) + below)
    return ".".join(parts)


def fill_widened(part: Path, source: Source, design: Design, network: Network, dtype: str) -> dict[str, Any]:
    """Write everything but the certificate into `part`; what `ungraft` has to know is returned."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    names, body = shard_names(source.place), design.body
    below, width = len(network.bottom), network.channels.width
    keep = part / KEPT
    keep.mkdir()
    weight_map: dict[str, str] = {}
    norms: dict[str, Tensor] = {}
    original: list[dict[str, str]] = []
    size = 0
    for number, name in enumerate(names, 1):
        new = f"model-{number:05d}-of-{len(names) + 1:05d}.safetensors"
        tensors: dict[str, Tensor] = {}
        with safe_open(source.place / name, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118
                tensor = file.get_tensor(key)
                tensors[shifted(key, below)] = with_network(key, tensor, body, network)
                if tensor.dim() == 1 and key.rsplit(".", 2)[-2].endswith("norm"):
                    norms[key] = tensor
        save_file(tensors, part / new, metadata={"format": "pt"})
        (keep / f"{name}.header").write_bytes(_header(source.place / name))
        weight_map.update(dict.fromkeys(tensors, new))
        size += (part / new).stat().st_size
        original.append({"was": name, "sha256": folders.file_sha256(source.place / name)})
    save_file(norms, keep / _NORMS, metadata={"format": "pt"})
    like = source.model.model.layers[0].state_dict()
    added: dict[str, Tensor] = {}
    for number, layer in [*enumerate(network.bottom), *enumerate(network.top, below + body.layers)]:
        added.update(layer.tensors(like, number))
    new = f"model-{len(names) + 1:05d}-of-{len(names) + 1:05d}.safetensors"
    save_file(added, part / new, metadata={"format": "pt"})
    weight_map.update(dict.fromkeys(added, new))
    size += (part / new).stat().st_size
    folders.write_json(part / INDEX, {"metadata": {"total_size": size}, "weight_map": weight_map})
    others = {}
    for path in sorted(source.place.iterdir()):
        if path.is_file() and path.suffix not in _SKIPPED and path.name != folders.CERTIFICATE:
            kept = path.name in ("config.json", INDEX, folders.CARD)
            shutil.copyfile(path, (keep if kept else part) / path.name)
            others[path.name] = folders.file_sha256(path)
    if source.grafted:
        # A graft below has files of its own, which have the same names as those of this one.
        for path in [source.place / folders.CERTIFICATE, *sorted(source.place.glob("*/**/*"))]:
            name = path.relative_to(source.place).as_posix()
            if path.is_file() and name.split("/")[0] not in folders.HARMLESS:
                (keep / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, keep / name)
                others[name] = folders.file_sha256(path)
    config = folders.read_json(source.place / "config.json")
    extra = below + len(network.top)
    config.update(
        hidden_size=width,
        head_dim=body.head,
        intermediate_size=network.inner,
        num_hidden_layers=body.layers + extra,
        rms_norm_eps=body.eps * body.width / width,
        dtype=dtype,
    )
    if isinstance(config.get("layer_types"), list):
        config["layer_types"] = [*config["layer_types"], *config["layer_types"][-1:] * extra]
    config.pop("torch_dtype", None)
    folders.write_json(part / "config.json", config)
    return {
        "layers": {"original": body.layers, "added": extra},
        "below": below,
        "channels": width - body.width,
        "original": original,
        "others": others,
    }


def with_network(key: str, tensor: Tensor, body: Body, network: Network) -> Tensor:
    """A tensor of the original, wider, with the parts of the network that stand in it."""
    wider = widened(key, tensor, body, network.channels.width, network.inner)
    if key == "model.embed_tokens.weight":
        # In float32 even where the original is shorter, since what is added is more exact than 16 bits are.
        wider = wider.float()
        wider[:, body.width :] = network.embedding.float()
    for number, asking in network.asking.items():
        here = f"model.layers.{number}."
        if key == f"{here}mlp.gate_proj.weight":
            wider[body.inner :] = asking.opens.to(tensor.dtype)
        elif key == f"{here}mlp.up_proj.weight":
            wider[body.inner :] = asking.up.to(tensor.dtype)
        elif key == f"{here}mlp.down_proj.weight":
            wider[:, body.inner :] = asking.down.to(tensor.dtype)
        elif key == f"{here}post_attention_layernorm.weight":
            wider[body.width :] = asking.norm.to(tensor.dtype)
    return wider
