"""What the verbs share: JSON on stdout, tables for people, numbers as people read them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["JsonOption", "console", "emit_json"]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def console(*, stderr: bool = False) -> Console:
    """A rich console; 100 columns wide where the output is no terminal, so that logs read well."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 100, highlight=False, soft_wrap=False)


def emit_json(value: Any) -> None:
    """One JSON document on stdout, and nothing else."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
