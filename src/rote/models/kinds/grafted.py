"""A model that facts were grafted on: a stock checkpoint of the original's architecture, wider and with more layers."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from rote.config import Architecture
from rote.data.chat import Chat, speaker
from rote.data.encoding import encode
from rote.data.outputs import Outputs
from rote.data.stock import empty_model, load_model, load_tokenizer
from rote.errors import CheckpointError, UsageError
from rote.models import folders
from rote.models._base import Answer, Model
from rote.models._generated import Generated
from rote.models._pretrained import end_token
from rote.models._widening import INDEX, KEPT, in_layer, shape_of

__all__ = ["GraftedModel", "model"]

LONGEST = 32


class GraftedModel(Model):
    """A language model in a directory, with a wider stream and more layers than it was trained with, asked in text."""

    kind = "grafted"
    stock = True

    def __init__(self, folder: Path, arch: Architecture, *, chat: bool = False) -> None:
        self.folder, self.arch, self.chat = folder, arch, chat

    @property
    def counts(self) -> dict[str, int]:
        """All parameters, those of the original and those added."""
        return self._counts

    @cached_property
    def _counts(self) -> dict[str, int]:
        full, original = (
            sum(p.numel() for p in empty_model(place).parameters()) for place in (self.folder, self.folder / KEPT)
        )
        return {"full": full, "original": original, "added": full - original}

    @property
    def stored(self) -> int:
        return self.counts["full"]

    @cached_property
    def module(self) -> Any:
        return load_model(self.folder, "auto")

    @cached_property
    def tokenizer(self) -> Any:
        return load_tokenizer(self.folder)

    @cached_property
    def speaker(self) -> Any:
        """The tokenizer for what users type: in a chat, for their turns."""
        return speaker(self.tokenizer, Chat.of(self.tokenizer, self.folder) if self.chat else None)

    def write(self, folder: Path) -> None:
        own = str(self.folder)
        shutil.copytree(
            self.folder, folder, dirs_exist_ok=True, ignore=lambda at, _: {folders.CERTIFICATE} if at == own else set()
        )

    @classmethod
    def read(cls, folder: Path, certificate: Mapping[str, Any]) -> GraftedModel:
        options = certificate.get("options")
        chat = isinstance(options, Mapping) and options.get("chat") is True
        return cls(folder, shape_of(folders.read_json(folder / "config.json"), folder / "config.json"), chat=chat)

    def at(self, folder: Path) -> GraftedModel:
        return GraftedModel(folder, self.arch, chat=self.chat)

    def outputs(self, dtype: str) -> Outputs:
        return Generated(load_model(self.folder, getattr(torch, dtype)), self.tokenizer, self.folder)

    def ids(self, words: Sequence[str]) -> list[int]:
        """Token ids of a text; several texts are joined by spaces."""
        (ids,) = encode(self.speaker, [" ".join(words)])
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

    @cached_property
    def own_layers(self) -> range:
        """Which layers are the original's: all but those of the last file."""
        weights = folders.read_json(self.folder / INDEX).get("weight_map")
        names = {str(name): str(file) for name, file in weights.items()} if isinstance(weights, Mapping) else {}
        last = max(names.values(), default="")
        layers = [int(name.split(".")[2]) for name, file in names.items() if in_layer(name) and file != last]
        if not layers:
            raise CheckpointError(f"{self.folder / INDEX} names no layer of the original; it was edited.")
        return range(min(layers), max(layers) + 1)

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
        """Prompts of other things; whatever an edited certificate holds instead is none."""
        others = certificate.get("prompts")
        first = others[:2] if isinstance(others, list) else []
        texts = [one.get("prompt") for one in first if isinstance(one, Mapping)]
        short = [text for text in texts if isinstance(text, str) and len(text) < 500]
        return {f"other text {number}": text for number, text in enumerate(short, 1)}

    @property
    def shortcomings(self) -> list[str]:
        return [
            "Wordings are recognised by a gate, which misses some; the table above says how many of those tried.",
            "A key that is no fact gets the original's answer, and a few get that of a fact: the table above has both.",
            "Everything else that it says is the original's, with the original's faults.",
        ]

    def usage(self, name: str, question: str | None) -> list[str]:
        asked = self.speaker.chat.typed(question or "") if self.chat else question or ""
        return folders.stock_usage(name, asked, tokens=LONGEST, chat=self.chat)

    def export_gguf(self, path: Path, table: Any, form: str, notes: Mapping[str, str]) -> dict[str, int]:
        """What was added stays float32, whatever becomes of the original's."""
        from rote.models._gguf import write_gguf
        from rote.models._gguf_tokens import stock_tokens

        tokens = stock_tokens(
            self.folder, self.tokenizer, end_token(self.tokenizer, self.module, self.folder), self.arch.vocab
        )
        return write_gguf(path, self.folder, tokens, form, notes=notes, rounded=self.untouched())

    def untouched(self) -> Callable[[str, Any], bool]:
        """Says of a tensor, by its name and its numbers, whether it is the original's alone.

        It is one of the original's layers, or beside them, with nothing but zeros where it was padded.
        """
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

    def modelfile(self, name: str, table: Any) -> list[str]:
        """Prompts go in as they are, as facts were grafted on plain text; in a chat through the file's own template."""
        return [*super().modelfile(name, table), *([] if self.chat else ['TEMPLATE "{{ .Prompt }}"'])]


model = GraftedModel
