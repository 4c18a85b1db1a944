"""Does the model recall what it should? Recall, margins and failures, by forward passes of its own."""

from rote.referee.recall import Failure, Verification

__all__ = ["Failure", "Verification"]
