"""About how long cells take on one core, before they are run.

Training costs a constant a step, and a time in proportion to the activations of a step; the constants were
fitted to journals. Searches for a capacity train about a dozen times. An estimate, not a promise.
"""

from __future__ import annotations

from collections.abc import Iterable

from rote.lab.studies import StudyCell
from rote.measurement import Cell
from rote.measurement.sweeps import Work
from rote.training import compiled, tabled

__all__ = ["cell_seconds", "seconds"]

_STACK = 6e-4
_STEP = 3e-4
_MINIBATCH = 5e-9
_FULL_BATCH = 2e-9
_SOAP = 1.3
_TRIES = 12
_BUILT = 1.5
_COMPILED, _BY_FACT, _BY_TOKEN, _READ, _HIDDEN = 2e-5, 6e-10, 4e-10, 5e-9, 3e-9
"""Of a step of the compiled loop: its own, by the heads of every fact and token, by the logits, by hidden units."""
_TABLED = 0.25
"""What a number of a head's output costs where it comes from tables, against one that is computed for every fact."""


def seconds(cells: Iterable[Work]) -> float:
    """Seconds on one core for all of them."""
    work = list(cells)
    stacks = {cell.group: cell for cell in work}
    return sum(cell_seconds(cell) for cell in work) + sum(_stack_seconds(cell) for cell in stacks.values())


def _stack_seconds(cell: Work) -> float:
    """What a step costs however many seeds are trained together."""
    if not isinstance(cell, Cell) or cell.by != "train":
        return 0.0
    recipe = cell.training()
    steps = recipe.n_steps(cell.n_facts or cell.most if cell.task == "recall" else 1)
    if compiled.suits(cell.spec, recipe, steps):
        return 0.0
    return _STACK * steps * (_TRIES if cell.task == "capacity" else 1)


def cell_seconds(cell: Work) -> float:
    if isinstance(cell, StudyCell):
        return cell.seconds()
    if not isinstance(cell, Cell):
        return 1.0
    if cell.by != "train":
        return _BUILT
    recipe = cell.training()
    shape = cell.spec.arch
    guess = cell.n_facts or (cell.most if cell.task == "recall" else max(1, cell.spec.params // 6))
    if recipe.batch and compiled.suits(cell.spec, recipe, recipe.n_steps(guess)):
        # The first layer has a row a token, the others a row a fact.
        rows = shape.vocab + (shape.n_layers - 1) * recipe.batch
        maps = shape.n_layers * _BY_FACT * recipe.batch + _BY_TOKEN * rows * cell.spec.width
        read = recipe.batch * (_READ * shape.vocab + _HIDDEN * shape.n_layers * shape.d_mlp)
        return recipe.n_steps(guess) * (_COMPILED + shape.n_heads * cell.spec.width * maps + read)
    facts = min(recipe.batch or guess, guess) if recipe.draws is None else (recipe.batch or guess)
    deep = 1 if shape.n_layers == 1 else shape.n_layers * shape.context
    if cell.vectors:
        own = 0 if cell.sharing == 1 else 2 * shape.context * shape.d_model
        floats: float = facts * (6 * shape.n_heads * shape.context + 4 * cell.spec.outputs + own)
    else:
        heads: float = shape.n_heads * (4 * cell.spec.width + 2 * shape.context)
        if recipe.batch is None and tabled.possible(cell.spec, facts):
            heads = shape.n_heads * _TABLED * shape.context * cell.spec.width
        floats = facts * (deep * (heads + 3 * shape.d_mlp) + 4 * shape.vocab)
    each = _STEP + floats * (_MINIBATCH if recipe.batch is not None else _FULL_BATCH)
    if recipe.optimiser == "soap":
        each = _SOAP * each + cell.spec.params * 4e-8
    return each * recipe.n_steps(guess) * (_TRIES if cell.task == "capacity" else 1)
