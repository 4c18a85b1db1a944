"""The referee imports nothing of what builds, writes or describes models, not even by detour, not even for types."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rote

HOUSE = Path(rote.__file__).parent
FORBIDDEN = (
    "constructions", "models", "solvers", "theorems", "pipeline", "memory", "certificate", "assumptions", "analyse",
    "measure", "lab",
)  # fmt: skip


def file_of(module: str) -> Path | None:
    place = HOUSE.joinpath(*module.split(".")[1:])
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def imports(module: str) -> Iterator[str]:
    """Modules of rote that a module imports, at any depth of its code; a package holds its parents."""
    file = file_of(module)
    assert file is not None, f"{module} has no file"
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.startswith("rote.") and file_of(name) is not None:
                yield name


def test_the_referee_is_independent() -> None:
    places = [path.relative_to(HOUSE).with_suffix("") for path in (HOUSE / "referee").rglob("*.py")]
    queue = [".".join(("rote", *place.parts)).removesuffix(".__init__") for place in places]
    assert "rote.referee.judges.transformer" in queue
    came_from = dict.fromkeys(queue, "the referee")
    while queue:
        module = queue.pop()
        for name in imports(module):
            assert name.split(".")[1] not in FORBIDDEN, f"{module} (from {came_from[module]}) imports {name}"
            if name not in came_from:
                came_from[name] = module
                queue.append(name)
