"""The tests of claims on made-up tables whose answers are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rote.errors import UnknownName, UsageError
from rote.lab.entries.claims import claims, get_claim
from rote.lab.entries.derive import check_derive, derive
from rote.lab.entries.table import Table


def table(records: list[dict[str, Any]], published: list[dict[str, Any]] | None = None) -> Table:
    """Seeds and their means, for tests."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(repr({k: v for k, v in record.items() if k not in ("seed", "y")}), []).append(record)
    rows = [
        {**members[0], "y": float(np.mean([one["y"] for one in members])), "y_low": -9.0, "y_high": 9.0}
        for members in groups.values()
    ]
    return Table(tuple(records), tuple(rows + (published or [])), "y")


def grown(law: Any, noise: float = 0.01, source: str = "train:a", **more: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    return [
        {"x": x, "y": float(law(x) + noise * rng.standard_normal()), "seed": seed, "source": source, **more}
        for x in (1, 2, 3, 4, 5, 6, 7, 8)
        for seed in range(3)
    ]


def decide(kind: str, data: Table, **spec: Any) -> Any:
    get_claim(kind).check({"kind": kind, **spec})
    return get_claim(kind).decide(data, {"kind": kind, **spec})


def test_a_line_and_a_parabola_are_told_apart() -> None:
    bent = table(grown(lambda x: 0.02 * x * x))
    straight = decide("law", table(grown(lambda x: 0.1 * x, 0.001)), x="x", y="y", law="linear")
    assert (straight.numbers["margin"], straight.numbers["beside_margin"]) == (0.1, 0.2)
    assert straight.verdict == "holds" and straight.numbers["bent"] == "hardly"
    assert abs(straight.numbers["bend"]) < 0.05 and straight.numbers["r2"] > 0.999
    assert (
        decide("law", table(grown(lambda x: 0.1 * x, 0.001)), x="x", y="y", law="quadratic", margin=0.1).verdict
        == "does not hold"
    )
    assert decide("law", bent, x="x", y="y", law="linear", margin=0.1).verdict == "does not hold"
    found = decide("law", table(grown(lambda x: 0.02 * x * x, 0.001)), x="x", y="y", law="quadratic", margin=0.1)
    assert found.verdict == "holds" and found.numbers["exponent"] == pytest.approx(2, abs=0.1)
    # y = 0.02 x^2 from 1 to 8: mean slope 0.18, c R / b = 0.02 * 7 / 0.18.
    assert found.numbers["bend"] == pytest.approx(0.02 * 7 / 0.18, abs=0.01) and found.numbers["bent"] == "upwards"
    few = table(grown(lambda x: x)[:6])
    assert decide("law", few, x="x", y="y", law="linear", margin=0.1).verdict == "undecided"
    with pytest.raises(UnknownName, match="law of a test"):
        decide("law", bent, x="x", y="y", law="liner")


def test_series_are_told_apart() -> None:
    data = table([*grown(lambda x: 0.1 * x, 0.001, d=1), *grown(lambda x: 0.02 * x * x, d=2)])
    found = decide("law", data, x="x", y="y", by=["d"], law="linear", margin=0.1)
    assert (found.verdict, found.numbers["holding"], found.numbers["series"]) == ("does not hold", 1, 2)
    assert decide("law", data, x="x", y="y", by=["d"], law="linear", least=0.5, margin=0.1).verdict == "holds"


def test_what_chance_has_a_part_in_is_not_judged_by_one_run() -> None:
    once = Table((), ({"source": "study:a", "y": 0.7, "seeds": 1},), "y")
    assert decide("threshold", once, y="y", at_least=0.5).verdict == "holds"
    found = decide("threshold", once, y="y", at_least=0.5, spread=True)
    assert found.verdict == "undecided" and "one seed has no spread" in found.why
    often = Table((), ({"source": "study:a", "y": 0.7, "y_low": 0.6, "y_high": 0.8, "seeds": 3},), "y")
    assert decide("threshold", often, y="y", at_least=0.5, spread=True).verdict == "holds"


def test_every_open_series_says_what_would_decide_it() -> None:
    """By name: decided series say nothing of seeds, and points without a spread have no interval."""
    data = table([*grown(lambda x: 0.1 * x, 0.001, d_model=4), *grown(lambda x: 0.1 * x, 0.03, d_model=7)])
    found = decide("law", data, x="x", y="y", by=["d_model"], law="linear", margin=0.1)
    sure, open_ = found.numbers["each"].split(" at d = 4; ")
    assert sure.endswith(")") and "open" not in sure
    assert open_.endswith(f"; open, some {found.numbers['seeds_needed']} seeds) at d = 7")
    once = [one for one in grown(lambda x: 0.1 * x, n_facts=20) if one["seed"] == 0]
    single = decide("law", table(once), x="x", y="y", by=["n_facts"], law="linear", margin=0.1)
    assert "(" not in single.numbers["each"] and single.numbers["each"].endswith(" at T = 20")


def test_noise_leaves_it_open_and_says_how_many_seeds_would_decide() -> None:
    found = decide("law", table(grown(lambda x: 0.1 * x, noise=0.03)), x="x", y="y", law="linear", margin=0.1)
    assert found.verdict == "undecided" and found.numbers["open"] == 1
    assert found.numbers["seeds_needed"] > 3 and f"about {found.numbers['seeds_needed']} seeds" in found.why
    once = [one for one in grown(lambda x: 0.1 * x) if one["seed"] == 0]
    single = decide("law", table(once), x="x", y="y", law="linear", margin=0.1)
    assert single.verdict == "undecided" and single.numbers["bend_low"] is None and "one seed" in single.why


def test_a_law_that_wiggles_about_a_line_is_none() -> None:
    wiggle = table(grown(lambda x: 0.1 * x + 0.2 * (-1) ** x, 0.0005))
    found = decide("law", wiggle, x="x", y="y", law="linear", margin=1.0)
    assert found.verdict == "holds" and found.numbers["worst"] > 0.1
    assert decide("law", wiggle, x="x", y="y", law="linear", margin=0.25).verdict == "does not hold"


def test_published_points_have_a_bend_and_no_interval() -> None:
    printed = [{"source": "published", "x": x, "y": 0.1 * x} for x in (1, 2, 3, 4)]
    found = decide("law", table([], printed), x="x", y="y", where=["source=published"], law="linear", margin=0.1)
    assert found.verdict == "undecided" and found.numbers["bend"] == pytest.approx(0)


def test_exponents() -> None:
    data = table(grown(lambda x: x**2.5, noise=0.02))
    assert decide("exponent", data, x="x", y="y", at_least=2, at_most=3).verdict == "holds"
    assert decide("exponent", data, x="x", y="y", at_least=0.5, at_most=1.5).verdict == "does not hold"
    loose = table(grown(lambda x: x**2.0, noise=1.0))
    assert decide("exponent", loose, x="x", y="y", at_least=2, at_most=3).verdict == "undecided"
    assert decide("exponent", table([]), x="x", y="y", at_least=2, at_most=3).verdict == "undecided"


def test_published_points() -> None:
    printed = [{"source": "published", "x": x, "y": 0.1 * x + (0.1 if x == 3 else 0)} for x in (1, 2, 3)]
    data = table(grown(lambda x: 0.1 * x, noise=0), printed)
    found = decide("close", data, y="y", match=["x"], tolerance=0.02)
    assert found.verdict == "does not hold"
    assert (found.numbers["points"], found.numbers["within"], found.numbers["worst_x"]) == (3, 2, 3)
    assert found.numbers["worst"] == pytest.approx(-0.1)
    assert found.numbers["covered"] == 3
    assert decide("close", data, y="y", match=["x"], tolerance=0.2).verdict == "holds"
    assert decide("close", table(grown(lambda x: x)), y="y", match=["x"]).verdict == "undecided"


def test_comparisons() -> None:
    data = table([*grown(lambda x: 2 * x, 0, "train:a"), *grown(lambda x: x, 0, "train:b")])
    sides = {"ours": ["source=train:a"], "theirs": ["source=train:b"], "match": ["x"], "y": "y"}
    found = decide("compare", data, **sides)
    assert found.verdict == "holds" and found.numbers["ratio"] == pytest.approx(2)
    assert decide("compare", data, factor=3, **sides).verdict == "does not hold"
    assert decide("compare", table([]), **sides).verdict == "undecided"


def test_thresholds() -> None:
    data = table(grown(lambda x: x, 0))
    for row in data.rows:
        row["y_low"], row["y_high"] = row["y"] - 0.5, row["y"] + 0.5
    assert decide("threshold", data, y="y", at_least=0.5, at_most=8.5).verdict == "holds"
    found = decide("threshold", data, y="y", at_least=2.8)
    assert (found.numbers["inside"], found.numbers["open"]) == (5, 3)
    assert decide("threshold", data, y="y", at_least=2.8, least=0.6).verdict == "holds"
    assert decide("threshold", data, y="y", at_least=20).verdict == "does not hold"
    exact = Table((), ({"y": 1.0, "source": "a"},), "y")
    assert decide("threshold", exact, y="y", at_least=1).verdict == "holds"
    assert decide("threshold", data, y="z").verdict == "undecided"


def test_growth_and_plateaus() -> None:
    flat = table(grown(lambda x: min(x, 4), 0))
    assert decide("monotone", flat, x="x", y="y").verdict == "holds"
    assert decide("monotone", flat, x="x", y="y", until=4).verdict == "holds"
    assert decide("monotone", flat, x="x", y="y", until=2).verdict == "does not hold"
    found = decide("monotone", table(grown(lambda x: -x, 0)), x="x", y="y")
    assert found.verdict == "does not hold" and found.numbers["gain_before"] == -7
    assert decide("monotone", table([]), x="x", y="y").verdict == "undecided"


def test_kinks() -> None:
    bent = table(grown(lambda x: 0.1 * min(x, 4) + 0.02 * max(0, x - 4)))
    found = decide("kink", bent, x="x", y="y", at=4)
    assert found.verdict == "holds"
    assert found.numbers["slope_before"] == pytest.approx(0.1, abs=0.02)
    assert found.numbers["change_high"] < 0 and found.numbers["cv_kink"] < found.numbers["cv_line"]
    up = table(grown(lambda x: 0.1 * x + 0.1 * max(0, x - 4), 1e-3))
    assert decide("kink", up, x="x", y="y", at=4).verdict == "does not hold"
    assert (
        decide("kink", table(grown(lambda x: 0.1 * x, 1e-3)), x="x", y="y", at=4, factor=0.5).verdict == "does not hold"
    )
    assert decide("kink", bent, x="x", y="y", at=8).verdict == "undecided"


def test_bounds() -> None:
    shape = {"d_model": 4, "d_head": 4, "vocab": 30, "context": 2}
    rows = [{"n_heads": h, "y": 8.0 * h + 8, "seed": 0, "source": "train:a", **shape} for h in (1, 2, 3)]
    found = decide("bound", table(rows), y="y", theorem="dana2025_cor1", at_least=1)
    assert found.verdict == "holds" and found.numbers["ratio"] == pytest.approx(2)
    assert decide("bound", table(rows), y="y", theorem="dana2025_cor1", at_most=1).verdict == "does not hold"
    once = decide("bound", table(rows), y="y", theorem="dana2025_cor1", slope="n_heads", at_most=3)
    assert once.verdict == "undecided" and once.numbers["slope_measured"] == pytest.approx(8)
    twice = table([{**row, "seed": seed, "y": float(str(row["y"])) + 0.1 * seed} for row in rows for seed in (0, 1)])
    slope = decide("bound", twice, y="y", theorem="dana2025_cor1", slope="n_heads", at_most=3)
    assert slope.verdict == "holds" and slope.numbers["ratio_low"] < 2 < slope.numbers["ratio_high"]
    shares: list[dict[str, Any]] = [
        {**row, "published_metric": float(str(row["y"])) / 900, "n_facts": 900} for row in rows
    ]
    held = decide("bound", table(shares), y="published_metric", theorem="dana2025_cor1").numbers["ratio"]
    assert held < 2  # what guessing brings is taken off
    assert decide("bound", table([]), y="y", theorem="dana2025_cor1").verdict == "undecided"


def test_derived_columns() -> None:
    records = [{**one, "n_heads": one["x"], "d_model": 5, "d_mlp": 20} for one in grown(lambda x: 3 * x, 0)]
    keys = [["x"] for _ in records]
    derive(records, keys, {"kind": "size", "to": "size"})
    assert records[0]["size"] == 1 + 20 / 10
    derive(records, keys, {"kind": "ratio", "over": "x", "under": "d_model", "to": "part"})
    assert records[0]["part"] == 0.2
    named = {"kind": "column", "to": "word", "values": [{"where": ["x<3"], "value": "few"}, {"value": "many"}]}
    derive(records, keys, named)
    assert [one["word"] for one in records[::3]] == ["few", "few", *["many"] * 6]
    derive(records, keys, {"kind": "slope", "x": "x", "y": "y", "by": ["source"], "to": "slope"})
    assert [one["slope"] for one in records[24:]] == pytest.approx([3, 3, 3])
    assert len(keys) == len(records) == 27
    with pytest.raises(UnknownName, match="did you mean 'slope'"):
        check_derive({"kind": "slop"})
    with pytest.raises(UsageError, match="needs to"):
        check_derive({"kind": "size"})


@pytest.mark.parametrize("kind", sorted(claims()))
def test_every_claim_refuses_unknown_keys_and_says_what_it_is(kind: str) -> None:
    assert claims()[kind].title.endswith("?")
    with pytest.raises(UnknownName, match="key of the test"):
        claims()[kind].check({"kind": kind, "nonsense": 1})
