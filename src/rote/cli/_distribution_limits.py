"""`rote bound` and `rote plan` for the task "distribution": how close a width can come, and which width will do."""

from __future__ import annotations

from typing import Any

import typer

from rote.cli._distribution import both, fixed, prepared, read_table, small
from rote.cli._output import console, emit_json, megabytes, number
from rote.cli._progress import display

__all__ = ["bound_distribution", "plan_distribution"]


def bound_distribution(
    source: str,
    *,
    d_model: int | None,
    epsilon: float | None,
    smoothing: float | None,
    starts: int | None,
    seed: int,
    tokens: str | None,
    target: str | None,
    context: str | None,
    weight: str | None,
    as_json: bool,
) -> None:
    """`rote bound --task distribution`: how close any model of a width can come."""
    from rote.data.distribution import check_share, in_bits
    from rote.distribution_building import distribution_limits

    table, _ = read_table(source, target=target, context=context, tokens=tokens, weight=weight)
    if epsilon is not None:
        check_share(epsilon, "epsilon")
    table = prepared(table, smoothing)
    if d_model is not None:
        widths = [d_model]
    else:
        widths = sorted({*(2**k for k in range(1, 7) if 2**k < table.vocab - 1), table.vocab - 1})
        if table.n_contexts * table.vocab > 2_000_000:
            widths = widths[:4]
    with display(table.n_contexts, enabled=not as_json) as progress:
        found = []
        for i, width in enumerate(widths):
            progress("best encoders", i, len(widths), None)
            found.append(distribution_limits(table, width, rng=seed, starts=starts or (3 if d_model is None else None)))
    eps = epsilon or 0.0
    record: dict[str, Any] = {
        **table.describe(),
        "epsilon": eps,
        "t_eps": table.t_eps(eps),
        "unigram_bits": in_bits(table.unigram_kl),
        "uniform_bits": in_bits(table.uniform_kl),
    }
    if as_json:
        emit_json({**record, **found[0]} if d_model is not None else {**record, "widths": found})
        return
    from rich import box
    from rich.table import Table

    out = console()
    out.print(
        f"[bold]{table.n_contexts:,} contexts of {table.context}, vocabulary {table.vocab:,}[/bold]; entropy "
        f"{table.entropy:.4f} nats ({in_bits(table.entropy):.4f} bits), perplexity {record['perplexity']:.4g}; "
        f"T_eps = {record['t_eps']:,} at epsilon {eps:g}"
    )
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("predictor", "nats", "bits", "how"):
        shown.add_column(column, justify="right" if column in ("nats", "bits") else "left")
    for item in found:
        starts_said = (
            f"exact: {item['encoder_exact']}"
            if item["encoder_exact"]
            else f"best of {len(item['encoder_starts'])} starts, spread {small(item['encoder_spread'])}"
        )
        d = item["d_model"]
        shown.add_row(f"d_model {d}: no model is below", *both(item["encoder_kl"]), starts_said)
        measured = f"C = {item['theorem2_C']:.3f}, measured on a frame" + ("" if item["theorem2"] else ", needs 1/2")
        shown.add_row("  Theorem 2: some encoder is below", *both(item["theorem2"]), measured)
        if d_model is not None:
            printed = f"C = {item['theorem2_printed_C']:.3f}" + ("" if item["theorem2_printed"] else ", needs 1/2")
            shown.add_row("  with the printed constant", *both(item["theorem2_printed"]), printed)
    shown.add_row("unigram guess", *both(table.unigram_kl), "the best that ignores the context")
    shown.add_row("uniform guess", *both(table.uniform_kl), "")
    out.print(shown)


def plan_distribution(
    source: str,
    *,
    kl: float | None,
    d_model: int | None,
    heads: int | None,
    max_params: int | None,
    dtype: str,
    smoothing: float | None,
    seed: int,
    tokens: str | None,
    target: str | None,
    context: str | None,
    weight: str | None,
    as_json: bool,
) -> None:
    """`rote plan --task distribution`: the smallest d_model and heads that reach a divergence."""
    from rote.config import check_dtype
    from rote.distribution_planning import plan_distribution as plan
    from rote.errors import UsageError

    if kl is None:
        raise UsageError("say how close the model must come, in nats: --kl 0.1.")
    number_format = check_dtype(dtype)
    if number_format == "exact":
        raise UsageError("these constructions live in floating point; choose float64, float32, bfloat16 or float16.")
    table, _ = read_table(source, target=target, context=context, tokens=tokens, weight=weight)
    table = prepared(table, smoothing)
    with display(table.n_contexts, enabled=not as_json) as progress:
        found = plan(table, kl, d_model=d_model, n_heads=heads, dtype=number_format, seed=seed, progress=progress)
    plans = [item for item in found if max_params is None or item.architecture.params() <= max_params]
    if as_json:
        emit_json([item.to_dict() for item in plans])
    elif not plans:
        console().print(f"No shape reaches {kl:g} nats under these conditions; allow more heads, width or parameters.")
    else:
        from rich import box
        from rich.table import Table

        shown = Table(
            title=f"Shapes that reach {kl:g} nats, {table.n_contexts:,} contexts, vocabulary {table.vocab:,}",
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        for column in ("d_model", "heads", "d_head", "params", "size", "epsilon", "T_eps", "width's bound", "reached"):
            shown.add_column(column, justify="right", no_wrap=True)
        for item in plans:
            r = item.to_dict()
            shown.add_row(
                *(number(r[k]) for k in ("d_model", "n_heads", "d_head", "params")),
                megabytes(r["bytes"]),
                f"{r['epsilon']:.3g}",
                number(r["t_eps"]),
                fixed(r["encoder_kl"]),
                fixed(r["kl"]),
            )
        console().print(shown)
    if not plans:
        raise typer.Exit(1)
