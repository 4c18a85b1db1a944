"""The picture of an audit: `data` picks the numbers, `draw` only draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Curves", "Panels", "data", "draw"]


@dataclass(frozen=True)
class Curves:
    """One model over its layers."""

    name: str
    layers: tuple[int, ...]
    full_rank: tuple[float | None, ...]
    sampled: tuple[float, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    stable: tuple[float, ...]
    rank_z: tuple[int | None, ...]
    real: tuple[int, ...]
    binary: tuple[int, ...]


@dataclass(frozen=True)
class Panels:
    """All that the figure shows."""

    title: str
    context: int
    samples: int
    d_model: int
    curves: tuple[Curves, ...]
    saturation: npt.NDArray[np.float64]
    """(blocks, heads), of the model as stored."""
    blocks: tuple[int, ...]


def data(record: Mapping[str, Any]) -> Panels:
    """The numbers of the figure, from an audit's `to_dict()` or the `audit.json` that it wrote."""
    with_heads = [layer for layer in record["layers"] if layer["heads"]]
    grid = [[head["saturated_rows"] for head in layer["heads"]] for layer in with_heads]
    curves = [_curves("as stored", record["layers"])]
    if record["reinitialised"]:
        curves.append(_curves("fresh weights", record["reinitialised"]))
    return Panels(
        title=f"{record['model']}: {record['samples']:,} windows of {record['tokens']} tokens",
        context=record["tokens"],
        samples=record["samples"],
        d_model=record["shape"]["d_model"],
        curves=tuple(curves),
        saturation=np.array(grid, dtype=np.float64).reshape(len(grid), -1),
        blocks=tuple(layer["layer"] for layer in with_heads),
    )


def _curves(name: str, layers: Sequence[Mapping[str, Any]]) -> Curves:
    return Curves(
        name=name,
        layers=tuple(x["layer"] for x in layers),
        full_rank=tuple(x["share_full_rank"] for x in layers),
        sampled=tuple(x["sampled"]["share"] for x in layers),
        lower=tuple(x["kruskal"]["lower"] for x in layers),
        upper=tuple(x["kruskal"]["upper"] for x in layers),
        stable=tuple(x["stable_rank_centred"] for x in layers),
        rank_z=tuple(x["rank_z"]["lower"] if x["rank_z"] else None for x in layers),
        real=tuple(x["readout"]["real"] for x in layers),
        binary=tuple(x["readout"]["binary"] for x in layers),
    )


_LOOKS = (("#93b4f5", 3.4), ("#c2410c", 1.2))


def draw(panels: Panels, folder: Path, name: str = "audit") -> list[Path]:
    """Write NAME.svg and NAME.png into `folder`."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    style: dict[Any, Any] = {
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "rote",
        "svg.fonttype": "path",
    }
    with mpl.rc_context(style):
        figure, grid = plt.subplots(2, 3, figsize=(12.0, 6.4), constrained_layout=True)
        figure.suptitle(panels.title, fontsize=11, x=0.01, ha="left")
        shares, ranks, stable, rank_z, labels, heads = grid.ravel()
        for curve, (colour, wide) in zip(panels.curves, _LOOKS, strict=False):
            x = curve.layers
            mpl.rcParams["lines.linewidth"] = wide  # the second lies on the first without hiding it
            mpl.rcParams["lines.markersize"] = wide + 2.2
            known = [(i, v) for i, v in zip(x, curve.full_rank, strict=True) if v is not None]
            shares.plot(*zip(*known, strict=True), "o-", color=colour, label=f"contexts, {curve.name}")
            shares.plot(x, curve.sampled, "s--", color=colour, label=f"sets of queries, {curve.name}")
            ranks.fill_between(x, curve.lower, curve.upper, color=colour, alpha=0.18, lw=0)
            ranks.plot(x, curve.lower, "-", color=colour, marker="^", label=f"proved, {curve.name}")
            ranks.plot(x, curve.upper, "-", color=colour, marker="v", label=f"at most, {curve.name}")
            stable.plot(x, curve.stable, "o-", color=colour, label=curve.name)
            pairs = [(i, v) for i, v in zip(x, curve.rank_z, strict=True) if v is not None]
            if pairs:
                rank_z.plot(*zip(*pairs, strict=True), "o-", color=colour, label=curve.name)
            labels.plot(x, curve.real, "o-", color=colour, label=f"real, {curve.name}")
            labels.plot(x, curve.binary, "s--", color=colour, label=f"binary, {curve.name}")
        shares.set_title("a   Independent: windows, and random sets of queries", fontsize=9.5, loc="left")
        shares.set_ylabel("share")
        shares.set_ylim(-0.04, 1.04)
        ranks.set_title("b   Kruskal rank of the queries", fontsize=9.5, loc="left")
        ranks.axhline(min(panels.context, panels.samples), color="#888888", lw=0.8, ls=":")
        ranks.set_yscale("symlog", linthresh=1)
        ranks.set_ylim(0, 2 * max(max(curve.upper) for curve in panels.curves))
        ranks.set_ylabel("interval (dotted: needed)")
        stable.set_title("c   Stable rank of the queries, centred", fontsize=9.5, loc="left")
        stable.set_ylim(bottom=0)
        rank_z.set_title(f"d   Rank of the head outputs (of {panels.samples:,})", fontsize=9.5, loc="left")
        rank_z.set_ylim(0, 1.08 * panels.samples)
        labels.set_title("e   Random labels that a linear readout holds", fontsize=9.5, loc="left")
        labels.set_ylim(bottom=0)
        for axes in (shares, ranks, stable, rank_z, labels):
            axes.set_xlabel("layer (0: embeddings)")
            axes.grid(True, color="#eeeeee", lw=0.7)
            axes.set_axisbelow(True)
        for axes in (shares, ranks, labels, stable):
            axes.legend(frameon=False, fontsize=7.5)
        if panels.saturation.size:
            image = heads.imshow(panels.saturation.T, aspect="auto", cmap="viridis", vmin=0, vmax=1, origin="lower")
            heads.set_xticks(range(len(panels.blocks)), [str(b) for b in panels.blocks], fontsize=7)
            heads.set_yticks(range(panels.saturation.shape[1]), [str(h + 1) for h in range(panels.saturation.shape[1])])
            heads.set_xlabel("layer")
            heads.set_ylabel("head")
            figure.colorbar(image, ax=heads, label="share of rows")
        heads.set_title("f   Saturated rows (a weight above 0.99)", fontsize=9.5, loc="left")
        folder.mkdir(parents=True, exist_ok=True)
        made = [folder / f"{name}.svg", folder / f"{name}.png"]
        figure.savefig(made[0], facecolor="white", metadata={"Date": None})
        figure.savefig(made[1], facecolor="white", dpi=140, metadata={"Software": None})
        plt.close(figure)
    return made
