"""A label for every position with O~(sqrt(n T)) parameters (Kajitsuka, Sato 2025, sequence to sequence).

Statement: for any T sequences of n tokens that are distinct up to order, with a label in [C] for every position such
           that equal tokens of one sequence have equal labels, there is a transformer as in the next-token case that
           gives every position its label, with O~(sqrt(n T)) parameters.
Notation:  T = n_facts (sequences), n = context, V = C = vocab.
Source:    arXiv 2409.17677.
Differs:   explicit sizes, see `_kajitsuka`; a fact is a sequence with all its n labels.
"""

from __future__ import annotations

from rote.theorems._citations import kajitsuka2025
from rote.theorems._kajitsuka import seq2seq_net
from rote.theorems._kajitsuka_theorem import BitExtraction

__all__ = ["theorem"]


class _Theorem(BitExtraction):
    title = "Bit extraction, a label a position"
    citation = kajitsuka2025("sequence to sequence")
    statement = "O~(sqrt(n T)) exact weights label every position of any T sequences of length n."
    network = staticmethod(seq2seq_net)
    labels_per_fact = staticmethod(lambda context: context)
    bag_note = "no two contexts may be permutations of each other, and equal tokens of one have equal labels"


theorem = _Theorem()
