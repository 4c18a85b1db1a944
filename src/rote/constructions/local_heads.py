"""Local heads: every head serves a few facts, and is blind to all others. See `rote.solvers.local_heads`.

The saturation of Mahdavi et al. 2024 (`mahdavi2024_thm1`) for tokens instead of vectors, with a difference: there a
head that is saturated still looks at some row, and a linear solve takes off what that adds. Here it looks at one whose
value is zero. So facts share no weight of a head, at the price of a head for every answer of every neighbourhood.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from rote.config import Architecture, Dtype, Shape
from rote.constructions._base import Construction, Job, Needs, Options, Plan, option
from rote.constructions._data import TokenConstruction, check_sizes
from rote.errors import CapacityError, UsageError
from rote.solvers.local_heads import LocalHead

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rote.constructions._operations import Edit, Edited, Located, Search
    from rote.data import FactTable
    from rote.data._arrays import IntArray
    from rote.data.demand import Demand
    from rote.models import Model
    from rote.models.kinds.transformer import TransformerModel

__all__ = ["LocalHeads", "construction"]

WHOLE_BITS = {"float32": 24, "float64": 53}
"""Whole numbers of so many bits are exact."""


@dataclass(frozen=True)
class LocalHeads(Options):
    """What local heads may be told."""

    separate: bool = option(False, "A head for every fact, so that each can be set and forgotten by itself.")


class _Construction(Construction["FactTable", LocalHeads]):
    accepts = ("facts",)
    Options = LocalHeads
    title = "Attention only, every head blind to all facts but its own"
    automatic = False
    shaped_by = ()
    dtypes = ("float64", "float32")
    seeded = False
    edits = ("set", "forget")

    @property
    def source(self) -> str:
        return "softmax saturation (Mahdavi et al. 2024) for tokens, with heads that look at nothing, by rote"

    def shapes(self, table: FactTable, shape: Shape, dtype: Dtype, options: LocalHeads) -> Iterator[Plan]:
        from rote.solvers.local_heads import width

        if shape.given:
            raise UsageError(f"{self.key} finds its own shape; leave the shape open.")
        heads = len(_heads(table, dtype, options)[0])
        arch = Architecture(heads, width(table.context), 2, table.context, max(2, table.vocab))
        yield self.as_plan(
            arch, table.demand(dtype, shape), note=f"{table.n_facts / heads:.3g} facts a head, each in one of them"
        )

    def needs(self, demand: Demand, plan: Plan) -> Needs:
        arch = plan.architecture
        return Needs(64 * plan.params + 80_000 * arch.n_heads, 1e-8 * demand.n_facts * arch.n_heads)

    def check(self, table: FactTable, arch: Architecture, options: LocalHeads) -> None:
        sizes = (("context", table.context, arch.context), ("vocab", max(2, table.vocab), arch.vocab))
        check_sizes(table.noun, *sizes)

    def build(self, job: Job[FactTable, LocalHeads]) -> Model:
        import numpy as np

        from rote.solvers.local_heads import weights

        table = job.table
        job.progress("share out facts", 0, 0, None)
        heads, numbers = _heads(table, job.dtype, job.options)
        if len(heads) != job.arch.n_heads:
            raise CapacityError(f"{self.key} finds its own shape; leave the shape open.")
        said = np.full(job.arch.vocab, -1, dtype=np.int64)
        used = np.unique(table.targets)
        said[used] = np.arange(len(used))
        made = weights(heads, numbers, said, table.context)
        served = {"served_by_head": _served(heads, numbers, table)}
        return TokenConstruction.transformer(job, made, 1.0, served)

    # --- what may be done to its models -----------------------------------------------------------------------------

    def located(self, search: Search, row: int) -> Located:
        from rote.constructions._operations import Located
        from rote.models import Piece

        looks = _looking(search.model, search.table.inputs(slice(0, search.table.n_facts))[0])
        head = int(looks[row].argmax())
        if not looks[row, head]:
            return Located((), (), "No head serves this fact.")
        others = int(looks[:, head].sum()) - 1
        shared = (
            f"it and {others:,} other fact{'s' if others > 1 else ''} with the same answer" if others else "it alone"
        )
        said = f"Head {head} serves {shared}, and is blind to all others: for them it looks at a token of value zero."
        return Located((Piece(f"head {head}", "W_O", (head,)),), (others + 1,), said)

    def readers(self, search: Search, tensor: str, index: tuple[Any, ...]) -> npt.NDArray[np.bool_] | None:
        import numpy as np

        if tensor != "W_O" or not index or not isinstance(index[0], int):
            return None
        looks = _looking(search.model, search.table.inputs(slice(0, search.table.n_facts))[0])
        return np.asarray(looks[:, index[0]], dtype=np.bool_)

    def edited(self, edit: Edit) -> Edited:
        """One weight of the fact's head says its answer; zero says none."""
        import torch

        from rote.constructions._operations import NOBODY, Edited
        from rote.models.kinds.transformer import TransformerModel
        from rote.solvers.local_heads import END, SPOKEN

        model = cast("TransformerModel", edit.model)
        looks, own = (_looking(model, rows) for rows in (edit.table.inputs(slice(0, edit.table.n_facts))[0], edit.keys))
        tensors = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
        spoken, how = model.wording.vocabulary if model.wording else (), []
        slope, constant = (tensors["W_U"][:, at].to(torch.float64).tolist() for at in (SPOKEN, END))
        for key, looking, after in zip(edit.keys, own, edit.after.tolist(), strict=True):
            head, words = int(looking.argmax()), ", ".join(spoken[i] for i in key.tolist())
            if not looking[head]:
                raise CapacityError(f"no head serves ({words}); build the model again from the changed table.")
            sharing = int(looks[:, head].sum())
            if sharing > 1:
                raise CapacityError(
                    f"head {head} serves ({words}) and {sharing - 1:,} other facts with the same answer, which would "
                    "change too; build the model with separate heads, or again from the changed table."
                )
            if after != NOBODY and not slope[after]:
                raise UsageError(
                    f"{spoken[after]!r} is no answer of this model, which has no weights to say it; build it anew from "
                    "a table that has the answer."
                )
            # W_U has 2 y and - y^2 for an answer y, times a stretch.
            tensors["W_O"][head, SPOKEN, 0] = 0.0 if after == NOBODY else -2 * constant[after] / slope[after]
            does = "says nothing any more" if after == NOBODY else "says another answer"
            how.append(f"W_O[{head}]: head {head}, which serves this fact alone, {does}")
        made = TransformerModel(
            model.arch, tensors, wording=model.wording, dtype=model.dtype, report=edit.certificate["report"]
        )
        return Edited(made, tuple(how))

    # --- for the contract suite -------------------------------------------------------------------------------------

    def examples(self, rng: np.random.Generator) -> list[tuple[FactTable, Shape]]:
        from rote.data import random_facts

        return [(random_facts(*sizes, rng=rng), Shape()) for sizes in ((60, 2, 20), (300, 2, 40), (12, 3, 30))]

    def near_misses(self, rng: np.random.Generator) -> list[tuple[FactTable, Shape, str]]:
        from rote.data import random_facts

        return [
            (random_facts(400, 3, 9, rng=rng), Shape(), "two tokens"),
            (random_facts(9, 1, 20, rng=rng), Shape(), "one token"),
        ]


def _heads(table: FactTable, dtype: Dtype, options: LocalHeads) -> tuple[list[LocalHead], IntArray]:
    """The heads of a table, and the numbers of its tokens."""
    from rote.solvers.local_heads import Table, local_heads, ordered_tokens

    if table.context < 2:
        raise CapacityError("a context of one token gives heads nothing to attend to; use hashed_table or mlp_fit.")
    vocab = max(2, table.vocab)
    numbers = ordered_tokens(table.contexts, table.targets, vocab)
    answers = _places_of(table.targets)
    ordered = Table(numbers[table.contexts], answers)
    return local_heads(ordered, WHOLE_BITS[dtype], separate=options.separate), numbers


def _places_of(targets: IntArray) -> IntArray:
    import numpy as np

    return np.unique(targets, return_inverse=True)[1].astype(np.int64)


def _served(heads: list[LocalHead], numbers: IntArray, table: FactTable) -> list[list[int]]:
    """The facts of every head, by number from 0."""
    import numpy as np

    from rote.solvers.local_heads import served_by

    by = served_by(heads, numbers[table.contexts])
    order = np.argsort(by, kind="stable")
    return [part.tolist() for part in np.split(order, np.searchsorted(by[order], np.arange(1, len(heads))))]


def _looking(model: Model, contexts: Any) -> npt.NDArray[np.bool_]:
    """Which heads (T, H) look at the end of the context, which is where they have something to say."""
    import numpy as np
    import torch

    module = cast("TransformerModel", model).module
    rows = torch.tensor(np.asarray(contexts))
    each = max(1, 20_000_000 // (module.arch.n_heads * module.arch.context))
    with torch.no_grad():
        parts = [(module.attention(part)[:, :, -1] > 0).numpy() for part in torch.split(rows, each)]
    return np.concatenate(parts)


construction = _Construction()
