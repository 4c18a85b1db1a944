"""What hashed tables share, of facts, of sequences and in stock decoders: plans, counts, and lines of certificates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rote.config import Architecture, Dtype
from rote.constructions._base import Construction, NoPlan, O, Plan, T, stored_bytes
from rote.errors import CapacityError
from rote.plot.sheet import Sheet

if TYPE_CHECKING:
    from rote.data._arrays import IntArray
    from rote.data.demand import Demand
    from rote.models import Model
    from rote.solvers.hashed.layout import Layout

__all__ = ["HashedConstruction", "LaidOut", "renumbered", "used_ids"]


class LaidOut(Construction[T, O]):
    """A network of any class whose shape is that of a layout."""

    shaped_by = ()

    def formats(self, dtype: Dtype) -> tuple[Dtype, ...]:
        """Wider formats than its own hold the same numbers; these are the ones that people run."""
        return tuple(dict.fromkeys((dtype, "float32", "bfloat16")))

    def refusal(self, demand: Demand) -> NoPlan | None:
        """Why there is no plan, whatever the size."""
        if demand.vectors:
            return NoPlan(self.key, "it looks up tokens, and these examples are vectors")
        if demand.dtype not in self.dtypes:
            return NoPlan(self.key, f"it is made for {', '.join(self.dtypes)}, not for {demand.dtype}")
        if (demand.d_model, demand.n_heads, demand.d_head) != (None, None, None):
            return NoPlan(self.key, "it finds its own widths and heads; leave them open")
        return None

    def different(self, plans: Iterable[Plan]) -> Iterator[Plan]:
        """The first plan of every shape."""
        seen = set()
        for plan in plans:
            if plan.architecture not in seen:
                seen.add(plan.architecture)
                yield plan


class HashedConstruction(LaidOut[T, O]):
    """A network of rote's own kind: heads and plain layers."""

    noun = "facts"

    def planned(self, layout: Layout, vocab: int, dtype: Dtype, facts: int, bits: float) -> Plan:
        """The plan of a layout for so many facts that weigh so many bits."""
        from rote.models.kinds.hashed_transformer import shape_of

        rule = f"; a rule makes {layout.keys:,} keys of all facts" if layout.openers else ""
        return Plan(
            construction=self.key,
            architecture=shape_of(layout, vocab),
            params=layout.params,
            bytes=stored_bytes(layout.params, dtype),
            facts=facts,
            note=f"{layout.rows:,} rows of {layout.width * layout.blocks:,} words; {bits / layout.params:.3g} "
            f"bits per dense parameter{rule}",
            dtype=dtype,
            counts="all entries of all matrices, zeros included",
            measures={"layout": layout.to_dict()},
        )

    def of_shape(self, every: Iterable[tuple[Layout, Any]], arch: Architecture) -> tuple[Layout, Any]:
        """The first reading of a table whose layout has this shape."""
        from rote.models.kinds.hashed_transformer import shape_of

        reading = next((one for one in every if shape_of(one[0], arch.vocab) == arch), None)
        if reading is None:
            raise CapacityError(f"{self.key} finds its own shape; leave the shape open.")
        return reading

    def counted(self, model: Model, bits: float) -> dict[str, Any]:
        """Sizes by both counts, for the certificate."""
        filled = model.counts["non_zero"]
        size = sum(p.numel() * p.element_size() for p in model.module.parameters())
        return {"non_zero_params": filled, "bits_per_non_zero": bits / filled, "weight_bytes": size}

    def sheet(self, certificate: Mapping[str, Any], place: str) -> Sheet:
        c, layout = certificate, certificate["report"]["layout"]
        whole = super().sheet(certificate, place)
        blocks = f", {layout['blocks']} blocks" if layout["blocks"] > 1 else ""
        lines = (
            f"{c['params']:,} dense parameters (every entry of every matrix), {c['bits_per_param']:.3g} bits each; "
            f"{c['non_zero_params']:,} are not zero, {c['bits_per_non_zero']:.3g} bits each; "
            f"{c['weight_bytes']:,} bytes; seed {c['seed']}",
            f"{layout['rows']:,} rows of {layout['words']:,} words of {layout['word_bits']} bits{blocks}, "
            f"{layout['depth']} layers",
        )
        lead = f": {c['facts']:,} {self.noun} by {c['construction']}, context {c['shape']['context']}"
        return replace(whole, lead=lead, lines=(*lines, *self.remarks(certificate), *whole.lines[1:]))

    def remarks(self, certificate: Mapping[str, Any]) -> list[str]:
        """What else is worth a line."""
        return []


def used_ids(ids: IntArray) -> IntArray:
    """The token ids that occur, in order."""
    import numpy as np

    return np.flatnonzero(np.bincount(ids.ravel()))


def renumbered(ids: IntArray, used: IntArray) -> IntArray:
    """Every id as its place among those that are used."""
    import numpy as np

    places = np.zeros(int(used[-1]) + 1, dtype=np.int64)
    places[used] = np.arange(len(used))
    return places[ids]
