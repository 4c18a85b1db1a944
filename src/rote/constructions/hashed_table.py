"""The hashed table: any facts, exactly, in an ordinary network of a usual number format. See
`rote.theorems.hashed_table`."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from rote.config import Dtype, Shape
from rote.constructions._base import Job, Needs, NoPlan, Options, Plan, option
from rote.constructions._data import wording
from rote.constructions._hashed import HashedConstruction, renumbered, used_ids
from rote.data.verification import unknown_sentence
from rote.errors import UsageError
from rote.solvers.hashed.layout import WORD_BITS, Layout
from rote.solvers.hashed.planning import editable_layouts, layouts

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rote.constructions._operations import Edit, Edited, Located, Search
    from rote.data import FactTable
    from rote.data.demand import Demand
    from rote.data.verification import Verification
    from rote.models import Model
    from rote.models.kinds.hashed_transformer import HashedTransformerModel
    from rote.solvers.hashed.memorise import Solve
    from rote.solvers.hashed.shortening import Shortening

__all__ = ["HashedTable", "construction"]

MOST_UNKNOWN = 24
TRIED = 10_000
"""Contexts of each kind, random ones and near misses, that are tried to see whether they are told as unknown."""
FEWEST_TRIED, MOST_NUMBERS = 100, 200_000_000
"""Where contexts are long, fewer are tried: as many as so many numbers are computed for, but not too few."""
PLACES = ("local", "ray")
RULES = 5
"""Rules in the facts that are weighed against a table without one."""


@dataclass(frozen=True)
class HashedTable(Options):
    """What a hashed table may be told."""

    unknown: int | None = option(
        None, "Say unknown to contexts that are no facts, but for a share of 2^-BITS of them.", metavar="BITS", min=1
    )
    editable: bool = option(
        False, "Rows so short that changing a fact touches at most a thousandth of the weights, or 16 of them."
    )
    plain: bool = option(
        False, "A key for every fact, instead of a rule by which facts share keys: facts can then be edited one by one."
    )
    on: str = option(
        "local", "Where to solve rows: local (all cores) or ray. The weights are the same.", choices=PLACES, place=True
    )
    address: str | None = option(None, "Ray cluster; one is started here if not given.", place=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.address is not None and self.on != "ray":
            raise UsageError("an address is that of a Ray cluster, and this runs locally; run on ray, or leave it out.")
        if self.unknown is not None and not 1 <= self.unknown <= MOST_UNKNOWN:
            raise UsageError(f"unknown must be a whole number of bits from 1 to {MOST_UNKNOWN}, got {self.unknown}.")


class _Construction(HashedConstruction["FactTable", HashedTable]):
    accepts = ("facts",)
    Options = HashedTable
    title = "Hashed table, exact in usual number formats"
    edits = ("set", "forget", "insert")

    def plan(self, demand: Demand) -> Plan | NoPlan:
        if refusal := self.refusal(demand):
            return refusal
        classes = demand.n_targets or demand.vocab
        sizes = (demand.n_facts, demand.context, demand.vocab, classes, demand.dtype)
        layout = next(layouts(*sizes, telling=demand.telling or 1))
        return self._planned(layout, demand.vocab, demand.dtype, demand.n_facts)

    def shapes(self, table: FactTable, shape: Shape, dtype: Dtype, options: HashedTable) -> Iterator[Plan]:
        every = _readings(table, dtype, options)
        return self.different(self._planned(layout, table.vocab, dtype, table.n_facts) for layout, _ in every)

    def _planned(self, layout: Layout, vocab: int, dtype: Dtype, facts: int) -> Plan:
        return self.planned(layout, vocab, dtype, facts, facts * layout.bits / max(1, layout.keys))

    def needs(self, demand: Demand, plan: Plan) -> Needs:
        # Bits and columns of the keys, some copies of them, and the matrices in float64 and as they are stored.
        return Needs(400 * demand.n_facts + 24 * plan.params, 3 + 1e-4 * demand.n_facts)

    def build(self, job: Job[FactTable, HashedTable]) -> Model:
        import numpy as np

        from rote.models.kinds.hashed_transformer import HashedTransformerModel, Words, as_tensors
        from rote.solvers.hashed.memorise import memorise
        from rote.solvers.hashed.network import matrices

        table = job.table
        layout, rule = self.of_shape(_readings(table, job.dtype, job.options), job.arch)
        inputs, spelled = used_ids(table.contexts), used_ids(table.targets)
        keys, labels = renumbered(table.contexts, inputs), renumbered(table.targets, spelled)
        if rule is not None:
            keys, first = np.unique(rule.keys, axis=0, return_index=True)
            labels = labels[first]
        with _solver(job.options) as solve:
            made = memorise(keys, labels, layout, job.rng, solve=solve, progress=job.progress)
        job.progress("write the matrices", 0, 0, None)
        weights = as_tensors(matrices(made.hashing, made.rows, rule), job.dtype)
        words = Words(tuple(inputs.tolist()), tuple(spelled.tolist()), layout.unknown)
        report = {
            "layout": layout.to_dict(),
            "rows_used": len(made.rows),
            "keys_per_word": round(len(keys) / max(1, layout.table_words), 4),
            "seeds_tried": made.seeds_tried,
            "positions": made.hashing.positions.tolist(),
        }
        if rule is not None:
            report["rule"] = {
                "keys": rule.count, "order": list(rule.order), "depths": list(rule.depths), "openers": rule.openers
            }  # fmt: skip
        spoken = wording(table)
        assert spoken is not None, "facts have words"
        return HashedTransformerModel(job.arch, words, weights, spoken, report=report)

    def remeasured(
        self,
        table: FactTable,
        model: Model,
        dtype: str,
        results: Mapping[str, Verification],
        claims: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        from rote.constructions._unknown import told_unknown

        hashed = cast("HashedTransformerModel", model)
        measures = self.counted(model, table.bits)
        if hashed.words.unknown:
            tried = max(FEWEST_TRIED, min(TRIED, MOST_NUMBERS // hashed.module.numbers))
            measures["unknown"] = told_unknown(table, hashed.says_unknown, hashed.words.unknown, tried)
        return measures

    def edited(self, edit: Edit) -> Edited:
        from rote.constructions._hashed_editing import edited_rows

        return edited_rows(edit)

    def located(self, search: Search, row: int) -> Located:
        from rote.constructions._hashed_editing import located_words

        return located_words(search, row)

    def readers(self, search: Search, tensor: str, index: tuple[Any, ...]) -> npt.NDArray[np.bool_] | None:
        from rote.constructions._hashed_editing import readers_of

        return readers_of(search, tensor, index)

    def remarks(self, certificate: Mapping[str, Any]) -> list[str]:
        c, lines = certificate, []
        if rule := c["report"].get("rule"):
            lines.append(
                f"a rule makes {rule['keys']:,} keys of {c['facts']:,} facts: further tokens are read behind "
                f"{rule['openers']:,} beginnings only"
            )
        if c.get("unknown"):
            lines.append(unknown_sentence(c["unknown"]))
        return lines

    def examples(self, rng: np.random.Generator) -> list[tuple[FactTable, Shape]]:
        from rote.data import random_facts

        return [(random_facts(*sizes, rng=rng), Shape()) for sizes in ((200, 3, 20), (40, 1, 60), (500, 5, 9))]


def _readings(
    table: FactTable, dtype: Dtype, options: HashedTable
) -> Iterator[tuple[Layout, Shortening | None]]:  # fmt: skip
    """Layouts, fewest parameters first, some of them with a rule by which facts share keys."""
    tokens, context, targets = len(used_ids(table.contexts)), table.context, table.n_targets
    sizes = (table.n_facts, context, tokens, targets, dtype)
    planned = editable_layouts if options.editable else layouts
    telling = table.demand(dtype, Shape()).telling or 1
    whole = planned(*sizes, unknown=options.unknown or 0, telling=telling)
    readings: list[Iterator[tuple[Layout, Shortening | None]]] = [((one, None) for one in whole)]
    if not (options.plain or options.editable or options.unknown) and targets > 1:
        inputs = context * tokens.bit_length() + 1
        weight = (targets - 1).bit_length() / WORD_BITS[dtype]
        rules = sorted(_rules(table), key=lambda rule: weight * rule.count + 2 * inputs * rule.openers)
        readings += [_ruled(rule, tokens, targets, dtype) for rule in rules[:RULES]]
    return heapq.merge(*readings, key=lambda reading: reading[0].params)


def _ruled(rule: Shortening, tokens: int, targets: int, dtype: Dtype) -> Iterator[tuple[Layout, Shortening | None]]:
    context = rule.keys.shape[1]
    return ((one, rule) for one in layouts(rule.count, context, tokens, targets, dtype, openers=rule.openers))


@lru_cache(maxsize=1)
def _rules(table: FactTable) -> tuple[Shortening, ...]:
    """Rules that are in the facts; found once, though a build asks several times."""
    from rote.solvers.hashed.shortening import shortenings

    inputs = used_ids(table.contexts)
    return tuple(shortenings(renumbered(table.contexts, inputs), table.targets, len(inputs)))


@contextlib.contextmanager
def _solver(options: HashedTable) -> Iterator[Solve]:
    """What solves the rows: threads of this process, or the workers of a cluster."""
    from rote.solvers.hashed.memorise import by_cluster, by_threads

    if options.on == "local":
        yield by_threads
        return
    from rote.solvers.cluster import Cluster

    with Cluster.at(options.address, "solving rows on a Ray cluster") as cluster:
        yield by_cluster(cluster)


construction = _Construction()
