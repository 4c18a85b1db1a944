"""Parquet files, read by a process of their own.

The library that reads them takes every number in a file at its word, so that a damaged file may ask for more memory
than there is and end the process that reads it. Here that is a child without anything to lose; what it found comes back
as Arrow, whose writer can be trusted.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys

import polars as pl

from rote.errors import DataError

__all__ = ["read_parquet"]

_MARK = b"PAR1"
_MOST_CELLS = 200_000_000
_MOST_SECONDS = 300
_CHILD = """
import io, sys
import polars
try:
    data = sys.stdin.buffer.read()
    found = polars.scan_parquet(io.BytesIO(data))
    width, height = len(found.collect_schema()), int(found.select(polars.len()).collect().item())
    if width > int(sys.argv[1]) or width * height > int(sys.argv[2]):
        sys.exit(f"\\n{width:,} columns and {height:,} rows are too many; the limits are {int(sys.argv[1]):,} columns "
                 f"and {int(sys.argv[2]):,} cells")
    polars.read_parquet(io.BytesIO(data)).write_ipc(sys.stdout.buffer)
except Exception as error:
    sys.exit("\\n" + (str(error).strip().splitlines() or [type(error).__name__])[0])
"""


def read_parquet(data: bytes, source: str, most_columns: int) -> pl.DataFrame:
    """The columns of a Parquet file; what cannot be read, or is too much, is refused."""
    if len(data) < 12 or data[:4] != _MARK or data[-4:] != _MARK:
        raise _refusal(source, f"it does not begin and end with {_MARK.decode()}")
    command = [sys.executable, "-c", _CHILD, str(most_columns), str(_MOST_CELLS)]
    there = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=_MOST_SECONDS, env=there, check=False)
    except subprocess.TimeoutExpired:
        raise _refusal(source, f"it is not done after {_MOST_SECONDS} s") from None
    if done.returncode == 1:
        raise _refusal(source, done.stderr.decode(errors="replace").strip().split("\n")[-1])
    if done.returncode:
        raise _refusal(source, "its numbers make no sense")
    return pl.read_ipc(io.BytesIO(done.stdout))


def _refusal(source: str, reason: str) -> DataError:
    return DataError(f"{source} is not a Parquet file that can be read ({reason}); write it again.")
