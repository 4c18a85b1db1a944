"""All six pages in a real browser: sliders, uploads, builds, questions, a sweep that runs; sizes and themes.

Screenshots go to the folder named by ROTE_SCREENSHOTS, for people to look at; without it they are taken and dropped.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rote
from browser import Page, open_page
from explorer import GRID, Explorer, results_of, server_of_this_process
from rote import constructions
from rote.measurement import Journal, read_sweep

PAGES = ("capacity", "build", "ask", "grafts", "runs", "theorems")
SIZES = {390: (390, 844), 1024: (1024, 768), 1920: (1920, 1080)}
HOSTILE = (
    "who,what,value\n"
    "<script>window.hacked = 1</script>,a,<img src=x onerror='window.hacked = 2'>\n"
    '"""><svg onload=window.hacked=3>",b,javascript:window.hacked=4\n'
    "{{constructor}},c,&lt;b&gt;\n"
    "' or 1=1 --,d,../../etc/passwd\n"
)
# Where a greyed lane is, in pixels of the window.
LANE = """(() => {
  const chart = document.querySelector("#chart"), look = chart._fullLayout, box = chart.getBoundingClientRect();
  const lane = chart.data.find((t) => t.name === "silent");
  const { xaxis, yaxis2 } = look;
  return [box.left + xaxis._offset + xaxis.d2p(lane.x[4]), box.top + yaxis2._offset + yaxis2.d2p(lane.y[4])];
})()"""
RIVERS = "\n".join(
    ("river,what,where", "Danube,source,Black Forest", "Danube,mouth,Black Sea", "Rhine,source,Alps",
     "Rhine,mouth,North Sea", "")
)  # fmt: skip
DRAWN = "document.querySelector('#chart').data?.length > 0"


@pytest.fixture
def opened(browser: Any, explorer: Explorer, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of the explorer; whatever goes wrong in it fails the test."""
    with open_page(browser, f"{explorer.address}/{request.param}", size=SIZES[1024]) as page:
        yield page
        assert page.faults == []
        assert page.page.evaluate("window.hacked") is None


def chart(page: Any, box: str = "#chart") -> dict[str, Any]:
    """The lines of a chart by name."""
    lines = "document.querySelector(box).data.map(t => [t.name, [[...t.x], [...t.y]]])"
    found: str = page.evaluate(f"box => JSON.stringify(Object.fromEntries({lines}))", box)
    return dict(json.loads(found))


def drawn_line(answer: Any, theorem: str) -> list[list[float]]:
    """The places of a theorem's line in the figure that the server sends."""
    line = next(trace for trace in answer["figure"]["panels"][0]["data"] if theorem in trace["name"])
    return [line["x"], line["y"]]


def until(page: Any, expression: str, arg: object = None, timeout: float = 20_000) -> None:
    """Wait for a truth of the page. playwright's own waiting evaluates text in the page, which the policy forbids."""
    end = time.monotonic() + timeout / 1000
    while not page.evaluate(expression, arg):
        assert time.monotonic() < end, f"this did not come true: {expression}"
        page.wait_for_timeout(40)


def api(explorer: Explorer, path: str) -> Any:
    return explorer.ask(path)


@pytest.mark.parametrize("opened", ["capacity"], indirect=True)
def test_sliders_move_the_chart(opened: Page, explorer: Explorer) -> None:
    page = opened.page
    until(page, DRAWN)
    before = chart(page)
    name = next(key for key in before if key.startswith("dana2025_cor1"))
    assert before[name] == drawn_line(api(explorer, "/api/bounds?axis=heads"), "dana2025_cor1")
    slider = page.get_by_role("slider", name="d_model")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    until(page, "new URLSearchParams(location.search).get('d_model') === '66'")
    until(page, "document.querySelector('#bound-command code')?.textContent.includes('--d-model 66')")
    _, y = drawn_line(api(explorer, "/api/bounds?axis=heads&d_model=66"), "dana2025_cor1")
    until(page, f"document.querySelector('#chart').data.some(t => t.y[0] === {y[0]})")
    row = page.locator("tr[data-theorem=dana2025_cor1]")
    assert "594" in row.inner_text()
    # By pointer: as far as it goes.
    page.get_by_role("slider", name="Vocabulary").fill("1000")
    until(page, "new URLSearchParams(location.search).get('vocab') === '262144'")
    assert page.get_by_role("slider", name="Vocabulary").get_attribute("aria-valuetext") == "262,144"
    page.wait_for_timeout(300)
    print(f"slider to chart: {page.get_attribute('#chart', 'data-drawn')} ms")


@pytest.mark.parametrize("opened", ["capacity?heads=4&d_model=32&axis=context&plan=500&dtype=float16"], indirect=True)
def test_an_address_brings_the_view_back(opened: Page, explorer: Explorer) -> None:
    page = opened.page
    until(page, DRAWN)
    assert page.get_by_label("Heads, exact").input_value() == "4"
    assert page.locator("#axis").input_value() == "context"
    assert "--heads 4 --d-model 32" in page.locator("#bound-command code").inner_text()
    assert page.locator("#plan-command code").inner_text().startswith("rote plan --facts 500")
    page.locator("#axis").select_option("d_head")
    until(page, "new URLSearchParams(location.search).get('axis') === 'd_head'")
    page.reload()
    until(page, DRAWN)
    assert page.locator("#axis").input_value() == "d_head"


@pytest.mark.parametrize("opened", ["capacity"], indirect=True)
def test_failing_conditions_are_greyed_and_explained(opened: Page) -> None:
    page = opened.page
    until(page, DRAWN)
    row = page.locator("tr[data-theorem=kajitsuka2025_next_token]")
    assert "silent" in (row.get_attribute("class") or "")
    assert "deep enough" in (row.get_attribute("title") or "")
    lanes = page.evaluate("document.querySelector('#chart').data.find(t => t.name === 'silent').text.join('|')")
    assert "kajitsuka2025_next_token says nothing at heads = 8: deep enough" in lanes.replace("<br>", " ")
    page.locator("#chart").scroll_into_view_if_needed()
    page.mouse.move(*page.evaluate(LANE))
    page.wait_for_selector("#chart .hovertext")
    assert "says nothing at heads" in (page.locator("#chart .hovertext").first.text_content() or "")
    # Deep and wide enough, it speaks.
    page.get_by_label("Layers, exact").fill("300")
    page.get_by_label("Layers, exact").press("Enter")
    page.get_by_label("d_mlp, exact").fill("500")
    page.get_by_label("d_mlp, exact").press("Enter")
    page.wait_for_selector("tr[data-theorem=kajitsuka2025_next_token]:not(.silent)")


@pytest.mark.parametrize("opened", ["capacity"], indirect=True)
def test_which_shape_for_so_many_facts(opened: Page, explorer: Explorer) -> None:
    page = opened.page
    page.get_by_label("Number of facts").fill("2,500")
    until(page, "document.querySelector('#plan-command code')?.textContent.includes('--facts 2500')")
    known = api(explorer, "/api/plan?facts=2500&vocab=1000&context=32")
    assert page.locator(".plans a").all_inner_texts() == [one["construction"] for one in known["plans"]]


@pytest.mark.parametrize("opened", ["theorems"], indirect=True)
def test_the_registry_is_read_and_searched(opened: Page, explorer: Explorer) -> None:
    page = opened.page
    all_ = api(explorer, "/api/theorems")["theorems"]
    page.wait_for_selector("details.theorem")
    assert page.locator("details.theorem").count() == len(all_)
    page.get_by_label("Find a theorem").fill("saturation")
    until(page, f"document.querySelectorAll('details.theorem').length < {len(all_)}")
    page.get_by_label("Find a theorem").fill("dana2025_cor1")
    page.locator("summary", has_text="dana2025_cor1").click()
    assert page.get_by_text("recall of every fact").first.is_visible()
    assert page.url.endswith("theorem=dana2025_cor1")
    page.get_by_label("Find a theorem").fill("")
    page.get_by_role("button", name="upper").click()
    assert page.locator("details.theorem").count() == sum(one["kind"] == "upper" for one in all_)


def drop(page: Any, name: str, text: str | bytes) -> None:
    content = text.encode() if isinstance(text, str) else text
    page.locator("#file").set_input_files({"name": name, "mimeType": "text/csv", "buffer": content})


def build(page: Any, state: str = "done", nth: int = 0) -> None:
    page.get_by_role("button", name="Build", exact=True).click()
    page.wait_for_selector(f"#jobs li:nth-child({nth + 1}).{state}", timeout=60_000)


@pytest.mark.parametrize("opened", ["build"], indirect=True)
def test_a_csv_is_dropped_checked_built_downloaded_and_asked(opened: Page, tmp_path: Path) -> None:
    page = opened.page
    page.wait_for_selector("#checks .conditions")
    # By a real drop here, by the file chooser elsewhere.
    making = "text => { const d = new DataTransfer(); d.items.add(new File([text], 'rivers.csv')); return d; }"
    page.dispatch_event("#drop", "drop", {"dataTransfer": page.evaluate_handle(making, RIVERS)})
    until(page, "document.querySelector('#checks')?.textContent.includes('4 facts')")
    assert page.locator("#sample li").all_inner_texts() == [
        "(Danube, source) -> Black Forest", "(Danube, mouth) -> Black Sea",
        "(Rhine, source) -> Alps", "(Rhine, mouth) -> North Sea",
    ]  # fmt: skip
    page.get_by_role("button", name="words").click()
    until(page, "document.querySelector('#checks .command code')?.textContent.includes('--tokens words')")
    page.get_by_role("button", name="whole cells").click()
    page.locator("#with").select_option("dana2025_cor1")
    until(page, "document.querySelector('#checks').getAttribute('aria-busy') === null")
    build(page)
    page.wait_for_selector("#result .sheet")
    assert "4 of 4 facts recalled at float32" in page.locator("#result").inner_text()
    assert page.locator("#result .sheet tbody tr").count() == 3
    assert page.locator("#result .command code").inner_text() == (
        "rote build rivers.csv -o rivers-model --with dana2025_cor1"
    )
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download zip").click()
    waiting.value.save_as(tmp_path / "model.zip")
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        assert "rivers-model/model.safetensors" in archive.namelist()
    # The page finds its build again.
    page.reload()
    page.wait_for_selector("#result .sheet")
    page.get_by_role("link", name="Ask it").click()
    page.get_by_role("combobox", name="token 1").fill("Dan")
    page.locator("#list-0 li", has_text="Danube").click()
    page.get_by_role("combobox", name="token 2").focus()
    page.wait_for_selector("#list-1 li")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.get_by_role("combobox", name="token 2").input_value() in ("mouth", "source")
    page.get_by_role("combobox", name="token 2").fill("mouth")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer .said")
    assert page.locator("#answer .said").inner_text() == "Black Sea"
    assert page.locator("#answer .tag.done").is_visible()
    until(page, "document.querySelector('#heads-0').data?.length === 1")
    assert page.evaluate("document.querySelector('#heads-0').data[0].z.length") == 2
    assert "Who serves this answer?" in page.locator("#inside").inner_text()
    assert "1 of 1 that are facts are told apart" in page.locator("#inside").inner_text()
    page.reload()
    page.wait_for_selector("#answer .said")
    assert page.locator("#answer .said").inner_text() == "Black Sea"
    page.get_by_role("combobox", name="token 1").fill("Danub")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_selector("#ask-problem .problem")
    assert "did you mean 'Danube'?" in page.locator("#ask-problem").inner_text()


@pytest.mark.parametrize("opened", ["build"], indirect=True)
def test_options_are_drawn_off_the_records(opened: Page, explorer: Explorer) -> None:
    page = opened.page
    page.wait_for_selector("#checks .conditions")
    listed = {one["construction"]: one for one in api(explorer, "/api/constructions")["constructions"]}
    keys = page.locator("#with option").evaluate_all("all => all.map((one) => one.value)")
    assert sorted(keys) == sorted(["auto", *listed])
    page.locator("#options summary").click()
    for key, one in listed.items():
        page.locator("#with").select_option(key)
        for item in one["options"]:
            role = "checkbox" if item["form"] == "flag" else "combobox" if item["choices"] else "textbox"
            assert page.get_by_role(role, name=item["name"], exact=role != "checkbox").is_visible(), (key, item)
            assert page.get_by_text(item["help"]).first.is_visible()
        assert page.locator("#options .field input").count() == len(one["shape"]) + 1 + sum(
            item["form"] != "flag" and not item["choices"] for item in one["options"]
        )
    # They are sent, remembered in the address, and said in the command.
    page.locator("#with").select_option("argmax_fit")
    page.get_by_role("checkbox", name="refine").check()
    until(page, "location.search.includes('option.refine=true')")
    page.reload()
    page.wait_for_selector("#checks .conditions")
    assert page.get_by_role("checkbox", name="refine").is_checked()
    page.get_by_label("d_model").fill("12")
    build(page)
    page.wait_for_selector("#result .sheet")
    command = "rote build elements -o elements-model --with argmax_fit --d-model 12 --refine"
    assert page.locator("#result .command code").inner_text() == command
    # What auto has no use for is gone.
    page.locator("#with").select_option("kajitsuka2025_next_token")
    until(page, "!location.search.includes('option.')")


@dataclass(frozen=True)
class Told(constructions.Options):
    taste: float = constructions.option(0.5, "How it should taste.")


def test_a_construction_of_somebody_else_is_on_the_page(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class New(type(constructions.get("argmax_fit"))):  # type: ignore[misc]
        key, title, Options = "", "A construction from elsewhere", Told

    monkeypatch.setattr(constructions._constructions, "_added", {})
    constructions.register("from_elsewhere", New())
    with (
        server_of_this_process(tmp_path) as home,
        open_page(browser, f"{home}/build?with=from_elsewhere&option.taste=0.25") as opened,
    ):
        page = opened.page
        page.wait_for_selector("#checks .conditions")
        assert page.locator("#with").input_value() == "from_elsewhere"
        taste = page.get_by_role("textbox", name="taste")
        assert (taste.input_value(), taste.get_attribute("placeholder")) == ("0.25", "0.5")
        assert page.get_by_text("How it should taste.").is_visible()
        page.locator("#with").select_option("auto")
        page.get_by_role("textbox", name="taste").wait_for()
        assert opened.faults == []


@pytest.mark.parametrize("opened", ["build"], indirect=True)
def test_distributions_go_the_same_way(opened: Page) -> None:
    page = opened.page
    page.wait_for_selector("#checks .conditions")
    rows = [f"{a},{b},{c},{1 + (i * j) % 5}" for i, a in enumerate("pq") for j, b in enumerate("rst") for c in "xyz"]
    drop(page, "next.csv", "\n".join(("first,second,then,count", *rows, "")))
    until(page, "document.querySelector('#checks')?.textContent.includes('6 contexts')")
    assert "taken for counts" in page.locator("#checks").inner_text()
    assert page.get_by_label("Counts").input_value() == "count"
    assert page.get_by_label("Target").input_value() == "then"
    assert page.locator("#columns fieldset .check").all_inner_texts() == ["first", "second"]
    assert page.locator("#checks .command code").inner_text() == "rote plan next.csv"
    build(page, "failed")
    assert "give d_model" in page.locator("#jobs li").first.inner_text()
    page.locator("#options summary").click()
    page.get_by_label("d_model").fill("2")
    build(page)
    page.wait_for_selector("#result .sheet")
    assert "no model of this width is below" in page.locator("#result .sheet").inner_text()
    page.get_by_role("link", name="Ask it").click()
    page.locator("#examples button").first.click()
    page.wait_for_selector("#answer .said")
    assert "nats from the table" in page.locator("#answer .verdict").inner_text()
    assert page.locator("#answer thead th").all_inner_texts() == ["answer", "", "probability", "true", "logit"]


@pytest.mark.parametrize("opened", ["build"], indirect=True)
def test_a_hostile_csv_is_text(opened: Page) -> None:
    page = opened.page
    page.wait_for_selector("#checks .conditions")
    for name, content, words in (
        ("bad.csv", "a,b\n1,2,3\n", "3 cells"),
        ("bad.csv", b"a,b\n\xff\xfe,1\n", "not UTF-8"),
        ("<img src=x onerror='window.hacked=5'>.csv", "a,b\n1\n", "has 1 cell,"),
        ("page.html", "<script>", ".csv, .tsv, .jsonl"),
    ):
        drop(page, name, content)
        until(page, "words => document.querySelector('#upload')?.textContent.includes(words)", arg=words)
    drop(page, "<script>window.hacked=6</script>.csv", HOSTILE)
    until(page, "document.querySelector('#checks')?.textContent.includes('4 facts')")
    assert "<script>window.hacked = 1</script>" in page.locator("#sample").inner_text()
    page.locator("#with").select_option("dana2025_cor1")
    until(page, "document.querySelector('#checks').getAttribute('aria-busy') === null")
    build(page)
    page.wait_for_selector("#result .sheet")
    page.get_by_role("link", name="Ask it").click()
    page.get_by_role("combobox", name="token 1").fill("<scr")
    page.locator("#list-0 li").first.click()
    page.get_by_role("combobox", name="token 2").fill("a")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer .said")
    assert page.locator("#answer .said").inner_text() == "<img src=x onerror='window.hacked = 2'>"
    until(page, "document.querySelector('#heads-0').data?.length === 1")
    page.locator("#heads-0").hover()
    assert page.locator("main script, main img, main svg[onload]").count() == 0


@pytest.mark.parametrize("opened", ["build?shipped=countries"], indirect=True)
def test_builds_wait_are_cancelled_and_survive_a_reload(opened: Page, explorer: Explorer) -> None:
    page = opened.page
    page.wait_for_selector("#checks .conditions")
    page.get_by_role("button", name="Build", exact=True).click()
    page.wait_for_selector("#jobs li.running")
    page.get_by_role("button", name="Build", exact=True).click()
    page.wait_for_selector("#jobs li.queued")
    assert "next in line" in page.locator("#jobs li.queued").inner_text()
    # Progress: a stage, and facts recalled, while it runs.
    until(page, "/facts recalled/.test(document.querySelector('#jobs li.running')?.textContent)", timeout=30_000)
    address = page.url
    page.reload()
    page.wait_for_selector("#jobs li.running")
    assert page.url == address
    page.locator("#jobs li.queued").get_by_role("button", name="Cancel").click()
    page.wait_for_selector("#jobs li.cancelled")
    page.locator("#jobs li.running").get_by_role("button", name="Cancel").click()
    until(page, "!document.querySelector('#jobs li.running, #jobs li.queued')")
    newest = explorer.ask("/api/builds")["builds"][:2]
    assert [one["state"] for one in newest] == ["cancelled", "cancelled"]


def test_the_digits_of_an_exact_network(browser: Any, explorer: Explorer) -> None:
    id_ = explorer.ask("/api/builds", {"shipped": "elements", "with": "kajitsuka2025_next_token"})["id"]
    assert explorer.finished(id_)["state"] == "done"
    with open_page(browser, f"{explorer.address}/ask?model={id_}&q=Fe%09name") as opened:
        page = opened.page
        page.wait_for_selector(".digits li")
        assert page.locator("#answer .said").inner_text() == "Iron"
        assert "Iron" in page.locator(".digits li.meets").inner_text()
        until(page, "document.querySelector('#digits-0').data?.length === 1")
        lengths = page.evaluate("[...document.querySelector('#digits-0').data[0].y]")
        longest = max(lengths)
        assert lengths[lengths.index(longest) : lengths.index(longest) + 5] == [longest - i for i in range(5)]
        page.locator("#layer").fill(str(len(lengths)))
        assert "whole numbers" in page.locator("#layer-bits").inner_text()
        assert opened.faults == []


def test_a_running_sweep_is_followed(browser: Any, explorer: Explorer) -> None:
    folder = explorer.folder / "now"
    folder.mkdir()
    (folder / "grid.toml").write_text(GRID.replace('"heads"', '"night <i>run</i>"'), encoding="utf-8")
    sweep = read_sweep(folder / "grid.toml")
    with Journal(folder / "night.db") as journal:
        for heads in (1, 2):
            journal.put(sweep.name, *results_of(sweep, heads))
        db = next(one["id"] for one in explorer.ask("/api/runs")["results"] if one["name"] == "now/night.db")
        with open_page(browser, f"{explorer.address}/runs?db={db}") as opened:
            page = opened.page
            page.wait_for_selector("#progress .progress")
            assert "4 of 12 cells, 8 left" in page.locator("#progress").inner_text()
            assert page.locator("#progress .sweep-name").inner_text() == "night <i>run</i>"
            assert page.locator("#progress .tag").inner_text() == "running"
            for heads in (3, 4, 6):
                journal.put(sweep.name, *results_of(sweep, heads))
            until(page, "document.querySelector('#progress')?.textContent.includes('10 of 12 cells')")
            until(page, "document.querySelector('#fit-0').data?.length > 2")
            assert (
                page.evaluate("document.querySelector('#fit-0').data.find(t => t.name === 'mean over seeds').y.length")
                == 5
            )
            assert "b = 8" in page.locator("#fit-words").inner_text()
            assert "rote fit now/night.db --x n_heads --y capacity" in page.locator("#fit-words").inner_text()
            page.locator("#fit-law").select_option("power")
            until(page, "document.querySelector('#fit-words')?.textContent.includes('--law power')")
            journal.put(sweep.name, *results_of(sweep, 8))
            until(page, "document.querySelector('#progress .tag')?.textContent === 'complete'")
            page.reload()
            until(page, "document.querySelector('#fit-words')?.textContent.includes('--law power')")
            assert opened.faults == []


@pytest.mark.parametrize("opened", ["runs"], indirect=True)
def test_reproduced_figures_show_the_published_points(opened: Page) -> None:
    page = opened.page
    page.get_by_role("button", name="Accuracy grows with the heads").click()
    until(page, "document.querySelector('#figure-0-0')?.data?.length === 2")
    lines = chart(page, "#figure-0-0")
    assert lines["the paper"] == [[1, 2], [17.5, 25.5]]
    text = page.locator("#shown").inner_text()
    assert "holds The slope is 8.0 facts a head." in text
    assert "fewer steps <b>than</b> the paper" in text
    assert "the paper (published)" in text


READY = {
    "capacity": DRAWN,
    "build": "document.querySelector('#result .sheet') && document.querySelector('#checks .conditions')",
    "ask": "document.querySelector('#heads-0')?.data?.length === 1",
    "grafts": "document.querySelector('#grafts p')",
    "runs": "document.querySelector('#fit-0')?.data?.length > 2",
    "theorems": "document.querySelectorAll('details.theorem').length > 9",
}
# Every control has a name for those who do not see it.
NAMELESS = """[...document.querySelectorAll('button, a, input, select')].filter(e => !e.hidden && !(e.textContent.trim()
  || e.getAttribute('aria-label') || e.labels?.length || e.title)).map(e => e.outerHTML)"""


@pytest.fixture(scope="module")
def a_build(explorer: Explorer) -> str:
    id_ = str(explorer.ask("/api/builds", {"shipped": "elements", "with": "dana2025_cor1"})["id"])
    assert explorer.finished(id_)["state"] == "done"
    return id_


@pytest.mark.parametrize("width", SIZES)
def test_every_page_at_every_size(browser: Any, explorer: Explorer, a_build: str, width: int) -> None:
    id_ = a_build
    keep = os.environ.get("ROTE_SCREENSHOTS")
    queries = {"ask": f"?model={id_}&q=Fe%09name", "build": f"?job={id_}", "theorems": "?theorem=dana2025_cor1"}
    with open_page(browser, f"{explorer.address}/theorems", size=SIZES[width]) as opened:
        page = opened.page
        for name in PAGES:
            page.emulate_media(color_scheme="light")
            page.goto(f"{explorer.address}/{name}{queries.get(name, '')}")
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                until(page, READY[name])
                page.wait_for_timeout(100)
                if keep:
                    page.screenshot(path=Path(keep) / f"{name}-{width}-{scheme}.png", full_page=True)
                until(
                    page,
                    "dark => (getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g)"
                    ".slice(0, 3).reduce((sum, part) => sum + Number(part), 0) < 200) === dark",
                    scheme == "dark",
                )
            assert opened.overflow() == [], name
            assert page.evaluate(NAMELESS) == [], name
            assert opened.faults == [], name


def test_pages_read_well_with_the_keyboard(browser: Any, explorer: Explorer) -> None:
    with open_page(browser, f"{explorer.address}/capacity") as opened:
        page = opened.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.get_by_role("button", name="Light or dark").click()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert opened.faults == []


def test_the_first_paint_needs_no_plotly(browser: Any, explorer: Explorer) -> None:
    with open_page(browser, f"{explorer.address}/capacity") as opened:
        page = opened.page
        until(page, DRAWN)
        paint, asked = page.evaluate(
            "[performance.getEntriesByName('first-contentful-paint')[0].startTime,"
            " performance.getEntriesByType('resource').find(e => e.name.endsWith('plotly.min.js')).startTime]"
        )
        print(f"first paint {paint:.0f} ms, plotly asked for at {asked:.0f} ms")
        packed, whole = page.evaluate(
            "(e => [e.encodedBodySize, e.decodedBodySize])(performance.getEntriesByType('resource')"
            ".find(e => e.name.endsWith('plotly.min.js')))"
        )
        assert packed < whole / 2
        status, headers, _ = explorer.raw(
            "GET", page.evaluate("document.querySelector('script[src*=plotly]').getAttribute('src')")
        )
        assert (status, "immutable" in headers["cache-control"]) == (200, True)


def test_a_model_that_cannot_be_loaded_is_not_opened_first(browser: Any, explorer: Explorer) -> None:
    facts = explorer.folder / "long.csv"
    long = " ".join(f"Donaudampfschifffahrtsgesellschaftskapitaen{k}" for k in range(12))
    facts.write_text("topic,answer\n" + "".join(f"topic {k},{long} {k}\n" for k in range(6)))
    table = rote.read(facts)
    memory = rote.build(table, with_="mlp_fit", rng=0)
    broken = memory.save(explorer.folder / "0-broken").folder / "model.safetensors"
    memory.save(explorer.folder / "1-whole")
    broken.write_bytes(broken.read_bytes()[:-1])
    listed = [one["name"] for one in explorer.ask("/api/models")["models"]]
    assert listed.index("0-broken") < listed.index("1-whole")
    with open_page(browser, f"{explorer.address}/ask", size=(390, 844)) as opened:
        page = opened.page
        page.wait_for_selector("#inputs input")
        chosen = page.locator("#models select option:checked").inner_text()
        assert not chosen.startswith("0-broken")
        whole = page.locator("#models option", has_text="1-whole").get_attribute("value")
        page.locator("#models select").select_option(whole)
        until(page, "document.querySelector('#about').textContent.startsWith('6 facts')")
        page.fill("#inputs input", "topic")
        page.wait_for_selector(".options li")
        page.locator("#inputs input").press_sequentially(" 3")
        page.press("#inputs input", "Enter")
        until(page, "document.querySelector('.said')?.textContent.endsWith(' 3')")
        assert page.locator(".options:visible").count() == 0
        assert opened.overflow() == []
        page.locator("#models select").select_option(
            page.locator("#models option", has_text="0-broken").get_attribute("value")
        )
        page.wait_for_selector("#about .problem")
    for name in ("0-broken", "1-whole"):
        shutil.rmtree(explorer.folder / name)
    facts.unlink()


def test_the_lines_have_room_on_a_phone(browser: Any, explorer: Explorer) -> None:
    with open_page(browser, f"{explorer.address}/capacity", size=(390, 844)) as opened:
        until(opened.page, "document.querySelector('#chart')?.dataset.drawn")
        axis = opened.page.evaluate("document.querySelector('#chart')._fullLayout.xaxis.range")
        assert axis[0] > -0.5, "the axis begins where the lines do"
        assert opened.overflow() == []
