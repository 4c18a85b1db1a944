"""The documentation site: built strictly, complete, and searched from disk in a real browser."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from browser import DESKTOP, PHONE, open_page
from rote.cli.main import VERBS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def _site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rote_docs_make_site", DOCS / "make_site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SITE = _site()


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    assert SITE.main([str(place)]) == 0
    return place / "html"


def test_every_page_is_in_the_navigation_and_every_verb_has_one(html: Path) -> None:
    index = (html / "index.html").read_text(encoding="utf-8")
    pages = {path.relative_to(html).as_posix() for path in html.rglob("*.html")} - {"404.html"}
    assert len(pages) > 40 and all(f'href="{page}"' in index for page in pages - {"index.html"})
    for verb in VERBS:
        assert f"Usage: rote {verb}" in (html / f"command_{verb}.html").read_text(encoding="utf-8")
        guide = DOCS / SITE.GUIDES.get(verb, f"{verb}.md")
        assert f"rote {verb}" in guide.read_text(encoding="utf-8"), verb


def test_the_reference_has_every_public_name(html: Path) -> None:
    import rote

    shown = "".join(path.read_text(encoding="utf-8") for path in html.glob("api_*.html"))
    for name in rote.__all__:
        if name != "__version__":
            assert f'id="{SITE._origin(name)}"' in shown, name


def test_nothing_comes_from_the_network(html: Path) -> None:
    for path in html.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for found in re.findall(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"(https?:[^\"]+)", text):
            pytest.fail(f"{path.name} loads {found}")


def test_broken_links_and_orphans_stop_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SITE.write_pages

    def broken(pages: Path) -> None:
        whole(pages)
        for path in pages.glob("*.md"):
            if path.name not in ("index.md", "card.md"):
                path.write_text("# Short\n", encoding="utf-8")
        (pages / "card.md").write_text("# Card\n\n[gone](nowhere.md)\n", encoding="utf-8")

    monkeypatch.setattr(SITE, "write_pages", broken)
    made = ["commands.md", *(f"command_{verb}.md" for verb in VERBS)]
    monkeypatch.setattr(SITE, "commands", lambda: dict.fromkeys(made, "# Short\n"))
    assert SITE.main([str(tmp_path / "site")]) != 0


def test_links_stay_on_the_site() -> None:
    said = SITE.inside("[a](../src/rote/x.py) [b](ask.md#top) [c](../examples/test_a_bound.ipynb) [d](https://e.org)")
    assert said == "a [b](ask.md#top) [c](tutorials/test_a_bound.md) [d](https://e.org)"
    assert SITE.inside("```\n[a](../src/x.py)\n```\n") == "```\n[a](../src/x.py)\n```\n"


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_it_is_searched_from_disk(browser: Any, html: Path, size: tuple[int, int]) -> None:
    with open_page(browser, (html / "export.html").as_uri(), size=size) as opened:
        page = opened.page
        if size == PHONE:
            page.locator("label.md-header__button[for=__search]").click()
        page.locator("input.md-search__input").press_sequentially("llama.cpp", delay=20)
        page.locator(".md-search-result__item").first.wait_for()
        assert "export.html" in "".join(
            link.get_attribute("href") for link in page.locator(".md-search-result__link").all()
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert not opened.faults
