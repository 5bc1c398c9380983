"""What a chart shows, for the script that draws it: panels, series and labels of the rows of the table below it."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tracelab.header import Chart, Query
from tracelab.names import shortened, visible
from tracelab.plot.axis import is_finite, measures
from tracelab.plot.bars import IN_TIME
from tracelab.plot.labels import IDENTITY, keys, labels, named, varying, with_host, words
from tracelab.report.multiples import curves, grid
from tracelab.report.roofline import roofline
from tracelab.units import Quantity, as_column, quantity, unit

Row = dict[str, Any]
Panel = dict[str, Any]

MOST_BARS = 15
"""Of a panel whose bars stand by length; what has an order of its own is drawn whole, and scrolled."""
MOST_SERIES = 8
AT = "\0row"  # where a row stands in the table; no column is called so
_RUN_CELLS = 22
_JOINED = {"line": "line", "steps": "step"}
_LENGTHS = ("bars", "stacked", "pairs")
_LOG_FROM = 100
_DRAWERS = {"roofline": roofline, "curves": curves, "grid": grid}


def chart(query: Query, shown: pa.Table, *, several: bool) -> dict[str, Any] | None:
    """The chart of the rows shown; None where the header has none, or no row can be drawn.

    `several`: the page has several runs, so that a panel says which it is of.
    """
    drawn = query.chart
    if drawn is None:
        return None
    rows = [row | {AT: index} for index, row in enumerate(shown.to_pylist())]
    holds = _is_there if drawn.kind == "grid" else is_finite
    rows = [row for row in rows if row[drawn.x] is not None and any(holds(row[name]) for name in drawn.y)]
    if not rows:
        return None
    rows = with_host(rows) if drawn.host else rows
    if drawn.kind in _DRAWERS:
        panels = _DRAWERS[drawn.kind](rows, drawn)
    else:
        differ = varying(rows, keys(drawn, rows))
        told = [name for name in keys(drawn, rows) if name in differ or (name == "run" and several)]
        if "sweep" in rows[0]:  # its rows are cells, each a run of its own
            told = varying(rows, [name for name in ("sweep", drawn.by) if name])
        told = [name for name in told if name != drawn.x]
        panels = _bars(rows, drawn, told) if drawn.kind in _LENGTHS else _points(rows, drawn, told)
    if not panels:
        return None
    columns = {name: _column(shown.column_names.index(name), name) for name in (drawn.x, *drawn.y)}
    return {"kind": drawn.kind, "x": columns[drawn.x], "y": [columns[name] for name in drawn.y], "panels": panels}


def _column(index: int, name: str) -> dict[str, Any]:
    """A column: where it stands, what people call it, its unit, and what colours it."""
    kind = quantity(as_column(name))
    what = {Quantity.DURATION: "ns", Quantity.BYTES: "B", Quantity.RATIO: "%"}.get(kind) or unit(name) or ""
    return {"at": index, "name": words(as_column(name)), "unit": what, "column": name}


def _groups(rows: Sequence[Row], names: Sequence[str]) -> dict[tuple[object, ...], list[Row]]:
    """The rows by the values of some columns, in the order in which they come."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def _run(names: Sequence[str], key: Sequence[object]) -> object:
    return dict(zip(names, key, strict=True)).get("run")


def _bars(rows: list[Row], drawn: Chart, told: Sequence[str]) -> list[Panel]:
    """A panel for each process and unit; bars that tell of processes themselves stand together where they compare."""
    is_ratio = all(quantity(as_column(name)) is Quantity.RATIO for name in drawn.y)
    over_identity = drawn.x in IDENTITY
    together = over_identity and (is_ratio or drawn.kind == "stacked")
    by = [] if together else [name for name in told if not over_identity or name == drawn.by]
    label = [name for name in IDENTITY if name not in by and (name in told or name == drawn.x)]
    label = label if over_identity else [drawn.x]
    panels = []
    for key, members in _groups(rows, by).items():
        whole = over_identity or drawn.x in IN_TIME
        bars = members if whole else sorted(members, key=lambda row: -_length(row, drawn))[:MOST_BARS]
        bars = [row for row in bars if whole or _length(row, drawn)] or bars[:1]
        texts = _identities(bars, label) if over_identity else labels(bars, label)
        panel = {"title": named(by, key), "run": _run(by, key), "of": len(members), "labels": texts}
        panel["rows"] = [row[AT] for row in bars]
        panels += [
            panel | {"y": [drawn.y.index(name) for name in names]}
            for names in measures(drawn.y)
            if any(is_finite(row[name]) and row[name] for row in bars for name in names)
        ]
    return panels


def _identities(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Labels of processes: a long run gives way, for rank and GPU stand behind it."""
    short = [row | {"run": shortened(visible(str(row.get("run"))), _RUN_CELLS)} for row in rows]
    return [named(names, [row[name] for name in names]) for row in short]


def _is_there(value: object) -> bool:
    return value is not None


def _length(row: Row, drawn: Chart) -> float:
    value = row[drawn.y[0]]
    return abs(float(value)) if is_finite(value) else 0.0


def _points(rows: list[Row], drawn: Chart, told: Sequence[str]) -> list[Panel]:
    """A panel for each run and unit; a series for each column and each value of what else tells the rows apart."""
    by = [name for name in told if name == "run"]
    panels = []
    for key, members in _groups(rows, by).items():
        for names in measures(drawn.y):
            series = _series(members, drawn, names, [name for name in told if name not in by])
            if series:
                panels.append(
                    {
                        "title": named(by, key),
                        "run": _run(by, key),
                        "y": [drawn.y.index(name) for name in names],
                        "join": _JOINED.get(drawn.kind, ""),
                        "series": series[:MOST_SERIES],
                        "log": [_is_wide(members, [drawn.x], drawn), _is_wide(members, names, drawn)],
                    }
                )
    return panels


def _series(rows: list[Row], drawn: Chart, names: Sequence[str], by: Sequence[str]) -> list[dict[str, Any]]:
    series = []
    for name in names:
        for key, members in _groups(rows, by).items():
            held = [row for row in members if is_finite(row[name])]
            if any(row[name] for row in held):
                title = " · ".join([*([words(name)] if len(names) > 1 else []), *([named(by, key)] if by else [])])
                index = drawn.y.index(name)
                series.append({"name": title or words(name), "y": index, "rows": [row[AT] for row in held]})
    return series


def _is_wide(rows: Sequence[Row], names: Sequence[str], drawn: Chart) -> bool:
    """Whether values of points go over more than two decades, so that their axis is logarithmic."""
    values = [row[name] for row in rows for name in names if is_finite(row[name])]
    return drawn.kind == "scatter" and bool(values) and min(values) > 0 and max(values) > _LOG_FROM * min(values)
