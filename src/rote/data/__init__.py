"""Data: tables of facts, sequences, vectors and distributions; reading, writing, shipping and generating them.

table = read("facts.csv", tokens="words")       a file; what it holds is found out
table = read("airports")                        shipped data by name
table = random_facts(1000, 4, 50, rng=numpy.random.default_rng(0))
write(table, "copy.parquet")

The names load on first use: numpy and polars are not needed to talk about tables.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rote.data.changes import Change as Change
    from rote.data.conflicts import Clash as Clash
    from rote.data.conflicts import find_clashes as find_clashes
    from rote.data.generate import Distribution as Distribution
    from rote.data.generate import bigram_facts as bigram_facts
    from rote.data.generate import check_distribution as check_distribution
    from rote.data.generate import check_sharing as check_sharing
    from rote.data.generate import lookup_distributions as lookup_distributions
    from rote.data.generate import random_distributions as random_distributions
    from rote.data.generate import random_facts as random_facts
    from rote.data.generate import random_sequences as random_sequences
    from rote.data.generate import random_vectors as random_vectors
    from rote.data.kinds.distributions import DEFAULT_SMOOTHING as DEFAULT_SMOOTHING
    from rote.data.kinds.distributions import DistributionTable as DistributionTable
    from rote.data.kinds.distributions import write_distributions as write_distributions
    from rote.data.kinds.facts import FactTable as FactTable
    from rote.data.kinds.facts import write_facts as write_facts
    from rote.data.kinds.prompts import PromptTable as PromptTable
    from rote.data.kinds.sequences import SequenceTable as SequenceTable
    from rote.data.kinds.vectors import VectorTable as VectorTable
    from rote.data.reader import kind as kind
    from rote.data.reader import read as read
    from rote.data.reader import register as register
    from rote.data.reader import registry as registry
    from rote.data.reader import write as write
    from rote.data.reading import Choices as Choices
    from rote.data.reading import OnConflict as OnConflict
    from rote.data.reading import OnMissing as OnMissing
    from rote.data.reading import Reading as Reading
    from rote.data.reading import Tokens as Tokens
    from rote.data.reading import check_on_conflict as check_on_conflict
    from rote.data.reading import check_tokens as check_tokens
    from rote.data.shipped import ShippedFacts as ShippedFacts
    from rote.data.shipped import available as available
    from rote.data.source import Source as Source
    from rote.data.source import load_rows as load_rows
    from rote.data.table import Inputs as Inputs
    from rote.data.table import Table as Table
    from rote.data.unknown import UnknownContexts as UnknownContexts
    from rote.data.unknown import unknown_contexts as unknown_contexts
    from rote.data.verification import Verification as Verification
    from rote.data.vocabulary import PAD as PAD
    from rote.data.vocabulary import Vocabulary as Vocabulary

_NAMES = {
    "changes": "Change",
    "conflicts": "Clash find_clashes",
    "generate": "Distribution bigram_facts check_distribution check_sharing lookup_distributions "
    "random_distributions random_facts random_sequences random_vectors",
    "kinds.distributions": "DEFAULT_SMOOTHING DistributionTable write_distributions",
    "kinds.facts": "FactTable write_facts",
    "kinds.prompts": "PromptTable",
    "kinds.sequences": "SequenceTable",
    "kinds.vectors": "VectorTable",
    "reader": "kind read register registry write",
    "reading": "Choices OnConflict OnMissing Reading Tokens check_on_conflict check_tokens",
    "shipped": "ShippedFacts available",
    "source": "Source load_rows",
    "table": "Inputs Table",
    "unknown": "UnknownContexts unknown_contexts",
    "verification": "Verification",
    "vocabulary": "PAD Vocabulary",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "DEFAULT_SMOOTHING",
    "PAD",
    "Change",
    "Choices",
    "Clash",
    "Distribution",
    "DistributionTable",
    "FactTable",
    "Inputs",
    "OnConflict",
    "OnMissing",
    "PromptTable",
    "Reading",
    "SequenceTable",
    "ShippedFacts",
    "Source",
    "Table",
    "Tokens",
    "UnknownContexts",
    "VectorTable",
    "Verification",
    "Vocabulary",
    "available",
    "bigram_facts",
    "check_distribution",
    "check_on_conflict",
    "check_sharing",
    "check_tokens",
    "find_clashes",
    "kind",
    "load_rows",
    "lookup_distributions",
    "random_distributions",
    "random_facts",
    "random_sequences",
    "random_vectors",
    "read",
    "register",
    "registry",
    "unknown_contexts",
    "write",
    "write_distributions",
    "write_facts",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rote.data' has no attribute {name!r}")
    return getattr(importlib.import_module(f"rote.data.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
