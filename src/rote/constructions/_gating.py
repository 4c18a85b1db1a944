"""States for the gate of a graft: wordings with some keys, other sentences about them, and ordinary text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rote.constructions._questions import MENTIONS, OTHER, WRAPS
from rote.data.encoding import Ids, encode
from rote.solvers.keyed.network import Gate
from rote.solvers.keyed.relation import States, fit_gate, gate_scores, joined, normed_states

__all__ = ["Sentences", "filled", "fitted_gate", "sentences"]

_KEYS = 20
_FEW = 8
_DEPTHS = (0.6, 0.68, 0.76)


def filled(sentence: str, keys: Sequence[str], rng: np.random.Generator) -> str:
    """A sentence with keys in place of its braces."""
    parts = sentence.split("{}")
    return "".join(part if i == 0 else keys[int(rng.integers(len(keys)))] + part for i, part in enumerate(parts))


@dataclass(frozen=True)
class Sentences:
    """Tokens of what the gate is fitted on; wordings one group each, the prompt's last token asks."""

    asked: Sequence[Sequence[Ids]]
    other: Sequence[Ids]
    text: Sequence[Ids]


def sentences(
    tokenizer: Any,
    wordings: Sequence[Callable[[int], str]],
    keys: Sequence[str],
    others: Sequence[str],
    text: Sequence[Ids],
    rng: np.random.Generator,
) -> Sentences:
    """`wordings` give the prompt of a key by its number; `others` are sentences of the user's with {} for the key."""
    groups: list[list[Ids]] = []
    for number, wording in enumerate(wordings):
        chosen = rng.choice(len(keys), min(_KEYS, len(keys)), replace=False)
        prompts = [wording(int(i)) for i in chosen]
        wrapped = [WRAPS[(number + i) % len(WRAPS)].format(p) for i, p in enumerate(prompts[:_FEW])]
        groups += [encode(tokenizer, prompts), encode(tokenizer, wrapped)]
    about = [filled(sentence, keys, rng) for sentence in (*OTHER, *others) for _ in range(_FEW)]
    mentions = [filled(sentence, keys, rng) for sentence in MENTIONS for _ in range(_FEW)]
    return Sentences(groups, encode(tokenizer, about), [*text, *encode(tokenizer, mentions)])


def fitted_gate(
    model: Any, given: Sentences, *, layer: int | None, advance: Callable[[int], None]
) -> tuple[Gate, dict[str, Any]]:
    """The gate, in the layer where wordings that are left out of the fit are recognised most often."""
    depth = int(model.config.num_hidden_layers)
    layers = sorted({min(depth - 1, int(depth * share)) for share in _DEPTHS}) if layer is None else [layer]
    flat = [ids for group in given.asked for ids in group]
    everything = [*flat, *given.other, *given.text]
    states = normed_states(model, everything, layers, advance)
    best: tuple[float, int] = (-np.inf, layers[0])
    report: dict[str, Any] = {"layers": {}}
    for candidate in layers:
        asked, other = _sources(states[candidate], given)
        left = _left_out(candidate, asked, other) if len(asked) > 2 and len(layers) > 1 else 0.0
        report["layers"][str(candidate)] = round(left, 3)
        best = max(best, (left, candidate))
    asked, other = _sources(states[best[1]], given)
    gate = fit_gate(best[1], asked, other)
    report["layer"] = best[1]
    report["shut"] = round(float(min(gate_scores(gate, one).min() for one in asked)), 3)
    return gate, report


def _sources(states: Sequence[States], given: Sentences) -> tuple[list[States], list[States]]:
    """Last positions by wording; and what must stay shut: inner positions, other sentences, their insides, text."""
    asked: list[States] = []
    inner: list[States] = []
    at = 0
    for group in given.asked:
        rows = states[at : at + len(group)]
        at += len(group)
        asked.append(joined([(x[-1:], r[-1:]) for x, r in rows]))
        inner += [(x[:-1], r[:-1]) for x, r in rows]
    about = states[at : at + len(given.other)]
    text = states[at + len(given.other) :]
    shut = [
        joined(inner),
        joined([(x[-1:], r[-1:]) for x, r in about]),
        joined([(x[:-1], r[:-1]) for x, r in about]),
        joined(list(text)),
    ]
    return asked, [one for one in shut if len(one[0])]


def _left_out(layer: int, asked: Sequence[States], other: Sequence[States]) -> float:
    """The share of wordings (each with its wrapped form) that a gate fitted without them opens on."""
    shares = []
    # At most five folds, each of one wording.
    for i in range(0, len(asked), 2 * -(-len(asked) // 10)):
        rest = [one for k, one in enumerate(asked) if k // 2 != i // 2]
        gate = fit_gate(layer, rest, other, iterations=30)
        shares.append(float((gate_scores(gate, asked[i]) > 0).double().mean()))
    return float(np.mean(shares))
