"""Everything that reads what a user hands in, with inputs that nobody should hand in.

Readers are called in Python and verbs through the command line, all in this process. Every try is made of the seed and
its own number alone: `python -m attacks fuzz --seed S` gives the same tries, and `attempt(seed, number, folder)` gives
one of them again.
"""

from __future__ import annotations

import contextlib
import gc
import gzip
import hashlib
import io
import json
import os
import shutil
import signal
import socket
import sqlite3
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import rote
from attacks.campaign import Trial
from attacks.mutations import TEXTS, bent_bytes, bent_record, hostile_value
from attacks.samples import ENTRY, FIGURE, GRID, TEXT, Samples, as_json
from attacks.verbs import command_line
from rote.certificate import HASH, sha256_of
from rote.errors import RoteError

__all__ = ["attempt", "promise", "title", "trials"]

title = "readers of files, options of verbs and arguments of functions, with inputs that are not what they should be"
promise = "a refusal in one sentence with exit code 2, or a right answer; within seconds, and nothing left behind"

SECONDS = 10.0
_SHOWN = 300


class Hang(BaseException):
    """The try took too long."""


def trials(seed: int, workplace: Path) -> Iterator[Trial]:
    """Readers and verbs in turn, for ever."""
    before = tempfile.tempdir
    temporary = workplace / "temporary"
    temporary.mkdir()
    tempfile.tempdir = str(temporary)
    samples = Samples(workplace / "samples")
    try:
        number = 0
        while True:
            yield attempt(seed, number, workplace, samples)
            number += 1
            if number % 2000 == 0:
                gc.collect()
                left = sorted(path.name for path in temporary.iterdir())
                yield Trial(f"tries up to {number}", f"temporary files left: {left[:5]}" if left else "", 0)
    finally:
        tempfile.tempdir = before


def attempt(seed: int, number: int, workplace: Path, samples: Samples | None = None) -> Trial:
    """One try."""
    rng = Random(f"{seed} {number}")
    samples = samples or Samples(workplace / "samples")
    group = rng.choices(list(GROUPS), [weight for _, weight in GROUPS.values()])[0]
    place = workplace / "place"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    said = f"try {number}, {group}"
    _prepare(group, samples)
    try:
        what = GROUPS[group][0](rng, samples, place)
        said += f": {what.told[:_SHOWN]}"
        failure = _failure(what, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return Trial(said, failure, 1, group)


class Attack:
    """What is called, what it may leave in the folder, and how it is told."""

    def __init__(self, call: Callable[[], object], told: str, leaves: tuple[str, ...] = ()) -> None:
        self.call, self.told, self.leaves = call, told, leaves


def _prepare(group: str, samples: Samples) -> None:
    """Samples are made outside of the time that a try has."""
    if group in ("models", "model files", "verbs"):
        _ = samples.models
    if group in ("tables", "verbs"):
        _ = samples.tables


def _failure(attack: Attack, place: Path) -> str:
    """What happened that must not."""
    there = _files(place)
    heard = io.StringIO()
    began = time.monotonic()
    old = signal.signal(signal.SIGALRM, _hang)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    failure = ""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(heard):
            code = attack.call()
        if type(code) is int and code not in (0, 1, 2):
            failure = f"exit code {code}: {heard.getvalue()[-_SHOWN:]}"
        elif code == 2 and "Traceback" in heard.getvalue():
            failure = f"a traceback: {heard.getvalue()[-_SHOWN:]}"
    except RoteError as error:
        failure = "a refusal without a sentence" if not str(error).strip() else ""
    except Hang:
        failure = f"still at work after {SECONDS:.0f} s, at {_place_of_hang()}"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__}: {str(error)[:_SHOWN]} at {where.filename}:{where.lineno}"
    except SystemExit as error:
        failure = f"the process would end: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    slow = time.monotonic() - began
    if not failure and slow > SECONDS:
        failure = f"took {slow:.1f} s"
    left = {name for name in _files(place) - there if name.split("/")[0] not in attack.leaves}
    return failure or (f"left behind: {sorted(left)[:5]}" if left else "")


_HANGS: list[str] = []


def _hang(number: int, frame: Any) -> None:
    _HANGS[:] = [f"{one.filename}:{one.lineno}" for one in traceback.extract_stack(frame)[-3:]]
    raise Hang


def _place_of_hang() -> str:
    return " < ".join(reversed(_HANGS))


def _files(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*")}


def _read_table(rng: Random, samples: Samples, place: Path) -> Attack:
    names = list(samples.tables)
    # A Parquet file takes a process of its own, as long as many others together.
    name = rng.choices(names, [0.05 if one.endswith(".parquet") else 1.0 for one in names])[0]
    path = place / name
    content = samples.tables[name]
    if name.endswith(".gz") and rng.random() < 0.7:
        content = gzip.compress(bent_bytes(gzip.decompress(content), rng))
    else:
        content = bent_bytes(content, rng)
    path.write_bytes(content)
    options: dict[str, Any] = {}
    if rng.random() < 0.4:
        options["tokens"] = rng.choice(("cells", "words", "chars"))
    if rng.random() < 0.2:
        options["on_conflict"] = rng.choice(("first", "last"))
    if rng.random() < 0.15:
        options["target"] = rng.choice(("target", "l1,l2", "c1", *TEXTS))
    if rng.random() < 0.15:
        options["weight"] = rng.choice(("count", "c1", "target"))
    if rng.random() < 0.2:
        options["kind"] = rng.choice(("facts", "distributions", "sequences", "vectors", "prompts"))

    def call() -> None:
        table = rote.read(path, **options)
        table.sheet()
        json.dumps(table.describe(), allow_nan=False)

    return Attack(call, f"read({name}, {options}) of {content!r}")


def _read_prompts(rng: Random, samples: Samples, place: Path) -> Attack:
    path = place / "a.csv"
    content = samples.tables["a.csv"] if rng.random() < 0.5 else bent_bytes(samples.tables["a.csv"], rng)
    path.write_bytes(content)
    template = rng.choice(("{c1} {c2}", "The {c1}", *TEXTS))
    answer = rng.choice(("{target}", " {target}", *TEXTS))
    sample = rng.choice((None, None, 0, 1, -1, 2, 10**30))
    return Attack(
        lambda: rote.prompts(path, template=template, answer=answer, sample=sample).sheet(),
        f"prompts({template!r}, {answer!r}, {sample}) of {content!r}",
    )


def _read_vectors(rng: Random, samples: Samples, place: Path) -> Attack:
    from rote.assumptions import read_vectors

    path = place / "v.safetensors"
    whole = samples.tables[rng.choice(("v.safetensors", "w.safetensors"))]
    size = int.from_bytes(whole[:8], "little")
    if rng.random() < 0.6:
        header = as_json(bent_record(json.loads(whole[8 : 8 + size]), rng)).encode("utf-8", "surrogatepass")
        content = len(header).to_bytes(8, "little") + header + whole[8 + size :]
    else:
        content = bent_bytes(whole, rng)
    path.write_bytes(content)
    reader: Callable[[Path], object] = rng.choice((read_vectors, rote.read))
    call = partial(reader, path)
    return Attack(call, f"vectors of {content!r}")


def _load_model(rng: Random, samples: Samples, place: Path) -> Attack:
    """A certificate that was edited."""
    original = rng.choice(samples.models)
    folder = place / "m"
    shutil.copytree(original, folder)
    path = folder / "certificate.json"
    text = path.read_bytes()
    if rng.random() < 0.8:
        text = as_json(_rehashed(bent_record(json.loads(text), rng))).encode("utf-8", "surrogatepass")
    else:
        text = bent_bytes(text, rng)
    path.write_bytes(text)

    def call() -> None:
        memory = rote.load(folder)
        memory.sheet()
        repr(memory)
        with contextlib.suppress(RoteError):
            memory.table()

    return Attack(call, f"load of {original.name} with the certificate {text!r}")


def _rehashed(record: Any) -> Any:
    """A certificate with the hash that it then should have, as far as there is one."""
    if isinstance(record, dict):
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            return {**record, HASH: sha256_of(record)}
    return record


def _load_files(rng: Random, samples: Samples, place: Path) -> Attack:
    """Files of a model that were edited, with a certificate that was made to fit."""
    original = rng.choice(samples.models)
    folder = place / "m"
    shutil.copytree(original, folder)
    names = [path.name for path in sorted(folder.iterdir()) if path.name not in ("certificate.json", "README.md")]
    name = rng.choice(names)
    path = folder / name
    content = path.read_bytes()
    if name.endswith(".json") and rng.random() < 0.7:
        content = as_json(bent_record(json.loads(content), rng)).encode("utf-8", "surrogatepass")
    else:
        content = bent_bytes(content, rng)
    path.write_bytes(content)
    record = json.loads((folder / "certificate.json").read_bytes())
    record["files_sha256"][name] = hashlib.sha256(content).hexdigest()
    if name == "model.safetensors":
        record["weights_sha256"] = record["files_sha256"][name]
    (folder / "certificate.json").write_text(as_json(_rehashed(record)), encoding="utf-8")

    def call() -> None:
        memory = rote.load(folder)
        memory.sheet()
        if memory.vocabulary:
            with contextlib.suppress(RoteError):
                memory.ask(*memory.vocabulary[:1] * memory.model.arch.context)
        if memory.carried is not None:
            rote.verify(memory)

    return Attack(call, f"load of {original.name} with {name} as {content!r}")


def _read_grid(rng: Random, samples: Samples, place: Path) -> Attack:
    from rote.lab.entries import read_entry
    from rote.measurement.sweeps import read_sweep

    path = place / "g.toml"
    sweep = rng.random() < 0.6
    content = bent_bytes((GRID if sweep else ENTRY).encode(), rng)
    path.write_bytes(content)
    return Attack(lambda: read_sweep(path) if sweep else read_entry(path), f"TOML {content!r}")


def _read_journal(rng: Random, samples: Samples, place: Path) -> Attack:
    from rote.measurement import results

    path = place / "r.db"
    path.write_bytes(samples.journal)
    told = ""
    if rng.random() < 0.5:
        column, value = (
            rng.choice(("config", "result")),
            bent_record(
                rng.choice(({"n_heads": 1, "d_model": 4, "seed": 0}, {"recall": 0.5, "rows": [{"n_facts": 3}]})), rng
            ),
        )
        told = as_json(value).encode("utf-8", "replace").decode()
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            db.execute(f"UPDATE cells SET {column} = ? WHERE rowid = 1", (told,))
    else:
        content = bent_bytes(samples.journal, rng)
        path.write_bytes(content)
        told = hashlib.sha256(content).hexdigest()

    def call() -> None:
        found = results(path)
        found.sheet()
        repr(found)

    return Attack(call, f"journal {told}", ("r.db-shm", "r.db-wal"))


def _ungraft(rng: Random, samples: Samples, place: Path) -> Attack:
    record = bent_record(samples.graft, rng)
    text = as_json(record)
    samples.write_graft(place / "g", text)
    return Attack(lambda: rote.ungraft(place / "g", place / "out"), f"ungraft with {text!r}", ("out",))


def _read_figures(rng: Random, samples: Samples, place: Path) -> Attack:
    from rote.lab.report.entries import read_entries
    from rote.plot import read_figure

    figure, entry = as_json(FIGURE), as_json(samples.entry)
    which = rng.random() < 0.5
    bent = as_json(bent_record(FIGURE if which else samples.entry, rng))
    (place / "f.json").write_bytes((bent if which else figure).encode("utf-8", "surrogatepass"))
    (place / "entry.json").write_bytes((entry if which else bent).encode("utf-8", "surrogatepass"))
    call: Callable[[], object] = (lambda: read_figure(place / "f.json")) if which else (lambda: read_entries(place))
    return Attack(call, f"{'figure' if which else 'entry'} {bent!r}")


def _read_text(rng: Random, samples: Samples, place: Path) -> Attack:
    from rote.data.ngrams import ngrams

    path = place / "t.txt"
    content = bent_bytes(TEXT.encode(), rng)
    path.write_bytes(content)
    order, most = rng.choice((2, 3, 3, 0, 64, 65)), rng.choice((None, 2, 5, 1))
    tokens, plain = rng.choice(("words", "chars")), rng.random() < 0.5
    return Attack(
        lambda: ngrams(path, order=order, tokens=tokens, plain=plain, most=most),
        f"ngrams({order}, {tokens}, {plain}, {most}) of {content!r}",
    )


def _special_files(rng: Random, samples: Samples, place: Path) -> Attack:
    """Whatever has a name and is no file."""
    ending = rng.choice((".csv", ".csv.gz", ".jsonl", ".parquet", ".safetensors", ".toml", ".db", ".txt", ".json", ""))
    path = place / f"special{ending}"
    kind = rng.choice(("fifo", "folder", "socket", "device", "loop", "nothing"))
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one, contextlib.suppress(OSError):
            one.bind(str(path))
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "device":
        path.symlink_to(rng.choice(("/dev/zero", "/dev/null", "/dev/full", "/dev/tty")))
    from rote.data.ngrams import ngrams
    from rote.lab.entries import read_entry
    from rote.measurement import results
    from rote.measurement.sweeps import read_sweep
    from rote.plot import read_figure

    readers: tuple[Any, ...] = (
        rote.read,
        rote.load,
        rote.ungraft,
        rote.verify,
        rote.report,
        ngrams,
        read_entry,
        results,
    )
    reader = rng.choice((*readers, read_sweep, read_figure))
    more = (place / "report.html",) if reader is rote.report else ()
    return Attack(partial(reader, path, *more), f"{reader.__name__}({kind}{ending})", ("report.html",))


def _wrong_arguments(rng: Random, samples: Samples, place: Path) -> Attack:
    """Functions with arguments of wrong types in the first place, or under a name."""
    more: dict[str, tuple[Any, ...]] = {
        "audit": ("nothing.txt",),
        "fit": ("n_heads", "recall"),
        "graft": ("nothing.csv",),
        "report": (place / "report.html",),
        "sweep": (place / "r.db",),
    }
    plain: tuple[Any, ...] = (None, 3, -1, 2.5, "", "a\0b", "nothing", Path("nope.csv"), b"x", True, object(), 10**30)
    value = rng.choice((*plain, [], [1, 2], {}, {"a": 1}, float("nan"), hostile_value(rng)))
    name = rng.choice(("read", "bounds", "plan", "check", "build", "load", "verify", *more, "ungraft"))
    named = rng.choice(("", "kind", "target", "columns", "tokens", "weight", "on_conflict", "choices"))
    if name == "read" and named:
        path = place / "a.csv"
        path.write_bytes(samples.tables["a.csv"])
        return Attack(lambda: rote.read(path, **{named: value}), f"read(..., {named}={value!r})")
    if name == "sweep" and isinstance(value, dict):
        value = {"base": value}
    function = getattr(rote, name)
    return Attack(lambda: function(value, *more.get(name, ())), f"{name}({value!r})", ("r.db", "report.html"))


def _verb(rng: Random, samples: Samples, place: Path) -> Attack:
    from rote.cli.main import run

    inputs = place / "in"
    inputs.mkdir()
    for name in ("a.csv", "counts.csv", "labels.csv", "v.safetensors"):
        content = samples.tables[name]
        (inputs / name).write_bytes(bent_bytes(content, rng) if rng.random() < 0.1 else content)
    (inputs / "g.toml").write_text(GRID.replace("d_model = 4", "d_modell = 4"), encoding="utf-8")
    (inputs / "t.txt").write_text(TEXT, encoding="utf-8")
    (inputs / "r.db").write_bytes(samples.journal)
    (place / "out").mkdir()
    given = [str(path) for path in (*sorted(inputs.iterdir()), *samples.models)]
    args = command_line(rng, given, str(place / "out" / "o"))

    def call() -> int:
        try:
            return run(args)
        finally:
            half = [path.name for path in (place / "out").rglob(".*")]
            if half:
                raise AssertionError(f"left half-written: {half[:5]}")

    return Attack(call, f"rote {' '.join(map(repr, args))}", ("out", "in"))


GROUPS: dict[str, tuple[Callable[[Random, Samples, Path], Attack], float]] = {
    "tables": (_read_table, 30),
    "prompts": (_read_prompts, 5),
    "vectors": (_read_vectors, 7),
    "models": (_load_model, 10),
    "model files": (_load_files, 8),
    "grids": (_read_grid, 8),
    "journals": (_read_journal, 4),
    "grafts": (_ungraft, 3),
    "figures": (_read_figures, 4),
    "texts": (_read_text, 4),
    "special files": (_special_files, 3),
    "arguments": (_wrong_arguments, 6),
    "verbs": (_verb, 12),
}
