"""Every kind of table against the contract, and the one reader that finds out which kind a source is of."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from rote import data
from rote.config import Shape
from rote.data import (
    Choices,
    DistributionTable,
    FactTable,
    Reading,
    SequenceTable,
    Source,
    Table,
    VectorTable,
    Vocabulary,
    random_vectors,
    read,
    reader,
    write,
)
from rote.data.divergence import Divergence
from rote.data.kinds.distributions import in_bits
from rote.errors import CheckpointError, ConflictError, DataError, UnknownName, UsageError
from rote.testing.tables import Echo, check_table

KINDS: dict[str, type[Table]] = {
    "facts": FactTable,
    "sequences": SequenceTable,
    "vectors": VectorTable,
    "distributions": DistributionTable,
}


def put(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("kind", sorted(data.registry()))
def test_every_kind_keeps_the_contract(kind: str) -> None:
    if kind == "prompts":
        # Prompts are rows put into templates, so there are none without a source.
        check_table(read("elements", choices=Choices(template=("{symbol} has {property}",), answer=(" {value}",))))
    else:
        check_table(data.kind(kind))


def test_the_registry_has_the_classes_that_rote_exports() -> None:
    assert {kind: data.kind(kind) for kind in KINDS} == KINDS


def test_the_registry_names_the_nearest_kind() -> None:
    assert {*KINDS, "prompts"} <= set(data.registry())
    with pytest.raises(UnknownName, match="did you mean 'vectors'"):
        read("elements", kind="vector")


def test_what_a_file_holds_is_found_out(tmp_path: Path) -> None:
    # Another name or another place of the column may well be a part of facts.
    for text in ("animal,sex,weight\ncat,m,4\ncat,f,3\n", "item,count,colour\ncup,1,red\ncup,2,blue\n"):
        assert read(put(tmp_path, text, "plain.csv")).kind == "facts"
    facts = put(tmp_path, "a,b,count\np,q,1\nr,q,2\n")
    assert read(facts).kind == "facts"  # no context repeats, so the last column is the target
    counts = put(tmp_path, "a,b,count\np,q,1\np,r,2\n", "counts.csv")
    table = read(counts)
    assert table.kind == "distributions" and table.reading is not None
    assert (table.reading.weight, table.reading.columns, table.reading.target) == ("count", ("a",), ("b",))
    assert read(counts, target="b", columns="a", weight="count").kind == "distributions"
    assert read(counts, target="b", columns="a", weight="count", on_conflict="last").kind == "facts"
    assert read(counts, kind="facts").n_facts == 2
    assert read(put(tmp_path, "a,b,count\np,q,many\np,r,few\n", "words.csv")).kind == "facts"
    assert read(put(tmp_path, "a,b,n\np,q,1\np,r,2\n", "n.csv"), weight="n", target="b").kind == "distributions"
    pairs = put(tmp_path, "a,b,y,z\np,q,r,s\n", "pairs.csv")
    assert read(pairs).kind == "facts"
    assert read(pairs, target="y,z").kind == "facts"
    assert read(pairs, kind="sequences") == read(pairs, kind="sequences", target=["y", "z"], columns=["a", "b"])
    assert read(put(tmp_path, "x1,x2,y1,y2\np,q,r,s\n", "own.csv")) == read(pairs, kind="sequences")
    random_vectors(3, 2, 2, rng=np.random.default_rng(0)).write(tmp_path / "v.safetensors")
    assert read(tmp_path / "v.safetensors").kind == "vectors"
    with pytest.raises(DataError, match="there is no file"):
        read(tmp_path / "none.safetensors")


def test_contradictions_say_that_there_are_distributions(tmp_path: Path) -> None:
    path = put(tmp_path, "a,b\np,q\np,r\n")
    with pytest.raises(ConflictError, match="read the table as kind 'distributions'"):
        read(path)
    assert read(path, kind="distributions").n_facts == 1


def test_readings_say_how_and_read_again(tmp_path: Path) -> None:
    path = put(tmp_path, "id,town,land\n1,new york,usa\n2,rome,italy\n2,rome,italy\n")
    table = read(path, target="land", columns=["town"], tokens="words")
    reading = table.reading
    assert reading is not None
    assert (reading.kind, reading.source, reading.path, reading.shipped) == ("facts", "t.csv", path, False)
    assert (reading.n_rows, reading.n_duplicates, reading.n_padded) == (3, 1, 1)
    assert (reading.columns, reading.target, table.tokens) == (("town",), ("land",), "words")
    record = json.loads(json.dumps(reading.to_dict()))
    assert read(path, choices=Reading.from_dict(record).choices) == table
    with pytest.raises(UsageError, match="leave the other arguments out"):
        read(path, tokens="words", choices=reading.choices)
    for broken in ({}, {**record, "choices": 3}, {**record, "extra": 1}):
        with pytest.raises(CheckpointError, match="how its data were read"):
            Reading.from_dict(broken)
    assert isinstance(table, FactTable)
    assert table.subset([0]).reading is None  # a part is not what was read


def test_names_are_those_of_the_source(tmp_path: Path) -> None:
    path = put(tmp_path, "a,b\np,q\n", "my.facts.csv")
    assert (read(path).name, read(path, name="other").name) == ("my", "other")
    random_vectors(3, 2, 2, rng=np.random.default_rng(0)).write(tmp_path / "v.safetensors")
    assert read(tmp_path / "v.safetensors").name == "vectors-3x2x2"
    assert read(tmp_path / "v.safetensors", name="other").name == "other"


@dataclass(frozen=True, eq=False, repr=False)
class Dictionary(FactTable):
    """A kind from outside of the package that knows its files by their ending."""

    kind: ClassVar[str] = "dictionary"

    @classmethod
    def claims(cls, source: Source, choices: Choices) -> int:
        return 3 if source.ending == ".dict" else 0

    @classmethod
    def of(cls, source: Source, choices: Choices, name: str | None = None) -> Any:
        assert source.path is not None
        pairs = [line.split(": ") for line in source.path.read_text().splitlines()]
        table = cls.from_rows([[word] for word, _ in pairs], [meaning for _, meaning in pairs], name="words")
        return replace(table, reading=source.reading(choices))

    def write(self, path: Any) -> Choices:
        words = self.vocabulary.token
        lines = [
            f"{words(word)}: {words(meaning)}\n" for (word,), meaning in zip(self.contexts, self.targets, strict=True)
        ]
        Path(path).write_text("".join(lines))
        return Choices(self.kind)


def test_a_new_kind_is_one_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader._kinds, "_added", {})
    data.register("dictionary", Dictionary)
    table = read(put(tmp_path, "eau: water\nfeu: fire\n", "french.dict"))
    assert (table.kind, table.fact_text(0)) == ("dictionary", "(eau) -> water")
    check_table(table)
    assert read("elements").kind == "facts"


def test_longer_contexts_are_padded_in_the_words_of_a_model() -> None:
    table = FactTable.from_rows([["a", "b"], ["c", "b"]], ["x", "y"])
    longer = table.in_words_of(("<pad>", "y", "x", "c", "b", "a"), 3)
    assert longer.contexts.tolist() == [[0, 5, 4], [0, 3, 4]]
    assert longer.fact_text(0) == table.fact_text(0)
    with pytest.raises(CheckpointError, match="contexts of 3 tokens, this table has 2"):
        table.in_words_of(table.vocabulary.tokens, 3)
    pairs = SequenceTable(np.array([[0, 1]]), np.array([[1, 1]]), Vocabulary(["a", "b"]))
    assert pairs.in_words_of(("<pad>", "a", "b"), 3).targets.tolist() == [[0, 2, 2]]
    with pytest.raises(CheckpointError, match="does not know 2 tokens of this table, the first is 'a'"):
        pairs.in_words_of(("b0", "c"), 2)


def test_bits() -> None:
    facts = FactTable.from_rows([["a"], ["b"], ["c"], ["d"]], ["w", "x", "y", "z"])
    assert facts.bits == 8.0
    assert SequenceTable(np.array([[0, 1]]), np.array([[1, 0]]), Vocabulary(["a", "b"])).bits == 2.0
    same = DistributionTable.from_counts(facts.contexts, facts.targets, facts.vocabulary)
    assert same.bits == pytest.approx(facts.bits)  # one target per context is a fact
    blind = DistributionTable(np.array([[0], [1]]), np.full(2, 0.5), np.array([[0.3, 0.7]] * 2), Vocabulary(["a", "b"]))
    assert blind.bits == pytest.approx(0.0)  # the context tells nothing
    assert in_bits(np.log(2)) == pytest.approx(1.0)


def test_lost_facts_are_told() -> None:
    class Second(Echo):
        def leads(self, inputs: Any, targets: Any) -> Any:
            leads = np.ones(targets.shape)
            leads[inputs[0][:, 0] == 1] = -0.5
            return leads, np.zeros_like(targets)

    table = FactTable.from_rows([["a", "x"], ["b", "x"], ["c", "x"]], ["y", "y", "z"])
    result = table.score(Second(table), "float32")
    assert (result.n_failed, result.min_margin) == (1, -0.5)
    failure = result.failures[0]
    assert (failure.fact, failure.context, failure.expected, failure.got) == (2, "b x", "y", "a")
    pairs = SequenceTable(np.array([[0, 1], [1, 0]]), np.array([[1, 1], [1, 0]]), Vocabulary(["a", "b"]))
    assert pairs.score(Second(pairs), "float32").n_failed == 1
    assert table.score(Echo(table, -1), "float32").failures[0].got == "no answer"


def test_real_targets_are_recalled_within_a_tolerance() -> None:
    class Off(Echo):
        def values(self, inputs: Any) -> Any:
            return super().values(inputs) + 0.05

    table = VectorTable(np.ones((2, 2)), np.zeros((3, 2)), np.array([10.0, -2.0, 3.0]))
    assert table.score(Off(table), "float32", tolerance=0.01).passed
    result = table.score(Off(table), "float32")
    assert result.n_failed == 3 and result.max_error == pytest.approx(0.005)
    assert (result.failures[1].expected, result.failures[1].got) == ("-2", "-1.95")


def test_divergences_confirm_what_a_certificate_claims() -> None:
    table = data.random_distributions(20, 2, 6, rng=np.random.default_rng(0))
    exact = table.score(Echo(table), "float64")
    assert isinstance(exact, Divergence)
    assert exact.kl == pytest.approx(0.0, abs=1e-12) and exact.perplexity == pytest.approx(np.exp(table.entropy))
    worse = table.score(Echo(table, -1), "float64")
    assert worse.passed and worse.kl > 0.1
    claim = {"kl_by_dtype": {"float64": worse.kl, "float32": None}}
    assert worse.confirms(claim) and exact.confirms(claim) and exact.confirms({})
    assert not worse.confirms({"kl_by_dtype": {"float64": exact.kl}})
    record = worse.to_dict()
    assert record["kl"] == worse.kl and record["n_contexts"] == 20 and len(record["worst"]) == 5
    broken = table.score(Echo(table, float("nan")), "float64")
    assert not broken.passed and broken.to_dict()["kl"] is None


def test_model_directories_carry_distributions(tmp_path: Path) -> None:
    table = DistributionTable.from_counts([[0, 1], [1, 0], [0, 1]], [2, 1, 0], Vocabulary(["a", "b", "c"]))
    smooth = table.smoothed(0.1)
    words = tuple(table.vocabulary)
    assert (smooth.stored_smoothing, table.stored_smoothing, smooth.original) == (0.0, 0.0, table)
    assert smooth.files() == table.files()  # zeros are not stored
    for name, content in smooth.files().items():
        (tmp_path / name).write_bytes(content)
    claim = {"smoothing": 0.1, "stored_smoothing": 0.0, "facts_name": "counts"}
    back = DistributionTable.stored(tmp_path, claim, words)
    assert back == smooth and (back.name, back.smoothing) == ("counts", 0.1)
    assert back.truth([1, 0]) == pytest.approx({"a": 0.1 / 3, "b": 0.9 + 0.1 / 3, "c": 0.1 / 3})
    assert back.truth([2, 2]) is None
    alone = DistributionTable(smooth.contexts, smooth.prior, smooth.probabilities, smooth.vocabulary, smoothing=0.1)
    (tmp_path / "distributions.safetensors").write_bytes(alone.files()["distributions.safetensors"])
    assert DistributionTable.stored(tmp_path, {**claim, "stored_smoothing": alone.stored_smoothing}, words) == smooth
    (tmp_path / "distributions.safetensors").write_bytes(b"broken")
    with pytest.raises(CheckpointError, match="cannot be read"):
        DistributionTable.stored(tmp_path, claim, words)
    (tmp_path / "distributions.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"has no distributions\.safetensors"):
        DistributionTable.stored(tmp_path, claim, words)
    assert FactTable.stored(tmp_path, claim, words) is None


def test_vectors_fix_the_width() -> None:
    table = random_vectors(3, 2, 4, rng=np.random.default_rng(0))
    assert table.demand("float32", Shape(d_model=4)).d_model == 4
    with pytest.raises(UsageError, match="4 dimensions, so d_model cannot be 5"):
        table.demand("float32", Shape(d_model=5))


def test_every_kind_is_written_by_one_function(tmp_path: Path) -> None:
    for kind, table in KINDS.items():
        for number, example in enumerate(table.examples(np.random.default_rng(1))):
            path = tmp_path / f"{kind}{number}.{'safetensors' if kind == 'vectors' else 'jsonl'}"
            assert len(read(path, choices=write(example, path))) == len(example)
    with pytest.raises(UsageError, match="sequences have no weights"):
        read("elements", kind="sequences", weight="value")
