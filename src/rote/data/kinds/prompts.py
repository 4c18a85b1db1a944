"""Facts in sentences: rows of a table in templates, each with the answer that follows it.

`The capital of {country} is` and ` {capital}` make a fact of every row. The table holds text only: which tokens it is
cut into is for the model to say, so one table serves any model.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rote.data.arguments import checked
from rote.data.demand import Demand
from rote.data.encoding import Prompt, refuse_clashes
from rote.data.reading import Choices, Reading
from rote.data.records import read_json
from rote.data.rows import RawRows
from rote.data.source import Source
from rote.data.table import Inputs, Table
from rote.data.verification import SHOWN_FAILURES, Failure, Verification
from rote.errors import CheckpointError, UnknownName, UsageError

if TYPE_CHECKING:
    from rote.config import Dtype, Shape
    from rote.data.outputs import Outputs

__all__ = ["PromptTable", "Template", "fields_of", "parse_templates", "prompts", "table"]


@dataclass(frozen=True)
class Template:
    """A prompt with named fields in braces, and the answer that follows it."""

    prompt: str
    answer: str


@dataclass(frozen=True, eq=False, repr=False)
class PromptTable(Table):
    """Every row, or a `sample` of them drawn with `seed`, in every template; exact repeats are dropped."""

    rows: RawRows
    templates: tuple[Template, ...]
    sample: int | None = None
    seed: int = 0
    name: str = "prompts"
    reading: Reading | None = None
    kind: ClassVar[str] = "prompts"
    CARRIED: ClassVar[str] = "graft/facts.json"
    """Where the directory of a graft may carry its rows."""

    def __post_init__(self) -> None:
        n = len(self.rows.frame)
        if self.sample is not None and not 1 <= self.sample <= n:
            raise UsageError(
                f"a sample must have between 1 and the {n:,} rows of {self.rows.source}, got {self.sample:,}."
            )
        refuse_clashes(self.facts, [[(fact.text, fact.answer)] for fact in self.facts])

    @classmethod
    def claims(cls, source: Source, choices: Choices) -> int:
        return 3 if choices.template is not None else 0

    @classmethod
    def of(cls, source: Source, choices: Choices, name: str | None = None) -> PromptTable:
        if choices.named:
            raise UsageError(
                f"templates name the columns of facts in sentences; leave out {' and '.join(choices.named)}."
            )
        templates = parse_templates(choices.template or (), choices.answer or (), source.rows.columns)
        whole = cls(source.rows, templates, choices.sample, choices.seed or 0, name or source.stem)
        reading = replace(
            source.reading(choices),
            n_rows=len(whole.chosen),
            n_duplicates=len(whole.chosen) * len(templates) - whole.n_facts,
            columns=_fields(one.prompt for one in templates),
            target=_fields(one.answer for one in templates),
        )
        object.__setattr__(whole, "reading", reading)
        return whole

    @classmethod
    def again(cls, source: str | Path, choices: Choices, certificate: Mapping[str, Any]) -> PromptTable:
        """The same sample of the same rows; of another source all rows are asked for."""
        origin = Source.of(source)
        whole = cls.of(origin, replace(choices, kind=cls.kind, sample=None))
        if choices.sample is None or choices.sample > len(whole.chosen):
            return whole
        some = cls.of(origin, replace(choices, kind=cls.kind))
        return some if some.sha256 == certificate["facts_sha256"] else whole

    @cached_property
    def chosen(self) -> list[int]:
        """The rows in use, in order."""
        n = len(self.rows.frame)
        if self.sample is None:
            return list(range(n))
        return sorted(int(i) for i in np.random.default_rng(self.seed).choice(n, self.sample, replace=False))

    @cached_property
    def facts(self) -> tuple[Prompt, ...]:
        """One template after the other."""
        kept: dict[tuple[str, str], Prompt] = {}
        for number, template in enumerate(self.templates):
            for row in self.chosen:
                text, answer = self.fill(template.prompt, row), self.fill(template.answer, row)
                prompt = Prompt(row, number, text, answer, self.rows.source, self.rows.place(row))
                kept.setdefault((text, answer), prompt)
        return tuple(kept.values())

    def fill(self, text: str, row: int, instead: Mapping[str, str] | None = None) -> str:
        """A template with the cells of one row in place of its fields, or with what is to stand `instead`."""
        changed = instead or {}
        return "".join(
            literal + ("" if name is None else changed.get(name) or self.rows.cells(name)[row])
            for literal, name, _, _ in string.Formatter().parse(text)
        )

    @property
    def n_facts(self) -> int:
        return len(self.facts)

    @cached_property
    def answers(self) -> list[str]:
        """Distinct answers."""
        return list(dict.fromkeys(fact.answer for fact in self.facts))

    @cached_property
    def context(self) -> int:
        """Words of the longest prompt; how many tokens that is depends on the model."""
        return max(len(fact.text.split()) for fact in self.facts)

    @property
    def extent(self) -> str:
        return f"{len(self.answers):,} answers, prompts of up to {self.context} words"

    @cached_property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for fact in self.facts:
            digest.update(repr((fact.text, fact.answer)).encode())
        return digest.hexdigest()

    @property
    def bits(self) -> float:
        return self.n_facts * math.log2(len(self.answers))

    def demand(self, dtype: Dtype, shape: Shape) -> Demand:
        # One more than the words in use, because shorter prompts are padded.
        vocab = 1 + len({word for fact in self.facts for word in (fact.text + fact.answer).split()})
        return Demand(
            self.n_facts,
            max(2, vocab),
            self.context,
            dtype,
            d_model=shape.d_model,
            n_heads=shape.n_heads,
            d_head=shape.d_head,
            n_targets=len(self.answers),
        )

    def inputs(self, part: slice) -> Inputs:
        texts = np.array([fact.text for fact in self.facts[part]])
        texts.flags.writeable = False
        return (texts,)

    def truth(self, ids: Any) -> dict[str, float] | None:
        """Of a prompt, which is a text here."""
        return {fact.answer: 1.0 for fact in self.facts if fact.text == ids} or None

    def score(self, outputs: Outputs, dtype: str, *, tolerance: float = 1e-3) -> Verification:
        """A fact is recalled if the model says its whole answer, token by token, and then ends."""
        said = outputs.continuations(self.facts)
        lost = [i for i, one in enumerate(said) if not one.right]
        failures = tuple(
            Failure(i + 1, f"{fact.place}: {fact.text!r}", fact.answer, said[i].text, -math.inf)
            for i in lost[:SHOWN_FAILURES]
            for fact in (self.facts[i],)
        )
        return Verification(self.n_facts, len(lost), math.inf, dtype, failures, judged_by=outputs.judged_by)

    def fact_text(self, i: int) -> str:
        return f"{self.facts[i].text!r} -> {self.facts[i].answer!r}"

    def kept(self, columns: Sequence[str]) -> PromptTable:
        """The rows in use, with some of the columns only."""
        import polars as pl

        frame = pl.DataFrame({name: self.rows.stripped(name) for name in columns})[self.chosen]
        sample = None if self.sample is None else len(frame)
        return PromptTable(RawRows(frame, self.rows.source), self.templates, sample, self.seed, self.name)

    def carried(self) -> bytes:
        """All of it, for a model directory."""
        record = {
            "name": self.name,
            "source": self.rows.source,
            "templates": [[one.prompt, one.answer] for one in self.templates],
            "sampled": self.sample is not None,
            "columns": list(self.rows.columns),
            "rows": [list(row) for row in self.rows.frame[self.chosen].rows()],
        }
        return (json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n").encode()

    @classmethod
    def stored(cls, folder: Path, certificate: Mapping[str, Any], words: tuple[str, ...]) -> PromptTable | None:
        """The rows that a graft carries, in their templates."""
        import polars as pl

        path = folder / cls.CARRIED
        if not path.is_file():
            return None
        record = read_json(path, refuse=CheckpointError, remedy="the file was edited")
        try:
            columns, rows = list(record["columns"]), record["rows"]
            frame = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row", strict=True)
            templates = tuple(Template(str(prompt), str(answer)) for prompt, answer in record["templates"])
            sample = len(frame) if record["sampled"] else None
            return cls(RawRows(frame, str(record["source"])), templates, sample, 0, str(record["name"]))
        except (KeyError, TypeError, ValueError, pl.exceptions.PolarsError):
            raise CheckpointError(f"{path} does not hold the rows of a graft; it was edited, graft again.") from None

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "n_facts": self.n_facts,
            "n_rows": len(self.chosen),
            "templates": [template.prompt for template in self.templates],
            "n_targets": len(self.answers),
            "sha256": self.sha256,
        }


@checked
def prompts(
    source: str | os.PathLike[str] | Sequence[Mapping[str, str]],
    *,
    template: str | Sequence[str],
    answer: str | Sequence[str],
    sample: int | None = None,
    seed: int = 0,
    name: str | None = None,
) -> PromptTable:
    """Facts in sentences: rows of a file, of shipped data by name, or rows themselves, put into templates.

    A template names columns in braces, as in `The capital of {country} is`; the answer, ` {capital}`, is what follows
    it. There is one answer for all templates, or one each. `sample` takes so many rows at random, by `seed`.
    """
    texts, answers = ((given,) if isinstance(given, str) else tuple(given) for given in (template, answer))
    if isinstance(source, (str, os.PathLike)):
        origin = Source.of(source)
        choices = Choices(PromptTable.kind, template=texts, answer=answers, sample=sample, seed=seed)
        return PromptTable.of(origin, choices, name)
    import polars as pl

    rows = RawRows(pl.DataFrame(list(source)), name or "prompts")
    return PromptTable(rows, parse_templates(texts, answers, rows.columns), sample, seed, name or "prompts")


def parse_templates(prompts: Sequence[str], answers: Sequence[str], columns: Sequence[str]) -> tuple[Template, ...]:
    """Pair prompts with answers (one answer may serve all), and refuse fields that the table does not have."""
    if not prompts:
        raise UsageError("facts in sentences need at least one template, such as 'The capital of {country} is'.")
    if len(answers) not in (1, len(prompts)):
        raise UsageError(
            f"there are {len(prompts)} templates and {len(answers)} answers; give one answer for all, or one each."
        )
    paired = answers if len(answers) == len(prompts) else list(answers) * len(prompts)
    templates = tuple(Template(prompt, answer) for prompt, answer in zip(prompts, paired, strict=True))
    for template in templates:
        for field in (*fields_of(template.prompt), *fields_of(template.answer)):
            if field not in columns:
                raise UnknownName("column named", field, columns)
        if not fields_of(template.prompt):
            raise UsageError(f"the template {template.prompt!r} has no {{field}}, so every fact would be one prompt.")
        if not template.answer:
            raise UsageError("the answer is empty; write it with a column in braces, such as ' {country}'.")
    return templates


def fields_of(text: str) -> list[str]:
    """The columns that a template names, in order."""
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise UsageError(f"{text!r} is no template ({error}); double a brace that stands for itself.") from None
    names = []
    for _, name, form, conversion in parts:
        if name is None:
            continue
        if not name or form or conversion:
            raise UsageError(f"a field of {text!r} is not just a column's name in braces; write it as {{column}}.")
        names.append(name)
    return names


def _fields(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in texts for name in fields_of(text)))


table = PromptTable
