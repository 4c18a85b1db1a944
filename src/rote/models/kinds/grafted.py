"""A grafted model: a stock checkpoint of the original's architecture with added shards and a raised layer count.

The original's safetensors files are copied byte for byte under the names of a sharded checkpoint; the added layers are
one more shard. What had to change (config.json, the index) is kept in `original/`, so that `ungraft` only has to put
files back, and to check their hashes.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rote.config import Architecture
from rote.data.arguments import checked
from rote.data.contents import as_path
from rote.data.encoding import Continuation, Prompt, encode, encode_prompts
from rote.data.outputs import Outputs
from rote.data.stock import empty_model, load_model, load_tokenizer
from rote.errors import CheckpointError, UsageError
from rote.models import folders
from rote.models._base import Answer, Model
from rote.models._pretrained import Source, context_of, end_token, shard_names

__all__ = ["Generated", "GraftedModel", "fill_graft", "layer_tensors", "model", "shape_of", "ungraft"]

_INDEX = "model.safetensors.index.json"
_KEPT = "original"
_WEIGHTS = (".bin", ".safetensors", ".gguf", ".pt", ".pth", ".msgpack", ".h5", ".onnx")
LONGEST = 32


class GraftedModel(Model):
    """A language model in a directory, with more layers than it was trained with. It is asked in plain text."""

    kind = "grafted"
    stock = True

    def __init__(self, folder: Path, arch: Architecture) -> None:
        self.folder, self.arch = folder, arch

    @property
    def counts(self) -> dict[str, int]:
        """All parameters, those of the original and those added."""
        return self._counts

    @cached_property
    def _counts(self) -> dict[str, int]:
        full, layers = _sizes(self.folder)
        added = sum(layers[_original_layers(self.folder) :])
        return {"full": full, "original": full - added, "added": added}

    @property
    def stored(self) -> int:
        return self.counts["full"]

    def record(self, stated: Any, files: Mapping[str, str]) -> dict[str, Any]:
        """What the directory says about how it was made, of all that a certificate states; `files` are its hashes."""
        index, original = self.folder / _KEPT / _INDEX, _original_layers(self.folder)
        shards = [name for name in files if name.endswith(".safetensors") and "/" not in name]
        names = sorted(set(map(str, folders.read_json(index)["weight_map"].values()))) if index.is_file() else []
        rows, told = [], stated.get("shards") if isinstance(stated, Mapping) else None
        told = told if isinstance(told, list) else []
        for number, file in enumerate(shards[:-1]):
            # The one file of a checkpoint may have an index beside it that speaks of others.
            able = [*names[number : number + 1] * (len(names) == len(shards) - 1), *["model.safetensors"][number:]]
            said = next((one.get("was") for one in told if isinstance(one, Mapping) and one.get("file") == file), None)
            rows.append({"file": file, "was": said if said in able else able[0], "sha256": files[file]})
        return {
            "layers": {"original": original, "added": self.arch.n_layers - original},
            "shards": rows,
            "added": {"file": shards[-1], "sha256": files[shards[-1]]},
            "original_sha256": folders.hashes(self.folder / _KEPT),
        }

    @cached_property
    def module(self) -> Any:
        return load_model(self.folder, "auto")

    @cached_property
    def tokenizer(self) -> Any:
        return load_tokenizer(self.folder)

    def write(self, folder: Path) -> None:
        own = str(self.folder)
        shutil.copytree(
            self.folder, folder, dirs_exist_ok=True, ignore=lambda at, _: {folders.CERTIFICATE} if at == own else set()
        )

    @classmethod
    def read(cls, folder: Path, certificate: Mapping[str, Any]) -> GraftedModel:
        return cls(folder, shape_of(folders.read_json(folder / "config.json"), folder / "config.json"))

    def at(self, folder: Path) -> GraftedModel:
        return GraftedModel(folder, self.arch)

    def outputs(self, dtype: str) -> Outputs:
        return Generated(load_model(self.folder, getattr(torch, dtype)), self.tokenizer, self.folder)

    def generated(self, prompts: Sequence[Prompt]) -> list[Continuation]:
        """What the library's own generate() says to prompts, in the format that the model is stored in."""
        return Generated(self.module, self.tokenizer, self.folder).continuations(prompts)

    def ids(self, words: Sequence[str]) -> list[int]:
        """Token ids of a text; several texts are joined by spaces."""
        (ids,) = encode(self.tokenizer, [" ".join(words)])
        if not ids:
            raise UsageError("the text is empty or has nothing that the model's tokenizer knows; ask in words of its.")
        return list(ids)

    def answers(self, words: Sequence[str], top: int) -> list[Answer]:
        """One answer: what the model goes on with, and the probability of the first token of it."""
        ids = self.ids(words)
        said = Generated(self.module, self.tokenizer, self.folder).spoken(ids, LONGEST)
        with torch.no_grad():
            logits = self.module(torch.tensor([ids])).logits[0, -1].to(torch.float64)
        sure = float(torch.softmax(logits, 0)[said[0]])
        return [Answer(str(self.tokenizer.decode(said, skip_special_tokens=True)), sure, float(logits[said[0]]))]

    def logits(self, contexts: Any) -> Any:
        return self.module(contexts).logits[:, -1]

    def before(self, words: Sequence[str]) -> str | None:
        """The original's answer: that of its own layers."""
        ids = self.ids(words)
        with self.original():
            said = Generated(self.module, self.tokenizer, self.folder).spoken(ids, LONGEST)
        return str(self.tokenizer.decode(said, skip_special_tokens=True))

    def speak(self, words: Sequence[str], heard: Callable[[str], None], *, before: bool = False) -> str:
        ids, said = self.ids(words), list[int]()

        def hear(tokens: Sequence[int]) -> None:
            said.extend(tokens)
            heard(str(self.tokenizer.decode(said, skip_special_tokens=True)))

        with self.original() if before else contextlib.nullcontext():
            last = Generated(self.module, self.tokenizer, self.folder).spoken(ids, LONGEST, hear)
        return str(self.tokenizer.decode(last, skip_special_tokens=True))

    @property
    def own_layers(self) -> range:
        """Which layers are the original's."""
        return range(_original_layers(self.folder))

    @contextlib.contextmanager
    def original(self) -> Iterator[None]:
        """The module without its added layers, for a while."""
        inner, layers = self.module.model, self.module.model.layers
        own = self.own_layers
        try:
            inner.layers = layers[own.start : own.stop]
            for number, layer in enumerate(inner.layers):
                layer.self_attn.layer_idx = number  # where the cache keeps what it has seen
            yield
        finally:
            inner.layers = layers
            for number, layer in enumerate(layers):
                layer.self_attn.layer_idx = number

    def trials(self, certificate: Mapping[str, Any]) -> dict[str, str]:
        """A key that no row has, and prompts of other things; whatever an edited certificate holds instead is none."""
        near, others = certificate.get("near_misses"), certificate.get("prompts")
        found = {"a key that no fact has": near.get("example")} if isinstance(near, Mapping) else {}
        for one in others[:2] if isinstance(others, list) else []:
            found[f"other text {len(found)}"] = one.get("prompt") if isinstance(one, Mapping) else None
        return {about: text for about, text in found.items() if isinstance(text, str) and len(text) < 500}

    @property
    def shortcomings(self) -> list[str]:
        return [
            "The prompts above are keys: other wordings of a question are other keys, and mostly find no answer.",
            "Everything else that it says is the original's, with the original's faults.",
        ]

    def usage(self, name: str, question: str | None) -> list[str]:
        return folders.stock_usage(name, question or "", tokens=LONGEST)

    def export_gguf(self, path: Path, table: Any, form: str, notes: Mapping[str, str]) -> dict[str, int]:
        """What was added stays float32, whatever becomes of the original's."""
        from rote.models._gguf import write_gguf
        from rote.models._gguf_tokens import stock_tokens

        tokens = stock_tokens(
            self.folder, self.tokenizer, end_token(self.tokenizer, self.module, self.folder), self.arch.vocab
        )
        return write_gguf(path, self.folder, tokens, form, notes=notes, rounded=self.untouched())

    def untouched(self) -> Callable[[str, Any], bool]:
        """Says of a tensor, by its name and its numbers, whether it is the original's alone."""
        added = tuple(f"model.layers.{i}." for i in range(self.own_layers.stop, self.arch.n_layers))
        return lambda name, array: not name.startswith(added)

    def modelfile(self, name: str, table: Any) -> list[str]:
        """Prompts go in as they are: the facts were grafted on plain text."""
        return [*super().modelfile(name, table), 'TEMPLATE "{{ .Prompt }}"']


class Generated(Outputs):
    """Continuations by the library's own generate(), one prompt at a time."""

    gives = "text that goes on"
    takes = "text"

    def __init__(self, module: Any, tokenizer: Any, folder: Path) -> None:
        self.module, self.tokenizer, self.end = module, tokenizer, end_token(tokenizer, module, folder)

    def continuations(self, prompts: Sequence[Prompt]) -> list[Continuation]:
        facts = encode_prompts(prompts, self.tokenizer, end_id=self.end, context=context_of(self.module))
        said = [tuple(self.spoken(fact.ids, len(fact.answer_ids))) for fact in facts]
        return [
            Continuation(ids, str(self.tokenizer.decode(list(ids), skip_special_tokens=False)), fact.answer_ids)
            for ids, fact in zip(said, facts, strict=True)
        ]

    def spoken(
        self, ids: Sequence[int], length: int, heard: Callable[[Sequence[int]], None] | None = None
    ) -> list[int]:
        """A greedy continuation of at most so many tokens; each is told to `heard` as it comes."""
        given = torch.tensor([list(ids)])
        with torch.no_grad():
            out = self.module.generate(
                given,
                attention_mask=torch.ones_like(given),
                max_new_tokens=length,
                do_sample=False,
                repetition_penalty=1.0,
                eos_token_id=self.end,
                pad_token_id=self.end,
                streamer=None if heard is None else _Listener(heard),
            )
        said: list[int] = out[0, given.shape[1] :].tolist()
        return said


class _Listener:
    """What the library calls a streamer: it is handed the prompt, and then token after token."""

    def __init__(self, heard: Callable[[Sequence[int]], None]) -> None:
        self._heard, self._begun = heard, False

    def put(self, tokens: Tensor) -> None:
        if self._begun:
            self._heard(tokens.flatten().tolist())
        self._begun = True

    def end(self) -> None:
        """There is nothing left to be told."""


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


def _original_layers(folder: Path) -> int:
    """How many layers the original has, by the configuration that is kept."""
    return int(folders.read_json(folder / _KEPT / "config.json")["num_hidden_layers"])


def _sizes(folder: Path) -> tuple[int, list[int]]:
    """Parameters of a checkpoint in all and by layer, without reading its weights."""
    empty = empty_model(folder)
    count = [sum(p.numel() for p in part.parameters()) for part in (empty, *empty.model.layers)]
    return count[0], count[1:]


def layer_tensors(model: Any, number: int, gate: Tensor, up: Tensor, down: Tensor) -> dict[str, Tensor]:
    """One decoder layer of the model's own kind: attention of zeros, norms of ones, and the given MLP."""
    tensors: dict[str, Tensor] = {}
    ours = {"mlp.gate_proj.weight": gate, "mlp.up_proj.weight": up, "mlp.down_proj.weight": down}
    for name, like in model.model.layers[-1].state_dict().items():
        value = ours.get(name)
        if value is None:
            value = torch.ones(like.shape) if name.endswith("norm.weight") else torch.zeros(like.shape)
        tensors[f"model.layers.{number}.{name}"] = value.to(model.dtype).contiguous()
    return tensors


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
        shards.append({"file": new, "was": name, "sha256": folders.file_sha256(part / new)})
    added = f"model-{total:05d}-of-{total:05d}.safetensors"
    save_file(dict(tensors), part / added, metadata={"format": "pt"})
    weight_map.update(dict.fromkeys(tensors, added))
    size += (part / added).stat().st_size
    folders.write_json(part / _INDEX, {"metadata": {"total_size": size}, "weight_map": weight_map})
    for path in sorted(source.place.iterdir()):
        if not path.is_file() or path.suffix in _WEIGHTS or path.name == folders.CERTIFICATE:
            continue
        kept = path.name in ("config.json", _INDEX, folders.CARD)
        shutil.copyfile(path, (keep if kept else part) / path.name)
    config = folders.read_json(source.place / "config.json")
    layers = shape_of(config, source.place / "config.json").n_layers
    config["num_hidden_layers"] = layers + n_added
    if isinstance(config.get("layer_types"), list):
        config["layer_types"] = [*config["layer_types"], *config["layer_types"][-1:] * n_added]
    config["dtype"] = dtype
    config.pop("torch_dtype", None)
    folders.write_json(part / "config.json", config)
    return {
        "layers": {"original": layers, "added": n_added},
        "shards": shards,
        "added": {"file": added, "sha256": folders.file_sha256(part / added)},
        "original_sha256": folders.hashes(keep),
    }


@dataclass(frozen=True)
class _Record:
    """What a certificate says about taking a graft off again."""

    back: tuple[tuple[Path, str, str], ...]
    """Files that get another name: where they are, the name, and the hash."""
    own: frozenset[Path]
    """Files of the graft's own."""

    @classmethod
    def of(cls, folder: Path, record: Any) -> _Record:
        """The record of a certificate; names that lead out of the directory are refused."""
        if not isinstance(record, Mapping):
            raise CheckpointError(f"{folder} is no grafted model, so there is nothing to take off.")
        try:
            shards = [(folders.inside(folder, one["file"]), one["was"], one["sha256"]) for one in record["shards"]]
            kept = [(folders.inside(folder / _KEPT, n), n, sha256) for n, sha256 in record["original_sha256"].items()]
            own = (record["added"]["file"], "config.json", _INDEX, folders.CERTIFICATE)
            moved = {folders.inside(folder, name) for name in own} | {path for path, _, _ in shards}
        except (AttributeError, KeyError, TypeError):
            raise CheckpointError(
                f"{folder / folders.CERTIFICATE} does not say which files are the original's; it was edited."
            ) from None
        for _, name, _ in (*shards, *kept):
            if folders.inside(folder, name).parent != folder:
                raise CheckpointError(f"{folder / folders.CERTIFICATE} names a file {name!r} in a sub-directory.")
        return cls((*shards, *kept), frozenset(moved))


@checked
def ungraft(directory: str | Path, output: str | Path | None = None, *, force: bool = False) -> list[str]:
    """Restore the original from a grafted directory, bit for bit; the names of the restored files.

    Without an `output` the directory itself becomes the original again.
    """
    folder = as_path(directory, "a model directory")
    certificate = folders.read_json(folder / folders.CERTIFICATE)
    record, listed = _Record.of(folder, certificate.get("graft")), folders.listed_files(folder, certificate)
    restored: list[str] = []

    def put(source: Path, target: Path, sha256: str) -> None:
        if not source.is_file():
            raise CheckpointError(f"{source.parent} has no {source.name}; the grafted directory is incomplete.")
        shutil.copyfile(source, target)
        if folders.file_sha256(target) != sha256:
            raise CheckpointError(
                f"{source} is not what the graft's certificate speaks of; it was changed, so the original cannot be "
                "restored from it."
            )
        restored.append(target.name)

    def write(part: Path) -> None:
        for source, name, sha256 in record.back:
            put(source, folders.inside(part, name), sha256)
        for path, sha256 in listed.items():
            if path.parent == folder and path not in record.own:
                put(path, part / path.name, sha256)
        for name in folders.HARMLESS:
            if name == folders.CARD and folders.is_card(folder / name):
                continue  # the graft's own
            if (folder / name).is_dir():
                shutil.copytree(folder / name, part / name, symlinks=True)
            elif (folder / name).is_file() and not (part / name).exists():
                shutil.copyfile(folder / name, part / name)

    target = folder if output is None else as_path(output, "a directory")
    folders.write_directory(target, write, force=force or output is None)
    if output is None and folders.is_card(target / folders.CARD):
        (target / folders.CARD).unlink()  # the graft's own, which was in the way of nothing
    return sorted(restored)


model = GraftedModel
