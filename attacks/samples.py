"""Whole inputs of every kind, small, to be bent: tables, models, grids, journals, grafts, figures."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import rote
from rote import data
from rote.measurement.cell import Cell
from rote.measurement.journal import Journal
from rote.models import folders

__all__ = ["GRID", "TEXT", "Samples"]

GRID = """name = "heads"
seeds = 2
[base]
d_model = 4
context = 2
vocab = 12
[grid]
n_heads = [1, 2]
[quick]
n_heads = [1]
"""
_NAMES = b'{"model.norm.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
_HEADER = len(_NAMES).to_bytes(8, "little") + _NAMES
_GRAFT = {
    "model.safetensors.index.json": b'{"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}}',
    "model-00001-of-00002.safetensors": b"wider",
    "model-00002-of-00002.safetensors": b"added",
    "original/config.json": b"config",
    "original/model.safetensors.header": _HEADER,
    "original/norms.safetensors": _HEADER + b"1234",
}
"""A model of one norm and one number, with a graft on it."""
ENTRY = """title = "A title"
question = "How many?"
claim = "Some."
deviations = ["none"]
[[sweep]]
seeds = 2
only = "full"
[sweep.base]
d_model = 4
context = 2
vocab = 12
[sweep.grid]
n_heads = [1, 2]
[[figure]]
name = "f"
title = "t"
[[figure.panel]]
x = "n_heads"
y = "recall"
[[test]]
kind = "law"
x = "n_heads"
y = "recall"
[words]
holds = "yes"
"""
TEXT = "the cat sat on the mat and the dog sat on the cat\n" * 4
FIGURE = {
    "title": "t",
    "caption": "c",
    "panels": [
        {
            "title": "p",
            "x": {"label": "x", "log": False},
            "y": {"label": "y", "log": True},
            "series": [{"name": "s", "kind": "points", "x": [1, 2], "y": [1, 2], "low": [0.5, 1], "high": [2, 3]}],
        }
    ],
}
_ROWS = "c1,c2,target\na,b,x\na,c,y\nb,c,x\nd,a,z\n"
_COUNTS = "c1,next,count\na,x,3\na,y,1\nb,x,2\nb,z,5\n"
_LABELS = "c1,c2,l1,l2\na,b,x,y\nb,a,y,y\nc,a,x,x\n"


class Samples:
    """Files of every kind in a folder; each is made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    @cached_property
    def tables(self) -> dict[str, bytes]:
        """By the ending of the name."""
        rng = np.random.default_rng(0)
        place = self.folder / "tables"
        place.mkdir()
        facts = data.random_facts(5, 2, 6, rng=rng)
        for ending in ("csv.gz", "jsonl", "parquet", "tsv"):
            data.write(facts, place / f"facts.{ending}")
        data.write(data.random_vectors(4, 2, 3, rng=rng, n_classes=2), place / "v.safetensors")
        data.write(data.random_vectors(3, 2, 3, rng=rng, sharing="shared"), place / "w.safetensors")
        made = {path.name: path.read_bytes() for path in sorted(place.iterdir())}
        texts = {"a.csv": _ROWS, "counts.csv": _COUNTS, "labels.csv": _LABELS}
        return made | {name: text.encode() for name, text in texts.items()}

    @cached_property
    def models(self) -> tuple[Path, ...]:
        """Model directories of several kinds."""
        rng = np.random.default_rng(1)
        facts = data.random_facts(5, 2, 6, rng=rng)
        made = (
            rote.build(facts, "dana2025_cor1"),
            rote.build(facts, "kajitsuka2025_next_token"),
            rote.build(
                data.random_distributions(4, 1, 4, rng=rng), "dana2025_thm1", d_model=3, dtype="float64", partial=True
            ),
            rote.build(data.random_vectors(3, 2, 4, rng=rng), "mahdavi_random_features"),
        )
        return tuple(one.save(self.folder / one.certificate.construction).folder for one in made)

    @cached_property
    def journal(self) -> bytes:
        path = self.folder / "r.db"
        cells = [Cell(n_heads=heads, d_model=4, context=2, vocab=12) for heads in (1, 2)]
        with Journal(path) as journal:
            for cell in cells:
                journal.put("s", [cell], [{"status": "done", "n_facts": 3, "recall": 0.5, "duration": 1.0}])
            journal.connection.execute("PRAGMA journal_mode = DELETE")
        return path.read_bytes()

    @cached_property
    def graft(self) -> dict[str, Any]:
        """The certificate of a directory that `write_graft` makes, as far as taking the layers off reads it."""

        def sha256(content: bytes) -> str:
            return hashlib.sha256(content).hexdigest()

        return {
            "files_sha256": {name: sha256(content) for name, content in _GRAFT.items()},
            "graft": {
                "layers": {"original": 2, "added": 1},
                "below": 1,
                "channels": 1,
                "original": [{"was": "model.safetensors", "sha256": sha256(_HEADER + b"1234")}],
                "others": {"config.json": sha256(_GRAFT["original/config.json"])},
            },
        }

    def write_graft(self, folder: Path, certificate: str) -> None:
        """A grafted directory without weights that mean anything."""
        (folder / "original").mkdir(parents=True)
        for name, content in _GRAFT.items():
            (folder / name).write_bytes(content)
        (folder / folders.CERTIFICATE).write_bytes(certificate.encode("utf-8", "surrogatepass"))

    @cached_property
    def entry(self) -> dict[str, Any]:
        """An entry.json of a reproduction."""
        texts = {
            name: name for name in ("entry", "title", "question", "claim", "sentence", "answer", "command", "mode")
        }
        return {**texts, "verdict": "holds", "deviations": ["d"], "figures": [{"name": "f"}], "tests": [], "config": {}}


def as_json(value: Any) -> str:
    """JSON, or nearly: NaN, infinities and half surrogates are written as they are."""
    return json.dumps(value, ensure_ascii=False, indent=1)
