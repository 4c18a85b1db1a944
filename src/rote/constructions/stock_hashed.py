"""The hashed table as a stock checkpoint of Hugging Face transformers: any facts, exactly, whatever they are.

The class is ArceeForCausalLM with hidden_act "relu": a Llama whose MLP has two matrices instead of three, so that a row
of the table costs two channels' weights instead of three. See docs/stock-checkpoints.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rote.config import Architecture, Dtype, Shape
from rote.constructions._base import Job, Needs, NoPlan, Options, Plan, stored_bytes
from rote.constructions._data import check_sizes, wording
from rote.constructions._hashed import LaidOut
from rote.constructions._stock import unspoken
from rote.data import stock
from rote.data.left_out import LeftOut
from rote.errors import CapacityError, MissingExtra

if TYPE_CHECKING:
    import numpy as np

    from rote.data import FactTable
    from rote.data.demand import Demand
    from rote.data.verification import Verification
    from rote.models import Model
    from rote.plot.sheet import Sheet
    from rote.solvers.hashed.stock_layout import StockLayout

__all__ = ["StockHashed", "construction"]


@dataclass(frozen=True)
class StockHashed(Options):
    """There is nothing to be told."""


class _Construction(LaidOut["FactTable", StockHashed]):
    accepts = ("facts",)
    Options = StockHashed
    title = "Hashed table in a stock decoder, exact in usual number formats"
    arch = "llama"

    def unfit(self, table: FactTable, options: StockHashed) -> list[LeftOut]:
        flat = "heads cannot tell it from a fact of another length with another answer"
        clashes = _clashes(table, start=True) if _needs_start(table) else set()
        reasons = dict.fromkeys(clashes, flat) | unspoken(table)
        return [LeftOut(row, table.fact_text(row), table.place(row), reasons[row]) for row in sorted(reasons)]

    def plan(self, demand: Demand) -> Plan | NoPlan:
        if refusal := self.refusal(demand):
            return refusal
        plan = next(_plans(demand), None)
        return self._far(demand) if plan is None else self._as_plan(plan, demand.dtype)

    def shapes(self, table: FactTable, shape: Shape, dtype: Dtype, options: StockHashed) -> Iterator[Plan]:
        demand = table.demand(dtype, Shape())
        plans = self.different(self._as_plan(one, dtype) for one in _plans(demand))
        first = next(plans, None)
        if first is None:
            raise CapacityError(f"{self.key}: {self._far(demand).reason}.")
        yield from itertools.chain([first], plans)

    def _far(self, demand: Demand) -> NoPlan:
        from rote.solvers.hashed.rotary import FARTHEST

        if demand.context > FARTHEST:
            return NoPlan(
                self.key, f"it reads contexts of up to {FARTHEST:,} tokens, and these have {demand.context:,}"
            )
        return NoPlan(
            self.key,
            f"heads that go by rotary positions cannot tell {demand.context:,} positions apart in {demand.dtype}; take "
            "shorter contexts or a wider format",
        )

    def _as_plan(self, plan: StockLayout, dtype: Dtype) -> Plan:
        layout = plan.layout
        return Plan(
            construction=self.key,
            architecture=_architecture(plan),
            params=plan.params,
            bytes=stored_bytes(plan.params, dtype),
            facts=layout.keys,
            note=f"{layout.rows:,} rows of {layout.width * layout.blocks:,} words; "
            f"{layout.bits / plan.params:.3g} bits per dense parameter",
            dtype=dtype,
            counts="all entries of all tensors, zeros included",
            measures={"layout": plan.to_dict()},
        )

    def check(self, table: FactTable, arch: Architecture, options: StockHashed) -> None:
        check_sizes(table.noun, ("context", table.context, arch.context), ("vocab", max(2, table.vocab), arch.vocab))
        self.fitting(table, options)

    def needs(self, demand: Demand, plan: Plan) -> Needs:
        # Bits and columns of the keys, some copies of them, the tensors in float64 and as they are stored, the library;
        # what takes time is asking every fact as text.
        return Needs(400 * demand.n_facts + 24 * plan.params + 3 * 10**8, 3 + 7e-4 * demand.n_facts)

    def _of_shape(self, table: FactTable, arch: Architecture, dtype: Dtype) -> StockLayout:
        every = _plans(table.demand(dtype, Shape()))
        plan = next((one for one in every if _architecture(one) == arch), None)
        if plan is None:
            raise CapacityError(f"{self.key} finds its own shape; leave the shape open.")
        return plan

    def build(self, job: Job[FactTable, StockHashed]) -> Model:
        library = _stock_library()
        import numpy as np

        from rote.models.kinds.llama import LlamaModel
        from rote.solvers.hashed.memorise import memorise
        from rote.solvers.hashed.stock import stock_weights

        table = job.table
        plan = self._of_shape(table, job.arch, job.dtype)
        start = _needs_start(table)
        contexts, lengths, targets = _as_seen(table, plan, start)
        tokens, keys = np.unique(contexts, return_inverse=True)
        classes, labels = np.unique(targets, return_inverse=True)
        made = memorise(
            keys.reshape(contexts.shape), labels.astype(np.int64), plan.layout, job.rng, progress=job.progress
        )
        job.progress("write the tensors", 0, 0, None)
        # Codes are numbered within the plan, which knows all tokens of contexts, padding among them.
        codes = np.concatenate([tokens, np.setdiff1d(np.unique(table.contexts), tokens)])
        weights = stock_weights(plan, made.hashing, made.rows, lengths, codes, classes)
        spoken = wording(table)
        assert spoken is not None, "token facts have words"
        report = {
            "model_type": "arcee",
            "layout": plan.to_dict(),
            "rows_used": len(made.rows),
            "keys_per_word": round(table.n_facts / max(1, plan.layout.table_words), 4),
            "seeds_tried": made.seeds_tried,
            "positions": made.hashing.positions.tolist(),
        }
        module = _module(library, plan, weights, table.vocabulary.pad_id, start)
        return LlamaModel(module, job.arch, spoken, report=report)

    def remeasured(
        self,
        table: FactTable,
        model: Model,
        dtype: str,
        results: Mapping[str, Verification],
        claims: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        filled = sum(int(p.count_nonzero()) for p in model.module.parameters())
        return {"non_zero_params": filled, "bits_per_non_zero": table.bits / filled}

    def sheet(self, certificate: Mapping[str, Any], place: str) -> Sheet:
        c, layout = certificate, certificate["report"]["layout"]
        whole = super().sheet(certificate, place)
        lines = (
            f"stock {c['report']['model_type']} model of {c['shape']['n_layers']} layers, {c['params']:,} dense "
            f"parameters (every entry of every tensor), {c['bits_per_param']:.3g} bits each; {c['non_zero_params']:,} "
            f"are not zero, {c['bits_per_non_zero']:.3g} bits each; seed {c['seed']}",
            f"{layout['rows']:,} rows of {layout['words']:,} words of {layout['word_bits']} bits",
        )
        return replace(whole, lines=lines)

    def examples(self, rng: np.random.Generator) -> list[tuple[FactTable, Shape]]:
        from rote.data import random_facts

        return [(random_facts(*sizes, rng=rng), Shape()) for sizes in ((150, 3, 20), (40, 1, 60), (300, 5, 9))]

    def near_misses(self, rng: np.random.Generator) -> list[tuple[FactTable, Shape, str]]:
        import numpy as np

        from rote.data import FactTable, Vocabulary

        tabbed = FactTable(np.array([[0, 1], [1, 0]]), np.array([2, 1]), Vocabulary(["a", "b\tc", "d"]))
        return [(tabbed, Shape(), "tab")]


def _plans(demand: Demand) -> Iterator[StockLayout]:
    from rote.solvers.hashed.stock_layout import stock_layouts

    tokens, classes = demand.n_tokens or demand.vocab, demand.n_targets or demand.vocab
    telling = demand.telling or 1
    return stock_layouts(demand.n_facts, demand.context, tokens, demand.vocab, classes, demand.dtype, telling)


def _architecture(plan: StockLayout) -> Architecture:
    return Architecture(
        plan.n_heads, plan.d_model, plan.turn.d_head, plan.layout.context, plan.vocab, n_layers=plan.n_layers,
        d_mlp=plan.d_mlp,
    )  # fmt: skip


def _lengths(table: FactTable) -> Any:
    import numpy as np

    pad = table.vocabulary.pad_id
    return np.full(table.n_facts, table.context) if pad is None else (table.contexts != pad).sum(axis=1)


def _needs_start(table: FactTable) -> bool:
    """Whether prompts must begin with a start token, the padding of the table, to be told apart.

    Without one, a head that looks beyond the beginning of a prompt sees some token of it, so that repetitions of the
    first token are not counted.
    """
    return bool(_clashes(table, start=False))


def _clashes(table: FactTable, *, start: bool) -> set[int]:
    """Facts that look like earlier ones with other targets, to heads of some number format."""
    import numpy as np

    from rote.solvers.hashed.rotary import gaze
    from rote.solvers.hashed.stock import seen_contexts
    from rote.solvers.hashed.stock_layout import usable_turns

    lengths = _lengths(table)
    if (lengths == table.context).all():
        return set()
    views, clashes = set(), set()
    for dtype in construction.dtypes:
        for turn in usable_turns(table.context, dtype):
            seen = [gaze(n + start, table.context, turn, dtype).seen.tobytes() for n in np.unique(lengths).tolist()]
            if tuple(seen) in views:
                continue
            views.add(tuple(seen))
            alike = seen_contexts(
                table.contexts, lengths, turn, dtype, start=table.vocabulary.pad_id if start else None
            )
            _, first, which = np.unique(alike, axis=0, return_index=True, return_inverse=True)
            clashes |= set(np.flatnonzero(table.targets != table.targets[first][which.reshape(-1)]).tolist())
    return clashes


def _as_seen(table: FactTable, plan: StockLayout, start: bool) -> tuple[Any, list[int], Any]:
    """(contexts, lengths of prompts, targets): every context once, as the heads see it."""
    import numpy as np

    from rote.solvers.hashed.stock import seen_contexts

    lengths = _lengths(table)
    first = table.vocabulary.pad_id if start else None
    seen = seen_contexts(table.contexts, lengths, plan.turn, plan.dtype, start=first)
    contexts, rows = np.unique(seen, axis=0, return_index=True)
    return contexts, np.unique(lengths + start).tolist(), table.targets[rows]


def _stock_library() -> Any:
    transformers = stock.library("a stock checkpoint")
    if not hasattr(transformers, "ArceeForCausalLM"):
        raise MissingExtra("transformers 4.53 or newer", "hf", "a hashed table as a stock checkpoint")
    return transformers


def _module(transformers: Any, plan: StockLayout, weights: Mapping[str, Any], pad: int | None, start: bool) -> Any:
    """The stock module with these weights, in the format of the plan."""
    import torch

    config = transformers.ArceeConfig(
        vocab_size=plan.vocab,
        hidden_size=plan.d_model,
        intermediate_size=plan.d_mlp,
        num_hidden_layers=plan.n_layers,
        num_attention_heads=plan.n_heads,
        num_key_value_heads=1,
        head_dim=plan.turn.d_head,
        hidden_act="relu",
        max_position_embeddings=plan.layout.context + 1 + start,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": plan.turn.theta},
        tie_word_embeddings=True,
        bos_token_id=pad if start else None,
        eos_token_id=None,
        pad_token_id=None if start else pad,
    )
    number = getattr(torch, plan.dtype)
    # The library draws initial weights from the global generator; what is drawn here is overwritten.
    with torch.random.fork_rng(devices=[]):
        module = transformers.ArceeForCausalLM(config).eval().requires_grad_(False).to(number)
    tensors = dict(module.named_parameters())
    assert tensors.keys() == weights.keys(), "every tensor of the model has its weights"
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(torch.as_tensor(weights[name]))
            assert torch.equal(tensor.double(), torch.as_tensor(weights[name])), f"{name} is exact in {plan.dtype}"
    return module


construction = _Construction()
