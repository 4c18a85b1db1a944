"""The page of grafts: streamed before and after, questions at a click, and the refusals that every page has."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import rote
from attacks import tiny_models
from browser import DESKTOP, PHONE, open_page
from explorer import server_of_this_process
from rote.web.graft_tasks import _fits, _questions
from rote.web.guard import CONTENT_POLICY

HOSTILE = "<img src=x onerror='window.hacked = 1'>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graft on a tiny model, with answers that are markup."""
    place = tmp_path_factory.mktemp("grafts")
    model = tiny_models.write_tiny(place / "model", "llama", tied=True, vocab_size=820)
    tiny_models.tiny_qwen_tokenizer().save_pretrained(str(model))
    facts = tiny_models.write_table(place / "facts.csv", 16)
    facts.write_text(facts.read_text(encoding="utf-8").replace("Cairo", "<b>"), encoding="utf-8")
    keep = tiny_models.write_text(place / "keep.txt", 6000)
    options = rote.Graft(keep=keep, examined=4, bar=0.0, held_out_template=("the place of {code} is in",))
    rote.graft(
        model, facts, template=["The code {code} is in", "Code {code} was in"], answer=" {city}", options=options,
        output=place / "shown" / "made",
    )  # fmt: skip
    return place / "shown"


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with server_of_this_process(folder, workers=False) as running:
        yield running


def asked(
    address: str, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(address).port or 0, timeout=60)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def first(address: str) -> str:
    (graft,) = json.loads(asked(address, "GET", "/api/grafts")[2])["grafts"]
    assert graft["name"] == "made" and graft["facts"] == 16
    return f"/api/grafts/{graft['id']}"


def test_every_token_is_a_line(address: str) -> None:
    path = first(address)
    about = json.loads(asked(address, "GET", path)[2])
    assert about["sheet"]["grids"] and about["certificate"]["construction"] == "graft"
    groups = {kind: [one for one in about["questions"] if one["kind"] == kind] for kind in ("stored", "reworded")}
    stored = groups["stored"][0]
    assert {one["about"] for one in groups["reworded"]} == {"fitted", "held out"}
    status, headers, body = asked(address, "POST", f"{path}/speak", json.dumps({"text": stored["text"]}).encode())
    assert status == 200 and headers["content-type"].startswith("application/x-ndjson")
    assert headers["content-security-policy"] == CONTENT_POLICY and headers["cache-control"] == "no-store"
    *tokens, last = [json.loads(line) for line in body.splitlines()]
    for side in ("before", "after"):
        said = [one["text"] for one in tokens if one["side"] == side]
        assert len(said) > 1 and said[-1] == last["done"][side]
    assert last["done"]["after"] == stored["answer"] != last["done"]["before"] and not last["done"]["same"]
    assert last["command"].startswith("rote ask made ")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{}", "type a text"),
        (b'{"text": ""}', "type a text"),
        (b'{"text": 3}', "must be a text"),
        (json.dumps({"text": "a" * 2001}).encode(), "at most 2,000 characters"),
        (b"{", "no JSON"),
        (b"[]", "no JSON object"),
        (b'{"text": "' + b" " * 300_000 + b'"}', "262,144 bytes"),
    ],
)
def test_odd_questions_are_refused_in_a_sentence(address: str, body: bytes, sentence: str) -> None:
    status, _, said = asked(address, "POST", f"{first(address)}/speak", body)
    assert 400 <= status < 500 and sentence in said.decode()


def test_others_cannot_ask(address: str) -> None:
    path = f"{first(address)}/speak"
    assert asked(address, "POST", path, b'{"text": "a"}', Origin="https://evil.example")[0] == 403
    assert asked(address, "POST", path, b'{"text": "a"}', Host="evil.example")[0] in (400, 421)
    assert asked(address, "GET", path)[0] == 405
    for id_ in ("0", "..%2Fmade", "made"):
        status, _, body = asked(address, "POST", f"/api/grafts/{id_}/speak", b'{"text": "a"}')
        assert status in (400, 404) and body


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_page_in_a_browser(browser: Any, address: str, size: tuple[int, int]) -> None:
    with open_page(browser, f"{address}/grafts", size=size) as opened:
        page = opened.page
        page.wait_for_selector("#certificate .sheet")
        chip = page.locator(".chip").first
        chip.click()
        page.wait_for_selector("#verdict .tag.done")
        assert page.locator("#verdict .tag").inner_text() == "a fact, said in full"
        said = page.locator("#after").inner_text().strip()
        assert page.locator("#expected").inner_text() == f"The table says “{said}”."
        page.locator(".kinds", has_text="in other words").locator(".chip", has_text="fitted").first.click()
        page.locator("#verdict .command", has_text="Code").wait_for()
        assert page.locator("#verdict .tag.done").inner_text() == "a fact, said in full"
        page.locator(".kinds", has_text="Keys that no fact has").locator(".chip").first.click()
        page.locator("#verdict .tag", has_text="the graft changes nothing here").wait_for()
        # Whatever is typed is shown as text, and the address brings it back.
        page.locator("#text").fill(HOSTILE)
        page.get_by_role("button", name="Ask both").click()
        page.locator("#verdict .command", has_text="onerror").wait_for()
        page.reload()
        page.locator("#verdict .command", has_text="onerror").wait_for()
        assert page.evaluate("window.hacked") is None
        assert opened.overflow() == [] and opened.faults == []


def test_an_edited_certificate_shows_texts_only(folder: Path) -> None:
    table = rote.load(folder / "made").carried
    for edited in ({"wordings": 3}, {"wordings": [3, {"wording": 4}, {"wording": "{other} is"}, {"wording": "{"}]}):
        kinds = {one["kind"] for one in _questions({"key": ["x"], **edited}, table)}  # type: ignore[arg-type]
        assert kinds == {"stored"}
    assert not _fits("{", table)  # type: ignore[arg-type]
