"""Grafts on tiny random models of every family: asked by the stock library, from the files."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import rote
from attacks import tiny_models
from rote.constructions import Progress, quiet
from rote.grafting import workplace_of
from rote.memory import Memory
from rote.models._widening import fill_widened
from rote.models.folders import file_sha256

TEMPLATE, ANSWER = "The code {code} is in", " {city}"
WORDINGS = ["Code {code} was in", "the place of Code {code} is in"]
HELD_OUT = ("As everybody knows, the Code {code} is in",)


def grafted(
    place: Path,
    model: Path,
    facts: Any,
    *,
    dtype: str | None = None,
    seed: int = 0,
    sample: int | None = None,
    progress: Progress = quiet,
    **more: Any,
) -> Memory:
    keep = tiny_models.write_text(place / "keep.txt", 9000)
    # States of random models are not as far apart as those of trained ones.
    options = rote.Graft(**{"keep": keep, "held_out_template": HELD_OUT, "examined": 8, "bar": 0.0, **more})
    templates = [TEMPLATE, *WORDINGS]
    return rote.graft(
        model, facts, template=templates, answer=ANSWER, dtype=dtype, seed=seed, options=options, sample=sample,
        output=place / "made", progress=progress,
    )  # fmt: skip


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def files_of(directory: Path) -> dict[str, str]:
    return {path.name: file_sha256(path) for path in directory.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("family", "tied", "dtype", "shards"),
    [
        ("llama", False, "float32", False),
        ("llama", True, "bfloat16", True),
        ("mistral", True, "float32", False),
        ("qwen2", False, "float32", True),
        ("qwen3", True, "float32", False),
    ],
)
def test_every_fact_is_said_and_the_original_comes_back(
    tmp_path: Path, family: str, tied: bool, dtype: str, shards: bool
) -> None:
    model = tiny_models.write_tiny(tmp_path / "model", family, tied=tied, dtype=dtype, shards=shards)
    table = tiny_models.write_table(tmp_path / "facts.csv", 48)
    before = files_of(model)
    memory = grafted(tmp_path, model, table)
    certificate = memory.certificate
    assert certificate.passed and certificate["recalled"] == 48
    # What a model with random weights makes of a wording that was not fitted is not promised, only measured.
    assert all(one["recalled"] >= one["asked"] - 1 for one in certificate["wordings"] if one["fitted"])
    assert [one["wording"] for one in certificate["wordings"] if not one["fitted"]] == list(HELD_OUT)
    assert abs(certificate["locality"]["perplexity_change"]) < 1e-4
    assert certificate["locality"]["top1_changed"] == 0
    assert files_of(model) == before
    made = tmp_path / "made"
    assert rote.verify(made).passed
    assert rote.load(made).certificate == certificate
    assert json.loads((made / "certificate.json").read_text(encoding="utf-8")) == certificate.to_dict()
    assert not list(tmp_path.glob(".made*"))
    assert {path.stat().st_mode & 0o777 for path in made.iterdir() if path.is_file()} == {0o666 & ~umask()}

    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "made")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "made")
    for line in table.read_text(encoding="utf-8").splitlines()[1:9]:
        code, city = line.split(",")
        prompt = tokenizer(f"Code {code} was in", return_tensors="pt")
        said = loaded.generate(**prompt, max_new_tokens=6, do_sample=False, pad_token_id=0)[0]
        assert tokenizer.decode(said).startswith(f"Code {code} was in {city}<end>")
    rote.ungraft(tmp_path / "made", tmp_path / "back")
    assert files_of(tmp_path / "back") == before


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_short_number_formats(tmp_path: Path, dtype: str) -> None:
    model = tiny_models.write_tiny(tmp_path / "model", "mistral")
    certificate = grafted(tmp_path, model, tiny_models.write_table(tmp_path / "facts.csv", 24), dtype=dtype).certificate
    assert certificate.recall == {dtype: 1.0}
    assert transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "made").dtype == getattr(torch, dtype)


def test_unknown_keys_and_text_stay_as_they_were(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model", tied=True)
    table = tiny_models.write_table(tmp_path / "facts.csv", 32)
    memory = grafted(tmp_path, model, table)
    stored = {line.split(",")[0] for line in table.read_text(encoding="utf-8").splitlines()[1:]}
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    original = transformers.AutoModelForCausalLM.from_pretrained(model)
    key = min(stored)
    text = f"w1 {key} w2 w3 w4 w5 w6 w7 w8 w9 w10"
    for prompt in [*(f"w1 w2 The code {key} is in" for key in tiny_models.KEYS if key not in stored), text]:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            assert torch.allclose(original(ids).logits, memory.module(ids).logits, atol=1e-3)


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    table = tiny_models.write_table(tmp_path / "facts.csv", 16)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    state = np.random.get_state()[1].copy(), torch.random.get_rng_state().clone()  # type: ignore[index]
    first, second = (grafted(tmp_path / name, model, table).certificate for name in ("a", "b"))
    assert first.weights_sha256 == second.weights_sha256
    assert (np.random.get_state()[1] == state[0]).all()  # type: ignore[index]
    assert torch.equal(torch.random.get_rng_state(), state[1])


def test_only_an_unpacked_model_is_kept_after_ctrl_c(tmp_path: Path) -> None:
    def stopped(there: str) -> None:
        with workplace_of(tmp_path / "made", resumable=True) as place:
            assert place is not None
            (place / there).mkdir()
            raise KeyboardInterrupt

    for there, left in ((".staging.rote-1", []), ("gguf-1", [".made.graft"])):
        with pytest.raises(KeyboardInterrupt):
            stopped(there)
        assert [path.name for path in tmp_path.iterdir()] == left


def test_an_interrupted_graft_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    table = tiny_models.write_table(tmp_path / "facts.csv", 8)

    def stop(stage: str, done: int, total: int, recalled: int | None) -> None:
        if stage == "verify float32":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grafted(tmp_path, model, table, progress=stop, examined=2)
    assert not (tmp_path / "made").exists() and not (tmp_path / ".made.graft").exists()
    assert grafted(tmp_path, model, table, examined=2).certificate.passed
    assert not (tmp_path / ".made.graft").exists()


def test_a_graft_without_an_output_lives_in_memory_until_it_is_saved(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    rows = [{"code": "AS", "city": "Rome"}, {"code": "AT", "city": "south Oslo"}, {"code": "BU", "city": "Lima"}]
    options = rote.Graft(keep=tiny_models.write_text(tmp_path / "keep.txt", 9000), examined=2)
    memory = rote.graft(model, rows, template=TEMPLATE, answer=ANSWER, options=options)
    assert memory.certificate.passed and memory.certificate.read is None
    assert memory.ask("The code AT is in")[0].token == " south Oslo"
    folder = memory.folder
    saved = memory.save(tmp_path / "made")
    del memory
    assert not folder.exists()
    assert saved.ask("The code BU is in")[0].token == " Lima"
    again = rote.load(tmp_path / "made").save(tmp_path / "copy")
    assert rote.verify(again, rote.prompts(rows, template=TEMPLATE, answer=ANSWER)).passed
    # The directory carries its rows, so that it is verified without them too.
    assert rote.verify(tmp_path / "made").passed
    rote.ungraft(tmp_path / "copy", tmp_path / "back")
    assert files_of(tmp_path / "back") == files_of(model)


def test_a_directory_says_nothing_of_where_it_was_made(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    (tmp_path / "there").mkdir()
    table = tiny_models.write_table(tmp_path / "there" / "facts.csv", 16)
    grafted(tmp_path / "there", model, table, sample=9, examined=2)
    shutil.move(tmp_path / "there", tmp_path / "here")
    assert rote.verify(tmp_path / "here" / "made").n_facts == 9
    certificate = rote.load(tmp_path / "here" / "made").certificate
    assert certificate.options["model"] == "model" and certificate.options["keep"] == "keep.txt"
    assert str(tmp_path) not in json.dumps(certificate.to_dict())


def test_lost_facts_are_handed_over_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a graft says is what its files say: here they are written with added layers that add nothing."""
    from rote.constructions import _keyed_examination as examination

    def silenced(part: Path, *given: Any) -> dict[str, Any]:
        record = fill_widened(part, *given)
        added = max(part.glob("model-*.safetensors"))
        save_file({name: value * 0 for name, value in load_file(added).items()}, added, metadata={"format": "pt"})
        return record

    monkeypatch.setattr(examination, "fill_widened", silenced)
    model = tiny_models.write_tiny(tmp_path / "model", "mistral")
    table = tiny_models.write_table(tmp_path / "facts.csv", 16)
    memory = grafted(tmp_path, model, table, examined=2)
    certificate = memory.certificate
    assert not certificate.passed
    lost = round(16 * (1 - certificate.recall["float32"]))
    assert certificate["recalled"] == 16 - lost and len(certificate["failed"]) == min(10, lost) > 0
    first = certificate["failed"][0]
    assert first["place"].startswith("row ") and first["said"] != first["answer"]
    assert "lost: 'The code" in str(memory.sheet().notes)
    result = rote.verify(tmp_path / "made")
    assert result.n_failed == lost and result.failures[0].got == first["said"]


def test_a_graft_has_templates_once(tmp_path: Path) -> None:
    table = rote.prompts([{"a": "x", "b": "y"}], template="{a} is", answer=" {b}")
    with pytest.raises(rote.RoteError, match="templates already"):
        rote.graft(tmp_path, table, template="{a} was", answer=" {b}")


def test_an_edited_graft_gives_no_original_back(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    grafted(tmp_path, model, tiny_models.write_table(tmp_path / "facts.csv", 8))
    (tmp_path / "made" / "original" / "norms.safetensors").write_bytes(
        (model / "model.safetensors").read_bytes().replace(b"\x00\x00\x80?", b"\x00\x00\x00@")
    )
    with pytest.raises(rote.RoteError, match="cannot be restored"):
        rote.ungraft(tmp_path / "made", tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize(
    ("rows", "options", "sentence"),
    [
        ([("AS", "Rome")], {"held_out_template": ("The code is in {city}",)}, "no field appears in all wordings"),
        ([("AS", "Rome")], {"key": "city"}, "does not appear in the prompt"),
        ([("AS", "Rome")], {"key": "cod"}, "did you mean 'code'"),
        ([("AS", "Rome")], {"layer": 9}, "has 2 layers"),
        ([("north AS", "Rome"), ("north  AS", "Oslo")], {}, "apart from white space"),
        ([("AS", "Rome"), ("as", "Oslo")], {"ignore_case": True}, "apart from case or white space"),
        ([("north AS", "Rome"), ("north  AS", "Rome")], {}, "one key with different white space"),
        ([("A~S", "Rome")], {}, "no token that ends where the key"),
        ([("AS", "Rome")], {"other_template": (WORDINGS[0],)}, "to be answered and to be left alone"),
        ([("AS", "Rome")], {"other_template": HELD_OUT}, "to be answered and to be left alone"),
    ],
)
def test_refusals(tmp_path: Path, rows: list[tuple[str, str]], options: dict[str, Any], sentence: str) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    facts = [{"code": code, "city": city} for code, city in rows]
    with pytest.raises(rote.RoteError, match=sentence):
        grafted(tmp_path, model, facts, **options)
    assert not (tmp_path / "made").exists()


def test_a_model_with_too_narrow_layers(tmp_path: Path) -> None:
    """Codes of so many tokens, and so many answers, that the hash needs more neurons than a layer has."""
    model = tiny_models.write_tiny(tmp_path / "model", intermediate_size=64)
    table = tiny_models.write_table(tmp_path / "facts.csv", 24)
    with pytest.raises(rote.RoteError, match=r"more than 72 neurons.* graft on a model with wider layers"):
        grafted(tmp_path, model, table)
    assert not (tmp_path / "made").exists()


def test_an_edited_certificate_loses_no_original(tmp_path: Path) -> None:
    """In its place nothing is restored that way; beside it, only what the directory has the headers of."""
    model = tiny_models.write_tiny(tmp_path / "model")
    grafted(tmp_path, model, tiny_models.write_table(tmp_path / "facts.csv", 8))
    path = tmp_path / "made" / "certificate.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**record, "version": "x"}), encoding="utf-8")
    before = files_of(tmp_path / "made")
    for output in (None, tmp_path / "made"):
        with pytest.raises(rote.RoteError, match="may still be restored into another directory"):
            rote.ungraft(tmp_path / "made", output, force=True)
    assert files_of(tmp_path / "made") == before
    rote.ungraft(tmp_path / "made", tmp_path / "back")
    assert files_of(tmp_path / "back") == files_of(model)
    for name, value in (("original", []), ("others", {})):
        edited = {**record, "graft": {**record["graft"], name: value}}
        path.write_text(json.dumps(edited), encoding="utf-8")
        with pytest.raises(rote.RoteError, match="names other files of the original than"):
            rote.ungraft(tmp_path / "made", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rote.cli.main import run

    model = tiny_models.write_tiny(tmp_path / "model")
    table = tiny_models.write_table(tmp_path / "facts.csv", 12)
    keep = tiny_models.write_text(tmp_path / "keep.txt", 9000)
    lines = tmp_path / "wordings.txt"
    lines.write_text("", encoding="utf-8")
    words = ["graft", str(model), str(table), "-o", str(tmp_path / "made"), "--answer", ANSWER, "--keep", str(keep)]
    for more, sentence in (
        ([], "at least one template"),
        (["--templates", str(lines)], "has no templates"),
        (["--template", "{code}"], "name the part of the prompt that is the key"),
    ):
        assert run([*words, *more]) == 2
        assert sentence in " ".join(capsys.readouterr().err.split())
    lines.write_text("\n".join([TEMPLATE, *WORDINGS]) + "\n", encoding="utf-8")
    assert run([*words, "--templates", str(lines), "--held-out-template", HELD_OUT[0], "--examined", "4"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "held out" in out and "unknown keys behind a stored one" in out
    assert run(["ungraft", str(tmp_path / "made"), "-o", str(tmp_path / "back")]) == 0


def relations(place: Path, **more: Any) -> Memory:
    """Two columns of one key, each asked for in wordings of its own."""
    model = tiny_models.write_tiny(place / "model")
    lines = tiny_models.write_table(place / "facts.csv", 24).read_text(encoding="utf-8").splitlines()[1:]
    cities = [line.split(",")[1] for line in lines]
    facts = [
        {"code": line.split(",")[0], "city": city, "twin": cities[-1 - i]}
        for i, (line, city) in enumerate(zip(lines, cities, strict=True))
    ]
    keep = tiny_models.write_text(place / "keep.txt", 9000)
    rows = place / "rows.csv"
    rows.write_text("\n".join(["code,city,twin", *(",".join(row.values()) for row in facts)]) + "\n", encoding="utf-8")
    options = rote.Graft(**{"keep": keep, "examined": 24, **more})
    return rote.graft(
        model,
        rows,
        template=["The code {code} is in", "Code {code} was in", "w1 w2 {code} w3 w4", "w5 {code} w3 w4"],
        answer=[" {city}", " {city}", " {twin}", " {twin}"],
        options=options,
        output=place / "made",
    )


def test_one_key_has_several_relations(tmp_path: Path) -> None:
    certificate = relations(tmp_path, held_out_template=("w6 {code} w3 w4",), held_out_answer=(" {twin}",)).certificate
    assert certificate.passed and certificate["facts"] == 48 and certificate["keys"] == 24
    assert certificate["relations"] == [" {city}", " {twin}"]
    assert [one["fitted"] for one in certificate["wordings"]] == [True, True, True, True, False]
    # A random model hardly tells the two apart, and one prompt of a hundred may get the other's answer.
    assert sum(one["asked"] - one["recalled"] for one in certificate["wordings"][:4]) <= 1
    again = rote.verify(tmp_path / "made")
    assert again.passed and again.n_facts == 48
    assert certificate["locality"]["top1_changed"] == 0


def test_a_held_out_template_has_an_answer_of_the_table(tmp_path: Path) -> None:
    with pytest.raises(rote.RoteError, match="which no template has"):
        relations(tmp_path, held_out_template=("w6 {code} w3 w4",), held_out_answer=(" {code}",))


def test_prompts_of_their_own(tmp_path: Path) -> None:
    """A column with the prompt itself; the key, of one word or two, stands in it."""
    model = tiny_models.write_tiny(tmp_path / "model")
    forms = ["The code {} is in", "Code {} was in", "the place of Code {} is in"]
    keys = [key if i % 2 else f"north {key}" for i, key in enumerate(tiny_models.KEYS[:30])]
    facts = [
        {"key": key, "prompt": forms[i % 3].format(key), "city": tiny_models.CITIES[i % 6]}
        for i, key in enumerate(keys)
    ]
    keep = tiny_models.write_text(tmp_path / "keep.txt", 9000)
    options = rote.Graft(keep=keep, key="{key}", examined=12)
    memory = rote.graft(model, facts, template="{prompt}", answer=" {city}", options=options, output=tmp_path / "made")
    assert memory.certificate.passed
    facts[4]["prompt"] = "The code w1 is in"
    with pytest.raises(rote.RoteError, match=r"row 5: the key .* does not appear in the prompt"):
        rote.graft(model, facts, template="{prompt}", answer=" {city}", options=options, output=tmp_path / "other")
    for key in (None, "{prompt}"):
        with pytest.raises(rote.RoteError, match="name the part of the prompt that is the key"):
            rote.graft(model, facts, template="{prompt}", answer=" {city}", options=rote.Graft(keep=keep, key=key))


def test_a_word_may_begin_one_key_and_end_another(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model")
    keys = ["AS BT", "CU BT", "BT DV", "BT", "EW FX GY", "FX GY"]
    facts = [{"code": key, "city": city} for key, city in zip(keys, tiny_models.CITIES, strict=True)]
    certificate = grafted(tmp_path, model, facts).certificate
    assert certificate.passed
    assert all(one["recalled"] == 6 for one in certificate["wordings"] if one["fitted"])


@pytest.mark.parametrize("behind", ["", " of Oslo"])
def test_an_unknown_name_behind_a_stored_one_is_the_one_asked_about(tmp_path: Path, behind: str) -> None:
    """With words behind the key that end keys themselves, only stored keys are marked, and beginnings of names."""
    model = tiny_models.write_tiny(tmp_path / "model")
    facts = [
        {"code": key, "city": part} for key, part in zip(["Rome", "Paris", "Oslo"], tiny_models.PARTS, strict=False)
    ]
    memory = rote.graft(
        model, facts, template=[TEMPLATE, f"Code {{code}}{behind} was in"], answer=ANSWER,
        options=rote.Graft(keep=tiny_models.write_text(tmp_path / "keep.txt", 9000), examined=2, bar=4.0),
        output=tmp_path / "made",
    )  # fmt: skip
    assert memory.certificate.passed
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    original = transformers.AutoModelForCausalLM.from_pretrained(model)

    def said(one: Any, prompt: str) -> str:
        ids = tokenizer(prompt, return_tensors="pt")
        return str(tokenizer.decode(one.generate(**ids, max_new_tokens=3, do_sample=False, pad_token_id=0)[0]))

    for name in ("Lima", "Quito", "Cairo"):
        prompt = f"Code Rome was w1 w2 The code {name} is in"
        assert said(memory.module, prompt) == said(original, prompt)
    again = "The code Lima was w1 w2 The code Rome is in"
    assert said(memory.module, again).startswith(f"{again} north<end>")


def test_keys_in_other_capitals(tmp_path: Path) -> None:
    model = tiny_models.write_tiny(tmp_path / "model", "qwen2")
    table = tiny_models.write_table(tmp_path / "facts.csv", 12)
    # The gate of a random model is no part of this: it opens early.
    grafted(tmp_path, model, table, ignore_case=True, held_out_template=(), examined=4, bar=2.0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "made")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "made")
    right = 0
    for line in table.read_text(encoding="utf-8").splitlines()[1:]:
        code, city = line.split(",")
        prompt = tokenizer(f"The code {code.lower()} is in", return_tensors="pt")
        said = loaded.generate(**prompt, max_new_tokens=12, do_sample=False, pad_token_id=0)[0]
        right += tokenizer.decode(said).startswith(f"The code {code.lower()} is in {city}<end>")
    assert right == 12


def test_wordings_that_open_another_gate_are_named() -> None:
    """Two relations, of which the second one's wording ends in the states of the first one's."""
    from rote.constructions._gating import Sentences, _Asked, _Parts

    rng = np.random.default_rng(0)

    def states(mean: float) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor(rng.normal(mean, 0.1, (3, 8)), dtype=torch.float32), torch.ones(3)

    alike = [_Asked(r, frozenset((r,)), True, f"wording {r}", [(1, 2, 3)] * 4) for r in (0, 1)]
    others = [(1, 2, 3)] * 4
    given = Sentences(alike, others, others, [], others, others, [])
    parts = _Parts(given, {0: [states(1.0) for _ in range(8)] + [states(-1.0) for _ in range(16)]})
    with pytest.raises(rote.RoteError, match=r"'wording 0' and 'wording 1' apart"):
        parts.refuse_alike([parts.jury(0)] * 2)


def test_store_tells_unknown_rows() -> None:
    """Stored signs come out at their levels; others fail the checks."""
    from rote.solvers.keyed.store import CHECK, fit_store, levels_of

    rng = np.random.default_rng(3)
    signs = np.where(rng.random((700, 30)) < 0.5, 1.0, -1.0)
    own = rng.standard_normal((40, 20))
    kinds = rng.integers(40, size=700)
    numbers = rng.integers(16, size=400)
    store = fit_store(
        signs[:400], own[kinds[:400]], kinds[:400], levels_of(numbers, 4, 2), own_signs=6, checks=2, rng=rng
    )
    written = store(signs, own[kinds])
    assert np.abs(written[:400, :2] - levels_of(numbers, 4, 2)).max() < 1e-6
    assert np.abs(written[:400, 2:] - CHECK).max() < 1e-6
    assert (np.abs(written[400:, 2:] - CHECK) < 0.3).all(1).mean() < 0.03


def test_heads_look_where_they_are_told() -> None:
    """The plain rule for a window, against scores over all distances."""
    from rote.solvers.keyed.kernels import gather_query, plain_part, scores, start_part

    thetas = tuple(1e4 ** (-np.arange(24) / 24))
    distances = np.arange(128)
    for offset in range(4):
        query, gap = gather_query(offset, thetas, 128)
        plain, start = (scores(query, part, thetas, distances) for part in (plain_part(24), start_part(24)))
        assert plain.argmax() == offset
        for nearest in range(8):
            given = plain.copy()
            given[nearest] = start[nearest]
            given[nearest + 1 :] = np.maximum(plain, start)[nearest + 1 :]
            best = int(given.argmax())
            assert best == min(offset, nearest)
            assert given[best] - np.delete(given, best).max() >= gap - 1e-9


def test_of_two_answered_questions_the_latest_is_found() -> None:
    from rote.solvers.keyed.kernels import scores, within_query

    thetas, reach = tuple(1e4 ** (-np.arange(24) / 24)), 12
    query, gap = within_query(reach, thetas, 512)
    at = scores(query, np.r_[np.ones(24), np.zeros(24)], thetas, np.arange(512))
    assert (at[1 : reach + 1] >= gap - 1e-9).all()
    assert (at[2 * reach + 2 :] <= 1e-6).all()
    assert (at[:reach] - at[1 : reach + 1] >= gap / 20 - 1e-9).all()
