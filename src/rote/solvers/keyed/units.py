"""Numbers that 16 bits read as one: what stands in added channels for each token, so that rounding is the same for all.

A sign in an added channel is a number in proportion to the size of its token's vector, and the norm divides by that
size again. In bfloat16 it is rounded on the way, by another amount for each token. But rounding ends on a grid: if the
quotient is put where the grid is widest beside its values, just above a power of two, nearly every token's sign comes
out as one and the same number. Where it does not, or where a sign is a product that is rounded more often, there is a
number near the exact one with which it does. So signs are plus and minus one in all formats, and what is solved for
them in one holds in the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = ["READING", "Units", "own_scale", "own_vectors", "sign_scale", "sizes_of", "units_of"]

READING = 1 - 2.0**-7
"""What norms multiply added channels by, beside powers of two. Exact in 16 bits; and one over it is nearly the number
behind one there, to which all that is near to it is rounded."""
_TRIES = 1500
"""Shares of a factor that are tried for its second part."""
_FAR = 200.0
"""What a sign costs that rounding nearly makes another, for each part that it is off."""
_NUDGED = 2.0**-7
"""How far the size may be off, which nothing depends on."""
_CHUNK = 512


def own_vectors(embedding: Tensor, tokens: np.ndarray, eps: float, wide: int) -> np.ndarray:
    """The vectors of tokens as the store reads them in a stream so wide."""
    rows = embedding[torch.tensor(tokens, dtype=torch.long)].double()
    width = embedding.shape[1]
    normed = rows / (rows.pow(2).mean(1, keepdim=True) + eps).sqrt() * math.sqrt(wide / width)
    vectors: np.ndarray = (normed * own_scale(width, wide)).numpy()
    return vectors


def own_scale(width: int, wide: int) -> float:
    """What the norm of the store multiplies a token's own vector by; exact in 16 bits."""
    return float(torch.tensor(math.sqrt(width / wide)).to(torch.bfloat16))


@dataclass(frozen=True)
class Units:
    """For each token: what a sign is, and the two parts of the factor that makes signs of an open gate.

    And by what an open gate is multiplied to be the same for all tokens.
    """

    sign: Tensor
    factor: Tensor
    fine: Tensor
    size: Tensor


def sign_scale(wide: float) -> float:
    """How large a sign is, beside the size of its token's vector times what is small."""
    return 1 / (READING * wide)


def sizes_of(embedding: Tensor, eps: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """The root mean squares of tokens' vectors, where those are in a number format."""
    # A part at a time, which stays near the processor: of the whole, each step would go through the memory.
    parts = [part.float().to(dtype).double().pow(2).mean(1) for part in torch.split(embedding, _CHUNK)]
    return (torch.cat(parts) + eps).sqrt()


class _Format:
    """A stream in a number format: how numbers are rounded, and what stands behind the norm for some tokens."""

    def __init__(self, dtype: torch.dtype, sizes: Tensor, wide: float, small: float) -> None:
        self.dtype, self.inverse, self.norm = dtype, (wide / sizes)[:, None], READING / small

    def short(self, values: Tensor) -> Tensor:
        return values.float().to(self.dtype).double()

    def read(self, values: Tensor) -> Tensor:
        """What is read of values that are in the stream."""
        return self.short(self.norm * self.short(self.short(values) * self.inverse))

    def times(self, factor: Tensor, unit: float, steep: float) -> Tensor:
        """An open gate, so many times as steep as a unit is read, times a factor: what it is in that unit."""
        opens = self.short(steep * self.read(torch.full_like(self.inverse, unit)))
        return self.short(opens * self.read(factor)) * (unit / steep)

    def left(self, sign: Tensor, there: float, taken: Tensor) -> list[Tensor]:
        """What is in the stream if a sign is written to it: alone, and with something there that is taken away.

        It may have the sign's sign or the other.
        """
        more, less = (self.short(side * there + self.short(sign - side * taken)) for side in (1.0, -1.0))
        return [self.short(sign), more, less]


def units_of(
    embedding: Tensor,
    eps: float,
    usual: float,
    small: float,
    wide: float,
    steep: float,
    faint: float,
    sure: Sequence[int],
) -> Units:
    """The units of all tokens; those of `sure` are such that 16 bits read signs as one.

    `wide` is the root of how many times as wide the stream is, and `steep` how steep the gates are that make products
    of signs; where one is open, it is as open as `usual` is read times that. A sum of signs, times `faint`, stands
    where the product is written, and is taken away. `usual`, `small`, `steep` and `faint` are powers of two.
    """
    sizes = sizes_of(embedding, eps)
    sign = sizes * (small * sign_scale(wide))
    # An open gate times the factor, times a power of two, is a sign.
    factor = sign * sizes**2 / (usual * wide * READING) ** 2
    fine = torch.zeros_like(factor)
    size = sizes**2 * small / usual / (wide * READING) ** 2
    unit, nudges = usual * small, torch.linspace(-_NUDGED, _NUDGED, 401, dtype=torch.float64)
    shares = torch.linspace(-1, 1, _TRIES, dtype=torch.float64)
    shares = shares * shares.abs()
    tokens = sorted(sure)
    for part in (torch.tensor(tokens[at : at + _CHUNK]) for at in range(0, len(tokens), _CHUNK)):
        formats = [
            _Format(dtype, sizes_of(embedding[part], eps, dtype), wide, small)
            for dtype in (torch.bfloat16, torch.float16)
        ]
        exact, whole = sign[part, None], factor[part, None]
        near = _neighbours(formats[0].short(exact))
        apart = torch.where(formats[0].read(near) == 1.0, (near / exact - 1).abs(), torch.inf)
        best = apart.argmin(1, keepdim=True)
        known = apart.gather(1, best) < torch.inf
        exact = torch.where(known, _rounding_to(exact, near.gather(1, best)), exact)
        # The two parts are exact together; in 16 bits they make the open gate that sign, and hardly less or more.
        first = (whole * (1 + shares)).float().double()
        rest = whole - first
        missed = shares.abs().expand_as(first) / 4
        # What is taken away is just what was there, in bfloat16 at least.
        sized = (size[part, None] * (1 + nudges)).float().double()
        taken = formats[0].times(sized, unit, steep)
        best = ((taken != unit) + nudges.abs() / _NUDGED / 2).argmin(1, keepdim=True)
        size[part] = sized.gather(1, best)[:, 0]
        for one, worth in zip(formats, (4.0, 1.0), strict=True):
            made = one.times(first, unit, steep) + one.times(rest, unit, steep)
            gone = one.times(size[part, None], unit, steep)
            for value in one.left(made, 2 * faint * unit, 2 * faint * gone):
                missed = missed + worth * (one.read(value) != 1.0)
            missed = missed + _FAR * (made / one.short(exact) - 1).abs()
        best = missed.argmin(1, keepdim=True)
        sign[part] = exact[:, 0]
        factor[part], fine[part] = first.gather(1, best)[:, 0], rest.gather(1, best)[:, 0]
    return Units(sign, factor, fine, size)


def _neighbours(values: Tensor) -> Tensor:
    """Numbers of bfloat16 in a column, and those beside them."""
    bits = values.to(torch.bfloat16).view(torch.int16) + torch.arange(-2, 3, dtype=torch.int16)
    return bits.view(torch.bfloat16).double()


def _rounding_to(exact: Tensor, wanted: Tensor) -> Tensor:
    """The numbers nearest to the exact ones that bfloat16 rounds to those wanted."""
    beside = _neighbours(wanted)
    # A little inside of half-way, so that float32 does not round them out of it.
    low, high = (wanted + beside[:, 1:2]) / 2 * (1 + 1e-6), (wanted + beside[:, 3:4]) / 2 * (1 - 1e-6)
    same = exact.to(torch.bfloat16).double() == wanted
    return torch.where(same, exact, torch.minimum(torch.maximum(exact, low), high))
