"""Command lines of every verb, with options as the verbs declare them and values that they did not expect."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

from attacks.mutations import NUMBERS, TEXTS
from rote.cli.main import VERBS, _load

__all__ = ["command_line"]

# What trains, serves or fills a disk gets one argument more that it must refuse.
_NEVER = {
    "measure": ("--vocab", "-3"),
    "reproduce": ("nothing-of-the-kind",),
    "ui": ("--port", "-1"),
    "graft": ("--template", "{"),
    "audit": ("--samples", "0"),
    "sweep": ("--jobs", "0"),
}
_NAMES = (
    "auto",
    "dana2025_cor1",
    "argmax_fit",
    "mlp_fit",
    "llama",
    "rote",
    "float64",
    "float16",
    "exact",
    "cells",
    "chars",
)
_HUGE = {"--facts", "--context", "--vocab", "--contexts", "--classes", "--d-model", "--order", "--samples", "--sample"}


@cache
def _commands() -> dict[str, Any]:
    """Every verb by its words."""
    found: dict[str, Any] = {}
    for name in sorted(set(VERBS) - {"zoo"}):  # which builds a dozen models, wherever it is told to
        command = _load(name)
        for sub, one in getattr(command, "commands", {"": command}).items():
            found[f"{name} {sub}".strip()] = one
    return found


def command_line(rng: Random, given: list[str], output: str) -> list[str]:
    """The words of a command line; `given` are files and directories that exist, `output` is where results go."""
    verb = rng.choice(list(_commands()))
    args = verb.split()
    options: list[list[str]] = []
    for param in _commands()[verb].params:
        flags = [name for name in param.opts if name.startswith("-")]
        if not flags:
            for _ in range(rng.choice((1, 1, 1, 0, 2) if param.nargs == 1 else (1, 2, 3))):
                args.append(rng.choice(given) if rng.random() < 0.8 else rng.choice((*TEXTS, *NUMBERS)))
        elif {"-o", "--db"} & set(flags):
            if rng.random() < 0.95:
                options.append([flags[0], output + rng.choice((".csv", ".html", ".db", "", ".safetensors", ".jsonl"))])
        elif "--help" in flags:
            continue
        elif rng.random() < (0.7 if param.required else 0.15):
            options.append([rng.choice(flags), *([] if param.is_flag else [_value(rng, given, flags)])])
    rng.shuffle(options)
    words = [*args, *(word for option in options for word in option), *_NEVER.get(verb, ())]
    # No system hands over a word with a NUL.
    return [word.replace("\0", "") for word in words]


def _value(rng: Random, given: list[str], flags: list[str]) -> str:
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(("0", "1", "2", "3", "5", "8"))
    if kind < 0.6:
        small = [one for one in NUMBERS if len(one) < 5 or len(one) > 19]
        return rng.choice(small if _HUGE & set(flags) else NUMBERS)
    if kind < 0.75:
        return rng.choice(_NAMES)
    return rng.choice(TEXTS) if kind < 0.95 else rng.choice(given)
