"""A head that shares the embedding: one matrix for the tokens of contexts and for the answers, with no digit changed.

Where no answer stands in a context, the rows of W_E for answers are never read, and the rows of W_U for all other
tokens are zero: the two matrices use different rows. One matrix can be both if the rows of context tokens, read out
as answers, lose against every right one. A stream that is e times as long, for a power of two e, is the same model:
W_E, W_pos and W_down times e, the maps that read the stream (W_Q, W_K, W_gate, W_up) and the rows of W_U by e. The
heads' W_V and W_O stay. Answers keep their scores bit by bit, and a context token's is e^2 times the product of its
row and the stream, as small as one likes. Answers that stand in contexts too keep a row of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from rote.data._arrays import IntArray

__all__ = ["share_head"]

_STREAM = ("W_E", "W_pos", "W_down")
_READERS = ("W_Q", "W_K", "W_gate", "W_up")
_SHARE = 2.0**-6
"""The most that a context token's score may be, seen from the smallest score of a right answer."""


def share_head(
    weights: Mapping[str, Tensor], answers: IntArray, own: IntArray, longest: float, least: float
) -> dict[str, Tensor]:
    """The weights with a matrix W_E that embeds contexts and reads answers out, and rows of `own` tokens in W_U.

    `answers` are the rows of W_U that are not zero. `longest` is the length of the longest stream that facts end in,
    and `least` the smallest score of a right answer.
    """
    reach = float(weights["W_E"].double().norm(dim=1).max()) * longest
    factor = 2.0 ** min(0, math.floor(math.log2(_SHARE * least / reach) / 2)) if reach > 0 else 1.0
    shared = {name: tensor for name, tensor in weights.items() if name != "W_U"}
    shared |= {name: shared[name] * factor for name in _STREAM if name in shared}
    shared |= {name: shared[name] / factor for name in _READERS if name in shared}
    head, apart = weights["W_U"].to(shared["W_E"].dtype) / factor, torch.as_tensor(np.setdiff1d(answers, own))
    shared["W_E"] = shared["W_E"].index_copy(0, apart, head[apart])
    if len(own):
        shared["W_U"] = head[torch.as_tensor(own)]
    return {name: tensor.contiguous() for name, tensor in shared.items()}
