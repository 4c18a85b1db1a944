"""The examination of a grafted model: recall, locality, side-by-side prompts, paraphrases and near misses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rote.data.rawrows import RawRows
from rote.graft.judge import STANDARD, continuations, locality, recite, shorten, speak
from rote.graft.prompts import Prompt, Template, encode, fields_of, fill
from rote.graft.source import Source

__all__ = ["examine", "key_column", "near_misses", "reworded"]

Stage = Callable[[str, int], Callable[[int], None]]
_SAMPLE = 200
_SHOWN = 20


def examine(
    source: Source,
    grafted: Any,
    prompts: Sequence[Prompt],
    rows: RawRows,
    templates: Sequence[Template],
    paraphrases: Sequence[Template],
    unseen: Mapping[str, Sequence[tuple[int, ...]]],
    *,
    known: set[str],
    rng: np.random.Generator,
    stage: Stage,
) -> dict[str, Any]:
    """Everything that the certificate says about the grafted model."""
    end = source.end_id
    said = recite(grafted, prompts, end, stage("verify by free generation", len(prompts)))
    wrong = [i for i, ids in enumerate(said) if ids != prompts[i].answer_ids]
    decode = source.tokenizer.decode
    found: dict[str, Any] = {
        "recall": 1.0 - len(wrong) / len(prompts),
        "recalled": len(prompts) - len(wrong),
        "failed": [
            {
                "place": rows.place(prompts[i].row),
                "prompt": prompts[i].text,
                "answer": prompts[i].answer,
                "said": decode(list(said[i]), skip_special_tokens=False),
            }
            for i in wrong[:_SHOWN]
        ],
        "stock_generate": _stock_generate(grafted, prompts, said, end),
    }
    n_added = int(grafted.config.num_hidden_layers) - source.n_layers
    for name, windows in unseen.items():
        advance = stage("unseen text", len(windows))
        found[name] = locality(source.model, grafted, windows, n_added, advance).to_dict()
    stage("other prompts", 1)
    before, after = (continuations(m, source.tokenizer, STANDARD, end) for m in (source.model, grafted))
    found["prompts"] = [
        {"prompt": text, "before": a, "after": b, "same": a == b}
        for text, a, b in zip(STANDARD, before, after, strict=True)
    ]
    found["paraphrases"] = [
        _ask_again(source, grafted, prompts, rows, template, rng)
        for template in [*reworded(templates[0]), *paraphrases]
    ]
    found["near_misses"] = _unknown(source, grafted, prompts, rows, templates[0], known, rng)
    return found


@torch.no_grad()
def _stock_generate(model: Any, prompts: Sequence[Prompt], said: Sequence[tuple[int, ...]], end: int) -> dict[str, int]:
    """A few prompts through the library's own generate(), whose answers must be the same as ours."""
    few = range(0, len(prompts), max(1, len(prompts) // 8))
    same = 0
    for i in few:
        ids = torch.tensor([prompts[i].ids])
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=len(prompts[i].answer_ids),
            do_sample=False,
            repetition_penalty=1.0,
            eos_token_id=end,
            pad_token_id=end,
        )
        same += tuple(out[0, ids.shape[1] :].tolist()) == said[i]
    return {"asked": len(few), "same": same}


def reworded(template: Template) -> list[Template]:
    """Two prompts that mean the same as the template and were not grafted."""
    lower = template.prompt[:1].lower() + template.prompt[1:]
    return [
        Template(f"As everybody knows, {lower}", template.answer),
        Template(f"Question and answer.\n{template.prompt}", template.answer),
    ]


def _few(prompts: Sequence[Prompt], rng: np.random.Generator) -> list[Prompt]:
    own = [prompt for prompt in prompts if prompt.template == 0]
    return [own[i] for i in sorted(rng.choice(len(own), min(_SAMPLE, len(own)), replace=False))]


def _ask_again(
    source: Source,
    grafted: Any,
    prompts: Sequence[Prompt],
    rows: RawRows,
    template: Template,
    rng: np.random.Generator,
) -> dict[str, Any]:
    few = _few(prompts, rng)
    ids = encode(source.tokenizer, [fill(template.prompt, rows, prompt.row) for prompt in few])
    said, _ = speak(
        grafted, ids, [len(prompt.answer_ids) for prompt in few], going=lambda one: one[-1] != source.end_id
    )
    right = sum(shorten(one, source.end_id) == prompt.answer_ids for one, prompt in zip(said, few, strict=True))
    return {"template": template.prompt, "asked": len(few), "recalled": right}


def key_column(rows: RawRows, template: Template) -> str:
    """The column of a template's prompt that tells rows apart best."""
    return max(fields_of(template.prompt), key=lambda column: rows.cells(column).n_unique())


def near_misses(
    rows: RawRows, chosen: Sequence[int], template: Template, known: set[str], rng: np.random.Generator
) -> list[str]:
    """Prompts with a key that is not among the known: one character is changed to what another key has there.

    The new keys are added to the known ones.
    """
    name = key_column(rows, template)
    cells = rows.cells(name)
    keys = [cells[i] for i in chosen]
    made: list[str] = []
    for i, key in zip(chosen, keys, strict=True):
        for _ in range(20):
            other = keys[int(rng.integers(len(keys)))]
            at = int(rng.integers(min(len(key), len(other))))
            new = key[:at] + other[at] + key[at + 1 :]
            if new not in known:
                known.add(new)
                made.append(fill(template.prompt, rows, i, {name: new}))
                break
    return made


def _unknown(
    source: Source,
    grafted: Any,
    prompts: Sequence[Prompt],
    rows: RawRows,
    template: Template,
    known: set[str],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """How often a key that was never stored gets a stored answer, whole and ended, and how surely."""
    texts = near_misses(rows, [prompt.row for prompt in _few(prompts, rng)], template, known, rng)
    answers = {prompt.answer_ids for prompt in prompts}
    # Only beginnings of stored answers are followed further.
    begun = {answer[:k] for answer in answers for k in range(len(answer))}
    ids = encode(source.tokenizer, texts)
    said, sure = speak(
        grafted, ids, [max(map(len, answers))] * len(texts), going=lambda one: one in begun and one[-1] != source.end_id
    )
    stored = [shorten(one, source.end_id) in answers for one in said]
    confident = [yes and p > 0.5 for yes, p in zip(stored, sure, strict=True)]
    return {
        "asked": len(texts),
        "stored_answer": sum(stored),
        "confident": sum(confident),
        "example": texts[0] if texts else None,
    }
