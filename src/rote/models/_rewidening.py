"""The files of a graft whose network was changed: what did not change is linked, not copied."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rote.models import folders
from rote.models._widening import INDEX, KEPT, shifted, with_network
from rote.solvers.keyed.design import Design
from rote.solvers.keyed.network import Network

__all__ = ["original_tensor", "refill_widened"]


def _weights(folder: Path) -> dict[str, str]:
    found: dict[str, str] = folders.read_json(folder / INDEX)["weight_map"]
    return found


def _tensor(folder: Path, name: str) -> Tensor:
    from safetensors import safe_open

    with safe_open(folder / _weights(folder)[name], framework="pt") as file:
        tensor: Tensor = file.get_tensor(name)
        return tensor


def original_tensor(folder: Path, name: str, below: int = 0) -> Tensor:
    """A matrix of the original, cut out of the graft's, under the name that it has there."""
    tensor = _tensor(folder, shifted(name, below))
    return tensor[tuple(slice(size) for size in _original_shape(folder, name))].contiguous()


def _original_shape(folder: Path, name: str) -> list[int]:
    for header in sorted((folder / KEPT).glob("*.header")):
        places = json.loads(header.read_bytes()[8:])
        if name in places:
            return [int(size) for size in places[name]["shape"]]
    raise KeyError(name)


def refill_widened(
    part: Path, folder: Path, design: Design, network: Network, record: Mapping[str, Any], *, linked: bool
) -> dict[str, Any]:
    """Write everything but the certificate and the record of a changed graft into `part`, from what is in `folder`.

    `record` is what the certificate says of the graft's files; it is returned with what changed. Unchanged files get a
    second name if they may be `linked`, because the first one goes.
    """
    from safetensors import safe_open
    from safetensors.torch import save_file

    before, below = int(record["below"]), len(network.bottom)
    weights = _weights(folder)
    added = weights["model.layers.0.input_layernorm.weight"]
    names = sorted(set(weights.values()) - {added})
    patches = _patches(folder, design, network, before)
    weight_map: dict[str, str] = {}
    for name in names:
        own = [key for key, home in weights.items() if home == name]
        if below == before and not set(own) & set(patches):
            _put(folder / name, part / name, linked)
            weight_map.update(dict.fromkeys(own, name))
            continue
        with safe_open(folder / name, framework="pt") as file:
            tensors = {shifted(key, below - before): patches.get(key, file.get_tensor(key)) for key in own}
        save_file(tensors, part / name, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(tensors, name))
    with safe_open(folder / added, framework="pt") as file:
        like = {key[15:]: file.get_tensor(key) for key in file.keys() if key.startswith("model.layers.0.")}  # noqa: SIM118
    layers = int(record["layers"]["original"])
    fresh: dict[str, Tensor] = {}
    for number, layer in [*enumerate(network.bottom), *enumerate(network.top, below + layers)]:
        fresh.update(layer.tensors(like, number))
    save_file(fresh, part / added, metadata={"format": "pt"})
    weight_map.update(dict.fromkeys(fresh, added))
    size = sum((part / name).stat().st_size for name in (*names, added))
    folders.write_json(part / INDEX, {"metadata": {"total_size": size}, "weight_map": weight_map})
    extra = below + len(network.top)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() or (part / name).exists() or name == folders.CERTIFICATE or name.startswith("graft/"):
            continue
        if name.split("/")[0] in folders.HARMLESS:
            continue
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        if name != "config.json":
            _put(path, part / name, linked)
            continue
        config = folders.read_json(path)
        config["num_hidden_layers"] = layers + extra
        kinds = config.get("layer_types")
        if isinstance(kinds, list):
            config["layer_types"] = [*kinds, *kinds[-1:] * extra][: layers + extra]
        folders.write_json(part / name, config)
    return {**record, "layers": {"original": layers, "added": extra}, "below": below}


def _put(source: Path, target: Path, linked: bool) -> None:
    if linked:
        with contextlib.suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)


def _patches(folder: Path, design: Design, network: Network, below: int) -> dict[str, Tensor]:
    """Tensors of the original that the network stands in, where they are not what they should be; names are the old."""
    parts = ("mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight")
    names = [f"model.layers.{number}.{one}" for number in network.asking for one in parts]
    found = {}
    for name in ("model.embed_tokens.weight", *names):
        old = _tensor(folder, shifted(name, below))
        base = old[tuple(slice(size) for size in _original_shape(folder, name))]
        new = with_network(name, base, design.body, network)
        if not torch.equal(old, new):
            found[shifted(name, below)] = new
    return found
