"""The contract of models: what is written to a directory, read back, asked, and looked into.

A kind is one file of this package, found by its name, that defines `model`, a subclass of `Model`. What a model says of
itself is never what is certified: the referee reads the directory with code of its own, and only for a kind that it
does not know does it run the model's own `outputs` (the certificate then says so). `rote.testing.check_model` holds a
model against this contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rote.config import CONVENTIONS, Architecture
from rote.data.reading import Tokens
from rote.data.vocabulary import PAD
from rote.errors import UnknownName, UsageError
from rote.models.properties import PropertyCutter
from rote.models.questions import Cutter

if TYPE_CHECKING:
    from torch import nn

    from rote.data.outputs import Outputs
    from rote.models._views import HeadsView, Piece

__all__ = ["Answer", "Model", "Wording", "bare_usage"]

_MOST_SHOWN = 12


@dataclass(frozen=True)
class Answer:
    """One answer to a question; `true` is the probability that the table gives it, where a model carries its table."""

    token: str
    probability: float
    logit: float
    true: float | None = None
    unknown: bool = False
    """The model says that the context is none of its facts; `token` is then no token of the vocabulary."""
    known: bool | None = None
    """False for a context that is not in the table that the model was built from, so that the answer is a guess; None
    where nothing lies beside the model that could tell. A small share of such contexts passes as known."""


def bare_usage(name: str, last: str = "print(memory)  # what it holds") -> list[str]:
    """Lines of Python that load the directory of this name, and one more."""
    return ["import rote", "", f"memory = rote.load({name!r})", last]


@dataclass(frozen=True)
class Wording:
    """The words of a model: its vocabulary, what a token of a text is, and how many tokens a context has.

    Where there are `properties`, one of them is the last token of every context, and what stands before it is a key.
    """

    vocabulary: tuple[str, ...]
    tokens: Tokens
    context: int
    properties: tuple[str, ...] = ()
    _ids: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._ids.update({token: i for i, token in enumerate(self.vocabulary)})

    @property
    def pad_id(self) -> int | None:
        return self._ids.get(PAD)

    @cached_property
    def cutter(self) -> Cutter:
        """Cuts what people type into tokens."""
        if self.properties and self.context > 1:
            return PropertyCutter(self._ids, self.tokens, self.context, self.properties)
        return Cutter(self._ids, self.tokens, self.context)

    def text(self, ids: Sequence[int]) -> str:
        """A context as one types it."""
        return self.cutter.join([self.vocabulary[i] for i in ids if i != self.pad_id])

    def known(self, token: str) -> int:
        """The id of a token; one that the model does not know is refused, with the nearest ones."""
        if token not in self._ids or token == PAD:
            raise UnknownName("token", token, [t for t in self.vocabulary if t != PAD])
        return self._ids[token]

    def encode(self, words: Sequence[str]) -> list[int]:
        """Token ids of a context, padded on the left where the model knows padding."""
        return self.encode_tokens(self.cutter.cut(words))

    def encode_tokens(self, parts: Sequence[str]) -> list[int]:
        """The same for a context that is cut into tokens already."""
        ids = [self._ids[PAD] if part == PAD and PAD in self._ids else self.known(part) for part in parts]
        if len(ids) < self.context and PAD in self._ids and ids:
            ids = [self._ids[PAD]] * (self.context - len(ids)) + ids
        if len(ids) != self.context:
            marks = {"": "nothing", "\t": "tabs", " ": "spaces"}
            mark = marks[self.cutter.mark]
            shown = ", ".join(parts[:_MOST_SHOWN]) + (", ..." if len(parts) > _MOST_SHOWN else "")
            raise UsageError(
                f"a context of this model has {self.context} token{'s' if self.context > 1 else ''}, got {len(ids)}"
                f" ({shown or 'nothing'}); give them one by one, or as one text with {mark} between them."
            )
        return ids


class Model(ABC):
    """Weights with a meaning. `wording` is None for models that do not read tokens."""

    kind: ClassVar[str]
    """The name of the file that defines the class."""
    stock: ClassVar[bool] = False
    """Its directory is a checkpoint that the Auto classes of Hugging Face transformers read."""
    speaks_labels: ClassVar[bool] = False
    """Its answers are labels, one or one per position, and not the likeliest of several."""
    arch: Architecture
    wording: Wording | None = None
    report: Mapping[str, Any] = {}
    """What the construction has to say about how the weights were found; plain values."""
    claims: Mapping[str, Any] = {}
    """What else goes into the certificate, by key: sizes and measures that only this kind or construction has."""

    @property
    @abstractmethod
    def module(self) -> nn.Module:
        """The model as a torch module."""

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write config.json, the weights and the tokenizer into an empty directory."""

    @classmethod
    @abstractmethod
    def read(cls, folder: Path, certificate: Mapping[str, Any]) -> Self:
        """The model of a directory; what is missing, truncated or contradicts itself is refused."""

    def at(self, folder: Path) -> Model:
        """The same model after its files were written to another directory, for kinds that go on reading them."""
        return self

    @classmethod
    def examples(cls, seed: int) -> list[Self]:
        """Small models of this kind, for the contract suite; none for a kind that needs more than itself."""
        return []

    @abstractmethod
    def outputs(self, dtype: str) -> Outputs:
        """The model's own forward pass in a number format, on a copy: its weights stay as they are."""

    @property
    def tells_unknown(self) -> bool:
        """Whether it says itself that a context is none of its facts, by a fingerprint of each."""
        return False

    @property
    def known_hashes(self) -> Mapping[str, str]:
        """Hashes of files that were not written anew, by their names."""
        return {}

    @property
    def counts(self) -> dict[str, int]:
        """Parameters by counting convention; `full` is what the certificate calls params."""
        return {name: self.arch.params(name) for name in CONVENTIONS}

    @property
    def stored(self) -> int:
        """Numbers in the file; a kind that keeps some outside of the module's parameters counts them itself."""
        return sum(p.numel() for p in self.module.parameters())

    def tensor(self, contexts: Any) -> Any:
        """Token ids as a tensor where the module lies, which may have been moved to another device."""
        import torch

        return torch.tensor(contexts, device=next((p.device for p in self.module.parameters()), None))

    def ids(self, words: Sequence[str]) -> list[int]:
        """Token ids of a context in words."""
        if self.wording is None:
            raise UsageError("this model takes vectors, so it cannot be asked in words; use rote.verify.")
        return self.wording.encode(words)

    def answers(self, words: Sequence[str], top: int) -> list[Answer]:
        """The most likely answers to a context, given as one text or token by token."""
        import torch

        ids = self.ids(words)
        assert self.wording is not None, "a model without words refuses to encode them"
        with torch.no_grad():
            # A vocabulary of one token has two rows of weights, as no shape is narrower.
            logits = self.logits(self.tensor([ids]))[0, : len(self.wording.vocabulary)].to("cpu", torch.float64)
        probabilities = torch.softmax(logits, dim=0)
        best = torch.topk(logits, min(top, len(logits))).indices.tolist()
        return [Answer(self.wording.vocabulary[i], float(probabilities[i]), float(logits[i])) for i in best]

    def logits(self, contexts: Any) -> Any:
        """Scores (B, N) of the whole vocabulary after contexts (B, S) of token ids, for models that have such."""
        return self.module(contexts)

    def first_answers(self, contexts: Any) -> list[str]:
        """The first answer to every context (B, S) of token ids."""
        import torch

        assert self.wording is not None, "contexts of ids need a vocabulary"
        with torch.no_grad():
            best = self.logits(self.tensor(contexts)).argmax(dim=-1).tolist()
        return [self.wording.vocabulary[i] for i in best]

    def heads(self, ids: Sequence[int]) -> HeadsView | None:
        """What the heads do with a context; None for models without attention over tokens."""
        return None

    def pieces(self, ids: Sequence[int] | None) -> Sequence[Piece]:
        """Parts that can be taken out one by one, with what each adds to the lead of the answer to a context of ids,
        where that is a sum; none where there are no such parts."""
        return ()

    def trace(self, ids: Sequence[int]) -> dict[str, Any] | None:
        """Other things to be seen while the model answers, ready for JSON; None where there is nothing."""
        return None

    def watch(self, ids: Any, watcher: Any) -> None:
        """Run contexts (B, S) and show every layer's states and heads to a watcher of `rote.analyse.audit`."""
        raise UsageError(f"a model of the kind {self.kind} has no hidden states of texts that could be audited.")

    def reinitialised(self, draw: Callable[[Any], Any]) -> Model:
        """The same model with other weights: `draw` gives a tensor of the same shape for each."""
        raise UsageError(f"a model of the kind {self.kind} cannot be drawn anew.")

    def shortcut(self) -> Any:
        """A faster evaluator that the referee may use after it has checked that it applies; None for most kinds."""
        return None

    def before(self, words: Sequence[str]) -> str | None:
        """What the model said to a text before facts were written into it; None for models that were never without."""
        return None

    def speak(self, words: Sequence[str], heard: Callable[[str], None], *, before: bool = False) -> str:
        """Go on from a text, and tell `heard` what was said so far after every token; `before` as it was before facts
        were written into the model."""
        raise UsageError(f"a model of the kind {self.kind} answers at once; ask it.")

    def trials(self, certificate: Mapping[str, Any]) -> dict[str, str]:
        """Questions beside the facts that are worth asking, each with a word for what it is."""
        return {}

    @property
    def shortcomings(self) -> list[str]:
        """What nobody should expect of a model of this kind, in sentences, for its card."""
        return ["It knows its facts and nothing else: it is no language model, and a reworded question is another one."]

    def usage(self, name: str, question: str | None) -> list[str]:
        """A few lines of Python that load the directory of this name and ask it, or about its own facts."""
        if question is None:
            return bare_usage(name, "print(rote.verify(memory))")
        asked = f"memory.ask({question!r}, top=1)"
        said = f"*(one.token for one in {asked})" if self.speaks_labels else f"{asked}[0].token"
        return bare_usage(name, f"print({said})")

    def export(self, path: Path, table: Any) -> dict[str, Any]:
        """Write the model as ONNX if onnxruntime recalls every fact; refused by kinds that have no such form."""
        raise UsageError(
            f"this {self.kind.replace('_', ' ')} has no form in ONNX: exact weights are longer than any of its "
            "numbers, and pretrained models go out as GGUF; build in float64 or float32, or name a .gguf file."
        )

    def export_gguf(self, path: Path, table: Any, form: str, notes: Mapping[str, str]) -> dict[str, int]:
        """Write the model as GGUF, with matrices of a type and texts for the file to carry; tensors by type.

        Nothing is judged here. Kinds that llama.cpp cannot run refuse.
        """
        raise UsageError(
            f"a model of the kind {self.kind} is none that llama.cpp runs; build a stock checkpoint (architecture "
            "llama) or graft the facts into a pretrained model to get a GGUF file."
        )

    def hooked(self) -> Any:
        """The model in TransformerLens, a copy; kinds that it has no form for refuse."""
        raise UsageError(
            f"a model of the kind {self.kind} has no form in TransformerLens; take one of attention (local_heads, "
            "dana2025_cor1, argmax_fit, mlp_fit) or a stock checkpoint (architecture llama), or torch's own hooks."
        )

    def modelfile(self, name: str, table: Any) -> list[str]:
        """The lines of an ollama Modelfile for a GGUF file of this name."""
        return [f"FROM ./{name}", "PARAMETER temperature 0"]
