"""A model with known content: the weights, the words it speaks, and the certificate of what it recalls.

`Memory` is what `rote.build` and `rote.load` return. It is saved as a directory and read back from one; the referee
(`rote.verify`) then judges what is on disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.config import Architecture
from rote.data import PAD, FactTable, SequenceTable, Tokens, VectorTable, check_tokens
from rote.errors import CheckpointError, UnknownName, UsageError
from rote.models import checkpoint, tokenizer
from rote.models.attention_layer import AttentionLayer
from rote.models.transformer import ACTIVATIONS, Transformer
from rote.referee import Verification

if TYPE_CHECKING:
    from torch import nn

    from rote.solvers.exact.transformer import ExactTransformer

__all__ = ["Answer", "Memory", "exact_model", "load", "verify"]


@dataclass(frozen=True)
class Answer:
    """One answer to a question."""

    token: str
    probability: float
    logit: float


@dataclass(frozen=True)
class Memory:
    """A model, what is known about it, and how to talk to it."""

    model: nn.Module
    certificate: dict[str, Any]
    vocabulary: tuple[str, ...] = ()
    tokens: Tokens = "cells"
    files: dict[str, bytes] = field(default_factory=dict, repr=False)
    """The files of the directory, ready to be written."""

    @property
    def is_stock(self) -> bool:
        """Whether the model is of a stock architecture of Hugging Face transformers."""
        return bool(self.certificate.get("arch", "rote") != "rote")

    def save(self, directory: str | Path, *, force: bool = False) -> Path:
        """Write the model directory; it is there whole or not at all."""
        path = Path(directory)

        def fill(part: Path) -> None:
            for name, content in self.files.items():
                (part / name).write_bytes(content)
            hashes = {
                name: sha256(content).hexdigest() for name, content in self.files.items() if name != "model.safetensors"
            }
            self.certificate["files_sha256"] = hashes
            checkpoint.write_json(part / "certificate.json", self.certificate)

        checkpoint.write_directory(path, fill, force=force)
        return path

    def encode(self, words: Sequence[str]) -> list[int]:
        """Token ids of a context, padded on the left where the model knows padding."""
        if not self.vocabulary:
            raise UsageError("this model takes vectors, so it cannot be asked in words; use rote.verify.")
        length = int(self.certificate["shape"]["context"])
        parts = tokenizer.encode_text(words, self.vocabulary, self.tokens, length)
        places = {token: i for i, token in enumerate(self.vocabulary)}
        for part in parts:
            if part not in places:
                raise UnknownName("token", part, [t for t in self.vocabulary if t != PAD])
        ids = [places[part] for part in parts]
        if len(ids) < length and PAD in places and ids:
            ids = [places[PAD]] * (length - len(ids)) + ids
        if len(ids) != length:
            raise UsageError(
                f"a context of this model has {length} token{'s' if length > 1 else ''}, got {len(ids)}"
                f" ({', '.join(parts) or 'nothing'}); see `rote ask --help` for how tokens are separated."
            )
        return ids

    def ask(self, *words: str, top: int = 5) -> list[Answer]:
        """The most likely answers to a context, given as one text or token by token."""
        import torch

        ids = self.encode(words)
        exact = _as_exact(self.model)
        if exact is not None:
            return self._labels(exact, ids)
        with torch.no_grad():
            logits = self._logits(ids).to(torch.float64)
        probabilities = torch.softmax(logits, dim=0)
        best = torch.topk(logits, min(top, len(logits))).indices.tolist()
        return [Answer(self.vocabulary[i], float(probabilities[i]), float(logits[i])) for i in best]

    def _labels(self, exact: ExactTransformer, ids: list[int]) -> list[Answer]:
        """What an exact network says: one label a sequence, or one a position; there is no second guess."""
        import torch

        with torch.no_grad():
            found = [float(label) for label in self.model(torch.tensor([ids])).reshape(-1)]
        known = len(exact.labels)
        if any(label != int(label) or not 0 <= label < known for label in found):
            return [Answer("(no label: this context is not one of the facts)", 0.0, 0.0)]
        return [Answer(self.vocabulary[exact.labels[int(label)]], 1.0, label) for label in found]

    def _logits(self, ids: list[int]) -> Any:
        import torch

        if self.is_stock:
            kept = [i for i in ids if self.vocabulary[i] != PAD]
            return self.model(torch.tensor([kept])).logits[0, -1]
        return self.model(torch.tensor([ids]))[0]


def load(directory: str | Path) -> Memory:
    """Read a model directory back; missing, truncated or altered files are refused."""
    path = Path(directory)
    certificate = checkpoint.read_json(path / "certificate.json")
    if "graft" in certificate:
        raise CheckpointError(
            f"{path} is a pretrained model with a graft; ask it in plain text with transformers, check it with "
            "`rote verify`, or restore the original with `rote ungraft`."
        )
    config = checkpoint.read_json(path / "config.json")
    tensors = checkpoint.read_tensors(path / "model.safetensors")
    checkpoint.check_weights(path, certificate)
    checkpoint.check_files(path, certificate)
    shape = certificate.get("shape")
    if not isinstance(shape, dict) or not isinstance(certificate.get("read") or {}, dict):
        raise CheckpointError(f"{path / 'certificate.json'} lacks a shape; the file was edited, build it again.")
    arch = Architecture.from_dict(shape)
    vocabulary: tuple[str, ...] = ()
    if certificate.get("data") != "vectors":
        record = checkpoint.read_json(path / "tokenizer.json")
        vocabulary = tuple(tokenizer.tokens_in(record))
        if max(2, len(vocabulary)) != arch.vocab:
            raise CheckpointError(
                f"tokenizer.json has {len(vocabulary)} tokens, the model {arch.vocab}; one of the files was edited."
            )
    tokens = check_tokens(str(certificate.get("tokens", "cells")))
    model: nn.Module
    if certificate.get("arch", "rote") != "rote":
        from rote.models.stock import load_stock

        model = load_stock(path)
    elif config.get("model") == "exact_transformer":
        model = exact_model(config, tensors)[1]
    else:
        model = _own_model(path, config, tensors)
    return Memory(model, certificate, vocabulary, tokens)


def exact_model(config: Mapping[str, Any], tensors: Mapping[str, Any]) -> tuple[ExactTransformer, nn.Module]:
    """The exact transformer of a model directory, and the module that runs it: in exact arithmetic, or in floats."""
    import torch

    from rote.exact_module import ExactModule
    from rote.models.relu_transformer import ReluTransformer
    from rote.solvers.exact.checkpoint import read_transformer

    exact = read_transformer(config, {name: tensor.numpy() for name, tensor in tensors.items()})
    if exact.precision == "exact":
        return exact, ExactModule(exact)
    return exact, ReluTransformer(exact, getattr(torch, exact.precision))


def _as_exact(model: object) -> ExactTransformer | None:
    """The exact transformer that a module stands for."""
    from rote.exact_module import ExactModule
    from rote.models.relu_transformer import ReluTransformer

    return model.exact if isinstance(model, (ReluTransformer, ExactModule)) else None


def _own_model(path: Path, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> nn.Module:
    if config.get("format") != checkpoint.FORMAT:
        found = config.get("format")
        raise CheckpointError(
            f"{path / 'config.json'} is of format {found!r}, this version of rote reads {checkpoint.FORMAT!r}."
        )
    record = config.get("architecture")
    if not isinstance(record, dict):
        raise CheckpointError(f"{path / 'config.json'} names no architecture; the file was edited, build it again.")
    arch = Architecture.from_dict(record)
    if config.get("model") == "attention_layer":
        return AttentionLayer(arch, tensors)
    activation = next((a for a in ACTIVATIONS if a == config.get("activation", "identity")), None)
    if activation is None:
        raise CheckpointError(f"{path / 'config.json'} names an unknown activation {config['activation']!r}.")
    return Transformer(arch, tensors, activation=activation)


def verify(
    model: Memory | nn.Module | str | Path,
    facts: FactTable | VectorTable | SequenceTable,
    *,
    dtype: str | None = None,
    tolerance: float = 1e-3,
) -> Verification:
    """Run every fact through the model, by the referee's own forward pass, in the given number format.

    Without one, a Memory or a directory is run as it is stored, and any other module in float32.

    `model` may be a Memory, a directory, one of rote's modules, or any module that maps contexts (B, S) of token ids to
    logits (B, N), such as one that was trained; the last is called as it is. Real targets of vector tables count as
    recalled within `tolerance` of the largest target.
    """
    import torch

    from rote.referee.forward import TORCH_DTYPES, layer_outputs, rows_at_once, token_logits
    from rote.referee.recall import score_facts, score_vectors

    if isinstance(model, (str, Path)):
        model = load(model)
    memory = model if isinstance(model, Memory) else None
    module = memory.model if memory is not None else model
    if dtype is None:
        dtype = "float32" if memory is None else str(memory.certificate.get("dtype", "float32"))
    exact = _as_exact(module)
    if exact is not None:
        from rote.exact_verify import verify_exact

        if memory is not None and not isinstance(facts, VectorTable) and not exact.d_in:
            facts = _in_words_of(memory, facts)
        return verify_exact(exact, module, facts, dtype)
    if isinstance(facts, SequenceTable):
        raise UsageError("this model gives one answer a context; give it a facts file with one target.")
    if dtype not in TORCH_DTYPES:
        raise UnknownName("number format", dtype, TORCH_DTYPES)
    number = TORCH_DTYPES[dtype]
    assert not isinstance(module, Memory)
    with torch.no_grad():
        if isinstance(facts, VectorTable):
            if not isinstance(module, AttentionLayer):
                raise UsageError("this model reads tokens; give it a facts file, not vectors.")
            weights = dict(module.state_dict())
            size = rows_at_once(weights, facts.context)
            return score_vectors(
                facts, lambda c, q: layer_outputs(weights, c, q, number), dtype, tolerance=tolerance, chunk=size
            )
        if isinstance(module, AttentionLayer):
            raise UsageError("this model reads vectors; give it a .safetensors file of queries and contexts.")
        if memory is not None:
            moved = _in_words_of(memory, facts)
            assert isinstance(moved, FactTable), "facts stay facts"
            facts = moved
        if isinstance(module, Transformer):
            weights, activation = dict(module.state_dict()), module.activation
            size = rows_at_once(weights, facts.context)
            return score_facts(facts, lambda c: token_logits(weights, c, number, activation), dtype, chunk=size)
        if memory is not None and memory.is_stock:
            from rote.models.stock import stock_logits

            typed = module.to(number)
            return score_facts(facts, stock_logits(typed, facts.vocabulary.pad_id), dtype)
        typed = module.to(number)
        return score_facts(facts, lambda c: torch.as_tensor(typed(c)), dtype)


def _in_words_of(memory: Memory, facts: FactTable | SequenceTable) -> FactTable | SequenceTable:
    """The facts with the model's token ids; tokens or lengths that the model does not know are refused."""
    import numpy as np

    from rote.data import Vocabulary

    if facts.vocabulary.tokens == memory.vocabulary:
        return facts
    places = {token: i for i, token in enumerate(memory.vocabulary)}
    unknown = [token for token in facts.vocabulary.tokens if token not in places]
    if unknown:
        raise CheckpointError(
            f"the model does not know {len(unknown)} token{'s' if len(unknown) > 1 else ''} of these facts, "
            f"the first is {unknown[0]!r}; it was built from other facts, or they were read with other --tokens."
        )
    length = int(memory.certificate["shape"]["context"])
    if facts.context > length or (facts.context < length and PAD not in places):
        raise CheckpointError(f"the model reads contexts of {length} tokens, these facts have {facts.context}.")
    ids = np.array([places[token] for token in facts.vocabulary.tokens])
    contexts = ids[facts.contexts]
    if facts.context < length:
        pad = np.full((facts.n_facts, length - facts.context), places[PAD])
        contexts = np.concatenate([pad, contexts], axis=1)
    if isinstance(facts, SequenceTable):
        return SequenceTable(contexts, ids[facts.targets], Vocabulary(memory.vocabulary), facts.name)
    return FactTable(contexts, ids[facts.targets], Vocabulary(memory.vocabulary), facts.weights, facts.name)
