"""The records of an audit, and what they say in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rote import theorems
from rote.analyse.audit._models import AuditedModel
from rote.analyse.audit._readout import Readout, readout
from rote.analyse.audit._watch import ROUNDOFF, SATURATED, Seen
from rote.analyse.audit.figure import audit_figure
from rote.assumptions._independence import Rows
from rote.assumptions._kruskal import Kruskal, kruskal
from rote.assumptions._sampling import Share
from rote.config import Architecture
from rote.models.folders import write_directory, write_json
from rote.plot import Figure, Grid, Pictured, Sheet
from rote.plot.draw import need_matplotlib
from rote.plot.sheet import number
from rote.theorems import Setting

__all__ = ["Audit", "HeadReport", "LayerReport", "layer_report", "ranges", "reading"]

_EFFORT = 0.1
_SUBSETS = 2_000


@dataclass(frozen=True)
class HeadReport:
    """One head: how often it looks at one token only, and which examples it serves.

    A head serves an example if its attention at the query is spread (no weight above 0.99), as in the proof of Theorem
    1 of Mahdavi et al. 2024, where every head is saturated on all examples but its own.
    """

    head: int
    saturated_rows: float
    saturated_queries: float
    serves: int
    examples: str


@dataclass(frozen=True)
class LayerReport:
    """The states after so many blocks (0: what enters the first), and the heads of the block that made them."""

    layer: int
    n_examples: int
    context: int
    full_rank: int | None
    doubtful: int | None
    kruskal: Kruskal
    sampled: Share
    position: Share
    stable_rank: float
    stable_rank_centred: float
    """Of the queries less their mean, which otherwise hides everything else."""
    context_stable_rank: float | None
    rank_z: tuple[int, int] | None
    rank_z_limit: int | None
    heads: tuple[HeadReport, ...]
    labels: Readout
    promise: dict[str, Any]

    @property
    def share_full_rank(self) -> float | None:
        return None if self.full_rank is None else self.full_rank / self.n_examples

    @property
    def saturation(self) -> float | None:
        return float(np.mean([h.saturated_rows for h in self.heads])) if self.heads else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "n_examples": self.n_examples,
            "context": self.context,
            "share_full_rank": self.share_full_rank,
            "contexts_doubtful": self.doubtful,
            "kruskal": {
                "lower": self.kruskal.lower,
                "upper": self.kruskal.upper,
                "lower_by": self.kruskal.lower_by,
                "upper_by": self.kruskal.upper_by,
                "witness": list(self.kruskal.witness),
                "distinct_directions": self.kruskal.n_classes,
                "rank": {"lower": self.kruskal.rank.lower, "upper": self.kruskal.rank.upper},
            },
            "sampled": self.sampled.to_dict(),
            "general_position": self.position.to_dict(),
            "stable_rank": self.stable_rank,
            "stable_rank_centred": self.stable_rank_centred,
            "context_stable_rank": self.context_stable_rank,
            "rank_z": None
            if self.rank_z is None
            else {"lower": self.rank_z[0], "upper": self.rank_z[1], "limit": self.rank_z_limit},
            "saturation": self.saturation,
            "heads": [asdict(head) for head in self.heads],
            "readout": self.labels.to_dict(),
            "promise": self.promise,
        }


@dataclass(frozen=True, repr=False)
class Audit(Pictured):
    """A model held against the assumptions, layer by layer; perhaps beside the same model with fresh weights."""

    model: str
    kind: str
    query: str
    text: str
    context: int
    """Tokens in a window."""
    samples: int
    seed: int
    shape: dict[str, int]
    layers: tuple[LayerReport, ...]
    fresh: tuple[LayerReport, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "kind": self.kind,
            "query": self.query,
            "text": self.text,
            "context": self.context,
            "samples": self.samples,
            "seed": self.seed,
            "shape": self.shape,
            "layers": [layer.to_dict() for layer in self.layers],
            "reinitialised": [layer.to_dict() for layer in self.fresh] or None,
            "reading": reading(self),
        }

    def figure(self) -> Figure:
        """What changes from layer to layer, as data; `figure().draw("audit.png")` draws it."""
        return audit_figure(self.to_dict())

    def sheet(self) -> Sheet:
        """A table of the layers, of the model as stored and with fresh weights, and the reading."""
        s = self.shape
        lead = (
            f": {self.kind}, {s['n_layers']} layers, {s['n_heads']} heads of {s['d_head']}, d_model {s['d_model']}; "
            f"{self.samples:,} windows of {self.context} tokens of {self.text}, the {self.query} token asks"
        )
        models = (("as stored", self.layers), ("fresh weights", self.fresh))
        grids = tuple(Grid(_COLUMNS, tuple(map(_cells, layers)), name) for name, layers in models if layers)
        return Sheet(self.model, lead, grids=grids, notes=tuple(reading(self)))

    def write(self, folder: str | Path) -> None:
        """A new directory: audit.json, the tables and the reading as reading.md, the figure as .svg and .png."""
        sheet, figure = self.sheet(), self.figure()

        def fill(part: Path) -> None:
            write_json(part / "audit.json", self.to_dict())
            page = [f"# Audit of {sheet.title}", f"{sheet.title}{sheet.lead}.", *map(_markdown, sheet.grids)]
            page += ["\n".join(f"- {sentence}" for sentence in sheet.notes)]
            page += ["![What changes from layer to layer](audit.svg)"]
            (part / "reading.md").write_text("\n\n".join(page) + "\n", encoding="utf-8")
            for kind in ("svg", "png"):
                figure.draw(part / f"audit.{kind}")

        need_matplotlib()
        write_directory(Path(folder), fill)

    def __repr__(self) -> str:
        layers = f"{len(self.layers)} {'layer' if len(self.layers) == 1 else 'layers'}"
        beside = ", beside fresh weights" if self.fresh else ""
        return f"Audit({self.model}: {layers}, {self.samples:,} windows of {self.context} tokens{beside})"


_COLUMNS = (
    "layer", "full rank", "Kruskal rank", "sets independent", "stable rank", "rank Z", "saturated", "real labels",
    "binary labels", "promised",
)  # fmt: skip


def _cells(x: LayerReport) -> tuple[str, ...]:
    def share(value: float | None) -> str:
        return "–" if value is None else _percent(value)

    low, high = x.kruskal.lower, x.kruskal.upper
    proved, most = x.promise["proved"], x.promise["at_most"]
    return (
        str(x.layer),
        share(x.share_full_rank),
        f"{low}" if low == high else f"{low}..{high}",
        share(x.sampled.share),
        f"{x.stable_rank_centred:.3g}",
        "–" if x.rank_z is None else str(x.rank_z[0]),
        share(x.saturation),
        f"{x.labels.real:,}",
        f"{x.labels.binary:,}{'+' if x.labels.capped else ''}",
        number(proved) if proved == most else f"{number(proved)}..{number(most)}",
    )


def _markdown(grid: Grid) -> str:
    lines = [grid.columns, tuple("--:" for _ in grid.columns), *grid.rows]
    return f"**{grid.title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ranges(indices: Iterable[int]) -> str:
    """Sorted whole numbers as text, `0-4,7,9-11`."""
    parts: list[list[int]] = []
    for i in indices:
        if parts and parts[-1][1] == i - 1:
            parts[-1][1] = i
        else:
            parts.append([i, i])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def layer_report(layer: int, seen: Seen, model: AuditedModel, context: int, rng: np.random.Generator) -> LayerReport:
    """Everything that is said about one layer."""
    queries = np.concatenate(seen.queries)
    count = len(queries)
    of_queries = kruskal(Rows(queries, ROUNDOFF), rng, effort=_EFFORT)
    verdicts = np.concatenate(seen.verdicts) if seen.verdicts else None
    rank_z = limit = None
    heads: tuple[HeadReport, ...] = ()
    if seen.features:
        verdict = Rows(np.concatenate(seen.features), ROUNDOFF).rank()
        rank_z, limit = (verdict.lower, verdict.upper), min(count, model.n_heads * model.d_model)
        heads = _heads(seen)
    full = None if verdicts is None else int(np.sum(verdicts == 1))
    return LayerReport(
        layer=layer,
        n_examples=count,
        context=context,
        full_rank=full,
        doubtful=None if verdicts is None else int(np.sum(verdicts == -1)),
        kruskal=of_queries,
        sampled=of_queries.sample(min(context, count), _SUBSETS, rng),
        position=of_queries.sample(min(model.d_model, count), _SUBSETS // 40, rng),
        stable_rank=_stable_rank(queries),
        stable_rank_centred=_stable_rank(queries - queries.mean(axis=0)),
        context_stable_rank=float(np.concatenate(seen.stable).mean()) if seen.stable else None,
        rank_z=rank_z,
        rank_z_limit=limit,
        heads=heads,
        labels=readout(queries, ROUNDOFF, rng),
        promise=_promise(model, context, of_queries, None if full is None else full == count),
    )


def _stable_rank(matrix: npt.NDArray[np.float64]) -> float:
    """||A||_F^2 / ||A||_2^2, between 1 and the rank; 0 for what is zero up to rounding."""
    values = np.linalg.eigvalsh(matrix.T @ matrix if matrix.shape[0] > matrix.shape[1] else matrix @ matrix.T)
    return float(values.sum() / values[-1]) if values[-1] > 0 else 0.0


def _heads(seen: Seen) -> tuple[HeadReport, ...]:
    rows, peaks = np.concatenate(seen.saturated_rows), np.concatenate(seen.query_peak)
    reports = []
    for head in range(rows.shape[1]):
        spread = np.flatnonzero(peaks[:, head] <= SATURATED)
        share = 1 - len(spread) / len(peaks)
        examples = ranges(int(i) for i in spread)
        reports.append(HeadReport(head, float(rows[:, head].mean()), share, len(spread), examples))
    return tuple(reports)


def _promise(model: AuditedModel, context: int, rank: Kruskal, full: bool | None) -> dict[str, Any]:
    """What Theorem 1 of Mahdavi et al. says about a layer of this shape that reads these states."""
    arch = Architecture(model.n_heads, model.d_model, model.d_head, context, max(2, model.vocab))
    theorem = theorems.get("mahdavi2024_kruskal")

    def facts(q: int) -> int | None:
        return theorem.bound(Setting(arch, kruskal=q)).facts if 1 <= q <= arch.d_model else None

    features = theorems.get("mahdavi_random_features").bound(Setting(arch)).facts
    return {
        "theorem": theorem.key,
        "proved": facts(rank.lower) if full else None,
        "at_most": facts(rank.upper),
        "formula": theorem.bound(Setting(arch, kruskal=max(1, min(rank.upper, arch.d_model)))).formula,
        "random_features": features,
    }


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def reading(audit: Audit) -> list[str]:
    """The audit in a few sentences."""
    return [*_assumption_1(audit), *_assumption_2(audit), *_position(audit), *_saturation(audit), *_labels(audit)]


def _assumption_1(audit: Audit) -> list[str]:
    first, n = audit.layers[0], audit.layers[0].context
    said = []
    for layer in audit.layers[:2]:
        name = "the embeddings" if layer.layer == 0 else f"layer {layer.layer}"
        k, needed = layer.kruskal, min(n, layer.n_examples)
        verdict = {True: "holds", False: "fails", None: "is open"}[k.at_least(needed)]
        text = f"Assumption 1 (any {needed} queries independent) {verdict} at {name}: "
        if k.n_classes < layer.n_examples:
            what = "one vector" if k.n_classes == 1 else f"only {k.n_classes:,} different vectors"
            text += f"the {layer.n_examples:,} queries are {what}."
        else:
            text += (
                f"Kruskal rank from {k.lower} to {k.upper}, and {_percent(layer.sampled.share)} of random sets of "
                f"{layer.sampled.size} are independent."
            )
        said.append(text)
    later = [layer for layer in audit.layers[1:] if layer.kruskal.n_classes < layer.n_examples]
    if first.kruskal.n_classes < first.n_examples and len(audit.layers) > 1:
        said.append(
            "Repeated queries are told apart from the first layer on."
            if not later
            else f"Repeated queries survive up to layer {later[-1].layer}."
        )
    return said


def _assumption_2(audit: Audit) -> list[str]:
    known = [layer for layer in audit.layers if layer.share_full_rank is not None]
    if not known:
        return []
    worst = min(known, key=lambda layer: layer.share_full_rank or 0.0)
    if worst.share_full_rank == 1.0:
        return [f"Assumption 2 (contexts of rank {worst.context}) holds for every window at every layer."]
    return [
        f"Assumption 2 (contexts of rank {worst.context}): {_percent(known[0].share_full_rank or 0.0)} of the windows "
        f"at layer {known[0].layer}, and at worst {_percent(worst.share_full_rank or 0.0)} at layer {worst.layer}."
    ]


def _position(audit: Audit) -> list[str]:
    d = audit.shape["d_model"]
    size = min(d, audit.samples)
    failing = [x.layer for x in audit.layers if x.kruskal.at_least(size) is False]
    if not failing:
        return [f"General position (any {size} queries independent) is refuted at no layer."]
    return [f"General position (any {size} queries independent) fails at {len(failing)} of {len(audit.layers)} layers."]


def _saturation(audit: Audit) -> list[str]:
    pairs = [(head.saturated_rows, layer.layer, head.head) for layer in audit.layers for head in layer.heads]
    if not pairs:
        return []
    top = max(pairs)
    mean = float(np.mean([p[0] for p in pairs]))
    return [
        f"Heads are saturated (a weight above {SATURATED}) on {_percent(mean)} of rows on average; most is head "
        f"{top[2] + 1} of layer {top[1]}, {_percent(top[0])}."
    ]


def _labels(audit: Audit) -> list[str]:
    last = audit.layers[-1]
    text = (
        f"A linear readout on the last layer fits {last.labels.real:,} arbitrary real labels and "
        f"{last.labels.binary:,}{' (all)' if last.labels.capped else ''} random binary ones, of {last.n_examples:,}"
    )
    if audit.fresh:
        fresh = audit.fresh[-1]
        text += f"; with fresh weights {fresh.labels.real:,} and {fresh.labels.binary:,}"
        text += (
            f". The stable rank of the centred queries there is {last.stable_rank_centred:.3g}, with fresh weights "
            f"{fresh.stable_rank_centred:.3g}"
        )
    return [text + "."]
