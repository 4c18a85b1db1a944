"""Do fresh weights of a well-known shape meet Assumption 1 after one layer? (Mahdavi et al. 2024, their notebooks)

The first block of BERT-large, GPT-2-large or ViT-B, with weights drawn as their authors draw them: normal, biases zero,
norms one. Shapes are those of the configurations in transformers. Only the state of the query is computed ([CLS], for
GPT-2 the last token), which takes no map of the other tokens: keys and values are pulled back to it.

The text is the source of the standard library that every Python carries, some seven million words and signs; each is a
token, numbered by how often it occurs. Windows do not overlap and are all different: where they overlap, as they must
in a text of a tenth of a million, queries come out nearer to dependent. ViT sees the bytes of the text as pixels; its
windows are too long for that, so they begin at random places and overlap. Sets of so many queries are drawn, and judged
by two rules: "beyond rounding", as in an audit, where rounding to float32 could not have made them independent; and
"default tolerance", that of torch.linalg.matrix_rank in float32, by which the authors' notebooks go: it calls singular
values below d times 2^-23 of the largest zero, and so asks for more.
"""

from __future__ import annotations

import math
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rote.errors import UsageError
from rote.lab.studies._params import Params, chosen

__all__ = [
    "KEYS",
    "PARAMS",
    "Block",
    "Shape",
    "fresh",
    "library",
    "query_state",
    "run",
    "seconds",
    "shape_of",
    "windows",
]

PARAMS: Params = {
    "model": (str, "ViT-B"),
    "samples": (int, 400),
    "sizes": (str, ""),
    "sets": (int, 500),
}
KEYS = ("context", "rule")
_FEWER = 10
"""The second rule takes a decomposition for each set, so that it has fewer."""
_MODELS = ("BERT-large", "GPT-2-large", "ViT-B")


@dataclass(frozen=True)
class Shape:
    """What a configuration says of the first block."""

    d_model: int
    n_heads: int
    d_mlp: int
    context: int
    vocab: int
    """Tokens, or numbers in a patch."""
    spread: float
    n_layers: int
    eps: float
    kind: str
    """"bert" (norms behind), "gpt2" or "vit" (norms before)."""


@dataclass(frozen=True)
class Block:
    """Embedding and first block; maps act on rows from the right."""

    embed: Tensor
    places: Tensor
    first: Tensor
    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor
    W_up: Tensor
    W_down: Tensor


def seconds(params: Mapping[str, Any]) -> float:
    return float(
        {"BERT-large": 0.03, "GPT-2-large": 0.08, "ViT-B": 0.02}.get(params["model"], 0.05) * params["samples"]
    )


def shape_of(model: str) -> Shape:
    """The shape of a model, as transformers configures it."""
    from transformers import BertConfig, GPT2Config, ViTConfig

    if chosen("shape", model, _MODELS) == "BERT-large":
        c: Any = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
        return Shape(1024, 16, 4096, 512, c.vocab_size, c.initializer_range, 24, c.layer_norm_eps, "bert")
    if model == "GPT-2-large":
        c = GPT2Config(n_embd=1280, n_layer=36, n_head=20)
        return Shape(1280, 20, 5120, 1024, c.vocab_size, c.initializer_range, 36, c.layer_norm_epsilon, "gpt2")
    c = ViTConfig()
    patches = (c.image_size // c.patch_size) ** 2
    numbers = c.num_channels * c.patch_size**2
    return Shape(
        c.hidden_size, c.num_attention_heads, c.intermediate_size, patches + 1, numbers, c.initializer_range,
        c.num_hidden_layers, c.layer_norm_eps, "vit",
    )  # fmt: skip


def fresh(shape: Shape, seed: int) -> Block:
    """Weights as they are before training."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*size: int, spread: float = shape.spread) -> Tensor:
        return torch.randn(*size, generator=generator) * spread

    d = shape.d_model
    # GPT-2 draws what is added to the stream smaller, by the number of additions.
    added = shape.spread / math.sqrt(2 * shape.n_layers) if shape.kind == "gpt2" else shape.spread
    return Block(
        embed=draw(shape.vocab, d),
        places=draw(shape.context, d),
        first=draw(d),
        W_Q=draw(d, d),
        W_K=draw(d, d),
        W_V=draw(d, d),
        W_O=draw(d, d, spread=added),
        W_up=draw(d, shape.d_mlp),
        W_down=draw(shape.d_mlp, d, spread=added),
    )


def query_state(shape: Shape, block: Block, window: Tensor) -> Tensor:
    """The query's state after the first block, for the tokens of a window, or the patches of an image."""

    def norm(y: Tensor) -> Tensor:
        return functional.layer_norm(y, y.shape[-1:], eps=shape.eps)

    if shape.kind == "vit":
        x = torch.cat([block.first[None], window @ block.embed]) + block.places
    else:
        # BERT's type of segment is one vector that all tokens have.
        x = block.embed[window] + block.places[: len(window)] + (block.first if shape.kind == "bert" else 0)
    at = -1 if shape.kind == "gpt2" else 0
    x = norm(x) if shape.kind == "bert" else x
    z = x if shape.kind == "bert" else norm(x)
    h, d = shape.n_heads, shape.d_model
    asked = (z[at] @ block.W_Q).view(h, d // h) / math.sqrt(d // h)
    probe = torch.einsum("hk,dhk->hd", asked, block.W_K.view(d, h, d // h))
    mixed = torch.softmax(probe @ z.T, dim=1) @ z
    seen = torch.einsum("hd,dhk->hk", mixed, block.W_V.view(d, h, d // h)).reshape(d) @ block.W_O

    def mlp(y: Tensor) -> Tensor:
        inner = functional.gelu(y @ block.W_up, approximate="tanh" if shape.kind == "gpt2" else "none")
        return inner @ block.W_down

    if shape.kind == "bert":
        y = norm(x[at] + seen)
        return norm(y + mlp(y))
    y = x[at] + seen
    return y + mlp(norm(y))


def library() -> str:
    """The source of the standard library, file after file."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    installed = {"site-packages", "dist-packages"}
    files = sorted(path for path in folder.rglob("*.py") if not installed & set(path.parts))
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


def windows(shape: Shape, text: str, samples: int, rng: np.random.Generator) -> Iterator[Tensor]:
    """So many different windows of a text, as patches for ViT and as tokens for the others."""
    if shape.kind == "vit":
        whole: Any = np.frombuffer(text.encode(), dtype=np.uint8)
        size = (shape.context - 1) * shape.vocab
        starts = rng.permutation(max(0, len(whole) - size))
    else:
        words = re.findall(r"\w+|[^\w\s]", text)
        numbers = {word: i for i, (word, _) in enumerate(Counter(words).most_common(), start=1)}
        whole, size = np.array([numbers[word] % shape.vocab for word in words]), shape.context
        starts = rng.permutation(len(whole) // size) * size
    seen: set[bytes] = set()
    for start in starts:
        if len(seen) == samples:
            return
        window = whole[start : start + size].copy()
        if shape.kind == "bert":
            window[0] = 0
        if window.tobytes() in seen:
            continue
        seen.add(window.tobytes())
        if shape.kind == "vit":
            yield torch.from_numpy(window.astype(np.float32) / 127.5 - 1).view(shape.context - 1, shape.vocab)
        else:
            yield torch.from_numpy(window)
    if len(seen) < samples:
        raise UsageError(f"the text has {len(seen):,} different windows of {size:,}, and {samples:,} are asked for.")


@torch.no_grad()
def run(params: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """A row for each size of the sets and each rule."""
    from rote.analyse.audit._watch import ROUNDOFF
    from rote.assumptions._independence import Rows
    from rote.assumptions._kruskal import kruskal

    shape = shape_of(params["model"])
    block = fresh(shape, seed)
    rng = np.random.default_rng([seed, 0])
    read = windows(shape, library(), params["samples"], rng)
    states = torch.stack([query_state(shape, block, one) for one in read])
    found = kruskal(Rows(states.double().numpy(), ROUNDOFF), rng, effort=0.1)
    rows = []
    for size in [int(one) for one in params["sizes"].split(",") if one] or [shape.context]:
        chosen_sets = [rng.choice(len(states), size, replace=False) for _ in range(params["sets"] // _FEWER)]
        ranks = [int(torch.linalg.matrix_rank(states[one])) for one in chosen_sets]
        shares = {
            "beyond rounding": found.sample(size, params["sets"], rng).share,
            "default tolerance": sum(rank == size for rank in ranks) / len(ranks),
        }
        for rule, share in shares.items():
            rows.append(
                {
                    "weights": "fresh weights",
                    "rule": rule,
                    "layer": 1,
                    "context": size,
                    "sets_of_n_independent": share,
                    **({"rank_of_sets": float(np.mean(ranks))} if rule == "default tolerance" else {}),
                    "n_heads": shape.n_heads,
                    "d_model": shape.d_model,
                    "d_head": shape.d_model // shape.n_heads,
                    "vocab": shape.vocab,
                    "n_facts": params["samples"],
                }
            )
    return rows
