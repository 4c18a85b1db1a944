"""The verbs for the task "distribution": reading tables, and what people see of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rote.cli._output import console, emit_json, number
from rote.cli._progress import display

if TYPE_CHECKING:
    from rote.data import DistributionTable, Tokens
    from rote.memory import Memory

__all__ = [
    "EpsilonOption",
    "SmoothingOption",
    "StartsOption",
    "TaskOption",
    "WeightOption",
    "answer_distribution",
    "both",
    "build_distribution",
    "fixed",
    "is_distribution",
    "prepared",
    "read_table",
    "refuse_options",
    "small",
    "verify_distribution",
]

TASKS = ("facts", "distribution")

TaskOption = Annotated[
    str, typer.Option(help="facts (one right answer a context), or distribution (contexts may repeat).")
]
WeightOption = Annotated[
    str | None, typer.Option(metavar="COL", help="Distribution: column with the counts; count or weight if there.")
]
SmoothingOption = Annotated[
    float | None,
    typer.Option(help="Distribution: share of uniform mixed in; 0.01 if not given and something has probability 0."),
]
StartsOption = Annotated[int | None, typer.Option(help="Distribution: starts of the search for the best encoder.")]
EpsilonOption = Annotated[
    float | None, typer.Option(help="Distribution: prior of the contexts that may be left out; 0 if not given.")
]


def is_distribution(task: str) -> bool:
    """Which task; an unknown one is refused with the nearest name."""
    from rote.errors import UnknownName

    if task not in TASKS:
        raise UnknownName("task", task, TASKS)
    return task == "distribution"


def refuse_options(task: str, **given: object) -> None:
    """Options of the other task, by name."""
    from rote.errors import UsageError

    wrong = [name.replace("_", "-") for name, value in given.items() if value not in (None, False)]
    if wrong:
        here = "distribution" if task == "facts" else "facts"
        raise UsageError(
            f"--{', --'.join(wrong)} belong{'' if len(wrong) > 1 else 's'} to --task {here}; leave it out."
        )


def read_table(
    source: str, *, target: str | None, context: str | None, tokens: str | None, weight: str | None
) -> tuple[DistributionTable, Tokens]:
    """A distribution table from a file or shipped facts; which column counts is said on stderr."""
    from rote.data import check_tokens, load_distributions
    from rote.errors import UsageError

    if source.endswith(".safetensors"):
        raise UsageError("vectors have no next tokens; give a facts file for --task distribution.")
    table, report = load_distributions(
        source,
        target=target,
        context=None if context is None else [name.strip() for name in context.split(",")],
        tokens=None if tokens is None else check_tokens(tokens),
        weight=weight,
    )
    if weight is None and report.weight_column is not None:
        console(stderr=True).print(f"column {report.weight_column!r} is taken for counts.", markup=False)
    return table, report.tokens


def prepared(table: DistributionTable, smoothing: float | None) -> DistributionTable:
    """The table with full support; smoothing that nobody asked for is said on stderr."""
    from rote.distribution_building import prepare

    made = prepare(table, smoothing)
    if smoothing is None and made.smoothing:
        console(stderr=True).print(
            f"{table.n_zeros:,} of {table.probabilities.size:,} probabilities are 0; mixed with "
            f"{100 * made.smoothing:g} % of the uniform distribution (--smoothing).",
            markup=False,
        )
    return made


def build_distribution(
    source: str,
    output: Path,
    *,
    with_: str,
    heads: int | None,
    d_model: int | None,
    d_head: int | None,
    epsilon: float | None,
    smoothing: float | None,
    dtype: str,
    seed: int,
    starts: int | None,
    rank1_qk: bool,
    force: bool,
    tokens: str | None,
    target: str | None,
    context: str | None,
    weight: str | None,
    as_json: bool,
) -> None:
    """`rote build --task distribution`."""
    from rote.distribution_building import build_distribution as build
    from rote.errors import UsageError

    if d_model is None:
        raise UsageError(
            "how good a model of distributions can be depends on its width: give --d-model, or let "
            "`rote plan --task distribution FACTS --kl 0.1` find it."
        )
    table, cut = read_table(source, target=target, context=context, tokens=tokens, weight=weight)
    prepared(table, smoothing)
    with display(table.n_contexts, enabled=not as_json) as progress:
        memory = build(
            table,
            d_model=d_model,
            with_=with_,
            n_heads=heads,
            d_head=d_head,
            epsilon=epsilon,
            smoothing=smoothing,
            dtype=dtype,
            rank1_qk=rank1_qk,
            starts=starts,
            tokens=cut,
            rng=seed,
            progress=progress,
        )
    memory.certificate["read"] = {
        "source": Path(source).name,
        "target": target,
        "context": context,
        "tokens": cut,
        "weight": weight,
    }
    memory.save(output, force=force)
    if as_json:
        emit_json(memory.certificate)
    else:
        _show_certificate(memory, output)


def _show_certificate(memory: Memory, directory: Path) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    out, c = console(), memory.certificate
    shape = c["shape"]
    heads = f"{shape['n_heads']:,} head{'s' if shape['n_heads'] > 1 else ''} of {shape['d_head']}"
    out.print(
        f"[bold]{escape(str(directory))}[/bold]: distributions of {c['facts']:,} contexts by "
        f"{escape(c['construction'])}, {heads}, d_model {shape['d_model']}, context {shape['context']}"
    )
    out.print(f"{c['params']:,} parameters; T_eps = {c['t_eps']:,} at epsilon {c['epsilon']:.4g}; seed {c['seed']}")
    if c["smoothing_says"]:
        out.print(f"{c['smoothing_says']}.", markup=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("divergence from the table", "nats", "bits"):
        table.add_column(column, justify="left" if column.startswith("div") else "right")
    rows = [
        (f"this model, {name}" + ("  (stored)" if name == c["dtype"] else ""), v)
        for name, v in c["kl_by_dtype"].items()
    ]
    rows.append(("no model of this width is below", c["encoder_kl"]))
    if c["leftover"]:
        rows += [
            ("by interpolation, as in the proof", c["interpolation_kl"]),
            ("Theorem 1 promises", c["theorem_bound"]),
        ]
    rows += [("unigram guess", c["unigram"]), ("uniform guess", c["uniform"])]
    for name, value in rows:
        table.add_row(name, *both(value))
    out.print(table)
    out.print(
        f"perplexity {number(c['perplexity'], 4)}, where {number(c['perplexity_floor'], 4)} is the table's own; "
        f"gap to the width's bound {small(c['gap'])} nats",
        markup=False,
    )
    if c["encoder_exact"]:
        out.print(f"the bound is exactly 0: {c['encoder_exact']}.", markup=False)
    elif c["encoder_spread"]:
        out.print(f"the bound is the best of {len(c['encoder_starts'])} starts, spread {small(c['encoder_spread'])}.")
    if c["C"] is not None and c["looseness"]:
        out.print(f"C = {c['C']:.4g} (equation 14); the promise is {c['looseness']:.3g} times the excess it bounds.")


def both(value: float | None) -> tuple[str, str]:
    if value is None:
        return "–", "–"
    return fixed(value), fixed(value / 0.6931471805599453)


def fixed(value: float) -> str:
    return f"{value:.6f}" if value < 1e4 else f"{value:.3g}"


def small(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}" if abs(value) >= 1e-9 else "below 1e-9"


def verify_distribution(
    stored: Memory,
    directory: Path,
    source: str,
    *,
    dtype: str | None,
    other_facts: bool,
    tokens: str | None,
    target: str | None,
    context: str | None,
    as_json: bool,
) -> None:
    """`rote verify` for a model of distributions: exit code 1 where it is farther off than its certificate says."""
    from rote.distribution_building import prepare
    from rote.distribution_building import verify_distribution as verify
    from rote.errors import CheckpointError

    c = stored.certificate
    read = c.get("read") or {}
    table, _ = read_table(
        source,
        target=target or read.get("target"),
        context=context or read.get("context"),
        tokens=tokens or c.get("tokens"),
        weight=read.get("weight"),
    )
    table = prepare(table, float(c.get("smoothing") or 0.0))
    same = table.sha256 == c.get("facts_sha256")
    if not same and not other_facts:
        raise CheckpointError(
            f"{source} is not what {directory} was built from (its certificate names {c.get('facts_name')!r}, "
            f"{c.get('facts')} contexts, with another hash); give the original, or pass --other-facts to measure this "
            "one all the same."
        )
    result = verify(stored, table, dtype=dtype or str(c["dtype"]))
    claimed = (c.get("kl_by_dtype") or {}).get(result.dtype)
    kept = not same or claimed is None or result.kl <= claimed + 1e-6 + 1e-6 * abs(claimed)
    bound = c.get("encoder_kl") if same else None
    record = result.to_dict() | {
        "encoder_kl": bound,
        "gap": None if bound is None else record_gap(result.kl, bound),
        "epsilon": c.get("epsilon"),
        "t_eps": c.get("t_eps"),
        "claimed_kl": claimed if same else None,
        "confirmed": kept,
        "unigram": table.unigram_kl,
        "uniform": table.uniform_kl,
    }
    if as_json:
        emit_json(record)
    else:
        out = console()
        checked = "hashes of files and table checked" if same else "hashes of files checked, this is another table"
        out.print(
            f"divergence {fixed(result.kl)} nats ({fixed(result.kl_bits)} bits) from {result.n_contexts:,} contexts "
            f"at {result.dtype}; perplexity {number(result.perplexity, 4)}, the table's own is "
            f"{number(record['perplexity_floor'], 4)}; {checked}.",
            markup=False,
        )
        if bound is not None:
            out.print(f"No model of this width is below {fixed(bound)} nats; gap {small(result.kl - bound)}.")
        for words, kl, prior in result.worst if result.kl > 1e-6 else ():
            out.print(f"  {words}: {kl:.4g} nats, prior {prior:.3g}", markup=False)
        if not kept:
            out.print(f"The certificate says {fixed(claimed or 0.0)} nats: this is worse.")
    if not kept:
        raise typer.Exit(1)


def record_gap(kl: float, bound: float) -> float | None:
    import math

    return kl - bound if math.isfinite(kl) else None


def answer_distribution(
    memory: Memory, directory: Path, words: list[str], top: int, as_json: bool, lines: bool
) -> None:
    """`rote ask` for a model of distributions: what it says beside what is true."""
    from rote.data.distribution_store import FILE, unpack
    from rote.data.ngrams import SPACE

    length = int(memory.certificate["shape"]["context"])
    letters = all(len(token) == 1 for token in memory.vocabulary)
    if letters and len(words) == 1 and len(words[0]) == length:
        # Characters need no spaces between them, and a space is typed as one.
        words = [SPACE if c == " " and SPACE in memory.vocabulary else c for c in words[0]]
    c = memory.certificate
    table = unpack(
        directory / FILE,
        memory.vocabulary,
        float(c.get("smoothing") or 0.0) - float(c.get("stored_smoothing") or 0.0),
        str(c.get("facts_name")),
    )
    answers = memory.ask(*words, top=len(memory.vocabulary))
    at = table.find(memory.encode(words))
    true = (
        None if at is None else {t: float(p) for t, p in zip(memory.vocabulary, table.probabilities[at], strict=True)}
    )
    shown = answers[:top]
    if as_json:
        record: list[dict[str, Any]] = [
            {
                "token": a.token,
                "probability": a.probability,
                "logit": a.logit,
                "true": None if true is None else true[a.token],
            }
            for a in shown
        ]
        typer.echo(json.dumps(record, ensure_ascii=False)) if lines else emit_json(record)
        return
    out = console()
    if true is None:
        out.print("the table does not have this context; what the model says is a guess", style="dim")
    else:
        off = sum(p * _log_ratio(p, a.probability) for a in answers for p in (true[a.token],) if p > 0)
        out.print(f"  model     true    divergence {max(0.0, off):.4f} nats", style="dim", markup=False)
    for place, a in enumerate(shown):
        beside = "" if true is None else f"{100 * true[a.token]:6.2f} % "
        out.print(
            f"{100 * a.probability:6.2f} % {beside} {a.token}", style="bold" if place == 0 else "dim", markup=False
        )


def _log_ratio(p: float, q: float) -> float:
    import math

    return math.log(p / max(q, 1e-300))
