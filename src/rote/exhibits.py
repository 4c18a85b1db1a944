"""A zoo of models whose content is known completely, for those who study what models store: every construction, own and
stock, from a hundred facts to a hundred thousand, with distributions, sequences and vectors.

Each exhibit is a directory that `rote.build` wrote, with its certificate and its card; the facts of generated tables
lie beside them as files, so that `rote verify` needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rote.data.arguments import checked
from rote.data.table import Table
from rote.errors import OutputError, check_names
from rote.models import folders
from rote.models.folders import refuse_existing

__all__ = ["EXHIBITS", "Exhibit", "zoo"]


@dataclass(frozen=True)
class Exhibit:
    """One model: shipped facts by name or a generator of a table, a construction, and what it may be told."""

    name: str
    about: str
    facts: str | Callable[[], Table]
    construction: str
    told: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def table(self, place: Path) -> Table:
        """The table, from its file in `place` where it is generated."""
        from rote.data import read

        if isinstance(self.facts, str):
            return read(self.facts)
        made = self.facts()
        path = place / f"{self.name}.{'safetensors' if made.words is None else 'csv'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        choices = made.write(path)
        return read(path, choices=choices)


def _facts(count: int, context: int, vocab: int) -> Callable[[], Table]:
    def make() -> Table:
        import numpy as np

        from rote.data import random_facts

        return random_facts(count, context, vocab, rng=np.random.default_rng(count))

    return make


def _other(name: str, *sizes: int, **more: Any) -> Callable[[], Table]:
    def make() -> Table:
        import numpy as np

        from rote import data

        made: Table = getattr(data, name)(*sizes, rng=np.random.default_rng(1), **more)
        return made

    return make


def _sequences() -> Table:
    """Sequences that differ by more than order, and a label for every token of each."""
    import numpy as np

    from rote.data import SequenceTable, random_sequences

    rng = np.random.default_rng(1)
    drawn = random_sequences(300, 6, 20, 5, rng=rng)
    first = len(drawn.vocabulary) - 5
    labels = rng.integers(first, len(drawn.vocabulary), size=(300, len(drawn.vocabulary)))
    return SequenceTable(drawn.contexts, np.take_along_axis(labels, drawn.contexts, axis=1), drawn.vocabulary)


EXHIBITS: tuple[Exhibit, ...] = (
    Exhibit(
        "random-100", "a hundred random facts in 24 narrow heads", _facts(100, 2, 50), "argmax_fit",
        {"n_heads": 24, "d_model": 8, "d_head": 2},
    ),
    Exhibit("random-100-trained", "the same, trained", _facts(100, 2, 50), "trained", {"n_heads": 8, "d_model": 16}),
    Exhibit("random-100-vectors", "a hundred vectors", _other("random_vectors", 100, 6, 12), "mahdavi2024_thm1"),
    Exhibit(
        "random-100-features", "a hundred vectors on random features", _other("random_vectors", 100, 6, 12),
        "mahdavi_random_features",
    ),
    Exhibit("elements", "the chemical elements, exact association", "elements", "dana2025_cor1", {"dtype": "float64"}),
    Exhibit("elements-mlp", "the chemical elements in an MLP", "elements", "mlp_fit"),
    Exhibit("elements-llama", "the chemical elements in a stock checkpoint", "elements", "stock_llama"),
    Exhibit(
        "countries-bits", "the countries by bit extraction, in float64", "countries", "kajitsuka2025_next_token",
        {"dtype": "float64"}, {"with_positions": True},
    ),
    Exhibit("countries", "the countries, by attention alone", "countries", "argmax_fit"),
    Exhibit("countries-local", "the countries in heads that serve a few facts each", "countries", "local_heads"),
    Exhibit("countries-hashed-llama", "the countries in a stock checkpoint, hashed", "countries", "stock_hashed"),
    Exhibit(
        "sequences-300", "300 sequences with a label for every token", _sequences, "kajitsuka2025_seq2seq",
    ),
    Exhibit(
        "sequences-300-hashed", "the same in bfloat16", _sequences, "hashed_sequences", {"dtype": "bfloat16"},
    ),
    Exhibit(
        "bigrams-200", "200 contexts with distributions of next tokens", _other("random_distributions", 200, 2, 30),
        "distribution_refit", {"d_model": 12},
    ),
    Exhibit(
        "bigrams-30", "30 contexts with distributions, interpolated", _other("random_distributions", 30, 2, 8),
        "dana2025_thm1", {"d_model": 6},
    ),
    Exhibit(
        "random-10k-hashed", "10,000 random facts in bfloat16, and what is none is told", _facts(10_000, 3, 256),
        "hashed_table", {"dtype": "bfloat16"}, {"unknown": 8},
    ),
    Exhibit("random-100k-hashed", "100,000 random facts in float32", _facts(100_000, 3, 256), "hashed_table"),
)  # fmt: skip


@checked
def zoo(
    directory: str | Path,
    *,
    only: Sequence[str] = (),
    force: bool = False,
    told: Callable[[Exhibit, Any], None] = lambda exhibit, memory: None,
) -> list[str]:
    """Build the zoo, or `only` some of it, into a directory; the names of what was built.

    What is there already is kept as it is, unless `force` builds it anew. `told` hears of every model, new or not.
    """
    check_names("exhibit", only, [one.name for one in EXHIBITS])
    place, done = Path(directory), []
    if (place / folders.CERTIFICATE).exists():
        raise OutputError(f"{place} is a model, not a place for many; name another directory.")
    for exhibit in EXHIBITS:
        if only and exhibit.name not in only:
            continue
        told(exhibit, _built(exhibit, place, force))
        done.append(exhibit.name)
    write_index(place)
    return done


def _built(exhibit: Exhibit, place: Path, force: bool) -> Any:
    from rote.pipeline import build, load

    target = place / exhibit.name
    if target.is_dir() and not force:
        return load(target)
    refuse_existing(target, force)
    table = exhibit.table(place / "facts")
    made = build(table, exhibit.construction, options=exhibit.options, rng=0, **exhibit.told)
    return made.save(target, force=force)


def counted(certificate: Mapping[str, Any]) -> str:
    """The size of a model in words: weights of exact networks, of any number of bits, are counted without zeros."""
    return f"{certificate['params']:,} {'non-zero weights' if 'max_bits' in certificate else 'dense parameters'}"


def write_index(place: Path) -> None:
    """README.md of the zoo: what is in it, with a link to every card."""
    from rote.data._atomic import write_atomically

    lines = [
        "# Models of known content",
        "",
        "| model | what it is | facts | size | recalled |",
        "|---|---|--:|--:|--:|",
    ]
    lines += [f"| {' | '.join(row)} |" for row in _rows(place)]
    text = "\n".join(
        [*lines, "", "`rote verify NAME` runs every fact of one again; `rote card NAME` writes its card.", ""]
    )
    write_atomically(place / "README.md", lambda part: part.write_text(text, encoding="utf-8"))


def _rows(place: Path) -> Iterator[tuple[str, ...]]:
    from rote.models.folders import CERTIFICATE, read_json

    for exhibit in EXHIBITS:
        if not (place / exhibit.name / CERTIFICATE).is_file():
            continue
        said = read_json(place / exhibit.name / CERTIFICATE)
        recall = said["recall"][said["dtype"]]
        yield (
            f"[{exhibit.name}]({exhibit.name}/README.md)",
            exhibit.about,
            f"{said['facts']:,}",
            counted(said),
            f"{100 * recall:.4g} % in {said['dtype']}",
        )
