"""The colours of figures, for paper and for pages in light and dark, and which series has which.

Told apart by people with the common kinds of colour blindness, and standing out on their ground: at least 3 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from rote.plot.figure import Series

__all__ = ["DARK", "LIGHT", "N_COLOURS", "css", "slots"]

_SERIES = ("#1f4e8c", "#c2410c", "#2a7f62", "#8e44ad", "#8f6a05", "#0e7490", "#9f1239", "#4d4d4d")
_SERIES_DARK = ("#7db0f5", "#ff9a62", "#5fd0a8", "#d09bea", "#e6c04f", "#4cc7e4", "#ff8aa8", "#c4c4c4")
N_COLOURS = len(_SERIES)
"""Further series begin again."""
LIGHT = {
    **{f"series-{i}": colour for i, colour in enumerate(_SERIES, 1)},
    "ink": "#1c1c1a", "lower": "#1d4ed8", "upper": "#111111", "reference": "#6b6b6b",
}  # fmt: skip
DARK = {
    **{f"series-{i}": colour for i, colour in enumerate(_SERIES_DARK, 1)},
    "ink": "#ececea", "lower": "#8fb4ff", "upper": "#f2f2f0", "reference": "#a5a5a5",
}  # fmt: skip


def css() -> str:
    """The colours as CSS variables, such as --series-1 and, for bands, --series-1-soft; by system and by data-theme."""
    dark = _variables(DARK, 0.22)
    return (
        f":root {{ {_variables(LIGHT, 0.16)} }}\n"
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {dark} }} }}\n'
        f':root[data-theme="dark"] {{ {dark} }}\n'
    )


def _variables(colours: dict[str, str], alpha: float) -> str:
    parts = []
    for name, colour in colours.items():
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        parts.append(f"--{name}: {colour}; --{name}-soft: rgba({red},{green},{blue},{alpha});")
    return " ".join(parts)


def slots(series: Sequence[Series]) -> list[int | None]:
    """A place among the colours for every series; what belongs to another has that one's, and None has no own."""
    taken: dict[str, int] = {}
    for one in series:
        if one.kind == "points" or (one.kind == "line" and not _owners(one, taken)):
            taken.setdefault(one.name, len(taken))
    places: list[int | None] = []
    for one in series:
        owners = [one.name] if one.name in taken else _owners(one, taken)
        places.append(taken[max(owners, key=len)] if owners else None)
    return places


def _owners(one: Series, names: dict[str, int]) -> list[str]:
    """ "NAME: fit" and "published: NAME" belong to NAME; "d = 10, published" to "d = 10, their recipe"."""
    plain = [name for name in names if one.name.startswith(f"{name}: ") or one.name.endswith(f": {name}")]
    if plain or one.kind != "published" or ", " not in one.name:
        return plain
    first = one.name.partition(", ")[0]
    return [name for name in names if name.startswith(f"{first}, ")]
