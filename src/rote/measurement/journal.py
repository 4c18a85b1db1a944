"""The journal: one SQLite file that every result goes into, row by row, and that nothing but a result ever enters.

A row is keyed by its cell's content hash, so that a result can be there once or not at all. The file is in WAL mode
with full synchronisation: a process that is killed at any moment leaves every committed row and no half of one. Rows of
a group are committed together.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rote._version import __version__
from rote.data._atomic import disk_is_full
from rote.data.contents import as_path
from rote.data.records import json_value
from rote.errors import DataError, OutputError

if TYPE_CHECKING:
    from rote.measurement.sweeps import Work

__all__ = ["Journal"]

SCHEMA = 1
_APPLICATION = 0x726F7465  # "rote"
_WAIT_SECONDS = 60
_FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""What a damaged file raises: the library cannot decode some of its own complaints."""
_TABLE = """
CREATE TABLE IF NOT EXISTS cells (
    hash TEXT PRIMARY KEY,
    sweep TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    seed INTEGER NOT NULL,
    config TEXT NOT NULL,
    result TEXT NOT NULL,
    version TEXT NOT NULL,
    duration REAL NOT NULL,
    finished TEXT NOT NULL
) STRICT
"""
_PUT = """
INSERT INTO cells (hash, sweep, status, reason, seed, config, result, version, duration, finished)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (hash) DO UPDATE SET
    sweep = excluded.sweep, status = excluded.status, reason = excluded.reason, result = excluded.result,
    version = excluded.version, duration = excluded.duration, finished = excluded.finished
WHERE cells.status <> 'done'
"""


class Journal:
    """Results in one file. Use it as a context manager; `write=False` neither creates nor changes anything."""

    def __init__(self, path: str | Path, *, write: bool = True) -> None:
        self.path = as_path(path, "a file of results")
        if self.path.is_dir():
            raise OutputError(f"{self.path} is a directory; name a file for the results.")
        if not write and not self.path.is_file():
            raise DataError(f"there is no file {self.path}; give a file that a sweep wrote its results to.")
        if write and not self.path.parent.is_dir():
            raise OutputError(f"cannot write {self.path}: the directory {self.path.parent} does not exist; create it.")
        try:
            self.connection = self._open(write)
            self._check(write)
        except _FAULTS as error:
            raise self._refusal(error) from error

    def _open(self, write: bool) -> sqlite3.Connection:
        if write:
            return sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
        where = self.path.resolve().as_uri()
        connection = sqlite3.connect(f"{where}?mode=ro", uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError:
            # A directory that cannot be written to has no room for the shared memory of WAL mode.
            connection.close()
            if self.path.with_name(self.path.name + "-wal").exists():
                raise
            connection = sqlite3.connect(f"{where}?immutable=1", uri=True, isolation_level=None)
        return connection

    def _check(self, write: bool) -> None:
        db = self.connection
        application = db.execute("PRAGMA application_id").fetchone()[0]
        version = db.execute("PRAGMA user_version").fetchone()[0]
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        empty = not tables and application == 0
        if not empty and application != _APPLICATION:
            self.close()
            raise DataError(f"{self.path} is an SQLite file of another program; name another file for the results.")
        if not empty and version != SCHEMA:
            self.close()
            raise DataError(
                f"{self.path} was written by another version of rote (journal format {version}, this one reads "
                f"{SCHEMA}); use that version, or name another file."
            )
        if empty and not write:
            self.close()
            raise DataError(f"{self.path} holds no results: it is an empty file.")
        if write:
            # Each of these takes a lock, waits for others, and changes nothing that is already so.
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            db.execute(_TABLE)
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {SCHEMA}")
            db.execute("COMMIT")

    def put(self, sweep: str, cells: Sequence[Work], results: Sequence[Mapping[str, Any]]) -> None:
        """Store the results of a group, all or none. A row that is done is never replaced.

        A result that was measured elsewhere says by which version and when.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        rows = []
        for cell, result in zip(cells, results, strict=True):
            rest = {k: v for k, v in result.items() if k not in ("status", "reason", "duration", "version", "finished")}
            rows.append(
                (
                    cell.hash,
                    sweep,
                    str(result["status"]),
                    str(result.get("reason", "")),
                    cell.seed,
                    json.dumps(cell.to_dict(), sort_keys=True),
                    json.dumps(rest, sort_keys=True, allow_nan=False),
                    str(result.get("version", __version__)),
                    float(result.get("duration", 0.0)),
                    str(result.get("finished", now)),
                )
            )
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                self.connection.executemany(_PUT, rows)
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
        except _FAULTS as error:
            raise self._refusal(error) from error

    def statuses(self) -> dict[str, str]:
        """Status by hash."""
        try:
            return dict(self.connection.execute("SELECT hash, status FROM cells"))
        except _FAULTS as error:
            raise self._refusal(error) from error

    def configs(self) -> dict[str, dict[str, Any]]:
        """What was asked, by hash; a row of `rows` has results in the place of what was left open."""
        try:
            rows = self.connection.execute("SELECT hash, config FROM cells ORDER BY config").fetchall()
        except _FAULTS as error:
            raise self._refusal(error) from error
        return {key: self._record(key, config) for key, config in rows}

    def lines(self) -> Iterator[dict[str, Any]]:
        """Every row as it is kept, `config` and `result` read, in the order of the cells' configurations."""
        names = ("hash", "sweep", "status", "reason", "seed", "config", "result", "version", "duration", "finished")
        try:
            records = self.connection.execute(f"SELECT {', '.join(names)} FROM cells ORDER BY config").fetchall()
        except _FAULTS as error:
            raise self._refusal(error) from error
        for record in records:
            line = dict(zip(names, record, strict=True))
            for name in ("config", "result"):
                line[name] = self._record(line["hash"], line[name])
            yield line

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every result as flat records (a study may have several), in the order of the cells' configurations."""
        books = ("status", "reason", "sweep", "version", "duration", "finished", "hash")
        for line in self.lines():
            # The number of facts of a result is the one that was used; None in a configuration means all.
            shape, values, told = line["config"], line["result"], {name: line[name] for name in books}
            parts = values.pop("rows", [{}])
            if not isinstance(parts, list) or not all(isinstance(one, dict) for one in parts):
                raise self._damaged(line["hash"])
            for one in parts:
                yield {**shape, **values, **one, **told}

    def _record(self, key: object, text: object) -> dict[str, Any]:
        """What a row holds as JSON; a row that holds anything but an object is damaged."""
        try:
            found = json_value(text) if isinstance(text, str) else None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._damaged(key)
        return found

    def _damaged(self, key: object) -> DataError:
        return DataError(f"{self.path}: the row {str(key)[:12]} is damaged; delete it, and run the sweep again.")

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _refusal(self, error: sqlite3.Error | UnicodeDecodeError) -> OutputError | DataError:
        text = str(error)
        damaged = ("not a database", "malformed", "codec can't decode", "Could not decode")
        if any(words in text for words in damaged):
            return DataError(f"{self.path} is no SQLite file, or it is damaged ({text}); name another file.")
        if disk_is_full(error, self.path if "I/O" in text else None):
            return OutputError(
                f"cannot write {self.path}: the disk is full. Finished groups are kept; free some space and run again."
            )
        if "readonly" in text:
            return OutputError(
                f"cannot write {self.path}: it is read-only; change its permissions or name another file."
            )
        if "locked" in text or "busy" in text:
            return OutputError(f"{self.path} is locked by another program; wait for it, or name another file.")
        if "unable to open" in text:
            return OutputError(f"cannot open {self.path}: check the path and its permissions.")
        return OutputError(f"{self.path}: {text}; what was finished before is kept.")
