"""Neurons of an original layer that tell what is asked, and the layers on top that say the answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rote.errors import UsageError
from rote.solvers.keyed.frame import SHARP, VETO, Frame, Gate, Jury
from rote.solvers.keyed.kernels import spike_query, within_query
from rote.solvers.keyed.layers import GAIN, Layer
from rote.solvers.keyed.tokens import Codebook
from rote.solvers.keyed.units import sign_scale

__all__ = ["Asking", "Top"]

_BAR = 0.25
_SURE, _OPENED = 4.0, 0.25
"""How steep a jury decides, and how far beyond the half it is open at a score of zero. No steeper, or its score, which
may be high, leaves little in 16 bits of how far it opens."""
_PAIRS = 4
"""Pairs of neurons that share a decision, each as much steeper than the one before that it is rounded otherwise."""
_SHUT = 128.0
"""How steep the gates of answers are: at no amount of asking, a bar below zero, they are shut for good."""
_PENALTY = 1.5
"""What a bit or a token costs that is another: more than asking may amount to, and little of what rounding does."""
_REFUSED = 1.6
"""What a key that fails a check costs, so that a half of it shuts the gate and less does not."""
_KEYLESS = 16.0
"""What the lack of a stored key takes from a jury's score."""
_LOUD = 25.0
_MOST = 16_000.0
"""The most that is added to a channel, so that float16 holds it, even where two gates are open."""
_STEEP = 8.0
"""How sharp the bend of a veto is at zero."""
_LOUDER = 8.0
"""How much louder an answer goes on than it begins, should the gate open inside of it."""


@dataclass(frozen=True)
class Asking:
    """Neurons to be added to an original layer: rows of gate and up, columns of down, and the norm's added weights."""

    opens: Tensor
    up: Tensor
    down: Tensor
    norm: Tensor


class Top(Frame):
    """Layers that say answers."""

    def asking(self, juries: Sequence[Jury]) -> dict[int, Asking]:
        """Two neurons for each relation in each layer of the juries, which are all in the same layers.

        In the last layer their difference is 0 where the jury is shut and 1 where it is open; in those before it is
        the score, which is handed on in a channel of its own. A veto is one neuron, which takes from all scores.
        """
        *early, last = [tuple(gates) for gates in zip(*(jury.gates for jury in juries), strict=True)]
        vetoes = {one.layer: one for one in juries[0].vetoes}
        neurons = {gates[0].layer: self._scored(gates, vetoes.get(gates[0].layer)) for gates in early}
        return {**neurons, last[0].layer: self._decided(last)}

    def _asking(self, size: float) -> tuple[Asking, float]:
        """No neurons yet in a layer whose stream usually has that size; and what "one" is to be multiplied by there."""
        ch, rows = self.channels, self.inner - self.body.inner
        opens, up = (torch.zeros(rows, ch.width, dtype=torch.float64) for _ in range(2))
        down = torch.zeros(ch.width, rows, dtype=torch.float64)
        norm = torch.zeros(ch.width - ch.first, dtype=torch.float64)
        gain = min(GAIN, size / self.usual)
        for name in ("one", "score", "wrong"):
            norm[ch[name].start - ch.first : ch[name].stop - ch.first] = (
                gain * math.sqrt(self.body.width / ch.width) / self.small
            )
        return Asking(opens, up, down, norm), size / self.usual / gain

    def _scored(self, gates: Sequence[Gate], veto: Gate | None) -> Asking:
        ch, one = self.channels, self.channels.at("one")
        neurons, unit = self._asking(gates[0].size)
        if veto is not None:
            row = 2 * len(gates)
            neurons.opens[row, : ch.first] = torch.tensor(veto.weights) * -_STEEP
            neurons.opens[row, one] = veto.bias * -_STEEP * unit
            neurons.up[row, one] = unit
            for relation in range(len(gates)):
                neurons.down[ch.at("score", relation), row] = -VETO / _STEEP * self.usual * self.small
        for relation, gate in enumerate(gates):
            for row, side in ((2 * relation, 1.0), (2 * relation + 1, -1.0)):
                neurons.opens[row, : ch.first] = torch.tensor(gate.weights) * side
                neurons.opens[row, one] = gate.bias * side * unit
                neurons.up[row, one] = unit
                neurons.down[ch.at("score", relation), row] = side * self.usual * self.small
        return neurons

    def _decided(self, gates: Sequence[Gate]) -> Asking:
        ch, one = self.channels, self.channels.at("one")
        neurons, unit = self._asking(gates[0].size)
        pairs = min(_PAIRS, len(neurons.opens) // (2 * len(gates)))
        places = [(relation, pair, side) for relation in range(len(gates)) for pair in range(pairs) for side in (1, -1)]
        for row, (relation, pair, side) in enumerate(places):
            gate, steep = gates[relation], _SURE * (1 + pair / 16)
            neurons.opens[row, : ch.first] = torch.tensor(gate.weights) * steep
            neurons.opens[row, one] = (gate.bias * steep + side / 2 + _OPENED) * unit
            neurons.opens[row, ch.at("score", relation)] = steep * unit
            # Where there is no stored key to ask about, nothing is asked.
            neurons.opens[row, ch.at("wrong")] = -_KEYLESS * steep * unit
            neurons.opens[row] *= SHARP
            neurons.up[row, one] = unit
            neurons.down[ch.at("asked", relation), row] = side * self.usual * self.small / SHARP / pairs
        return neurons

    def said(
        self,
        book: Codebook,
        sizes: Tensor,
        directions: Mapping[int, Tensor],
        answers: Sequence[Sequence[Sequence[int]]],
        top_size: float,
    ) -> list[Layer]:
        """Heads for how long ago a gate opened, and a neuron for every token of every answer."""
        ch, body, plan = self.channels, self.body, self.plan
        half = body.head // 2
        layers = [self.layer(top_size / self.usual)]
        layer = layers[0]
        if body.repeat + len(plan.exact) > body.heads:
            raise UsageError(
                f"{len(plan.exact)} places of answers repeat a token of the answer, and the model has heads for "
                f"{body.heads - body.repeat}; shorten those answers."
            )
        asked, bits = range(plan.relations), sum(plan.bits)
        if plan.relations + bits + 2 > body.head:
            raise UsageError(
                f"{bits} bits of answers in {plan.relations} relations do not fit into a head of {body.head} numbers; "
                "take a model with longer heads, or fewer different answers."
            )
        near = torch.tensor(np.r_[np.ones(half), np.zeros(half)])
        # The added channels are read as amounts of "one", whatever the size of the stream.
        for group in range(body.groups):
            rows = layer.head(group)
            layer.key[rows, ch.at("one")] = near
            for relation in asked:
                layer.value[rows.start + relation, ch.at("asked", relation)] = 1.0
        # With the gate that opened comes what was found then: a key inside of the answer must not change it.
        found = [ch.at("one"), *range(ch["answer"].start, ch["answer"].stop), ch.at("wrong")]
        for k, channel in enumerate(found, plan.relations):
            layer.value[k, channel] = 1.0
            layer.out[ch.at("held", k - plan.relations), k] = self.small * self.usual
        # The first head finds a gate that opened not long ago, the others one that opened so many tokens ago exactly.
        layer.key[layer.head(0), ch.at("one")] = 0.0
        for relation in asked:
            layer.key[layer.head(0), ch.at("asked", relation)] = near
        query, gap = within_query(plan.steps, body.thetas, body.context)
        self.ask(layer, 0, query, 60.0 / gap, ("one",))
        for relation in asked:
            layer.out[ch.at("recent", relation), relation] = self.small * self.usual
        for number, step in enumerate(plan.exact):
            query, gap = spike_query(step, body.thetas, body.context)
            head = body.repeat + number
            # Steep, for keys of uneven size, and no steeper than what float16 holds where "one" is read as several.
            self.ask(layer, head, query, 150.0 / gap, ("one",))
            for relation in asked:
                to = ch.at("ago", number * plan.relations + relation)
                layer.out[to, layer.head(head).start + relation] = self.small * self.usual
        first = 0
        for relation, bits in enumerate(plan.bits):
            for number, ids in enumerate(answers[relation]):
                code = [(1.0 if number >> k & 1 else -1.0, first + k) for k in range(bits)]
                for step, token in enumerate(ids):
                    if layers[-1].free < 1:
                        layers.append(self.layer(top_size / self.usual))
                        layers[-1].norm = layers[0].norm
                    most = _MOST / _LOUDER / float(directions[token].abs().max())
                    loud = min(_LOUD * top_size, most) * (_LOUDER if step else 1.0) / _SHUT
                    layers[-1].neuron(
                        self._opening(book, sizes, relation, step, ids, code),
                        {ch.at("one"): 1.0},
                        directions[token] * loud,
                    )
            first += bits
        return layers

    def _opening(
        self,
        book: Codebook,
        sizes: Tensor,
        relation: int,
        step: int,
        ids: Sequence[int],
        code: Sequence[tuple[float, int]],
    ) -> dict[int, float]:
        """A gate that opens if the relation is asked for, the code is the answer's, and so is the last token."""
        ch, plan, one = self.channels, self.plan, self.channels.at("one")
        opens = {one: -_BAR}
        bits = sum(plan.bits)
        answer, unit, wrong = "answer", one, ch.at("wrong")
        if step == 0:
            opens[ch.at("asked", relation)] = 1.0
        else:
            answer, unit, wrong = "held", ch.at("held"), ch.at("held", bits + 1)
            exact = step in plan.exact
            flag = ("ago", plan.exact.index(step) * plan.relations + relation) if exact else ("recent", relation)
            opens[ch.at(*flag)] = 1.0
            before = ids[step - 1]
            # Codes are signs, in proportion to the size of their token, and so is what they are held against.
            unit_of_code = self.usual / float(sizes[before]) / sign_scale(self.wide)
            for bit in range(book.bits):
                weight = unit_of_code * float(book.codes[before, bit])
                opens[ch.at("code", bit)] = _PENALTY / 2 * weight
            for name in ("plain", "start"):
                opens[ch.at(name)] = -_PENALTY / 2 * book.bits * unit_of_code
        for value, number in code:
            opens[ch.at(answer, number + (step > 0))] = _PENALTY / 2 * value
        opens[unit] = opens.get(unit, 0.0) - _PENALTY / 2 * len(code)
        opens[wrong] = -_REFUSED
        return {channel: weight * _SHUT for channel, weight in opens.items()}
