"""The judge of a language model that facts were grafted on beside its stream: what it says in free generation."""

from __future__ import annotations

from rote.referee.judges.grafted import GraftedJudge

__all__ = ["judge"]

judge = GraftedJudge()
