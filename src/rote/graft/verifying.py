"""A grafted directory checked again: hashes of all weights, and every fact in free generation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from rote.data.rawrows import RawRows
from rote.errors import CheckpointError, UnknownName
from rote.graft.files import read_certificate
from rote.graft.judge import recite
from rote.graft.prompts import choose_rows, facts_sha256, make_prompts, parse_templates
from rote.graft.source import FORMATS, end_token, load_model, load_tokenizer
from rote.models.checkpoint import file_sha256
from rote.solvers.record import Progress, quiet

__all__ = ["verify_graft"]


@torch.no_grad()
def verify_graft(
    directory: Path,
    rows: RawRows,
    *,
    dtype: str | None = None,
    other_facts: bool = False,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """What the model on disk says to every fact of its certificate, or of another table with the same columns.

    It runs in the format that it was grafted for, or in `dtype`.
    """
    if dtype is not None and dtype not in FORMATS:
        raise UnknownName("number format", dtype, FORMATS)
    certificate = read_certificate(directory)
    record = certificate["graft"]
    for shard in (*record["shards"], record["added"]):
        if not (directory / shard["file"]).is_file() or file_sha256(directory / shard["file"]) != shard["sha256"]:
            raise CheckpointError(
                f"{directory / shard['file']} is not what its certificate speaks of; it is missing or was changed, "
                "graft again."
            )
    tokenizer, model = load_tokenizer(directory), load_model(directory, dtype or "auto")
    end = end_token(tokenizer, model, directory)
    templates = parse_templates(
        [one["prompt"] for one in certificate["templates"]],
        [one["answer"] for one in certificate["templates"]],
        rows.columns,
    )
    sample = None if other_facts else certificate["sample"]
    chosen = choose_rows(rows, sample, np.random.default_rng(certificate["seed"]))
    context = int(getattr(model.config, "max_position_embeddings", 0) or 1 << 30)
    prompts = make_prompts(rows, chosen, templates, tokenizer, end_id=end, context=context)
    if not other_facts and facts_sha256(prompts) != certificate["facts_sha256"]:
        raise CheckpointError(
            f"{rows.source} does not hold the facts that were grafted into {directory}; pass --other-facts to check "
            "them all the same."
        )
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress("verify by free generation", done, len(prompts), None)

    said = recite(model, prompts, end, advance)
    failures = [
        {
            "place": rows.place(prompt.row),
            "prompt": prompt.text,
            "answer": prompt.answer,
            "said": str(tokenizer.decode(list(ids), skip_special_tokens=False)),
        }
        for ids, prompt in zip(said, prompts, strict=True)
        if ids != prompt.answer_ids
    ]
    return {
        "recall": 1.0 - len(failures) / len(prompts),
        "n_facts": len(prompts),
        "n_failed": len(failures),
        "dtype": dtype or certificate["dtype"],
        "failures": failures[:10],
    }
