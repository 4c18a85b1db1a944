"""What is judged, as it lies on disk, and the contract of judges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.data.records import read_json
from rote.errors import CheckpointError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor, nn

    from rote.data.outputs import Outputs
    from rote.data.table import Inputs

__all__ = ["FLOATS", "Judge", "Stored", "read_object", "read_stored"]

FLOATS = ("float64", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Stored:
    """A model as it is stored: its kind, its configuration and its tensors; nothing of the code that wrote them."""

    kind: str
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor] = field(repr=False)
    folder: Path | None = None
    """None for a module that was never written."""
    words: tuple[str, ...] | None = None
    """The tokens of the table that it is judged by, by id, for models that are asked in text."""

    def tensor(self, name: str) -> Tensor:
        """One tensor by name; a model that lacks it is refused."""
        if name not in self.tensors:
            raise CheckpointError(f"the model has no tensor {name!r}; the file is foreign or damaged.")
        return self.tensors[name]


class _FileTensors(Mapping[str, "Tensor"]):
    """The tensors of a file, read when the first of them is asked for, as some judges read files in their own way."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(self._path)
        except (SafetensorError, ValueError, OSError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{self._path} cannot be read ({error}); the file is missing or damaged.") from None

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object of a directory."""
    return read_json(path, refuse=CheckpointError, remedy="it was truncated or edited, build it again")


def read_stored(folder: Path, kind: str) -> Stored:
    """The model of a directory, with code of the referee's own."""
    path = folder / "config.json"
    config = read_object(path) if path.is_file() else {}
    if config.get("model", kind) != kind:
        raise CheckpointError(f"{path} does not describe a model of the kind {kind!r}; the file was edited.")
    return Stored(kind, config, _FileTensors(folder / "model.safetensors"), folder)


class Judge(ABC):
    """Runs one kind of model. A file in `referee/judges` defines `judge`, an instance; its name is the kind."""

    kind: str = ""
    dtypes: tuple[str, ...] = FLOATS
    """Number formats in which this kind of model can be run."""

    @abstractmethod
    def outputs(self, stored: Stored, dtype: str, shortcut: Callable[..., Any] | None) -> Outputs:
        """What the stored model says, with weights and arithmetic in a number format.

        A shortcut is a faster evaluator of the model's; a judge may use it only where it proves itself.
        """

    def no_use_for(self, dtype: str) -> str:
        """Why a number format that exists is refused."""
        return f"this model is made of floating-point numbers, so it cannot be run as {dtype}; use {self.dtypes[0]}."

    def doubts(self, stored: Stored, dtype: str) -> bool:
        """Whether the model's own forward pass must give the answers too, where there is one."""
        return False

    def notices(self, one: Stored, other: Stored, dtype: str) -> Callable[[Inputs], npt.NDArray[np.bool_]] | None:
        """Which contexts can notice what two stored models differ in: for all others every output is the same, bit by
        bit. None where that cannot be told without running both."""
        return None

    def module_outputs(self, stored: Stored, module: nn.Module, dtype: str) -> Outputs:
        """What a module of this kind says by itself, on a copy in a number format."""
        from rote.referee.outputs import ModuleOutputs

        return ModuleOutputs(module, dtype)
