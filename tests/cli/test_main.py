"""The command line as a user meets it: whole processes where start-up and exit codes matter."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from rote.cli.main import VERBS, run


def rote(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "rote", *args], capture_output=True, text=True, check=False)


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = run(list(args))
    out, err = capsys.readouterr()
    return code, out, err


SHAPE = ("--heads", "8", "--d-model", "64", "--d-head", "64", "--context", "32", "--vocab", "1000")


def test_help_is_a_table_of_contents() -> None:
    done = rote("--help")
    assert done.returncode == 0
    # Without the frames, and without where lines are broken.
    page = " ".join(re.sub("[│╭╮╰╯─]", " ", done.stdout).split())
    for verb, (panel, line) in VERBS.items():
        assert f"{verb} {line}" in page
        assert panel in page


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from rote.cli.main import run; run(['--help']);"
        "heavy = {'torch', 'numpy', 'polars', 'scipy', 'rote.constructions'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


FACTS_VERBS = ("list", "show", "export", "generate", "ngrams", "distribution")


@pytest.mark.parametrize("verb", [*(verb for verb in VERBS if verb != "facts"), *(f"facts {v}" for v in FACTS_VERBS)])
def test_every_verb_has_help_with_an_example(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, out, _ = call(capsys, *verb.split(), "--help")
    assert code == 0
    assert f"$ rote {verb}" in " ".join(out.split())
    assert "--json" in out


def test_the_verbs_of_facts_are_all_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "facts", "--help")
    assert code == 0
    assert all(verb in out for verb in FACTS_VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_the_contents_say_what_the_verb_says(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    """The entry and the first paragraph of the verb's own help are about the same things."""
    _, out, _ = call(capsys, verb, "--help")
    first = re.split(r"\n\s*\n", out.split("Usage:", 1)[1])[1]
    entry, own = (
        {word[:4] for word in re.findall(r"\w{3,}", text.lower())} - {"the", "that", "for", "and", "with"}
        for text in (VERBS[verb][1], first)
    )
    assert 3 * len(entry & own) >= len(entry), (entry, own)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--version")
    assert code == 0
    assert out.startswith("rote 0.")


def test_bound_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "bound", *SHAPE, "--json")
    rows = json.loads(out)
    assert code == 0
    by_name = {row["theorem"]: row for row in rows}
    assert by_name["mahdavi2024_thm1"]["facts"] == 249
    assert by_name["dana2025_cor1"]["facts"] == 576
    assert by_name["dana2025_cor1"]["params"] == 261_120
    assert by_name["kim2023"]["facts"] is None
    keys = {"theorem", "kind", "facts", "params", "bits_per_param", "conditions", "formula", "source"}
    for row in rows:
        assert keys <= set(row)
        assert row["kind"] in {"lower", "upper", "order", "empirical"}
        assert all(c["status"] in {"met", "not met", "unknown"} for c in row["conditions"])


def test_bound_options_reach_the_theorems(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "bound", *SHAPE, "--shared-context", "--kruskal", "10", "--json")
    by_name = {row["theorem"]: row["facts"] for row in json.loads(out)}
    assert by_name["mahdavi2024_shared_upper"] == 8 * 31 + 1
    assert by_name["mahdavi2024_kruskal"] == 8 * 9 + 1
    assert by_name["mahdavi2024_thm1"] is None
    _, out, _ = call(capsys, "bound", *SHAPE, "--dtype", "bfloat16", "--theorem", "counting", "--json")
    assert json.loads(out)[0]["facts"] == 419_226  # 261,120 * 16 / log2 1000


def test_bound_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "bound", *SHAPE)
    assert code == 0
    for word in ("dana2025_cor1", "576", "counting", "838,452", "261,120 dense parameters"):
        assert word in out


def test_plan_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "plan", "--facts", "10000", "--vocab", "1000", "--context", "4", "--json")
    rows = json.loads(out)
    assert code == 0
    assert [row["params"] for row in rows] == sorted(row["params"] for row in rows)
    for row in rows:
        assert {"construction", "architecture", "params", "bytes", "facts"} <= set(row)
        assert row["facts"] >= 10_000
    association = next(row for row in rows if row["construction"] == "dana2025_cor1")
    # Float32 tells so many targets apart neither on a circle nor on a sphere, so d_model is 4.
    assert association["params"] == 4 * (4 + 2000 + 4 * 9996)
    assert association["bytes"] == 4 * association["params"]


def test_plan_of_shipped_facts(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "plan", "elements", "--json")
    assert code == 0
    assert {row["construction"] for row in json.loads(out)} >= {"dana2025_cor1", "kajitsuka2025_next_token"}


def test_plan_says_no_with_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    request = ("plan", "--facts", "10000", "--vocab", "1000", "--context", "4", "--max-params", "100")
    code, out, _ = call(capsys, *request)
    assert code == 1
    assert "No construction fits" in out
    assert "more than the 100 allowed" in out
    code, out, err = call(capsys, *request, "--json")
    assert code == 1
    assert json.loads(out) == []
    assert "more than the 100 allowed" in err


@pytest.mark.parametrize(
    ("args", "needle"),
    [
        (("bound", "--heads", "0", *SHAPE[2:]), "n_heads must be from 1"),
        (("bound", *SHAPE, "--dtype", "flaot32"), "float32"),
        (("bound", *SHAPE, "--theorem", "dana2025_cor9"), "did you mean"),
        (("bound", *SHAPE, "--kruskal", "65"), "at most 64"),
        (("bound", "--heads", "8"), "missing: --d-model, --context, --vocab"),
        (("bound", *SHAPE, "--bogus"), "No such option"),
        (("plan",), "missing: --facts, --vocab, --context"),
        (("plan", "--facts", "5", "--vocab", "2", "--context", "2"), "4 distinct contexts"),
        (("plan", "elements", "--facts", "3"), "leave out --facts"),
        (("plan", "no_such_table"), "no_such_table"),
        (("theorems", "dana2025_cor"), "did you mean"),
        (("bund",), "No such command"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], needle: str
) -> None:
    code, out, err = call(capsys, *args)
    assert code == 2
    assert out == ""
    assert needle in " ".join(err.split())
    assert "Traceback" not in err


def test_debug_shows_the_traceback() -> None:
    plain = rote("theorems", "nope")
    assert plain.returncode == 2
    assert "Traceback" not in plain.stderr
    debug = rote("theorems", "nope", "--debug")
    assert debug.returncode != 0
    assert "Traceback" in debug.stderr


def test_theorems_lists_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    from rote.theorems import registry

    code, out, _ = call(capsys, "theorems", "--json")
    assert code == 0
    assert [row["theorem"] for row in json.loads(out)] == list(registry())
    code, out, _ = call(capsys, "theorems", "dana2025_cor1")
    assert code == 0
    assert "T_0 = H d_h + d" in out


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m rote theorems --json | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
