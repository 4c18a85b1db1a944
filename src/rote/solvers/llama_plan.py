"""The shape of a stock one-layer model: what it costs, and the cheapest one for a table of facts."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from rote.data._arrays import IntArray
from rote.errors import ShapeError

__all__ = ["LlamaShape", "answer_bits", "plan_llama"]


_MOST_FEATURES = 2304
_SAFETY = {True: 1.3, False: 2.0}
"""Room the plan leaves, in float32 and below: rounding weights to 8 bits costs margin, and margin costs features."""


@dataclass(frozen=True)
class LlamaShape:
    """The widths of a one-layer stock model. `d_mlp` counts the units of the (zero) MLP, at least one."""

    d_model: int
    n_heads: int
    d_head: int
    n_kv_heads: int = 1
    d_mlp: int = 1

    def __post_init__(self) -> None:
        for name, least in (("d_model", 1), ("n_heads", 1), ("d_head", 2), ("n_kv_heads", 1), ("d_mlp", 1)):
            if getattr(self, name) < least:
                raise ShapeError(f"a stock Llama needs {name} of at least {least}, got {getattr(self, name)}.")
        if self.d_head % 2:
            raise ShapeError(
                f"rotary positions pair the coordinates of a head, so d_head must be even, got {self.d_head}."
            )

    @property
    def n_features(self) -> int:
        return self.n_heads * self.d_head

    def params(self, vocab: int) -> int:
        """Every stored number where the head shares the embedding: that, q k v o, gate up down, three norms."""
        heads = 2 * self.n_features + 2 * self.n_kv_heads * self.d_head
        return self.d_model * (vocab + heads + 3 * self.d_mlp + 3)


def answer_bits(contexts: IntArray, targets: IntArray, pad_id: int | None) -> tuple[float, float]:
    """Bits in an answer: by itself, and once the most telling token of its context is known (wherever it stands).

    The embeddings hold what a token tells by itself (`codes.hinted_embeddings`), so o_proj has to store only the rest.
    """
    n_facts = len(contexts)
    answers = np.unique(targets, return_inverse=True)[1]
    share = np.bincount(answers) / n_facts
    alone = float(-(share * np.log2(share)).sum())
    # Entropy of the answers around each token, from the distinct (token, answer) pairs and their counts.
    span = int(answers.max()) + 1
    pairs, counts = np.unique(contexts * span + answers[:, None], return_counts=True)
    n_tokens = int(contexts.max()) + 1
    total = np.bincount(pairs // span, weights=counts, minlength=n_tokens)
    surprise = -counts * np.log2(counts / total[pairs // span])
    open_bits = np.bincount(pairs // span, weights=surprise, minlength=n_tokens) / np.maximum(total, 1.0)
    if pad_id is not None and pad_id < n_tokens:
        open_bits[pad_id] = np.inf
    rest = float(open_bits[contexts].min(axis=1).mean())
    for column in contexts.T:
        # A place tells as much by itself, to heads that look there; with few facts a token the estimate is too rosy.
        if n_facts >= 100 * len(np.unique(column)):
            joint = np.unique(column * span + answers, return_counts=True)[1] / n_facts
            single = np.unique(column, return_counts=True)[1] / n_facts
            rest = min(rest, float((single * np.log2(single)).sum() - (joint * np.log2(joint)).sum()))
    return max(0.0, alone), max(0.0, rest)


def plan_llama(
    contexts: IntArray,
    targets: IntArray,
    vocab: int,
    pad_id: int | None,
    dtype: str = "float32",
) -> LlamaShape:
    """The cheapest shape that holds these facts at the first try: a measured rule on the safe side, not a theorem.

    A fitted number of o_proj holds about 1.4 bits.  The answers may be held by o_proj and the target codes together (a
    number of the codes does half as much), or by o_proj on top of what the embeddings tell; the lesser need counts.
    A head's features cannot outnumber the distinct context tokens, so narrow alphabets get narrow heads.  More than
    `_MOST_FEATURES` features are avoided where a wider model needs fewer.
    """
    exact = dtype in ("float32", "float64")
    n_facts, n_targets = len(targets), len(np.unique(targets))
    if contexts.shape[1] == 1:
        # Attention to a single token is linear in it: the hints in the embedding carry the answers.
        width = 8 if n_targets <= 64 else 16
        return LlamaShape(width, 1, width)
    alone, rest = (_SAFETY[exact] * n_facts * bits / 1.4 for bits in answer_bits(contexts, targets, pad_id))
    alphabet = len(np.unique(contexts))
    shapes: list[LlamaShape] = []
    for width in (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256):
        if width < (8 if n_targets <= 1024 else 16):
            continue
        useful = min(width, max(1, n_targets - 1))
        need = min(alone - 0.7 * n_targets * useful, rest)
        features = max(need / useful, n_targets / (32 if exact else 16), 2 * width)
        # As many features as facts is the worst-conditioned choice there is: go well past it, or stay below.
        if 0.75 * n_facts < features < 1.5 * n_facts:
            features = 1.5 * n_facts
        d_head = max(2, min(width, (alphabet - 1) // 2 * 2))
        shapes.append(LlamaShape(width, ceil(features / d_head), d_head))
    fewest = min(shape.n_features for shape in shapes)
    allowed = [shape for shape in shapes if shape.n_features <= max(_MOST_FEATURES, fewest)]
    return min(allowed, key=lambda shape: shape.params(vocab))
