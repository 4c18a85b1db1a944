"""What a graft directory carries for later changes: its design, and the rows that it stores.

`graft/design.json` and `graft/design.safetensors` are what the added weights were made of, `graft/facts.json` the rows
in their templates. The certificate has their hashes, like those of all files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import CheckpointError
from rote.models import folders
from rote.solvers.keyed.design import Design, from_record, to_record

if TYPE_CHECKING:
    import numpy as np

    from rote.data.kinds.prompts import PromptTable

__all__ = ["read_design", "write_record"]

_PLACE = "graft"
_DESIGN, _ARRAYS = "design.json", "design.safetensors"


def write_record(folder: Path, design: Design, table: PromptTable) -> None:
    """Write both into the directory of a graft."""
    from safetensors.numpy import save_file

    place = folder / _PLACE
    place.mkdir(exist_ok=True)
    arrays: dict[str, np.ndarray] = {}
    record = to_record(design, arrays)
    (place / _DESIGN).write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")
    save_file(arrays, place / _ARRAYS)
    (folder / table.CARRIED).write_bytes(table.carried())


def read_design(folder: Path) -> Design:
    """The design of a graft."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    place = folder / _PLACE
    if not (place / _DESIGN).is_file():
        raise CheckpointError(
            f"{folder} carries no {_PLACE}/{_DESIGN}, so its facts cannot be changed one by one; graft the "
            "original again with all facts."
        )
    try:
        arrays: dict[str, Any] = load_file(place / _ARRAYS)
        design = from_record(folders.read_json(place / _DESIGN), arrays)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError):
        raise CheckpointError(f"{place / _DESIGN} cannot be read; it was edited, graft again.") from None
    if not isinstance(design, Design):
        raise CheckpointError(f"{place / _DESIGN} holds no design of a graft; it was edited, graft again.")
    return design
