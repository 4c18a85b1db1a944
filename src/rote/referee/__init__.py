"""Does the model recall what it should? Judged by forward passes of the referee's own, from what is on disk.

The referee imports nothing of what builds, writes or describes models, and a contract in CI says so: a mistake there
cannot repeat itself here. It has one judge a kind of model, one file each in `referee/judges`, found by its name.
"""

from rote.referee._base import Judge, Stored, read_stored
from rote.referee.judging import judge, judge_module, register, registry

__all__ = ["Judge", "Stored", "judge", "judge_module", "read_stored", "register", "registry"]
