"""What the compiled loops have in common: exponentials, cross-entropy with its slope, and Adam, in float32.

numba (extra "fast") compiles them, and BLAS, by way of scipy, does products of matrices. Sums may be taken in another
order than written, so results are those of torch up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["WIDE", "Floats", "Kernels", "available", "compile_loop", "kernels", "maps", "split_layer"]

Floats = npt.NDArray[np.float32]
_EPS = 1e-8
WIDE = 24
"""From this width on, the maps of a head are multiplied as matrices of their own."""


class Kernels(NamedTuple):
    """Compiled functions, for use in others."""

    exponentials: Callable[..., None]
    cross_entropy: Callable[..., tuple[float, float]]
    adam: Callable[..., None]


def available() -> bool:
    """Whether anything can be compiled here."""
    try:
        import numba  # noqa: F401
        import scipy.linalg  # noqa: F401
    except ImportError:
        return False
    return True


def compile_loop(function: Callable[..., Any], *, no_nans: bool = False) -> Callable[..., Any]:
    """Compiled, and kept beside the module for the next time."""
    from numba import njit

    loose = {"reassoc", "contract", "nsz", "arcp"} | ({"nnan"} if no_nans else set())
    compiled: Callable[..., Any] = njit(nogil=True, cache=True, fastmath=loose, error_model="numpy")(function)
    return compiled


@cache
def kernels() -> Kernels:
    def exponentials(x: Any, whole: Any, power: Any) -> None:
        """exp in place; `power` are the bits of `whole`, so that the loop has no call."""
        for i in range(x.shape[0]):
            value = min(max(x[i], np.float32(-87.0)), np.float32(87.0))
            n = np.floor(value * np.float32(1.44269504) + np.float32(0.5))
            r = (value - n * np.float32(0.693359375)) + n * np.float32(2.12194440e-4)
            p = np.float32(1.9875691500e-4)
            p = p * r + np.float32(1.3981999507e-3)
            p = p * r + np.float32(8.3334519073e-3)
            p = p * r + np.float32(4.1665795894e-2)
            p = p * r + np.float32(1.6666665459e-1)
            p = p * r + np.float32(5.0000001201e-1)
            x[i] = p * r * r + r + np.float32(1.0)
            power[i] = (np.int32(n) + np.int32(127)) << np.int32(23)
        for i in range(x.shape[0]):
            x[i] *= whole[i]

    exponential = compile_loop(exponentials)

    def cross_entropy(logits: Any, targets: Any, ahead: Any, whole: Any, power: Any) -> tuple[Any, Any]:
        """Mean loss over facts (rows) and share whose target is strictly ahead; logits become the slope of the mean."""
        size, n = logits.shape
        hits = 0
        for f in range(size):
            row = logits[f]
            most, mine, reached = row[0], row[targets[f]], 0
            for j in range(n):
                most = max(most, row[j])
                reached += 1 if row[j] >= mine else 0
            hits += 1 if reached == 1 else 0
            ahead[f] = mine - most
            for j in range(n):
                row[j] -= most
        exponential(logits.reshape(size * n), whole, power)
        loss = np.float32(0.0)
        for f in range(size):
            row = logits[f]
            total = np.float32(0.0)
            for j in range(n):
                total += row[j]
            loss += np.log(total) - ahead[f]
            total = np.float32(1.0) / (total * np.float32(size))
            for j in range(n):
                row[j] *= total
            row[targets[f]] -= np.float32(1.0) / np.float32(size)
        return loss / np.float32(size), np.float32(hits) / np.float32(size)

    def adam(
        vector: Any, grad: Any, mean: Any, square: Any, rate: float, beta1: float, beta2: float, count: int
    ) -> None:
        """Step number `count` of Adam, counted from one."""
        root = np.float32(1.0 / math.sqrt(1.0 - beta2**count))
        move = np.float32(rate / (1.0 - beta1**count))
        keep1, keep2 = np.float32(beta1), np.float32(beta2)
        new1, new2 = np.float32(1.0 - beta1), np.float32(1.0 - beta2)
        for i in range(vector.shape[0]):
            g = grad[i]
            mean[i] = keep1 * mean[i] + new1 * g
            square[i] = keep2 * square[i] + new2 * g * g
            vector[i] -= move * mean[i] / (np.sqrt(square[i]) * root + np.float32(_EPS))

    return Kernels(exponential, compile_loop(cross_entropy), compile_loop(adam))


@cache
def maps() -> tuple[Callable[..., None], Callable[..., None]]:
    """Products of the maps of heads, which stand innermost: (k, w, H) twice gives (w, w, H)."""

    def products(left: Any, right: Any, out: Any, scale: Any) -> None:
        """out[j, i] = scale sum_c left[c, i] right[c, j], head by head."""
        k, w, heads = left.shape
        if w >= WIDE:
            for h in range(heads):
                one = np.ascontiguousarray(right[:, :, h])
                two = np.ascontiguousarray(left[:, :, h])
                out[:, :, h] = np.dot(one.T, two) * scale
            return
        for j in range(w):
            for i in range(w):
                for h in range(heads):
                    out[j, i, h] = 0.0
                for c in range(k):
                    for h in range(heads):
                        out[j, i, h] += left[c, i, h] * right[c, j, h]
                for h in range(heads):
                    out[j, i, h] *= scale

    def slopes(slope: Any, left: Any, right: Any, d_left: Any, d_right: Any, scale: Any) -> None:
        """The gradients of `products`."""
        k, w, heads = left.shape
        if w >= WIDE:
            for h in range(heads):
                one = np.ascontiguousarray(slope[:, :, h])
                d_left[:, :, h] = np.dot(np.ascontiguousarray(right[:, :, h]), one) * scale
                d_right[:, :, h] = np.dot(np.ascontiguousarray(left[:, :, h]), one.T) * scale
            return
        for c in range(k):
            for i in range(w):
                for h in range(heads):
                    d_left[c, i, h] = 0.0
                    d_right[c, i, h] = 0.0
            for j in range(w):
                for i in range(w):
                    for h in range(heads):
                        d_left[c, i, h] += scale * slope[j, i, h] * right[c, j, h]
                    for h in range(heads):
                        d_right[c, j, h] += scale * slope[j, i, h] * left[c, i, h]

    return compile_loop(products), compile_loop(slopes)


@cache
def split_layer() -> Callable[..., Any]:
    """The tensors of a layer over vectors, in the one vector of its weights."""

    def split(vector: Any, h: int, d: int, k: int, c: int) -> Any:
        """W_in, b_in, W_Q, W_K, W_V, W_O, W_U, b_U, as they follow one another."""
        sizes = np.array([d * d, d, h * k * d, h * k * d, h * d, d * h, c * d, c])
        ends = np.cumsum(sizes)
        return (
            vector[: ends[0]].reshape(d, d), vector[ends[0] : ends[1]],
            vector[ends[1] : ends[2]].reshape(h, k, d), vector[ends[2] : ends[3]].reshape(h, k, d),
            vector[ends[3] : ends[4]].reshape(h, d), vector[ends[4] : ends[5]].reshape(d, h),
            vector[ends[5] : ends[6]].reshape(c, d), vector[ends[6] : ends[7]],
        )  # fmt: skip

    return compile_loop(split)
