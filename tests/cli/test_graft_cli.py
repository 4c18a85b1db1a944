"""`rote graft` and `rote ungraft` as a user types them, above all what they refuse, in one sentence each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from attacks import tiny_models
from rote.cli.main import run

TEMPLATE, ANSWER = "The code {code} is in", " {city}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a table and a text; read only."""
    place = tmp_path_factory.mktemp("graft")
    tiny_models.write_tiny(place / "model", tied=True)
    tiny_models.write_table(place / "facts.csv", 24)
    tiny_models.write_text(place / "keep.txt", 6000)
    return place


def call(
    capsys: pytest.CaptureFixture[str],
    place: Path,
    out: Path,
    *more: str,
    model: str = "model",
    facts: str = "facts.csv",
    template: str = TEMPLATE,
    answer: str = ANSWER,
) -> tuple[int, str, str]:
    code = run(
        [
            "graft",
            str(place / model),
            str(place / facts),
            "-o",
            str(out),
            "--template",
            template,
            "--answer",
            answer,
            "--keep",
            str(place / "keep.txt"),
            "--examined",
            "4",
            *more,
        ]
    )
    seen = capsys.readouterr()
    return code, seen.out, seen.err


def test_graft_and_ungraft(capsys: pytest.CaptureFixture[str], place: Path, tmp_path: Path) -> None:
    made, back = tmp_path / "made", tmp_path / "back"
    code, out, err = call(capsys, place, made)
    assert code == 0, err
    assert "24 facts" in out and "100 %" in out and "tokens of text" in out and "unknown keys" in out
    code, _, err = call(capsys, place, made)
    assert code == 2 and "exists already" in err
    code, out, err = call(capsys, place, made, "--force", "--json")
    assert code == 0, err
    assert json.loads(out) == json.loads((made / "certificate.json").read_text(encoding="utf-8"))
    facts = str(place / "facts.csv")
    assert run(["verify", str(made), facts]) == 0
    assert "24 of 24 facts recalled" in capsys.readouterr().out
    assert run(["verify", str(made)]) == 0
    assert "24 of 24 facts recalled" in capsys.readouterr().out
    assert run(["verify", str(made), facts, "--dtype", "bfloat16", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["dtype"] == "bfloat16"
    assert run(["verify", str(made), facts, "--dtype", "float64"]) == 2
    assert "float64" in capsys.readouterr().err
    assert run(["verify", str(made), facts, "--target", "city"]) == 2
    assert "templates name the columns" in capsys.readouterr().err
    others = tiny_models.write_table(tmp_path / "others.csv", 10, seed=5)
    assert run(["verify", str(made), str(others)]) == 2
    assert "other facts" in capsys.readouterr().err
    assert run(["verify", str(made), str(others), "--other-facts", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["n_failed"] > 0
    first = Path(facts).read_text(encoding="utf-8").splitlines()[1].split(",")
    assert run(["ask", str(made), f"The code {first[0]} is in", "--json"]) == 0
    assert f" {first[1]}" in capsys.readouterr().out
    assert run(["ask", str(made), ""]) == 2
    assert "empty" in capsys.readouterr().err
    assert run(["ungraft", str(made), "-o", str(back), "--json"]) == 0
    assert "model.safetensors" in json.loads(capsys.readouterr().out)["files"]
    assert (back / "model.safetensors").read_bytes() == (place / "model" / "model.safetensors").read_bytes()
    assert (back / "config.json").read_bytes() == (place / "model" / "config.json").read_bytes()
    assert run(["ungraft", str(back), "-o", str(tmp_path / "again")]) == 2
    assert "no certificate.json" in capsys.readouterr().err
    shutil.copytree(made, tmp_path / "here")
    assert run(["ungraft", str(tmp_path / "here")]) == 0
    assert sorted(p.name for p in (tmp_path / "here").iterdir()) == sorted(p.name for p in back.iterdir())
    assert (tmp_path / "here" / "model.safetensors").read_bytes() == (back / "model.safetensors").read_bytes()
    capsys.readouterr()
    shard = made / "model-00001-of-00002.safetensors"
    raw = shard.read_bytes()
    shard.write_bytes(raw[:-2000] + bytes(255 - byte for byte in raw[-2000:]))
    for words in (["-o", str(tmp_path / "again")], []):
        assert run(["ungraft", str(made), *words]) == 2
        assert "was changed" in capsys.readouterr().err
    assert run(["verify", str(made), facts]) == 2
    assert "was changed" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"template": "The code {cod} is in"}, "did you mean 'code'"),
        ({"answer": " {town}"}, "no column named 'town'"),
        ({"template": "The code is in"}, "has no {field}"),
        ({"template": "The code {code is in"}, "is no template"),
        ({"template": "The code {code!r} is in"}, "not just a column's name"),
        ({"answer": " Atlantis"}, "the tokenizer cannot produce the answer ' Atlantis'"),
        ({"model": "nowhere"}, "there is no directory or GGUF file"),
        ({"model": "keep.txt"}, "no .gguf"),
        ({"facts": "nothing.csv"}, "there is no file"),
        ({"template": "the " * 130 + "code {code} is in"}, "but the model's context is 128"),
    ],
)
def test_refusals(
    capsys: pytest.CaptureFixture[str], place: Path, tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    code, _, err = call(capsys, place, tmp_path / "made", **options)
    assert code == 2
    assert sentence in err and err.count("\n") == 1
    assert not (tmp_path / "made").exists()


def test_contradictions_and_repeats(capsys: pytest.CaptureFixture[str], place: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts.csv"
    facts.write_text("code,city\nAS,Rome\nAT,Oslo\nAS,Lima\n", encoding="utf-8")
    code, _, err = call(capsys, place, tmp_path / "made", facts=str(facts))
    assert code == 2
    assert "row 1 (line 2) and row 3 (line 4) contradict" in err and "'The code AS is in' + ' Rome'" in err
    facts.write_text("code,city\nAS,Rome\nAT,Oslo\nAS,Rome\nAU,Lima\n", encoding="utf-8")
    code, out, err = call(capsys, place, tmp_path / "made", "--json", facts=str(facts))
    assert code == 0, err
    assert json.loads(out)["facts"] == 3


def test_one_answer_cut_short_by_another_prompt(
    capsys: pytest.CaptureFixture[str], place: Path, tmp_path: Path
) -> None:
    facts = tmp_path / "facts.csv"
    facts.write_text("code,city\nAS,Rome\nAS Rome,Oslo\n", encoding="utf-8")
    code, _, err = call(capsys, place, tmp_path / "made2", facts=str(facts), template="The code {code}")
    assert code == 2 and "one prompt goes on as the other does" in err


def test_models_that_do_not_fit(capsys: pytest.CaptureFixture[str], place: Path, tmp_path: Path) -> None:
    def altered(name: str, **changes: object) -> str:
        shutil.copytree(place / "model", tmp_path / name)
        config = json.loads((tmp_path / name / "config.json").read_text(encoding="utf-8"))
        (tmp_path / name / "config.json").write_text(json.dumps({**config, **changes}), encoding="utf-8")
        return str(tmp_path / name)

    for model, sentence in (
        (altered("gpt", model_type="gpt2"), "family 'gpt2'"),
        (altered("act", hidden_act="gelu"), "activation 'gelu'"),
        # What the files do not have, the library would draw at random, and leave out what it is not told of.
        (altered("more", num_hidden_layers=3), "has no tensor model.layers.2."),
        (altered("less", num_hidden_layers=1), "have 2 layers, and its config.json names 1"),
        (altered("wide", hidden_size=96), "the tensor model.embed_tokens.weight is of the shape"),
    ):
        code, _, err = call(capsys, place, tmp_path / "made", model=model)
        assert code == 2 and sentence in err and err.count("\n") == 1
    torn = altered("torn")
    weights = load_file(Path(torn) / "model.safetensors")
    weights["lm_head.weight"] = torch.ones_like(weights["model.embed_tokens.weight"])
    save_file(weights, Path(torn) / "model.safetensors", metadata={"format": "pt"})
    code, _, err = call(capsys, place, tmp_path / "made", model=torn)
    assert code == 2 and "ties head and embedding" in err
    empty = altered("empty")
    weights = load_file(Path(empty) / "model.safetensors")
    weights["model.layers.1.mlp.up_proj.weight"][3, 5] = torch.nan
    save_file(weights, Path(empty) / "model.safetensors", metadata={"format": "pt"})
    code, _, err = call(capsys, place, tmp_path / "made", model=empty)
    assert code == 2 and "model.layers.1.mlp.up_proj.weight has entries that are no numbers" in err
    short = altered("short")
    raw = (Path(short) / "model.safetensors").read_bytes()
    (Path(short) / "model.safetensors").write_bytes(raw[:-100])
    code, _, err = call(capsys, place, tmp_path / "made", model=short)
    assert code == 2 and "model.safetensors cannot be read" in err and err.count("\n") == 1
    led = altered("led")
    (Path(led) / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    index = {"weight_map": dict.fromkeys(weights, "../elsewhere.safetensors")}
    (Path(led) / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    code, _, err = call(capsys, place, tmp_path / "made", model=led)
    assert code == 2 and "no safetensors file of the same directory" in err
    bare = altered("bare")
    (Path(bare) / "model.safetensors").rename(Path(bare) / "pytorch_model.bin")
    code, _, err = call(capsys, place, tmp_path / "made", model=bare)
    assert code == 2 and "save it as safetensors" in err
    mute = altered("mute")
    for path in Path(mute).glob("tokenizer*"):
        path.unlink()
    code, _, err = call(capsys, place, tmp_path / "made", model=mute)
    assert code == 2 and "has no tokenizer.json" in err


def test_other_refusals(capsys: pytest.CaptureFixture[str], place: Path, tmp_path: Path) -> None:
    for more, sentence in (
        (("--dtype", "float8"), "float8"),
        (("--sample", "1000"), "between 1 and the 24 rows"),
        (("--answer", " a", "--answer", " b"), "1 templates and 3 answers"),
        (("--held-out-template", TEMPLATE), "is to be fitted and held out"),
    ):
        code, _, err = call(capsys, place, tmp_path / "made", *more)
        assert code == 2 and sentence in err
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, _, err = call(capsys, place, tmp_path / "file" / "made")
    assert code == 2 and f"cannot write {tmp_path / 'file' / 'made'}: Not a directory" in err
    (tmp_path / "short.txt").write_text("the of", encoding="utf-8")
    code, _, err = call(capsys, place, tmp_path / "made", "--keep", str(tmp_path / "short.txt"))
    assert code == 2 and "give a longer text" in err
    code, _, err = call(capsys, place, tmp_path / "made", "--keep", str(tmp_path / "none.txt"))
    assert code == 2 and "there is no file" in err
