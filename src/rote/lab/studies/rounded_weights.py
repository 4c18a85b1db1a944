"""Recall against precision: which facts survive when every weight is rounded to k significant bits?

The same random facts are given to bit extraction (variants A, B and C of Kajitsuka, Sato 2025), to the argmax fit and
to training. Then all weights are rounded to k significant bits, to nearest, and every fact is asked again. The
arithmetic behind the rounded weights is exact for bit extraction and float64 for the others, so that nothing but the
weights is rounded; a fact of bit extraction is recalled if the output is nearer to its label than to any other
integer. Rows with `arithmetic` = "format" carry out the sums in that number format as well. bfloat16 has 8
significant bits, float16 11, float32 24 and float64 53; exponents are not limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from rote.data import FactTable, random_facts
from rote.data._arrays import FloatArray
from rote.errors import UsageError
from rote.lab.studies._params import Params, chosen
from rote.referee.exact import Values, evaluate
from rote.solvers.exact.memorise import memorise_sequences
from rote.solvers.exact.network import Network
from rote.solvers.exact.transformer import ExactTransformer, Precision, Variant

__all__ = ["KEYS", "PARAMS", "SIGNIFICANT", "exact_recall", "round_float", "round_network", "run", "seconds"]


SIGNIFICANT = {8: "bfloat16", 11: "float16", 24: "float32", 53: "float64"}
"""Significant bits of the number formats."""
_STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 22, 24, 28, 32, 36, 40, 44, 48, 50, 51, 52, 53)
_BEYOND = (56, 60, 64, 72, 80, 96, 112, 128, 160, 192, 256, 320, 384, 448, 512, 640, 768, 1024)

PARAMS: Params = {
    "model": (str, "A"),
    "n_facts": (int, 400),
    "context": (int, 4),
    "vocab": (int, 16),
    "n_heads": (int, 16),
    "d_model": (int, 8),
    "steps": (int, 2000),
}
KEYS = ("bits",)
_MODELS = ("A", "B", "B32", "C", "argmax_fit", "train")


def seconds(params: Mapping[str, Any]) -> float:
    """About how long one run takes."""
    if params["model"] == "train":
        return 2e-6 * int(params["steps"]) * (100 + int(params["n_facts"]))
    return 1e-3 * int(params["n_facts"])


def run(p: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """One row for each number of significant bits, up to those at which no weight is rounded any more."""
    model = chosen("model", p["model"], _MODELS)
    facts = random_facts(p["n_facts"], p["context"], p["vocab"], rng=np.random.default_rng([seed, 0]))
    rows = _floating(model, facts, p, seed) if model in ("argmax_fit", "train") else _extracted(model, facts, seed)
    common = {**p, "source": f"train:best:{p['steps']}" if model == "train" else f"build:{model}"}
    each = 1 / p["n_facts"]
    return [
        {**common, "chance": 1 / p["vocab"], "kept_bits": row["bits"] * row["params"] * each, **row} for row in rows
    ]


# -- bit extraction


def _extracted(model: str, facts: FactTable, seed: int) -> Iterator[dict[str, Any]]:
    from rote.models.kinds._relu_transformer import tensors_of
    from rote.referee import Stored
    from rote.referee.judges.exact_transformer import judge as exact_judge

    precision: Precision = {"B": "float64", "B32": "float32"}.get(model, "exact")  # type: ignore[assignment]
    labels = np.array(facts.targets)
    network = memorise_sequences(
        np.array(facts.contexts), labels, facts.vocab, facts.vocab, tuple(range(facts.vocab)), precision=precision,
        variant=cast(Variant, model[0]), with_positions=True, rng=np.random.default_rng([seed, 1]),
    ).transformer  # fmt: skip
    known = {"params": network.params, "max_bits": network.max_bits, "total_bits": network.total_bits}
    widest = max(
        _significant(p) for net in (network.first, network.second) for layer in net.layers for p in layer.numerators
    )
    for bits in _bits(widest):
        rounded = replace(
            network, first=round_network(network.first, bits), second=round_network(network.second, bits), shape=None
        )
        share = exact_recall(rounded, np.array(facts.contexts), labels)
        yield {**known, **_place(bits), "arithmetic": "exact", "share_of_facts": share}
    for name in ("float32", "float64"):
        stored = Stored("exact_transformer", network.to_dict(), tensors_of(network))
        got = exact_judge.outputs(stored, name, None).labels((facts.contexts,))
        share = float((np.abs(got - labels) < 0.5).mean())
        bits = 24 if name == "float32" else 53
        yield {**known, **_place(bits), "arithmetic": "format", "share_of_facts": share}


def _significant(numerator: int) -> int:
    """Bits of an integer between its first and its last one."""
    size = abs(numerator)
    return size.bit_length() - ((size & -size).bit_length() - 1) if size else 1


def _bits(widest: int) -> list[int]:
    """Numbers of bits worth trying, the same for all seeds: up to the first at which nothing is rounded."""
    every = (*_STEPS, *_BEYOND)
    steps = [bits for i, bits in enumerate(every) if i == 0 or every[i - 1] < widest]
    return sorted({*steps, *SIGNIFICANT})


def _place(bits: int) -> dict[str, Any]:
    return {"bits": bits, "format": SIGNIFICANT.get(bits, f"{bits} bits")}


def round_network(network: Network, bits: int) -> Network:
    """Every weight rounded to so many significant bits, to nearest, halves to even."""
    if bits < 1:
        raise UsageError(f"weights need at least 1 significant bit, got {bits}.")
    return Network(
        tuple(replace(layer, numerators=tuple(_round(p, bits) for p in layer.numerators)) for layer in network.layers)
    )


def _round(numerator: int, bits: int) -> int:
    extra = abs(numerator).bit_length() - bits
    if extra <= 0:
        return numerator
    quotient, rest = divmod(abs(numerator), 1 << extra)
    half = 1 << (extra - 1)
    if rest > half or (rest == half and quotient & 1):
        quotient += 1
    return (quotient << extra) * (1 if numerator > 0 else -1)


def exact_recall(model: ExactTransformer, contexts: npt.NDArray[np.int64], labels: npt.NDArray[np.int64]) -> float:
    """The share of sequences whose output, in exact arithmetic, is nearest to the label."""
    null = np.full((len(contexts), model.padding), model.vocab, dtype=np.int64)
    rows = np.concatenate([null, contexts], axis=1)
    n = rows.shape[1]
    distinct, index = np.unique(rows + (model.vocab + 1) * np.arange(n) * model.with_positions, return_inverse=True)
    columns = [distinct]
    if model.with_positions:
        columns = [distinct % (model.vocab + 1), distinct // (model.vocab + 1)]
    first = evaluate(model.first, [Values(column) for column in columns])[0]
    total = first.numerators.astype(object)[index.reshape(rows.shape)].sum(axis=1)
    (out,) = evaluate(model.second, [Values(total * (model.attention[0] * model.attention[1]), first.shift, n)])
    unit = out.denominator << out.shift
    off = [abs(2 * int(value) - 2 * int(label) * unit) for value, label in zip(out.numerators, labels, strict=True)]
    return float(np.mean([gap < unit for gap in off]))


# -- weights in floating point


def _floating(model: str, facts: FactTable, p: Mapping[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    count, recall, weights = _fitted(model, facts, p, seed)
    widest = 53 if model == "argmax_fit" else 24
    # Training ends in float32, the fit in float64: beyond that there is nothing left to round.
    for bits in _bits(widest):
        share = recall({name: round_float(value, bits) for name, value in weights.items()})
        yield {
            "params": count,
            "max_bits": 64 if widest > 24 else 32,
            "total_bits": count * (64 if widest > 24 else 32),
            **_place(bits),
            "arithmetic": "float64",
            "share_of_facts": share,
        }


Recall = Callable[[Mapping[str, FloatArray]], float]


def _fitted(model: str, facts: FactTable, p: Mapping[str, Any], seed: int) -> tuple[int, Recall, dict[str, FloatArray]]:
    """Parameters, how to ask, and the weights of a fit or of training."""
    import torch

    from rote.config import Architecture
    from rote.training import ModelSpec, TokenStack, get_recipe, train
    from rote.training.loop import outputs

    arch = Architecture(p["n_heads"], p["d_model"], p["d_model"], facts.context, facts.vocab)
    spec = ModelSpec("transformer", arch)
    if model == "train":
        (outcome,) = train(spec, [facts], get_recipe("best").replace(steps=p["steps"]), [seed])
        weights = {name: tensor.double().numpy() for name, tensor in outcome.weights.items()}
        stack = TokenStack.of([facts])

        def recall(rounded: Mapping[str, FloatArray]) -> float:
            with torch.no_grad():
                answers = outputs(spec, {name: torch.from_numpy(value)[None] for name, value in rounded.items()}, stack)
            return _ahead(answers[0].T.numpy(), facts)

        return spec.params, recall, weights
    from rote import constructions
    from rote.models.kinds.transformer import Transformer
    from rote.pipeline import build_at

    built: Any = build_at(constructions.get("argmax_fit"), facts, arch, dtype="float64", rng=seed).module
    contexts = torch.from_numpy(np.array(facts.contexts))

    def ask(rounded: Mapping[str, FloatArray]) -> float:
        tensors = {name: torch.from_numpy(value) for name, value in rounded.items()}
        with torch.no_grad():
            return _ahead(Transformer(arch, tensors, activation=built.activation)(contexts).numpy(), facts)

    return arch.params(), ask, {name: tensor.double().numpy() for name, tensor in built.state_dict().items()}


def _ahead(logits: FloatArray, facts: FactTable) -> float:
    """The share of facts whose target is strictly ahead."""
    own = logits[np.arange(len(logits)), facts.targets]
    return float((((logits >= own[:, None]).sum(axis=1) == 1) & np.isfinite(own)).mean())


def round_float(values: FloatArray, bits: int) -> FloatArray:
    """Floats rounded to so many significant bits, to nearest, halves to even."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits), dtype=np.float64)
