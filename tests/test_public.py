"""The exported names are pinned: adding or removing one is a decision."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rote

RECORDS = [
    "ArgmaxFit",
    "BitExtraction",
    "DistributionRefit",
    "ExactAssociation",
    "Graft",
    "HashedSequences",
    "HashedTable",
    "Interpolation",
    "LocalHeads",
    "MlpFit",
    "RandomFeatures",
    "Saturation",
    "SequenceBitExtraction",
    "StockHashed",
    "StockLlama",
    "Trained",
]
"""The Options of every construction."""

VERBS = [
    "audit",
    "bound",
    "bounds",
    "bounds_frame",
    "build",
    "check",
    "compare",
    "condition",
    "edit",
    "export",
    "fit",
    "graft",
    "graft_add",
    "graft_apply",
    "graft_pack",
    "graft_remove",
    "graft_update",
    "load",
    "measure",
    "plan",
    "prompts",
    "read",
    "report",
    "reproduce",
    "sweep",
    "ungraft",
    "verify",
    "zoo",
]

OTHERS = [
    "Architecture",
    "Bound",
    "Bounds",
    "Certificate",
    "Change",
    "Citation",
    "Condition",
    "Construction",
    "Demand",
    "DistributionTable",
    "FactTable",
    "Memory",
    "Model",
    "Options",
    "Plan",
    "Plans",
    "PromptTable",
    "RoteError",
    "SequenceTable",
    "Setting",
    "Shape",
    "Table",
    "Theorem",
    "VectorTable",
    "Verification",
    "__version__",
]


def test_exported_names() -> None:
    assert sorted(rote.__all__) == sorted([*RECORDS, *VERBS, *OTHERS])
    assert set(dir(rote)) == set(rote.__all__)
    with pytest.raises(AttributeError, match="biuld"):
        _ = rote.biuld


@pytest.mark.parametrize("name", rote.__all__)
def test_every_name_loads_and_says_what_it_is(name: str) -> None:
    # Twice: loading a name may bind a package of the same name.
    assert getattr(rote, name) is not None
    public = getattr(rote, name)
    if name == "__version__":
        assert public.startswith("0.")
        return
    assert callable(public)
    assert public.__doc__


def test_names_for_type_checkers_are_the_same() -> None:
    """What mypy sees under TYPE_CHECKING, and what is loaded on first use, come from the same modules."""
    tree = ast.parse(Path(rote.__file__).read_text(encoding="utf-8"))
    typed = {
        alias.asname: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == rote._HOME
    assert {*typed, "__version__"} == set(rote.__all__)


def test_every_construction_has_its_record_here() -> None:
    from rote import constructions

    records = {one.Options.__name__: one.Options for one in constructions.registry().values()}
    # One that is added is found without a line here; `rote` names ours, for editors and type checkers.
    assert set(records) >= set(RECORDS)
    assert all(getattr(rote, name) is record for name, record in records.items())


def test_importing_rote_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'numpy', 'polars', 'scipy', 'transformers', 'typer', 'rote.constructions', 'rote.data'}"
    script = f"import sys, rote; loaded = {heavy} & set(sys.modules); assert not loaded, loaded"
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_one_reader_for_files_and_shipped_names(tmp_path: Path) -> None:
    shipped = rote.read("elements")
    assert (shipped.kind, shipped.n_facts) == ("facts", 472)
    assert shipped.reading is not None and shipped.reading.shipped
    shipped.write(tmp_path / "mine.csv")
    for source in (tmp_path / "mine.csv", str(tmp_path / "mine.csv")):
        mine = rote.read(source)
        assert mine == shipped and type(mine) is type(shipped)
        assert mine.reading is not None and not mine.reading.shipped
    with pytest.raises(rote.RoteError, match="did you mean 'elements'"):
        rote.read("elemens")


def test_reprs_are_short() -> None:
    table = rote.read("elements")
    arch = rote.Architecture(4, 8, 8, 2, table.demand("float32", rote.Shape()).vocab)
    for record in (
        table,
        rote.plan(table),
        rote.bounds(arch),
        rote.bounds(arch)[0],
        rote.check(table),
        rote.ArgmaxFit(refine=True),
        rote.Shape(n_heads=2),
        arch,
    ):
        assert len(repr(record)) < 200, repr(record)
        assert "\n" not in repr(record)


TABLE_LIKE: tuple[Any, ...] = (
    None,
    3,
    2.5,
    "nothing-there",
    "a\0b",
    Path("nope.csv"),
    [],
    [1, 2],
    {},
    {"a": 1},
    b"x",
    object(),
    True,
)
FUNCTIONS: dict[str, tuple[object, ...]] = {
    "audit": ("nothing.txt",), "bounds": (), "build": (), "check": (), "fit": ("n_heads", "recall"),
    "graft": ("nope.csv",), "load": (), "plan": (), "read": (), "ungraft": (), "verify": (),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_function_cannot_take_is_refused_in_a_sentence(name: str) -> None:
    for thing in TABLE_LIKE:
        with pytest.raises(rote.RoteError, match=r".*\w.*[.?]$"):
            getattr(rote, name)(thing, *FUNCTIONS[name])


@pytest.mark.parametrize("argument", ["kind", "target", "columns", "tokens", "on_conflict", "weight", "choices"])
def test_arguments_of_other_types_are_refused_by_name(argument: str) -> None:
    for thing in (3, 2.5, True, object(), b"x", Path("x")):
        with pytest.raises(rote.RoteError, match=argument):
            rote.read("countries", **{argument: thing})  # type: ignore[arg-type]


def test_sentences_of_the_library_name_no_flags() -> None:
    """`--flags` are for the command line, and for commands that are shown to be run."""
    home = Path(rote.__file__).parent
    shown = ("pip install", "ray start", "commands = (")
    for path in sorted(home.rglob("*.py")):
        if path.relative_to(home).parts[0] in ("cli", "web", "demo", "errors.py", "__main__.py"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"`rote \w+ -", line) and not any(words in line for words in shown):
                pytest.fail(f"{path.relative_to(home)}:{number}: {line.strip()}")
