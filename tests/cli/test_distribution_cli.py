"""The verbs for distributions, on the book of Ruth: what they promise is measured, and nonsense is refused."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from rote.certificate import HASH, sha256_of
from rote.cli.main import run

RUTH = Path(__file__).resolve().parents[2] / "docs" / "examples" / "ruth.txt"


def call(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    code = run([str(arg) for arg in args])
    said = capsys.readouterr()
    return code, said.out, said.err


def answer(capsys: pytest.CaptureFixture[str], *args: object) -> Any:
    code, out, err = call(capsys, *args, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture
def letters(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Path:
    """Trigrams of the first 1,000 characters."""
    text, path = tmp_path / "text.txt", tmp_path / "letters.csv"
    text.write_text(RUTH.read_text(encoding="utf-8")[:1000], encoding="utf-8")
    made = answer(capsys, "facts", "ngrams", text, "--order", 3, "--tokens", "chars", "--plain", "-o", path)
    assert made["context"] == 2 and made["n_ngrams"] > 900
    return path


def test_character_trigrams_from_text_to_answers(
    capsys: pytest.CaptureFixture[str], letters: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    c = answer(capsys, "build", letters, "--d-model", 6, "--starts", 1, "-o", model)
    assert c["data"] == "distributions" and c["epsilon"] == 0 and c["t_eps"] == c["facts"]
    assert c["smoothing"] == 0.01 and "probabilities were 0" in c["smoothing_says"]
    assert abs(c["kl"] - c["encoder_kl"]) < 1e-6
    assert c["encoder_kl"] <= c["kl_by_dtype"]["float64"] + 1e-9
    assert c["kl"] < c["unigram"] < c["uniform"]
    assert c["shape"]["n_heads"] * c["shape"]["d_head"] + c["shape"]["d_model"] >= c["t_eps"]
    assert c["params"] == c["stored_params"]

    found = answer(capsys, "verify", model, letters)
    assert found["kl"] == pytest.approx(c["kl"], abs=1e-9) and found["confirmed"]
    assert found["perplexity"] == pytest.approx(math.exp(found["entropy"] + found["kl"]))
    code, out, _ = call(capsys, "verify", model, letters)
    assert code == 0 and "No model of this width is below" in out

    said = answer(capsys, "ask", model, "th", "--top", 30)
    assert sum(item["probability"] for item in said) == pytest.approx(1, abs=1e-6)
    assert sum(item["true"] for item in said) == pytest.approx(1, abs=1e-9)
    assert said[0]["token"] == "e"
    unseen = answer(capsys, "ask", model, "z", "z", "--top", 1) if "z" in letters.read_text() else [{"true": None}]
    assert unseen[0]["true"] is None

    # Weights of another number, then another table: told apart, never mixed up.
    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    record = json.loads((broken / "certificate.json").read_text())
    record["kl_by_dtype"]["float32"] = 0.0
    (broken / "certificate.json").write_text(json.dumps(record))
    assert call(capsys, "verify", broken, letters)[0] == 2
    (broken / "certificate.json").write_text(json.dumps({**record, HASH: sha256_of(record)}))
    assert call(capsys, "verify", broken, letters)[0] == 1
    other = tmp_path / "other.csv"
    other.write_text("c1,c2,next,count\nt,h,e,5\n")
    code, _, err = call(capsys, "verify", model, other)
    assert code == 2 and "not what" in err


def test_left_out_contexts_cost_at_most_twice_epsilon(
    capsys: pytest.CaptureFixture[str], letters: Path, tmp_path: Path
) -> None:
    shape = ("--d-model", 6, "--starts", 1)
    for epsilon in (0.1, 0.2):
        c = answer(capsys, "build", letters, *shape, "--epsilon", epsilon, "-o", tmp_path / f"m{epsilon}")
        assert -1e-9 <= c["gap"] <= 2 * epsilon
        assert c["leftover"] <= epsilon and c["t_eps"] < c["facts"]
        assert c["interpolation_kl"] > c["kl"]
        assert c["theorem_bound"] >= c["interpolation_kl"] and c["looseness"] > 1 and c["C"] > 2
    poor = answer(capsys, "build", letters, *shape, "--epsilon", 0.2, "--with", "dana2025_thm1", "-o", tmp_path / "thm")
    assert poor["construction"] == "dana2025_thm1"
    assert poor["kl"] > poor["uniform"]  # why the refit is there


def test_word_bigrams_meet_the_bound(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text, path = tmp_path / "text.txt", tmp_path / "words.csv"
    text.write_text(RUTH.read_text(encoding="utf-8")[:500], encoding="utf-8")
    answer(capsys, "facts", "ngrams", text, "--order", 2, "--plain", "-o", path)
    shape = ("--d-model", 4, "--starts", 1)
    for number, epsilon in enumerate((0.0, 0.1)):
        c = answer(capsys, "build", path, *shape, "--epsilon", epsilon, "-o", tmp_path / f"m{number}")
        assert abs(c["kl"] - c["encoder_kl"]) < 1e-6
        assert c["report"]["method"] == "embedding"


def test_bound_and_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "random.csv"
    answer(capsys, "facts", "distribution", "--contexts", 16, "--vocab", 6, "--spread", 1.5, "-o", path)
    found = answer(capsys, "bound", path, "--d-model", 3, "--starts", 3)
    assert 0 < found["encoder_kl"] < found["unigram"] < found["uniform"]
    assert found["theorem2"] is None or found["theorem2"] >= found["encoder_kl"]
    assert found["smoothing"] == 0 and found["zeros"] == 0
    assert answer(capsys, "bound", path, "--d-model", 5)["encoder_kl"] == 0
    assert answer(capsys, "bound", path, "--d-model", 500)["encoder_kl"] == 0
    many = answer(capsys, "bound", path, "--starts", 1)["widths"]
    values = [row["encoder_kl"] for row in many]
    assert values == sorted(values, reverse=True) and values[-1] == 0

    goal = 0.12
    plans = answer(capsys, "plan", path, "--kl", goal, "--starts", 4)
    best, shape = plans[0], plans[0]["architecture"]
    assert best["kl"] <= goal + 1e-6 and best["encoder_kl"] <= goal
    built = answer(
        capsys, "build", path, "--d-model", shape["d_model"], "--heads", shape["n_heads"], "--starts", 4, "-o",
        tmp_path / "m",
    )  # fmt: skip
    assert built["kl"] <= goal + 1e-5
    less = answer(capsys, "bound", path, "--d-model", shape["d_model"] - 1, "--starts", 4)
    assert less["encoder_kl"] > goal
    code, out, _ = call(capsys, "plan", path, "--kl", 1e-9, "--d-model", 2, "--starts", 2)
    assert code == 1 and "no shape reaches 1e-09 nats" in out


@pytest.mark.parametrize(
    ("body", "options", "words"),
    [
        ("a,next,count\nx,y,-1\n", (), "not negative"),
        ("a,next,count\nx,y,nan\n", (), "finite"),
        ("a,next,count\nx,y,0\n", (), "add up to 0"),
        ("", (), "empty"),
        ("a,next\n", (), "row"),
        ("a,next\nx,y\nx,z\n", ("--epsilon", 1), "epsilon"),
        ("a,next\nx,y\nx,z\n", ("--epsilon", -0.1), "epsilon"),
        ("a,next\nx,y\nx,z\n", ("--epsilon", "nan"), "epsilon"),
        ("a,next\nx,y\nx,z\n", ("--smoothing", 1.5), "smoothing"),
        ("a,next\nx,y\nx,z\n", ("--smoothing", 0), "smooth"),
        ("a,next\nx,y\nx,z\n", ("--d-model", 0), "d_model"),
        ("a,next\nx,y\nx,z\n", ("--d-model", 10**9), "memory"),
        ("a,next,count\nx,y,1\nx,z,2\n", ("--with", "argmax_fit"), "argmax_fit builds from facts"),
        ("a,next\nx,y\nx,z\n", ("--with", "argmax_fit"), "contradicts"),
        ("a,next\nx,y\nx,z\n", ("--arch", "llama"), "of the architecture rote, not llama"),
        ("a,next,count\nx,y,1\nx,z,2\n", ("--with", "auto", "--arch", "llama"), "no construction of the architecture"),
        ("a,next\nx,y\nx,z\n", ("--weight", "nothing"), "column"),
        ("a,b,next\nx,u,y\nx,v,z\nu,u,y\n", ("--heads", 1, "--epsilon", 0, "--d-model", 1), "more heads"),
        ("a,b,next\nx,u,y\nx,v,z\n", ("--d-head", 9), "wider"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, body: str, options: tuple[object, ...], words: str
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(body)
    width = () if "--d-model" in options else ("--d-model", 2)
    # What a file of a few rows holds cannot be told from it, so the construction says it.
    named = () if "--with" in options else ("--with", "distribution_refit")
    code, out, err = call(capsys, "build", path, *width, *named, *options, "-o", tmp_path / "m")
    assert code == 2, (out, err)
    assert words in err and "Traceback" not in err
    assert not (tmp_path / "m").exists()


def test_one_context_and_wide_models_are_exact(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("a,b,next,count\nx,y,x,3\nx,y,y,1\nx,y,z,2\n")
    c = answer(capsys, "build", path, "--d-model", 2, "-o", tmp_path / "one")
    assert c["facts"] == 1 and c["encoder_kl"] == 0 and c["kl"] < 1e-6 and c["smoothing"] == 0
    wide = tmp_path / "wide.csv"
    rows = [
        f"{a},{b},{t},{1 + (3 * i + 5 * j + k) % 7}"
        for i, a in enumerate("xyz")
        for j, b in enumerate("xyz")
        for k, t in enumerate("xyz")
    ]
    wide.write_text("a,b,next,count\n" + "\n".join(rows) + "\n")
    for d in (2, 3, 5):
        c = answer(capsys, "build", wide, "--d-model", d, "-o", tmp_path / f"w{d}")
        assert c["encoder_kl"] == 0 and c["kl"] < 1e-6, d


def test_what_belongs_to_other_tables_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    facts, counts = tmp_path / "f.csv", tmp_path / "c.csv"
    facts.write_text("a,b,next\nx,y,z\ny,x,x\n")
    counts.write_text("a,next,count\nx,y,1\nx,z,2\ny,z,2\n")
    model = tmp_path / "m"
    for args, words in (
        (("build", facts, "-o", model, "--with", "argmax_fit", "--epsilon", 0.1), "--epsilon is an option of dana2025"),
        (("build", counts, "-o", model, "--d-model", 2, "--refine"), "belongs to argmax_fit, mlp_fit"),
        (("build", counts, "-o", model, "--d-model", 2, "--starts", 1, "--refine"), "no construction has"),
        (("build", counts, "-o", model, "--task", "distribution"), "No such option: --task"),
        (("build", counts, "-o", model), "give d_model"),
        (("bound", "--epsilon", 0.1), "give FACTS"),
        (("bound", counts, "--vocab", 9), "FACTS already says that"),
        (("bound", "--heads", 2), "missing"),
        (("plan", "--kl", 0.1, "--facts", 3, "--vocab", 4, "--context", 2), "needs a table"),
        (("plan", counts, "--kl", "-1"), "from 0"),
        (("facts", "ngrams", facts, "-o", tmp_path / "x.docx"), "docx"),
    ):
        code, out, err = call(capsys, *args)
        assert code == 2 and words in err, (args, out, err)
        assert not model.exists()


def test_the_kind_is_found_out_and_can_be_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("a,next,count\nx,y,1\nx,z,2\ny,z,2\n")
    code, out, err = call(capsys, "build", path, "--d-model", 2, "-o", tmp_path / "found", "--json")
    assert code == 0 and "column 'count' is taken for counts" in err
    assert json.loads(out)["data"] == "distributions"
    # Contexts that do not repeat are facts, unless an option or the construction says otherwise.
    path.write_text("a,b,next\nx,y,z\ny,x,x\n")
    assert answer(capsys, "build", path, "-o", tmp_path / "facts")["data"] == "facts"
    for number, how in enumerate((("--epsilon", 0.1), ("--with", "dana2025_thm1"))):
        c = answer(capsys, "build", path, "--d-model", 2, *how, "-o", tmp_path / f"named{number}")
        assert c["data"] == "distributions"
        assert call(capsys, "verify", tmp_path / f"named{number}")[0] == 0
