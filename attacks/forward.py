"""Forward passes written for the attacks only: numpy and fractions, from the bytes on disk, with nothing of rote's.

A model directory is read with code of its own, so that an error which builder, referee and evaluator share cannot
hide here. Stock checkpoints go the way of their users: AutoTokenizer, generate, text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["exact_labels", "layer_outputs", "logits", "read_json", "spoken", "tensors", "vocabulary"]

Array = npt.NDArray[Any]
_STORED = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
    "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip


def read_json(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def tensors(path: Path) -> dict[str, Array]:
    """The tensors of a safetensors file; bfloat16 comes as the float32 of the same value."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    found: dict[str, Array] = {}
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        start, stop = (8 + size + at for at in entry["data_offsets"])
        block = raw[start:stop]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(block, dtype=np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(block, dtype=_STORED[entry["dtype"]])
        found[name] = values.reshape(entry["shape"])
    return found


def vocabulary(folder: Path) -> dict[str, int]:
    """Token ids as a stock tokenizer has them."""
    known: dict[str, int] = read_json(folder / "tokenizer.json")["model"]["vocab"]
    return known


def _softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: Array = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def logits(folder: Path, contexts: Array, number: Any) -> Array:
    """Scores (B, N) of the reference transformer after contexts (B, S), one context at a time."""
    w = {name: value.astype(number) for name, value in tensors(folder / "model.safetensors").items()}
    config = read_json(folder / "config.json")
    if config["model"] == "hashed_transformer":
        return _looked_up(w, config, contexts, number)
    silu = config.get("activation") == "silu"
    head = w.get("W_U", w["W_E"])
    if "own" in config:  # the embedding, but for some rows
        head = w["W_E"].copy()
        head[config["own"]] = w["W_U"]
    rows = []
    for context in contexts:
        x = w["W_E"][context] + w["W_pos"]
        y = x[-1].copy()
        for q, k, v, o in zip(w["W_Q"], w["W_K"], w["W_V"], w["W_O"], strict=True):
            shares = _softmax((x @ k.T) @ (q @ x[-1]))
            y = y + o @ (v @ (shares @ x))
        if "W_gate" in w:
            gate = w["W_gate"] @ y
            gate = gate / (1 + np.exp(-gate)) if silu else gate
            y = y + w["W_down"] @ (gate * (w["W_up"] @ y))
        rows.append(head @ y)
    return np.stack(rows)


def _looked_up(w: dict[str, Array], config: dict[str, Any], contexts: Array, number: Any) -> Array:
    """Scores (B, N) of a hashed table, one context at a time; tokens that are no answers have none."""
    shape, places = config["architecture"], {token: row for row, token in enumerate(config["inputs"])}
    heads, rows = shape["n_heads"], []
    for context in contexts.tolist():
        x = w["W_E"][[places[token] for token in context]] + w["W_pos"]
        z = []
        for q, k, v in zip(*(np.split(w[name], heads) for name in ("W_Q", "W_K", "W_V")), strict=True):
            z.append(v @ (_softmax((x @ k.T) @ (q @ x[-1])) @ x))
        stream = np.append(np.concatenate(z), number(1))
        for i in range(shape["n_layers"]):
            stream = w[f"layers.{i}.weight"] @ stream
            if i < shape["n_layers"] - 1:
                stream = np.maximum(stream, 0)
        scores = np.full(shape["vocab"] + 1, -np.inf)
        scores[config["labels"]] = stream[: len(config["labels"])]
        scores[-1] = stream[-1] if config["unknown"] else -np.inf
        rows.append(scores)
    return np.stack(rows)


def layer_outputs(folder: Path, contexts: Array, queries: Array, number: Any) -> Array:
    """Outputs (B, k) of one attention layer over vectors; contexts (B, n, d), or (n, d) for all."""
    w = {name: value.astype(number) for name, value in tensors(folder / "model.safetensors").items()}
    rows = []
    for i, query in enumerate(queries.astype(number)):
        context = (contexts if contexts.ndim == 2 else contexts[i]).astype(number)
        out = np.zeros(w["W_O"].shape[1], dtype=number)
        for q, k, v, o in zip(w["W_Q"], w["W_K"], w["W_V"], w["W_O"], strict=True):
            out = out + o @ (v @ (_softmax((context @ k.T) @ (q @ query)) @ context))
        rows.append(out)
    return np.stack(rows)


def _network(stored: dict[str, Array], name: str) -> list[tuple[int, bool, list[tuple[int, int, Fraction]]]]:
    """Layers as (neurons, ReLU or not, weights (row, column or -1 for the bias, value))."""
    part = {key: stored[f"{name}.{key}"].tolist() for key in ("widths", "relu", "entries", "rows", "cols", "shifts")}
    lengths, limbs, at, values = stored[f"{name}.lengths"].tolist(), stored[f"{name}.limbs"].tobytes(), 0, []
    for length, shift in zip(lengths, part["shifts"], strict=True):
        values.append(Fraction(int.from_bytes(limbs[at : at + length], "little", signed=True), 1 << shift))
        at += length
    weights = list(zip(part["rows"], part["cols"], values, strict=True))
    bounds = part["entries"]
    return [
        (part["widths"][i + 1], bool(part["relu"][i]), weights[bounds[i] : bounds[i + 1]])
        for i in range(len(part["relu"]))
    ]


def _through(network: list[tuple[int, bool, list[tuple[int, int, Fraction]]]], x: list[Fraction]) -> list[Fraction]:
    for n_out, relu, weights in network:
        y = [Fraction(0)] * n_out
        for row, column, value in weights:
            y[row] += value if column < 0 else value * x[column]
        x = [max(Fraction(0), one) for one in y] if relu else y
    return x


def exact_labels(folder: Path, contexts: Array) -> list[list[int | None]]:
    """What a bit-extraction transformer says to contexts (B, S) of ids, or (B, n, d) of vectors, in fractions.

    One list a context, with one label, or one for every position; None where the output is no label. Labels are token
    ids, or classes for vectors.
    """
    config, stored = read_json(folder / "config.json"), tensors(folder / "model.safetensors")
    first, second = _network(stored, "first"), _network(stored, "second")
    scale = int(stored["attention.W_V"].item()) * int(stored["attention.W_O"].item())
    spelled = None if config["d_in"] else config["labels"]
    said = []
    for context in contexts:
        rows = [[Fraction(float(x)) for x in vector] for vector in context] if config["d_in"] else []
        if not config["d_in"]:
            ids = [config["vocab"]] * (config["positions_seen"] - config["context"]) + [int(i) for i in context]
            rows = [
                [Fraction(i), Fraction(s)] if config["with_positions"] else [Fraction(i)] for s, i in enumerate(ids)
            ]
        tokens = [_through(first, row) for row in rows]
        mean = scale * sum((one[0] for one in tokens), Fraction(0)) / len(tokens)
        if config["task"] == "next_token":
            outputs = [_through(second, [mean])[0]]
        else:
            outputs = [_through(second, [mean, one[1]])[0] for one in tokens[-config["context"] :]]
        said.append([_label(value, spelled) for value in outputs])
    return said


def _label(value: Fraction, spelled: Sequence[int] | None) -> int | None:
    if value.denominator != 1 or value < 0 or (spelled is not None and value >= len(spelled)):
        return None
    return int(value) if spelled is None else spelled[int(value)]


def spoken(folder: Path, texts: Sequence[str], lengths: Sequence[int]) -> list[str]:
    """What a stock checkpoint goes on with after each text, by AutoTokenizer and generate, one text at a time."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    here: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(folder), **here)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(str(folder), **here)
    answers = []
    for text, length in zip(texts, lengths, strict=True):
        prompt = tokenizer(text, return_tensors="pt")
        out = model.generate(**prompt, max_new_tokens=length, do_sample=False)
        answers.append(str(tokenizer.decode(out[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True)))
    return answers
