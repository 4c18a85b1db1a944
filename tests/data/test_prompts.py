"""Facts in sentences: templates, samples, contradictions, reading again, and scoring."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import rote
from attacks import tiny_models
from rote import data
from rote.data.encoding import Continuation, Prompt, batches, common_prefix, encode_prompts
from rote.data.kinds.prompts import PromptTable, prompts
from rote.data.outputs import Outputs
from rote.data.reading import Choices, Reading
from rote.errors import ConflictError, DataError, UnknownName, UsageError

ROWS = [{"code": "AS", "city": "Rome"}, {"code": "AT", "city": "south Oslo"}, {"code": "AS", "city": "Rome"}]
TEMPLATE, ANSWER = "The code {code} is in", " {city}"


def test_rows_become_sentences_and_repeats_are_dropped() -> None:
    table = prompts(ROWS, template=[TEMPLATE, "{{{code}}} is"], answer=ANSWER)
    assert [(f.template, f.text, f.answer) for f in table.facts] == [
        (0, "The code AS is in", " Rome"),
        (0, "The code AT is in", " south Oslo"),
        (1, "{AS} is", " Rome"),
        (1, "{AT} is", " south Oslo"),
    ]
    assert len(table) == 4 and table.bits == 4.0 and table.context == 5
    assert table == prompts(ROWS[:2], template=[TEMPLATE, "{{{code}}} is"], answer=[ANSWER, ANSWER])
    assert table != prompts(ROWS, template=TEMPLATE, answer=ANSWER)
    assert table.fact_text(0) == "'The code AS is in' -> ' Rome'"
    assert "4 facts, 2 answers" in repr(table)
    assert table.demand("float32", rote.Shape()).n_targets == 2


def test_a_file_is_read_again_as_it_was(tmp_path: Path) -> None:
    path = tiny_models.write_table(tmp_path / "facts.csv", 24)
    table = prompts(path, template=TEMPLATE, answer=ANSWER, sample=7, seed=3)
    assert table.n_facts == 7 and table.chosen == sorted(table.chosen)
    assert table == prompts(str(path), template=TEMPLATE, answer=ANSWER, sample=7, seed=3)
    assert table != prompts(path, template=TEMPLATE, answer=ANSWER, sample=7, seed=4)
    assert table.reading is not None and table.reading.columns == ("code",) and table.reading.target == ("city",)
    reading = Reading.from_dict(json.loads(json.dumps(table.reading.to_dict())))
    assert data.read(path, choices=reading.choices) == table
    record = {"facts_sha256": table.sha256}
    assert PromptTable.again(path, reading.choices, record) == table
    other = tiny_models.write_table(tmp_path / "other.csv", 9, seed=1)
    assert PromptTable.again(other, reading.choices, record).n_facts == 9


def test_shipped_rows_have_columns() -> None:
    table = prompts("elements", template="The {property} of {symbol} is", answer=" {value}")
    assert table.reading is not None and table.reading.shipped and table.n_facts == len(rote.read("elements"))


@pytest.mark.parametrize(
    ("template", "answer", "error", "sentence"),
    [
        ("The code {cod} is in", ANSWER, UnknownName, "did you mean 'code'"),
        (TEMPLATE, " {town}", UnknownName, "no column named 'town'"),
        ("The code is in", ANSWER, UsageError, "has no {field}"),
        ("The code {code is in", ANSWER, UsageError, "is no template"),
        ("The code {code!r} is in", ANSWER, UsageError, "not just a column's name"),
        (TEMPLATE, "", UsageError, "answer is empty"),
        ((), ANSWER, UsageError, "at least one template"),
        (TEMPLATE, (ANSWER, ANSWER), UsageError, "1 templates and 2 answers"),
        ("{city} has", " {code}", None, ""),
    ],
)
def test_refusals(template: str, answer: str, error: type[Exception] | None, sentence: str) -> None:
    if error is None:
        assert prompts(ROWS, template=template, answer=answer).n_facts == 2
        return
    with pytest.raises(error) as refusal:
        prompts(ROWS, template=template, answer=answer)
    assert sentence in str(refusal.value)


def test_contradictions_and_samples_that_cannot_be() -> None:
    with pytest.raises(ConflictError, match=r"row 1 and row 2 contradict: the same prompt has .*'The code is' \+ ' a'"):
        prompts([{"k": "code", "v": "a"}, {"k": "code", "v": "b"}], template="The {k} is", answer=" {v}")
    for count in (0, 4):
        with pytest.raises(UsageError, match="between 1 and the 3 rows"):
            prompts(ROWS, template=TEMPLATE, answer=ANSWER, sample=count)
    with pytest.raises(UsageError, match="leave out target"):
        data.read("elements", choices=Choices(target=("name",), template=("{symbol}",), answer=("{name}",)))


def test_tokens_of_prompts() -> None:
    tokenizer = tiny_models.tiny_tokenizer()
    table = prompts(ROWS, template=TEMPLATE, answer=ANSWER)
    first, second = encode_prompts(table.facts, tokenizer, end_id=0, context=128)
    assert tokenizer.decode(list(first.ids)) == "The code AS is in" and first.answer_ids[-1] == 0
    assert tokenizer.decode([*second.ids, *second.answer_ids[:-1]]) == "The code AT is in south Oslo"
    assert [token for _, token in second.rows] == list(second.answer_ids)
    with pytest.raises(DataError, match="but the model's context is 6"):
        encode_prompts(table.facts, tokenizer, end_id=0, context=6)
    with pytest.raises(DataError, match="cannot produce the answer ' Atlantis'"):
        encode_prompts(prompts(ROWS, template=TEMPLATE, answer=" Atlantis").facts, tokenizer, end_id=0, context=99)
    longer = prompts([{"k": "AS", "v": "Rome"}, {"k": "AS Rome", "v": "Oslo"}], template="The code {k}", answer=" {v}")
    with pytest.raises(ConflictError, match="one prompt goes on as the other does"):
        encode_prompts(longer.facts, tokenizer, end_id=0, context=99)


def test_batches_hold_every_index_once() -> None:
    sequences = [(1, 2, k % 5) for k in range(40)] + [(1, 2)] * 3
    parts = list(batches(sequences, [len(s) for s in sequences], tokens=12))
    assert sorted(i for part in parts for i in part) == list(range(43))
    assert all(len({len(sequences[i]) for i in part}) == 1 and len(part) <= 6 for part in parts)
    assert common_prefix([(1, 2, 3), (1, 2, 4)], 9) == (1, 2) and common_prefix([(1, 2), (1, 2)], 1) == (1,)


class Parrot(Outputs):
    """Says the right answer, but to the second prompt."""

    def continuations(self, prompts: Sequence[Prompt]) -> list[Continuation]:
        return [Continuation((5, i), f" said {i}", (5, 7 if i == 1 else i)) for i in range(len(prompts))]


def test_whole_answers_count() -> None:
    table = prompts(ROWS, template=TEMPLATE, answer=ANSWER)
    result = table.score(Parrot(), "float32")
    assert (result.n_facts, result.n_failed, result.recall) == (2, 1, 0.5)
    (failure,) = result.failures
    assert (failure.fact, failure.expected, failure.got) == (2, " south Oslo", " said 1")
    assert failure.context == "row 2: 'The code AT is in'"
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["min_margin"] is None
    with pytest.raises(UsageError, match="a table of prompts cannot judge it"):
        table.score(Outputs(), "float32")
