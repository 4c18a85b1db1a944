"""The network that knows keys, in four or more added layers and a few neurons of one original layer.

Below the original: where there are many keys, a token behind one of no key is made a start (`parted`); heads gather the
window and neurons make its hash (`gathered`); the store (`stored`); one head fetches what the store said at the latest
key, and neurons turn its levels into signs (`fetched`). In the layers that the gates were fitted on, two neurons for
each say whether the fact is asked for (`asking`). On top, heads say whether that was not long ago, and a neuron for
each token of each answer says it (`said`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from rote.solvers.keyed.bottom import Bottom, Marks
from rote.solvers.keyed.frame import Jury, Plan, usual_size
from rote.solvers.keyed.layers import Body, Channels, Layer
from rote.solvers.keyed.store import Store
from rote.solvers.keyed.tokens import Codebook
from rote.solvers.keyed.top import Asking, Top
from rote.solvers.keyed.units import sizes_of

__all__ = ["Network", "build", "exact_steps"]


@dataclass(frozen=True)
class Network:
    """Added layers below and above, the embedding's added channels, and rows for the neurons of an original layer."""

    channels: Channels
    inner: int
    bottom: list[Layer]
    top: list[Layer]
    embedding: Tensor
    small: float
    usual: float
    asking: Mapping[int, Asking]
    """Neurons that tell what is asked, by the number of the original's layer."""


def exact_steps(
    answers: Sequence[Sequence[int]], ends: Collection[int] = (), most: int | None = None
) -> tuple[int, ...]:
    """Steps of answers at which the token before does not tell what follows, because the answer has it twice.

    Neither does a token that prompts end with, one of `ends`: there an answer would go on that should begin. Steps
    behind these count as long as there are not more than `most`.
    """
    steps: set[int] = set()
    for ids in answers:
        for i, token in enumerate(ids[:-1]):
            later = [j for j in range(len(ids) - 1) if j != i and ids[j] == token and ids[j + 1] != ids[i + 1]]
            steps.update(j + 1 for j in (i, *later) if later)
    behind = Counter(i + 1 for ids in answers for i, token in enumerate(ids[:-1]) if token in ends)
    room = len(behind) if most is None else max(0, most - len(steps))
    steps.update([step for step, _ in behind.most_common() if step not in steps][:room])
    return tuple(sorted(steps))


def build(
    body: Body,
    channels: Channels,
    plan: Plan,
    book: Codebook,
    store: Store,
    juries: Sequence[Jury],
    *,
    embedding: Tensor,
    directions: Mapping[int, Tensor],
    answers: Sequence[Sequence[Sequence[int]]],
    marks: Marks,
    top_size: float,
    small: float,
) -> Network:
    """All weights; `answers` are token ids with the end, of each relation, as there is a jury for each.

    `directions` are what to add to the stream to say a token.

    `small` is the size of what is stored in added channels beside that of the embedding.
    """
    sizes = sizes_of(embedding, body.eps)
    usual = usual_size(sizes)
    inner = plan.inner(body)
    below = Bottom(body, channels, plan, inner, usual, small)
    above = Top(body, channels, plan, inner, usual, small)
    bottom = [below.parted()] if plan.merged else []
    bottom += [below.gathered(book), *below.stored(store, book)]
    if plan.verified:
        bottom.append(below.recognised())
    bottom.append(below.fetched())
    top = above.said(book, sizes, directions, answers, top_size)
    return Network(
        channels, inner, bottom, top, below.embedded(book, embedding, marks), small, usual, above.asking(juries)
    )
