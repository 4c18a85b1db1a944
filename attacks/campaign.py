"""What a campaign is, and how one is run.

A campaign is a module of this package with `title`, one line; `promise`, what must hold whatever is tried; and
`trials`, which attacks for as long as it is asked to and yields what happened. The same seed gives the same attacks, so
that a failure can be repeated: it carries the seed and a description of the try.
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

__all__ = ["CAMPAIGNS", "Campaign", "Report", "Trial", "add_to_record", "campaign", "run"]

CAMPAIGNS = ("fuzz", "certificates", "tampering", "kills", "explorer", "cluster")


@dataclass(frozen=True)
class Trial:
    """One attack, or several of a kind; `failure` says what happened that must not, and is empty otherwise."""

    what: str
    failure: str = ""
    tries: int = 1
    group: str = ""
    """What was attacked, for counts by group."""


class Campaign(Protocol):
    """A module of this package."""

    title: str
    promise: str

    def trials(self, seed: int, workplace: Path) -> Iterator[Trial]:
        """Attack until nobody asks for more, or until everything has been tried."""


@dataclass
class Report:
    """Tries and failures of one campaign."""

    campaign: str
    seed: int
    tries: int = 0
    seconds: float = 0.0
    groups: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, trial: Trial) -> None:
        self.tries += trial.tries
        if trial.group:
            self.groups[trial.group] = self.groups.get(trial.group, 0) + trial.tries
        if trial.failure:
            self.failures.append(f"{trial.what}: {trial.failure}")


def campaign(name: str) -> Campaign:
    """A campaign by name."""
    return cast(Campaign, importlib.import_module(f"attacks.{name}"))


def run(
    name: str,
    seed: int = 0,
    *,
    seconds: float = 60.0,
    tries: int | None = None,
    told: Callable[[Report], None] = lambda _: None,
) -> Report:
    """Attack for so many seconds, or until so many tries are done."""
    report, started = Report(name, seed), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rote-attack-", ignore_cleanup_errors=True) as place:
        attack = campaign(name).trials(seed, Path(place))
        try:
            for trial in attack:
                report.add(trial)
                report.seconds = time.monotonic() - started
                told(report)
                if report.seconds >= seconds or (tries is not None and report.tries >= tries):
                    break
        except KeyboardInterrupt:
            pass  # what was tried until then counts
        finally:
            getattr(attack, "close", lambda: None)()
    return report


def add_to_record(path: Path, report: Report) -> None:
    """Add a run to those of its campaign in a file; written whole or not at all."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    new = asdict(report)
    new.update(seconds=round(report.seconds, 1), groups=dict(sorted(report.groups.items())))
    record.setdefault(new.pop("campaign"), []).append(new)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)
