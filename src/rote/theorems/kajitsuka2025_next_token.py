"""Next-token labels with O~(sqrt T) parameters (Kajitsuka, Sato 2025, next-token prediction).

Statement: for any T sequences of n tokens that are distinct up to the order of their tokens, with labels in [C], there
           is a transformer (token-wise ReLU network, one self-attention layer with uniform attention, token-wise ReLU
           network) that gives every sequence its label, with O~(sqrt T) parameters of O~(sqrt T) bits, nearly
           independently of n. (For vectors instead of token ids: tokens of norm <= r that are equal or delta apart.)
Notation:  T = n_facts, n = context, V = C = vocab.
Source:    arXiv 2409.17677.
Differs:   the networks are derived anew, so that the size is an explicit number and not an order; see `_kajitsuka`.
           A shape "holds" T facts if it has enough layers and width for the network of any T facts. What is built for
           given data is smaller: tokens are hashed where that tells the sequences apart, and variants B and C of the
           second network store no keys.
"""

from __future__ import annotations

from rote.theorems._citations import kajitsuka2025
from rote.theorems._kajitsuka import next_token_net
from rote.theorems._kajitsuka_theorem import BitExtraction

__all__ = ["theorem"]


class _Theorem(BitExtraction):
    title = "Bit extraction, one label per sequence"
    citation = kajitsuka2025("next-token prediction")
    statement = "O~(sqrt T) exact weights label any T sequences that differ by more than the order of their tokens."
    network = staticmethod(next_token_net)
    labels_per_fact = staticmethod(lambda context: 1)
    bag_note = "no two contexts may be permutations of each other"


theorem = _Theorem()
