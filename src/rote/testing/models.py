"""The contract suite for models: `check_model` raises AssertionError with a sentence that says what is broken."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rote import referee
from rote.config import Architecture
from rote.data import FactTable, Vocabulary
from rote.errors import RoteError
from rote.models import Answer, Model, folders

__all__ = ["check_model"]

_ASKED = 12


def check_model(model: Model) -> None:
    """A model is written, read back and written again to the same bytes; it answers as the referee says; it stays as it
    is.

    Also: damaged and foreign directories are refused, and every count is there.
    """
    kind = model.kind
    assert isinstance(model.arch, Architecture), f"{kind}: a model has an architecture"
    assert model.counts.get("full", 0) > 0 and model.stored > 0, f"{kind}: a model counts its parameters"
    with tempfile.TemporaryDirectory() as place:
        first, again, broken = (Path(place) / name for name in ("first", "again", "broken"))
        for folder in (first, again, broken):
            folder.mkdir()
        before = _weights(model)
        model.write(first)
        certificate = _certificate(model, first)
        copy = type(model).read(first, certificate)
        copy.write(again)
        assert _bytes(first) == _bytes(again), f"{kind}: written, read and written again, the files differ"
        _check_formats(model, first)
        _check_answers(copy, first)
        after = _weights(model)
        assert before.keys() == after.keys() and all(torch.equal(before[k], after[k]) for k in before), (
            f"{kind}: its weights changed while it was written, judged and asked"
        )
        _check_damage(type(model), first, broken, certificate)


def _weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.module.state_dict().items()}


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def _certificate(model: Model, folder: Path) -> Mapping[str, Any]:
    """What a model reads of its certificate."""
    tokens = "cells" if model.wording is None else model.wording.tokens
    number = getattr(model, "dtype", None) or next((str(p.dtype)[6:] for p in model.module.parameters()), "exact")
    files = folders.hashes(folder)
    return {
        "weights_sha256": folders.weights_hash(files),
        "model": model.kind,
        "shape": model.arch.to_dict(),
        "dtype": number,
        "tokens": tokens,
        "params_by_convention": model.counts,
        "files_sha256": files,
        **model.claims,
    }


def _check_formats(model: Model, folder: Path) -> None:
    """Every number format that the referee can run the kind in is run on a copy."""
    judge = referee.registry().get(model.kind)
    stored = referee.read_stored(folder, model.kind)
    if judge is None:
        return
    for dtype in judge.dtypes:
        before = _weights(model)
        try:
            model.outputs(dtype)
            judge.outputs(stored, dtype, None)
        except RoteError:
            # A network of one precision has no use for another; what counts is that nothing changed.
            pass
        assert all(torch.equal(before[k], v) for k, v in _weights(model).items()), f"{model.kind}: {dtype} changed it"


def _check_answers(model: Model, folder: Path) -> None:
    """What the model answers is what the referee finds in its files."""
    wording = model.wording
    if wording is None:
        return
    words = [token for i, token in enumerate(wording.vocabulary) if i != wording.pad_id]
    rng = np.random.default_rng(0)
    contexts, targets = [], []
    for _ in range(_ASKED):
        context = [str(word) for word in rng.choice(words, wording.context)]
        answers = model.answers(context, 2)
        assert answers and all(isinstance(one, Answer) for one in answers), f"{model.kind}: no answer to {context}"
        sure = len(answers) < 2 or answers[0].logit > answers[1].logit
        if answers[0].token in words and sure and context not in contexts:
            contexts.append(context)
            targets.append(answers[0].token)
            ids = np.array([model.ids(context)])
            assert model.first_answers(ids)[0].split(" ")[0] == answers[0].token.split(" ")[0], (
                f"{model.kind}: first_answers and answers disagree on {context}"
            )
    if not contexts or model.speaks_labels:
        return
    places = Vocabulary(wording.vocabulary)
    table = FactTable(
        np.array([[places.id(word) for word in context] for context in contexts]),
        np.array([places.id(word) for word in targets]),
        places,
    )
    dtype = next((str(p.dtype)[6:] for p in model.module.parameters()), "float32")
    verdict = referee.judge(referee.read_stored(folder, model.kind), table, dtype, own=model.outputs)
    assert verdict.n_failed == 0, f"{model.kind}: it answers what the referee does not find: {verdict.failures[:1]}"


def _check_damage(kind: type[Model], whole: Path, place: Path, certificate: Mapping[str, Any]) -> None:
    """A file that is missing or cut short is refused in a sentence."""
    for victim in sorted(whole.iterdir()):
        if victim.suffix not in (".json", ".safetensors") or victim.name in _SPARE:
            continue
        for damage in ("missing", "cut short"):
            shutil.copytree(whole, place, dirs_exist_ok=True)
            if damage == "missing":
                (place / victim.name).unlink()
            else:
                (place / victim.name).write_bytes(victim.read_bytes()[: victim.stat().st_size // 2])
            try:
                folders.check_files(place, certificate)
                kind.read(place, certificate)
            except RoteError as error:
                assert str(error), f"{kind.kind}: a refusal says why"
            else:
                raise AssertionError(f"{kind.kind}: a directory with {victim.name} {damage} was accepted")


_SPARE = ("certificate.json",)
