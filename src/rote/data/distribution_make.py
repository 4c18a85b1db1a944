"""Where distribution tables come from: facts files with repeated contexts, n-grams of a text, and generators.

A file is as for facts (see `rote.data.io`), except that contexts may repeat. Every row is one observation, or so many
as the weight column says. Without a named weight column, one called `count` or `weight` is taken.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from rote.data._atomic import write_atomically
from rote.data.distribution import DistributionTable, FloatArray, check_share
from rote.data.files import file_format, read_raw
from rote.data.generate import random_facts
from rote.data.io import ReadReport, _as_bytes, _choose_columns, _weights
from rote.data.rawrows import RawRows
from rote.data.shipped import _ENTRIES, _rows
from rote.data.tokenise import Tokens, check_tokens, encode
from rote.errors import UnknownName, UsageError

__all__ = [
    "WEIGHT_NAMES",
    "load_distributions",
    "lookup_distributions",
    "power_prior",
    "random_distributions",
    "read_distributions",
    "write_distributions",
]

WEIGHT_NAMES = ("count", "weight")


def read_distributions(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    context: Sequence[str] | None = None,
    tokens: Tokens = "cells",
    weight: str | None = None,
    name: str | None = None,
) -> tuple[DistributionTable, ReadReport]:
    """A table from a facts file in which contexts repeat, with the counts in column `weight` if there is one."""
    file = Path(path)
    return build_distributions(
        read_raw(file),
        target=target,
        context=context,
        tokens=tokens,
        weight=weight,
        name=name or file.name.split(".")[0],
    )


def build_distributions(
    raw: RawRows,
    *,
    target: str | None,
    context: Sequence[str] | None,
    tokens: Tokens,
    weight: str | None,
    name: str,
) -> tuple[DistributionTable, ReadReport]:
    """A table from columns already in memory."""
    check_tokens(tokens)
    if weight is None:
        taken = {target, *(context or ())}
        found = [column for column in WEIGHT_NAMES if column in raw.columns and column not in taken]
        weight = found[0] if found else None
    goal, columns = _choose_columns(raw, target, context, weight)
    counts = None if weight is None else _weights(raw, weight)
    coded = encode(raw, columns, goal, tokens)
    table = DistributionTable.from_counts(coded.contexts, coded.targets, coded.vocabulary, counts=counts, name=name)
    pad = coded.vocabulary.pad_id
    report = ReadReport(
        source=raw.source,
        n_rows=len(coded.targets),
        n_duplicates=0,
        n_conflicts_resolved=0,
        n_padded=0 if pad is None else int(np.count_nonzero(table.contexts[:, 0] == pad)),
        context_columns=tuple(columns),
        target_column=goal,
        weight_column=weight,
        tokens=tokens,
    )
    return table, report


def load_distributions(
    source: str,
    *,
    target: str | None = None,
    context: Sequence[str] | None = None,
    tokens: Tokens | None = None,
    weight: str | None = None,
) -> tuple[DistributionTable, ReadReport]:
    """A table from a file or from shipped facts by name, as `load_source` reads facts."""
    if source in _ENTRIES:
        return build_distributions(
            _rows(source),
            target=target,
            context=context,
            tokens=_ENTRIES[source].tokens if tokens is None else tokens,
            weight=weight,
            name=source,
        )
    path = Path(source)
    if not ("/" in source or "\\" in source or path.suffix or path.exists()):
        raise UnknownName("file or data set named", source, _ENTRIES)
    return read_distributions(path, target=target, context=context, tokens=tokens or "cells", weight=weight)


def write_distributions(table: DistributionTable, path: str | os.PathLike[str], *, total: float | None = None) -> None:
    """Write the rows c1, ..., next, count; counts are prior times probability, times `total` if it is given.

    With `total` (the number of observations) counts are rounded to whole numbers, as they were.
    """
    file = Path(path)
    kind, packed = file_format(file)
    if packed:
        raise UsageError(f"distributions are written uncompressed; drop .gz from {file.name!r}.")
    row, token = np.nonzero(table.probabilities)
    mass = table.prior[row] * table.probabilities[row, token]
    words = pl.Series(table.vocabulary.tokens, dtype=pl.String)
    columns = {f"c{k + 1}": words.gather(table.contexts[row, k]) for k in range(table.context)}
    columns["next"] = words.gather(token)
    columns["count"] = pl.Series(mass if total is None else np.rint(mass * total).astype(np.int64))
    frame = pl.DataFrame(columns)

    def write(part: Path) -> None:
        part.write_bytes(_as_bytes(frame, kind))

    write_atomically(file, write)


def power_prior(n_contexts: int, alpha: float) -> FloatArray:
    """Prior k^-alpha of the k-th context; uniform for alpha = 0."""
    if not (np.isfinite(alpha) and 0 <= alpha <= 20):
        raise UsageError(f"alpha, the exponent of the prior, must lie between 0 and 20; got {alpha}.")
    made = np.arange(1, n_contexts + 1, dtype=np.float64) ** -alpha
    prior: FloatArray = made / made.sum()
    return prior


def random_distributions(
    n_contexts: int, context: int, vocab: int, *, rng: np.random.Generator, alpha: float = 1.0, spread: float = 1.0
) -> DistributionTable:
    """Softmax of Gaussian logits of standard deviation `spread`, with a power-law prior."""
    if not (np.isfinite(spread) and 0 <= spread <= 50):
        raise UsageError(f"spread, the deviation of the logits, must lie between 0 and 50; got {spread}.")
    facts = random_facts(n_contexts, context, vocab, rng=rng)
    logits = spread * rng.standard_normal((n_contexts, facts.vocab))
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    rows /= rows.sum(axis=1, keepdims=True)
    return DistributionTable(facts.contexts, power_prior(n_contexts, alpha), rows, facts.vocabulary, "random")


def lookup_distributions(
    n_contexts: int, context: int, vocab: int, *, rng: np.random.Generator, noise: float, alpha: float = 1.0
) -> DistributionTable:
    """A noisy look-up table: each context has one random token with probability 1 - noise; the rest is random."""
    check_share(noise, "noise")
    facts = random_facts(n_contexts, context, vocab, rng=rng)
    rest = rng.dirichlet(np.ones(facts.vocab - 1), size=n_contexts) if facts.vocab > 2 else np.ones((n_contexts, 1))
    rows = np.empty((n_contexts, facts.vocab))
    others = np.arange(facts.vocab)[None, :] != facts.targets[:, None]
    rows[others] = (noise * rest).reshape(-1)
    rows[~others] = 1 - noise
    return DistributionTable(facts.contexts, power_prior(n_contexts, alpha), rows, facts.vocabulary, "lookup")
