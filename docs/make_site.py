"""Build the documentation site: strictly, so that a broken link or a page that nothing leads to is an error.

    python docs/make_site.py            into build/site/html; open index.html there, from disk
    python docs/make_site.py PLACE      into PLACE/html

The pages are those of docs/, with links to files outside of it turned into pages or plain names; the notebooks of
examples/ as they were stored; every command's --help; and the public names of `rote` from their docstrings. The
navigation is docs/index.md, section by section. mkdocs-material and mkdocstrings make the site: both are well kept,
read Markdown as it is, and search without a server.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import rote
from rote.cli.main import _GRAFT_VERBS, VERBS

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
OUTSIDE = {
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
    "../benchmarks/README.md": "benchmarks.md",
    "../examples/": "tutorials/",
}
"""Where files outside of docs/ are on the site; all other links to such are plain text there."""
BROUGHT = {
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "benchmarks.md": "benchmarks/README.md",
}
GUIDES = {
    "locate": "operate.md",
    "edit": "operate.md",
    "compare": "operate.md",
    "ungraft": "graft.md",
    "results": "sweep.md",
}
"""Verbs that a page with another name tells about; `results.md` is about what was measured."""
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```+|~~~+).*?^\1`*$", re.DOTALL | re.MULTILINE)


def main(arguments: list[str]) -> int:
    place = Path(arguments[0] if arguments else ROOT / "build" / "site").resolve()
    pages = place / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    write_pages(pages)
    settings = (DOCS / "site" / "mkdocs.yml").read_text(encoding="utf-8").replace("SOURCE", str(ROOT / "src"))
    (place / "mkdocs.yml").write_text(f"{settings}\nnav: {json.dumps(navigation())}\n", encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(place / "mkdocs.yml")]
    surroundings = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, check=False, env=surroundings, stderr=subprocess.PIPE, text=True)
    if done.returncode == 0:
        print(f"{place / 'html' / 'index.html'}: {len(list(pages.rglob('*.md')))} pages")
    else:
        # Quiet mode would not count warnings; so what is no fault is left out here.
        print("\n".join(line for line in done.stderr.splitlines() if "INFO" not in line), file=sys.stderr)
    return done.returncode


def write_pages(pages: Path) -> None:
    """Every page of the site as Markdown, with pictures and data beside it."""
    for path in sorted(DOCS.glob("*.md")):
        (pages / path.name).write_text(inside(path.read_text(encoding="utf-8")), encoding="utf-8")
    for name in ("images", "results", "audits", "examples"):
        shutil.copytree(DOCS / name, pages / name, ignore=shutil.ignore_patterns("*.py", "__pycache__", "*.md"))
    for name, source in BROUGHT.items():
        home = Path(source).parent
        (pages / name).write_text(inside((ROOT / source).read_text(encoding="utf-8"), home), encoding="utf-8")
    (pages / "assets").mkdir()
    for name in ("iframe-worker.js", "site.css"):
        shutil.copyfile(DOCS / "site" / name, pages / "assets" / name)
    (pages / "tutorials").mkdir()
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        (pages / "tutorials" / f"{path.stem}.md").write_text(notebook(path), encoding="utf-8")
    for name, text in (commands() | reference()).items():
        (pages / name).write_text(text, encoding="utf-8")


def inside(text: str, home: Path = Path("docs")) -> str:
    """A page with links that stay on the site; `home` is the folder of its file."""

    def link(found: re.Match[str]) -> str:
        words, target = found[1], found[2]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        path, _, anchor = target.partition("#")
        seen = os.path.relpath(ROOT / home / path, DOCS)
        for before, after in OUTSIDE.items():
            if seen.startswith(before):
                moved = after + seen.removeprefix(before).replace(".ipynb", ".md")
                return f"[{words}]({moved}{'#' + anchor if anchor else ''})"
        if seen.startswith(("../", "examples/")) or seen.endswith(".py") or not (DOCS / seen).is_file():
            return words
        return f"[{words}]({seen}{'#' + anchor if anchor else ''})"

    parts, last = [], 0
    text = re.sub(r"^```(\w+) \w+$", r"```\1", text, flags=re.MULTILINE)  # `console slow` has no meaning there
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(link, text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*parts, _LINK.sub(link, text[last:])])


def navigation() -> list[Any]:
    """docs/index.md as a tree: lines that end in a colon are sections, items with a link first are pages."""
    sections: list[Any] = [{"rote": "index.md"}]
    pages: list[Any] = []
    for line in inside((DOCS / "index.md").read_text(encoding="utf-8")).splitlines():
        if re.fullmatch(r"[A-Z][^:]*:", line):
            pages = []
            sections.append({line.rstrip(":").partition(",")[0].removeprefix("The ").capitalize(): pages})
        elif found := re.match(r"- \[([^\]]+)\]\(([^)#]+\.md)\)", line):
            pages.append({found[1].removeprefix("../"): found[2]})
    sections[-1][next(iter(sections[-1]))] += [{"changelog": "changelog.md"}, {"benchmarks": "benchmarks.md"}]
    verbs = [{"all": "commands.md"}, *({verb: f"command_{verb}.md"} for verb in VERBS)]
    return [*sections, {"Commands": verbs}, {"Reference": [{name[4:-3]: name} for name in reference()]}]


def notebook(path: Path) -> str:
    """A notebook as a page: its cells, and what they showed when it was stored."""
    record = json.loads(path.read_text(encoding="utf-8"))
    parts = []
    for cell in record["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(_down(inside(source, Path("examples"))))
        elif source.strip():
            parts.append(f"```python\n{source}\n```")
            parts += [_shown(output) for output in cell["outputs"]]
    return "\n\n".join(part for part in parts if part) + "\n"


def _down(text: str) -> str:
    """Links of a page that lies one folder further down."""
    return _LINK.sub(
        lambda found: found[0] if re.match(r"[a-z]+:|#", found[2]) else f"[{found[1]}](../{found[2]})", text
    )


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    for kind in ("image/svg+xml", "text/html"):
        if kind in data:
            body = re.sub(r"\n\s*\n", "\n", "".join(data[kind]).strip())
            return f'<div class="notebook-output">\n{body}\n</div>'
    if "image/png" in data:
        picture = base64.b64encode(base64.b64decode("".join(data["image/png"]))).decode()
        return f'<div class="notebook-output"><img alt="figure" src="data:image/png;base64,{picture}"></div>'
    text = "".join(output.get("text", data.get("text/plain", ""))).rstrip()
    return f"```text\n{text}\n```" if text else ""


def commands() -> dict[str, str]:
    """A page for every verb with its options, as --help says, and one that lists them."""
    asked = [*VERBS, *(f"graft {one}" for one in _GRAFT_VERBS)]
    helps = dict(zip(asked, _helps(asked), strict=True))
    guides = {verb: GUIDES.get(verb, f"{verb}.md") for verb in VERBS}
    lines = ["# Commands", "", "| command | what it does | guide |", "|---|---|---|"]
    pages = {}
    for verb, (_, about) in VERBS.items():
        guide = f"[{guides[verb][:-3]}]({guides[verb]})"
        lines.append(f"| [rote {verb}](command_{verb}.md) | {about} | {guide} |")
        shown = [text for name, text in helps.items() if name.split()[0] == verb]
        blocks = "\n".join(f"```text\n{text}\n```\n" for text in shown)
        pages[f"command_{verb}.md"] = (
            f"# rote {verb}\n\nIts options, as `rote {verb} --help` prints them. Examples: {guide}.\n\n{blocks}"
        )
    return {"commands.md": "\n".join([*lines, ""]), **pages}


def _helps(verbs: Iterable[str]) -> list[str]:
    """The help of every verb, by one process for all of them."""
    each = "[(run([*verb.split(), '--help']), print('\\f')) for verb in sys.argv[1:]]"
    code = f"import sys; from rote.cli.main import run; {each}"
    settings = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code, *verbs], capture_output=True, text=True, check=True, env=settings
    )
    pages = done.stdout.split("\f\n")[:-1]
    return ["\n".join(line.rstrip() for line in page.strip("\n").split("\n")) for page in pages]


def reference() -> dict[str, str]:
    """Pages of the public names: verbs, tables and constructions' options, and everything else."""
    homes = rote._HOME
    verbs = sorted(name for name in homes if name[0].islower())
    options = sorted(name for name in homes if homes[name].startswith("rote.constructions."))
    tables = sorted(name for name in homes if name.endswith("Table"))
    rest = sorted(set(homes) - {*verbs, *options, *tables})
    groups = {
        "verbs": ("Verbs from Python", verbs),
        "tables": ("Tables", tables),
        "options": ("Options of constructions", options),
        "records": ("Records and contracts", rest),
    }
    return {
        f"api_{name}.md": f"# {title}\n\n" + "\n\n".join(dict.fromkeys(f"::: {_origin(one)}" for one in names)) + "\n"
        for name, (title, names) in groups.items()
    }


def _origin(name: str) -> str:
    """Where a public name is defined, which may be deeper than where it is imported from."""
    thing = getattr(rote, name)
    return f"{thing.__module__}.{thing.__qualname__}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
