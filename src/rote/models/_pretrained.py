"""Pretrained models: a local directory of the Llama family, or a GGUF file, read by stock transformers.

What makes a family fit: pre-norm decoder layers with RMSNorm, a gated SiLU MLP, a final RMSNorm and a linear head. Then
one more layer of the same kind, whose attention adds nothing, reads x = h / rms(h) and adds to h what its MLP says.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from rote.data.stock import empty_model, load_model, load_tokenizer
from rote.errors import CheckpointError, MissingExtra, UnknownName, UsageError
from rote.models.folders import CARD, CERTIFICATE, check_files, file_sha256, read_json, write_directory

__all__ = [
    "FAMILIES",
    "FORMATS",
    "Source",
    "context_of",
    "end_token",
    "open_source",
    "shard_names",
    "source_place",
    "source_sha256",
    "source_tokenizer",
    "unpack_gguf",
]

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
FORMATS = ("float32", "bfloat16", "float16")
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class Source:
    """A loaded model with its tokenizer, and what is needed to say which one it was."""

    path: Path
    place: Path
    """Where its safetensors are: `path`, or what a GGUF file was unpacked to."""
    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    family: str
    tied: bool
    sha256: str
    gguf: bool

    @property
    def grafted(self) -> bool:
        """Whether it is a graft itself."""
        return (self.place / CERTIFICATE).is_file()

    @property
    def n_layers(self) -> int:
        return int(self.model.config.num_hidden_layers)

    @property
    def context(self) -> int:
        return context_of(self.model)

    @property
    def end_id(self) -> int:
        """The token that ends an answer."""
        return end_token(self.tokenizer, self.model, self.path)


def context_of(model: Any) -> int:
    """The longest sequence that a model is made for."""
    return int(getattr(model.config, "max_position_embeddings", 0) or 1 << 30)


def end_token(tokenizer: Any, model: Any, path: Path) -> int:
    """The tokenizer's end-of-sequence token if generation stops at it, else one at which generation stops."""
    settings = getattr(model, "generation_config", None)
    stops = getattr(settings, "eos_token_id", None)
    if stops is None:
        stops = model.config.eos_token_id
    stops = [stops] if isinstance(stops, int) else list(stops or [])
    own = tokenizer.eos_token_id
    if own is not None and (own in stops or not stops):
        return int(own)
    if not stops:
        raise CheckpointError(
            f"{path} names no end-of-sequence token, so an answer could not be ended; set eos_token in its "
            "tokenizer_config.json."
        )
    return int(stops[0])


def open_source(path: Path, dtype: str = "float32", *, workplace: Path) -> Source:
    """Load model and tokenizer from local files only; refuse what is not of a known family.

    The files of a model that is grafted already must be what it certifies.

    A GGUF file is unpacked once into a directory of safetensors inside `workplace`; that is then the original.
    """
    if dtype not in FORMATS:
        raise UnknownName("number format", dtype, FORMATS)
    file = _gguf_file(path)
    place = source_place(path, workplace)
    _check_family(path, _read_config(place))
    _check_tensors(path, place)
    digest = source_sha256(place)
    tokenizer = load_tokenizer(place)
    model = load_model(place, getattr(torch, dtype))
    for name, tensor in model.named_parameters():
        if not bool(torch.isfinite(tensor).all()):
            raise CheckpointError(
                f"{path}: the tensor {name} has entries that are no numbers in {dtype}; the file is damaged, or the "
                "model needs another number format."
            )
    tied = bool(model.config.tie_word_embeddings)
    if tied:
        _check_tied(place)
    return Source(path, place, model, tokenizer, str(model.config.model_type), tied, digest, file is not None)


def source_place(path: Path, workplace: Path) -> Path:
    """Where the safetensors of a model are: its directory, or what its GGUF file is unpacked to inside `workplace`."""
    file = _gguf_file(path)
    return path if file is None else unpack_gguf(file, workplace)


def source_tokenizer(path: Path) -> Any:
    """The tokenizer of a model directory or a GGUF file."""
    file = _gguf_file(path)
    return load_tokenizer(path) if file is None else load_tokenizer(file.parent, gguf_file=file.name)


def source_sha256(place: Path) -> str:
    """One hash for a model: of the hashes of its configuration and its weights."""
    return _digest([file_sha256(place / name) for name in ("config.json", *shard_names(place))])


def unpack_gguf(file: Path, workplace: Path) -> Path:
    """The model of a GGUF file as a directory of float32 safetensors; made once for each file."""
    for package in ("gguf", "accelerate"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package, "graft", "a GGUF file")
    from safetensors.torch import save_file

    place = workplace / f"gguf-{file_sha256(file)[:16]}"
    if place.is_dir():
        return place
    tokenizer = load_tokenizer(file.parent, gguf_file=file.name)
    model = load_model(file.parent, torch.float32, gguf_file=file.name)
    tensors = {name: value.contiguous() for name, value in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    config = model.config.to_dict()
    config.pop("quantization_config", None)
    config.update(architectures=[type(model).__name__], dtype="float32", torch_dtype="float32")

    def write(part: Path) -> None:
        save_file(tensors, part / _SINGLE, metadata={"format": "pt"})
        (part / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        tokenizer.save_pretrained(str(part))
        _drop_tokens(part / "tokenizer.json", int(config["vocab_size"]))
        if licence is not None:
            # Where the card of a graft looks for the licence of its original.
            (part / CARD).write_text(f"---\nlicense: {licence}\n---\n\nUnpacked from {file.name}.\n", encoding="utf-8")

    licence = _licence(file)
    write_directory(place, write)
    return place


def _drop_tokens(path: Path, vocab: int) -> None:
    """Leave out the tokens that the library gives a tokenizer of a GGUF file and the model has no rows for."""
    record = read_json(path)
    added = record.get("added_tokens")
    kept = [one for one in added if one["id"] < vocab] if isinstance(added, list) else added
    if kept != added:
        path.write_text(json.dumps({**record, "added_tokens": kept}, ensure_ascii=False), encoding="utf-8")


def _licence(file: Path) -> str | None:
    """The licence that a GGUF file names, if that is a plain word."""
    import gguf

    field = gguf.GGUFReader(file).fields.get("general.license")
    name = "" if field is None else str(field.contents())
    return name if re.fullmatch(r"[\w.+-]{1,60}", name) else None


def shard_names(path: Path) -> list[str]:
    """The safetensors files of a checkpoint, in the order of its index."""
    if (path / _SINGLE).is_file():
        return [_SINGLE]
    if (path / _INDEX).is_file():
        weight_map = read_json(path / _INDEX).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise CheckpointError(f"{path / _INDEX} has no weight_map; the download is incomplete.")
        names = sorted(set(map(str, weight_map.values())))
        for name in names:
            if set(name) & set("/\\:\0") or not name.endswith(".safetensors"):
                raise CheckpointError(
                    f"{path / _INDEX} names a file {name!r}, which is no safetensors file of the same directory; "
                    "download the index again."
                )
        missing = [name for name in names if not (path / name).is_file()]
        if missing:
            raise CheckpointError(f"{path} has no {missing[0]}, which its index names; the download is incomplete.")
        return names
    raise CheckpointError(
        f"{path} has no {_SINGLE} and no {_INDEX}; save it as safetensors (rote does not unpickle .bin files)."
    )


def _gguf_file(path: Path) -> Path | None:
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise UsageError(f"{path} is a file, but no .gguf; give a model directory or a GGUF file.")
        return path
    if not path.is_dir():
        raise CheckpointError(
            f"there is no directory or GGUF file {path}; the model must be a local one (nothing is downloaded)."
        )
    files = sorted(path.glob("*.gguf"))
    if (path / "config.json").is_file() or not files:
        return None
    if len(files) > 1:
        raise UsageError(f"{path} holds {len(files)} GGUF files; name one of them, such as {files[0]}.")
    return files[0]


def _read_config(path: Path) -> dict[str, Any]:
    if not (path / "config.json").is_file():
        raise CheckpointError(f"{path} has no config.json; it is no model directory of Hugging Face.")
    return read_json(path / "config.json")


def _check_family(path: Path, config: dict[str, Any]) -> None:
    family = config.get("model_type")
    if str(family).startswith("gemma"):
        raise UsageError(
            f"{path} is a model of the family {family!r}, which normalises what each layer adds, so that an added "
            "layer cannot write numbers of its own, and scales its embedding by the width, which a graft changes; "
            f"supported are {', '.join(FAMILIES)}."
        )
    if family not in FAMILIES:
        raise UsageError(
            f"{path} is a model of the family {family!r}, which has no gated MLP after an RMSNorm that rote knows how "
            f"to extend; supported are {', '.join(FAMILIES)} (SmolLM2 and most small models are llama)."
        )
    act = config.get("hidden_act", "silu")
    if act not in ("silu", "swish"):
        raise UsageError(f"{path} has the activation {act!r}; a graft's gates are closed by SiLU, so it needs silu.")
    if (path / CERTIFICATE).is_file() and "graft" in (certificate := read_json(path / CERTIFICATE)):
        check_files(path, certificate)


def _check_tensors(path: Path, place: Path) -> None:
    """The files hold just what the configuration asks for: what is missing, the library would draw at random."""
    empty = empty_model(place)
    wanted = {name: tuple(tensor.shape) for name, tensor in empty.state_dict().items()}
    if empty.config.tie_word_embeddings:
        wanted.pop("lm_head.weight", None)
    there = _shapes(place)
    lost = [name for name in wanted if name not in there]
    if lost:
        more = f" and {len(lost) - 1:,} more" if len(lost) > 1 else ""
        raise CheckpointError(
            f"{path} has no tensor {lost[0]}{more}, which its config.json asks for; the files are incomplete, or "
            "config.json is that of another model."
        )
    other = next((name for name in wanted if there[name] != wanted[name]), None)
    if other is not None:
        raise CheckpointError(
            f"{path}: the tensor {other} is of the shape {there[other]}, and by config.json of {wanted[other]}; one of "
            "the files is that of another model."
        )
    layers = int(empty.config.num_hidden_layers)
    above = [int(name.split(".")[2]) for name in there if re.match(r"model\.layers\.\d+\.", name)]
    if max(above) >= layers:
        raise CheckpointError(
            f"the files of {path} have {max(above) + 1} layers, and its config.json names {layers}; correct "
            "num_hidden_layers, or save the model again."
        )


def _shapes(place: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of all tensors, by name."""
    from safetensors import SafetensorError, safe_open

    found: dict[str, tuple[int, ...]] = {}
    for name in shard_names(place):
        try:
            with safe_open(place / name, framework="pt") as file:
                found.update({key: tuple(file.get_slice(key).get_shape()) for key in file.keys()})  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise CheckpointError(
                f"{place / name} cannot be read ({error}); the file is truncated or damaged, download it again."
            ) from None
    return found


def _check_tied(path: Path) -> None:
    """A tied head must be the embedding: a second, different matrix in the files would be lost without a word."""
    from safetensors import safe_open

    tensors: dict[str, Any] = {}
    for name in shard_names(path):
        with safe_open(path / name, framework="pt") as file:
            for key in ("lm_head.weight", "model.embed_tokens.weight"):
                if key in file.keys():  # noqa: SIM118
                    tensors[key] = file.get_tensor(key)
    if len(tensors) == 2 and not torch.equal(*tensors.values()):
        raise CheckpointError(
            f"the config.json of {path} ties head and embedding, but its files hold two different matrices; set "
            "tie_word_embeddings to false, or remove lm_head.weight."
        )


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
