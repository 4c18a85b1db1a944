"""`rote audit`: do the hidden states of a model meet the theorems' assumptions?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli._output import JsonOption, console, emit_json, number

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rote.analyse.audit import Audit, LayerReport

__all__ = ["audit"]


def audit(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Hugging Face directory, .gguf file, or rote model.")],
    texts: Annotated[Path, typer.Option("--texts", metavar="FILE", help="UTF-8 text to run through it.")],
    layers: Annotated[str, typer.Option(help="all, or numbers and ranges as in 0,3,5-8; 0 is what enters.")] = "all",
    tokens: Annotated[int, typer.Option(min=1, help="Tokens in a window.")] = 128,
    samples: Annotated[int, typer.Option(min=2, help="Windows, one example each.")] = 400,
    reinit: Annotated[bool, typer.Option("--reinit", help="The same with fresh weights, side by side.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="For fresh weights, sampled subsets and labels.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Write audit.json, reading.md and a figure.")
    ] = None,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Read weights stored as pickle; only if you trust them.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Hold every layer's hidden states against the assumptions: ranks, Kruskal rank, saturation of heads.

    MODEL stays on this machine and is run on the CPU in float32. A rote model reads one context from each line of FILE.

    Example:

        $ rote audit models/minilm --texts book.txt --reinit -o minilm-audit
    """
    from rote.analyse.audit import audit as run
    from rote.errors import OutputError

    if output is not None:
        if output.exists():
            raise OutputError(f"{output} exists already; name another directory.")
        _need_matplotlib()
    with _display(enabled=not as_json) as progress:
        found = run(
            model,
            texts,
            layers=layers,
            tokens=tokens,
            samples=samples,
            reinitialised=reinit,
            seed=seed,
            allow_pickle=allow_pickle,
            progress=progress,
        )
    if output is not None:
        _write(found, output)
    if as_json:
        emit_json(found.to_dict())
        return
    out = console()
    for part in _shown(found):
        out.print(part)
    if output is not None:
        out.print(f"{output}: audit.json, reading.md, audit.svg, audit.png", markup=False)


def _need_matplotlib() -> None:
    from rote.errors import MissingExtra

    try:
        import matplotlib as _  # noqa: F401
    except ImportError:
        raise MissingExtra("matplotlib", "audit", "the figure of an audit") from None


def _display(*, enabled: bool):  # type: ignore[no-untyped-def]
    import contextlib

    from rote.cli._progress import display

    @contextlib.contextmanager
    def showing():  # type: ignore[no-untyped-def]
        with display(0, enabled=enabled) as report:
            yield lambda stage, done, total: report(stage, done, total, None)

    return showing()


def _write(found: Audit, output: Path) -> None:
    from rich.console import Console

    from rote.analyse.audit import figure
    from rote.models.checkpoint import write_directory, write_json

    def fill(part: Path) -> None:
        write_json(part / "audit.json", found.to_dict())
        with (part / "reading.md").open("w", encoding="utf-8") as stream:
            page = Console(file=stream, width=110, highlight=False, color_system=None)
            page.print(f"# Audit of {found.model}\n", markup=False)
            page.print("```text")
            for shown in _shown(found, words=False):
                page.print(shown)
            page.print("```\n")
            for sentence in found.to_dict()["reading"]:
                page.print(f"- {sentence}", markup=False)
            page.print("\n![What changes from layer to layer](audit.svg)", markup=False)
        figure.draw(figure.data(found.to_dict()), part)

    write_directory(output, fill)


def _shown(found: Audit, *, words: bool = True) -> list[RenderableType]:
    """The tables and the reading."""
    from rich.markup import escape

    s = found.shape
    parts: list[RenderableType] = [
        escape(
            f"{found.model}: {found.kind}, {s['n_layers']} layers, {s['n_heads']} heads of {s['d_head']}, d_model "
            f"{s['d_model']}; {found.samples:,} windows of {found.tokens} tokens of {found.text}, the {found.query} "
            "token asks"
        )
    ]
    for name, layers in (("as stored", found.layers), ("fresh weights", found.fresh)):
        if layers:
            parts += [f"\n[bold]{name}[/bold]", _table(layers)]
    if words:
        parts += [escape(sentence) for sentence in found.to_dict()["reading"]]
    return parts


def _table(layers: tuple[LayerReport, ...]) -> RenderableType:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    heads = (
        "layer",
        "full\nrank",
        "Kruskal\nrank",
        "sets\nindep.",
        "stable\nrank",
        "rank Z",
        "satu-\nrated",
        "real\nlabels",
        "binary\nlabels",
        "promised",
    )
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for x in layers:
        k = x.found
        interval = f"{k.lower}" if k.lower == k.upper else f"{k.lower}..{k.upper}"
        proved, most = x.promise["proved"], x.promise["at_most"]
        promise = number(proved) if proved == most else f"{number(proved)}..{number(most)}"
        table.add_row(
            str(x.layer),
            _share(x.share_full_rank),
            interval,
            _share(x.sampled.share),
            number(x.stable_rank_centred),
            "–" if x.rank_z is None else str(x.rank_z[0]),
            _share(x.saturation),
            f"{x.labels.real:,}",
            f"{x.labels.binary:,}{'+' if x.labels.capped else ''}",
            promise,
        )
    return table


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.3g} %"
