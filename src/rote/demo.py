"""`make demo`: the main job on embedded data, shown as a terminal session."""

from __future__ import annotations

import shlex
import sys

from rote.cli.main import run

__all__ = ["main"]

SESSION = (
    ("The countries that ship with rote: what do the facts look like?", "facts show countries --rows 5"),
    ("How small a model will hold them all?", "plan countries"),
    (
        "And how much fits into a shape of your own?",
        "bound --heads 16 --d-model 32 --context 2 --vocab 800 --theorem dana2025_cor1 --theorem mahdavi2024_thm1 "
        "--theorem counting --theorem allenzhu2024",
    ),
)


def main() -> int:
    """Run every command of the session; stop at the first that fails."""
    for title, command in SESSION:
        print(f"\n# {title}\n$ rote {command}\n", flush=True)
        code = run(shlex.split(command))
        if code != 0:
            return code
    print("# More: rote --help")
    return 0


if __name__ == "__main__":
    sys.exit(main())
