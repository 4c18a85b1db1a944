"""Edits of hashed tables: weights that change, and the processor time to solve and to certify.

    python benchmarks/edit.py [FACTS ...]

The default is 10,000 and 100,000 random facts of four tokens of 256. One fact is set, one forgotten, one added.
"""

from __future__ import annotations

import sys

import numpy as np

import rote
from rote.data import FactTable, random_facts

FORMATS = ("bfloat16", "float32")


def _strange(table: FactTable) -> tuple[str, ...]:
    """A context that is no fact."""
    known = {row.tobytes() for row in table.contexts}
    rng = np.random.default_rng(1)
    while True:
        row = rng.choice(np.unique(table.contexts), table.context)
        if row.tobytes() not in known:
            return tuple(table.vocabulary.token(int(i)) for i in row)


def _rows(n_facts: int) -> list[str]:
    table = random_facts(n_facts, 4, 256, rng=np.random.default_rng(0))
    lines = []
    for dtype in FORMATS:
        for editable in (False, True):
            memory = rote.build(table, rote.HashedTable(editable=editable), dtype=dtype)
            answer = table.vocabulary.token(int(table.targets[0]))
            edits = (
                memory.edit(set={table.context_tokens(1): answer}, table=table),
                memory.edit(forget=[table.context_tokens(2)], table=table),
                memory.edit(insert={_strange(table): answer}, table=table),
            )
            records = [one.certificate["edited"] for one in edits]
            shares = [100 * one["weights_changed"] / one["weights"] for one in records]
            equal = all(one["bit_equal"] == one["other_facts"] for one in records)
            seconds = records[0]["processor_seconds"]
            lines.append(
                f"| {n_facts:,} | {dtype}{', `--editable`' if editable else ''} | {memory.certificate.params:,} | "
                + " | ".join(
                    f"{r['weights_changed']} ({share:.3f} %)" for r, share in zip(records, shares, strict=True)
                )
                + f" | {'all' if equal else 'not all'} | {seconds['solve']:.1f} / {seconds['all']:.1f} |"
            )
    return lines


def main(sizes: list[str]) -> None:
    print("| facts | table | parameters | set | forgotten | added | other logits bit-equal | solve / with proof, s |")
    print("|---|---|---|---|---|---|---|---|")
    for size in sizes or ["10000", "100000"]:
        print("\n".join(_rows(int(size))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
