"""Theorems of one's own: files outside of the package, named one by one or kept in folders.

A file is what a file of this package is: it defines `theorem`, an instance of `Theorem`, and its name is the key. The
folders stand in the variable ROTE_THEOREMS, separated as paths are. A mistake in such a file is told with its line, and
takes nothing else down.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

from rote.errors import RoteError, UsageError
from rote.registry import Registry
from rote.theorems._base import Theorem

__all__ = ["VARIABLE", "Fault", "OwnTheorems", "UnusableTheorem"]

VARIABLE = "ROTE_THEOREMS"


@dataclass(frozen=True)
class Fault:
    """A theorem that could not be asked: whose file, where in it, and what happened."""

    theorem: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.theorem} is left out: {self.place}: {self.reason.rstrip('.')}."

    def to_dict(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def of(cls, key: str, file: str | None, error: BaseException) -> Fault:
        """Where in a file an error came up: its innermost line there."""
        place = "an unknown file" if file is None else _shown(Path(file))
        reason = str(error) if isinstance(error, RoteError) else f"{type(error).__name__}: {error}"
        if isinstance(error, SyntaxError) and error.filename == file and error.lineno is not None:
            return cls(key, f"{place} line {error.lineno}", f"{type(error).__name__}: {error.msg}")
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        return cls(key, f"{place} line {lines[-1]}" if lines else place, reason)

    @classmethod
    def in_theorem(cls, theorem: Theorem, error: BaseException) -> Fault:
        """The same for an error that a theorem raised when it was asked."""
        return cls.of(theorem.key, inspect.getsourcefile(type(theorem)), error)


class UnusableTheorem(UsageError):
    """A file that was named as a theorem and cannot be used."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(
            f"{fault.place}: {fault.reason.rstrip('.')}; so {fault.theorem} is no theorem that can be used."
        )
        self.fault = fault


def _shown(path: Path) -> str:
    """A path as people write it: from where they are, if it lies below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


class OwnTheorems:
    """Loads files, each of them once: those of the folders into a registry, others for whoever names them."""

    def __init__(self, registry: Registry[Theorem]) -> None:
        self._registry = registry
        self._loaded: dict[Path, Theorem] = {}
        self._folders: str | None = None
        self.faults: tuple[Fault, ...] = ()
        """Files of the folders that could not be loaded."""

    def load(self, name: str | Path) -> Theorem:
        """The theorem in a file; a mistake in it is refused with its line."""
        path = Path(name).expanduser().resolve()
        if not path.is_file():
            raise UsageError(f"there is no file {name}; a theorem is named by its key, or by the path of its file.")
        theorem = self._try(path)
        if isinstance(theorem, Fault):
            raise UnusableTheorem(theorem)
        return theorem

    def load_folders(self) -> None:
        """Every file of the folders without a leading underscore; what cannot be loaded is kept in `faults`."""
        folders = os.environ.get(VARIABLE, "")
        if folders == self._folders:
            return
        self._folders = folders
        faults: list[Fault] = []
        for folder in filter(None, folders.split(os.pathsep)):
            home = Path(folder).expanduser().resolve()
            if not home.is_dir():
                faults.append(Fault(folder, VARIABLE, "there is no such folder"))
                continue
            for path in sorted(home.glob("*.py")):
                known = path.name.startswith("_") or path in self._loaded
                theorem = None if known else self._try(path)
                if isinstance(theorem, Fault):
                    faults.append(theorem)
                elif theorem is not None:
                    self._registry.register(path.stem, theorem)
        self.faults = tuple(faults)

    def _try(self, path: Path) -> Theorem | Fault:
        if path in self._loaded:
            return self._loaded[path]
        key, name = path.stem, f"rote_own_theorem_{path.stem}"
        if key in self._registry.all():
            return Fault(key, _shown(path), "there is a theorem of that name already; rename the file")
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            return Fault(key, _shown(path), "its name must end in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
            theorem = self._registry.checked(key, getattr(module, "theorem", None))
        except Exception as error:  # whatever the author's file does
            del sys.modules[name]
            return Fault.of(key, str(path), error)
        self._loaded[path] = theorem
        return theorem
