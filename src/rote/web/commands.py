"""The command line that gives the same answer as a view of the explorer."""

from __future__ import annotations

import shlex

__all__ = ["command"]


def command(verb: str, *words: str, **options: object) -> str:
    """`rote VERB WORDS --options`, ready to be pasted. None and False are left out, True is a bare flag."""
    parts = ["rote", verb, *words]
    for name, value in options.items():
        flag = f"--{name.rstrip('_').replace('_', '-')}" if name != "o" else "-o"
        if value is None or value is False:
            continue
        if value is True:
            parts.append(flag)
        elif isinstance(value, (list, tuple)):
            for one in value:
                parts += [flag, str(one)]
        else:
            parts += [flag, str(value)]
    return shlex.join(parts)
