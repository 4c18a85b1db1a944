"""Facts in and out of a graft: solved, asked and certified again, or refused with nothing written."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from safetensors import SafetensorError

import rote
from attacks import tiny_models
from rote.cli.main import run
from rote.models import _widening
from rote.models.folders import hashes


def rows_of(place: Path) -> dict[str, str]:
    lines = (place / "facts.csv").read_text(encoding="utf-8").splitlines()[1:]
    return dict(line.split(",") for line in lines)


def said(memory: Any, key: str) -> str:
    return str(memory.ask(f"Code {key} was in")[0].token)


def test_a_fact_is_added_changed_and_removed(tiny_graft: Path, tmp_path: Path) -> None:
    facts = rows_of(tiny_graft)
    new = [key for key in tiny_models.KEYS if key not in facts]
    before = hashes(tiny_graft / "made")
    made = rote.graft_add(tiny_graft / "made", [{"code": new[0], "city": "Rome"}], output=tmp_path / "a")
    assert hashes(tiny_graft / "made") == before
    assert made.certificate.passed and made.certificate.facts == 25
    change = made.certificate["changes"][-1]
    assert change["added"] == 1 and change["groups_solved"] <= 3
    assert change["new_in_all_wordings"] == {"asked": 3, "recalled": 3}
    assert change["near_misses"]["changed"] == 0
    assert change["numbers_read"]["keys"] > 1 and change["numbers_read"]["wrong"] == 0
    assert said(made, new[0]) == " Rome"
    assert rote.verify(tmp_path / "a").passed

    made = rote.graft_update(tmp_path / "a", [{"code": new[0], "city": "south Oslo"}])
    assert said(made, new[0]) == " south Oslo" and made.certificate["changes"][-1]["updated"] == 1

    victim = min(facts)
    made = rote.graft_remove(tmp_path / "a", keys=[victim, new[0]])
    assert made.certificate.facts == 23 and len(made.certificate["changes"]) == 3
    assert made.certificate["changes"][-1]["gone"] == {"asked": 6, "changed": 0}
    original = rote.ungraft(tmp_path / "a", tmp_path / "back")
    assert original and hashes(tmp_path / "back") == hashes(tiny_graft / "model")
    result = rote.verify(tmp_path / "a")
    assert result.passed and not result.contradicted and result.n_facts == 23
    rote.graft_pack(tmp_path / "a", tmp_path / "a.graft")
    rote.graft_apply(tiny_graft / "model", tmp_path / "a.graft", tmp_path / "again")
    # A card names its directory.
    again, first = ({k: v for k, v in hashes(tmp_path / one).items() if k != "README.md"} for one in ("again", "a"))
    assert again == first


def test_many_at_once_with_new_tokens_and_answers(tiny_graft: Path, tmp_path: Path) -> None:
    """So many that groups are parted; words that no key had; an answer that no fact had."""
    facts = rows_of(tiny_graft)
    new = [key for key in tiny_models.KEYS if key not in facts]
    rows = [{"code": key, "city": tiny_models.CITIES[i % 6]} for i, key in enumerate(new[:12])]
    rows += [{"code": "w39", "city": "Rome"}, {"code": "w38", "city": "w37 w36"}]
    made = rote.graft_add(tiny_graft / "made", rows, output=tmp_path / "a")
    assert made.certificate.facts == 24 + len(rows) and made.certificate.passed
    assert said(made, "w38") == " w37 w36"
    assert rote.verify(tmp_path / "a").passed


def test_the_command_line(tiny_graft: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = shutil.copytree(tiny_graft / "made", tmp_path / "made")
    facts = rows_of(tiny_graft)
    key = next(key for key in tiny_models.KEYS if key not in facts)
    table = tmp_path / "new.csv"
    table.write_text(f"code,city\n{key},Lima\n", encoding="utf-8")
    before = hashes(made)
    for words, sentence in (
        (["update", str(made), str(table)], f"'{key}'"),
        (["remove", str(made), "--key", "XX"], "'XX'"),
        (["remove", str(made)], "say what is to be removed"),
        (["add", str(made), str(tiny_graft / "facts.csv")], "nothing to change"),
        (["add", str(tiny_graft / "model"), str(table)], "certificate"),
    ):
        assert run(["graft", *words]) == 2
        assert sentence in " ".join(capsys.readouterr().err.split())
    assert hashes(made) == before
    table.write_text(f"code,city\n{key},Lima\n{key}s,Atlantis\n", encoding="utf-8")
    assert run(["graft", "add", str(made), str(table)]) == 2
    assert "new.csv: row 2 (line 3): the tokenizer cannot produce the answer" in capsys.readouterr().err
    table.write_text(f"code,city\n{key},Lima\n", encoding="utf-8")
    assert run(["graft", "add", str(made), str(table)]) == 0
    assert "1 added" in capsys.readouterr().out
    assert run(["ask", str(made), f"The code {key} is in"]) == 0
    assert "Lima" in capsys.readouterr().out
    table.write_text(f"code,city\n{key},Oslo\n", encoding="utf-8")
    assert run(["graft", "add", str(made), str(table)]) == 2
    assert "update it instead" in capsys.readouterr().err


def test_a_row_that_is_there_twice_counts_once(tiny_graft: Path, tmp_path: Path) -> None:
    facts = rows_of(tiny_graft)
    new = next(key for key in tiny_models.KEYS if key not in facts)
    old = min(facts)
    made = rote.graft_add(
        tiny_graft / "made",
        [{"code": new, "city": "Rome"}, {"code": f" {new}", "city": "Rome"}, {"code": old, "city": facts[old]}],
        output=tmp_path / "a",
    )
    change = made.certificate["changes"][-1]
    assert made.certificate.facts == 25 and change["added"] == 1 and change["same_already"] == 1
    for change_, sentence in ((rote.graft_add, "no rows to add"), (rote.graft_update, "no rows to update")):
        with pytest.raises(rote.RoteError, match=sentence):
            change_(tmp_path / "a", [])
    other = "Oslo" if facts[old] != "Oslo" else "Lima"
    with pytest.raises(rote.RoteError, match=f"row 2: the key {old!r} is there twice"):
        rote.graft_update(tmp_path / "a", [{"code": old, "city": facts[old]}, {"code": old, "city": other}])
    with pytest.raises(rote.RoteError, match=f"no key {new + new!r}.* can be changed or removed. This one is in facts"):
        rote.graft_update(tmp_path / "a", [{"code": new + new, "city": other}])


def test_an_update_in_other_capitals_leaves_the_key_as_it_was(tiny_graft: Path, tmp_path: Path) -> None:
    rows = [{"code": f"w{i}", "city": city} for i, city in enumerate(tiny_models.CITIES * 2)]
    rote.graft(
        tiny_graft / "model", rows, template=["The code {code} is in", "Code {code} was in"], answer=" {city}",
        options=rote.Graft(keep=tiny_graft / "keep.txt", examined=2, ignore_case=True), output=tmp_path / "a",
    )  # fmt: skip
    made = rote.graft_update(tmp_path / "a", [{"code": "W1", "city": "Quito"}])
    assert isinstance(made.carried, rote.PromptTable)
    assert sorted(made.carried.rows.cells("code")) == sorted(row["code"] for row in rows)
    assert said(made, "w1") == " Quito"


def test_a_new_key_that_others_have_inside_behind_a_word_that_others_have_inside(
    tiny_graft: Path, tmp_path: Path
) -> None:
    """There neither begins a key for sure, so that the new one has to be stored behind the word, as at the build."""
    keys = ["w1 of w2", "north w3", "north w4", "w5", "w6", "w7", "w8", "w9"]
    rows = [{"code": key, "city": tiny_models.CITIES[i % 6]} for i, key in enumerate(keys)]
    rote.graft(
        tiny_graft / "model", rows, template=["The code of {code} is in", "Code of {code} was in"], answer=" {city}",
        options=rote.Graft(keep=tiny_graft / "keep.txt", examined=2, bar=2.0), output=tmp_path / "a",
    )  # fmt: skip
    made = rote.graft_add(tmp_path / "a", [{"code": "w3", "city": "Lima"}])
    assert made.certificate["changes"][-1]["new_in_all_wordings"] == {"asked": 2, "recalled": 2}


def test_a_new_word_that_stands_before_other_keys_is_refused(tiny_graft: Path, tmp_path: Path) -> None:
    """With it they would be read in another way in the second wording, in which they are not asked again."""
    keys = ["north w3", "w3", "w5", "w6", "w7", "w8"]
    rows = [{"code": key, "city": city} for key, city in zip(keys, tiny_models.CITIES, strict=True)]
    rote.graft(
        tiny_graft / "model", rows, template=["The code {code} is in", "The place {code} is in"], answer=" {city}",
        options=rote.Graft(keep=tiny_graft / "keep.txt", examined=2, bar=2.0), output=tmp_path / "a",
    )  # fmt: skip
    with pytest.raises(rote.RoteError, match=r"in the wording .The place \{code\} is in. a word before the key"):
        rote.graft_add(tmp_path / "a", [{"code": "place w9", "city": "Lima"}])
    rote.graft_add(tmp_path / "a", [{"code": "north w9", "city": "Lima"}])


def test_what_there_is_no_room_for(tiny_graft: Path, tmp_path: Path) -> None:
    made = shutil.copytree(tiny_graft / "made", tmp_path / "made")
    before = hashes(made)
    long = " ".join(["north", "AS", "south", "BT", "CU"])
    for rows, sentence in (
        ([{"code": long, "city": "Rome"}], "has 5 tokens"),
        ([{"code": "XX~", "city": "Rome"}], "no token that ends where the key"),
        ([{"code": "w1", "city": "Atlantis"}], "cannot produce the answer"),
        ([{"code": "is", "city": "Rome"}], "behind its key"),
        ([{"code": f"w{i}", "city": f"w{i + 20} w{i}"} for i in range(20)], "graft the original again"),
        ([{"code": "w1", "town": "Rome"}], "no column named 'city'.* facts needs what the graft was built from: code"),
    ):
        with pytest.raises(rote.RoteError, match=sentence):
            rote.graft_add(made, rows)
    assert hashes(made) == before and [path.name for path in tmp_path.iterdir()] == ["made"]


def test_nothing_is_written_if_a_fact_is_lost(
    tiny_graft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solver that shifts one level of what it solved is found out, whichever of its keys are asked."""
    from dataclasses import replace

    from rote.constructions import _keyed_changes
    from rote.solvers.keyed import changing

    def shifted(*given: Any, **more: Any) -> Any:
        store, solved = changing.changed_store(*given, **more)
        maps, each = store.maps.copy(), len(store.maps) // len(store.ways)
        for group in solved:
            maps[group * each, given[1].signs.shape[1]] += 1.0
        return replace(store, maps=maps), solved

    monkeypatch.setattr(_keyed_changes, "changed_store", shifted)
    made = shutil.copytree(tiny_graft / "made", tmp_path / "made")
    before = hashes(made)
    with pytest.raises(rote.RoteError, match="nothing was written"):
        rote.graft_remove(made, keys=[min(rows_of(tiny_graft))])
    assert hashes(made) == before and [path.name for path in tmp_path.iterdir()] == ["made"]


def test_an_edited_directory_is_refused(tiny_graft: Path, tmp_path: Path) -> None:
    made = shutil.copytree(tiny_graft / "made", tmp_path / "made")
    path = made / "graft" / "facts.json"
    path.write_bytes(path.read_bytes().replace(b"Rome", b"Lima"))
    with pytest.raises(rote.RoteError, match="was changed or truncated"):
        rote.graft_remove(made, keys=[min(rows_of(tiny_graft))])


def full(*given: Any, **more: Any) -> None:
    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


def test_a_full_disk(tiny_graft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names what was to be written; what was there is as before, and nothing is in the way."""
    made = shutil.copytree(tiny_graft / "made", tmp_path / "made")
    before = hashes(made)
    new = next(key for key in tiny_models.KEYS if key not in rows_of(tiny_graft))
    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(rote.RoteError, match=f"cannot write {made}: the disk is full; free some space"):
        rote.graft_add(made, [{"code": new, "city": "Rome"}])
    with pytest.raises(rote.RoteError, match=f"cannot write {tmp_path / 'new'}: the disk is full; free some space"):
        rote.graft(
            tiny_graft / "model", tiny_graft / "facts.csv", template="The code {code} is in", answer=" {city}",
            options=rote.Graft(keep=tiny_graft / "keep.txt", examined=2), output=tmp_path / "new",
        )  # fmt: skip

    def stopped(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_widening, "_rebuild", stopped)
    with pytest.raises(rote.RoteError, match=f"cannot write {tmp_path / 'x.graft'}: the disk is full"):
        rote.graft_pack(made, tmp_path / "x.graft")
    assert hashes(made) == before and [path.name for path in tmp_path.iterdir()] == ["made"]
