"""Facts: tables of token facts and of vectors, reading and writing them, shipped data, generators.

table, report = read_facts("facts.csv", tokens="words")     a file
table = load_facts("airports")                              shipped data by name
table, report = load_source("facts.csv" or "airports")      either; what the command line uses
table = random_facts(1000, 4, 50, rng=numpy.random.default_rng(0))
"""

from __future__ import annotations

from rote.data.conflicts import Clash, OnConflict, check_on_conflict, find_clashes
from rote.data.distribution import DEFAULT_SMOOTHING, DistributionTable
from rote.data.distribution_make import (
    load_distributions,
    lookup_distributions,
    random_distributions,
    read_distributions,
    write_distributions,
)
from rote.data.generate import (
    Distribution,
    bigram_facts,
    check_distribution,
    check_sharing,
    random_facts,
    random_sequences,
    random_vectors,
)
from rote.data.io import ReadReport, read_facts, write_facts
from rote.data.sequences import SequenceTable, read_sequences
from rote.data.shipped import ShippedFacts, available, load_facts, load_source
from rote.data.table import FactTable
from rote.data.tokenise import Tokens, check_tokens
from rote.data.vectors import VectorTable
from rote.data.vocabulary import PAD, Vocabulary

__all__ = [
    "DEFAULT_SMOOTHING",
    "PAD",
    "Clash",
    "Distribution",
    "DistributionTable",
    "FactTable",
    "OnConflict",
    "ReadReport",
    "SequenceTable",
    "ShippedFacts",
    "Tokens",
    "VectorTable",
    "Vocabulary",
    "available",
    "bigram_facts",
    "check_distribution",
    "check_on_conflict",
    "check_sharing",
    "check_tokens",
    "find_clashes",
    "load_distributions",
    "load_facts",
    "load_source",
    "lookup_distributions",
    "random_distributions",
    "random_facts",
    "random_sequences",
    "random_vectors",
    "read_distributions",
    "read_facts",
    "read_sequences",
    "write_distributions",
    "write_facts",
]
