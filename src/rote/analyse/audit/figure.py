"""What an audit shows, layer by layer: five panels of lines, and the saturation of every head as a heat map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rote.plot import Axis, Figure, Heat, Panel, Series, describe

__all__ = ["audit_figure"]

_X = Axis("layer (0: embeddings)")
Layers = Sequence[Mapping[str, Any]]
Value = Callable[[Mapping[str, Any]], float | None]


def audit_figure(record: Mapping[str, Any]) -> Figure:
    """The figure of an audit, from its `to_dict()` or from the `audit.json` that it wrote."""
    models = {"as stored": record["layers"]}
    if record["reinitialised"]:
        models["fresh weights"] = record["reinitialised"]
    context, samples = record["context"], record["samples"]

    def panel(
        title: str, label: str, *values: tuple[str, Value], scale: str = "linear", needed: int = 0, banded: bool = False
    ) -> Panel:
        series = [
            one
            for name, layers in models.items()
            for more, value in values
            if (one := _line(f"{name}: {more}" if more else name, layers, value, values[0][1] if banded else None)).x
        ]
        places = [x for one in series for x in one.x]
        if needed and places:
            series.append(Series("needed", "reference", (min(places), max(places)), (needed, needed)))
        return Panel(title, _X, Axis(label, scale), tuple(series))

    with_heads = [layer for layer in record["layers"] if layer["heads"]]
    n_heads = len(with_heads[0]["heads"]) if with_heads else 0
    heat = Heat(
        "share of rows",
        tuple(str(layer["layer"]) for layer in with_heads),
        tuple(str(head + 1) for head in range(n_heads)),
        tuple(tuple(layer["heads"][head]["saturated_rows"] for layer in with_heads) for head in range(n_heads)),
    )
    panels = (
        panel(
            "a   Independent: windows, and random sets of queries",
            "share",
            ("", lambda layer: layer["share_full_rank"]),
            ("sets of queries", lambda layer: layer["sampled"]["share"]),
        ),
        panel(
            "b   Kruskal rank of the queries",
            "rank",
            ("", lambda layer: layer["kruskal"]["lower"]),
            ("at most", lambda layer: layer["kruskal"]["upper"]),
            scale="symlog",
            needed=min(context, samples),
            banded=True,
        ),
        panel("c   Stable rank of the queries, centred", "stable rank", ("", lambda one: one["stable_rank_centred"])),
        panel(
            f"d   Rank of the head outputs (of {samples:,})",
            "rank",
            ("", lambda layer: layer["rank_z"] and layer["rank_z"]["lower"]),
        ),
        panel(
            "e   Random labels that a linear readout holds",
            "labels",
            ("", lambda layer: layer["readout"]["real"]),
            ("binary labels", lambda layer: layer["readout"]["binary"]),
        ),
        Panel("f   Saturated rows (a weight above 0.99)", Axis("layer"), Axis("head"), heat=heat),
    )
    title = f"{record['model']}: {samples:,} windows of {context} tokens"
    return Figure(title, panels, "\n".join(record["reading"]), describe(panels))


def _line(name: str, layers: Layers, value: Value, low: Value | None) -> Series:
    """A value over the layers; with `low`, and a band down to that."""
    known = [layer for layer in layers if value(layer) is not None]
    y = tuple(float(value(layer) or 0) for layer in known)
    band = None if low is None else tuple(float(low(layer) or 0) for layer in known)
    return Series(name, "line", tuple(float(layer["layer"]) for layer in known), y, band, None if low is None else y)
