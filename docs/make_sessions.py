"""Run the terminal sessions in README.md and docs/*.md again, and put the real output in their place.

    python docs/make_sessions.py            rewrite the outputs that changed
    python docs/make_sessions.py --check    change nothing; exit code 1 when an output changed

    python docs/make_sessions.py --slow     those marked slow instead: minutes, and last digits of a machine

and for some pages only, if their names follow.

A session is a ```console block whose first line starts with `$ rote`. Inside it, `$ rote ...` runs the command line in
this process, `$ cat FILE` shows a file and `$ echo $?` the last exit code; a line that ends in a backslash goes on in
the next. Sessions run in a copy of docs/examples, those marked ```console slow, of one page, all in the same. The
sessions of docs/adding-*.md run with a copy of the package that has the files of docs/examples/own. Blocks that must
not be run carry another info string, such as text.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import rote
from rote.cli.main import run

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
WIDTH = 100

_BLOCK = re.compile(r"^```console( slow)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


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
    slow: bool = False

    @property
    def name(self) -> str:
        return f"{self.page.name}: {self.steps[0].command.splitlines()[0]}"


def all_pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


def sessions(page: Path, *, slow: bool = False) -> list[Session]:
    """The sessions of a page, in order."""
    return [
        Session(page, block.start(2), block.end(2), tuple(_steps(block[2])), slow)
        for block in _BLOCK.finditer(page.read_text(encoding="utf-8"))
        if block[2].startswith("$ rote") and bool(block[1]) == slow
    ]


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
    return play_all([session])[0]


def play_all(together: list[Session]) -> list[list[Step]]:
    """The same for sessions that share a directory."""
    own = any(session.page.name.startswith("adding-") for session in together)
    package = Path(_own_package().name) if own else None
    with _workplace():
        return [_played(session, package) for session in together]


@cache
def _own_package() -> tempfile.TemporaryDirectory[str]:
    """One copy for all sessions, which goes when the process does."""
    place = tempfile.TemporaryDirectory()
    with_own_files(Path(place.name))
    return place


def _played(session: Session, package: Path | None) -> list[Step]:
    steps, code = [], 0
    for step in session.steps:
        output, code = _run(step.command, code, package)
        steps.append(Step(step.command, _tidy(output)))
    return steps


def _run(command: str, last_code: int, package: Path | None) -> tuple[str, int]:
    words = shlex.split(command.replace("\\\n", " "))
    if words[0] == "cat":
        return "".join(Path(name).read_text(encoding="utf-8") for name in words[1:]), 0
    if words == ["echo", "$?"]:
        return str(last_code), 0
    if words[0] != "rote":
        raise SystemExit(
            f"a session can run rote, cat and echo $?, not {command!r}; give the block another info string."
        )
    if package is not None:
        return _run_apart(words[1:], package)
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
    names = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "ROTE_PROGRESS")
    kept = {name: os.environ.pop(name, None) for name in names}
    # How long something takes is another matter on every machine.
    os.environ["ROTE_PROGRESS"] = "0"
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(DOCS / "examples", place, dirs_exist_ok=True)
        try:
            with contextlib.chdir(place):
                yield
        finally:
            del os.environ["ROTE_PROGRESS"]
            os.environ.update({name: value for name, value in kept.items() if value is not None})


def with_own_files(place: Path) -> Path:
    """A copy of the package with the worked examples of the pages on adding things; the directory to import from."""
    ignored = shutil.ignore_patterns("__pycache__")
    # What is compiled already need not be compiled again.
    shutil.copytree(Path(rote.__file__).parent, place / "rote")
    shutil.copytree(ROOT / "experiments", place / "rote" / "experiments", dirs_exist_ok=True)
    shutil.copytree(DOCS / "examples" / "own", place / "rote", dirs_exist_ok=True, ignore=ignored)
    return place


_APART = """
import contextlib, io, json, os, sys
from rote.cli.main import run
for line in sys.stdin:
    place, words = json.loads(line)
    os.chdir(place)
    seen = io.StringIO()
    with contextlib.redirect_stdout(seen), contextlib.redirect_stderr(seen):
        code = run(words)
    print(json.dumps([seen.getvalue(), code]), flush=True)
"""


@cache
def _apart(package: Path) -> subprocess.Popen[str]:
    """A process that runs rote from another copy of the package, command after command; it ends with this one."""
    env = {**os.environ, "PYTHONPATH": str(package)}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-P", "-c", _APART], stdin=pipe, stdout=pipe, text=True, env=env)


def _run_apart(words: list[str], package: Path) -> tuple[str, int]:
    """Run rote from another copy of the package."""
    process = _apart(package)
    assert process.stdin is not None and process.stdout is not None, "both are pipes"
    process.stdin.write(json.dumps([str(Path.cwd()), words]) + "\n")
    process.stdin.flush()
    output, code = json.loads(process.stdout.readline())
    return output, code


def written(steps: list[Step]) -> str:
    """The body of a block."""
    return "".join(f"$ {step.command}\n{step.output}\n" if step.output else f"$ {step.command}\n" for step in steps)


def main(args: list[str]) -> int:
    flags, names = {a for a in args if a.startswith("--")}, [a for a in args if not a.startswith("--")]
    known = {str(page.relative_to(ROOT)): page for page in all_pages()}
    if not flags <= {"--check", "--slow"} or not set(names) <= set(known):
        print("usage: python docs/make_sessions.py [--check] [--slow] [README.md docs/PAGE.md ...]", file=sys.stderr)
        return 2
    stale = 0
    for page in [known[name] for name in names] or all_pages():
        text, slow = page.read_text(encoding="utf-8"), "--slow" in flags
        asked = sessions(page, slow=slow)
        played = play_all(asked) if slow and asked else [play(session) for session in asked]
        for session, steps in reversed(list(zip(asked, played, strict=True))):
            if [normal(step.output) for step in steps] == [normal(step.output) for step in session.steps]:
                continue
            stale += 1
            print(f"{'stale' if '--check' in flags else 'wrote'}: {session.name}")
            text = text[: session.start] + written(steps) + text[session.end :]
        if "--check" not in flags:
            page.write_text(text, encoding="utf-8")
    return 1 if "--check" in flags and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
