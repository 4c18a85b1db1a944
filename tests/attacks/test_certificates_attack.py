"""A slice of the campaign against certificates, and proof that it would notice a false one."""

from __future__ import annotations

import random
from pathlib import Path

import rote
from attacks import certificates, forward
from attacks.campaign import run


def test_no_certificate_is_false() -> None:
    report = run("certificates", 1, seconds=600, tries=20)
    assert report.failures == []
    assert report.tries == 20


def test_a_lost_fact_is_noticed(tmp_path: Path) -> None:
    """The same model against rows of which one is another than it was built from."""
    rows = certificates.Rows([("a", "b"), ("b", "a"), ("b", "b")], ["x", "y", "x"], "cells", "random")
    path = certificates._file(rows, tmp_path)
    other = certificates.Rows(rows.contexts, ["x", "y", "y"], "cells", "random")
    for number, key in enumerate(("argmax_fit", "kajitsuka2025_next_token")):
        folder = tmp_path / str(number)
        options = {"with_positions": True} if key.startswith("kajitsuka") else {}
        memory = rote.build(rote.read(path), key, options=options).save(folder)
        assert certificates._misread(rows, folder) == ""
        assert "1 of 3 facts are lost" in certificates._misread(other, folder)
        assert certificates._misspoken(rows, memory, random.Random(0)) == ""
        assert "is answered by" in certificates._misspoken(other, memory, random.Random(0))
    stock = rote.build(rote.read(path), arch="llama").save(tmp_path / "stock")
    assert forward.spoken(stock.folder, ["a b", "b a", "b b"], [1, 1, 1]) == rows.targets
