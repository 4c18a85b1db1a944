"""`compare`: two models side by side on the same facts: what is kept, lost and changed, how far weights and logits are
apart, and what an attacker who sees logits can tell about facts that only one of them was given.

Membership advantage: the attacker is shown a context with an answer, sees the logits, and says whether it was a fact of
the model. He goes by the probability of the answer, or without the answer by how sure the model is, and says yes above
a threshold. His advantage is the largest difference between the shares of facts and of controls above one threshold.
Controls are contexts that are no facts, drawn token by token from the table, as are their answers. It is 1 if he is
always right, and 0 if he may as well guess.
Two samples from one distribution differ too; `noise` is what they exceed in one of twenty cases (Kolmogorov, Smirnov).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.data import FactTable
from rote.data.arguments import checked
from rote.data.unknown import unknown_contexts
from rote.errors import RoteError, UsageError
from rote.memory import Memory
from rote.operate.weights import weight_changes
from rote.pipeline import load
from rote.plot.sheet import Grid, Sheet, Shown, visible

if TYPE_CHECKING:
    from rote.data.table import Table

__all__ = ["Advantage", "Comparison", "compare"]

MOST_CONTROLS, FEWEST_CONTROLS = 2000, 50
SHOWN = 10


@dataclass(frozen=True)
class Advantage:
    """What an attacker gains on some facts: by the probability of the answer, and by how sure the model is."""

    facts: int
    controls: int
    by_answer: float
    by_sureness: float
    noise: float
    """The advantage that chance alone exceeds in one of twenty cases."""


@dataclass(frozen=True)
class Comparison(Shown):
    """Two models on the same facts."""

    names: tuple[str, str]
    facts: int
    kept: int
    lost: int
    """Recalled by the first and not by the second."""
    gained: int
    neither: int
    answers_changed: int
    """Facts to which the two say different things, right or wrong."""
    bit_equal: int | None
    """Facts for which all logits are the same; None where the models have other words, or no logits."""
    largest_logit_difference: float | None
    mean_logit_difference: float | None
    weights: dict[str, Any] | None
    apart: tuple[str, ...]
    """The first facts that are lost or gained."""
    only_first: int
    """Facts of the first model's table that are not in the second's."""
    membership: dict[str, Advantage]
    """By model, on the facts that only the first was given, or on all where both were given the same."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sheet(self) -> Sheet:
        one, other = self.names
        lines = [
            f"{self.facts:,} facts: {self.kept:,} recalled by both, {self.lost:,} lost, {self.gained:,} gained, "
            f"{self.neither:,} by neither; {self.answers_changed:,} answers changed"
        ]
        if self.weights is not None:
            changed, count = self.weights["weights_changed"], self.weights["weights"]
            lines.append(
                f"weights: {changed:,} of {count:,} differ ({100 * changed / max(1, count):.3g} %), by "
                f"{self.weights['norm_of_change']:.4g} of their norm {self.weights['norm']:.4g}"
            )
        else:
            lines.append("weights: of other shapes, so that they cannot be compared")
        if self.bit_equal is not None:
            lines.append(
                f"logits: the same for {self.bit_equal:,} facts, bit by bit; largest difference "
                f"{self.largest_logit_difference:.4g}, mean {self.mean_logit_difference:.4g}"
            )
        rows = tuple(
            (name, f"{m.by_answer:.3f}", f"{m.by_sureness:.3f}", f"{m.noise:.3f}")
            for name, m in self.membership.items()
        )
        whose = f"the {self.only_first:,} facts that only {one} has" if self.only_first else "all facts"
        grids = [
            Grid(("model", "by the answer", "by sureness", "chance"), rows, title=f"Membership advantage on {whose}")
        ]
        if self.apart:
            grids.append(Grid(("facts lost or gained",), tuple((visible(fact),) for fact in self.apart)))
        return Sheet(f"{one} and {other}", lines=tuple(lines), grids=tuple(grids if rows else grids[1:]))


@checked
def compare(
    first: Memory | str | Path,
    second: Memory | str | Path,
    table: Table | None = None,
    *,
    changed_weights: bool = False,
    rng: int = 0,
) -> Comparison:
    """Two models on the same facts: those of `table`, or those that the first was built from.

    With `changed_weights` directories may hold other weights than their certificates speak of.
    """
    memories = [
        one if isinstance(one, Memory) else load(one, changed_weights=changed_weights) for one in (first, second)
    ]
    names = _names(memories, first, second)
    facts = _first_table(memories) if table is None else table
    targets = np.asarray(getattr(facts, "targets", 0.0))
    if facts.words is None or targets.dtype.kind not in "iu" or targets.ndim != 1:
        raise UsageError(f"models are compared on facts of tokens with one right answer; {facts.kind} are not.")
    spoken = [_in_words(one, facts) for one in memories]
    results = [_answers(one, part) for one, part in zip(memories, spoken, strict=True)]
    right = [leads > 0 for leads, _, _ in results]
    lost, gained = right[0] & ~right[1], ~right[0] & right[1]
    said = [
        np.array([*memory.vocabulary, ""], dtype=object)[ids]
        for memory, (_, ids, _) in zip(memories, results, strict=True)
    ]
    logits = [one[2] for one in results]
    bit_equal = largest = mean = None
    comparable = all(one is not None for one in logits) and memories[0].vocabulary == memories[1].vocabulary
    if comparable and logits[0].shape == logits[1].shape:
        bit_equal, largest, mean = _apart(logits[0], logits[1])
    only, controls = _only_first(memories, facts), _controls(facts, rng)
    members = _facts(facts, slice(None) if only is None or not only.any() else only)
    membership = {}
    for name, memory in zip(names, memories, strict=True):
        found = _advantage(memory, members, controls)
        if found is not None:
            membership[name] = found
    shown = np.flatnonzero(lost | gained)[:SHOWN]
    return Comparison(
        names,
        facts.n_facts,
        int((right[0] & right[1]).sum()),
        int(lost.sum()),
        int(gained.sum()),
        int((~right[0] & ~right[1]).sum()),
        int((said[0] != said[1]).sum()),
        bit_equal,
        largest,
        mean,
        _weights(memories),
        tuple(facts.fact_text(int(i)) for i in shown),
        0 if only is None else int(only.sum()),
        membership,
    )


def _names(memories: Sequence[Memory], first: Any, second: Any) -> tuple[str, str]:
    given = [
        str(one) if not isinstance(one, Memory) else m.folder.name
        for one, m in zip((first, second), memories, strict=True)
    ]
    staged = [m.staging is not None for m in memories]
    named = ["first" if staged[0] else given[0], "second" if staged[1] else given[1]]
    return (named[0], named[1]) if named[0] != named[1] else (f"{named[0]} (1)", f"{named[1]} (2)")


def _first_table(memories: Sequence[Memory]) -> Table:
    """The facts of the first model."""
    try:
        return memories[0].table()
    except RoteError as error:
        raise UsageError(
            f"the facts of the first model are not at hand ({str(error).rstrip('.')}); give them."
        ) from None


def _in_words(memory: Memory, table: Table) -> Table:
    wording = memory.model.wording
    if wording is None:
        raise UsageError("a model of vectors is asked no facts of tokens; compare models of the same facts.")
    return table.in_words_of(wording.vocabulary, wording.context)


def _number_format(memory: Memory) -> str:
    return memory.certificate.dtype if memory.certificate.dtype != "exact" else "float64"


def _answers(memory: Memory, table: Any) -> tuple[Any, Any, Any]:
    """Leads and answers (ids) of all facts, and all logits, or None where a model has no such."""
    outputs = memory.model.outputs(_number_format(memory))
    leads, ids, logits = [], [], []
    for part in outputs.parts(table.n_facts):
        inputs, goals = table.inputs(part), table.targets[part]
        lead, rival = outputs.leads(inputs, goals)
        leads.append(np.asarray(lead, dtype=np.float64))
        ids.append(np.where(np.asarray(lead) > 0, goals, rival))
        try:
            logits.append(outputs.scores(inputs).detach().to("cpu"))
        except RoteError:
            continue
    import torch

    return np.concatenate(leads), np.concatenate(ids), torch.cat(logits) if len(logits) == len(leads) else None


def _apart(one: Any, other: Any) -> tuple[int, float, float]:
    same = (one == other).all(dim=1)
    apart = (one.double() - other.double()).abs()
    # What both cannot say is alike.
    apart[one == other] = 0
    finite = apart[apart.isfinite()]
    return int(same.sum()), float(finite.max()) if len(finite) else 0.0, float(finite.mean()) if len(finite) else 0.0


def _weights(memories: Sequence[Memory]) -> dict[str, Any] | None:
    found = weight_changes(*(memory.module.state_dict() for memory in memories))
    return None if "incomparable" in found or not found["weights"] else found


def _only_first(memories: Sequence[Memory], facts: Any) -> Any:
    """Which of the facts the first model was given and the second was not; None where that is not known."""
    try:
        tables = [memory.table() for memory in memories]
    except RoteError:
        histories = [_history(memory) for memory in memories]
        if histories[1] is None or histories[0] is not None:
            return None
        tables = [facts, facts.changed(histories[1].changes) if facts.sha256 == histories[1].of else facts]
    held = [{_key(one, i) for i in range(one.n_facts)} for one in tables]
    return np.array([(key := _key(facts, i)) in held[0] and key not in held[1] for i in range(facts.n_facts)])


def _history(memory: Memory) -> Any:
    from rote.data.changes import read_changes

    return read_changes(memory.folder)


def _key(table: Any, i: int) -> tuple[tuple[str, ...], str]:
    return table.context_tokens(i), table.vocabulary.token(int(table.targets[i]))


def _controls(facts: Any, rng: int) -> Any:
    """Contexts that are no facts, with answers drawn from the table; None where there are too few."""
    draw, count = np.random.default_rng(rng), min(MOST_CONTROLS, max(200, facts.n_facts))
    # Every token from its own position, so that controls look like facts.
    drawn = np.stack([draw.choice(column, 4 * count) for column in facts.contexts.T], axis=1)
    known = {row.tobytes() for row in facts.contexts}
    alike = np.array([row for row in np.unique(drawn, axis=0) if row.tobytes() not in known], dtype=np.int64)
    if len(alike) >= FEWEST_CONTROLS and facts.vocabulary.pad_id is None:
        contexts = draw.permutation(alike)[:count]
    else:
        contexts = unknown_contexts(facts, count, draw).random
    if len(contexts) < 2:
        return None
    return FactTable(contexts, draw.choice(facts.targets, len(contexts)), facts.vocabulary)


def _facts(table: Any, rows: Any) -> FactTable:
    """Some facts of a table of tokens, whatever else its kind has."""
    return FactTable(table.contexts[rows], table.targets[rows], table.vocabulary)


def _advantage(memory: Memory, members: Any, controls: Any) -> Advantage | None:
    import torch

    if controls is None:
        return None
    parts = []
    for table in (members, controls):
        spoken: Any = _in_words(memory, table)
        logits = _answers(memory, spoken)[2]
        if logits is None:
            return None
        chances = logits.double().log_softmax(dim=1)
        answer = chances.gather(1, torch.tensor(spoken.targets)[:, None])[:, 0]
        parts.append((answer.numpy(), chances.max(dim=1).values.numpy()))
    (answer, sure), (other, unsure) = parts
    noise = 1.358 * math.sqrt((len(answer) + len(other)) / (len(answer) * len(other)))
    return Advantage(len(answer), len(other), _gain(answer, other), _gain(sure, unsure), min(1.0, noise))


def _gain(members: Any, controls: Any) -> float:
    """The largest difference between the shares at or above one threshold."""
    levels = np.unique(np.concatenate([members, controls]))
    above = [1 - np.searchsorted(np.sort(some), levels) / len(some) for some in (members, controls)]
    return float(max(0.0, (above[0] - above[1]).max()))
