"""Edits of hashed tables: weights that change, and the processor time of the edit and of the whole command.

    python benchmarks/edit.py [FACTS ...]
    python benchmarks/edit.py --fewest

The default is 10,000 and 100,000 random facts of four tokens of 256, with 256 answers (three tables, drawn from
different seeds), 2 and 1,000 answers. One fact is set, one forgotten, one added, each by `rote edit` as it is typed:
reading the table, solving, proving, writing. Python's start and the import of its libraries are not counted. Shares and
seconds are the largest that were met; bit-equal logits are asserted.

With --fewest: which of a row's words have to change when one of its facts does? Any independent ones may be solved for,
and the others kept; for 30 facts of 100,000 in bfloat16, this tries 40 choices each.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import rote
from rote.cli.main import run
from rote.data import FactTable, random_facts

FORMATS = ("bfloat16", "float16", "float32")
SEEDS = {256: 3, 2: 1, 1000: 1}
"""Tables that are drawn, by the number of answers."""


def _table(n_facts: int, classes: int, seed: int) -> FactTable:
    rng = np.random.default_rng(seed)
    contexts = random_facts(n_facts, 4, 256, rng=rng).contexts
    inputs, answers = [f"t{i}" for i in range(256)], [f"a{i}" for i in range(classes)]
    chosen = rng.integers(0, classes, n_facts)
    chosen[:classes] = np.arange(classes)
    return FactTable.from_rows([[inputs[i] for i in row] for row in contexts], [answers[i] for i in chosen])


def _strange(table: FactTable) -> tuple[str, ...]:
    """A context that is no fact."""
    known = {row.tobytes() for row in table.contexts}
    rng = np.random.default_rng(1)
    while True:
        row = rng.choice(np.unique(table.contexts), table.context)
        if row.tobytes() not in known:
            return tuple(table.vocabulary.token(int(i)) for i in row)


def _edited(folder: Path, *arguments: str) -> tuple[float, float, float]:
    """The share of the weights in percent, and seconds: of the edit itself and of the whole command."""
    said, began = io.StringIO(), time.process_time()
    with contextlib.redirect_stdout(said):
        code = run(["edit", str(folder), *arguments, "-o", str(folder.with_name("edited")), "--force", "--json"])
    seconds = time.process_time() - began
    if code:
        return np.nan, np.nan, np.nan
    record = json.loads(said.getvalue())["edited"]
    assert record["bit_equal"] == record["other_facts"], "all other logits are the same"
    return 100 * record["weights_changed"] / record["weights"], record["processor_seconds"]["all"], seconds


def _line(n_facts: int, classes: int, dtype: str, editable: bool) -> str:
    shares, seconds, params, refused = [], [], 0, 0
    for seed in range(SEEDS[classes]):
        with tempfile.TemporaryDirectory() as place:
            table, file, folder = _table(n_facts, classes, seed), Path(place) / "facts.csv", Path(place) / "model"
            table.write(file)
            known = rote.read(file)
            memory = rote.build(known, rote.HashedTable(editable=editable, plain=True), dtype=dtype, rng=seed)
            memory.save(folder)
            params = max(params, memory.certificate.params)
            first, second = ("\t".join(table.context_tokens(i)) for i in (1, 2))
            answer = table.vocabulary.token(int(table.targets[0 if table.targets[0] != table.targets[1] else 2]))
            edits = [("--set", first, answer), ("--forget", second), ("--insert", "\t".join(_strange(table)), answer)]
            rows = [_edited(folder, *edit) for edit in (edits[0], *edits)][1:]
            refused += int(np.isnan(rows).any(axis=1).sum())
            shares.append([row[0] for row in rows])
            seconds.append([row[1:] for row in rows])
    each, (edit, whole) = np.nanmax(shares, axis=0), np.nanmax(seconds, axis=(0, 1))
    full = f"; {refused} of {SEEDS[classes]} refused" if refused else ""
    return (
        f"| {n_facts:,}, C = {classes:,} | {dtype}{', `--editable`' if editable else ''} | {params:,} | "
        + " | ".join(f"{share:.3f} %" for share in each)
        + f"{full} | {edit:.2f} / {whole:.2f} |"
    )


def _fewest(facts: int = 30, choices: int = 40) -> None:
    from rote.constructions._hashed_editing import reads_of, table_in
    from rote.solvers.hashed.systems import row_words

    table, rng = _table(100_000, 256, 0), np.random.default_rng(0)
    memory: Any = rote.build(table, rote.HashedTable(plain=True), dtype="bfloat16")
    stored = table_in(memory.model, memory.certificate)
    matrix = memory.module.layers[stored.layer].weight.detach().double().numpy()
    reads, labels = reads_of(memory.model, stored, table.contexts), np.unique(table.targets, return_inverse=True)[1]
    used, fewest = [], []
    for fact in rng.choice(table.n_facts, facts, replace=False).tolist():
        row = int(reads.rows[fact])
        mine = np.flatnonzero(reads.rows == row)
        own, symbols = reads.of(mine), labels[mine]
        symbols[np.searchsorted(mine, fact)] ^= int(rng.integers(1, 256))
        words, digits = stored.words(matrix, row), stored.digits(matrix, row, own.choices)
        changed = []
        for choice in range(choices):
            order = rng.permutation(stored.layout.width) if choice else np.arange(stored.layout.width)
            start = words[:, np.argsort(order)]
            solved = row_words(order[own.columns], digits, symbols, stored.layout.segments, start)
            assert solved is not None, "the facts of a row are independent"
            changed.append(int((solved != start).sum()))
        used.append(changed[0])
        fewest.append(min(changed))
    print(f"{stored.layout.width} words a row; of {facts} facts: words changed / fewest of {choices} choices")
    print(" ".join(f"{a}/{b}" for a, b in sorted(zip(used, fewest, strict=True))))
    print(f"mean {np.mean(used):.0f} / {np.mean(fewest):.0f}")


def main(sizes: list[str]) -> None:
    if sizes == ["--fewest"]:
        _fewest()
        return
    print("| facts | table | parameters | set | forgotten | added | edit / command, s |")
    print("|---|---|---|---|---|---|---|")
    for size in sizes or ["10000", "100000"]:
        for classes in SEEDS:
            for dtype in FORMATS:
                for editable in (False, True):
                    print(_line(int(size), classes, dtype, editable), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
