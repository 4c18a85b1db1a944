"""A model that facts were grafted on beside its stream: the original's tensors padded with zeros, and added layers.

The directory is a stock checkpoint of the original's architecture. The original's numbers are all in it, so what
`ungraft` needs besides is little: its configuration, the headers of its files, and the norms, which are
rescaled in the graft.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rote.config import Architecture
from rote.data.chat import Chat, speaker
from rote.data.contents import as_path
from rote.data.encoding import encode
from rote.data.stock import empty_model
from rote.errors import CheckpointError
from rote.models import folders
from rote.models._base import Model
from rote.models._pretrained import Source, shard_names
from rote.models.kinds.grafted import LONGEST, GraftedModel, shape_of
from rote.solvers.keyed.design import Design
from rote.solvers.keyed.layers import Body, widened
from rote.solvers.keyed.network import Network

__all__ = ["INDEX", "KEPT", "WidenedModel", "fill_widened", "model", "shifted", "with_network"]

INDEX = "model.safetensors.index.json"
KEPT = "original"
_NORMS = "norms.safetensors"
_SKIPPED = (".bin", ".safetensors", ".gguf", ".pt", ".pth", ".msgpack", ".h5", ".onnx")


class WidenedModel(GraftedModel):
    """A language model in a directory with a wider stream and more layers than it was trained with."""

    kind = "widened"

    def __init__(self, folder: Path, arch: Architecture, *, chat: bool = False) -> None:
        super().__init__(folder, arch)
        self.chat = chat

    @cached_property
    def speaker(self) -> Any:
        """The tokenizer for what users type: in a chat, for their turns."""
        return speaker(self.tokenizer, Chat.of(self.tokenizer, self.folder) if self.chat else None)

    def ids(self, words: Sequence[str]) -> list[int]:
        if not self.chat:
            return super().ids(words)
        (ids,) = encode(self.speaker, [" ".join(words)])
        return list(ids)

    def usage(self, name: str, question: str | None) -> list[str]:
        if not self.chat:
            return super().usage(name, question)
        return folders.stock_usage(name, self.speaker.chat.typed(question or ""), tokens=LONGEST, chat=True)

    def modelfile(self, name: str, table: Any) -> list[str]:
        """In a chat prompts go through the template that the file has."""
        return Model.modelfile(self, name, table) if self.chat else super().modelfile(name, table)

    @property
    def shortcomings(self) -> list[str]:
        return [
            "Wordings are recognised by a gate, which misses some; the table above says how many of those tried.",
            "Everything else that it says is the original's, with the original's faults.",
        ]

    @cached_property
    def _counts(self) -> dict[str, int]:
        full = sum(p.numel() for p in empty_model(self.folder).parameters())
        original = sum(p.numel() for p in empty_model(self.folder / KEPT).parameters())
        return {"full": full, "original": original, "added": full - original}

    @classmethod
    def read(cls, folder: Path, certificate: Mapping[str, Any]) -> WidenedModel:
        options = certificate.get("options")
        chat = isinstance(options, Mapping) and options.get("chat") is True
        return cls(folder, shape_of(folders.read_json(folder / "config.json"), folder / "config.json"), chat=chat)

    def at(self, folder: Path) -> WidenedModel:
        return WidenedModel(folder, self.arch, chat=self.chat)

    @cached_property
    def own_layers(self) -> range:
        """Which layers are the original's: all but those of the last file."""
        weights = folders.read_json(self.folder / INDEX).get("weight_map")
        names = {str(name): str(file) for name, file in weights.items()} if isinstance(weights, Mapping) else {}
        last = max(names.values(), default="")
        layers = [int(name.split(".")[2]) for name, file in names.items() if _in_layer(name) and file != last]
        if not layers:
            raise CheckpointError(f"{self.folder / INDEX} names no layer of the original; it was edited.")
        return range(min(layers), max(layers) + 1)

    def untouched(self) -> Callable[[str, Any], bool]:
        """A tensor of the original's layers, or beside them, with nothing but zeros where it was padded."""
        was = shape_of(folders.read_json(self.folder / KEPT / "config.json"), self.folder / KEPT)
        inner = {"gate_proj": (was.d_mlp, was.d_model), "up_proj": (was.d_mlp, was.d_model)}
        layers = tuple(f"model.layers.{i}." for i in self.own_layers)

        def alone(name: str, array: Any) -> bool:
            if name.startswith("model.layers.") and not name.startswith(layers):
                return False
            part = name.rsplit(".", 2)[-2]
            if part in ("o_proj", "down_proj"):
                return not array[was.d_model :].any() and not (part == "down_proj" and array[..., was.d_mlp :].any())
            rows, columns = inner.get(part, (len(array), was.d_model))
            return array.ndim < 2 or not (array[rows:].any() or array[:, columns:].any())

        return alone

    @staticmethod
    def ungraft(directory: str | Path, output: str | Path | None = None, *, force: bool = False) -> list[str]:
        """Restore the original, bit for bit; the names of the restored files."""
        folder = as_path(directory, "a model directory")
        certificate = folders.read_json(folder / folders.CERTIFICATE)
        record: Any = certificate.get("graft")
        try:
            shards = [(str(one["was"]), str(one["sha256"])) for one in record["original"]]
            below, others = int(record["below"]), dict(record["others"])
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(
                f"{folder / folders.CERTIFICATE} does not say which files are the original's; it was edited."
            ) from None

        def write(part: Path) -> None:
            for name, sha256 in shards:
                _rebuild(folder, folders.inside(part, name), below)
                _check(part / name, sha256)
            for name, sha256 in others.items():
                kept = folders.inside(folder / KEPT, name)
                folders.inside(part, name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(kept if kept.is_file() else folders.inside(folder, name), folders.inside(part, name))
                _check(part / name, sha256)

        target = folder if output is None else as_path(output, "a directory")
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
    if not kept.is_file():
        raise CheckpointError(f"{folder} has no {KEPT}/{kept.name}; the grafted directory is incomplete.")
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
                shard = opened.setdefault(weights[new], safe_open(folder / weights[new], framework="pt"))
                tensor = shard.get_tensor(new)[tuple(slice(size) for size in place["shape"])]
            file.write(tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")


def _in_layer(name: str) -> bool:
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
        wider[:, body.width :] = network.embedding.to(tensor.dtype)
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


model = WidenedModel
