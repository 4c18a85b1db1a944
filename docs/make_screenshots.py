"""Take the pictures of the explorer's pages for docs/ui.md, in a real browser.

    python docs/make_screenshots.py [PAGE ...]

It builds two models and a graft on a tiny model of random weights, lets the sweep of docs/examples/built.toml run
(constructions, no training), starts `rote ui`, and drives Chromium. Chromium is found on the PATH (Debian: apt-get
install chromium), or named by ROTE_CHROMIUM.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from rote.cli.main import run

DOCS = Path(__file__).resolve().parent
IMAGES = DOCS / "images"


def browser_program() -> str:
    found = os.environ.get("ROTE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise SystemExit("Chromium is needed: apt-get install chromium, or name its program in ROTE_CHROMIUM.")
    return found


def prepare(folder: Path) -> None:
    """A folder with results to look at."""
    for name in ("built.toml",):
        shutil.copy(DOCS / "examples" / name, folder / name)
    graft(folder / "codes-in-a-tiny-model")
    assert run(["sweep", str(folder / "built.toml"), "--db", str(folder / "built.db"), "--json"]) in (0, 1)


def graft(output: Path) -> None:
    """A graft, on a model that is made on the spot: what it says by itself means nothing."""
    sys.path.insert(0, str(DOCS.parent))
    import rote
    from attacks import tiny_models

    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        model = tiny_models.write_tiny(place / "tiny-llama", "llama", tied=True)
        facts = tiny_models.write_table(place / "facts.csv", 40)
        options = rote.Graft(
            keep=tiny_models.write_text(place / "keep.txt", 9000),
            held_out_template=("As everybody knows, the Code {code} is in",),
            bar=0.0,
        )
        wordings = ["The code {code} is in", "Code {code} was in", "the place of Code {code} is in"]
        rote.graft(model, facts, template=wordings, answer=" {city}", options=options, output=output)


def ask(address: str, path: str, record: object = None) -> Any:
    body = None if record is None else json.dumps(record).encode()
    with urllib.request.urlopen(urllib.request.Request(address + path, body), timeout=60) as answer:
        return json.load(answer)


def built(address: str, record: dict[str, Any]) -> str:
    """The id of a build that is done."""
    id_ = str(ask(address, "api/builds", record)["id"])
    while (state := ask(address, f"api/builds/{id_}")["state"]) in ("queued", "running"):
        time.sleep(0.1)
    assert state == "done", state
    return id_


def shoot(address: str) -> None:
    heads = built(address, {"shipped": "elements", "with": "dana2025_cor1"})
    exact = built(address, {"shipped": "elements", "with": "kajitsuka2025_next_token"})
    pages = {
        "capacity": (
            "capacity?heads=16&d_model=64&context=8&vocab=2000",
            "#chart .trace, #plans .plans",
            "light",
            (1760, 990),
        ),
        "build": (f"build?job={heads}", "#result .sheet, #checks .conditions", "light", (1440, 1000)),
        "ask": (f"ask?model={heads}&q=Fe%09name", "#heads-0 .hm", "light", (1440, 900)),
        "digits": (f"ask?model={exact}&q=Fe%09name", "#digits-0 .trace", "dark", (1440, 900)),
        "grafts": ("grafts?q=The+code+AU+is+in", "#certificate .sheet, #verdict .tag", "light", (1440, 1000)),
        "runs": ("runs", "#fit-0 .trace", "light", (1440, 1150)),
        "theorems": ("theorems?theorem=mahdavi2024_thm1", "details.theorem[open]", "dark", (1100, 850)),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_program(), args=["--no-sandbox"])
        for name, (path, ready, scheme, (width, height)) in pages.items():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            size = {"width": width, "height": height}
            page = browser.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(address + path)
            for part in ready.split(", "):
                page.wait_for_selector(part, state="attached", timeout=180_000)
            page.wait_for_timeout(800)
            page.screenshot(path=IMAGES / f"ui_{name}.png")
            page.close()
        browser.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder)
        server = subprocess.Popen(
            [sys.executable, "-m", "rote", "ui", "--port", "0", "--no-browser", "--json", "--dir", str(folder)],
            stdout=subprocess.PIPE,
        )
        try:
            assert server.stdout is not None
            shoot(json.loads(server.stdout.readline())["address"])
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
