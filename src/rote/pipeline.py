"""The one road: `build`, `load` and `verify`, for every kind of table, construction and model.

    build   choose constructions and shapes, smallest first; admit; build; write; judge what was written; certify
    load    read a directory back, every file checked against its certificate
    verify  let the referee run every fact through what is on disk

Nothing here knows a kind. A table says what it demands and scores what a model says, a construction hands over a model,
a model writes and reads directories, the referee runs them with code of its own. Each kind is one file, found by its
name: `data/kinds`, `constructions`, `models/kinds`, `referee/judges`.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rote import claims, constructions, data, models, referee
from rote._version import __version__
from rote.card import first_question
from rote.certificate import Certificate
from rote.choices import (
    Choice,
    Refused,
    best_or_refusal,
    choose,
    fitting_tables,
    reason,
    smallest_first,
    with_reason,
)
from rote.config import DTYPES, Architecture, Shape
from rote.constructions import AnyConstruction, Job, Options, Plan, Progress, quiet, words
from rote.data import key_filter
from rote.data.arguments import checked
from rote.data.stock import refuse_code
from rote.data.table import Table
from rote.data.verification import Verification
from rote.errors import (
    CheckpointError,
    FactsLost,
    RoteError,
    TooLarge,
    UsageError,
)
from rote.memory import Memory, Staging
from rote.memory_budget import memory_budget, out_of_memory
from rote.models import Model, folders
from rote.solvers.record import Attempt

if TYPE_CHECKING:
    import numpy as np

    from rote.data.outputs import Outputs

__all__ = ["build", "build_at", "certified", "judged", "load", "verify"]

_MOST_ATTEMPTS = 40
MOST_SECONDS = 900.0
"""What the attempts of `auto` may take together, by the constructions' own estimates."""
_SHORT = 60.0
"""What one attempt may always take."""
TOLERANCE = 1e-3
"""How far off a real target may be and count as recalled, seen from the largest target; certificates go by this."""


@checked
def build(
    table: Table,
    with_: str | Options = "auto",
    *,
    n_heads: int | None = None,
    d_model: int | None = None,
    d_head: int | None = None,
    d_mlp: int | None = None,
    dtype: str | None = None,
    arch: str | None = None,
    options: Mapping[str, Any] | None = None,
    rng: np.random.Generator | int = 0,
    partial: bool = False,
    drop_unfit: bool = False,
    keep_best: bool = False,
    max_memory: float | None = None,
    workplace: Path | None = None,
    progress: Progress = quiet,
    attempt: Callable[[Attempt], None] | None = None,
) -> Memory:
    """A model that recalls every fact, by construction and without a gradient step on the whole.

    `with_` is a construction's Options record, such as `rote.ArgmaxFit(refine=True)`, its key, or "auto" for the one
    with the fewest parameters that recalls everything; `options` are the fields of a record by name. What is not given
    of the shape is planned. `arch` is the architecture of the model ("rote", or "llama" for a stock checkpoint),
    `dtype` the format that it is stored in and must recall everything in. `rng` is a seed or a generator. With
    `partial` the best model is handed over even if it loses facts. Facts that no shape of a construction can hold are
    refused; with `drop_unfit` they are left out, and the directory lists them. Attempts that would take more than
    `max_memory` gigabytes (most of what is free, if not given; with "auto" no more than 1.2 GB, or 1 kB a fact), or
    with "auto" more than what is left of a quarter of an hour, are not begun; where nothing else succeeds, each has the
    whole of it. With `keep_best` an interruption (ctrl-C) hands over the best attempt so far, if one was finished.
    Temporary files go to `workplace`. `progress` is told about stages, and `attempt` what is tried next.
    """
    if not isinstance(table, Table):
        raise UsageError(f"rote.build needs a table, got a {type(table).__name__}; rote.read makes one of a file.")
    shape = Shape(n_heads, d_model, d_head, d_mlp)
    attempts: list[Refused] = []
    most, spent = memory_budget(max_memory), 0.0
    budget = memory_budget(max_memory, table.n_facts) if with_ == "auto" else most
    postponed: list[tuple[Choice, Plan]] = []
    chosen = fitting_tables(choose(table, with_, options or {}, shape, arch, dtype), drop_unfit, attempts)
    # What does not fit into the comfort of `auto`, or into the time that is left, has its turn where nothing else has
    # succeeded.
    planned = smallest_first(chosen, shape, dtype, attempts)
    try:
        for late, (choice, plan) in itertools.chain(
            zip(itertools.repeat(False), planned), ((True, one) for one in postponed)
        ):
            if sum(one.recall is not None for one in attempts) >= _MOST_ATTEMPTS:
                break
            construction = choice.construction
            number = construction.check_format(dtype)
            # Every attempt starts from the seed, so that naming the construction and the shape gives the same weights.
            generator, seed = _as_generator(rng)
            wanted = partial or keep_best
            job = Job(
                choice.table, plan.architecture, choice.options, number, generator, progress, wanted, shape, workplace
            )
            if attempt is not None:
                attempt(_next_attempt(plan, attempts))
            begun = time.process_time()
            try:
                left = max(_SHORT, MOST_SECONDS if late else MOST_SECONDS - spent) if len(chosen) > 1 else math.inf
                _affordable(construction, choice.table, plan, most if late else budget, left)
                construction.admit(job)
                memory, verdict = certified(construction, job, construction.build(job), seed)
            except FactsLost as error:
                attempts.append(
                    Refused(f"{construction.key} with {words(plan.architecture)} {error}", recall=error.recall)
                )
                continue
            except RoteError as error:
                if len(chosen) == 1 and not isinstance(error, TooLarge):
                    raise
                over = plan if isinstance(error, TooLarge) else None
                if over is not None and not late:
                    postponed.append((choice, plan))
                attempts.append(Refused(reason(construction, error), error, plan=over))
                continue
            except (MemoryError, RuntimeError) as error:
                if len(chosen) == 1 or not out_of_memory(error):
                    raise
                attempts.append(Refused(f"{construction.key} with {words(plan.architecture)} ran out of memory"))
                continue
            finally:
                # What an attempt takes is estimated for one that succeeds; others often end long before.
                spent += time.process_time() - begun
            if verdict.firm:
                free = not shape.given and not options
                progress("look at what was not tried", 0, 0, None)
                return with_reason(memory, plan, attempts, table, arch, dtype, free=free) if with_ == "auto" else memory
            attempts.append(
                Refused(
                    f"{construction.key} with {words(plan.architecture)} {verdict.summary()}",
                    None,
                    memory,
                    verdict.recall,
                )
            )
    except KeyboardInterrupt:
        if not keep_best:
            raise
        if not any(one.memory is not None for one in attempts):
            raise KeyboardInterrupt("before an attempt was finished that could be kept") from None
        return best_or_refusal(table, attempts, partial=True)
    return best_or_refusal(table, attempts, partial)


def _affordable(construction: AnyConstruction, table: Table, plan: Plan, budget: float, seconds: float) -> None:
    """Refuse an attempt that needs more memory or time than there is."""
    needs = construction.needs(table.demand(plan.dtype, Shape()), plan)
    if needs is None:
        return
    shape = words(plan.architecture)
    if needs.bytes > budget:
        raise TooLarge(
            f"{construction.key} with {shape} needs about {needs.bytes / 1e9:.3g} GB, more than {budget / 1e9:.3g} GB "
            "allowed; allow more memory, or choose another construction."
        )
    if needs.seconds > seconds:
        raise TooLarge(
            f"{construction.key} with {shape} would take about {needs.seconds / 60:.0f} minutes; name it to try"
        )


def _next_attempt(plan: Plan, attempts: list[Refused]) -> Attempt:
    best = max((one.recall for one in attempts if one.recall is not None), default=None)
    shape = words(plan.architecture)
    return Attempt(len(attempts) + 1, _MOST_ATTEMPTS, plan.construction, shape, plan.params, best)


def build_at(
    construction: AnyConstruction,
    table: Table,
    arch: Architecture,
    options: Options | None = None,
    *,
    dtype: str | None = None,
    rng: np.random.Generator | int = 0,
) -> Memory:
    """One construction at exactly one shape, whatever it recalls; refusals are raised."""
    given = construction.Options() if options is None else options
    generator, seed = _as_generator(rng)
    number = construction.check_format(dtype)
    ready = construction.fitting(construction.prepare(table, given), given)
    job = Job(ready, arch, given, number, generator, partial=True)
    construction.admit(job)
    return certified(construction, job, construction.build(job), seed)[0]


class Judged(Protocol):
    """A verdict on what is on disk, in a number format."""

    def __call__(
        self, folder: Path, model: Model, table: Table, dtype: str, *, progress: Progress
    ) -> Verification: ...  # fmt: skip


def certified(
    construction: AnyConstruction,
    job: Job[Any, Any],
    model: Model,
    seed: int | None,
    verdict: Judged | None = None,
) -> tuple[Memory, Verification]:
    """Write the model, let the referee judge what is on disk, and certify what it found.

    `verdict` says how it is judged, where not every fact has to be run.
    """
    judge = verdict or judged
    staging = Staging(job.workplace)
    folder = staging.path
    model.write(folder)
    for name, content in job.table.files().items():
        (folder / name).write_bytes(content)
    keys = None if model.tells_unknown else job.table.keys
    if keys is not None:
        (folder / key_filter.FILE).write_bytes(keys.to_bytes())
    results: dict[str, Verification] = {}
    for dtype in dict.fromkeys((job.dtype, *construction.formats(job.dtype))):
        job.progress(f"verify {dtype}", 0, job.table.n_facts, None)
        results[dtype] = judge(folder, model, job.table, dtype, progress=job.progress)
        if not results[job.dtype].passed and not job.partial:
            # Where facts are lost at the format asked for, the others are not worth the time.
            break
    results = {dtype: results[dtype] for dtype in construction.formats(job.dtype) if dtype in results}
    job.progress("measure what else is claimed", 0, 0, None)
    measures = {**construction.measures(job, model, folder, results)}
    if keys is not None and (job.partial or results[job.dtype].passed):
        job.progress("try the filter of keys", 0, 0, None)
        measures["key_filter"] = job.table.key_findings(keys)
    certificate = _certificate(construction, job, model, folder, results, measures, seed)
    question = first_question(job.table, model.at(folder), whole=certificate.passed)
    memory = Memory(folder, model.at(folder), certificate, staging, question)
    return memory, results[job.dtype]


def _certificate(
    construction: AnyConstruction,
    job: Job[Any, Any],
    model: Model,
    folder: Path,
    results: Mapping[str, Verification],
    measures: Mapping[str, Any],
    seed: int | None,
) -> Certificate:
    table, hashes, said = job.table, folders.hashes(folder, model.known_hashes), {**model.claims, **measures}
    return Certificate(
        **claims.findings(construction, table, model, job.dtype, results, said),
        construction=construction.key,
        facts_name=table.name,
        dtype=job.dtype,
        weights_sha256=folders.weights_hash(hashes),
        files_sha256=hashes,
        tokens=table.tokens,
        seed=seed,
        version=__version__,
        options=job.options.to_dict(),
        read=folders.reading_record(table.reading),
        conditioning=model.report.get("condition", model.report.get("condition_Z")),
        report=dict(model.report),
        claims=said,
    )


@checked
def load(directory: str | Path, *, changed_weights: bool = False, trainable: bool = False) -> Memory:
    """Read a model directory back; missing, truncated or altered files are refused.

    With `changed_weights` the weights may be others than those of the certificate, which is then history: `changed` of
    the memory names the files. With `trainable` the parameters of its module ask for gradients.
    """
    folder = Path(directory)
    path = folder / folders.CERTIFICATE
    if os.path.exists(path) and not os.path.isfile(path):
        raise CheckpointError(f"{path} is no file; the directory was altered, build the model again.")
    certificate = Certificate.from_dict(folders.read_json(path), str(path))
    changed = folders.check_files(folder, certificate, changed_weights=changed_weights)
    refuse_code(folder)
    constructions.get(certificate.construction)
    data.kind(certificate.data)
    model = models.get(certificate.model).read(folder, certificate)
    if model.arch.to_dict() != dict(certificate.shape):
        raise CheckpointError(f"{folder} holds a model of another shape than its certificate names; it was edited.")
    if trainable:
        model.module.requires_grad_(True)
    return Memory(folder, model, certificate, changed=changed)


@checked
def verify(
    model: Any,
    table: Table | None = None,
    *,
    tokenizer: Any = None,
    changed_weights: bool = False,
    dtype: str | None = None,
    tolerance: float = TOLERANCE,
    other_facts: bool = True,
    all_formats: bool = False,
    progress: Progress = quiet,
) -> Verification:
    """Run every fact through the model, by the referee's own forward pass, in the given number format.

    A Memory or a directory is run as it is stored unless `dtype` says otherwise, from the files on disk; without a
    table the one that the certificate names is read again. Any other module that maps contexts (B, S) of token ids to
    logits (B, N), such as one that was trained, is run as a copy, in float32 unless told otherwise. Real targets count
    as recalled within `tolerance` of the largest target. Without `other_facts` only the certificate's table is
    accepted. With `all_formats` it is run in all formats that the certificate lists. The certificate's claims are held
    against what is found: the result says which were `checked`, `unchecked` and `contradicted`.

    A causal language model of Hugging Face transformers with its `tokenizer`, or a pipeline of both, is asked in text,
    and goes on by itself: greedily, for as many tokens as the answer has. With `changed_weights` a directory may hold
    other weights than its certificate speaks of; the result names them in `changed_files`, and what was lost since.
    """
    if isinstance(model, (str, Path)):
        model = load(model, changed_weights=changed_weights)
    if not isinstance(model, Memory):
        if table is None:
            raise UsageError("a module has no certificate that could name its facts; give the table.")
        # A pipeline of transformers holds its model and its tokenizer.
        held = getattr(model, "tokenizer", None)
        if tokenizer is not None or held is not None:
            spoken = model if held is None else model.model
            said: Verification = referee.judge_text(spoken, tokenizer or held, table, _advance(progress, "text", table))
            return said
        return referee.judge_module(model, table, dtype or "float32", tolerance=tolerance)
    if table is not None and not isinstance(table, Table):
        raise UsageError(f"rote.verify needs a table, got a {type(table).__name__}; rote.read makes one of a file.")
    certificate = model.certificate
    known = model.table() if table is None else model.prepared(table, changed=False)
    if not (other_facts or certificate.refers_to(known)):
        raise CheckpointError(
            f"{known.name} is not what {model.folder} was built from (its certificate names "
            f"{certificate.facts_name!r}, {certificate.facts:,} {known.noun}, with another hash); give the original, "
            "or allow other facts to check these all the same."
        )
    wording, same = model.model.wording, known if table is None or certificate.refers_to(known) else None
    if wording is None and same is not None and same.words is not None:
        raise CheckpointError(
            f"{model.folder} has no tokenizer.json, so it has no words; it was altered, build it again."
        )
    if wording is not None:
        known = known.in_words_of(wording.vocabulary, wording.context)
    construction, first = constructions.get(certificate.construction), dtype or certificate.dtype
    formats = [first]
    # A model that was handed over in whole was judged in every format of its construction.
    usual = construction.formats(construction.check_format(certificate.dtype)) if certificate.passed else ()
    if all_formats:
        formats += [name for name in (*usual, *certificate.recall) if name in DTYPES]
    results = {
        name: judged(model.folder, model.model, known, name, tolerance=tolerance, progress=progress)
        for name in dict.fromkeys(formats)
    }
    others = tuple(result for name, result in results.items() if name != first)
    verdict = replace(results[first], others=others)
    if tolerance != TOLERANCE:
        same = None
    progress("hold the certificate's claims against it", 0, 0, None)
    found = claims.findings(construction, same, model.model, certificate.dtype, results, certificate)
    if same is not None:
        found |= construction.remeasured(same, model.model, certificate.dtype, results, certificate)
        verdict = replace(verdict, unknown=found.get("unknown"))
        if "key_filter" in certificate or model.keys is not None:
            progress("try the filter of keys", 0, 0, None)
            found["key_filter"] = known.key_findings(model.keys)
    if model.changed:
        promised = certificate.recall.get(first)
        return replace(verdict, changed_files=model.changed, promised=promised)
    return claims.compared(verdict, certificate, found, {*usual, *certificate.recall})


def judged(
    folder: Path,
    model: Model,
    table: Table,
    dtype: str,
    *,
    tolerance: float = TOLERANCE,
    progress: Progress = quiet,
    hear: Callable[[Outputs], None] | None = None,
) -> Verification:
    """The referee's verdict on a directory, every fact being run."""
    return referee.judge(
        referee.read_stored(folder, model.kind),
        table,
        dtype,
        tolerance=tolerance,
        shortcut=model.shortcut(),
        own=model.outputs,
        advance=_advance(progress, dtype, table),
        hear=hear,
    )


def _advance(progress: Progress, dtype: str, table: Table) -> Callable[[int], None]:
    return lambda done: progress(f"verify {dtype}", done, table.n_facts, None)


def _as_generator(rng: np.random.Generator | int) -> tuple[np.random.Generator, int | None]:
    """A generator, and the seed if it was given as one."""
    import numpy as np

    if isinstance(rng, np.random.Generator):
        return rng, None
    if isinstance(rng, bool) or not isinstance(rng, (int, np.integer)) or rng < 0:
        raise UsageError(f"a seed is a whole number from 0, or a numpy Generator, got {rng!r}.")
    return np.random.default_rng(int(rng)), int(rng)
