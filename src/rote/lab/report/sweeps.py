"""Any sweep's file of results, as sections: one for each sweep in it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rote.errors import DataError
from rote.lab.report.figures import Drawing, drawings
from rote.lab.report.section import Listing, Picture, Section, Table, anchor, said
from rote.lab.report.to_toml import sweep_toml
from rote.measurement import Journal
from rote.measurement.machine import duration

__all__ = ["read_sweeps"]

_HIDDEN = ("hash", "sweep", "finished", "reason", "asked_facts")
_LAST = ("capacity", "share", "published", "params", "duration", "status")


def read_sweeps(path: Path) -> list[Section]:
    """The sections of a journal."""
    with Journal(path, write=False) as journal:
        configs = journal.configs()
        rows = [_whole(row, configs[row["hash"]]) for row in journal.rows()]
    if not rows:
        raise DataError(f"{path} holds no results yet; run `rote sweep` into it first.")
    names = sorted({str(row["sweep"]) for row in rows})
    return [_section(name, [row for row in rows if row["sweep"] == name], configs, path) for name in names]


def _whole(row: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """A row with what was asked: a result tells the steps that were taken, which is another thing than an axis."""
    taken = {"steps_taken": row["steps"]} if row.get("steps") != config.get("steps") else {}
    asked = {"steps": config.get("steps"), "asked_facts": config.get("n_facts")} if "study" not in config else {}
    return {**row, **asked, **taken}


def _section(
    name: str, rows: Sequence[Mapping[str, Any]], configs: Mapping[str, Mapping[str, Any]], path: Path
) -> Section:
    cells = [row for row in rows if "study" not in row]
    charts = drawings(cells, name)
    done = {row["hash"] for row in rows if row["status"] == "done"}
    failed = {row["hash"] for row in rows} - done
    tables = [*_fits(charts), *_results(rows, name), *_failures(rows)]
    listings: tuple[Listing, ...] = ()
    commands: tuple[str, ...] = ()
    if cells:
        file = f"{anchor(name)}.toml"
        text = sweep_toml(name, [configs[key] for key in dict.fromkeys(row["hash"] for row in cells)])
        listings = (Listing("Configuration", text, file),)
        commands = (f"rote sweep {file} --db {anchor(name)}.db", f"rote report {anchor(name)}.db -o report.html")
    best = max((float(row["capacity"]) for row in cells if row.get("capacity") is not None), default=None)
    sentence = f"{len(done):,} cells done, {len(failed):,} failed."
    if best is not None:
        sentence += f" The most facts held: {best:,.0f}."
    spent = {row["hash"]: float(row["duration"]) for row in rows}
    return Section(
        name=name,
        title=f"Sweep {name}",
        group=path.name,
        sentence=sentence,
        answer="\n".join(_words(charts)),
        pictures=tuple(Picture.of(f"{one.y}-{one.x}", one.figure) for one in charts),
        tables=tuple(tables),
        listings=listings,
        commands=commands,
        facts={
            "rote": ", ".join(sorted({str(row["version"]) for row in rows})),
            "finished": max(str(row["finished"]) for row in rows),
            "time": duration(sum(spent.values())),
        },
    )


def _words(charts: Sequence[Drawing]) -> list[str]:
    """The laws in sentences."""
    sentences = []
    for one in charts:
        for item in one.fits:
            where = ", ".join(part for part in (item.panel, item.series if item.series != "measured" else "") if part)
            head = f"{one.y.capitalize()} against {one.x}" + (f" ({where})" if where else "")
            if item.fit is not None:
                law = item.fit.chosen.law
                sentences.append(f"{head}: {law.name}, {law.formula}; {item.fit.verdict}.")
    return sentences[:6]


def _fits(charts: Sequence[Drawing]) -> list[Table]:
    laws: list[tuple[object, ...]] = []
    slopes: list[tuple[object, ...]] = []
    for one in charts:
        for item in one.fits:
            head = (f"{one.y} against {one.x}", item.panel, item.series)
            if item.fit is None:
                laws.append((*head, "none", item.reason, None))
                continue
            for curve in item.fit.curves:
                params = ", ".join(
                    f"{name} = {value:.4g} ({low:.4g} to {high:.4g})"
                    for name, value, (low, high) in zip(curve.law.names, curve.params, curve.intervals, strict=True)
                )
                mark = " (chosen)" if curve is item.fit.chosen else ""
                laws.append((*head, f"{curve.law.name}{mark}", params, curve.cv))
            slopes.extend((*head, p.theorem, p.kind, p.slope, p.ratio) for p in item.fit.predictions)
    columns = ("what", "shape", "series")
    tables = []
    if laws:
        title = "Fitted laws, with 95 % intervals"
        tables.append(Table(title, (*columns, "law", "parameters", "CV error"), tuple(laws), is_open=bool(slopes)))
    if slopes:
        title = "Slopes beside the theorems"
        tables.append(
            Table(title, (*columns, "theorem", "kind", "predicted slope", "measured/predicted"), tuple(slopes))
        )
    return tables


def _results(rows: Sequence[Mapping[str, Any]], name: str) -> list[Table]:
    """One table for cells and one for each study; what is the same everywhere is said once."""
    tables = []
    kinds = list(dict.fromkeys(row.get("study") for row in rows))
    for kind in kinds:
        own = [row for row in rows if row.get("study") == kind]
        every = list(dict.fromkeys(key for row in own for key in row))
        names = [key for key in every if key not in _HIDDEN and any(row.get(key) not in (None, "") for row in own)]
        same = {key: own[0].get(key) for key in names if len(own) > 1 and len({str(row.get(key)) for row in own}) == 1}
        shown = [key for key in names if key not in same]
        shown = [key for key in shown if key not in _LAST] + [key for key in _LAST if key in shown]
        note = f"Everywhere: {', '.join(f'{key} {said(value)}' for key, value in same.items())}." if same else ""
        text = io.StringIO()
        writer = csv.DictWriter(text, [key for key in every if key != "asked_facts"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(own)
        title = f"Results ({len(own):,} rows)" if kind is None else f"Study {kind} ({len(own):,} rows)"
        tables.append(
            Table(
                title,
                tuple(shown),
                tuple(tuple(row.get(key) for key in shown) for row in own),
                note=note,
                csv=text.getvalue(),
                file=f"{anchor(name)}.csv" if kind is None else f"{anchor(name)}-{anchor(str(kind))}.csv",
            )
        )
    return tables


def _failures(rows: Sequence[Mapping[str, Any]]) -> list[Table]:
    bad = {row["hash"]: row for row in rows if row["status"] != "done"}
    if not bad:
        return []
    columns = ("status", "reason", "seed", "hash")
    body = tuple((row["status"], row["reason"], row.get("seed"), str(row["hash"])[:12]) for row in bad.values())
    return [Table(f"Without a result ({len(bad):,})", columns, body, is_open=True)]
