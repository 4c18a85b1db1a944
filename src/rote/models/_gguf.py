"""Stock checkpoints of the Llama family as GGUF files, the format of llama.cpp and of what is built on it.

Tensors get the names and the layout of llama.cpp: rows of Q and K in the order of its rotary positions, a tied head
left out. Matrices are written in a type of `TYPES`; norms and biases stay float32, and so do matrices that must not be
rounded. For a type with blocks the stream is widened to whole ones; a matrix whose rows still are none is float16. What
a file holds is not certified here: the referee runs it in llama.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import CheckpointError, MissingExtra, UsageError
from rote.models import folders
from rote.models._gguf_gates import LARGEST_HALF, as_gated
from rote.models._gguf_padding import padded, padded_config
from rote.models._pretrained import shard_names

if TYPE_CHECKING:
    from rote.models._gguf_tokens import Tokens

__all__ = ["FAMILIES", "TYPES", "gguf_tools", "write_gguf"]

TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1")
FAMILIES = {"llama": "LLAMA", "mistral": "LLAMA", "arcee": "ARCEE", "qwen2": "QWEN2", "qwen3": "QWEN3"}
"""Model types of Hugging Face transformers, and the architecture that llama.cpp runs them as."""
_TURNED = ("LLAMA", "ARCEE")
"""Architectures whose rotary positions pair neighbours, not halves."""


def gguf_tools() -> Any:
    try:
        import gguf
    except ImportError:
        raise MissingExtra("gguf", "gguf", "a GGUF file") from None
    return gguf


def write_gguf(
    path: Path,
    folder: Path,
    tokens: Tokens,
    form: str,
    *,
    notes: Mapping[str, str],
    rounded: Callable[[str, Any], bool] = lambda name, array: True,
) -> dict[str, int]:
    """Write the checkpoint of a directory; the number of tensors by type is returned.

    `notes` are texts that the file carries. `rounded` says of a tensor, by its name and its numbers, whether anything
    shorter than float32 will do.
    """
    tools = gguf_tools()
    stored = folders.read_json(folder / "config.json")
    family, plain = _family(stored, folder)
    block, _ = tools.GGML_QUANT_SIZES[tools.GGMLQuantizationType[form]]
    try:
        config = stored if plain or block == 1 else padded_config(stored, block)
    except (KeyError, TypeError, ValueError) as error:
        raise _lacking(folder, error) from None
    together = int(config.get("head_dim") or 0) * int(config.get("num_attention_heads") or 0)
    if family == "QWEN2" and together not in (0, config["hidden_size"]):
        # llama.cpp lets heads of Qwen2 have no width of their own. A Llama with biases is the same model otherwise.
        family = "LLAMA"
    writer = tools.GGUFWriter(path, tools.MODEL_ARCH_NAMES[tools.MODEL_ARCH[family]])
    heads, few = _sizes(writer, config, folder, tokens.count)
    tokens.write(writer)
    for name, text in notes.items():
        writer.add_string(name, text)
    names = tools.get_tensor_name_map(tools.MODEL_ARCH[family], config["num_hidden_layers"])
    counts: dict[str, int] = {}

    def tensors() -> Iterator[tuple[str, Any]]:
        return _tensors(folder, config, tokens.count)

    for name, array in as_gated(tensors, form) if plain else padded(tensors(), stored, config):
        if family == "QWEN3" and name.endswith(".bias"):
            raise UsageError(f"{folder} is a Qwen3 with biases ({name}), and llama.cpp runs those without only.")
        turned = array
        if family in _TURNED and name.split(".")[-2] in ("q_proj", "k_proj"):
            turned = _paired(array, heads if ".q_proj." in name else few)
        known = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if known is None:
            raise CheckpointError(f"{folder} holds a tensor {name!r}, which llama.cpp has no name for.")
        chosen = _type(tools, turned, form if rounded(name, array) else "F32")
        data = tools.quantize(turned, tools.GGMLQuantizationType[chosen])
        writer.add_tensor(known, data, raw_dtype=tools.GGMLQuantizationType[chosen])
        counts[chosen] = counts.get(chosen, 0) + 1
    if form not in counts:
        raise UsageError(
            f"no matrix of this model has rows that divide into the blocks of {form}; choose F32, F16 or BF16."
        )
    for name, data in _long_positions(config, folder):
        writer.add_tensor(name, data)
    most = max(counts, key=lambda one: (counts[one] * (one != "F32"), one))
    writer.add_file_type(tools.LlamaFileType["ALL_F32" if most == "F32" else f"MOSTLY_{most}"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return counts


def _family(config: Mapping[str, Any], folder: Path) -> tuple[str, bool]:
    """The architecture that llama.cpp runs a model as, and whether plain ReLUs have to be turned into its SiLUs."""
    family = FAMILIES.get(str(config.get("model_type")))
    if family is None:
        raise UsageError(
            f"{folder} is a model of the family {config.get('model_type')!r}, which rote does not write as GGUF; "
            f"it does {', '.join(FAMILIES)}."
        )
    activation = "relu2" if family == "ARCEE" else "silu"
    said = config.get("hidden_act", activation)
    if family == "ARCEE" and said == "relu":
        return "LLAMA", True
    if said not in (activation, "swish" if activation == "silu" else activation):
        raise UsageError(
            f"{folder} has the activation {said!r}, and llama.cpp runs models of the family {config['model_type']} "
            f"with {activation} only; write it as ONNX."
        )
    return family, False


def _sizes(writer: Any, config: Mapping[str, Any], folder: Path, vocab: int) -> tuple[int, int]:
    """Everything that llama.cpp must know of the shape; the numbers of heads and of key-value heads."""
    try:
        heads, width = int(config["num_attention_heads"]), int(config["hidden_size"])
        few = int(config.get("num_key_value_heads") or heads)
        head = int(config.get("head_dim") or width // heads)
        reach = [config.get("max_position_embeddings"), config.get("sliding_window")]
        writer.add_block_count(int(config["num_hidden_layers"]))
        writer.add_context_length(min(int(size) for size in reach if size))
        writer.add_feed_forward_length(int(config["intermediate_size"]))
        writer.add_layer_norm_rms_eps(float(config["rms_norm_eps"]))
        writer.add_rope_freq_base(float(_rope(config).get("rope_theta") or config.get("rope_theta") or 10000.0))
    except (KeyError, TypeError, ValueError) as error:
        raise _lacking(folder, error) from None
    writer.add_embedding_length(width)
    writer.add_head_count(heads)
    writer.add_head_count_kv(few)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_vocab_size(vocab)
    return heads, few


def _lacking(folder: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{folder / 'config.json'} lacks a size ({error}); it was edited.")


def _rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the configuration says about positions, in the words of any version of transformers."""
    said = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return said if isinstance(said, Mapping) else {}


def _long_positions(config: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, Any]]:
    """The factors by which Llama 3 slows its rotary positions down, for models that do."""
    said = _rope(config)
    kind = said.get("rope_type", said.get("type", "default"))
    if kind == "default":
        return
    if kind != "llama3":
        raise UsageError(f"{folder} stretches its positions by {kind!r}, which rote does not write as GGUF.")
    head = int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
    base = float(said.get("rope_theta") or config.get("rope_theta") or 10000.0)
    low, high = float(said["low_freq_factor"]), float(said["high_freq_factor"])
    length, factor = float(said["original_max_position_embeddings"]), float(said["factor"])
    waves = 2 * math.pi * base ** (np.arange(0, head, 2) / head)
    smooth = np.clip((length / waves - low) / (high - low), 0.0, 1.0)
    yield "rope_freqs.weight", (1.0 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def _tensors(folder: Path, config: Mapping[str, Any], vocab: int) -> Iterator[tuple[str, Any]]:
    """The tensors of a checkpoint in float32, one at a time.

    A token that it does not have gets the mean of all rows: its score is the mean of all scores, never the largest.
    """
    import torch
    from safetensors import safe_open

    for shard in shard_names(folder):
        with safe_open(folder / shard, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                if name == "lm_head.weight" and config.get("tie_word_embeddings"):
                    continue
                array = file.get_tensor(name).to(torch.float32).numpy()
                if name in ("lm_head.weight", "model.embed_tokens.weight") and len(array) < vocab:
                    mean = array.mean(axis=0, dtype=np.float64, keepdims=True).astype(np.float32)
                    array = np.concatenate([array, mean.repeat(vocab - len(array), axis=0)])
                yield name, array


def _paired(array: Any, heads: int) -> Any:
    """Rows of queries or keys with the two numbers that turn together side by side, not half a head apart."""
    split = array.reshape(heads, 2, len(array) // heads // 2, *array.shape[1:])
    return split.swapaxes(1, 2).reshape(array.shape)


def _type(tools: Any, array: Any, form: str) -> str:
    """The type of a tensor: vectors stay float32, what does not divide into blocks becomes float16, and what float16
    cannot hold stays float32."""
    if array.ndim < 2:
        return "F32"
    block, _ = tools.GGML_QUANT_SIZES[tools.GGMLQuantizationType[form]]
    chosen = form if array.shape[-1] % block == 0 else "F16"
    return "F32" if chosen == "F16" and float(abs(array).max(initial=0)) > LARGEST_HALF else chosen
