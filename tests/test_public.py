"""The exported names are pinned: adding or removing one is a decision."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rote


def test_exported_names() -> None:
    assert sorted(rote.__all__) == [
        "Architecture",
        "Bound",
        "Demand",
        "FactTable",
        "Memory",
        "Plan",
        "PlanList",
        "RoteError",
        "SequenceTable",
        "Setting",
        "Theorem",
        "VectorTable",
        "__version__",
        "bounds",
        "build",
        "load",
        "load_facts",
        "plan",
        "read_facts",
        "read_sequences",
        "verify",
    ]
    for name in rote.__all__:
        assert getattr(rote, name) is not None
    assert set(dir(rote)) == set(rote.__all__)
    with pytest.raises(AttributeError, match="biuld"):
        _ = rote.biuld


def test_importing_rote_loads_nothing_heavy() -> None:
    script = "import sys, rote; assert not {'torch', 'numpy', 'polars'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
