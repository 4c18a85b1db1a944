"""Write docs/results.md, and its figures, from a folder that `rote reproduce all` wrote; nothing is typed by hand.

    rote reproduce all --quick -o reproduced
    rote reproduce all --full -o reproduced
    python docs/make_results.py reproduced

An entry stands here as it was written last, by its full grid where that was run. `--no-run` writes entries whose grid
is not complete; the page names what they lack. Every verdict, sentence, answer and number is the one in the entry's
entry.json, which comes from the rows beside it.
The rows and the data of the figures are kept in docs/results/, so that each number can be traced; so are single cells
(cells.csv), from which a run goes on anywhere:

    rote reproduce dana2025/exp1 --full -o reproduced --from docs/results

Entries that FOLDER does not have stay as they are in docs/results.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from rote.lab.entries.cells import find_cells, read_cells
from rote.lab.entries.entry import find_entries
from rote.lab.entries.writing import books_of

DOCS = Path(__file__).resolve().parent
PAPERS = {
    "questions": "The open questions",
    "dana2025": "Dana, Pydi, Chevaleyre 2025: attention-only transformers",
    "mahdavi2024": "Mahdavi, Liao, Thrampoulidis 2024: one attention layer",
    "kajitsuka2025": "Kajitsuka, Sato 2025: few and long weights",
}
GAP = "questions/gap"
PLACES = {
    "model": "model",
    "weights": "weights",
    "layer": "layer",
    "d_model": "d",
    "d_head": "d_h",
    "n_heads": "H",
    "d_mlp": "MLP width",
    "context": "n",
}
HEAD = """# Results

What came out when the figures of three papers were measured again, and the questions that they left open. This page is
written by [make_results.py](make_results.py) from the output of

```text
{command}
```

Each section has the figure, what the paper says, what the test says, and how it differs from the paper; the rows behind
it are in [results/](results), one folder an entry, and every number here is in the `entry.json` of its folder.
[reproduce](reproduce.md) says how to run one again.{note}
"""


def load(*folders: Path) -> list[dict[str, Any]]:
    """The records of all entries, each from the first folder that has it, papers in our order."""
    paths: dict[str, Path] = {}
    for folder in folders:
        for path in folder.glob("*/*/entry.json"):
            paths.setdefault(path.parent.relative_to(folder).as_posix(), path)
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths.values()]
    order = list(PAPERS)

    def place(record: dict[str, Any]) -> tuple[int, str]:
        paper = record["entry"].split("/")[0]
        return (order.index(paper) if paper in order else len(order), record["entry"])

    return sorted(found, key=place)


def anchor(heading: str) -> str:
    kept = "".join(letter for letter in heading.lower() if letter.isalnum() or letter in "-_ ")
    return kept.replace(" ", "-")


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def section(record: dict[str, Any]) -> str:
    """One entry."""
    key = record["entry"]
    lines = [f"### {record['title']}", "", f"*{record['question']}* {record['source']}.", ""]
    for figure in record["figures"]:
        alt = figure["alt"].replace("[", "(").replace("]", ")").replace("\n", " ")
        lines += [f"![{alt}](results/{key}/{figure['name']}.png)", ""]
        if figure["caption"]:
            lines += [f"*{figure['caption']}*", ""]
    lines += [f"Claim: {record['claim']}", "", f"**{record['verdict'].capitalize()}.** {record['sentence']}", ""]
    if record["answer"]:
        lines += [record["answer"], ""]
    if record["deviations"]:
        lines += ["What differs:", "", *(f"- {one}" for one in record["deviations"]), ""]
    lines += points(record)
    missing = record.get("missing", [])
    if missing:
        lines += ["Not yet run, and so not in these rows:", "", *(f"- {one}" for one in missing), ""]
    lines += begun(record)
    done, failed = record["cells"]["done"], record["cells"]["failed"]
    lost = f", {failed} without a result" if failed else ""
    files = ("rows.csv", "cells.csv", "cells.csv.gz", "entry.json")
    there = [name for name in files if (DOCS / "results" / key / name).is_file()]
    rows = ", ".join(f"[{name}](results/{key}/{name})" for name in there)
    lines += [f"`{record['command']}`: {done} cells{lost}, {record['seconds']:.0f} s of one core; {rows}.", ""]
    return "\n".join(lines)


def begun(record: dict[str, Any]) -> list[str]:
    """What is kept of the full grid of an entry that shows the quick one, and what is missing."""
    kept = find_cells(DOCS / "results" / record["entry"])
    if record["mode"] == "full" or kept is None:
        return []
    whole = find_entries([record["entry"]])[0].cells(quick=False)
    known = {cell.hash: str(result["status"]) for cell, result in read_cells(kept)}
    books = books_of(whole, known, 0.0)
    if not books["cells"]["done"]:
        return []
    done = f"{books['cells']['done']} of {len(whole)} cells"
    return [
        f"Of the full grid {done} are in {kept.name}, too few to judge by. Missing:",
        "",
        *(f"- {one}" for one in books["missing"]),
        "",
    ]


def grid(record: dict[str, Any]) -> str:
    """Which grid an entry rests on, and how much of it."""
    done, missing = record["cells"]["done"], record["cells"].get("missing", 0)
    return f"{record['mode']}, {done} of {done + missing} cells" if missing else f"{record['mode']}, {done} cells"


def points(record: dict[str, Any]) -> list[str]:
    """Every published point beside ours: mean, 95 % interval over seeds, difference."""
    value = record["config"].get("value", "published_metric")
    rows = [row for row in record.get("published", []) if value in row]
    if not rows:
        return []
    # One digit more where all values are small.
    digits = 4 if max(abs(row[value]) for row in rows) < 0.1 else 3
    shown = [name for name in PLACES if len({row.get(name) for row in rows}) > 1]
    named = [PLACES[name] for name in shown]
    lines = [
        f"| {' | '.join([*named, 'published', 'ours', '95 % interval', 'seeds', 'difference'])} |",
        f"|{'---|' * (len(named) + 5)}",
    ]
    for row in rows:
        places = [str(row.get(name, "")) for name in shown]
        if "ours" not in row:
            ours = ["not measured", "", "", ""]
        else:
            spans = "ours_low" in row and "ours_high" in row
            span = f"{row['ours_low']:.{digits}f} to {row['ours_high']:.{digits}f}" if spans else "one seed"
            ours = [f"{row['ours']:.{digits}f}", span, str(row["ours_seeds"]), f"{row['difference']:+.{digits}f}"]
        lines.append(f"| {' | '.join([*places, f'{row[value]:.4f}', *ours])} |")
    measured = [row["difference"] for row in rows if "difference" in row]
    told = f"{len(measured)} of {len(rows)} published points were measured"
    if measured:
        inside = sum(row.get("ours_low", 9) <= row[value] <= row.get("ours_high", -9) for row in rows if "ours" in row)
        told += f"; the mean difference is {sum(measured) / len(measured):+.4f}, and {inside} lie inside our intervals"
    return ["Published points beside ours:", "", *lines, "", f"{told}.", ""]


def page(records: list[dict[str, Any]]) -> str:
    modes = sorted({record["mode"] for record in records})
    command = "\n".join(f"$ rote reproduce all --{mode} -o reproduced" for mode in modes)
    note = ""
    if "quick" in modes:
        note = (
            " Verdicts about papers come from the full grids, which have their recipes; entries of which only the "
            "quick grid was run, with fewer steps or smaller shapes, show a figure and are not judged. Rows whose "
            "single cells are in no cells.csv were measured by earlier versions of rote; their means and intervals "
            "were kept, and judged anew (`--no-run --from docs/results`)."
        )
    parts = [HEAD.format(command=command, note=note)]
    parts.append("| entry | claim | verdict | grid |\n|---|---|---|---|")
    parts[-1] += "".join(
        f"\n| [{record['entry']}](#{anchor(record['title'])}) | {cell(record['claim'])} | {record['verdict']} "
        f"| {grid(record)} |"
        for record in records
    )
    paper = ""
    for record in records:
        own = record["entry"].split("/")[0]
        if own != paper:
            paper = own
            parts.append(f"## {PAPERS.get(paper, paper)}")
        parts.append(section(record).rstrip())
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def picture(records: list[dict[str, Any]], folder: Path) -> None:
    """The README's first picture: the gap between what is proved, built, trained and possible."""
    record = next((one for one in records if one["entry"] == GAP), None)
    if record is None or not (folder / GAP / "entry.json").is_file():
        print(f"README.md keeps its first picture: {folder} has no {GAP}.")
        return
    figure = record["figures"][0]
    for kind in ("svg", "png"):
        shutil.copyfile(folder / GAP / f"{figure['name']}.{kind}", DOCS / "images" / f"gap.{kind}")
    where = f"docs/results.md#{anchor(record['title'])}"
    alt = f"{record['title']}: facts, and bits a parameter, against parameters, for models that were built and trained"
    body = f"![{alt}](docs/images/gap.svg)\n\n*{record['sentence']} [More]({where}), with every number.*"
    page = DOCS.parent / "README.md"
    text = page.read_text(encoding="utf-8")
    made, count = re.subn(
        r"(<!-- gap:begin[^>]*-->\n).*?(<!-- gap:end -->)", lambda m: f"{m[1]}\n{body}\n\n{m[2]}", text, flags=re.DOTALL
    )
    if count != 1:
        raise SystemExit("README.md has no region 'gap'; restore its begin and end markers.")
    page.write_text(made, encoding="utf-8")


def main(args: list[str]) -> int:
    if len(args) != 1 or not Path(args[0]).is_dir():
        print(
            "usage: python docs/make_results.py FOLDER   (what `rote reproduce all -o FOLDER` wrote)", file=sys.stderr
        )
        return 2
    folder = Path(args[0])
    kept = DOCS / "results"
    fresh = load(folder)
    if not fresh:
        print(f"{folder} holds no entries; run `rote reproduce all -o {folder}`.", file=sys.stderr)
        return 2
    records = load(folder, kept)
    for record in fresh:
        place = kept / record["entry"]
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        names = ["entry.json", "rows.csv", "cells.csv", "cells.csv.gz"]
        for figure in record["figures"]:
            names += [f"{figure['name']}.png", f"{figure['name']}.json"]
        for name in names:
            if (folder / record["entry"] / name).exists():
                shutil.copyfile(folder / record["entry"] / name, place / name)
    picture(records, folder)
    (DOCS / "results.md").write_text(page(records), encoding="utf-8")
    print(f"docs/results.md: {len(records)} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
