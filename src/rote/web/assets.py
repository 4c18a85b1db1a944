"""Pages and their parts, read once into memory. A request names one of them or nothing: no path is ever opened for it.

Addresses of parts carry a hash of all of them, so that a browser may keep them for ever and still sees a new version
at once. plotly comes from its own Python package.
"""

from __future__ import annotations

import gzip
import hashlib
import threading
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from rote._version import __version__
from rote.plot.colours import css
from rote.plot.interactive import plotly_js, script

__all__ = ["PAGES", "Assets", "Part"]

PAGES = {
    "capacity": "Capacity",
    "build": "Build",
    "ask": "Ask",
    "grafts": "Grafts",
    "runs": "Runs",
    "theorems": "Theorems",
}
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass
class Part:
    """One file, as it is and, after a moment, compressed."""

    content: bytes
    kind: str
    packed: bytes | None = None


class Assets:
    """Everything that is served as it is."""

    def __init__(self) -> None:
        home = resources.files("rote.web")
        parts: dict[str, Part] = {}
        for item in home.joinpath("static").iterdir():
            kind = _TYPES.get(Path(item.name).suffix)
            if kind is not None:
                parts[item.name] = Part(item.read_bytes(), f"{kind}; charset=utf-8")
        parts["plotly.min.js"] = Part(plotly_js("ui", "the explorer"), "text/javascript; charset=utf-8")
        # What figures need comes from rote.plot, as a module and before the page's own colours.
        code = f"{script()}\nexport {{ coloured, endNames, plotLegend }};\n"
        parts["figure.js"] = Part(code.encode(), "text/javascript; charset=utf-8")
        parts["style.css"] = Part(css().encode() + parts["style.css"].content, "text/css; charset=utf-8")
        self.parts = parts
        digest = hashlib.sha256(__version__.encode())
        for name in sorted(parts):
            digest.update(name.encode() + hashlib.sha256(parts[name].content).digest())
        self.mark = digest.hexdigest()[:12]
        layout = home.joinpath("pages", "layout.html").read_text(encoding="utf-8")
        self.pages = {
            name: self._page(layout, name, home.joinpath("pages", f"{name}.html").read_text(encoding="utf-8"))
            for name in PAGES
        }

    def _page(self, layout: str, name: str, body: str) -> bytes:
        links = "\n".join(
            f'<a href="/{key}"{" aria-current=page" if key == name else ""}>{title}</a>' for key, title in PAGES.items()
        )
        text = layout.replace("{{links}}", links).replace("{{main}}", body).replace("{{name}}", name)
        text = text.replace("{{title}}", PAGES[name]).replace("{{static}}", f"/static/{self.mark}")
        return text.replace("{{version}}", __version__).encode()

    def warm(self) -> None:
        """Compress in the background, so that nobody waits for it."""

        def work() -> None:
            for part in self.parts.values():
                part.packed = gzip.compress(part.content, 6, mtime=0)

        threading.Thread(target=work, name="rote-ui-compress", daemon=True).start()
