"""Models in TransformerLens: the same weights, with its hooks, caches and patching tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rote.errors import UsageError, install_command

if TYPE_CHECKING:
    from rote.models.kinds.transformer import Transformer

__all__ = ["hooked_module", "hooked_stock"]

_MISSING = f"TransformerLens 4 is not here; install it with: {install_command('lens')}."


def hooked_module(module: Transformer) -> Any:
    """The reference transformer as a `TransformerBridge`, with a copy of the weights.

    It maps contexts (B, S) of token ids to logits (B, S, N); those at the last position are the model's.
    """
    try:
        from transformer_lens.config import TransformerBridgeConfig
        from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module
        from transformer_lens.model_bridge.sources.native import NativeModel
    except ImportError as error:
        raise UsageError(_MISSING) from error
    arch, weights = module.arch, module.state_dict()
    number = weights["W_E"].dtype
    activation: Any = "silu" if arch.d_mlp else None
    config = TransformerBridgeConfig(
        n_layers=1,
        d_model=arch.d_model,
        n_ctx=arch.context,
        d_head=arch.d_head,
        n_heads=arch.n_heads,
        d_vocab=arch.vocab,
        d_mlp=arch.d_mlp or None,
        act_fn=activation,
        gated_mlp=bool(arch.d_mlp),
        attn_only=not arch.d_mlp,
        normalization_type=None,
        positional_embedding_type="standard",
        init_weights=False,
        dtype=number,
    )
    native = NativeModel(config).to(number).requires_grad_(False)
    attention = native.layers[0].attn
    # Scores are not divided by anything: that is part of W_Q here.
    attention.scale = 1.0
    if arch.d_mlp and module.activation == "identity":
        native.layers[0].mlp.act = torch.nn.Identity()
    state = {name: torch.zeros_like(tensor) for name, tensor in native.state_dict().items()}
    state["tok_embed.weight"], state["pos.weight"] = weights["W_E"], weights["W_pos"]
    state["head.weight"] = module.readout
    for name in "QKV":
        matrix = weights[f"W_{name}"]
        # Maps of a lower rank get rows of zeros.
        missing = matrix.new_zeros(arch.n_heads, arch.d_head - matrix.shape[1], arch.d_model)
        state[f"layers.0.attn.{name.lower()}.weight"] = torch.cat([matrix, missing], dim=1).flatten(0, 1)
    state["layers.0.attn.o.weight"] = weights["W_O"].permute(1, 0, 2).flatten(1)
    if arch.d_mlp:
        for name, own in (("gate", "W_gate"), ("in", "W_up"), ("out", "W_down")):
            state[f"layers.0.mlp.{name}.weight"] = weights[own]
    native.load_state_dict(state)
    return build_bridge_from_module(
        native, architecture="TransformerLensNative", tl_config=config, dtype=number, model_name="rote"
    )


def hooked_stock(folder: Path, stock: Any, tokenizer: Any) -> Any:
    """A stock checkpoint as a `TransformerBridge`, around a model that was loaded from the directory.

    TransformerLens tries the tokenizer on a letter. One that knows the words of its table only would refuse, so this
    one takes its first word for all that it does not know.
    """
    try:
        from transformer_lens.model_bridge import TransformerBridge
    except ImportError as error:
        raise UsageError(_MISSING) from error
    tokenizer.backend_tokenizer.model.unk_token = tokenizer.convert_ids_to_tokens(0)
    dtype = next(stock.parameters()).dtype
    return TransformerBridge.boot_transformers(str(folder), hf_model=stock, tokenizer=tokenizer, dtype=dtype)
