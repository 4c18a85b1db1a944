"""Certificates: what was built, from what, how the data were read, and what the referee found.

A certificate is frozen, typed, and goes to JSON and back. It also reads like the JSON: `certificate["recall"]`. What
only one kind of model or construction has to say (depth and bits of exact networks, divergences, what a graft left
alone) stands in `claims`, and beside the other keys in the file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rote.config import DTYPES
from rote.data.left_out import FILE as LEFT_OUT
from rote.data.reading import Reading
from rote.errors import CheckpointError
from rote.plot.sheet import Sheet, Shown

if TYPE_CHECKING:
    from rote.data.table import Table

__all__ = ["HASH", "Certificate", "sha256_of"]

HASH = "certificate_sha256"
"""The key of a certificate's own hash."""


def sha256_of(record: Mapping[str, Any]) -> str:
    """The hash of a certificate (as JSON) but for the hash itself, however the file is laid out."""
    plain = json.loads(json.dumps({name: value for name, value in record.items() if name != HASH}))
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "Mapping": (Mapping,),
    "None": (type(None),),
}


def _allows(declared: str, value: Any) -> bool:
    """Whether a field's annotation allows a value of a record; what a mapping holds is looked at too."""
    inner = re.search(r"\[str, ([^\]]*)\]", declared)
    names = re.sub(r"\[[^\]]*\]", "", declared).split(" | ")
    if not isinstance(value, tuple(kind for name in names for kind in _TYPES[name])):
        return False
    if isinstance(value, bool) and "bool" not in names:
        return False
    if inner is None or inner[1] == "Any" or not isinstance(value, Mapping):
        return True
    return all(_allows(inner[1], held) for held in value.values())


def _edit_lines(edited: Mapping[str, Any]) -> list[str]:
    """What the last edit of a model did, for people."""
    count, of = edited["weights_changed"], edited["weights"]
    alike, others = edited["bit_equal"], edited["other_facts"]
    moved = "" if alike == others else f", the largest difference is {edited['largest_difference']:.3g}"
    return [
        f"edited: {edited['changes']:,} change{'s' if edited['changes'] > 1 else ''}, {count:,} of {of:,} weights "
        f"({100 * count / of:.2g} %), by {edited['norm_of_change']:.4g} of their norm {edited['norm']:.4g}",
        *(f"  {line}" for line in edited["how"]),
        f"  {alike:,} of {others:,} other facts have the same logits, bit by bit{moved}",
    ]


@dataclass(frozen=True)
class Certificate(Shown, Mapping[str, Any]):
    """What a model directory says of itself."""

    construction: str
    theorem: str
    """Where the construction comes from."""
    model: str
    """The kind of model."""
    arch: str
    data: str
    """The kind of table."""
    facts: int
    facts_name: str
    facts_sha256: str
    dtype: str
    shape: Mapping[str, Any]
    params: int
    params_by_convention: Mapping[str, int]
    stored_params: int
    bits_per_param: float
    bound: int | None
    bound_exceeded: bool
    recall: Mapping[str, float]
    """By number format, as for the margins."""
    min_margin: Mapping[str, float | None]
    max_error: Mapping[str, float | None] | None
    judged_by: str
    passed: bool
    """The referee's verdict in the format that the model is stored in."""
    weights_sha256: str
    files_sha256: Mapping[str, str]
    tokens: str
    seed: int | None
    version: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """The construction's options where they differ from the defaults."""
    read: Mapping[str, Any] | None = None
    """How the table was read (`Reading`), and `file`, its place seen from the directory; None for tables in memory."""
    left_out: int = 0
    """Facts of the file that the construction cannot hold, and that were asked to be left out; a file lists them."""
    chosen: str | None = None
    """Why this construction and shape, where they were found automatically."""
    conditioning: float | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    claims: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reading(self) -> Reading | None:
        """How the table was read."""
        if self.read is None:
            return None
        return Reading.from_dict({key: value for key, value in self.read.items() if key != "file"})

    def replace(self, **changes: Any) -> Certificate:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def refers_to(self, table: Table) -> bool:
        """Whether this is the table that the model was built from."""
        return table.sha256 == self.facts_sha256

    def to_dict(self) -> dict[str, Any]:
        """The JSON record; claims stand beside the other keys, and the hash of it all is the last."""
        return dict(self._record)

    @cached_property
    def _record(self) -> dict[str, Any]:
        record = {item.name: getattr(self, item.name) for item in dataclasses.fields(self) if item.name != "claims"}
        record |= {name: value for name, value in self.claims.items() if name != HASH}
        return {**record, HASH: sha256_of(record)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], where: str = "certificate.json") -> Certificate:
        """The inverse of `to_dict`; a file that lacks something is refused."""
        known = {item.name: item for item in dataclasses.fields(cls) if item.name != "claims"}
        needed = [name for name, item in known.items() if item.default is item.default_factory is dataclasses.MISSING]
        missing = [name for name in (*needed, HASH) if name not in record]
        if missing:
            raise CheckpointError(f"{where} lacks {missing[0]}; the file was edited or is foreign, build it again.")
        for name, item in known.items():
            if name in record and not _allows(str(item.type), record[name]):
                raise CheckpointError(f"{where} lacks a {name} that can be read; the file was edited, build it again.")
        if record["dtype"] not in DTYPES or record["dtype"] not in record["recall"]:
            raise CheckpointError(f"{where} names no number format in dtype; the file was edited, build it again.")
        if record[HASH] != sha256_of(record):
            raise CheckpointError(f"{where} does not have the hash that it names; the file was edited, build it again.")
        if "full" not in record["params_by_convention"]:
            raise CheckpointError(f"{where} counts no parameters; the file was edited, build it again.")
        values = {name: record[name] for name in known if name in record}
        return cls(**values, claims={name: value for name, value in record.items() if name not in (*known, HASH)})

    def __getitem__(self, name: str) -> Any:
        return self._record[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._record)

    def __len__(self) -> int:
        return len(self._record)

    def sheet(self, place: str = "") -> Sheet:
        """What was built, for people; `place` is where it lies."""
        from rote import constructions

        try:
            sheet = constructions.get(self.construction).sheet(self.to_dict(), place or self.facts_name)
            if self.left_out:
                left = (
                    "1 fact that it cannot hold was"
                    if self.left_out == 1
                    else f"{self.left_out:,} facts that it cannot hold were"
                )
                lost = f"{left} left out; {LEFT_OUT} lists them"
                sheet = dataclasses.replace(sheet, lines=(*sheet.lines, lost))
            if "edited" in self.claims:
                sheet = dataclasses.replace(sheet, lines=(*sheet.lines, *_edit_lines(self.claims["edited"])))
            for name, row in self.claims.get("exports", {}).items():
                said = f"{name}: {100 * row['recall']:.4g} % recalled by {row['judged_by'].partition(' (')[0]}"
                sheet = dataclasses.replace(sheet, lines=(*sheet.lines, said))
            if self.claims.get("passed_over"):
                over = f"smaller, but not tried: {'; '.join(map(str, self.claims['passed_over']))}"
                sheet = dataclasses.replace(sheet, lines=(*sheet.lines, over))
            if "reference" in self.claims:
                never = self.claims["reference"]
                line = f"reference: it was never given {never['without']:,} facts of the table ({never['how']})"
                sheet = dataclasses.replace(sheet, lines=(*sheet.lines, line))
            return sheet
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the certificate of {place or self.facts_name} does not hold what {self.construction} writes "
                f"({type(error).__name__}: {error}); the file was edited, build it again."
            ) from None

    def __repr__(self) -> str:
        kept = self.recall.get(self.dtype, 0.0)
        return (
            f"Certificate({self.construction}: {self.facts:,} facts of {self.facts_name!r}, {self.params:,} "
            f"parameters, {100 * kept:.4g} % recalled at {self.dtype})"
        )
