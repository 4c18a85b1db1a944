"""`rote audit`: do the hidden states of a model meet the theorems' assumptions?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rote.cli._output import JsonOption, console, emit_json
from rote.cli._render import show

__all__ = ["audit"]


def audit(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Hugging Face directory, .gguf file, or rote model.")],
    texts: Annotated[Path, typer.Option("--texts", metavar="FILE", help="UTF-8 text to run through it.")],
    layers: Annotated[str, typer.Option(help="all, or numbers and ranges as in 0,3,5-8; 0 is what enters.")] = "all",
    context: Annotated[int, typer.Option(min=1, help="Tokens in a window.")] = 128,
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
    from rote.cli._progress import display
    from rote.errors import OutputError
    from rote.plot.draw import need_matplotlib

    if output is not None:
        if output.exists():
            raise OutputError(f"{output} exists already; name another directory.")
        need_matplotlib()
    with display(0, enabled=not as_json) as report:
        audited = run(
            model,
            texts,
            layers=layers,
            context=context,
            samples=samples,
            reinitialised=reinit,
            seed=seed,
            allow_pickle=allow_pickle,
            progress=lambda stage, done, total: report(stage, done, total, None),
        )
    if output is not None:
        audited.write(output)
    if as_json:
        emit_json(audited.to_dict())
        return
    show(audited.sheet())
    if output is not None:
        console().print(f"{output}: audit.json, reading.md, audit.svg, audit.png", markup=False)
