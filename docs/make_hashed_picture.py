"""Draw docs/images/hashed_table.svg: what one key touches in a hashed table.

    python docs/make_hashed_picture.py

Plain SVG, written as text. The words are those of a row that is solved here: the sums are real.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from make_road import BLUE, GREEN, GREY, INK, ORANGE, PAPER, RULE, text

IMAGES = Path(__file__).resolve().parent / "images"
WIDTH, HEIGHT = 1010, 492
ROWS, GROUP, GROUPS = 8, 4, 4
ROW = 5
READ = (2, 0, 3, 1)
"""The column that the key reads in every group."""
MONO = "ui-monospace, Menlo, Consolas, monospace"
PALE = {BLUE: "#dbeafe", ORANGE: "#ffedd5", GREEN: "#ccfbf1"}


def rect(x: float, y: float, w: float, h: float, fill: str, stroke: str = RULE, wide: float = 1.0) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" fill="{fill}" stroke="{stroke}" '
        f'stroke-width="{wide:g}"/>'
    )


def arrow(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return (
        f'<path d="M{x1:g} {y1:g} C{(x1 + x2) / 2:g} {y1:g} {(x1 + x2) / 2:g} {y2:g} {x2:g} {y2:g}" fill="none" '
        f'stroke="{colour}" stroke-width="1.6" marker-end="url(#tip)"/>'
    )


def bits(x: float, y: float, values: str, colour: str) -> str:
    cells = [rect(x + 15 * i, y, 15, 20, PALE[colour], colour) for i in range(len(values))]
    letters = [text(x + 15 * i + 7.5, y + 14.5, one, size=12, font_family=MONO) for i, one in enumerate(values)]
    return "".join(cells + letters)


def picture() -> str:
    """The drawing."""
    rng = np.random.default_rng(4)
    words = rng.integers(0, 256, (ROWS, GROUPS * GROUP))
    columns = [g * GROUP + c for g, c in enumerate(READ)]
    label = 0b1011_0110
    # The last word that the key reads makes its sum right; in a full row one linear system does so for all keys.
    words[ROW, columns[-1]] = (label - int(words[ROW, columns[:-1]].sum())) % 256
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" role="img">',
        "<title>What a key touches in a hashed table</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>',
        rect(0, 0, WIDTH, HEIGHT, PAPER, PAPER),
    ]
    # The key and its bits.
    parts.append(text(30, 40, "1  the key", size=16, anchor="start", font_weight="bold"))
    for i, token in enumerate("KJFK"):
        parts.append(rect(30 + 40 * i, 56, 34, 30, "#f8fafc", INK))
        parts.append(text(47 + 40 * i, 77, token, size=16, font_family=MONO))
    parts.append(text(30, 112, "heads copy the tokens' codes,", size=13, fill=GREY, anchor="start"))
    parts.append(text(30, 129, "ReLUs make hash bits of them", size=13, fill=GREY, anchor="start"))
    for height, name, values, colour in (
        (160, "row bits", "101", BLUE),
        (226, "column bits, two a group", "10001101", ORANGE),
        (292, "choice of a digit", "01101001", GREEN),
    ):
        parts.append(text(30, height - 6, name, size=13, anchor="start", fill=colour))
        parts.append(bits(30, height, values, colour))
    # The table.
    left, top, wide, high = 270.0, 92.0, 30.0, 28.0
    title = "2  the table: one row, one word of every group"
    parts.append(text(left, 40, title, size=16, anchor="start", font_weight="bold"))
    gap = 14.0
    for r in range(ROWS):
        for c in range(GROUPS * GROUP):
            x, y = left + c * wide + (c // GROUP) * gap, top + r * high
            own, read = r == ROW, c in columns
            fill = PALE[ORANGE] if own and read else PALE[BLUE] if own else PAPER
            edge = ORANGE if own and read else BLUE if own else RULE
            parts.append(rect(x, y, wide, high, fill, edge, 2.2 if own and read else 1.0))
            ink = INK if own and read else GREY if own else "#cbd5e1"
            parts.append(text(x + wide / 2, y + 19, str(words[r, c]), size=12, fill=ink, font_family=MONO))
    for g in range(GROUPS):
        x = left + g * (GROUP * wide + gap) + GROUP * wide / 2
        parts.append(text(x, top - 10, f"group {g + 1}", size=13, fill=ORANGE))
    below = "R rows of w words of q bits; a word that no key needs stays random"
    parts.append(text(left, top + ROWS * high + 22, below, size=13, fill=GREY, anchor="start"))
    parts.append(arrow(80, 170, left - 4, top + ROW * high + high / 2, BLUE))
    # The sum.
    y = top + ROWS * high + 62
    parts.append(text(left, y, "3  their sum modulo 2^q", size=16, anchor="start", font_weight="bold"))
    read_words = [int(words[ROW, c]) for c in columns]
    line = " + ".join(map(str, read_words)) + f" = {sum(read_words)} = {label} modulo 256"
    parts.append(text(left, y + 28, line, size=15, anchor="start", font_family=MONO, fill=ORANGE))
    # The digits.
    x = left + 440
    parts.append(text(x, y, "4  the key's digit of it", size=16, anchor="start", font_weight="bold"))
    for i, one in enumerate(f"{label:08b}"):
        chosen = i >= 4
        at, ink = x + 20 * i + 8 * chosen, INK if chosen else GREY
        parts.append(rect(at, y + 11, 20, 26, PALE[GREEN] if chosen else PAPER, GREEN if chosen else RULE))
        parts.append(text(at + 10, y + 29, one, size=15, font_family=MONO, fill=ink))
    parts.append(text(x + 40, y + 54, "digit 1", size=13, fill=GREY))
    parts.append(text(x + 128, y + 54, "digit 0", size=13, fill=GREEN))
    parts.append(arrow(x - 50, y + 24, x - 6, y + 24, ORANGE))
    parts.append(text(x + 184, y + 30, "label 6 of 16", size=16, font_weight="bold", fill=GREEN, anchor="start"))
    last = (
        "Another key of the row reads other words, or another digit of the same ones; "
        "linear systems over GF(2), bit by bit, serve all of them at once."
    )
    parts.append(text(30, HEIGHT - 18, last, size=13, anchor="start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    (IMAGES / "hashed_table.svg").write_text(picture(), encoding="utf-8")
    print("docs/images/hashed_table.svg")
