"""How fast the explorer answers: first paint of every page, slider to chart, and answers beside ten queued builds.

    python benchmarks/ui.py

It starts `rote ui`, drives headless Chromium (on the PATH, or named by ROTE_CHROMIUM), and compares each time with its
budget: a second, 100 ms, 100 ms. Nothing is warmed up beforehand but plotly, which a slider needs to have been drawn.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Any

from playwright.sync_api import sync_playwright

PAGES = ("capacity", "build", "ask", "runs", "theorems")
MOVE = """([id, value]) => new Promise((resolve) => {
  const chart = document.getElementById("chart"), slider = document.getElementById(id), began = performance.now();
  const drawn = () => { chart.removeListener("plotly_afterplot", drawn); resolve(performance.now() - began); };
  chart.on("plotly_afterplot", drawn);
  slider.value = value;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def row(name: str, times: list[float], budget: float) -> None:
    times = sorted(times)
    median, high = statistics.median(times), times[int(0.9 * (len(times) - 1))]
    print(f"{name:34s} median {median:5.0f} ms, nine of ten below {high:5.0f} ms; {median / budget:.2f} of the budget")


def ask(address: str, path: str, record: object = None) -> Any:
    body = None if record is None else json.dumps(record).encode()
    with urllib.request.urlopen(urllib.request.Request(address + path, body), timeout=60) as answer:
        return json.load(answer)


def paints(browser: Any, address: str) -> None:
    for name in PAGES:
        page = browser.new_page()
        page.goto(address + name, wait_until="load")
        page.wait_for_timeout(300)
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        row(f"first paint, {name}", [paint], 1000)
        page.close()


def sliders(browser: Any, address: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}capacity")
    page.wait_for_selector("#chart .trace", state="attached")
    page.wait_for_timeout(500)
    for name in ("heads", "d_model", "context", "vocab"):
        times = []
        for value in range(300, 700, 20):
            times.append(page.evaluate(MOVE, [f"r-{name}", value]))
            page.wait_for_timeout(60)
        row(f"slider to chart, {name}", times, 100)
    page.close()


def beside_builds(address: str) -> None:
    ids = [ask(address, "api/builds", {"shipped": "countries", "seed": seed})["id"] for seed in range(10)]
    while not any(one["state"] == "running" and one["recalled"] for one in ask(address, "api/builds")["builds"]):
        time.sleep(0.1)
    times = []
    for heads in range(1, 41):
        before = time.perf_counter()
        ask(address, f"api/bounds?heads={heads}&d_model=48")
        times.append(1000 * (time.perf_counter() - before))
    row("bounds, beside ten builds", times, 100)
    for id_ in ids:
        ask(address, f"api/builds/{id_}/cancel", {})


def main() -> None:
    program = os.environ.get("ROTE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("Chromium is needed: apt-get install chromium, or name its program in ROTE_CHROMIUM.")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rote", "ui", "--port", "0", "--no-browser", "--json", "--dir", folder]
        server = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["address"]
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
                paints(browser, address)
                sliders(browser, address)
                browser.close()
            beside_builds(address)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
