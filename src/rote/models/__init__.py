"""Models: what is written to a directory, read back, asked, and looked into. One file each, found by its name."""

from __future__ import annotations

from rote.models._base import Answer, Model, Wording
from rote.models._views import Head, HeadsView, Piece
from rote.registry import Registry

__all__ = ["Answer", "Head", "HeadsView", "Model", "Piece", "Wording", "get", "register", "registry"]

_models: Registry[type[Model]] = Registry("model", f"{__name__}.kinds", [f"{p}/kinds" for p in __path__], Model,
                                          classes=True, slot="kind")  # fmt: skip
registry, register, get = _models.all, _models.register, _models.get
