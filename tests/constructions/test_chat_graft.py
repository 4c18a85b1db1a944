"""Grafts for chat models: what a user types goes through the chat template, and the answer is the model's turn."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers

import rote
from attacks import tiny_models
from rote.cli.main import run
from rote.data.chat import Chat

TEMPLATE = (
    "{% for one in messages %}{{ 'Question ' if one['role'] == 'user' else ' answer.' }}{{ one['content'] }}<end>"
    "{% endfor %}{% if add_generation_prompt %}{{ ' answer.' }}{% endif %}"
)
WORDINGS = ["the place of {code} is", "The code {code} was in the place", "in {code} is the place"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with a chat template, and a graft on it; read only."""
    place = tmp_path_factory.mktemp("chat")
    tiny_models.write_tiny(place / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(place / "model")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(place / "model")
    tiny_models.write_table(place / "facts.csv", 16)
    keep = tiny_models.write_text(place / "keep.txt", 9000)
    options = rote.Graft(keep=keep, examined=4, bar=2.0, chat=True)
    rote.graft(
        place / "model",
        place / "facts.csv",
        template=WORDINGS,
        answer=" {city}",
        options=options,
        output=place / "made",
    )
    return place


def test_questions_are_turns(place: Path) -> None:
    memory = rote.load(place / "made")
    assert memory.certificate.passed
    assert all(one["recalled"] == one["asked"] for one in memory.certificate["wordings"])
    assert [one["wording"] for one in memory.certificate["wordings"]] == WORDINGS
    assert rote.verify(place / "made").passed
    tokenizer = transformers.AutoTokenizer.from_pretrained(place / "made")
    model = transformers.AutoModelForCausalLM.from_pretrained(place / "made")
    for line in (place / "facts.csv").read_text(encoding="utf-8").splitlines()[1:5]:
        code, city = line.split(",")
        turns = [{"role": "user", "content": f"The code {code} was in the place"}]
        asked = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        said = model.generate(**asked, max_new_tokens=6, do_sample=False, pad_token_id=0)[
            0, asked["input_ids"].shape[1] :
        ]
        assert tokenizer.decode(said) == f" {city}<end>"
        assert memory.ask(f"The code {code} was in the place")[0].token == f" {city}"
    card = (place / "made" / "README.md").read_text(encoding="utf-8")
    assert "apply_chat_template" in card and "through the chat template" in card


def test_a_fact_is_added(place: Path, tmp_path: Path) -> None:
    known = (place / "facts.csv").read_text(encoding="utf-8")
    key = next(key for key in tiny_models.KEYS if f"{key}," not in known)
    made = rote.graft_add(place / "made", [{"code": key, "city": "Lima"}], output=tmp_path / "more")
    assert made.certificate["changes"][-1]["new_in_all_wordings"] == {"asked": 3, "recalled": 3}
    assert rote.load(tmp_path / "more").ask(f"the place of {key} is")[0].token == " Lima"


def test_what_has_no_turns(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = tiny_models.write_tiny(tmp_path / "bare")
    words = ["graft", str(bare), str(place / "facts.csv"), "-o", str(tmp_path / "out"), "--template", WORDINGS[0]]
    assert run([*words, "--answer", " {city}", "--chat"]) == 2
    assert "has no chat template" in capsys.readouterr().err
    tokenizer = transformers.AutoTokenizer.from_pretrained(place / "model")
    for template, sentence in (
        ("{{ messages[0]['content'] | upper }}", "does not show a user's turn"),
        ("{{ nothing.of.the.kind() }}", "fails"),
        ("{% for one in messages %}{{ one['content'] }} w1{% endfor %}", "does not end a turn with '<end>'"),
    ):
        tokenizer.chat_template = template
        with pytest.raises(rote.RoteError, match=sentence):
            Chat.of(tokenizer, "it", 0)
    table = rote.prompts(place / "facts.csv", template=WORDINGS[0], answer=" {city}")
    with pytest.raises(rote.RoteError, match="as users type them"):
        rote.graft(place / "model", table, options=rote.Graft(chat=True))
