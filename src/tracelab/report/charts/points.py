"""Build point and line charts for the report's script: a panel per run and unit, a series per identifying value."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tracelab.plot.labels import group_by_unit, is_finite, join_values, legend_label
from tracelab.query.spec import Chart
from tracelab.report.charts.rows import AT, MOST_BEYOND, Panel, Row, group_rows, run_of_group, share_equally

MOST_SERIES = 8
_JOINED = {"line": "line", "steps": "step", "timeline": "step"}
_TIMELINE_INKS = (0, 3, 1, 2, 4)
"""Colors of a timeline's parts, those of `plot.timeline`; the last part is the rest of a bin."""
_LOG_FROM = 100


def point_panels(rows: list[Row], table_size: int, chart: Chart, columns: Sequence[str]) -> list[Panel]:
    """Return a panel per run and unit, with a series per column and identifying value.

    The parts of a timeline fill its bins, so each rank or device has a panel of its own.

    """
    by = [name for name in columns if name == "run" or chart.kind == "timeline"]
    within = [name for name in columns if name not in by]
    most = share_equally([len(line) for line in group_rows(rows, columns).values()], table_size + MOST_BEYOND)
    panels = []
    for key, members in group_rows(rows, by).items():
        lines = {line: _thin_out(kept_rows, chart, most) for line, kept_rows in group_rows(members, within).items()}
        kept_rows = [row for line in lines.values() for row in line]
        for names in group_by_unit(chart.y):
            series = _series(lines, within, chart, names)
            if series:
                panel = {
                    "title": join_values(by, key),
                    "run": run_of_group(by, key),
                    "y": [chart.y.index(name) for name in names],
                }
                panel |= {"join": _JOINED.get(chart.kind, ""), "series": series[:MOST_SERIES]}
                panel |= {"log": [_is_wide(kept_rows, [chart.x], chart), _is_wide(kept_rows, names, chart)]}
                panels.append(panel | _omission_panel(len(kept_rows), len(members), len(series), chart))
    return panels


def _thin_out(rows: list[Row], chart: Chart, most: int) -> list[Row]:
    """Return the points to draw: all of a line, or the highest of each equal stretch; the highest single points."""
    if len(rows) <= most:
        return rows
    if chart.kind not in _JOINED:
        return sorted(rows, key=lambda row: -_height(row, chart))[:most]
    edges = [at * len(rows) // most for at in range(most + 1)]
    return [max(rows[start:end], key=lambda row: _height(row, chart)) for start, end in pairwise(edges)]


def _height(row: Row, chart: Chart) -> float:
    return next((float(row[name]) for name in chart.y if is_finite(row[name])), 0.0)


def _omission_panel(kept: int, total: int, series: int, chart: Chart) -> Panel:
    """Return a panel with a note on omitted points."""
    which = "the highest of each stretch" if chart.kind in _JOINED else "the highest"
    notes = [f"{kept:,} of {total:,} points drawn, {which}"] if kept < total else []
    lines = [f"{MOST_SERIES} of {series} lines drawn"] if series > MOST_SERIES else []
    return {"note": "; ".join([*notes, *lines])} if notes or lines else {}


def _series(
    lines: dict[tuple[object, ...], list[Row]], by: Sequence[str], chart: Chart, names: Sequence[str]
) -> list[dict[str, Any]]:
    series = []
    for name in names:
        for key, members in lines.items():
            held = [row for row in members if is_finite(row[name])]
            if any(row[name] for row in held):
                label = legend_label(chart, name, held)
                title = " · ".join([*([label] if len(names) > 1 else []), *([join_values(by, key)] if by else [])])
                index = chart.y.index(name)
                ink = {"ink": _timeline_ink(index, chart)} if chart.kind == "timeline" else {}
                series.append({"name": title or label, "y": index, "rows": [row[AT] for row in held]} | ink)
    return series


def _timeline_ink(index: int, chart: Chart) -> int | str:
    return "idle" if index == len(chart.y) - 1 else _TIMELINE_INKS[index]


def _is_wide(rows: Sequence[Row], names: Sequence[str], chart: Chart) -> bool:
    """Return whether values span more than two decades, which makes the axis logarithmic."""
    values = [row[name] for row in rows for name in names if is_finite(row[name])]
    return chart.kind == "scatter" and bool(values) and min(values) > 0 and max(values) > _LOG_FROM * min(values)
