"""Take the picture of a report for docs/report.md: run a small sweep, write its page, and open it in Chromium.

python docs/make_page_picture.py
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from rote.lab.report import report
from rote.measurement import Journal, read_sweep, run_sweep
from rote.measurement.executors import Local

DOCS = Path(__file__).resolve().parent
SIZE = (1100, 1180)


def page(folder: Path) -> Path:
    """The page of the sweep in examples/built.toml."""
    with Journal(folder / "built.db") as journal:
        run_sweep(read_sweep(DOCS / "examples" / "built.toml"), journal, Local())
    return report([folder / "built.db"], folder / "report.html").path


def picture(source: Path, target: Path) -> None:
    """What the top of the page looks like."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("ROTE_CHROMIUM") or shutil.which("chromium")
    if program is None:
        sys.exit("Chromium is needed: apt-get install chromium, or name its program in ROTE_CHROMIUM.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        opened.goto(source.as_uri())
        opened.locator(".plot .main-svg").first.wait_for()
        opened.screenshot(path=target)
        browser.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        picture(page(Path(folder)), DOCS / "images" / "report.png")


if __name__ == "__main__":
    main()
