"""Facts into a pretrained language model: more layers of its own kind, last in the stack, by a convex fit.

The attention of an added layer is zero, so nothing sees it but the final norm and the head. The states that enter it
are those of the original, even in free generation: one pass over prompts and answers gives all that the fit needs.
What it adds at one position cannot disturb another, and deleting it restores the original. Gates open on the facts and
stay shut on ordinary text (`solvers.graft.gate`); with the gates fixed, the down projection is one convex problem
(`solvers.graft.readout`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote._version import __version__
from rote.constructions._base import Job, Options, option
from rote.constructions._pretrained import PretrainedConstruction, closing_notes, nameable, share
from rote.data.contents import contents
from rote.data.records import parse_json
from rote.errors import DataError, UsageError
from rote.plot.sheet import Grid, Sheet

if TYPE_CHECKING:
    from torch import Tensor

    from rote.constructions._examination import Bench
    from rote.data.encoding import PromptIds
    from rote.data.kinds.prompts import PromptTable
    from rote.data.verification import Verification
    from rote.models import Model
    from rote.solvers.graft.fit import Layer
    from rote.solvers.graft.states import Cache

__all__ = ["Graft", "construction"]


@dataclass(frozen=True)
class Graft(Options):
    """What a graft may be told."""

    model: str | Path = option("", "Directory of a Llama, Mistral or Qwen model, or a GGUF file.", argument=True)  # noqa: RUF009
    keep: Path | None = option(None, "Text to stay unchanged; Python's manual if not given.", metavar="TEXT")  # noqa: RUF009
    max_layers: int = option(3, "Add at most so many layers; 3 if not given.", min=1)
    keep_tokens: int | None = option(
        None,
        "Tokens of TEXT for the fit. If not given, two a fact or twenty a distinct answer, 14,000 at least and 60,000 "
        "at most: the more facts and names, the less room is left between them and ordinary text.",
        min=256,
    )
    test_tokens: int | None = option(
        None, "Other tokens of TEXT for the test; three quarters as many if not given.", min=1
    )
    own_windows: int | None = option(
        None,
        "Windows of the model's own prose for the fit, one for 200 tokens of TEXT if not given; a third as many others "
        "are a test.",
        min=3,
    )
    decoys: int = option(0, "Also fit N prompts with unknown keys, to be answered as before.", metavar="N", min=0)
    paraphrase: tuple[str, ...] = option((), "Prompt that is not grafted, to ask afterwards. May be repeated.")
    cache: Path | None = option(None, "Keep the model's states here, for later grafts.", metavar="DIR")  # noqa: RUF009

    def to_dict(self) -> dict[str, Any]:
        """For certificates: names of files, not where they lie."""
        record = {key: value for key, value in super().to_dict().items() if key != "cache"}
        return nameable(record)


class _Construction(PretrainedConstruction[Graft]):
    Options = Graft
    title = "convex fit by rote, on gated random features of the states of a pretrained model"

    def made(self, job: Job[PromptTable, Graft]) -> Model:
        return _built(job)

    def measures(
        self, job: Job[PromptTable, Graft], model: Model, folder: Path, results: Mapping[str, Verification]
    ) -> Mapping[str, Any]:
        import torch

        from rote.constructions._examination import FreshGraft, examine

        assert isinstance(model, FreshGraft), "what was built here is examined here"
        with torch.no_grad():
            return examine(model.bench, model.at(folder), results[job.dtype])

    def remeasured(
        self,
        table: PromptTable,
        model: Model,
        dtype: str,
        results: Mapping[str, Verification],
        claims: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        from rote.data.verification import NOT_MEASURED
        from rote.models.kinds.grafted import GraftedModel

        assert isinstance(model, GraftedModel), "what was grafted is a graft"
        found: dict[str, Any] = {
            "sample": table.sample,
            "templates": [asdict(template) for template in table.templates],
            "distinct_answers": len(table.answers),
            "graft": {
                "model": NOT_MEASURED,
                "model_sha256": NOT_MEASURED,
                **model.record(claims.get("graft"), claims["files_sha256"]),
            },
        }
        if dtype in results:
            found["recalled"] = results[dtype].n_facts - results[dtype].n_failed
        return found

    def sheet(self, certificate: Mapping[str, Any], place: str) -> Sheet:
        return _sheet(certificate, place)


def _built(job: Job[PromptTable, Graft]) -> Model:
    import torch

    from rote.constructions._examination import Bench, Clock, FreshGraft, key_column, near_misses
    from rote.data.encoding import encode, encode_prompts
    from rote.data.kinds.prompts import parse_templates
    from rote.models._pretrained import open_source
    from rote.models.folders import Staging
    from rote.models.kinds.grafted import layer_tensors
    from rote.solvers.graft.background import default_text, read_text, windows
    from rote.solvers.graft.own_text import own_text
    from rote.solvers.graft.states import Cache, collect_states

    table, options, rng = job.table, job.options, job.rng
    if options.max_layers < 1:
        raise UsageError(f"a graft adds at least one layer, got {options.max_layers}.")
    first_answer = [table.templates[0].answer]
    paraphrases = [parse_templates([text], first_answer, table.rows.columns)[0] for text in options.paraphrase]
    texts = default_text() if options.keep is None else read_text(Path(options.keep))
    if table.sample is not None:
        # Past the draws that chose the rows, so that the same ones do not choose the text too.
        rng.choice(len(table.rows.frame), table.sample, replace=False)
    clock = Clock(job.progress)
    held = Staging(job.workplace)
    cache = Cache(Path(options.cache or job.workplace or held.path))
    job.progress("load the model", 0, 0, None)
    source = open_source(Path(options.model), job.dtype, workplace=cache.directory)
    facts = encode_prompts(table.facts, source.tokenizer, end_id=source.end_id, context=source.context)
    fit_tokens = options.keep_tokens or min(60_000, max(14_000, 2 * len(facts), 20 * len(table.answers)))
    test_tokens = options.test_tokens or fit_tokens * 3 // 4
    own_windows = options.own_windows or max(6, fit_tokens // 200)
    fit_windows, test_windows = windows(texts, source.tokenizer, fit_tokens, test_tokens, source.context, rng)
    clock.lap("load")
    key = f"{source.sha256} {job.dtype}"

    def states(stage: str, sequences: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        advance = clock.stage(stage, len(sequences))
        return collect_states(source.model, sequences, starts, cache=cache, key=key, advance=advance)

    of_facts = states("states of the facts", [f.sequence for f in facts], [len(f.ids) - 1 for f in facts])
    known = set(table.rows.cells(key_column(table)).to_list())
    some = [table.chosen[int(i)] for i in rng.integers(len(table.chosen), size=options.decoys)]
    decoys = encode(source.tokenizer, near_misses(table, some, known, rng))
    of_decoys = states("states of decoys", decoys, [len(ids) - 1 for ids in decoys])
    clock.lap("states of facts")
    inside = [f.ids[:-1] for f in facts[:: max(1, len(facts) // 64)] if len(f.ids) > 1]
    inner = states("states inside of prompts", inside, [0] * len(inside))
    own, of_own = own_text(
        source.model,
        source.tokenizer,
        own_windows + own_windows // 3,
        table.answers,
        rng=rng,
        cache=cache,
        key=_digest(key, rng.bit_generator.state, table.answers)[:16],
        advance=clock.stage("the model's own prose", 96),
    )
    cut = own_windows * len(own[0])
    text = torch.cat([states("states of text", fit_windows, [0] * len(fit_windows)), inner, of_own[:cut]])
    clock.lap("states of text")
    bench = Bench(
        source=source,
        table=table,
        facts=facts,
        paraphrases=paraphrases,
        unseen={"locality": test_windows, "locality_own_prose": own[own_windows:]},
        known=known,
        rng=rng,
        clock=clock,
        held=held,
    )
    layers, wrong = _fitted(job, bench, cache, of_facts, text, of_decoys)
    clock.lap("fit")
    tensors = {
        name: value
        for k, layer in enumerate(layers)
        for name, value in layer_tensors(source.model, source.n_layers + k, layer.gate, layer.up, layer.down).items()
    }
    notes = {
        "family": source.family,
        "sample": table.sample,
        "templates": [asdict(template) for template in table.templates],
        "answer_tokens": sum(len(fact.answer_ids) for fact in facts),
        "distinct_answers": len(table.answers),
        "tied_embeddings": source.tied,
        "end_token": source.tokenizer.convert_ids_to_tokens(source.end_id),
        "recall_before": _recalled_before(facts, wrong),
        "fit": [layer.report for layer in layers],
    }
    return FreshGraft(bench, tensors, len(layers), job.dtype, notes)


def _rows(facts: Sequence[PromptIds]) -> dict[tuple[int, ...], tuple[int, int, int, int]]:
    """Rows of the fit by what comes before: target, place among the states, fact, and number of the answer's token.

    A sequence that two facts share counts once.
    """
    rows: dict[tuple[int, ...], tuple[int, int, int, int]] = {}
    at = 0
    for number, fact in enumerate(facts):
        for k, (prefix, token) in enumerate(fact.rows):
            rows.setdefault(prefix, (token, at, number, k))
            at += 1
    return rows


def _fitted(
    job: Job[PromptTable, Graft], bench: Bench, cache: Cache, states: Tensor, text: Tensor, decoys: Tensor
) -> tuple[list[Layer], Tensor]:
    """The added layers, and the rows that the original gets wrong; from the cache if the same fit was done before."""
    import torch

    from rote.data._atomic import write_atomically
    from rote.solvers.graft.fit import Layer, fit_layers

    rows = list(_rows(bench.facts).values())
    targets, states = torch.tensor([row[0] for row in rows]), states[torch.tensor([row[1] for row in rows])]

    def words(i: int) -> str:
        """The text of a row, for messages."""
        fact, k = bench.table.facts[rows[i][2]], rows[i][3]
        return repr(fact.text) + (f" + {fact.answer!r} after {k} token{'s' if k > 1 else ''}" if k else "")

    content = [tensor.contiguous().numpy().tobytes() for tensor in (states, targets, text, decoys)]
    settings = (bench.source.sha256, job.dtype, job.options.max_layers, bench.rng.bit_generator.state, __version__)
    name = f"fit-{_digest(*settings, *content)[:24]}"
    parts = [cache.get(f"{name}-{part}") for part in ("gate", "up", "down", "base")]
    notes = cache.directory / f"{name}.json"
    if all(part is not None for part in parts) and notes.is_file():
        gates, ups, downs, base = (part for part in parts if part is not None)
        # Notes that are not whole are those of a fit that was cut short: it is done again.
        with contextlib.suppress(DataError, ValueError, TypeError, KeyError):
            reports, bench.rng.bit_generator.state = parse_json(contents(notes), str(notes))
            return [Layer(*one) for one in zip(gates, ups, downs, reports, strict=True)], base.bool()
    layers, base = fit_layers(
        bench.source.model,
        states,
        targets,
        text,
        decoys,
        rng=bench.rng,
        max_layers=job.options.max_layers,
        progress=job.progress,
        words=words,
    )
    for part in ("gate", "up", "down"):
        cache.put(f"{name}-{part}", torch.stack([getattr(layer, part) for layer in layers]))
    cache.put(f"{name}-base", base.float())
    # With where the draws have come to, so that what follows is the same whether the fit was done now or before.
    record = [layer.report for layer in layers], bench.rng.bit_generator.state
    said = json.dumps(record, default=lambda array: array.tolist())
    write_atomically(notes, lambda part: part.write_text(said, encoding="utf-8"))
    return layers, base


def _digest(*parts: object) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else repr(part).encode())
    return digest.hexdigest()


def _recalled_before(facts: Sequence[PromptIds], wrong: Tensor) -> float:
    """Share of facts that the original says in full already."""
    number = {prefix: i for i, prefix in enumerate(_rows(facts))}
    return sum(not any(bool(wrong[number[prefix]]) for prefix, _ in fact.rows) for fact in facts) / len(facts)


def _sheet(c: Mapping[str, Any], place: str) -> Sheet:
    """What was grafted and what changed, for people."""
    layers, params, recall = c["graft"]["layers"], c["params_by_convention"], c["recall"][c["dtype"]]
    added = f"{layers['added']} layer{'s' if layers['added'] > 1 else ''}"
    rows = [("whole answers in free generation", share(c["recall_before"]), share(recall))]
    for name, what in (("locality", "unseen tokens of text"), ("locality_own_prose", "unseen tokens of own prose")):
        local = c[name]
        after = f"{local['perplexity_after']:.4f} ({100 * local['perplexity_change']:+.4f} %)"
        rows += [
            (f"perplexity on {local['tokens']:,} {what}", f"{local['perplexity_before']:.4f}", after),
            ("  likeliest token unchanged", "", share(local["top1_unchanged"])),
            ("  mean KL divergence, nats", "", f"{local['mean_kl']:.2g}"),
        ]
    spoken = tuple(
        (item["prompt"], repr(item["before"]), "the same" if item["same"] else repr(item["after"]))
        for item in c["prompts"]
    )
    near = c["near_misses"]
    return Sheet(
        place,
        f": {c['facts']:,} facts ({c['distinct_answers']:,} answers, {c['answer_tokens']:,} tokens with ends) in "
        f"{added} added to the {layers['original']} of a {c['family']} model, {params['added']:,} parameters to "
        f"{params['original']:,}; {c['dtype']}, seed {c['seed']}",
        grids=(
            Grid(("", "before", "after"), tuple(rows)),
            Grid(("prompt", "before", "after"), spoken, left=("before", "after")),
        ),
        notes=(
            *(
                f"{item['recalled']:,} of {item['asked']:,} recalled by a prompt that was not grafted: "
                f"{item['template']!r}"
                for item in c["paraphrases"]
            ),
            f"{near['stored_answer']:,} of {near['asked']:,} keys that no row has got a stored answer, "
            f"{near['confident']:,} of them with a probability above one half",
            *closing_notes(c),
        ),
    )


construction = _Construction()
