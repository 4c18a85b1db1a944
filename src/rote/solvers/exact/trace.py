"""What an exact network does with one context: a sum, a long weight, and digits shifted out of it.

Every number shown is taken from an evaluation of the stored weights, layer by layer, by the referee's evaluator. Where
the network is variant A, the layers are known by their place (`rote.solvers.exact.digits`), so that the steps have a
meaning: the digits of the group of the key, the key and the label that each spells, and which of them the key meets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.referee.exact import Values, evaluate
from rote.solvers.exact.network import Network

if TYPE_CHECKING:
    from rote.solvers.exact.transformer import ExactTransformer

__all__ = ["DigitStep", "DigitTrace", "digit_trace"]

LONGEST = 160
"""Bits of a fraction that are spelled out; what follows is counted."""


@dataclass(frozen=True)
class DigitStep:
    """One digit of variant A: the fraction before, the bits that leave it, and what they say."""

    bits: str
    """The digit that is shifted out."""
    rest: str
    """What is left of the fraction, cut at `LONGEST` bits."""
    n_rest: int
    key: int
    label: int
    meets: bool
    """Whether the key of this digit is the key of the context."""


@dataclass(frozen=True)
class DigitTrace:
    """From tokens to a label."""

    numbers: tuple[str, ...]
    """What the first network makes of every position."""
    key: str
    """The sum, which the second network reads."""
    layers: int
    lengths: tuple[int, ...]
    """Bits behind the point of the longest fraction, layer by layer."""
    fractions: tuple[str, ...]
    """That fraction, layer by layer, cut at `LONGEST` bits."""
    steps: tuple[DigitStep, ...]
    """The digits, for variant A."""
    label: int | None
    """The output: the number of a label, or None where it is no label."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def digit_trace(model: ExactTransformer, ids: Sequence[int]) -> DigitTrace:
    """Follow one context through the network, to the label of its last token."""
    rows = [model.vocab] * model.padding + [int(i) for i in ids]
    seen = len(rows)
    numbers, tokens = [], []
    for place, token in enumerate(rows):
        given = [token, place] if model.with_positions else [token]
        out = evaluate(model.first, [_value(Fraction(number)) for number in given])
        numbers.append(_fraction(out[0]))
        tokens.append(_fraction(out[1]) if len(out) > 1 else Fraction(0))
    W_V, W_O = model.attention
    mean = sum(numbers, Fraction(0)) * W_V * W_O / seen
    inputs = [mean] if model.task == "next_token" else [mean, tokens[-1]]
    states = _states(model.second, inputs)
    longest = [max((_length(v) for v in layer), default=0) for layer in states]
    shown = [
        next((v for v in layer if v and _length(v) == most), Fraction(0))
        for layer, most in zip(states, longest, strict=True)
    ]
    output = states[-1][0]
    is_label = output.denominator == 1 and 0 <= output < len(model.labels)
    return DigitTrace(
        numbers=tuple(_text(number) for number in numbers[model.padding :]),
        key=_text(states[0][0]),
        layers=len(states),
        lengths=tuple(longest),
        fractions=tuple(_spelled(value)[:LONGEST] for value in shown),
        steps=tuple(_steps(model, states)),
        label=int(output) if is_label else None,
    )


def _value(number: Fraction, denominator: int = 1) -> Values:
    """A fraction as the evaluator takes it: over a power of two and a common odd denominator."""
    whole = number * denominator
    shift = whole.denominator.bit_length() - 1
    assert whole.denominator == 1 << shift, "numbers are dyadic but for the common denominator"
    held = np.empty(1, dtype=object)
    held[0] = whole.numerator
    return Values(held, shift, denominator)


def _fraction(values: Values) -> Fraction:
    return Fraction(int(values.numerators[0]), values.denominator << values.shift)


def _states(network: Network, inputs: Sequence[Fraction]) -> list[list[Fraction]]:
    """The neurons of every layer."""
    odd = 1
    for number in inputs:
        rest = number.denominator
        while rest % 2 == 0:
            rest //= 2
        odd = max(odd, rest)
    values: Sequence[Values] = [_value(number, odd) for number in inputs]
    states = []
    for layer in network.layers:
        values = evaluate(Network((layer,)), values)
        states.append([_fraction(value) for value in values])
    return states


def _length(value: Fraction) -> int:
    """Bits behind the binary point."""
    return value.denominator.bit_length() - 1


def _spelled(value: Fraction) -> str:
    """The bits behind the point."""
    length = _length(value)
    return format(int(abs(value) * (1 << length)) % (1 << length), f"0{length}b") if length else ""


def _text(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"


def _steps(model: ExactTransformer, states: list[list[Fraction]]) -> list[DigitStep]:
    """The digits of variant A, read from the neurons that hold the fraction."""
    shape = model.shape
    if model.variant != "A" or shape is None:
        return []
    shifts = shape.first_bits + (shape.items - 1) * shape.bits
    tail = 2 + (shape.label_bits + 1 if shape.merged else 1)
    start = len(states) - tail - shifts - 1
    if start < 1:
        return []
    key = states[start - 1][0]
    before = states[start - 1][-1]
    spent, total, left = start, 0, shape.code_bits
    steps = []
    for item in range(shape.items):
        bits = shape.first_bits if item == 0 else shape.bits
        # The layer before the comparison holds the fraction after all tents of this digit, as a difference.
        last = states[spent + bits - 1]
        compared = item > 0 and bits == 1
        after = last[2] - last[3] if compared else last[1] - last[2]
        digit = (1 << bits) * before - after
        total += int(digit)
        left -= bits
        spent += bits
        spelled = format(int(after * (1 << left)), f"0{left}b") if left else ""
        steps.append(
            DigitStep(
                bits=format(int(digit), f"0{bits}b"),
                rest=spelled[:LONGEST],
                n_rest=left,
                key=shape.low + (total >> (shape.label_bits + 1)),
                label=(total & (shape.unit - 1)) >> 1,
                meets=shape.low + (total >> (shape.label_bits + 1)) == key,
            )
        )
        before = after
    return steps
