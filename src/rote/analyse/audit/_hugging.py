"""Encoders and decoders of Hugging Face transformers, from safetensors, GGUF, or (if asked for) pickle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.analyse.audit._models import AuditedModel, Watcher, as_ids, fork_seed, refuse_long
from rote.analyse.audit._texts import cut
from rote.data.stock import library, load_model, load_tokenizer
from rote.errors import CheckpointError, MissingExtra, UsageError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HuggingModel"]


class HuggingModel(AuditedModel):
    """A transformer whose blocks are a ModuleList, watched by forward hooks."""

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        config = model.config
        self.name, self.model, self.tokenizer = name, model, tokenizer
        if getattr(config, "is_encoder_decoder", False):
            raise CheckpointError(f"{name} is an encoder-decoder; the audit takes an encoder or a decoder.")
        self.blocks = self._find_blocks(model)
        self.n_layers = len(self.blocks)
        self.n_heads = int(config.num_attention_heads)
        self.d_model = int(config.hidden_size)
        self.d_head = int(getattr(config, "head_dim", None) or self.d_model // self.n_heads)
        self.vocab = int(config.vocab_size)
        self.most = getattr(config, "max_position_embeddings", None)
        first = tokenizer.cls_token_id is not None and tokenizer.sep_token_id is not None
        self.query = "first" if first else "last"
        self.kind = "encoder" if first else "decoder"

    @classmethod
    def open(cls, directory: Path, *, gguf: str | None, pickle: bool) -> HuggingModel:
        import torch

        name = gguf or (directory.resolve().parent.name if directory.name == "model" else directory.name)
        if gguf is not None:
            for package in ("gguf", "accelerate"):
                try:
                    __import__(package)
                except ImportError:
                    raise MissingExtra(package, "audit", "reading a GGUF file") from None
        here: dict[str, Any] = {} if gguf is None else {"gguf_file": gguf}
        tokenizer = load_tokenizer(directory, **here)
        kept: dict[str, Any] = {"use_safetensors": not pickle} if gguf is None else here
        model = load_model(directory, torch.float32, auto="AutoModel", attn_implementation="eager", **kept)
        return cls(name, model, tokenizer)

    @staticmethod
    def _find_blocks(model: Any) -> Any:
        from torch import nn

        wanted = getattr(model.config, "num_hidden_layers", None)
        for module in model.modules():
            if isinstance(module, nn.ModuleList) and len(module) == wanted and wanted:
                return module
        raise CheckpointError(f"{type(model).__name__} has no list of layers that the audit knows how to watch.")

    def windows(self, text: str, context: int, samples: int, source: str) -> Tensor:
        limit = self.tokenizer.model_max_length
        most = min(self.most or limit, limit)
        refuse_long(context, int(most) if most < 10**9 else None, self.name)
        ids = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        if self.query == "first":
            if context < 3:
                raise UsageError(f"{self.name} adds two tokens to every window; the context must be at least 3.")
            rows = cut(ids, context - 2, samples, source)
            rows = [[self.tokenizer.cls_token_id, *row, self.tokenizer.sep_token_id] for row in rows]
        else:
            rows = cut(ids, context, samples, source)
        return as_ids(rows)

    def run(self, ids: Tensor, watcher: Watcher) -> None:
        import torch

        place = 0 if self.query == "first" else ids.shape[1] - 1
        hooks = []
        reads: dict[int, Tensor] = {}

        def before(layer: int) -> Any:
            def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                states = args[0] if args else kwargs["hidden_states"]
                watcher.states(layer, states, states[:, place])

            return hook

        def after(layer: int) -> Any:
            def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
                states = out[0] if isinstance(out, tuple) else out
                watcher.states(layer, states, states[:, place])

            return hook

        def attention(layer: int) -> Any:
            def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
                if layer in reads or not isinstance(out, tuple) or len(out) < 2:
                    return
                weights, read = out[1], args[0] if args else kwargs.get("hidden_states")
                if getattr(weights, "ndim", 0) == 4 and read is not None:
                    reads[layer] = read
                    watcher.heads(layer, weights, read, place)

            return hook

        try:
            hooks.append(self.blocks[0].register_forward_pre_hook(before(0), with_kwargs=True))
            for k, block in enumerate(self.blocks, 1):
                hooks.append(block.register_forward_hook(after(k), with_kwargs=True))
                hooks += [
                    part.register_forward_hook(attention(k), with_kwargs=True)
                    for name, part in block.named_modules()
                    if "att" in name.rsplit(".", 1)[-1].lower() or name.endswith(".self")
                ]
            with torch.no_grad():
                self.model(input_ids=ids, use_cache=False) if self.query == "last" else self.model(input_ids=ids)
        finally:
            for hook in hooks:
                hook.remove()

    def reinitialised(self, seed: int) -> HuggingModel:
        transformers = library("auditing a Hugging Face model", "audit")
        config = type(self.model.config).from_dict(
            {k: v for k, v in self.model.config.to_dict().items() if k != "quantization_config"}
        )
        with fork_seed(seed):
            fresh = transformers.AutoModel.from_config(config, attn_implementation="eager")
        return HuggingModel(self.name, fresh.float().eval().requires_grad_(False), self.tokenizer)
