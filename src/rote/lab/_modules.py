"""Packages whose files are found by their names."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

__all__ = ["modules"]


def modules(package: str) -> Iterator[tuple[str, Any, str]]:
    """(name, module, first line of its text) of every file of a package without a leading underscore."""
    home: Any = importlib.import_module(package)
    for name in sorted(item.name for item in pkgutil.iter_modules(home.__path__)):
        if not name.startswith("_"):
            module = importlib.import_module(f"{package}.{name}")
            yield name, module, (module.__doc__ or name).strip().splitlines()[0]
