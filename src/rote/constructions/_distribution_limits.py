"""What any model of a width can reach on a table of distributions, and certificates of such models for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rote.constructions._distribution_shapes import MOST_FEATURES
from rote.errors import ShapeError
from rote.plot.sheet import Grid, Sheet, Shown

if TYPE_CHECKING:
    from rote.data import DistributionTable

__all__ = ["Limits", "certificate_sheet", "usual_widths", "width_limits"]


def certificate_sheet(c: Mapping[str, Any], place: str) -> Sheet:
    shape = c["shape"]
    heads = f"{shape['n_heads']:,} head{'s' if shape['n_heads'] > 1 else ''} of {shape['d_head']}"
    lines = [
        f"{c['params']:,} dense parameters; T_eps = {c['t_eps']:,} at epsilon {c['epsilon']:.4g}; seed {c['seed']}"
    ]
    if c["smoothing_says"]:
        lines.append(f"{c['smoothing_says']}.")
    rows = [
        (f"this model, {name}" + ("  (stored)" if name == c["dtype"] else ""), value)
        for name, value in c["kl_by_dtype"].items()
    ]
    rows.append(("no model of this width is below", c["encoder_kl"]))
    if c["leftover"]:
        rows.append(("by interpolation, as in the proof", c["interpolation_kl"]))
        rows.append(("Theorem 1 promises", c["theorem_bound"]))
    rows += [("unigram guess", c["unigram"]), ("uniform guess", c["uniform"])]
    notes = [
        f"perplexity {c['perplexity']:.4g}, where {c['perplexity_floor']:.4g} is the table's own; gap to the width's "
        f"bound {small(c['gap'])} nats"
    ]
    if c["encoder_exact"]:
        notes.append(f"the bound is exactly 0: {c['encoder_exact']}.")
    elif c["encoder_spread"]:
        starts = len(c["encoder_starts"])
        notes.append(f"the bound is the best of {starts} starts, spread {small(c['encoder_spread'])}.")
    if c["C"] is not None and c["looseness"]:
        notes.append(f"C = {c['C']:.4g} (equation 14); the promise is {c['looseness']:.3g} times the excess it bounds.")
    return Sheet(
        place,
        f": distributions of {c['facts']:,} contexts by {c['construction']}, {heads}, d_model {shape['d_model']}, "
        f"context {shape['context']}",
        tuple(lines),
        (Grid(("divergence from the table", "nats", "bits"), tuple((name, *both(value)) for name, value in rows)),),
        tuple(notes),
    )


def both(value: float | None) -> tuple[str, str]:
    """Nats and bits, for people."""
    return ("–", "–") if value is None else (fixed(value), fixed(value / math.log(2)))


def fixed(value: float) -> str:
    return f"{value:.6f}" if value < 1e4 else f"{value:.3g}"


def small(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}" if abs(value) >= 1e-9 else "below 1e-9"


def usual_widths(table: DistributionTable) -> list[int]:
    widths = sorted({*(2**k for k in range(1, 7) if 2**k < table.vocab - 1), table.vocab - 1})
    return widths[:4] if table.n_facts * table.vocab > 2_000_000 else widths


def width_limits(table: DistributionTable, d_model: int, seed: int, starts: int | None) -> dict[str, Any]:
    """What any model of a width can reach: the encoder bound and Theorem 2. The table has full support."""
    import numpy as np

    from rote.data.kinds.distributions import in_bits
    from rote.solvers.encoder import encoder_bound
    from rote.solvers.lookup import lookup_bound

    if table.vocab * d_model > MOST_FEATURES:
        raise ShapeError(f"d_model = {d_model:,} is beyond sense; N - 1 = {table.vocab - 1:,} fits any distribution.")
    for_bound, for_frame = np.random.default_rng(seed).spawn(2)
    bound = encoder_bound(table, d_model, rng=for_bound, starts=starts)
    lookup = lookup_bound(table, d_model, rng=for_frame)
    return {
        "d_model": d_model,
        "encoder_kl": bound.kl,
        "encoder_kl_bits": in_bits(bound.kl),
        "encoder_starts": list(bound.starts),
        "encoder_spread": bound.spread,
        "encoder_exact": bound.reason or None,
        "theorem2": lookup.measured,
        "theorem2_C": lookup.measured_c,
        "theorem2_printed": lookup.printed,
        "theorem2_printed_C": lookup.printed_c,
        "welch": lookup.welch,
    }


@dataclass(frozen=True)
class Limits(Shown):
    """How close any model of a width can come to a table of distributions, and guesses for scale."""

    table: DistributionTable
    epsilon: float
    widths: tuple[Mapping[str, Any], ...]
    single: bool
    """One width was asked for."""

    def to_dict(self) -> dict[str, Any]:
        from rote.data.kinds.distributions import in_bits

        record = {
            **self.table.describe(),
            "epsilon": self.epsilon,
            "t_eps": self.table.t_eps(self.epsilon),
            "unigram_bits": in_bits(self.table.unigram_kl),
            "uniform_bits": in_bits(self.table.uniform_kl),
        }
        return {**record, **self.widths[0]} if self.single else {**record, "widths": [dict(w) for w in self.widths]}

    def sheet(self) -> Sheet:
        from rote.data.kinds.distributions import in_bits

        table, rows = self.table, []
        for item in self.widths:
            starts = f"best of {len(item['encoder_starts'])} starts, spread {small(item['encoder_spread'])}"
            how = f"exact: {item['encoder_exact']}" if item["encoder_exact"] else starts
            rows.append((f"d_model {item['d_model']}: no model is below", *both(item["encoder_kl"]), how))
            needs = "" if item["theorem2"] else ", needs 1/2"
            measured = f"C = {item['theorem2_C']:.3f}, measured on a frame{needs}"
            rows.append(("  Theorem 2: some encoder is below", *both(item["theorem2"]), measured))
            if self.single:
                printed = f"C = {item['theorem2_printed_C']:.3f}" + ("" if item["theorem2_printed"] else ", needs 1/2")
                rows.append(("  with the printed constant", *both(item["theorem2_printed"]), printed))
        rows.append(("unigram guess", *both(table.unigram_kl), "the best that ignores the context"))
        rows.append(("uniform guess", *both(table.uniform_kl), ""))
        return Sheet(
            f"{table.n_facts:,} contexts of {table.context}, vocabulary {table.vocab:,}",
            f"; entropy {table.entropy:.4f} nats ({in_bits(table.entropy):.4f} bits), perplexity "
            f"{math.exp(table.entropy):.4g}; T_eps = {table.t_eps(self.epsilon):,} at epsilon {self.epsilon:g}",
            grids=(Grid(("predictor", "nats", "bits", "how"), tuple(rows), left=("how",)),),
        )

    def __repr__(self) -> str:
        return f"Limits({self.table.name!r}: {len(self.widths)} width{'s' if len(self.widths) > 1 else ''})"
