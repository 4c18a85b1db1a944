"""Tests that decide claims: one file each, named by `kind` in an entry's [[test]] table.

A module has `decide(table, spec) -> Verdict` and `KEYS`, the names that its table may use. The numbers of a verdict
fill the sentences of the entry. Rules are plain, and the same for all entries.
"""

from rote.lab.entries.claims._base import VERDICTS, Claim, Verdict, claims, get_claim

__all__ = ["VERDICTS", "Claim", "Verdict", "claims", "get_claim"]
