"""Model directories: whole or not at all, every file listed, and nothing of the dead left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rote
from attacks import tiny_models
from rote.certificate import HASH, sha256_of
from rote.data import _atomic, random_facts
from rote.data._atomic import write_atomically
from rote.data._temporary import Temporary, clear_dead, held, old_name
from rote.errors import CheckpointError, OutputError
from rote.models import folders


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "facts.csv").write_text("a,b,c\n" + "".join(f"k{i},m{i % 3},v{i * 7 % 5}\n" for i in range(12)))
    return rote.build(rote.read(tmp_path / "facts.csv"), "dana2025_cor1").save(tmp_path / "model").folder


def _names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        "adapter_model.bin",
        "modeling_x.py",
        "chat_template.jinja",
        "sub/config.json",
        ".hidden",
        "model-00002.safetensors",
    ],
)
def test_a_file_that_is_not_listed_is_refused(model: Path, name: str) -> None:
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_text("{}")
    with pytest.raises(CheckpointError, match="is not listed in the certificate of the model; move it away"):
        rote.load(model)


def test_empty_directories_and_links_are_refused(model: Path, tmp_path: Path) -> None:
    (model / "empty").mkdir()
    with pytest.raises(CheckpointError, match="empty is not listed"):
        rote.load(model)
    (model / "empty").rmdir()
    (model / "config.json").rename(tmp_path / "config.json")
    (model / "config.json").symlink_to(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match="symbolic link"):
        rote.load(model)


def test_what_no_library_reads_may_lie_there(model: Path) -> None:
    (model / "README.md").write_text("mine")
    (model / ".git").mkdir()
    (model / ".git" / "HEAD").write_text("x")
    assert rote.verify(model).passed


def test_a_certificate_that_is_no_file_does_not_hang(model: Path) -> None:
    (model / "certificate.json").unlink()
    os.mkfifo(model / "certificate.json")
    with pytest.raises(CheckpointError, match="is no file"):
        rote.load(model)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../b", "", ".", "a//b", "a\\b", "C:x", "a\0", None, 5])
def test_names_in_certificates_stay_inside(tmp_path: Path, name: object) -> None:
    with pytest.raises(CheckpointError, match="no plain name inside"):
        folders.inside(tmp_path, name)
    assert folders.inside(tmp_path, "original/config.json") == tmp_path / "original" / "config.json"


def test_sub_directories_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.json").write_text("{}")
    assert list(folders.hashes(tmp_path)) == ["a/b/c.json"]


def _fill(text: str) -> object:
    def fill(part: Path) -> None:
        (part / "certificate.json").write_text(json.dumps({"files_sha256": {}, "text": text}))

    return fill


def _told(folder: Path) -> str:
    return str(json.loads((folder / "certificate.json").read_text())["text"])


@pytest.mark.parametrize("exchange", [True, False])
def test_a_directory_is_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool) -> None:
    if not exchange:
        monkeypatch.setattr(_atomic, "_renameat2", lambda: None)
    out = tmp_path / "out"
    for text in ("old", "new"):
        folders.write_directory(out, _fill(text), force=True)  # type: ignore[arg-type]
        assert _told(out) == text and _names(tmp_path) == ["out"]
    with pytest.raises(OutputError, match="exists already"):
        folders.write_directory(out, _fill("third"))  # type: ignore[arg-type]


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("nth", range(8))
def test_the_old_directory_outlives_what_goes_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool, stop: type[BaseException], nth: int
) -> None:
    if not exchange:
        monkeypatch.setattr(_atomic, "_renameat2", lambda: None)
    out = tmp_path / "out"
    folders.write_directory(out, _fill("old"))  # type: ignore[arg-type]
    calls = 0

    def strike(call: object) -> object:
        def struck(*args: object) -> object:
            nonlocal calls
            calls += 1
            if calls - 1 == nth:
                raise stop
            return call(*args)  # type: ignore[operator]

        return struck

    with monkeypatch.context() as patched:
        for name in ("rename", "fsync", "mkdir"):
            patched.setattr(os, name, strike(getattr(os, name)))
        try:
            folders.write_directory(out, _fill("new"), force=True)  # type: ignore[arg-type]
            text = "new"
        except (KeyboardInterrupt, OutputError):
            text = _told(out)
            assert text in ("old", "new") and (text == "old" or stop is KeyboardInterrupt)
    assert _told(out) == text
    clear_dead(tmp_path)
    assert _names(tmp_path) == ["out"]


def test_what_was_moved_away_comes_back(tmp_path: Path) -> None:
    """Killed between two renames, where names cannot be exchanged."""
    out = tmp_path / "out"
    folders.write_directory(out, _fill("old"))  # type: ignore[arg-type]
    out.rename(old_name(out))
    clear_dead(tmp_path)
    assert _told(out) == "old" and _names(tmp_path) == ["out"]


@pytest.mark.parametrize("directory", [True, False])
def test_the_dead_are_cleared_and_the_living_are_not(tmp_path: Path, directory: bool) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from rote.data._temporary import Temporary\n"
        f"part = Temporary(Path(sys.argv[1]), 'out', directory={directory})\n"
        "print(part.path, flush=True); sys.stdin.read(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    part = Path(child.stdout.readline().strip())
    strangers = [tmp_path / ".out.abcdefgh.part", tmp_path / ".out.rote-00000000-0123456789ab", tmp_path / "x"]
    for stranger in strangers:
        stranger.write_text("not ours")
    clear_dead(tmp_path)
    assert part.exists()
    child.stdin.close()
    assert child.wait(60) == -signal.SIGKILL
    child.stdout.close()
    assert part.exists()
    clear_dead(tmp_path)
    assert not part.exists() and all(stranger.exists() for stranger in strangers)


def test_temporary_directories_go_away_in_every_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = folders.Staging(tmp_path)
    (staging.path / "file").write_text("x")
    del staging
    assert _names(tmp_path) == []

    # Interrupted right after it was made, and once more while it is being removed.
    made, removed, interrupts = os.mkdir, shutil.rmtree, [KeyboardInterrupt]

    def interrupted(path: Path, mode: int) -> None:
        made(path, mode)
        raise KeyboardInterrupt

    def slow(path: Path, ignore_errors: bool) -> None:
        if interrupts:
            raise interrupts.pop()
        removed(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(os, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt):
        folders.Staging(tmp_path)
    monkeypatch.undo()
    part = Temporary(tmp_path, "x", directory=True)
    monkeypatch.setattr(shutil, "rmtree", slow)
    with pytest.raises(KeyboardInterrupt):
        part.close()
    assert _names(tmp_path) == []


def test_an_interruption_of_the_collector_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a finaliser raises is dropped with a traceback, so the interruption comes a moment later instead."""
    parts, removed, interrupts = [Temporary(tmp_path, "x", directory=True)], shutil.rmtree, [KeyboardInterrupt]

    def forget() -> None:
        parts.clear()
        for _ in range(200):
            time.sleep(0.1)

    def slow(path: Path, ignore_errors: bool) -> None:
        if interrupts:
            raise interrupts.pop()
        removed(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", slow)
    # A shell may have started the tests in the background, with interruptions ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            forget()
    finally:
        signal.signal(signal.SIGINT, before)
    assert _names(tmp_path) == []


def test_a_file_is_written_to_disk_before_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def noted(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def noting(*args: object) -> object:
            order.append(name)
            return call(*args)

        return noting

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    write_atomically(tmp_path / "out", lambda part: part.write_text("x"))
    assert order == ["fsync", "replace", "fsync"] and _names(tmp_path) == ["out"]


def test_two_grafts_to_one_place_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / ".out.graft").mkdir()
    release = held(tmp_path / ".out.graft")
    facts = tiny_models.write_table(tmp_path / "facts.csv", 4)
    with pytest.raises(OutputError, match="another graft is writing"):
        rote.graft(tmp_path, facts, template="The code {code} is in", answer=" {city}", output=tmp_path / "out")
    assert release is not None and (tmp_path / ".out.graft").is_dir()
    release()


def test_ungraft_takes_nothing_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    made = tmp_path / "made"
    (made / "original").mkdir(parents=True)
    for name in ("config.json", "original/config.json", "model-00002-of-00002.safetensors"):
        (made / name).write_text("{}")
    files, secret = folders.hashes(made), folders.file_sha256(tmp_path / "secret")
    for graft in (
        {"below": 1, "original": [{"was": "../out", "sha256": secret}], "others": {}},
        {"below": 1, "original": [], "others": {"../secret": secret}},
        {"below": 1, "original": [], "others": {"../../secret": secret}},
    ):
        record = {"graft": graft, "files_sha256": files}
        (made / "certificate.json").write_text(json.dumps({**record, HASH: sha256_of(record)}))
        with pytest.raises(CheckpointError, match="no plain name inside"):
            rote.ungraft(made, tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("name", ["thesis.txt", "data/mine.csv", "facts.csv"])
def test_force_does_not_touch_what_is_not_the_model_s(tmp_path: Path, name: str) -> None:
    memory = rote.build(random_facts(6, 2, 5, rng=np.random.default_rng(0)))
    memory.save(tmp_path / "m")
    (tmp_path / "m" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "m" / name).write_text("mine")
    with pytest.raises(OutputError, match="not all of it is a model of rote"):
        memory.save(tmp_path / "m", force=True)
    assert (tmp_path / "m" / name).read_text() == "mine"


def test_force_wants_a_certificate_that_is_one(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "certificate.json").write_text("{}")
    with pytest.raises(OutputError, match="not all of it is a model of rote"):
        rote.build(random_facts(6, 2, 5, rng=np.random.default_rng(0))).save(tmp_path / "m", force=True)


def test_force_keeps_notes_and_refuses_links(tmp_path: Path) -> None:
    table = random_facts(6, 2, 5, rng=np.random.default_rng(0))
    memory = rote.build(table)
    memory.save(tmp_path / "m")
    (tmp_path / "m" / "README.md").write_text("notes")
    (tmp_path / "m" / ".git").mkdir()
    (tmp_path / "m" / ".git" / "HEAD").write_text("x")
    memory.save(tmp_path / "m", force=True)
    assert (tmp_path / "m" / "README.md").read_text() == "notes"
    assert (tmp_path / "m" / ".git" / "HEAD").read_text() == "x"
    assert rote.verify(tmp_path / "m", table).passed
    (tmp_path / "link").symlink_to(tmp_path / "m")
    with pytest.raises(OutputError, match="symbolic link"):
        memory.save(tmp_path / "link", force=True)


def test_what_cannot_be_removed_at_once_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Temporary(tmp_path, "out", directory=True)
    (place.path / "file").write_text("x")
    unlink, calls = os.unlink, []

    def failing(*args: object, **more: object) -> None:
        calls.append(args)
        if len(calls) == 1:
            raise OSError(5, "Input/output error")
        unlink(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "unlink", failing)
    place.close()
    assert len(calls) >= 2 and _names(tmp_path) == []
