"""Looking into a model while it answers: heads, digits, neighbours.

heads       the attention of every head over a context, which heads are saturated, and what each adds to the lead
digits      the digits that an exact network shifts out of its weights, step by step
near        contexts that differ in one token, and what the model makes of them
"""

from rote.analyse.inspect.digits import DigitStep, DigitTrace, digit_trace
from rote.analyse.inspect.heads import Head, HeadsView, look_at_heads
from rote.analyse.inspect.near import NearMiss, Neighbours, near_misses

__all__ = [
    "DigitStep",
    "DigitTrace",
    "Head",
    "HeadsView",
    "NearMiss",
    "Neighbours",
    "digit_trace",
    "look_at_heads",
    "near_misses",
]
