"""The contract suite of operations on models: edits of single facts and where facts lie, for every construction."""

from __future__ import annotations

from typing import Any

from rote.constructions import AnyConstruction
from rote.data.changes import ACTIONS, Change
from rote.errors import RoteError, UsageError

__all__ = ["check_comparisons", "check_edits", "check_locations"]


def check_edits(construction: AnyConstruction) -> None:
    """What it claims to change in its models changes, nothing else is lost, and all else is refused.

    A fact that was set or inserted is said afterwards, every other fact still is, and the model that was edited stays
    as it was. A change may be refused where a shape has no room for it, but not all of them.
    """
    import numpy as np

    from rote.testing.constructions import built

    key = construction.key
    assert {*construction.edits} <= {*ACTIONS}, f"{key}: it claims changes that there are not"
    made = dict.fromkeys(ACTIONS, 0)
    examples = construction.examples(np.random.default_rng(0))[: 2 if construction.edits else 1]
    for table, shape in examples:
        memory = built(construction, table, shape, 3)
        for change in _changes(table):
            made[change.action] += _check_edit(construction, memory, table, change)
    # Examples lie at the bound, where there may be no room for one more.
    assert any(made.values()) or not (examples and construction.edits), f"{key}: it claims edits, and refuses them all"


def check_locations(construction: AnyConstruction) -> None:
    """What is said of where a fact lies holds: taking a part out loses the facts that it is said to lose.

    Where the map is exact, facts that do not read a part give the same outputs, bit by bit, whatever its weights are.
    """
    import copy

    import numpy as np
    import torch

    from rote.testing.constructions import built

    key = construction.key
    for table, shape in construction.examples(np.random.default_rng(0))[:1]:
        memory = built(construction, table, shape, 3)
        targets = np.asarray(getattr(table, "targets", 0.0))
        try:
            location = memory.locate(fact=table.n_facts, table=table)
        except UsageError:
            assert targets.dtype.kind not in "iu", f"{key}: it does not say where a fact with one answer lies"
            continue
        assert location.said.endswith("."), f"{key}: a location is told in a sentence"
        for part in location.parts[:2]:
            found = memory.dependents(part.weights, table=table)
            assert found.exact == location.exact, f"{key}: {part.weights} is exact one way only"
            assert found.n_readers == part.readers, f"{key}: {part.weights} has two numbers of readers"
            if not location.exact:
                continue
            name, _, index = part.weights.rstrip("]").partition("[")
            place = tuple(slice(None) if i.strip() == ":" else int(i) for i in index.split(","))
            other = copy.deepcopy(memory.model)
            tensor = other.module.state_dict()[name]
            tensor[place] += torch.ones_like(tensor[place])
            moved = (
                memory.model.logits(torch.tensor(table.contexts)) != other.logits(torch.tensor(table.contexts))
            ).any(1)
            assert int(moved.sum()) <= (part.readers or 0), f"{key}: {part.weights} moves facts that do not read it"


def check_comparisons(construction: AnyConstruction) -> None:
    """A model compared with itself has lost nothing and differs in nothing; tables without one answer are refused."""
    import numpy as np

    from rote.operate.compare import compare
    from rote.testing.constructions import built

    key = construction.key
    for table, shape in construction.examples(np.random.default_rng(0))[:1]:
        memory = built(construction, table, shape, 3)
        try:
            found = compare(memory, memory, table)
        except UsageError:
            alike = table.words is not None and np.ndim(getattr(table, "targets", 0.0)) == 1
            assert not alike, f"{key}: two models of facts with one answer cannot be compared"
            continue
        recalled = round(memory.certificate.recall[memory.certificate.dtype] * table.n_facts)
        assert (found.kept, found.lost, found.gained) == (recalled, 0, 0), f"{key}: it loses facts against itself"
        assert found.answers_changed == 0 and found.bit_equal in (None, table.n_facts), f"{key}: it differs from itself"
        assert found.weights is None or not found.weights["weights_changed"], (
            f"{key}: its weights differ from themselves"
        )
        assert all(0 <= one.by_answer <= 1 for one in found.membership.values()), f"{key}: an advantage is a share"


def _changes(table: Any) -> list[Change]:
    """One change of every kind that such a table allows; none where facts are not named by a context of tokens."""
    import numpy as np

    targets, contexts = getattr(table, "targets", None), getattr(table, "contexts", None)
    if table.words is None or targets is None or np.ndim(targets) != 1 or contexts is None:
        return []
    words = table.words.tokens
    context = tuple(words[i] for i in contexts[0] if i != table.words.pad_id)
    answer = words[int(next((t for t in targets if t != targets[0]), targets[0]))]
    changes = [Change("set", context, answer)]
    if table.n_facts > 1:
        changes.append(Change("forget", context))
    known, rng = {row.tobytes() for row in contexts}, np.random.default_rng(1)
    for _ in range(200):
        tried = rng.choice(contexts[:, -1], contexts.shape[1])
        if tried.tobytes() not in known and table.words.pad_id not in tried:
            return [*changes, Change("insert", tuple(words[i] for i in tried), answer)]
    return changes


def _check_edit(construction: AnyConstruction, memory: Any, table: Any, change: Change) -> bool:
    """Whether the change was made; a refusal is one where it is allowed."""
    from rote.pipeline import verify

    key, before = construction.key, memory.certificate.weights_sha256
    try:
        edited = memory.edit([change], table=table)
    except UsageError:
        assert change.action not in construction.edits or change.action == "insert", (
            f"{key}: refuses to {change.action}"
        )
        return False
    except RoteError:
        assert change.action in construction.edits, f"{key}: tries to {change.action}, which it does not claim"
        return False
    assert change.action in construction.edits, f"{key}: makes a change that it does not claim, {change}"
    record = edited.certificate["edited"]
    assert verify(edited, edited.prepared(table)).passed, f"{key}: after an edit ({change}) facts are lost"
    assert verify(memory, table).recall == memory.certificate.recall[memory.certificate.dtype], (
        f"{key}: edited in place"
    )
    assert memory.certificate.weights_sha256 == before, f"{key}: an edit changed the model that was there"
    assert record["other_facts"] == table.n_facts - (change.action != "insert"), f"{key}: some other fact was not run"
    assert 0 <= record["weights_changed"] <= record["weights"], f"{key}: more weights changed than there are"
    if change.answer is not None:
        said = edited.ask(*change.context, top=1)[0].token
        assert said == change.answer, f"{key}: {change}, and it says {said!r}"
    return True
