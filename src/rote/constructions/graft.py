"""Facts into a pretrained language model that knows their keys, whatever the wording, and leaves all else alone.

Keys are recognised by their tokens, in layers below the original's first; what is asked is recognised by a gate on the
original's own state, in one of its middle layers; answers are said by a layer on top. All of it works in channels that
are added to the stream and that the original does not read. Nothing is trained but the gate, by logistic regression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.config import Architecture, Dtype, Shape
from rote.constructions._base import Construction, Job, Options, Plan, option
from rote.plot.sheet import Grid, Sheet

if TYPE_CHECKING:
    from rote.data.kinds.prompts import PromptTable
    from rote.data.verification import Verification
    from rote.models import Model

__all__ = ["Graft", "construction"]


@dataclass(frozen=True)
class Graft(Options):
    """What a graft may be told."""

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
    chat: bool = option(
        False, "Wordings are what a user of a chat types, put into the model's chat template; answers its turns."
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
        return {key: Path(value).name if key in ("model", "keep") else value for key, value in record.items()}


class _Construction(Construction["PromptTable", Graft]):
    Options = Graft
    title = "exact table by rote in added channels of a pretrained model, behind a gate on its own state"
    accepts = ("prompts",)
    verb = "graft"
    arch = "pretrained"
    dtypes = ("float32", "bfloat16", "float16")
    automatic = False
    shaped_by = ()
    exact = False

    def shapes(self, table: PromptTable, shape: Shape, dtype: Dtype, options: Graft) -> Iterator[Plan]:
        # The shape is the pretrained model's own, which is known when it has been opened.
        yield Plan(self.key, Architecture(1, 1, 1, table.context, 2), 0, 0, table.n_facts, dtype=dtype)

    def formats(self, dtype: Dtype) -> tuple[Dtype, ...]:
        return (dtype,)

    def build(self, job: Job[PromptTable, Graft]) -> Model:
        import torch

        from rote.constructions._keyed_building import built

        with torch.no_grad():
            return built(job)

    def measures(
        self, job: Job[PromptTable, Graft], model: Model, folder: Path, results: Mapping[str, Verification]
    ) -> Mapping[str, Any]:
        import torch

        made: Any = model
        with torch.no_grad():
            found: Mapping[str, Any] = made.examined(folder, results[job.dtype], job.dtype)
            return found

    def changed(
        self,
        job: Job[PromptTable, Graft],
        memory: Any,
        before: PromptTable,
        counts: Mapping[str, int],
        *,
        linked: bool,
    ) -> Model:
        """The graft of a memory with the table of the job instead of what it was `before`, still to be written."""
        import torch

        from rote.constructions._changed_graft import ChangedWidened
        from rote.constructions._keyed_changes import changed_design
        from rote.data.stock import empty_model
        from rote.models._graft_record import read_design
        from rote.models._pretrained import context_of, end_token
        from rote.models._rewidening import original_tensor

        model, record = memory.model, memory.certificate.claims["graft"]
        with torch.no_grad():
            job.progress("solve the changed groups", 0, 1, None)
            empty = empty_model(memory.folder)
            changed = changed_design(
                memory.folder, read_design(memory.folder), before, job.table, job.options, model.tokenizer,
                end_id=end_token(model.tokenizer, empty, memory.folder), context=context_of(empty),
                below=int(record["below"]), rng=job.rng,
            )  # fmt: skip
            network = changed.design.network(original_tensor(memory.folder, "model.embed_tokens.weight"))
        old = set(before.rows.cells(changed.field))
        then = dict(zip(before.rows.cells(changed.field), before.rows.frame.rows(), strict=True))
        now = job.table.rows.frame.rows()
        new = [i for i, key in enumerate(changed.keys) if then.get(key) != now[changed.rows[i]]]
        gone = sorted(old - set(changed.keys))
        notes = {
            "keys": len(changed.keys),
            "distinct_answers": len(job.table.answers),
            "store": {
                "patterns": len(changed.design.windows),
                "neurons": len(changed.design.store.gates),
                "window": changed.design.book.reach,
            },
        }
        claims = {**memory.certificate.claims, **notes, "facts": memory.certificate.facts}
        return ChangedWidened(
            memory.folder, job.table, changed, network, claims, new, gone, counts, job.rng,
            chat=job.options.chat, linked=linked, hashes=memory.certificate.files_sha256,
        )  # fmt: skip

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


def change_lines(c: Mapping[str, Any]) -> tuple[str, ...]:
    """What was done to a graft since it was built, the last change last."""
    lines = []
    for one in c.get("changes", ()):
        done = [f"{one[name]:,} {name}" for name in ("added", "updated", "removed") if one[name]]
        again, new, near = one["asked_again"], one["new_in_all_wordings"], one["near_misses"]
        parts = [f"{again['facts']:,} facts asked again, {again['lost'] or 'none'} lost; "]
        read = one["numbers_read"]
        parts.append(f"{read['keys']:,} keys share weights with them, {read['wrong'] or 'none'} read otherwise")
        if new["asked"]:
            parts.append(f"; {new['recalled']:,} of {new['asked']:,} answers to the new ones in all fitted wordings")
        if one["gone"]["asked"]:
            parts.append(
                f"; {one['gone']['changed']:,} of {one['gone']['asked']:,} questions for what is gone answered "
                "otherwise than by the original"
            )
        parts.append(f"; {near['changed']:,} of {near['asked']:,} near misses changed")
        lines.append(f"{', '.join(done)} since the build: {''.join(parts)}; {one['processor_seconds']:g} s")
    return tuple(lines)


def _sheet(c: Mapping[str, Any], place: str) -> Sheet:
    """What was grafted, where it is said, and what did not change."""
    graft, params = c["graft"], c["params_by_convention"]
    wordings = tuple(
        (
            one["wording"].replace("\n", "\\n"),
            "fitted" if one["fitted"] else "held out",
            f"{one['recalled']:,} of {one['asked']:,}",
        )
        for one in c["wordings"]
    )
    if (behind := c.get("behind_a_fact", {"asked": 0}))["asked"]:
        wordings += (
            ("the first one, behind another fact and its answer", "", f"{behind['recalled']:,} of {behind['asked']:,}"),
        )
    kept = [(one["what"], f"{one['changed']:,} of {one['asked']:,}") for one in c["unchanged"]]
    for name, what in (("locality", "text"), ("mentions", "sentences with keys")):
        local = c[name]
        kept.append(
            (f"perplexity on {local['tokens']:,} tokens of {what}", f"{100 * local['perplexity_change']:+.4f} %")
        )
    held, seconds, cpu = c["recall"][c["dtype"]], c["seconds"], c["cpu_seconds"]
    recall = "100 %" if held == 1.0 else f"{100 * held:.3f} %"
    formats = ", ".join(f"{one['recalled']:,} of {one['asked']:,} in {name}" for name, one in c["formats"].items())
    return Sheet(
        place,
        f": {c['facts']:,} facts ({c['distinct_answers']:,} answers) by their {{{c['key']}}}, "
        f"{graft['layers']['added']} layers and {graft['channels']} channels added to the "
        f"{graft['layers']['original']} layers of a {c['family']} "
        f"model, {params['added']:,} parameters to {params['original']:,} "
        f"({100 * params['added'] / params['original']:.1f} %); {c['dtype']}, seed {c['seed']}",
        (
            f"{recall} of all facts are said in full to the first wording"
            + (", by the last time that each was asked" if c.get("changes") else ""),
            *(("asked in the turns of a user, through the chat template",) if c["options"].get("chat") else ()),
            *(
                f"of the graft below, {one['facts']}: {one['recalled']:,} of {one['asked']:,} facts are said in full, "
                f"{one['before']:,} before"
                for one in c.get("lower", ())
            ),
            *change_lines(c),
            *(("what follows was measured at the build",) if c.get("changes") else ()),
        ),
        grids=(
            Grid(("wording", "", "whole answers"), wordings, left=("",)),
            Grid(("what must not change", "changed"), tuple(kept)),
        ),
        notes=(
            f"facts asked for in other number formats: {formats}",
            *(f"lost: {item['prompt']!r} said {item['said']!r}, not {item['answer']!r}" for item in c["failed"][:5]),
            f"{sum(seconds.values()):,.0f} s: " + ", ".join(f"{key} {value:.0f}" for key, value in seconds.items()),
            f"processor time: {cpu['build']:,.0f} s to build, {cpu['examine']:,.0f} s to examine",
        ),
    )


construction = _Construction()
