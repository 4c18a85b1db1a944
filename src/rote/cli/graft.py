"""`rote graft` and `rote ungraft`: facts into a pretrained model, and out of it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rote.cli._output import JsonOption, console, emit_json
from rote.cli._progress import display

__all__ = ["graft", "ungraft"]


def graft(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Local directory of a Llama, Mistral or Qwen model, or a GGUF file.")
    ],
    source: Annotated[str, typer.Argument(metavar="FACTS", help="Facts file, or shipped facts by name.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Directory to write.")],
    template: Annotated[
        list[str], typer.Option(help="Prompt with columns in braces: 'The capital of {country} is'. May be repeated.")
    ],
    answer: Annotated[
        list[str], typer.Option(help="What follows it: ' {capital}'. One for all templates, or one each.")
    ],
    keep: Annotated[
        Path | None, typer.Option(metavar="TEXT", help="Text to stay unchanged; Python's manual if not given.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="Format to run in: float32, bfloat16 or float16.")] = "float32",
    sample: Annotated[int | None, typer.Option(metavar="N", help="Graft only N rows, chosen at random.")] = None,
    paraphrase: Annotated[
        list[str] | None, typer.Option(help="Prompt that is not grafted, to ask afterwards. May be repeated.")
    ] = None,
    max_layers: Annotated[int, typer.Option(min=1, help="Add at most so many layers.")] = 3,
    keep_tokens: Annotated[
        int | None,
        typer.Option(
            min=256,
            help="Tokens of TEXT for the fit; three quarters as many others are the test. If not given, two a fact or "
            "twenty a distinct answer, 14,000 at least and 60,000 at most.",
        ),
    ] = None,
    decoys: Annotated[
        int, typer.Option(min=0, help="Also fit N prompts with unknown keys, to be answered as before.")
    ] = 0,
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the model's states here, for later grafts.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same weights.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace DIR if it is a model directory.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write facts into a pretrained language model: one more layer, and nothing else is touched.

    DIR is a checkpoint of the same architecture that stock transformers load. Every fact is then asked of it, in free
    generation, and the certificate says what was recalled and what changed on text that the fit has not seen. An
    interrupted graft goes on where it stopped. Exit code 1: some fact was lost; certificate.json lists the first ones.

    Example:

        $ rote graft SmolLM2 airports -o DIR --template "The airport with ICAO code {icao} is in" --answer " {country}"
    """
    from rote.data.shipped import load_rows
    from rote.graft import GraftRequest
    from rote.graft import graft as make

    request = GraftRequest(
        templates=template,
        answers=answer,
        keep=keep,
        dtype=dtype,
        sample=sample,
        seed=seed,
        max_layers=max_layers,
        fit_tokens=keep_tokens,
        decoys=decoys,
        paraphrases=paraphrase or (),
        cache=cache,
    )
    rows = load_rows(source)
    with display(len(rows.frame), enabled=not as_json) as progress:
        certificate = make(model, rows, request, output, force=force, progress=progress)
    if as_json:
        emit_json(certificate)
    else:
        _show(certificate, output)
    if certificate["recall"] < 1.0:
        raise typer.Exit(1)


def ungraft(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory that `rote graft` wrote.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR2", help="Directory to write; DIR itself is restored if not given."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace DIR2 if it is a model directory.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Take the added layers off again: the original's files, bit for bit, their hashes checked.

    Example:

        $ rote ungraft airports-smollm2 -o smollm2
    """
    from rote.graft import ungraft as undo

    target = directory if output is None else output
    files = undo(directory, target, force=force or output is None)
    if as_json:
        emit_json({"directory": str(target), "files": list(files)})
    else:
        console().print(
            f"{target}: {len(files)} files restored; weights and configuration have the hashes of the original.",
            markup=False,
        )


def _show(c: dict[str, Any], directory: Path) -> None:
    """What was grafted and what changed, for people."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    out = console()
    layers = c["graft"]["layers"]
    added = f"{layers['added']} layer{'s' if layers['added'] > 1 else ''}"
    out.print(
        f"[bold]{escape(str(directory))}[/bold]: {c['facts']:,} facts ({c['distinct_answers']:,} answers, "
        f"{c['answer_tokens']:,} tokens with ends) in {added} added to the {layers['original']} of a {c['arch']} "
        f"model, "
        f"{c['params']['added']:,} parameters to {c['params']['original']:,}; {c['dtype']}, seed {c['seed']}"
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("", "before", "after"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("whole answers in free generation", _share(c["recall_before"]), _share(c["recall"]))
    for name, what in (("locality", "unseen tokens of text"), ("locality_own_prose", "unseen tokens of own prose")):
        local = c[name]
        table.add_row(
            f"perplexity on {local['tokens']:,} {what}",
            f"{local['perplexity_before']:.4f}",
            f"{local['perplexity_after']:.4f} ({100 * local['perplexity_change']:+.4f} %)",
        )
        table.add_row("  likeliest token unchanged", "", _share(local["top1_unchanged"]))
        table.add_row("  mean KL divergence, nats", "", f"{local['mean_kl']:.2g}")
    out.print(table)
    spoken = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("prompt", "before", "after"):
        spoken.add_column(column, overflow="fold")
    for item in c["prompts"]:
        after = "the same" if item["same"] else repr(item["after"])
        spoken.add_row(escape(item["prompt"]), escape(repr(item["before"])), escape(after))
    out.print(spoken)
    for item in c["paraphrases"]:
        out.print(
            f"{item['recalled']:,} of {item['asked']:,} recalled by a prompt that was not grafted: "
            f"{item['template']!r}",
            markup=False,
        )
    near = c["near_misses"]
    out.print(
        f"{near['stored_answer']:,} of {near['asked']:,} keys that no row has got a stored answer, "
        f"{near['confident']:,} of them with a probability above one half",
        markup=False,
    )
    for item in c["failed"][:5]:
        out.print(f"lost: {item['prompt']!r} said {item['said']!r}, not {item['answer']!r}", markup=False)
    seconds, cpu = c["seconds"], c["cpu_seconds"]
    out.print(f"{sum(seconds.values()):,.0f} s: " + ", ".join(f"{k} {v:.0f}" for k, v in seconds.items()))
    out.print(f"processor time: {cpu['build']:,.0f} s to build, {cpu['examine']:,.0f} s to examine")


def _share(value: float) -> str:
    return "100 %" if value == 1.0 else f"{100 * value:.3f} %"
