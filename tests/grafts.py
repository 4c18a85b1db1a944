"""A tiny graft that several tests of its later life share."""

from __future__ import annotations

from pathlib import Path

import pytest

import rote

TEMPLATES = ("The code {code} is in", "Code {code} was in", "the place of Code {code} is in")


@pytest.fixture(scope="session")
def tiny_graft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a table of 24 facts, text, and the graft of the facts on the model; read only."""
    # Here, since every test process reads this file, and most of them need no torch.
    from attacks import tiny_models

    place = tmp_path_factory.mktemp("graft")
    tiny_models.write_tiny(place / "model", "mistral", shards=True, dtype="bfloat16")
    tiny_models.write_table(place / "facts.csv", 24)
    keep = tiny_models.write_text(place / "keep.txt", 9000)
    rote.graft(
        place / "model",
        place / "facts.csv",
        template=TEMPLATES,
        answer=" {city}",
        options=rote.Graft(keep=keep, examined=4, bar=0.0),
        output=place / "made",
    )
    return place
