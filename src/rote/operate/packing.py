"""`graft_pack` and `graft_apply`: a graft as a small file of its own, and back on the model that it was made for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rote import pipeline
from rote.card import write_card
from rote.data.arguments import checked
from rote.errors import CheckpointError, OutputError, UsageError
from rote.grafting import ungraft, workplace_of
from rote.memory import Memory
from rote.models import folders, packed
from rote.models._pretrained import source_place, source_sha256

__all__ = ["graft_apply", "graft_pack"]


@checked
def graft_pack(
    directory: str | os.PathLike[str], output: str | os.PathLike[str], *, force: bool = False
) -> dict[str, int]:
    """Write what a graft adds to its base model as one file, to be passed on without that; sizes are returned.

    The file has added tensors, changed parts of others, the certificate, and the hash of the base. The directory must
    be as it was written: its files are checked first.
    """
    folder, path = Path(directory), Path(output)
    memory = pipeline.load(folder)
    record = memory.certificate.claims.get("graft")
    if not isinstance(record, Mapping):
        raise UsageError(f"{folder} is no graft, so there is nothing to pack; give a directory that rote graft wrote.")
    if os.path.lexists(path) and not force:
        raise OutputError(f"{path} exists already; name another file, or use force to replace it.")
    if not path.parent.is_dir():
        raise OutputError(f"there is no directory {path.parent} to write {path.name} to.")
    held = folders.Staging(path.parent)
    base = held.path / "base"
    try:
        ungraft(folder, base)
    except OutputError as error:
        # It is the file that cannot be written, as far as the user knows.
        raise folders.refusal(path, error.__cause__) if isinstance(error.__cause__, Exception) else error from None
    if source_sha256(base) != record.get("model_sha256"):
        raise CheckpointError(f"{folder} does not give the original back that its certificate names; it was edited.")
    return packed.pack(folder, base, record, path)


@checked
def graft_apply(
    model: str | os.PathLike[str],
    graft: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    force: bool = False,
) -> Memory:
    """Write the directory of a packed graft again, bit for bit but for its card, from the model that it was made for.

    `model` is that model, a directory or a GGUF file; another one is refused by its hash.
    """
    target = Path(output)
    folders.refuse_existing(target, force)
    with workplace_of(target, resumable=False) as workplace:
        assert workplace is not None, "there is a target"
        packed.unpack(Path(graft), source_place(Path(model), workplace), target, force=force)
    memory = pipeline.load(target)
    card = target / folders.CARD
    if card.is_file() and folders.is_card(card):
        write_card(memory)  # a card names its directory, and that may be another one now
    return memory
