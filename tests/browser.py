"""A real browser for the tests: Debian's Chromium, headless, driven by playwright.

    from browser import Page, open_page

`browser` is a fixture of the session (registered in conftest.py). `open_page` loads a file or an address at a given
size and theme and collects what goes wrong in it; requests to the network are refused and count as faults.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

__all__ = ["DESKTOP", "PHONE", "Page", "browser", "chromium", "open_page"]

DESKTOP = (1280, 900)
PHONE = (375, 740)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str:
    """The browser's program, or a failure that says how to get it."""
    named = os.environ.get("ROTE_CHROMIUM")
    found = named or next((path for path in map(shutil.which, _NAMES) if path), None)
    if found is None or not os.access(found, os.X_OK):
        pytest.fail(
            "these tests need Chromium, and none was found on the PATH: install it with `apt-get install chromium`, or "
            "name its program in the variable ROTE_CHROMIUM.",
            pytrace=False,
        )
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One headless Chromium for all tests of a process."""
    from playwright.sync_api import sync_playwright

    program = chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@dataclass
class Page:
    """A page that was opened, with every fault it showed: console errors, exceptions, requests to the network."""

    page: Any
    faults: list[str] = field(default_factory=list)

    def overflow(self) -> list[str]:
        """Elements that reach beyond the right edge without a scrolling box around them; none on a good page."""
        found: list[str] = self.page.evaluate(_OVERFLOW)
        return found


_OVERFLOW = """() => {
  const width = document.documentElement.clientWidth;
  const held = (node) => {
    for (let up = node.parentElement; up; up = up.parentElement) {
      if (/auto|scroll|hidden/.test(getComputedStyle(up).overflowX)) return true;
      if (up.classList.contains("skip")) return true;
    }
    return false;
  };
  const found = [...document.querySelectorAll("body *")]
    .filter((node) => node.getBoundingClientRect().right > width + 1 && node.getClientRects().length && !held(node))
    .map((node) => `${node.tagName}.${node.className?.baseVal ?? node.className}`);
  const whole = document.documentElement.scrollWidth;
  if (whole > width) found.push(`page ${whole} > ${width}`);
  return found;
}"""


@contextlib.contextmanager
def open_page(
    browser: Any, address: str, *, size: tuple[int, int] = DESKTOP, scheme: str = "light", script: bool = True
) -> Iterator[Page]:
    """Open an address in a context of its own. Phones have a finger instead of a mouse."""
    phone = size[0] < 600
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,
        is_mobile=phone,
        has_touch=phone,
        java_script_enabled=script,
        accept_downloads=True,
    )
    try:
        opened = Page(context.new_page())
        page = opened.page

        def note(said: Any) -> None:
            if said.type in ("error", "warning"):
                opened.faults.append(said.text)

        page.on("console", note)
        page.on("pageerror", lambda error: opened.faults.append(str(error)))
        own = address.split("/", 3)[2] if address.startswith("http") else ""

        def request(asked: Any) -> None:
            if asked.url.startswith(("http", "ws")) and (not own or f"//{own}/" not in asked.url):
                opened.faults.append(f"a request to the network: {asked.url}")

        page.on("request", request)
        page.goto(address, wait_until="load")
        yield opened
    finally:
        context.close()
