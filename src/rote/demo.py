"""`make demo`: the main job on embedded data, shown as a terminal session."""

from __future__ import annotations

import contextlib
import shlex
import sys
import tempfile

from rote.cli.main import run

__all__ = ["main"]


def session(facts: str, model: str) -> list[tuple[str, str]]:
    """The commands, each with the question that it answers."""
    question, last = ("KJFK", "ENGM") if facts == "airports" else ("France capital", "Japan capital")
    return [
        ("What do the facts look like?", f"facts show {facts} --rows 4"),
        ("How small a model will hold them all?", f"plan {facts}"),
        ("Build it: no training, every fact checked on the written weights.", f"build {facts} -o {model}"),
        ("Read it back from disk and run every fact again; the certificate knows which.", f"verify {model}"),
        ("And ask.", f"ask {model} {question} --top 3"),
        ("In which country is ENGM?" if facts == "airports" else "And Japan?", f"ask {model} {last} --top 3"),
        (
            "How much fits into a shape of your own?",
            "bound --heads 16 --d-model 32 --context 2 --vocab 800 --theorem dana2025_cor1 "
            "--theorem mahdavi2024_thm1 --theorem argmax_fit --theorem counting",
        ),
    ]


def main() -> int:
    """Run every command of the session; stop at the first that fails."""
    from rote.data import available

    installed = {item.name for item in available() if item.installed}
    facts = "airports" if "airports" in installed else "countries"
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        for title, command in session(facts, f"{facts}-model"):
            print(f"\n# {title}\n$ rote {command}\n", flush=True)
            code = run(shlex.split(command))
            if code != 0:
                return code
    print("\n# Your own table: rote build facts.csv -o model    More: rote --help")
    return 0


if __name__ == "__main__":
    sys.exit(main())
