"""Does the model recall what it should? Judged by forward passes of the referee's own, from what is on disk.

The referee imports nothing of what builds, writes or describes models, and a contract in CI says so: a mistake there
cannot repeat itself here. It has one judge a kind of model, one file each in `referee/judges`, found by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.referee._base import Judge, Stored, read_stored
from rote.referee.judging import judge, judge_module, judge_text, noticing, register, registry, said_alike

if TYPE_CHECKING:
    from rote.referee.outputs import Labels, ModuleOutputs, Scores

__all__ = [
    "Judge",
    "Labels",
    "ModuleOutputs",
    "Scores",
    "Stored",
    "judge",
    "judge_module",
    "judge_text",
    "noticing",
    "read_stored",
    "register",
    "registry",
    "said_alike",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rote.referee' has no attribute {name!r}")
    from rote.referee import outputs  # which needs torch, and torch takes its time

    return getattr(outputs, name)
