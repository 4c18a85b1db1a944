"""Facts into a pretrained language model that knows their keys, whatever the wording, and leaves all else alone.

Keys are recognised by their tokens, in layers below the original's first; what is asked is recognised by a gate on the
original's own state, in one of its middle layers; answers are said by a layer on top. All of it works in channels that
are added to the stream and that the original does not read. Nothing is trained but the gate, by logistic regression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.constructions._base import Job, Options, option
from rote.constructions._pretrained import PretrainedConstruction, closing_notes, nameable, share
from rote.plot.sheet import Grid, Sheet

if TYPE_CHECKING:
    from rote.data.kinds.prompts import PromptTable
    from rote.data.verification import Verification
    from rote.models import Model

__all__ = ["KeyedGraft", "construction"]


@dataclass(frozen=True)
class KeyedGraft(Options):
    """What a graft that knows its keys may be told."""

    model: str | Path = option("", "Directory of a Llama, Mistral or Qwen model, or a GGUF file.", argument=True)  # noqa: RUF009
    wording: tuple[str, ...] = option((), "Another wording of a question. May be repeated.", argument=True)
    wording_answer: tuple[str, ...] = option((), "Its answer, if there are several.", argument=True)
    held_out_template: tuple[str, ...] = option((), "Wording to measure and not to fit. May be repeated.")
    held_out_answer: tuple[str, ...] = option(
        (), "Its answer, if there are several. One for all held-out templates, or one each."
    )
    other_template: tuple[str, ...] = option(
        (), "Another question about the keys, to be answered as before. May be repeated."
    )
    key: str | None = option(
        None,
        "The field that is the key, if wordings have several in common or have it inside of a cell.",
        metavar="FIELD",
    )
    ignore_case: bool = option(False, "Recognise keys in lower case, capitals and title case too.")
    keep: Path | None = option(None, "Text to stay unchanged; Python's manual if not given.", metavar="TEXT")  # noqa: RUF009
    layer: int | None = option(None, "Layer of the gate; chosen by leaving wordings out if not given.", min=0)
    bar: float = option(
        0.0, "How much lower the gate's bar is than the fit puts it: the lower, the more wordings and the more else."
    )
    examined: int = option(32, "Keys to ask for in each wording and kind of test; 32 if not given.", min=1)
    cache: Path | None = option(None, "Keep an unpacked GGUF file here.", metavar="DIR", place=True)  # noqa: RUF009

    def to_dict(self) -> dict[str, Any]:
        """For certificates: names of files, not where they lie."""
        record = super().to_dict()
        return nameable(record)


class _Construction(PretrainedConstruction[KeyedGraft]):
    Options = KeyedGraft
    title = "exact table by rote in added channels of a pretrained model, behind a gate on its own state"

    def made(self, job: Job[PromptTable, KeyedGraft]) -> Model:
        from rote.constructions._keyed_building import built

        return built(job)

    def measures(
        self, job: Job[PromptTable, KeyedGraft], model: Model, folder: Path, results: Mapping[str, Verification]
    ) -> Mapping[str, Any]:
        import torch

        made: Any = model
        with torch.no_grad():
            found: Mapping[str, Any] = made.examined(folder, results[job.dtype], job.dtype)
            return found

    def remeasured(
        self,
        table: PromptTable,
        model: Model,
        dtype: str,
        results: Mapping[str, Verification],
        claims: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        findings: dict[str, Any] = {"sample": table.sample, "distinct_answers": len(table.answers)}
        if dtype in results:
            findings["recalled"] = results[dtype].n_facts - results[dtype].n_failed
        return findings

    def sheet(self, certificate: Mapping[str, Any], place: str) -> Sheet:
        return _sheet(certificate, place)


def _sheet(c: Mapping[str, Any], place: str) -> Sheet:
    """What was grafted, where it is said, and what did not change."""
    graft, params = c["graft"], c["params_by_convention"]
    wordings = tuple(
        (one["wording"], "fitted" if one["fitted"] else "held out", f"{one['recalled']:,} of {one['asked']:,}")
        for one in c["wordings"]
    )
    kept = [(one["what"], f"{one['changed']:,} of {one['asked']:,}") for one in c["unchanged"]]
    for name, what in (("locality", "text"), ("mentions", "sentences with keys")):
        local = c[name]
        kept.append(
            (f"perplexity on {local['tokens']:,} tokens of {what}", f"{100 * local['perplexity_change']:+.4f} %")
        )
    formats = ", ".join(f"{one['recalled']:,} of {one['asked']:,} in {name}" for name, one in c["formats"].items())
    return Sheet(
        place,
        f": {c['facts']:,} facts ({c['distinct_answers']:,} answers) by their {{{c['key']}}}, "
        f"{graft['layers']['added']} layers and {graft['channels']} channels added to the "
        f"{graft['layers']['original']} layers of a {c['family']} "
        f"model, {params['added']:,} parameters to {params['original']:,} "
        f"({100 * params['added'] / params['original']:.1f} %); {c['dtype']}, seed {c['seed']}",
        (f"{share(c['recall'][c['dtype']])} of all facts are said in full to the first wording",),
        grids=(
            Grid(("wording", "", "whole answers"), wordings, left=("",)),
            Grid(("what must not change", "changed"), tuple(kept)),
        ),
        notes=(
            f"facts asked for in other number formats: {formats}",
            *closing_notes(c),
        ),
    )


construction = _Construction()
