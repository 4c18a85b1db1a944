"""False certificates: random and adversarial tables through all constructions, judged by other forward passes.

A table is made of plain rows and written as a file; rote reads it, builds, certifies and saves. What the directory then
says is worked out again from its bytes by `attacks.forward`, and asked for in text, as a user would.
"""

from __future__ import annotations

import csv
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rote
from attacks import forward
from attacks.campaign import Trial

title = "tables through all constructions, judged by forward passes of their own"
promise = "what a certificate says of recall and divergence is so, in numbers and in text"

_NUMBERS = {"float64": np.float64, "float32": np.float32}
_HARD = (
    "0", "1", "10", "01", "1.0", "-0", "a", "A", "aa", "a b", "a  b", "a\u00a0b", "<unk>", "<s>", "</s>", "[PAD]", "é",
    "e\u0301", "ß", "ẞ", "\u200b", "x\u200dy", "\U0001f469\u200d\U0001f680", "ﬁ", "fi", '"', "'", ",", ";", "\\",
    "\\n", "%s", "{}", "$x", "None", "nan", "NaN", "inf", "true", "null", "ａ", "İ", "ı", "\x1c", "x\x1dy", "▁a",
    "Ġa", "##a", "<0x41>", "-", "--help", "#", "\ufeff",
)  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Contexts and targets as text, and how they are told to be read."""

    contexts: list[tuple[str, ...]]
    targets: list[str]
    tokens: str
    sort: str


def trials(seed: int, workplace: Path) -> Iterator[Trial]:
    """One table after the other, without end."""
    number = 0
    while True:
        drawn = random.Random(f"{seed}/{number}")
        kinds = (_facts, _stock, _vectors, _sequences, _distributions, _grafted)
        attack = drawn.choices(kinds, [62, 7.5, 15, 13, 2, 0.5])[0]
        place = workplace / "table"
        place.mkdir()
        try:
            yield attack(drawn, place, f"table {number}")
        finally:
            shutil.rmtree(place, ignore_errors=True)
        number += 1


def _built(what: str, group: str, build: Callable[[], rote.Memory], folder: Path) -> rote.Memory | Trial:
    """A saved memory; or the trial that a refusal makes: refusals are honest."""
    try:
        return build().save(folder)
    except rote.RoteError:
        return Trial(what, group=f"{group}, refused")
    except Exception as error:
        return Trial(what, f"{type(error).__name__}: {error}", group=group)


def _rows(drawn: random.Random) -> Rows:
    """Rows of text with distinct contexts, of many sorts."""
    sort = drawn.choice(["random", "hard", "numbers", "near", "bags", "parity", "characters", "words", "single"])
    contexts: list[tuple[str, ...]]
    if sort == "characters":
        letters = drawn.sample("abcdefgh01<>pad é", drawn.randint(2, 6))
        longest = drawn.randint(1, 5)
        made = {
            "".join(drawn.choices(letters, k=drawn.randint(1, longest))).strip() for _ in range(drawn.randint(2, 25))
        }
        contexts = [(text,) for text in sorted(made) if text] or [(letters[0].strip() or "a",)]
        tokens = "chars"
    elif sort == "words":
        made = {
            " ".join(drawn.choices(["the", "of", "a", "<unk>", "9", "x"], k=drawn.randint(1, 4))) for _ in range(20)
        }
        contexts, tokens = [(text,) for text in sorted(made)], "words"
    else:
        tokens, length = "cells", 1 if sort == "single" else drawn.randint(1, 4)
        words = {
            "hard": drawn.sample(_HARD, drawn.randint(2, 12)),
            "numbers": [str(k) for k in range(drawn.randint(2, 120))],
            "near": ["x" * k + "y" for k in range(1, drawn.randint(3, 12))],
            "bags": ["a", "b", "c"],
            "parity": ["0", "1"],
        }.get(sort, [f"w{k}" for k in range(drawn.randint(1, 40))])
        length = {"parity": drawn.randint(2, 5), "bags": 4}.get(sort, length)
        contexts = sorted({tuple(drawn.choices(words, k=length)) for _ in range(drawn.randint(1, 30))})
    drawn.shuffle(contexts)
    answers = drawn.sample(_HARD, drawn.randint(1, 6)) if drawn.random() < 0.3 else [f"t{k}" for k in range(6)]
    answers = answers[: drawn.randint(1, len(answers))]
    if sort == "parity":
        targets = [str(sum(map(int, context)) % 2) for context in contexts]
    elif drawn.random() < 0.1:
        targets = [f"own{k}" for k in range(len(contexts))]
    else:
        targets = [drawn.choice(answers) for _ in contexts]
    return Rows([tuple(cell.strip() or "_" for cell in one) for one in contexts], targets, tokens, sort)


def _file(rows: Rows, place: Path) -> Path:
    path = place / "facts.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([*(f"c{k}" for k in range(len(rows.contexts[0]))), "answer"])
        writer.writerows([*context, target] for context, target in zip(rows.contexts, rows.targets, strict=True))
    return path


def _facts(drawn: random.Random, place: Path, what: str) -> Trial:
    rows = _rows(drawn)
    key = drawn.choice(["auto", "argmax_fit", "mlp_fit", "dana2025_cor1", "kajitsuka2025_next_token"])
    dtype = drawn.choice([None, None, "float32", "float64"])
    what = f"{what}, {rows.sort}, {key}, {dtype}"

    def build() -> rote.Memory:
        table = rote.read(_file(rows, place), tokens=rows.tokens)
        bits = key.startswith("kajitsuka") and drawn.random() < 0.6
        return rote.build(
            table, key, dtype=dtype, options={"with_positions": True} if bits else {}, rng=drawn.randrange(99)
        )

    memory = _built(what, key, build, place / "model")
    if isinstance(memory, Trial):
        return memory
    return Trial(what, _misread(rows, place / "model") or _misspoken(rows, memory, drawn), group=key)


def _stock(drawn: random.Random, place: Path, what: str) -> Trial:
    rows = _rows(drawn)
    what = f"{what}, {rows.sort}, stock_llama"

    def build() -> rote.Memory:
        table = rote.read(_file(rows, place), tokens=rows.tokens)
        return rote.build(table, arch="llama", rng=drawn.randrange(99))

    memory = _built(what, "stock_llama", build, place / "model")
    if isinstance(memory, Trial):
        return memory
    mark = _mark(rows)
    texts = [mark.join(context) for context in rows.contexts]
    said = forward.spoken(place / "model", texts, [1] * len(texts))
    lost = [i for i, target in enumerate(rows.targets) if said[i] != target]
    failure = f"{texts[lost[0]]!r} says {said[lost[0]]!r}, not {rows.targets[lost[0]]!r}" if lost else ""
    return Trial(what, failure or _misspoken(rows, memory, drawn), group="stock_llama")


def _mark(rows: Rows) -> str:
    """What stands between two tokens that are typed, as the documentation of `ask` has it."""
    if rows.tokens == "chars":
        return ""
    blank = any(c.isspace() for row in (*rows.contexts, rows.targets) for cell in row for c in cell)
    return "\t" if rows.tokens == "cells" and blank else " "


def _ids(rows: Rows, folder: Path) -> Any:
    known, length = forward.vocabulary(folder), int(forward.read_json(folder / "certificate.json")["shape"]["context"])
    cut: Callable[[tuple[str, ...]], list[str]] = {
        "cells": list,
        "words": lambda cells: [word for cell in cells for word in cell.split()],
        "chars": lambda cells: list("".join(cells)),
    }[rows.tokens]
    contexts = [[known[token] for token in cut(context)] for context in rows.contexts]
    pad = known.get("<pad>", 0)
    return np.array([[pad] * (length - len(one)) + one for one in contexts]), [known[one] for one in rows.targets]


def _misread(rows: Rows, folder: Path) -> str:
    """Where a claim of full recall is not so in the numbers of another forward pass."""
    certificate = forward.read_json(folder / "certificate.json")
    contexts, targets = _ids(rows, folder)
    if certificate["model"] == "exact_transformer":
        said = [one[0] for one in forward.exact_labels(folder, contexts)]
        lost = sum(a != b for a, b in zip(said, targets, strict=True))
        return f"{lost} of {len(targets)} facts are lost in fractions" if lost else ""
    for dtype, number in _NUMBERS.items():
        if certificate["recall"].get(dtype) == 1.0:
            scores = forward.logits(folder, contexts, number)
            own = scores[np.arange(len(targets)), targets]
            scores[np.arange(len(targets)), targets] = -np.inf
            lost = int((~(own > scores.max(axis=1))).sum())
            if lost:
                return f"{lost} of {len(targets)} facts are lost at {dtype}"
    return ""


def _misspoken(rows: Rows, memory: rote.Memory, drawn: random.Random) -> str:
    """Where a question, typed, gets the answer to another one."""
    mark = _mark(rows)
    for i in drawn.sample(range(len(rows.targets)), min(6, len(rows.targets))):
        typed = mark.join(rows.contexts[i])
        for words in ([typed], list(rows.contexts[i])):
            try:
                said = memory.ask(*words)[0].token
            except rote.UsageError as error:
                if len(words) == 1 or "quotes" not in str(error):
                    return f"{words!r} cannot be asked: {error}"
                continue
            if said != rows.targets[i]:
                return f"{words!r} is answered by {said!r}, not {rows.targets[i]!r}"
    return ""


def _vectors(drawn: random.Random, place: Path, what: str) -> Trial:
    rng = np.random.default_rng(drawn.randrange(1 << 30))
    n_facts, n, d = drawn.randint(1, 12), drawn.randint(1, 6), drawn.randint(1, 8)
    shared, classes = drawn.random() < 0.4, drawn.random() < 0.5
    contexts = rng.standard_normal((n, d) if shared else (n_facts, n, d))
    queries = rng.standard_normal((n_facts, d))
    if drawn.random() < 0.3:
        contexts, queries = np.round(contexts, 1), np.round(queries, 1)
    targets = rng.integers(3, size=n_facts) if classes else rng.standard_normal(n_facts)
    key = drawn.choice(["auto", "mahdavi2024_thm1", "mahdavi_random_features", "kajitsuka2025_next_token"])
    what = f"{what}, vectors {n_facts} x {n} x {d}, {'shared, ' * shared}{'classes, ' * classes}{key}"

    def build() -> rote.Memory:
        table = rote.VectorTable(contexts, queries, targets, 3 if classes else None)
        return rote.build(table, key, rng=drawn.randrange(99))

    memory = _built(what, f"vectors, {key}", build, place / "model")
    if isinstance(memory, Trial):
        return memory
    certificate, folder = memory.certificate, place / "model"
    if certificate.model == "exact_transformer":
        rows = np.broadcast_to(contexts, (n_facts, n, d))
        said = forward.exact_labels(folder, np.concatenate([rows, queries[:, None]], axis=1) + 0.0)
        lost = sum(one != [int(target)] for one, target in zip(said, targets, strict=True))
        return Trial(what, f"{lost} examples are lost in fractions" if lost else "", group=f"vectors, {key}")
    for dtype, number in _NUMBERS.items():
        if certificate.recall.get(dtype) != 1.0:
            continue
        out = forward.layer_outputs(folder, contexts, queries, number)
        if classes:
            own = out[np.arange(n_facts), targets]
            out[np.arange(n_facts), targets] = -np.inf
            lost = int((~(own > out.max(axis=1))).sum())
        else:
            lost = int((~(np.abs(out[:, 0] - targets) <= 1e-3 * np.abs(targets).max())).sum())
        if lost:
            return Trial(what, f"{lost} of {n_facts} examples are lost at {dtype}", group=f"vectors, {key}")
    return Trial(what, group=f"vectors, {key}")


def _sequences(drawn: random.Random, place: Path, what: str) -> Trial:
    length, words = drawn.randint(1, 4), [f"w{k}" for k in range(drawn.randint(2, 9))]
    contexts = sorted({tuple(drawn.choices(words, k=length)) for _ in range(drawn.randint(1, 12))})
    targets = [tuple(drawn.choices(["N", "V", "A"], k=length)) for _ in contexts]
    dtype = drawn.choice(["exact", "exact", "float64"])
    what = f"{what}, {len(contexts)} sequences of {length}, {dtype}"
    path = place / "sequences.csv"
    names = [f"y{k}" for k in range(length)]
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*(f"c{k}" for k in range(length)), *names])
        writer.writerows([*a, *b] for a, b in zip(contexts, targets, strict=True))

    def build() -> rote.Memory:
        table = rote.read(path, kind="sequences", target=names)
        placed = {"with_positions": drawn.random() < 0.8}
        return rote.build(table, "kajitsuka2025_seq2seq", dtype=dtype, options=placed, rng=drawn.randrange(99))

    memory = _built(what, "sequences", build, place / "model")
    if isinstance(memory, Trial):
        return memory
    known = forward.vocabulary(place / "model")
    said = forward.exact_labels(place / "model", np.array([[known[token] for token in one] for one in contexts]))
    lost = sum(one != [known[token] for token in target] for one, target in zip(said, targets, strict=True))
    return Trial(what, f"{lost} sequences are lost in fractions" if lost else "", group="sequences")


def _distributions(drawn: random.Random, place: Path, what: str) -> Trial:
    words = [f"w{k}" for k in range(drawn.randint(3, 7))]
    length = drawn.randint(1, 2)
    asked = sorted({tuple(drawn.choices(words, k=length)) for _ in range(drawn.randint(2, 8))})
    # Every word may follow every context, so nothing is smoothed.
    counts = {(context, token): drawn.randint(1, 9) for context in asked for token in words}
    key, width = drawn.choice(["distribution_refit", "dana2025_thm1"]), drawn.randint(2, len(words))
    what = f"{what}, distributions of {len(counts)} counts, {key}, d_model {width}"
    path = place / "counts.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*(f"c{k}" for k in range(length)), "next", "count"])
        writer.writerows([*context, token, count] for (context, token), count in counts.items())

    def build() -> rote.Memory:
        table = rote.read(path, kind="distributions")
        return rote.build(
            table, key, d_model=width, options={"epsilon": 0.1, "smoothing": 0.0}, rng=drawn.randrange(99)
        )

    memory = _built(what, "distributions", build, place / "model")
    if isinstance(memory, Trial):
        return memory
    known = forward.vocabulary(place / "model")
    contexts = sorted({context for context, _ in counts})
    true = np.zeros((len(contexts), len(known)))
    for (context, token), count in counts.items():
        true[contexts.index(context), known[token]] = count
    scores = forward.logits(place / "model", np.array([[known[t] for t in one] for one in contexts]), np.float64)
    said = scores - scores.max(axis=1, keepdims=True)
    said = said - np.log(np.exp(said).sum(axis=1, keepdims=True))
    prior, shares = true.sum(axis=1) / true.sum(), true / true.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = float(prior @ np.where(shares > 0, shares * (np.log(shares) - said), 0).sum(axis=1))
    claimed = float(memory.certificate["kl"])
    wrong = abs(kl - claimed) > 1e-5 + 1e-5 * abs(kl)
    return Trial(what, f"a divergence of {claimed} is claimed, {kl} is found" if wrong else "", group="distributions")


def _grafted(drawn: random.Random, place: Path, what: str) -> Trial:
    """Facts on a tiny language model of random weights, asked by generate()."""
    from attacks import tiny_models

    family = drawn.choice(["llama", "mistral", "qwen3"])
    model = tiny_models.write_tiny(place / "original", family, tied=drawn.random() < 0.5)
    facts = tiny_models.write_table(place / "codes.csv", drawn.randint(2, 8), drawn.randrange(99))
    rows = [line.split(",") for line in facts.read_text(encoding="utf-8").splitlines()[1:]]
    keep = tiny_models.write_text(place / "keep.txt", 6000)
    what = f"{what}, {len(rows)} facts on a {family}"

    def build() -> rote.Memory:
        options = rote.Graft(keep=keep, examined=2)
        return rote.graft(model, facts, template="The code {code} is in", answer=" {city}", options=options)

    memory = _built(what, "graft", build, place / "model")
    if isinstance(memory, Trial):
        return memory
    said = forward.spoken(place / "model", [f"The code {code} is in" for code, _ in rows], [8] * len(rows))
    lost = [i for i, (_, city) in enumerate(rows) if said[i].strip() != city]
    failure = f"{rows[lost[0]][0]} says {said[lost[0]]!r}, not {rows[lost[0]][1]!r}" if lost else ""
    return Trial(what, failure, group="graft")
