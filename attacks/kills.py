"""Verbs that write, killed and failing at every moment of their writing."""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attacks.campaign import Trial
from attacks.faults import Ended, Moments, fork

title = "build, edit, graft, sweep, export and report, killed or failing at every write, alone and two at once"
promise = "the old is there whole, or the new, and the next run succeeds and leaves nothing else behind"

_FACTS = "a,b,c\n" + "".join(f"k{i},m{i % 3},v{i * 7 % 5}\n" for i in range(12))
_OTHERS = "a,b,c\n" + "".join(f"k{i},m{i % 3},v{i * 3 % 4}\n" for i in range(12))
_SWEEP = """
seeds = 2
[base]
d_model = 4
context = 2
vocab = 12
by = "dana2025_cor1"
[grid]
n_heads = [1, 2, 3]
"""
_BUILD = ("--with", "dana2025_cor1")
_BITS = ("--with", "kajitsuka2025_next_token", "--dtype", "float64")
_SYSCALLS = (
    "openat,write,pwrite64,rename,renameat,renameat2,fsync,fdatasync,mkdir,unlink,unlinkat,rmdir,chmod,ftruncate"
)


@dataclass(frozen=True)
class Verb:
    """A command line in a directory of its own: what is there before, what it writes, and how to try again."""

    name: str
    line: tuple[str, ...]
    output: str
    files: dict[str, str]
    """Inputs by name."""
    before: tuple[tuple[str, ...], ...] = ()
    """Command lines that prepare the directory."""
    fresh: bool = True
    """Whether nothing is at the output before."""
    rounds: int = 1
    """It comes up once in so many rounds: what takes seconds, less often."""

    def again(self, place: Path) -> tuple[str, ...]:
        """The same once more; what came into its place whole has to be replaced."""
        if self.name == "sweep":
            return (*self.line, "--retry-failed")
        if self.name == "edit in place":
            return ("edit", "out", "--set", "k3\tm0", "v0")
        forced = self.name.split()[0] in ("build", "graft", "export") and "--force" not in self.line
        return (*self.line, "--force") if forced and (place / self.output).exists() else self.line


def _verbs() -> Iterator[Verb]:
    tables = {"facts.csv": _FACTS, "old.csv": _OTHERS}
    build, old = ("build", "facts.csv", "-o", "out", *_BUILD), ("build", "old.csv", "-o", "out", *_BUILD)
    yield Verb("build", build, "out", tables)
    yield Verb("build over another", (*build, "--force"), "out", tables, (old,), fresh=False)
    edit = ("edit", "out", "--set", "k1\tm1", "v0", "--forget", "k2\tm2")
    hashed = ("build", "facts.csv", "-o", "out", "--with", "hashed_table", "--dtype", "bfloat16")
    yield Verb("edit in place", edit, "out", tables, (hashed,), fresh=False)
    sweep = ("sweep", "grid.toml", "--db", "out.db")
    grid = {"grid.toml": _SWEEP}
    yield Verb("sweep", sweep, "out.db", grid)
    page = ("report", "out.db", "-o", "page.html")
    yield Verb("report", page, "page.html", grid, (sweep,), rounds=4)
    older = (sweep, (*page, "--title", "Old"))
    yield Verb("report over another", page, "page.html", grid, older, fresh=False, rounds=4)
    export, bits = ("export", "bits", "-o", "out.onnx"), ("build", "facts.csv", "-o", "bits", *_BITS)
    yield Verb("export", export, "out.onnx", tables, (bits,))
    yield Verb("export over another", (*export, "--force"), "out.onnx", tables, (bits, export), fresh=False)
    graft = (
        "graft",
        "original",
        "codes.csv",
        "-o",
        "out",
        "--template",
        "The code {code} is in",
        "--answer",
        " {city}",
        "--keep",
        "keep.txt",
        "--examined",
        "2",
    )
    yield Verb("graft", graft, "out", {}, rounds=12)
    over = ("build", "old.csv", "-o", "out", *_BUILD)
    yield Verb("graft over another", (*graft, "--force"), "out", tables, (over,), fresh=False, rounds=12)


def trials(seed: int, workplace: Path) -> Iterator[Trial]:
    _warm()
    rng = random.Random(seed)
    tests = [Attempts(verb, workplace, rng) for verb in _verbs()]
    for test in tests:
        yield Trial(f"{test.verb.name}, undisturbed", test.prepare(), group=f"{test.verb.name}, undisturbed")
    tests = [test for test in tests if test.n_moments]
    turn = 0
    while True:
        for test in tests:
            if turn % test.verb.rounds == 0:
                yield test.one()
        turn += 1
        if turn % 2 == 0:
            yield tests[1].two_at_once()
        if turn % 60 == 30:
            yield from tests[turn // 60 % 4].traced()


def _warm() -> None:
    """Import what is large, and run nothing: libraries with threads of their own do not outlive a fork."""
    import torch

    from rote import constructions

    constructions.registry()
    torch.set_num_threads(1)


def _learn(notes: tuple[str, ...]) -> None:
    """Import whatever a child had to."""
    for note in notes:
        kind, _, name = note.partition(" ")
        if kind == "module" and name not in sys.modules and not name.startswith("__"):
            with contextlib.suppress(Exception):
                importlib.import_module(name)


class Attempts:
    """One verb, tried again and again in copies of one directory."""

    def __init__(self, verb: Verb, workplace: Path, rng: random.Random) -> None:
        self.verb, self.rng = verb, rng
        home = workplace / verb.name.replace(" ", "-")
        self.start, self.place, self.temporary = home / "start", home / "place", home / "tmp"
        self.kills: list[int] = []
        self.failures: list[tuple[int, str]] = []
        self.n_moments, self.n_tried = 0, 0
        self.end: set[str] = set()
        self.rows: set[str] = set()

    def prepare(self) -> str:
        """Run it undisturbed, and count its moments; what went wrong, if anything."""
        self.start.mkdir(parents=True)
        self.temporary.mkdir()
        for name, text in self.verb.files.items():
            (self.start / name).write_text(text, encoding="utf-8")
        if "original" in self.verb.line:
            _tiny(self.start)
        for line in self.verb.before:
            done = fork(lambda line=line: _said(self.start, line), self.temporary)()  # type: ignore[misc]
            if done.code:
                return f"{' '.join(line)}: {done}"
        self._renew()
        _learn(self._run(-1, "modules").notes)
        self._renew()
        done = self._run(-1, "")
        self.n_moments, self.end = done.moments, _listing(self.place)
        self.rows = {note for note in done.notes if note.startswith("row ")}
        return f"{done}" if done.code or _listing(self.temporary) else ""

    def _renew(self) -> None:
        for path in (self.place, self.temporary):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.start, self.place)
        self.temporary.mkdir()

    def _run(self, at: int, how: str) -> Ended:
        moments = Moments(at, how, (self.place, self.temporary))
        return fork(lambda: _said(self.place, self.verb.line), self.temporary, moments)()

    def one(self) -> Trial:
        """The next moment, in an order that the seed gives: two kills, then a failure of the disk or ctrl-C."""
        self.n_tried += 1
        at, how = (self._next_kill(), "KILL") if self.n_tried % 3 else self._next_failure()
        self._renew()
        done = self._run(at, how)
        what = f"{self.verb.name}, {how} at moment {at} of {self.n_moments}"
        group = f"{self.verb.name}, {'killed' if done.code == -9 else 'failing'}"
        if how == "KILL" and done.code not in (-9, 0):
            return Trial(what, f"ended with {done}", group=group)
        # A sweep that cannot write in one cell goes on with the others, and says so.
        fair = (0, 1, 2, 130) if self.verb.name == "sweep" else (0, 2, 130)
        if how != "KILL" and done.code not in fair:
            return Trial(what, f"no sentence but {done}", group=group)
        if "Traceback" in done.said:
            return Trial(what, f"a traceback: {done}", group=group)
        return Trial(what, self._after(done.notes), group=group)

    def _next_kill(self) -> int:
        """Every moment comes up before one comes up again."""
        if not self.kills:
            self.kills = self.rng.sample(range(self.n_moments), self.n_moments)
        return self.kills.pop()

    def _next_failure(self) -> tuple[int, str]:
        if not self.failures:
            self.failures = [(at, how) for at in range(self.n_moments) for how in ("ENOSPC", "EIO", "INT")]
            self.rng.shuffle(self.failures)
        return self.failures.pop()

    def _after(self, notes: tuple[str, ...] = ()) -> str:
        """Is what is there whole, and does the next run succeed and clear the rest?"""
        before = sorted(_listing(self.place))

        def again() -> int:
            _check(self.place, self.verb, set(notes), ("done", "failed"))
            assert _said(self.place, self.verb.again(self.place)) == 0, "the next run failed"
            _check(self.place, self.verb, self.rows, ("done",))
            return 0

        done = fork(again, self.temporary)()
        if done.code:
            return f"{done.said} with {before}"
        left = (_listing(self.place) - self.end) | _listing(self.temporary)
        return f"left over: {sorted(left)} of {before}" if left else ""

    def two_at_once(self) -> Trial:
        """Two writers to one place, one of them killed at some moment or none."""
        self._renew()
        at = self.rng.randrange(self.n_moments * 5 // 4)
        moments = Moments(at, "KILL", (self.place, self.temporary))
        other = ("build", "old.csv", "-o", "out", *_BUILD, "--seed", "5", "--force")
        both = [
            fork(lambda: _said(self.place, self.verb.line), self.temporary, moments),
            fork(lambda: _said(self.place, other), self.temporary),
        ]
        first, second = (wait() for wait in both)
        what = f"two at once, one killed at moment {at} of {self.n_moments}"
        wrong = first.code not in (0, 2, -9) or second.code not in (0, 2) or "Traceback" in first.said + second.said
        group = f"two at once, {'one killed' if first.code == -9 else 'not killed'}"
        return Trial(what, f"{first}, {second}" if wrong else self._after(), group=group)

    def traced(self) -> Iterator[Trial]:
        """Killed by strace at a system call of any code, Python or not."""
        strace = shutil.which("strace")
        if strace is None:
            return
        self._renew()
        count = self.rng.randrange(1, 40)
        call = self.rng.choice(_SYSCALLS.split(",")[1:])
        inject = ("-e", f"trace={_SYSCALLS}", "-e", f"inject={call}:signal=KILL:when={count}")
        line = [strace, "-f", "-qq", "-o", os.devnull, *inject, sys.executable, "-m", "rote", *self.verb.line]
        environment = {**os.environ, "TMPDIR": str(self.temporary), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(line, cwd=self.place, env=environment, capture_output=True, timeout=300, check=False)
        what = f"{self.verb.name} under strace, killed at {call} number {count} (code {done.returncode})"
        group = "strace, killed" if done.returncode in (-9, 137) else "strace, not killed"
        yield Trial(what, self._after(), group=group)


def _said(place: Path, line: tuple[str, ...]) -> int:
    from rote.cli.main import run

    os.chdir(place)
    return run(list(line))


def _tiny(place: Path) -> None:
    def write() -> int:
        from attacks import tiny_models

        tiny_models.write_tiny(place / "original", tied=True)
        tiny_models.write_table(place / "codes.csv", 6)
        tiny_models.write_text(place / "keep.txt", 6000)
        return 0

    fork(write, place)()


def _listing(place: Path) -> set[str]:
    """Everything below a directory."""
    return {path.relative_to(place).as_posix() for path in place.rglob("*")}


def _check(place: Path, verb: Verb, rows: set[str], fair: tuple[str, ...]) -> None:
    """The output is whole: a model that loads with its hashes and recalls everything, a journal with its rows."""
    import rote
    from rote.measurement.journal import Journal

    output, kind = place / verb.output, verb.name.split()[0]
    if not output.exists():
        assert verb.fresh and not rows, f"{verb.output} is gone"
    elif kind in ("build", "edit", "graft"):
        memory = rote.load(output)
        assert rote.verify(memory, all_formats=True).confirms(memory.certificate), "the model is not what it was"
    elif kind == "sweep":
        # A file that nothing was stored in yet may be empty.
        if output.stat().st_size or rows:
            with Journal(output) as journal:
                known = journal.statuses()
            lost = {row for row in rows if known.get(row.split()[1]) not in fair}
            assert not lost, f"rows were lost: {sorted(lost)}"
    elif kind == "report":
        assert output.read_bytes().rstrip().endswith(b"</html>"), "half a page"
    else:
        import onnx

        onnx.checker.check_model(onnx.load_from_string(output.read_bytes()))
