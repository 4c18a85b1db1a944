"""The registry of studies, and a study's cell: a kind, its parameters and a seed, with a content hash."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import Any

from rote.config import content_hash
from rote.errors import UnknownName, UsageError, check_names
from rote.lab._modules import modules
from rote.measurement.run import attempt

__all__ = ["Study", "StudyCell", "get_study", "run_study", "studies"]

_FORMAT = 1
_MOST_SEED = 2**63 - 1
_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", list: "a list"}
_SECONDS = 5.0
"""What a run is taken to last where the study does not say."""


@dataclass(frozen=True)
class Study:
    """One module of this package."""

    kind: str
    params: Mapping[str, tuple[type, Any]]
    run: Callable[[Mapping[str, Any], int], list[dict[str, Any]]]
    seconds: Callable[[Mapping[str, Any]], float]
    keys: tuple[str, ...]
    title: str


@cache
def studies() -> MappingProxyType[str, Study]:
    """All studies by kind."""
    known = {}
    for name, module, title in modules("rote.lab.studies"):
        if not callable(getattr(module, "run", None)) or not isinstance(getattr(module, "PARAMS", None), Mapping):
            raise TypeError(f"study file {name!r} must define PARAMS and run(params, seed).")
        seconds, keys = getattr(module, "seconds", lambda params: _SECONDS), tuple(getattr(module, "KEYS", ()))
        known[name] = Study(name, MappingProxyType(dict(module.PARAMS)), module.run, seconds, keys, title)
    return MappingProxyType(known)


def get_study(kind: str) -> Study:
    """The study of that kind, or an error that suggests the nearest."""
    if kind not in studies():
        raise UnknownName("study", kind, studies())
    return studies()[kind]


@dataclass(frozen=True)
class StudyCell:
    """What is asked of a study. `params` holds every parameter, defaults too, in the order of their names."""

    kind: str
    params: tuple[tuple[str, Any], ...]
    seed: int = 0

    @classmethod
    def of(cls, kind: str, params: Mapping[str, Any], seed: int = 0) -> StudyCell:
        """Check the parameters against the study's own, and fill in defaults."""
        study = get_study(kind)
        check_names(f"parameter of the study {kind}", params, study.params)
        values = {}
        for name, (type_, default) in study.params.items():
            value = params.get(name, default)
            if value is None:
                raise UsageError(f"the study {kind} needs {name} ({_WORDS.get(type_, type_.__name__)}).")
            values[name] = _checked(kind, name, value, type_)
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _MOST_SEED:
            raise UsageError(f"a seed is a whole number from 0, got {seed!r}.")
        return cls(kind, tuple(sorted(values.items())), seed)

    @property
    def values(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self.params}

    def to_dict(self) -> dict[str, Any]:
        return {"study": self.kind, **self.values, "seed": self.seed}

    @property
    def hash(self) -> str:
        """A content hash: the same question has the same one on every machine."""
        return content_hash({"study_format": _FORMAT, **self.to_dict()})

    @property
    def group(self) -> str:
        """Studies are run one by one."""
        return self.hash

    @property
    def short(self) -> str:
        return f"({self.kind}, {', '.join(f'{k} {v}' for k, v in self.values.items())}, seed {self.seed})"

    @property
    def runner(self) -> Callable[..., list[dict[str, Any]]]:
        return run_study

    @property
    def source(self) -> str:
        return f"study:{self.kind}"

    def seconds(self) -> float:
        return float(get_study(self.kind).seconds(self.values))


def _checked(kind: str, name: str, value: Any, type_: type) -> Any:
    if type_ is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type_ is list and isinstance(value, tuple):
        value = list(value)
    if not isinstance(value, type_) or (type_ is not bool and isinstance(value, bool)):
        raise UsageError(f"study {kind}: {name} must be {_WORDS.get(type_, type_.__name__)}, got {value!r}.")
    if isinstance(value, int) and value < 0:
        raise UsageError(f"study {kind}: {name} must be at least 0, got {value}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"study {kind}: {name} must be a finite number, got {value!r}.")
    return tuple(value) if isinstance(value, list) else value


def run_study(
    records: Sequence[Mapping[str, Any]], *, max_memory: int | None = None, device: str = "cpu"
) -> list[dict[str, Any]]:
    """Results of study cells, in order; a failure is a result with its reason. This is all that a worker does."""
    results = []
    for record in records:
        before = time.process_time()
        rows, reason = attempt(partial(_rows, record))
        item = (
            {"status": "failed", "reason": reason} if rows is None else {"status": "done", "reason": "", "rows": rows}
        )
        results.append({**item, "duration": time.process_time() - before})
    return results


def _rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    params = {k: v for k, v in record.items() if k not in ("study", "seed")}
    cell = StudyCell.of(str(record["study"]), params, record["seed"])
    return [_plain(row) for row in get_study(cell.kind).run(cell.values, cell.seed)]


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as Python has them; what is not finite is nothing."""
    plain: dict[str, Any] = {}
    for name, value in row.items():
        kept = value.item() if hasattr(value, "item") else value
        if isinstance(kept, float) and not math.isfinite(kept):
            kept = None
        if kept is not None and not isinstance(kept, (bool, int, float, str)):
            raise UsageError(f"a row of a study holds plain numbers and texts; {name} is a {type(kept).__name__}.")
        plain[str(name)] = kept
    return plain
