"""Figures as data: there and back, refusals, words for those who do not see, and files that are the same each time."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rote.errors import DataError, UnknownName, UsageError
from rote.plot import Axis, Figure, Heat, Panel, Series, describe, read_figure
from rote.plot.colours import LIGHT, slots
from rote.plot.draw import FORMATS, colours_of, draw, picture
from rote.plot.interactive import plots


def example() -> Figure:
    points = Series("a", "points", (1.0, 2.0, 4.0), (0.1, 0.2, 0.4), (0.05, 0.15, 0.35), (0.15, 0.25, 0.45))
    law = Series("a: linear fit", "fit", (1.0, 4.0), (0.1, 0.4))
    printed = Series("published", "published", (1.0,), (0.12,))
    bound = Series("counting", "bound_upper", (1.0, 4.0), (50.0, 50.0))
    panels = (
        Panel("left", Axis("heads H"), Axis("accuracy"), (points, law, printed, bound)),
        Panel("right", Axis("parameters", "log"), Axis("facts", "log"), (Series("b", "line", (1, 10), (2, 20)),)),
    )
    return Figure("Title", panels, "Caption.", describe(panels))


def test_a_figure_goes_to_json_and_back(tmp_path: Path) -> None:
    figure = example()
    figure.write(tmp_path / "figure.json")
    assert read_figure(tmp_path / "figure.json") == figure
    assert Figure.from_dict(figure.to_dict()) == figure
    assert [path.name for path in tmp_path.iterdir()] == ["figure.json"]


def test_the_text_alternative_says_what_one_sees() -> None:
    alt = example().alt
    assert "left: accuracy against heads H. a goes from 0.1 at 1 to 0.4 at 4" in alt
    assert "published: 0.12 at 1" in alt
    assert "counting runs level at 50" in alt


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_data_give_the_same_file(kind: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        draw(example(), tmp_path / f"{name}.{kind}")
    first = (tmp_path / f"one.{kind}").read_bytes()
    assert len(first) > 3000
    assert first == (tmp_path / f"two.{kind}").read_bytes()


def test_fits_have_the_colour_of_their_points() -> None:
    points, law, printed, bound = colours_of(example().panels[0])
    assert points == law == LIGHT["series-1"] and bound == LIGHT["upper"]
    assert printed != points


def test_series_belong_by_their_names() -> None:
    def kinds(*named: tuple[str, str]) -> list[int | None]:
        return slots([Series(name, kind, (1,), (1,)) for name, kind in named])

    assert kinds(("a", "line"), ("a: at most", "line"), ("b", "line"), ("a: set aside", "excluded")) == [0, 0, 1, 0]
    assert kinds(("d = 10, ours", "points"), ("d = 10, published", "published")) == [0, 0]
    assert kinds(("a", "points"), ("a: more", "points"), ("fit", "fit")) == [0, 1, None]


def test_heat_maps_texts_and_names_at_the_ends() -> None:
    heat = Heat("share of rows", ("1", "2"), ("1", "2", "3"), ((0, 1), (0.5, 0), (0, 0)))
    line = Series("a line that ends early", "line", (1, 10, 100), (1, 2, 3), texts=("", "", "here"))
    bound = Series("lower: a theorem", "bound_lower", (1, 1e6), (1, 2))
    panels = (
        Panel("", Axis("x", "log"), Axis("y", "symlog"), (line, bound), names="ends"),
        Panel("heads", Axis("layer"), Axis("head"), heat=heat),
    )
    figure = Figure("Both", panels, "", describe(panels))
    assert Figure.from_dict(figure.to_dict()) == figure
    assert "heads: share of rows, from 0 to 1." in figure.alt
    drawn = picture(figure, "svg")
    assert drawn.startswith(b"<?xml") and drawn == picture(figure, "svg")
    shown, hot = plots(figure)
    assert shown.data[0]["text"][2] == "here" and shown.layout["yaxis"]["type"] == "linear"
    assert hot.data[0]["z"] == [[0, 1], [0.5, 0], [0, 0]] and hot.legend == ()
    with pytest.raises(UsageError, match="3 rows of 2 values"):
        Heat("a", ("1", "2"), ("1", "2", "3"), ((1, 2), (3, 4)))
    with pytest.raises(UsageError, match="not finite"):
        Heat("a", ("1",), ("1",), ((float("nan"),),))
    with pytest.raises(UnknownName, match="place for names"):
        Panel("", Axis("x"), Axis("y"), names="end")


def test_old_figures_are_read_and_written_as_they_were() -> None:
    files = sorted((Path(__file__).parents[2] / "docs" / "results").rglob("figure*.json"))
    assert len(files) > 20
    for file in files:
        assert read_figure(file).to_dict() == json.loads(file.read_text(encoding="utf-8"))


def test_notebooks_show_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = example()
    assert repr(figure) == "Figure('Title', 2 panels)"
    assert figure._repr_html_().startswith('<img alt="left: accuracy against heads H.')
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "rote-transformers[plots]" in figure._repr_html_() and "<img" not in figure._repr_html_()


def test_what_is_wrong_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="kind of series"):
        Series("a", "point", (1,), (1,))
    with pytest.raises(UsageError, match="2 places and 1 values"):
        Series("a", "points", (1, 2), (1,))
    with pytest.raises(UsageError, match="not finite"):
        Series("a", "points", (1,), (float("nan"),))
    with pytest.raises(UsageError, match="both ends"):
        Series("a", "points", (1,), (1,), (0,))
    with pytest.raises(UnknownName, match="scale"):
        Axis("x", "cubic")
    with pytest.raises(DataError, match="no figure of rote"):
        Figure.from_dict({"title": "a"})
    with pytest.raises(DataError, match="there is no file"):
        read_figure(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("[", encoding="utf-8")
    with pytest.raises(DataError, match="no valid JSON"):
        read_figure(tmp_path / "bad.json")
    with pytest.raises(UsageError, match=r"\.png, \.svg or \.pdf"):
        draw(example(), tmp_path / "a.gif")
    with pytest.raises(UsageError, match="no panels"):
        draw(Figure("t", ()), tmp_path / "a.png")
