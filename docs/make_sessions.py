"""Run the terminal sessions in README.md and docs/*.md again, and put the real output in their place.

    python docs/make_sessions.py            rewrite the outputs that changed
    python docs/make_sessions.py --check    change nothing; exit code 1 when an output changed

A session is a ```console block whose first line starts with `$ rote`. Inside it, `$ rote ...` runs the command line in
this process, `$ cat FILE` shows a file and `$ echo $?` the last exit code; a line that ends in a backslash goes on in
the next. Sessions run in a copy of docs/examples. Blocks that must not be run carry another info string, such as text.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rote.cli.main import run

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
WIDTH = 100

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """One command and what it printed."""

    command: str
    output: str


@dataclass(frozen=True)
class Session:
    """One ```console block of a page."""

    page: Path
    start: int
    end: int
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        return f"{self.page.name}: {self.steps[0].command.splitlines()[0]}"


def all_pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


def sessions(page: Path) -> list[Session]:
    """The sessions of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in _BLOCK.finditer(text):
        if block[1].startswith("$ rote"):
            found.append(Session(page, block.start(1), block.end(1), tuple(_steps(block[1]))))
    return found


def _steps(body: str) -> Iterator[Step]:
    command: list[str] = []
    output: list[str] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            if command:
                yield Step("\n".join(command), "\n".join(output))
            command, output = [line[2:]], []
        elif command and command[-1].endswith("\\") and not output:
            command.append(line)
        else:
            output.append(line)
    yield Step("\n".join(command), "\n".join(output))


def normal(text: str) -> str:
    """Text with every run of white space made one space."""
    return " ".join(text.split())


def play(session: Session) -> list[Step]:
    """The steps of a session with the output that they give now."""
    played = []
    code = 0
    with _workplace(), _registered(session.page):
        for step in session.steps:
            output, code = _run(step.command, code)
            played.append(Step(step.command, _tidy(output)))
    return played


def _run(command: str, last_code: int) -> tuple[str, int]:
    words = shlex.split(command.replace("\\\n", " "))
    if words[0] == "cat":
        return "".join(Path(name).read_text(encoding="utf-8") for name in words[1:]), 0
    if words == ["echo", "$?"]:
        return str(last_code), 0
    if words[0] != "rote":
        raise SystemExit(
            f"a session can run rote, cat and echo $?, not {command!r}; give the block another info string."
        )
    seen = io.StringIO()
    with contextlib.redirect_stdout(seen), contextlib.redirect_stderr(seen):
        code = run(words[1:])
    return seen.getvalue(), code


def _tidy(output: str) -> str:
    """No blank ends, and lines no longer than the terminal."""
    lines: list[str] = []
    for line in output.strip("\n").splitlines():
        short = line.rstrip()
        lines += [short] if len(short) <= WIDTH else textwrap.wrap(short, WIDTH, break_on_hyphens=False)
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    return "\n".join(lines)


@contextlib.contextmanager
def _workplace() -> Iterator[None]:
    """A directory of its own with the example files; colours off, as for a log."""
    kept = {name: os.environ.pop(name, None) for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")}
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(DOCS / "examples", place, dirs_exist_ok=True)
        try:
            with contextlib.chdir(place):
                yield
        finally:
            os.environ.update({name: value for name, value in kept.items() if value is not None})


@contextlib.contextmanager
def _registered(page: Path) -> Iterator[None]:
    """The worked example of docs/adding-a-theorem.md is registered while the sessions of that page run."""
    if page.name != "adding-a-theorem.md":
        yield
        return
    from rote import theorems

    key = "last_token_table"
    spec = importlib.util.spec_from_file_location(key, DOCS / "examples" / f"{key}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    spec.loader.exec_module(module)
    theorems.register(key, module.theorem)
    try:
        yield
    finally:
        theorems._added.pop(key)
        sys.modules.pop(key)


def written(steps: list[Step]) -> str:
    """The body of a block."""
    return "".join(f"$ {step.command}\n{step.output}\n" if step.output else f"$ {step.command}\n" for step in steps)


def main(args: list[str]) -> int:
    if args not in ([], ["--check"]):
        print("usage: python docs/make_sessions.py [--check]", file=sys.stderr)
        return 2
    stale = 0
    for page in all_pages():
        text = page.read_text(encoding="utf-8")
        for session in reversed(sessions(page)):
            played = play(session)
            if [normal(step.output) for step in played] == [normal(step.output) for step in session.steps]:
                continue
            stale += 1
            print(f"{'stale' if args else 'wrote'}: {session.name}")
            text = text[: session.start] + written(played) + text[session.end :]
        if not args:
            page.write_text(text, encoding="utf-8")
    return 1 if args and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
