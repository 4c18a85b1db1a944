"""Model directories that somebody changed: files, names and claims."""

# mypy: disable-error-code="misc"

from __future__ import annotations

import contextlib
import itertools
import json
import random
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attacks.campaign import Trial

title = "files flipped, cut, swapped, added and removed; claims edited, with and without a fresh hash"
promise = "what was changed is refused in a sentence, contradicted, or listed as unchecked"

CERTIFICATE = "certificate.json"
_ROUND = 25
_PATIENCE = 60
_ADDED = (
    "adapter_config.json", "adapter_model.safetensors", "pytorch_model.bin", "pytorch_model.bin.index.json",
    "modeling_x.py", "configuration_x.py", "generation_config.json", "added_tokens.json", "special_tokens_map.json",
    "chat_template.jinja", "chat_templates/other.jinja", "model.safetensors.index.json", "vocab.json", "merges.txt",
    "model-00002-of-00002.safetensors", "model-00009-of-00009.safetensors", "tf_model.h5", "flax_model.msgpack",
    "quantize_config.json", "tokenizer.model", "spiece.model", "preprocessor_config.json",
    "original/params.json", "__init__.py", ".hidden", "custom_generate/generate.py", "distributions.npz", "a/b/c.json",
)  # fmt: skip
_MARK = "ran"


@dataclass(frozen=True)
class Place:
    """A model directory of one kind, and another of the same kind with other facts."""

    kind: str
    whole: Path
    other: Path
    unchecked: tuple[str, ...]
    """Claims that no verification can check."""


def trials(seed: int, workplace: Path) -> Iterator[Trial]:
    rng = random.Random(seed)
    makers = dict(_makers())
    places: dict[str, tuple[Place, Iterator[tuple[str, Callable[[Path], object], str]]]] = {}
    while True:
        for kind, make in makers.items():
            if kind not in places:
                home = workplace / kind
                home.mkdir()
                whole, other = make(home, 0), make(home, 1)
                said, unchecked = _verdict(whole)
                place = Place(kind, whole, other, unchecked)
                places[kind] = place, _attacks(place, rng)
                yield Trial(f"{kind} as it was built", "" if said == "accepted" else said, group=kind)
            place, attacks = places[kind]
            for what, change, claim in itertools.islice(attacks, _ROUND):
                yield Trial(f"{kind}: {what}", _tried(place, change, claim, workplace), group=kind)


def _tried(place: Place, change: Callable[[Path], object], claim: str, workplace: Path) -> str:
    """What must not have happened after a change to a copy; empty where all is well."""
    copy = place.whole.with_name("copy")
    shutil.copytree(place.whole, copy)
    mark = workplace / _MARK
    try:
        if change(copy) is False:
            return ""
        said, unchecked = _verdict(copy)
    finally:
        for left in (copy, copy.with_name("away")):
            shutil.rmtree(left, ignore_errors=True)
    if mark.exists():
        mark.unlink()
        return "code in the directory was run"
    if said != "accepted":
        return "" if said in ("refused", "contradicted") else said
    # A claim that was removed says nothing any more, if nobody can say that it must be there.
    if {claim, claim.partition(".")[0]} & {*unchecked, *place.unchecked}:
        return ""
    return "accepted, and nothing was said about it"


def _verdict(folder: Path) -> tuple[str, tuple[str, ...]]:
    """accepted, refused or contradicted, or what went wrong; and the claims that were not checked."""
    import rote

    try:
        with _patience():
            memory = rote.load(folder)
            result = rote.verify(memory, all_formats=True)
    except rote.RoteError as error:
        return ("refused" if str(error).strip() else "a refusal without a word"), ()
    except Exception:
        return f"not a refusal but {traceback.format_exc(limit=-3)}", ()
    contradicted = result.contradicted or not result.confirms(memory.certificate)
    return ("contradicted" if contradicted else "accepted"), result.unchecked


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """What hangs is a failure too."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"no answer within {_PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(_PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# --- what is attacked ------------------------------------------------------------------------------------------------


def _makers() -> Iterator[tuple[str, Callable[[Path, int], Path]]]:
    import numpy as np

    import rote
    from rote import data

    def built(table: Any, ending: str, **how: Any) -> Callable[[Path, int], Path]:
        def make(home: Path, seed: int) -> Path:
            file = home / f"facts{seed}{ending}"
            choices = table(np.random.default_rng(seed)).write(file)
            return rote.build(rote.read(file, choices=choices), **how).save(home / f"model{seed}").folder

        return make

    yield "transformer", built(lambda rng: data.random_facts(24, 2, 9, rng=rng), ".csv", with_="dana2025_cor1")
    yield (
        "attention_layer",
        built(lambda rng: data.random_vectors(12, 4, 6, rng=rng, n_classes=3), ".safetensors"),
    )
    yield (
        "exact_transformer",
        built(
            lambda rng: data.random_facts(12, 2, 9, rng=rng),
            ".csv",
            with_=rote.BitExtraction(with_positions=True),
            dtype="float64",
        ),
    )
    yield (
        "distributions",
        built(
            lambda rng: data.random_distributions(10, 2, 6, rng=rng),
            ".csv",
            with_=rote.DistributionRefit(starts=1),
            d_model=2,
        ),
    )
    yield "llama", built(lambda rng: data.random_facts(16, 2, 8, rng=rng), ".csv", arch="llama")
    yield "grafted", _grafted


def _grafted(home: Path, seed: int) -> Path:
    import rote
    from attacks import tiny_models

    model = home / "original"
    if not model.exists():
        tiny_models.write_tiny(model, tied=True)
    facts = tiny_models.write_table(home / f"facts{seed}.csv", 8, seed)
    text = tiny_models.write_text(home / "keep.txt", 6000)
    options = rote.Graft(keep=text, examined=2)
    how: dict[str, Any] = {"template": "The code {code} is in", "answer": " {city}"}
    return rote.graft(model, facts, options=options, output=home / f"model{seed}", **how).folder


# --- attacks ---------------------------------------------------------------------------------------------------------


def _attacks(place: Place, rng: random.Random) -> Iterator[tuple[str, Callable[[Path], object], str]]:
    """What is done, the change, and the claim that was edited, if its certificate has a hash that fits; without end."""
    while True:
        ways = [*_on_files(place, rng), *_additions(place, rng), *_on_claims(place, rng)]
        rng.shuffle(ways)
        yield from ways


def _names(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and path.name != "README.md"
    )


def _on_files(place: Place, rng: random.Random) -> Iterator[tuple[str, Callable[[Path], object], str]]:
    for name in _names(place.whole):
        size = (place.whole / name).stat().st_size
        bits = sorted(rng.randrange(8 * size) for _ in range(rng.choice((1, 1, 2, 9))))
        yield f"{name} with bits {bits} flipped", lambda copy, n=name, b=bits: _flip(copy / n, b), ""
        cut = rng.randrange(size)
        yield f"{name} cut to {cut} bytes", lambda copy, n=name, c=cut: _rewrite(copy / n, lambda raw: raw[:c]), ""
        more = bytes(rng.randrange(33, 256) for _ in range(rng.choice((1, 8, 100))))
        yield f"{name} with {more!r} after it", lambda copy, n=name, m=more: _rewrite(copy / n, lambda raw: raw + m), ""
        yield f"{name} emptied", lambda copy, n=name: _rewrite(copy / n, lambda raw: b""), ""
        yield f"{name} removed", lambda copy, n=name: (copy / n).unlink(), ""
        yield f"{name} of another model", lambda copy, n=name: _swap(copy, place.other, n), ""
        yield f"{name} as a link", lambda copy, n=name: _link(copy, n), ""
        yield f"{name} as a directory", lambda copy, n=name: _as_directory(copy / n), ""
        yield f"{name} as a pipe", lambda copy, n=name: _as_pipe(copy / n), ""


def _flip(path: Path, bits: list[int]) -> bool:
    def change(raw: bytes) -> bytes:
        changed = bytearray(raw)
        for bit in bits:
            changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)

    return _rewrite(path, change)


def _rewrite(path: Path, change: Callable[[bytes], bytes]) -> bool:
    """Whether that changed anything."""
    raw = path.read_bytes()
    path.write_bytes(change(raw))
    return change(raw) != raw


def _swap(copy: Path, other: Path, name: str) -> bool:
    if not (other / name).is_file() or (other / name).read_bytes() == (copy / name).read_bytes():
        return False
    shutil.copyfile(other / name, copy / name)
    return True


def _link(copy: Path, name: str) -> None:
    away = copy.with_name("away")
    away.mkdir(exist_ok=True)
    shutil.move(copy / name, away / "file")
    (copy / name).symlink_to(away / "file")


def _as_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _as_pipe(path: Path) -> None:
    import os

    path.unlink()
    os.mkfifo(path)


def _additions(place: Place, rng: random.Random) -> Iterator[tuple[str, Callable[[Path], object], str]]:
    for name in _ADDED:
        raw = rng.choice((b"{}", b"", rng.randbytes(40), b'{"peft_type": "LORA", "base_model_name_or_path": "."}'))
        yield f"{name} added with {raw!r}", lambda copy, n=name, r=raw: _add(copy / n, r), ""
    donor = rng.choice([name for name in _names(place.other) if name != CERTIFICATE])
    for name in (
        "pytorch_model.bin",
        "model-00002-of-00002.safetensors",
        "adapter_model.safetensors",
        "original/x.json",
    ):
        raw = (place.other / donor).read_bytes()
        yield f"{name} added, which is {donor} of another model", lambda copy, n=name, r=raw: _add(copy / n, r), ""
    yield "an empty directory added", lambda copy: (copy / "empty").mkdir(), ""
    yield "a link to elsewhere added", lambda copy: (copy / "LICENSE").symlink_to(place.other / CERTIFICATE), ""
    yield "a link to a directory added", lambda copy: (copy / "more").symlink_to(place.other), ""
    yield (
        "code of its own, hashes recomputed",
        lambda copy: _remote_code(copy, place.whole.parents[1] / _MARK),
        "anything",
    )


def _add(path: Path, raw: bytes) -> bool:
    if path.exists():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return True


def _remote_code(copy: Path, mark: Path) -> bool:
    """A module that the configuration points to, listed with its hash; it may be refused, but never run."""
    from rote.models import folders

    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    config["auto_map"] = {name: f"modeling_x.{name}" for name in ("AutoConfig", "AutoModelForCausalLM")}
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (copy / "modeling_x.py").write_text(f"open({str(mark)!r}, 'w').close()\n", encoding="utf-8")
    record = json.loads((copy / CERTIFICATE).read_text(encoding="utf-8"))
    (copy / CERTIFICATE).unlink()
    record["files_sha256"] = folders.hashes(copy)
    _certify(copy, record)
    said, _ = _verdict(copy)
    # What lies there is judged as it is; only what it did counts.
    return mark.exists() or said.startswith("not a refusal")


def _certify(folder: Path, record: dict[str, Any]) -> None:
    from rote.certificate import HASH, sha256_of

    record[HASH] = sha256_of(record)
    (folder / CERTIFICATE).write_text(json.dumps(record, indent=2), encoding="utf-8")


# --- claims ----------------------------------------------------------------------------------------------------------


def _on_claims(place: Place, rng: random.Random) -> Iterator[tuple[str, Callable[[Path], object], str]]:
    record = json.loads((place.whole / CERTIFICATE).read_text(encoding="utf-8"))
    for keys in _paths(record):
        value: Any = record
        for key in keys:
            value = value[key]
        name = ".".join(keys)
        for new in (*_others(value, rng), _GONE):
            for fresh in (True, False):
                if fresh and name == "certificate_sha256":
                    continue
                told = "removed" if new is _GONE else f"set to {json.dumps(new)}"
                yield (
                    f"{name} {told}, {'with' if fresh else 'without'} a fresh hash",
                    lambda copy, k=keys, n=new, f=fresh: _edit(copy, k, n, f),
                    name if fresh else "",
                )
    for fresh in (True, False):
        yield f"a claim added, fresh hash: {fresh}", lambda copy, f=fresh: _edit(copy, ("zzz",), 1, f), "zzz" * fresh


_GONE = object()


def _paths(record: dict[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in record.items():
        yield (*before, key)
        if isinstance(value, dict):
            yield from _paths(value, (*before, key))


def _others(value: Any, rng: random.Random) -> list[Any]:
    """Values that are not this one."""
    wild = rng.choice([None, -1, "zzz", [], {}, 1e308, True, [[1]], {"a": {"b": None}}, "../../etc/passwd"])
    match value:
        case bool():
            near: list[Any] = [not value]
        case int():
            near = [value + 1, 0]
        case float():
            near = [3 * value + 1, -value - 1]
        case str():
            near = [f"{value}x", ""]
        case list():
            near = [[], [*value, "x"]]
        case dict():
            near = [{}, {**value, "zzz": 1}]
        case _:
            near = [1, "x"]
    return [new for new in (*near, wild) if new != value or type(new) is not type(value)]


def _edit(copy: Path, keys: tuple[str, ...], new: Any, fresh: bool) -> bool:
    record = json.loads((copy / CERTIFICATE).read_text(encoding="utf-8"))
    at = record
    for key in keys[:-1]:
        at = at[key]
    if new is _GONE:
        del at[keys[-1]]
    else:
        at[keys[-1]] = new
    if fresh:
        _certify(copy, record)
    else:
        (copy / CERTIFICATE).write_text(json.dumps(record, indent=2), encoding="utf-8")
    return True
