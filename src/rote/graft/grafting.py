"""`graft`: facts and a pretrained model in, the same model with one more layer out, judged from the files on disk."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rote._version import __version__
from rote.data.rawrows import RawRows
from rote.errors import DataError, RoteError, UsageError
from rote.graft.background import default_text, read_text, windows
from rote.graft.files import fill_graft, layer_tensors, write_certificate
from rote.graft.fit import Layer, fit_layers
from rote.graft.own_text import own_text
from rote.graft.prompts import Prompt, Template, choose_rows, encode, facts_sha256, make_prompts, parse_templates
from rote.graft.report import examine, key_column, near_misses
from rote.graft.source import Source, load_model, open_source
from rote.graft.states import Cache, collect_states
from rote.models.checkpoint import refuse_existing, write_directory
from rote.solvers.record import Progress, quiet

__all__ = ["GraftRequest", "graft"]


@dataclass(frozen=True)
class GraftRequest:
    """What is to be grafted, and how."""

    templates: Sequence[str]
    answers: Sequence[str]
    keep: Path | None = None
    dtype: str = "float32"
    sample: int | None = None
    seed: int = 0
    max_layers: int = 3
    fit_tokens: int | None = None
    """Tokens of text for the fit. Two a fact and twenty a distinct answer, within limits, if None: the more facts and
    names, the less room is left between them and ordinary text, and the more of it has to be seen."""
    test_tokens: int | None = None
    """Tokens of other text for the test; three quarters as many if None."""
    own_windows: int | None = None
    """Windows of the model's own prose for the fit, one for 200 tokens of text if None; a third as many are a test."""
    decoys: int = 0
    """Prompts with unknown keys to be fitted too: after them the model shall say what it said before."""
    paraphrases: Sequence[str] = field(default=())
    cache: Path | None = None
    """Where states are kept; a hidden directory beside the output, removed at the end, if None."""


class _Clock:
    """Seconds by stage, and progress by stage."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.seconds: dict[str, float] = {}
        self.begun, self.worked = time.perf_counter(), time.process_time()

    def stage(self, name: str, total: int) -> Callable[[int], None]:
        """A function to call with each number of items done."""
        done = 0
        self.progress(name, 0, total, None)

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self.progress(name, done, total, None)

        return advance

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.begun
        self.begun = now


def graft(
    model: Path, rows: RawRows, request: GraftRequest, output: Path, *, force: bool = False, progress: Progress = quiet
) -> dict[str, Any]:
    """Write the grafted model to `output` and return its certificate."""
    refuse_existing(output, force)
    workplace = request.cache or output.parent / f".{output.name}.graft"
    try:
        certificate = _graft(model, rows, request, output, workplace, force, progress)
    except RoteError:
        # What is refused will be asked differently, so its states are of no use; after an interruption they are.
        if request.cache is None:
            shutil.rmtree(workplace, ignore_errors=True)
        raise
    if request.cache is None:
        shutil.rmtree(workplace, ignore_errors=True)
    return certificate


@torch.no_grad()
def _graft(
    model: Path,
    rows: RawRows,
    request: GraftRequest,
    output: Path,
    workplace: Path,
    force: bool,
    progress: Progress,
) -> dict[str, Any]:
    templates = parse_templates(request.templates, request.answers, rows.columns)
    paraphrases = [parse_templates([text], request.answers[:1], rows.columns)[0] for text in request.paraphrases]
    if request.max_layers < 1:
        raise UsageError(f"a graft adds at least one layer, got {request.max_layers}.")
    rng = np.random.default_rng(request.seed)
    chosen = choose_rows(rows, request.sample, rng)
    texts = default_text() if request.keep is None else read_text(request.keep)
    clock = _Clock(progress)
    cache = Cache(workplace)
    progress("load the model", 0, 1, None)
    source = open_source(model, request.dtype, workplace=workplace)
    prompts = make_prompts(rows, chosen, templates, source.tokenizer, end_id=source.end_id, context=source.context)
    answers = list(dict.fromkeys(prompt.answer for prompt in prompts))
    fit_tokens = request.fit_tokens or min(60_000, max(14_000, 2 * len(prompts), 20 * len(answers)))
    test_tokens = request.test_tokens or fit_tokens * 3 // 4
    own_windows = request.own_windows or max(6, fit_tokens // 200)
    fit_windows, test_windows = windows(texts, source.tokenizer, fit_tokens, test_tokens, source.context, rng)
    clock.lap("load")
    key = f"{source.sha256} {request.dtype}"

    def states(stage: str, sequences: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        advance = clock.stage(stage, len(sequences))
        return collect_states(source.model, sequences, starts, cache=cache, key=key, advance=advance)

    facts = states("states of the facts", [p.sequence for p in prompts], [len(p.ids) - 1 for p in prompts])
    known = set(rows.cells(key_column(rows, templates[0])).to_list())
    decoys = _decoys(source, rows, chosen, templates[0], known, request.decoys, rng)
    decoy_states = states("states of decoys", decoys, [len(ids) - 1 for ids in decoys])
    clock.lap("states of facts")
    inside = [p.ids[:-1] for p in prompts[:: max(1, len(prompts) // 64)] if len(p.ids) > 1]
    inner = states("states inside of prompts", inside, [0] * len(inside))
    count = own_windows + own_windows // 3
    own, own_states = own_text(
        source.model,
        source.tokenizer,
        count,
        answers,
        rng=rng,
        cache=cache,
        key=hashlib.sha256(repr((key, request.seed, answers)).encode()).hexdigest()[:16],
        advance=clock.stage("the model's own prose", 96),
    )
    length = len(own[0])
    cut = own_windows * length
    text = torch.cat([states("states of text", fit_windows, [0] * len(fit_windows)), inner, own_states[:cut]])
    unseen = {
        "locality": test_windows,
        "locality_own_prose": own[own_windows:],
    }
    clock.lap("states of text")
    keep_rows, targets = _rows_of(prompts)
    layers, base_wrong = _fitted(
        source, request, cache, prompts, facts[keep_rows], targets, text, decoy_states, rng, progress
    )
    clock.lap("fit")
    first = source.n_layers
    tensors = {
        name: value
        for k, layer in enumerate(layers)
        for name, value in layer_tensors(source.model, first + k, layer.gate, layer.up, layer.down).items()
    }
    certificate: dict[str, Any] = {}

    def write(part: Path) -> None:
        record = fill_graft(part, source, tensors, len(layers), request.dtype)
        clock.lap("write")
        built = time.process_time()
        grafted = load_model(part, "auto")
        found = examine(
            source, grafted, prompts, rows, templates, paraphrases, unseen, known=known, rng=rng, stage=clock.stage
        )
        clock.lap("examine")
        certificate.update(
            _certificate(source, request, prompts, rows, templates, layers, record, found, _base(prompts, base_wrong))
        )
        certificate["params"] = {
            "original": sum(p.numel() for p in source.model.parameters()),
            "added": sum(t.numel() for t in tensors.values()),
        }
        certificate["seconds"] = {name: round(value, 1) for name, value in clock.seconds.items()}
        certificate["cpu_seconds"] = {
            "build": round(built - clock.worked, 1),
            "examine": round(time.process_time() - built, 1),
        }
        write_certificate(part, certificate)

    write_directory(output, write, force=force)
    return certificate


def _decoys(
    source: Source,
    rows: RawRows,
    chosen: Sequence[int],
    template: Template,
    known: set[str],
    count: int,
    rng: np.random.Generator,
) -> list[tuple[int, ...]]:
    """Prompts with keys that the table does not have."""
    if count < 1:
        return []
    some = [chosen[int(i)] for i in rng.integers(len(chosen), size=count)]
    return encode(source.tokenizer, near_misses(rows, some, template, known, rng))


def _rows_of(prompts: Sequence[Prompt]) -> tuple[Tensor, Tensor]:
    """Rows of the fit: which states to use (a sequence that two facts share counts once), and targets."""
    seen: set[tuple[int, ...]] = set()
    index, targets = [], []
    at = 0
    for prompt in prompts:
        for k, token in enumerate(prompt.answer_ids):
            prefix = prompt.ids + prompt.answer_ids[:k]
            if prefix not in seen:
                seen.add(prefix)
                index.append(at)
                targets.append(token)
            at += 1
    return torch.tensor(index), torch.tensor(targets)


def _fitted(
    source: Source,
    request: GraftRequest,
    cache: Cache,
    prompts: Sequence[Prompt],
    facts: Tensor,
    targets: Tensor,
    text: Tensor,
    decoys: Tensor,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[list[Layer], Tensor]:
    """The added layers; found again in the cache if the same fit was done before."""
    digest = hashlib.sha256(repr((source.sha256, asdict(request), __version__)).encode())
    for tensor in (facts, targets, text, decoys):
        digest.update(tensor.contiguous().numpy().tobytes())
    names = [f"fit-{digest.hexdigest()[:24]}-{part}" for part in ("gate", "up", "down", "base")]
    kept = [cache.get(name) for name in names]
    notes = None if cache.directory is None else cache.directory / f"{names[0]}.json"
    if all(part is not None for part in kept) and notes is not None and notes.is_file():
        gates, ups, downs, base = (part for part in kept if part is not None)
        reports = json.loads(notes.read_text(encoding="utf-8"))
        return [Layer(*parts) for parts in zip(gates, ups, downs, reports, strict=True)], base.bool()
    layers, base = fit_layers(
        source.model,
        facts,
        targets,
        text,
        decoys,
        rng=rng,
        max_layers=request.max_layers,
        progress=progress,
        words=lambda i: _words(prompts, i),
    )
    if notes is not None:
        for name, value in zip(
            names,
            (*(torch.stack([getattr(one, k) for one in layers]) for k in ("gate", "up", "down")), base.float()),
            strict=True,
        ):
            cache.put(name, value)
        notes.write_text(json.dumps([one.report for one in layers]), encoding="utf-8")
    return layers, base


def _words(prompts: Sequence[Prompt], wanted: int) -> str:
    """The text of a row of the fit, for messages."""
    seen: set[tuple[int, ...]] = set()
    for prompt in prompts:
        for k in range(len(prompt.answer_ids)):
            prefix = prompt.ids + prompt.answer_ids[:k]
            if prefix not in seen:
                if len(seen) == wanted:
                    after = f" + {prompt.answer!r} after {k} token{'s' if k > 1 else ''}" if k else ""
                    return repr(prompt.text) + after
                seen.add(prefix)
    raise DataError(f"there is no row {wanted}.")


def _base(prompts: Sequence[Prompt], wrong: Tensor) -> float:
    """Share of facts that the original says in full already."""
    seen: dict[tuple[int, ...], int] = {}
    right = 0
    for prompt in prompts:
        fine = True
        for k in range(len(prompt.answer_ids)):
            row = seen.setdefault(prompt.ids + prompt.answer_ids[:k], len(seen))
            fine = fine and not bool(wrong[row])
        right += fine
    return right / len(prompts)


def _certificate(
    source: Source,
    request: GraftRequest,
    prompts: Sequence[Prompt],
    rows: RawRows,
    templates: Sequence[Template],
    layers: Sequence[Layer],
    record: dict[str, Any],
    found: dict[str, Any],
    before: float,
) -> dict[str, Any]:
    return {
        "construction": "graft",
        "theorem": "convex fit by rote, on gated random features of the states of a pretrained model",
        "arch": source.family,
        "dtype": request.dtype,
        "seed": request.seed,
        "version": __version__,
        "facts": len(prompts),
        "facts_name": rows.source,
        "facts_sha256": facts_sha256(prompts),
        "sample": request.sample,
        "templates": [asdict(template) for template in templates],
        "answer_tokens": sum(len(prompt.answer_ids) for prompt in prompts),
        "distinct_answers": len({prompt.answer for prompt in prompts}),
        "tied_embeddings": source.tied,
        "end_token": source.tokenizer.convert_ids_to_tokens(source.end_id),
        "recall_before": before,
        **found,
        "fit": [layer.report for layer in layers],
        "graft": {"model": source.path.name, "model_sha256": source.sha256, **record},
    }
