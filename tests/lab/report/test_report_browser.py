"""The page in a real browser, at the width of a desk and of a phone, in light and in dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from results_twin import HOSTILE, folder, journal

from browser import DESKTOP, PHONE, Page, open_page
from rote.lab.report import report


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("results")
    folder(place / "out")
    journal(place / "built.db")
    return report([place / "out", place / "built.db"], place / "report.html").path.as_uri()


def _settled(opened: Page, count: int = 1) -> Any:
    """The page with so many of its figures drawn: they are when they come near the screen."""
    page = opened.page
    page.wait_for_selector("html[data-ready=live]")
    for index in range(count):
        plot = page.locator(".plot").nth(index)
        plot.scroll_into_view_if_needed()
        plot.locator(".main-svg").first.wait_for(state="visible")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_figure_is_visible_and_nothing_goes_wrong(
    browser: Any, address: str, size: tuple[int, int], scheme: str
) -> None:
    with open_page(browser, address, size=size, scheme=scheme) as opened:
        page = _settled(opened, 7)
        assert page.locator(".plot").count() == 7
        for index in range(7):
            plot = page.locator(".plot").nth(index)
            box = plot.bounding_box()
            assert box["width"] >= 250 and box["height"] >= 250
            assert box["x"] >= 0 and box["x"] + box["width"] <= size[0]
            assert plot.locator(".trace").count() >= 4
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert opened.overflow() == []
        assert page.evaluate("window.harmed") is None
        assert opened.faults == []
        titles = page.eval_on_selector_all("[data-title]", "all => all.map((one) => one.dataset.title.toLowerCase())")
        assert not any("cloud" in title or "plotly" in title for title in titles)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_lines_stand_out(browser: Any, address: str, scheme: str) -> None:
    """Contrast as WCAG counts it: 4.5 for texts, 3 for lines and dots."""
    with open_page(browser, address, scheme=scheme) as opened:
        values = opened.page.evaluate(
            """() => Object.fromEntries(["paper","card","ink","muted","link","yes","yes-soft","no","no-soft","open",
              "open-soft","lower","upper","reference",...[1,2,3,4,5,6,7,8].map((i) => `series-${i}`)].map((name) =>
              [name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()]))"""
        )
    assert (_light(values["paper"]) > 0.5) == (scheme == "light")
    for ground in ("paper", "card"):
        for name in ("ink", "muted", "link"):
            assert _contrast(values[name], values[ground]) >= 4.5, (name, ground)
        for name in ("lower", "upper", "reference", *(f"series-{i}" for i in range(1, 9))):
            assert _contrast(values[name], values[ground]) >= 3, (name, ground)
    for name in ("yes", "no", "open"):
        assert _contrast(values[name], values[f"{name}-soft"]) >= 4.5, name


def _light(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_light(one), _light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_keyboard_is_enough(browser: Any, address: str) -> None:
    with open_page(browser, address) as opened:
        page = _settled(opened)
        page.evaluate("scrollTo(0, 0)")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#main"
        key = page.locator(".legend button").first
        for _ in range(60):
            page.keyboard.press("Tab")
            if key.evaluate("node => node === document.activeElement"):
                break
        shown = "document.querySelector('.plot').data[0].visible"
        assert page.evaluate(shown) is True
        page.keyboard.press("Space")
        assert page.evaluate(shown) is False
        assert key.get_attribute("aria-pressed") == "false"
        page.keyboard.press("Space")
        assert page.evaluate(shown) is True
        assert opened.faults == []


def test_a_bound_beyond_the_picture_can_be_called(browser: Any, address: str) -> None:
    with open_page(browser, address) as opened:
        page = _settled(opened)
        top = "document.querySelector('.plot').layout.yaxis.range[1]"
        before = page.evaluate(top)
        assert before < 10
        page.locator(".legend button", has_text="upper: counting").first.click()
        assert page.evaluate(top) > 1e5


def test_the_theme_can_be_chosen(browser: Any, address: str) -> None:
    with open_page(browser, address, scheme="light") as opened:
        page = _settled(opened)
        ink = "document.querySelector('.plot').layout.font.color"
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ink), page.evaluate(ground)
        page.locator("#theme").click()
        assert (page.evaluate(ink), page.evaluate(ground)) == light
        page.locator("#theme").click()
        assert page.locator("#theme").inner_text() == "Theme: dark"
        assert page.evaluate(ink) != light[0] and page.evaluate(ground) != light[1]
        page.locator("#theme").click()
        assert (page.evaluate(ink), page.evaluate(ground)) == light
        page.emulate_media(color_scheme="dark")
        page.wait_for_timeout(300)
        assert page.evaluate(ink) != light[0] and page.evaluate(ground) != light[1]


def test_texts_of_figures_stay_texts(browser: Any, address: str) -> None:
    with open_page(browser, address) as opened:
        page = _settled(opened)
        titles = page.locator(".plot .ytitle").all_text_contents()
        assert "accuracy <b>" in titles
        names = page.evaluate("[...document.querySelectorAll('.legend button span')].map((one) => one.textContent)")
        assert HOSTILE in names


def test_files_can_be_saved(browser: Any, address: str, tmp_path: Path) -> None:
    with open_page(browser, address) as opened:
        page = _settled(opened)
        for ending, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
            with page.expect_download() as saved:
                page.locator(f"a[download$='.{ending}']").first.click()
            saved.value.save_as(tmp_path / f"figure.{ending}")
            assert (tmp_path / f"figure.{ending}").read_bytes().startswith(start)
        assert opened.faults == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_without_a_script_the_drawn_figures_are_there(browser: Any, address: str, size: tuple[int, int]) -> None:
    with open_page(browser, address, size=size, script=False) as opened:
        pictures = opened.page.locator("img.static")
        assert pictures.count() == 4
        for index in range(4):
            box = pictures.nth(index).bounding_box()
            assert box["width"] > 250 and box["x"] + box["width"] <= size[0]
        assert opened.page.locator(".panels").first.is_hidden()
