"""The layers below the original, run by stock transformers in three number formats: what they know, and what not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaModel

from rote.solvers.keyed.bottom import Bottom, Marks
from rote.solvers.keyed.frame import Plan, channels_of, usual_size
from rote.solvers.keyed.layers import Body, body_of
from rote.solvers.keyed.store import fit_store, levels_of
from rote.solvers.keyed.tokens import Codebook, codebook, sign_count
from rote.solvers.keyed.units import own_vectors, sizes_of, units_of

FORMATS = ("float32", "bfloat16", "float16")
WIDTH, HEADS, HEAD, INNER, TOKENS, SMALL = 96, 4, 48, 640, 90, 2.0**-8
OUTSIDE = (1, 2, 3)
"""Tokens that are in no key: two that part words, and one that goes on with a word."""


def config(layers: int, width: int, inner: int, eps: float) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=TOKENS, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers, head_dim=HEAD,
        num_attention_heads=HEADS, num_key_value_heads=2, rms_norm_eps=eps, max_position_embeddings=128,
    )  # fmt: skip


@dataclass
class Known:
    """Some keys of three tokens, the layers that know them, and a stock model with nothing but these."""

    plan: Plan
    book: Codebook
    body: Body
    keys: list[tuple[int, ...]]
    numbers: np.ndarray
    bottom: Bottom
    model: LlamaModel
    unit: float
    embedding: torch.Tensor
    inside: list[int]

    def stream(self, texts: list[tuple[int, ...]], dtype: str, layers: int | None = None) -> torch.Tensor:
        """What stands in the stream at the end of texts as long as each other, above so many layers."""
        model = LlamaModel(self.model.config)
        model.load_state_dict(self.model.state_dict())
        model.norm = torch.nn.Identity()
        if layers is not None:
            model.layers = model.layers[:layers]
        with torch.no_grad():
            out = model.to(getattr(torch, dtype))(input_ids=torch.tensor(texts), use_cache=False)
        stream: torch.Tensor = out.last_hidden_state[:, -1].float()
        return stream

    def read(self, texts: list[tuple[int, ...]], dtype: str) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of answers, and whether they are not to be trusted."""
        stream, ch = self.stream(texts, dtype) / self.unit, self.bottom.channels
        bits = (stream[:, ch["answer"]] > 0).numpy()
        return bits @ (1 << np.arange(bits.shape[1])), (stream[:, ch.at("wrong")] > 0.5).numpy()


def known(count: int, *, merged: bool, seed: int = 0) -> Known:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    fresh = LlamaModel(config(1, WIDTH, INNER, 1e-5))
    body = body_of(type("Model", (), {"config": fresh.config, "model": fresh})())
    embedding = torch.tensor(rng.normal(0, rng.uniform(0.08, 0.2, (TOKENS, 1)), (TOKENS, WIDTH))).float()
    keys = sorted({tuple(map(int, rng.integers(10, 80, 3))) for _ in range(count)})
    inside, last = sorted({t for key in keys for t in key}), sorted({key[-1] for key in keys})
    # Tokens from 80 on are like those from 10 on, with a space before them: a key begins with one, or behind a bracket.
    names = [f"t{i}" if i < 80 else f"t{i - 70}" for i in range(TOKENS)]
    _, plan = channels_of(body, sign_count(len(inside)), Plan((6,), 2, 2, (), 24, merged=merged))
    book = codebook(names, inside, [], [OUTSIDE[2]], [], reach=4, hashed=plan.hashed, rng=rng, merged=merged)
    channels, plan = channels_of(body, book.bits, plan)
    numbers = rng.integers(60, size=len(keys))
    windows = book.windows([(OUTSIDE[0], *key) for key in keys])
    store = fit_store(
        book.features(windows), own_vectors(embedding, windows[:, 0], body.eps, channels.width), windows[:, 0],
        levels_of(numbers, 6, plan.depth), own_signs=book.bits, checks=2, rng=rng, layer=plan.inner(body),
        spare=book.hashed + 1,
    )  # fmt: skip
    usual = usual_size(sizes_of(embedding, body.eps))
    bottom = Bottom(body, channels, plan, plan.inner(body), usual, SMALL)
    layers = [bottom.parted()] if merged else []
    layers += [bottom.gathered(book), *bottom.stored(store, book), bottom.fetched()]
    model = LlamaModel(config(len(layers), channels.width, plan.inner(body), body.eps * WIDTH / channels.width))
    tensors = {
        "embed_tokens.weight": torch.cat(
            [embedding, bottom.embedded(book, embedding, Marks(inside, last, [])).float()], 1
        )
    }
    like = fresh.layers[0].state_dict()
    for number, layer in enumerate(layers):
        tensors |= {name.removeprefix("model."): value for name, value in layer.tensors(like, number).items()}
    model.load_state_dict({**model.state_dict(), **tensors})
    return Known(plan, book, body, keys, numbers, bottom, model, usual * SMALL, embedding, inside)


@pytest.fixture(scope="module", params=[(60, False), (60, True), (700, False), (700, True)], ids=str)
def some(request: pytest.FixtureRequest) -> Known:
    count, merged = request.param
    return known(count, merged=merged, seed=count)


@pytest.mark.parametrize("dtype", FORMATS)
def test_every_key_is_known_in_every_format(some: Known, dtype: str) -> None:
    texts = [(2, OUTSIDE[0], *key, OUTSIDE[1], 2) for key in some.keys]
    numbers, wrong = some.read(texts, dtype)
    assert (numbers == some.numbers).all()
    assert not wrong.any()


@pytest.mark.parametrize("dtype", FORMATS)
def test_near_misses_fail_the_checks(some: Known, dtype: str) -> None:
    """Keys whose parts are all stored, but not together: of thousands, hardly one is taken for a stored one."""
    rng, stored = np.random.default_rng(1), set(some.keys)
    pairs = [(some.keys[i], some.keys[j]) for i, j in rng.integers(len(some.keys), size=(4000, 2))]
    near = {(*a[:cut], *b[cut:]) for a, b in pairs for cut in (1, 2)} - stored
    near |= {(a[0], b[1], a[2]) for a, b in pairs} - stored
    texts = [(2, OUTSIDE[0], *key, OUTSIDE[1]) for key in sorted(near)]
    _, wrong = some.read(texts, dtype)
    assert (~wrong).mean() < 0.004


def test_signs_are_the_same_in_all_formats(some: Known) -> None:
    """Behind the norm, each sign of a window is plus or minus one: in 16 bits just so, in float32 but for a little."""
    ch, book = some.bottom.channels, some.book
    texts = [(2, OUTSIDE[0], *key) for key in some.keys]
    signs = book.features(book.windows([text[1:] for text in texts]))
    scale = float(some.bottom.store_norm()[ch.first])
    for dtype, off in (("float32", 2e-3), ("bfloat16", 0.0), ("float16", 2e-3)):
        stream = some.stream(texts, dtype, layers=1 + int(some.plan.merged)).to(getattr(torch, dtype))
        wide = stream.float()
        eps = some.body.eps * WIDTH / ch.width
        normed = (wide * torch.rsqrt(wide.pow(2).mean(1, keepdim=True) + eps)).to(stream.dtype)
        read = (normed * torch.tensor(scale).to(stream.dtype)).double().numpy()
        rows = np.hstack([read[:, ch["code"]], read[:, ch["hash"]][:, : book.hashed]])
        apart = np.abs(rows - signs)
        assert np.quantile(apart, 0.98) <= off + 1e-6, (dtype, np.quantile(apart, [0.5, 0.9, 0.98, 1.0]))
        assert apart.max() < 0.01


def test_merged_forms_are_known_behind_whatever() -> None:
    """Behind anything that parts words a key is the same; behind what goes on with a word it is none."""
    some = known(60, merged=True)
    for before in OUTSIDE[:2]:
        numbers, wrong = some.read([(2, before, *key, OUTSIDE[1]) for key in some.keys], "bfloat16")
        assert (numbers == some.numbers).all() and not wrong.any()
    _, wrong = some.read([(1, OUTSIDE[2], *key, OUTSIDE[1]) for key in some.keys], "bfloat16")
    assert wrong.mean() > 0.95
    _, wrong = some.read([(1, 2, some.keys[0][0], *key, OUTSIDE[1]) for key in some.keys], "bfloat16")
    assert wrong.mean() > 0.95


def test_units_of_all_tokens_are_sure() -> None:
    """Of tokens of any size, hardly one has a sign that bfloat16 does not read as one."""
    rng = np.random.default_rng(3)
    embedding = torch.tensor(rng.normal(0, rng.uniform(0.03, 0.4, (400, 1)), (400, 64))).float()
    usual, wide = usual_size(sizes_of(embedding, 1e-5)), (80 / 64) ** 0.5
    units = units_of(embedding, 1e-5, usual, SMALL, wide, 128.0, 2.0**-4, range(400))
    short = (units.sign.float().to(torch.bfloat16).float(), sizes_of(embedding, 1e-5, torch.bfloat16).float())
    normed = (short[0] * wide / short[1]).to(torch.bfloat16)
    read = normed * torch.tensor((1 - 2.0**-7) / SMALL).to(torch.bfloat16)
    assert (read == 1.0).double().mean() > 0.99
    exact = sizes_of(embedding, 1e-5)
    assert (
        float(((units.factor + units.fine) / exact**3).std() / ((units.factor + units.fine) / exact**3).mean()) < 1e-2
    )
