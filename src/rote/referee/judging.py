"""The two ways to judge: what is on disk, and a module that somebody hands over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rote.config import DTYPES, check_dtype
from rote.errors import UnknownName, UsageError
from rote.referee._base import Judge, Stored
from rote.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import nn

    from rote.data.outputs import Advance, Outputs
    from rote.data.table import Table
    from rote.data.verification import Verification

__all__ = ["OWN", "judge", "judge_module", "judge_text", "noticing", "register", "registry", "said_alike"]

OWN = "the model's own forward pass"

_FACTS_AT_ONCE = 8192

_package = __name__.rpartition(".")[0]
_folder = __file__.rpartition("judging")[0]
_judges: Registry[Judge] = Registry("judge", f"{_package}.judges", [f"{_folder}judges"], Judge, slot="kind")
registry, register = _judges.all, _judges.register


def judge(
    stored: Stored,
    table: Table,
    dtype: str,
    *,
    tolerance: float = 1e-3,
    shortcut: Callable[..., Any] | None = None,
    own: Callable[[str], Outputs] | None = None,
    advance: Advance | None = None,
    hear: Callable[[Outputs], None] | None = None,
) -> Verification:
    """Run every fact of a table through a stored model, in a number format.

    A kind of model that the referee has no judge for is run by `own`, its own forward pass, and the verification says
    so. `advance` is called with the number of facts done, and `hear` with what was read, to go on with.
    """
    from rote.referee.outputs import Worse

    entry = _judges.find(stored.kind)
    if entry is None:
        if own is None:
            raise UnknownName("judge for models of the kind", stored.kind, registry())
        outputs = own(check_dtype(dtype))
        outputs.judged_by = OWN
    else:
        if dtype not in entry.dtypes:
            if dtype in DTYPES:
                raise UsageError(entry.no_use_for(dtype))
            raise UnknownName("number format", dtype, entry.dtypes)
        words = None if table.words is None else table.words.tokens
        outputs = entry.outputs(replace(stored, words=words), dtype, shortcut)
        if own is not None and entry.doubts(stored, dtype):
            outputs = Worse(outputs, own(dtype))
    outputs.advance = advance
    if hear is not None:
        hear(outputs)
    return table.score(outputs, dtype, tolerance=tolerance)


def noticing(one: Stored, other: Stored, table: Table, dtype: str) -> npt.NDArray[np.bool_] | None:
    """Which facts can notice what two stored models of one kind differ in; None where that cannot be told."""
    import numpy as np

    noticed = _judges.get(one.kind).notices(one, other, dtype)
    if noticed is None:
        return None
    starts = range(0, table.n_facts, _FACTS_AT_ONCE)
    parts = [noticed(table.inputs(slice(i, min(i + _FACTS_AT_ONCE, table.n_facts)))) for i in starts]
    return np.concatenate(parts)


def said_alike(one: Stored, other: Stored, table: Table, dtype: str) -> tuple[int, float]:
    """For how many facts two stored models of one kind say the same in every output, bit by bit, and how far apart
    their outputs are at most."""
    entry = _judges.get(one.kind)
    words = None if table.words is None else table.words.tokens
    first, second = (entry.outputs(replace(stored, words=words), dtype, None) for stored in (one, other))
    equal, apart = 0, 0.0
    for part in first.parts(table.n_facts):
        said, again = (outputs.said(table.inputs(part)) for outputs in (first, second))
        same = (said == again).all(dim=1)
        equal += int(same.sum())
        if not bool(same.all()):
            apart = max(apart, float((said.double() - again.double()).abs().max()))
    return equal, apart


def judge_text(model: Any, tokenizer: Any, table: Table, advance: Advance | None = None) -> Verification:
    """Ask any causal language model of transformers in text, as it is, and let it go on by itself."""
    from rote.referee.text import TextOutputs

    words = () if table.words is None else table.words.tokens
    pad = None if table.words is None else table.words.pad_id
    mark = "" if table.tokens == "chars" else _mark(tokenizer, words)

    def spelled(ids: Sequence[int]) -> str:
        return mark.join(words[i] for i in ids if i != pad)

    outputs = TextOutputs(model, tokenizer, words, spelled, mark)
    outputs.advance = advance
    return table.score(outputs, str(getattr(model, "dtype", "torch.float32"))[6:])


def _mark(tokenizer: Any, words: Sequence[str]) -> str:
    """What stands between tokens: a blank, or a tab for tokenizers of tables that know nothing else."""
    for mark in (" ", "\t"):
        try:
            tokenizer(mark.join(words[-2:]))
        except Exception:  # what tokenizers raise has no narrower type
            continue
        return mark
    raise UsageError(
        f"the tokenizer cannot read words of these facts, such as {' '.join(words[-2:])!r}; give the model's own "
        "tokenizer, or other facts."
    )


def judge_module(module: nn.Module, table: Table, dtype: str, *, tolerance: float = 1e-3) -> Verification:
    """Run every fact through a module that maps contexts (B, S) to logits (B, N), or (contexts, queries) to outputs.

    It is a copy that is moved to the number format and run; the caller's module stays as it is. A module with a method
    `stored`, such as rote's own, is judged as if it had been read from disk: by the referee's own forward pass.
    """
    describe = getattr(module, "stored", None)
    if callable(describe):
        stored = Stored(*describe())
        known = _judges.get(stored.kind)
        own = partial(known.module_outputs, stored, module)
        return judge(stored, table, dtype, tolerance=tolerance, own=own)
    from rote.referee.outputs import ModuleOutputs

    return table.score(ModuleOutputs(module, dtype), dtype, tolerance=tolerance)
