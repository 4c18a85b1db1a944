"""About how long cells take on one core, before they are run.

Training costs a constant a step, and a time in proportion to the activations of a step; the constants were
fitted to journals. Searches for a capacity train about a dozen times. An estimate, not a promise.
"""

from __future__ import annotations

from collections.abc import Iterable

from rote.lab.studies import StudyCell
from rote.measurement import Cell
from rote.measurement.sweeps import Work
from rote.training import compiled

__all__ = ["cell_seconds", "seconds"]

_STACK = 6e-4
_STEP = 3e-4
_MINIBATCH = 5e-9
_FULL_BATCH = 2e-9
_SOAP = 1.3
_TRIES = 12
_BUILT = 1.5
_COMPILED, _BY_FACT, _BY_TOKEN, _READ = 2e-5, 6e-10, 4e-10, 5e-9
"""Of a step of the compiled loop: its own, by the heads of every fact and of every token, by the logits."""


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
        maps = shape.n_heads * cell.spec.width * (_BY_FACT * recipe.batch + _BY_TOKEN * shape.vocab * cell.spec.width)
        return recipe.n_steps(guess) * (_COMPILED + maps + _READ * recipe.batch * shape.vocab)
    facts = min(recipe.batch or guess, guess) if recipe.draws is None else (recipe.batch or guess)
    deep = 1 if shape.n_layers == 1 else shape.n_layers * shape.context
    if cell.vectors:
        own = 0 if cell.sharing == 1 else 2 * shape.context * shape.d_model
        floats = facts * (6 * shape.n_heads * shape.context + 4 * cell.spec.outputs + own)
    else:
        heads = shape.n_heads * (4 * cell.spec.width + 2 * shape.context)
        floats = facts * (deep * (heads + 3 * shape.d_mlp) + 4 * shape.vocab)
    each = _STEP + floats * (_MINIBATCH if recipe.batch is not None else _FULL_BATCH)
    if recipe.optimiser == "soap":
        each = _SOAP * each + cell.spec.params * 4e-8
    return each * recipe.n_steps(guess) * (_TRIES if cell.task == "capacity" else 1)
