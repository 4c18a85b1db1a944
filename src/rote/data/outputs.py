"""What a model says, as tables see it when they score it.

The referee makes an `Outputs` of weights on disk, a table asks it for what it can score: leads (facts, sequences,
classes), values (real targets), scores (distributions), continuations (prompts). A kind of model that cannot give what
a table asks for says so in one sentence; there is no other place where kinds of models and kinds of tables meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rote.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from rote.data.encoding import Continuation, Prompt
    from rote.data.table import Inputs

__all__ = ["Advance", "Leads", "Outputs"]

Advance = Callable[[int], None]
"""Called with the number of facts done so far."""
Leads = tuple[Any, Any]
"""The lead of every target (float64 array, negative where it is lost) and what was said instead (ids, -1 for none)."""


def _scattered(count: int) -> Iterator[int]:
    """All numbers below `count`, each far from the ones before: steps of about the golden section, which end nowhere
    twice as they have no divisor in common with the count."""
    step = next(n for n in range(max(1, round(0.618 * count)), 2 * count + 2) if math.gcd(n, count) == 1)
    return (i * step % count for i in range(count))


class Outputs:
    """The answers of one model in one number format. Subclasses implement what their kind of model can give."""

    gives: str = "nothing"
    """What the model answers with, for refusals: "one answer per context", "a label for every position", ..."""
    takes: str = "tokens"
    """What the model reads, for refusals: "tokens", "vectors", "text"."""
    rows_at_once: int = 4096
    evaluator: str | None = None
    judged_by: str = "referee"
    advance: Advance | None = None
    """Called with the number of facts done so far, where somebody wants to know; set by whoever asks."""

    def parts(self, n_facts: int, *, scattered: bool = False, work: Any = None) -> Iterator[slice]:
        """Facts in portions that fit into memory; `advance` is told after each, by the `work` of the facts if given.

        Scattered portions come from all over the table in turn. Then the first ones take as long as the others, also
        where facts are sorted by length, and a time left can be told from them.
        """
        starts = range(0, n_facts, self.rows_at_once)
        turns = range(len(starts)) if not scattered else _scattered(len(starts))
        done, whole = 0.0, 1.0 if work is None else float(work.sum()) / n_facts
        for turn in turns:
            start, stop = starts[turn], min(n_facts, starts[turn] + self.rows_at_once)
            yield slice(start, stop)
            done += stop - start if work is None else float(work[start:stop].sum())
            if self.advance is not None:
                self.advance(round(done / whole))

    def order(self, inputs: Inputs) -> Any:
        """Numbers of the facts in the order in which they are asked with the least work; None: as they stand."""
        return None

    def work(self, inputs: Inputs) -> Any:
        """How much work each fact is, in any unit; None: all are the same."""
        return None

    def leads(self, inputs: Inputs, targets: Any) -> Leads:
        """Leads of integer targets, (B,) or (B, S), and what the model says, of the same shape."""
        raise self.refusal("one right answer")

    def values(self, inputs: Inputs) -> Tensor:
        """Real numbers (B, k)."""
        raise self.refusal("real targets")

    def scores(self, inputs: Inputs) -> Tensor:
        """One score for every token of the vocabulary, (B, N); a softmax makes probabilities of them."""
        raise self.refusal("distributions")

    def said(self, inputs: Inputs) -> Tensor:
        """All that the model gives, one row for each fact."""
        return self.scores(inputs)

    def continuations(self, prompts: Sequence[Prompt]) -> list[Continuation]:
        """What the model goes on with after each prompt, up to its end or for as long as the answer is."""
        raise self.refusal("prompts")

    def refusal(self, wanted: str) -> UsageError:
        return UsageError(f"this model reads {self.takes} and gives {self.gives}; a table of {wanted} cannot judge it.")
