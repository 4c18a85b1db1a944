"""Figures for a browser: the traces have the numbers of the figure, and nothing far away flattens what was measured."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rote.plot import SERIES_KINDS, Axis, Figure, Heat, Panel, Series
from rote.plot.interactive import plot, plots

X = (1.0, 2.0, 4.0)
Y = (3.0, 5.0, 9.0)


def _panel(*series: Series, scale: str = "linear") -> Panel:
    return Panel("a panel", Axis("heads", scale), Axis("facts", scale), series)


@pytest.mark.parametrize("kind", SERIES_KINDS)
def test_every_kind_keeps_its_numbers(kind: str) -> None:
    low, high = tuple(y - 1 for y in Y), tuple(y + 2 for y in Y)
    made = plot(_panel(Series("one", kind, X, Y, low, high)))
    (entry,) = made.legend
    last: dict[str, Any] = made.data[entry.members[-1]]
    assert last["x"] == list(X) and last["y"] == list(Y) and entry.shown
    if kind in ("points", "excluded", "published"):
        assert last["error_y"]["array"] == [2.0] * 3 and last["error_y"]["arrayminus"] == [1.0] * 3
    else:
        band = made.data[entry.members[0]]
        assert band["x"] == [*X, *reversed(X)] and band["y"] == [*low, *reversed(high)]
        assert len(entry.members) == 2
    json.dumps(made.data, allow_nan=False)


def test_a_fit_has_the_colour_of_its_points() -> None:
    made = plot(
        _panel(
            Series("trained", "points", X, Y),
            Series("trained: best", "points", X, Y),
            Series("trained: best: linear", "fit", X, Y),
            Series("published: trained", "published", X, Y),
            Series("alone", "fit", X, Y),
        )
    )
    colours = [entry.colour for entry in made.legend]
    assert colours == ["--series-1", "--series-2", "--series-2", "--series-1", "--ink"]


@pytest.mark.parametrize(("scale", "factor", "shown"), [("linear", 2, True), ("linear", 9, False), ("log", 9, True)])
def test_bounds_far_beyond_start_switched_off(scale: str, factor: float, shown: bool) -> None:
    bound = Series("upper", "bound_upper", X, tuple(factor * y for y in Y))
    made = plot(_panel(Series("trained", "points", X, Y), bound, scale=scale))
    assert made.legend[1].shown is shown
    assert made.data[1]["visible"] is shown
    # A figure of bounds alone shows them.
    assert plot(_panel(bound, scale=scale)).legend[0].shown


def test_texts_are_escaped_for_the_browser_and_kept_for_the_legend() -> None:
    made = plot(Panel("", Axis("<i>x</i>"), Axis("y & z"), (Series("<a href='javascript:1'>", "line", X, Y),)))
    assert made.layout["xaxis"]["title"]["text"] == "&lt;i&gt;x&lt;/i&gt;"
    assert made.layout["yaxis"]["title"]["text"] == "y &amp; z"
    assert "<" not in made.data[0]["name"]
    assert made.legend[0].name == "<a href='javascript:1'>"


def test_ticks_suit_the_numbers() -> None:
    assert plot(_panel(Series("a", "points", X, Y))).layout["xaxis"]["dtick"] == 1
    assert "dtick" not in plot(_panel(Series("a", "points", (0.5, 1.0, 2.0), Y))).layout["xaxis"]
    wide = plot(_panel(Series("a", "points", (1.0, 10.0, 1000.0), Y), scale="log")).layout
    assert wide["xaxis"]["dtick"] == 1 and "dtick" not in wide["yaxis"]
    assert plot(_panel(Series("a", "points", (1.0, 5.0, 10.0), Y), scale="log")).layout["xaxis"]["dtick"] == "D2"

    far = plot(_panel(Series("a", "points", (1.0, 1e3, 1e12), Y), scale="log")).layout["xaxis"]
    assert far["dtick"] == 2


def test_names_stand_for_whole_numbers_and_heat_maps_have_categories() -> None:
    named = Panel("", Axis("x"), Axis("", names=("a<b", "c")), (Series("s", "points", (1.0, 2.0), (0.0, 1.0)),))
    assert plot(named).layout["yaxis"]["ticktext"] == ["a&lt;b", "c"]
    assert Figure.from_dict(Figure("f", (named,)).to_dict()) == Figure("f", (named,))
    heat = Panel("", Axis("x"), Axis("y"), heat=Heat("h", ("1", "2"), ("r",), ((0.0, 1.0),)))
    assert plot(heat).layout["xaxis"]["type"] == plot(heat).layout["yaxis"]["type"] == "category"


def test_an_empty_panel_is_a_plot_too() -> None:
    figure = Figure("nothing", (_panel(), _panel(Series("none", "points", (), ()))))
    first, second = plots(figure)
    assert first.data == () and second.data[0]["x"] == []
