"""What a model makes of contexts that differ from one in a single token (`near`).

What happens inside while it answers is the model's own to say: `Memory.heads` (attention, and the part of every head in
the lead of the answer) and `Model.trace` (the digits that an exact network shifts out of its weights).
"""

from rote.analyse.inspect.near import NearMiss, Neighbours, near_misses

__all__ = ["NearMiss", "Neighbours", "near_misses"]
