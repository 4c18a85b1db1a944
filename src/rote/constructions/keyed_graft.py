"""Facts into a pretrained language model that knows their keys, whatever the wording, and leaves all else alone.

Keys are recognised by their tokens, in layers below the original's first; what is asked is recognised by a gate on the
original's own state, in one of its middle layers; answers are said by a layer on top. All of it works in channels that
are added to the stream and that the original does not read. Nothing is trained but the gate, by logistic regression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.constructions._base import Job, Options, option
from rote.constructions._pretrained import PretrainedConstruction, closing_notes, nameable, share
from rote.errors import DataError, UsageError
from rote.plot.sheet import Grid, Sheet

if TYPE_CHECKING:
    from torch import Tensor

    from rote.data.encoding import Ids
    from rote.data.kinds.prompts import PromptTable
    from rote.data.verification import Verification
    from rote.models import Model
    from rote.models._pretrained import Source

__all__ = ["KeyedGraft", "construction"]

_LEAST_HASH = 18


@dataclass(frozen=True)
class KeyedGraft(Options):
    """What a graft that knows its keys may be told."""

    model: str | Path = option("", "Directory of a Llama, Mistral or Qwen model, or a GGUF file.", argument=True)  # noqa: RUF009
    wording: tuple[str, ...] = option((), "Another wording of the same question. May be repeated.", argument=True)
    held_out_template: tuple[str, ...] = option((), "Wording to measure and not to fit. May be repeated.")
    other_template: tuple[str, ...] = option(
        (), "Another question about the keys, to be answered as before. May be repeated."
    )
    key: str | None = option(None, "The field that is the key, if wordings have several in common.", metavar="FIELD")
    ignore_case: bool = option(False, "Recognise keys in lower case, capitals and title case too.")
    keep: Path | None = option(None, "Text to stay unchanged; Python's manual if not given.", metavar="TEXT")  # noqa: RUF009
    layer: int | None = option(None, "Layer of the gate; chosen by leaving wordings out if not given.", min=0)
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
        return _built(job)

    def measures(
        self, job: Job[PromptTable, KeyedGraft], model: Model, folder: Path, results: Mapping[str, Verification]
    ) -> Mapping[str, Any]:
        import torch

        from rote.constructions._keyed_examination import FreshWidened, examine

        assert isinstance(model, FreshWidened), "what was built here is examined here"
        with torch.no_grad():
            return examine(model.bench, model.at(folder), results[job.dtype], job.dtype)

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


def _built(job: Job[PromptTable, KeyedGraft]) -> Model:
    import numpy as np

    from rote.constructions._examination import Clock
    from rote.constructions._gating import fitted_gate, sentences
    from rote.constructions._keyed_examination import FreshWidened, KeyBench
    from rote.constructions._keys import bits_for, code_bits, forms_of, key_field, keys_of, patterns_of
    from rote.data.encoding import encode_prompts
    from rote.data.kinds.prompts import parse_templates
    from rote.models._pretrained import open_source
    from rote.models.folders import Staging
    from rote.solvers.graft.background import default_text, read_text, windows
    from rote.solvers.keyed.layers import body_of
    from rote.solvers.keyed.network import Plan as Sizes
    from rote.solvers.keyed.network import build, channels_of, exact_steps
    from rote.solvers.keyed.store import LEVELS, fit_store

    table, options, rng = job.table, job.options, job.rng
    answer = table.templates[0].answer
    if any(one.answer != answer for one in table.templates):
        raise UsageError(
            f"a graft that knows its keys has one answer for all wordings, and these have {answer!r} and others; graft "
            "one relation, or build with graft."
        )
    prompts = [one.prompt for one in table.templates] + list(options.wording)
    held_out = list(options.held_out_template)
    for text in (*prompts, *held_out, *options.other_template):
        parse_templates([text], [answer], table.rows.columns)
    field = key_field([*prompts, *held_out, *options.other_template], options.key, table.rows.columns)
    keys, answers = keys_of(table, field, ignore_case=options.ignore_case)
    rows = {key: row for row in reversed(table.chosen) for key in (table.rows.cells(field)[row],)}
    clock = Clock(job.progress)
    held = Staging(job.workplace)
    place = Path(options.cache or job.workplace or held.path)
    place.mkdir(parents=True, exist_ok=True)
    job.progress("load the model", 0, 1, None)
    source = open_source(Path(options.model), job.dtype, workplace=place)
    body = body_of(source.model)
    if options.layer is not None and not 0 <= options.layer < body.layers:
        raise UsageError(
            f"the model has {body.layers} layers, from 0 on, so there is none with number {options.layer}."
        )
    facts = encode_prompts(table.facts, source.tokenizer, end_id=source.end_id, context=source.context)
    texts = default_text() if options.keep is None else read_text(Path(options.keep))
    fit_text, test_text = windows(texts, source.tokenizer, 6_000, 6_000, source.context, rng)
    clock.lap("load")

    def wording(text: str) -> Callable[[int], str]:
        return lambda i: table.fill(text, rows[keys[i]])

    ids = _answers(job, source, answers, facts, [(text, wording(text)) for text in (*prompts, *held_out)])
    distinct = list(dict.fromkeys(ids))
    at = {one: i for i, one in enumerate(distinct)}
    numbers = [at[one] for one in ids]
    job_seed = int(rng.integers(1 << 62))
    forms = forms_of(source.tokenizer, keys, ignore_case=options.ignore_case)
    spoken = sorted({token for one in distinct for token in one})
    bits = bits_for(len(distinct))
    coordinates = -(-bits // (LEVELS.bit_length() - 1))
    sizes = Sizes(coordinates, 2, bits, max(map(len, distinct)), exact_steps(distinct), _LEAST_HASH)
    patterns = None
    while patterns is None:
        draw = np.random.default_rng(job_seed)
        codes = code_bits(source.tokenizer, forms, spoken)
        channels, sizes = channels_of(body, codes, sizes)
        patterns = patterns_of(
            source.tokenizer, keys, numbers, forms, spoken, most=body.heads, hashed=sizes.hashed, rng=draw
        )
        if patterns is None:
            sizes = replace(sizes, hashed=sizes.hashed + 1)
    embedding = source.model.model.embed_tokens.weight.double()
    normed = (embedding / (embedding.pow(2).mean(1, keepdim=True) + body.eps).sqrt()).numpy()
    last = patterns.windows[:, 0]
    store = fit_store(
        patterns.book.features(patterns.windows), normed[last], last, np.array(numbers)[patterns.keys],
        own_signs=patterns.book.bits, coordinates=coordinates, checks=sizes.checks, rng=rng,
    )  # fmt: skip
    clock.lap("store")
    others = [table.fill(text.replace("{" + field + "}", "{{}}"), rows[keys[0]]) for text in options.other_template]
    given = sentences(source.tokenizer, [wording(text) for text in prompts], keys, others, fit_text, rng)
    total = sum(map(len, given.asked)) + len(given.other) + len(given.text)
    gate, report = fitted_gate(
        source.model, given, layer=options.layer, advance=clock.stage("states for the gate", total)
    )
    top = _top_size(source, [group[0] for group in given.asked])
    clock.lap("gate")
    network = build(
        body, channels, sizes, patterns.book, store, gate,
        embedding=embedding, directions=_directions(source, spoken), answers=distinct, marks=patterns.marks,
        top_size=top, small=2.0**-7 if job.dtype == "float16" else 2.0**-10,
    )  # fmt: skip
    clock.lap("fit")
    bench = KeyBench(
        source=source,
        table=table,
        facts=facts,
        keys=keys,
        answer_ids=ids,
        wordings=[(text, number < len(prompts), wording(text)) for number, text in enumerate([*prompts, *held_out])],
        unknown=lambda key: table.fill(prompts[0], rows[keys[0]], {field: key}),
        text=test_text,
        sample=options.examined,
        rng=rng,
        clock=clock,
        held=held,
    )
    notes = {
        "family": source.family,
        "sample": table.sample,
        "key": field,
        "distinct_answers": len(table.answers),
        "answer_tokens": sum(len(one) for one in ids),
        "tied_embeddings": source.tied,
        "end_token": source.tokenizer.convert_ids_to_tokens(source.end_id),
        "gate": report,
        "store": {"patterns": len(patterns.windows), "neurons": len(store.gates), "window": patterns.book.reach},
    }
    return FreshWidened(bench, body, network, gate.layer, job.dtype, notes)


def _answers(
    job: Job[PromptTable, KeyedGraft],
    source: Source,
    answers: list[str],
    facts: Any,
    wordings: list[tuple[str, Callable[[int], str]]],
) -> list[Ids]:
    """The tokens of every key's answer; a wording behind which it would be cut otherwise is refused."""
    by_answer: dict[str, Ids] = {}
    for fact, ids in zip(job.table.facts, facts, strict=True):
        by_answer.setdefault(fact.answer, ids.answer_ids)
        if by_answer[fact.answer] != ids.answer_ids:
            raise DataError(
                f"the answer {fact.answer!r} has other tokens behind {fact.text!r} than elsewhere; begin the answer "
                "with a space, and let no wording end with one."
            )
    tokenizer = source.tokenizer
    for text, prompt in wordings:
        whole, alone = tokenizer([prompt(0) + answers[0], prompt(0)])["input_ids"]
        if tuple(whole[: len(alone)]) == tuple(alone) and tuple(whole[len(alone) :]) != by_answer[answers[0]][:-1]:
            raise DataError(
                f"behind the wording {text!r} the answer {answers[0]!r} has other tokens than behind the first one; "
                "let wordings end without a space, and answers begin with one."
            )
    return [by_answer[answer] for answer in answers]


def _directions(source: Source, spoken: list[int]) -> dict[int, Tensor]:
    """What to add to the stream so that the head says a token: its row of the head, through the inverse of all rows."""
    import torch

    head = source.model.lm_head.weight.double() * source.model.model.norm.weight.double()
    gram = head.T @ head
    inverse = torch.linalg.inv(gram + 1e-3 * gram.diagonal().mean() * torch.eye(len(gram), dtype=torch.float64))
    found = {}
    for token in spoken:
        direction = inverse @ head[token]
        found[token] = direction / direction.pow(2).mean().sqrt()
    return found


def _top_size(source: Source, prompts: list[Ids]) -> float:
    """The usual root mean square of the stream behind the last layer, at the end of prompts."""
    import torch

    caught: list[Tensor] = []
    hook = source.model.model.norm.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0][0, -1].double()))
    try:
        for ids in prompts:
            source.model.model(input_ids=torch.tensor([ids]), use_cache=False)
    finally:
        hook.remove()
    return float(torch.stack([state.pow(2).mean().sqrt() for state in caught]).median())


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
