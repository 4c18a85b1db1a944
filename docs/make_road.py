"""Draw docs/images/road.svg: the one road from a file to a certificate, and the kinds that meet on it.

    python docs/make_road.py

Plain SVG, written as text; no library is needed.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

IMAGES = Path(__file__).resolve().parent / "images"

WIDTH, HEIGHT = 1120, 470
INK, GREY, PAPER, RULE = "#1f2937", "#6b7280", "#ffffff", "#cbd5e1"
BLUE, GREEN, ORANGE = "#1d4ed8", "#0f766e", "#c2410c"

Station = tuple[str, str, str, tuple[str, ...]]
"""What arrives, the call that brings it there, whose folder it is in, and the kinds."""

STATIONS: tuple[Station, ...] = (
    ("Table", "rote.read", "data/kinds", ("facts", "sequences", "vectors", "distributions", "prompts")),
    (
        "Plan",
        "choose · shapes",
        "constructions",
        ("dana2025_cor1", "argmax_fit, mlp_fit", "kajitsuka2025_…", "distribution_refit", "stock_llama, graft, …"),
    ),
    (
        "Model",
        "admit · build",
        "models/kinds",
        ("transformer", "attention_layer", "exact_transformer", "llama", "grafted"),
    ),
    ("files", "model.write", "models/folders.py", ("config.json", "model.safetensors", "tokenizer.json")),
    (
        "Verification",
        "judge · score",
        "referee/judges",
        ("transformer", "attention_layer", "exact_transformer", "llama", "grafted"),
    ),
    ("Memory", "certify", "memory.py", ("certificate.json", "ask, save, heads", "load, verify")),
)


def text(
    x: float, y: float, words: str, *, size: int = 14, fill: str = INK, anchor: str = "middle", **more: str
) -> str:
    style = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    place = f'x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"'
    return f"<text {place}{style}>{escape(words)}</text>"


def box(x: float, y: float, w: float, h: float, stroke: str, fill: str = PAPER, **more: str) -> str:
    style = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="8" fill="{fill}" stroke="{stroke}"{style}/>'


def road() -> str:
    """The drawing."""
    step, wide, top = 182.0, 132.0, 150.0
    first = 38.0
    mono = "ui-monospace, Menlo, Consolas, monospace"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" role="img">',
        "<title>The one road of rote</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>',
        text(first, 34, "pipeline.py", size=15, anchor="start", font_weight="bold", font_family=mono),
        text(
            first + 104,
            34,
            "knows no kind; the grey boxes are folders with one file per kind, found by its name",
            anchor="start",
            fill=GREY,
        ),
        text(first, 76, "file, or shipped facts", size=13, anchor="start", fill=GREY),
        f'<path d="M{first + wide / 2:g} 84 V{top - 4:g}" stroke="{INK}" fill="none" marker-end="url(#tip)"/>',
        text(first + wide / 2 - 8, 116, "rote.read", size=12, anchor="end", font_family=mono, fill=BLUE),
    ]
    for i, (what, call, folder, kinds) in enumerate(STATIONS):
        x = first + i * step
        middle = x + wide / 2
        colour = GREEN if folder.startswith("referee") else BLUE
        parts += [
            box(x, top, wide, 46, colour, stroke_width="2"),
            text(middle, top + 28, what, size=16, font_weight="bold"),
            box(x, top + 62, wide, 40 + 19 * 5, RULE, "#f8fafc"),
            text(middle, top + 82, folder, size=11, fill=GREY, font_family=mono),
        ]
        parts += [text(middle, top + 106 + 19 * k, one, size=12) for k, one in enumerate(kinds)]
        if i:
            a, b = x - (step - wide) + 2, x - 3
            parts.append(f'<path d="M{a:g} {top + 23:g} H{b:g}" stroke="{INK}" fill="none" marker-end="url(#tip)"/>')
            over = call.split(" · ")
            for k, word in enumerate(over):
                y = top - 14 - 15 * (len(over) - 1 - k)
                parts.append(text((a + b) / 2, y, word, size=12, font_family=mono, fill=BLUE))
    back, low = first + step * 4 + wide / 2, top + 214
    start = first + step + wide / 2
    parts += [
        f'<path d="M{back:g} {top + 199:g} V{low + 20:g} H{start:g} V{top + 203:g}" stroke="{ORANGE}" fill="none" '
        'stroke-dasharray="5 4" marker-end="url(#tip)"/>',
        text((start + back) / 2, low + 38, "a fact is lost: the next shape, the smallest first", size=13, fill=ORANGE),
    ]
    wall = first + step * 4 - (step - wide) / 2
    parts += [
        f'<path d="M{wall:g} {top + 62:g} V{top + 199:g}" stroke="{GREEN}" stroke-width="2" stroke-dasharray="2 4"/>',
        text(
            wall - 60,
            low + 66,
            "the referee reads what is on disk, and imports no construction, no model and no solver",
            size=13,
            fill=GREEN,
        ),
        text(
            WIDTH / 2,
            HEIGHT - 14,
            "theorems: bound(setting), for rote bound and as the limits of constructions of the same name",
            size=13,
            fill=GREY,
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    (IMAGES / "road.svg").write_text(road(), encoding="utf-8")
