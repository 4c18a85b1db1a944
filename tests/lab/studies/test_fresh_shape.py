"""The state of one query against whole models of transformers with the same weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from study_run import run

from rote.errors import UnknownName, UsageError
from rote.lab.studies.fresh_shape import Block, Shape, fresh, library, query_state, shape_of, windows

SMALL = {
    "bert": Shape(16, 4, 24, 9, 30, 0.3, 1, 1e-12, "bert"),
    "gpt2": Shape(16, 4, 64, 9, 30, 0.3, 1, 1e-5, "gpt2"),
    "vit": Shape(16, 4, 24, 5, 48, 0.3, 1, 1e-12, "vit"),
}


def put(module: Any, weight: torch.Tensor) -> None:
    """Rows act from the left in linear layers, from the right in GPT-2's."""
    linear = isinstance(module, torch.nn.Linear)
    module.weight.data = weight.T.contiguous() if linear else weight.clone()
    if getattr(module, "bias", None) is not None:
        module.bias.data.zero_()


def whole(shape: Shape, block: Block) -> Any:
    """A model of transformers, of one layer, with the weights of a block."""
    d, h = shape.d_model, shape.n_heads
    maps = (block.W_Q, block.W_K, block.W_V, block.W_O, block.W_up, block.W_down)
    if shape.kind == "gpt2":
        config = transformers.GPT2Config(
            n_embd=d, n_layer=1, n_head=h, n_positions=9, vocab_size=30, bos_token_id=0, eos_token_id=0
        )
        model = transformers.GPT2Model(config).eval()
        model.wte.weight.data, model.wpe.weight.data = block.embed.clone(), block.places.clone()
        one = model.h[0]
        put(one.attn.c_attn, torch.cat(maps[:3], dim=1))
        for module, weight in zip((one.attn.c_proj, one.mlp.c_fc, one.mlp.c_proj), maps[3:], strict=True):
            put(module, weight)
        return model
    sizes = {"hidden_size": d, "num_hidden_layers": 1, "num_attention_heads": h, "intermediate_size": shape.d_mlp}
    if shape.kind == "bert":
        model = transformers.BertModel(
            transformers.BertConfig(**sizes, vocab_size=30, max_position_embeddings=9), add_pooling_layer=False
        ).eval()
        model.embeddings.word_embeddings.weight.data = block.embed.clone()
        model.embeddings.position_embeddings.weight.data = block.places.clone()
        model.embeddings.token_type_embeddings.weight.data[0] = block.first
    else:
        model = transformers.ViTModel(
            transformers.ViTConfig(**sizes, image_size=8, patch_size=4), add_pooling_layer=False
        ).eval()
        model.embeddings.patch_embeddings.projection.weight.data = block.embed.T.reshape(d, 3, 4, 4).clone()
        model.embeddings.patch_embeddings.projection.bias.data.zero_()
        model.embeddings.cls_token.data[0, 0] = block.first
        model.embeddings.position_embeddings.data[0] = block.places
    found = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    assert len(found) == 6, "query, key, value, output, up, down"
    for module, weight in zip(found, maps, strict=True):
        put(module, weight)
    return model


@pytest.mark.parametrize("kind", SMALL)
@torch.no_grad()
def test_the_query_after_one_block(kind: str) -> None:
    shape = SMALL[kind]
    block = fresh(shape, 3)
    model = whole(shape, block)
    if kind == "vit":
        patches = torch.randn(4, 48, generator=torch.Generator().manual_seed(0))
        image = patches.view(2, 2, 3, 4, 4).permute(2, 0, 3, 1, 4).reshape(1, 3, 8, 8)
        states = model(pixel_values=image, output_hidden_states=True).hidden_states
        mine = query_state(shape, block, patches)
    else:
        ids = torch.randint(30, (9,), generator=torch.Generator().manual_seed(0))
        states = model(input_ids=ids[None], output_hidden_states=True).hidden_states
        mine = query_state(shape, block, ids)
    whole_state = states[1][0, -1 if kind == "gpt2" else 0]
    if kind == "gpt2":
        # transformers puts the last norm on the last state.
        mine = torch.nn.functional.layer_norm(mine, mine.shape, eps=shape.eps)
    assert torch.allclose(mine, whole_state, atol=2e-5)


def test_shapes_are_those_of_the_models() -> None:
    assert dataclasses.astuple(shape_of("BERT-large"))[:5] == (1024, 16, 4096, 512, 30522)
    assert dataclasses.astuple(shape_of("GPT-2-large"))[:5] == (1280, 20, 5120, 1024, 50257)
    assert dataclasses.astuple(shape_of("ViT-B"))[:5] == (768, 12, 3072, 197, 768)
    with pytest.raises(UnknownName, match="ViT-B"):
        shape_of("ViT")


def test_a_row_for_each_size_and_rule() -> None:
    rows = run("fresh_shape", {"model": "ViT-B", "samples": 12, "sizes": "4,8", "sets": 20}, 0)
    assert [(row["context"], row["rule"]) for row in rows] == [
        (size, rule) for size in (4, 8) for rule in ("beyond rounding", "default tolerance")
    ]
    assert all(row["sets_of_n_independent"] == 1 for row in rows)


def test_windows_of_words_do_not_overlap_and_are_all_different() -> None:
    text = " ".join(f"w{i}" for i in range(9 * 7)) + " tail"
    read = list(windows(SMALL["gpt2"], text, 7, np.random.default_rng(0)))
    assert len(read) == 7 and all(len(one) == 9 for one in read)
    # 64 words that occur once are numbered by where they stand, modulo the vocabulary.
    assert sorted(int(one[0]) for one in read) == sorted((9 * i + 1) % 30 for i in range(7))
    with pytest.raises(UsageError, match="7 different windows of 9, and 8 are asked for"):
        list(windows(SMALL["gpt2"], text, 8, np.random.default_rng(0)))
    twice = " ".join(["a b c d e f g h i"] * 2)
    with pytest.raises(UsageError, match="1 different windows"):
        list(windows(SMALL["bert"], twice, 2, np.random.default_rng(0)))


def test_the_library_is_long_enough_and_has_nothing_that_was_installed() -> None:
    text = library()
    assert len(text) > 10**7
    assert "class JSONDecodeError(ValueError)" in text
    assert "class LlamaForCausalLM(" not in text
