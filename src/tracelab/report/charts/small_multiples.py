"""Build small multiples for the report's script: curves and grids, a panel per case of a sweep."""

from collections.abc import Iterator, Sequence
from typing import Any

from tracelab.plot.grid import STATUS_COLORS
from tracelab.plot.labels import column_words, is_finite
from tracelab.plot.small_multiples import Panel, line_label, panels, value_label
from tracelab.query.spec import Chart
from tracelab.report.charts.rows import AT, Row, group_rows

_MOST_PANELS = 40
_LOG_FROM = 6
"""The axis becomes logarithmic if the largest x is at least this many times the smallest."""


def curve_panels(rows: list[Row], chart: Chart) -> list[dict[str, Any]]:
    """Return a panel per case and y column: a line per value of `by`, points in the order of x."""
    result = []
    inks: dict[str, int] = {}  # one color per line, the same in every panel
    doubling = {sweep: _is_doubling([row[chart.x] for row in cells]) for (sweep,), cells in _sweeps(rows).items()}
    for panel in _iterate_cases(rows, chart):
        sweep = panel.rows[0].get("sweep")
        for index, name in enumerate(chart.y):
            points = [row for row in panel.rows if is_finite(row[name]) and is_finite(row[chart.x])]
            lines: dict[str, list[Row]] = {}
            for row in points:
                lines.setdefault(line_label(chart, row[chart.by]) if chart.by else column_words(name), []).append(row)
            series = [
                {
                    "name": title,
                    "y": index,
                    "ink": inks.setdefault(title, len(inks)),
                    "rows": _x_positions(members, chart),
                }
                for title, members in lines.items()
                if any(row[name] for row in members)
            ]
            if series:
                header = {
                    "title": _title(panel, chart, name),
                    "run": sweep,
                    "y": [index],
                    "log": [doubling[sweep], False],
                }
                result.append(header | {"join": "line", "series": series})
    return _limit_panels(result)


def grid_panels(rows: list[Row], chart: Chart) -> list[dict[str, Any]]:
    """Return a panel per case and y column: x across, `by` down, and the table's rows in each cell."""
    result = []
    for panel in _iterate_cases(rows, chart):
        across = _sort_values([row[chart.x] for row in panel.rows])
        down = list(dict.fromkeys(row[chart.by] if chart.by else None for row in panel.rows))
        axes = {
            "across": [value_label(value) for value in across],
            "down": [line_label(chart, value) for value in down],
        }
        for index, name in enumerate(chart.y):
            cells: dict[tuple[int, int], list[int]] = {}
            for row in panel.rows:
                if row[name] is not None:
                    place = across.index(row[chart.x]), down.index(row[chart.by] if chart.by else None)
                    cells.setdefault(place, []).append(row[AT])
            if cells:
                header = {"title": _title(panel, chart, name), "run": None, "y": [index], "inks": STATUS_COLORS}
                result.append(header | axes | {"cells": [[*place, members] for place, members in cells.items()]})
    return _limit_panels(result)


def _limit_panels(result: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Limit the number of panels; the last one notes how many were omitted."""
    if len(result) > _MOST_PANELS:
        result[_MOST_PANELS - 1]["note"] = f"{len(result) - _MOST_PANELS:,} of {len(result):,} panels not drawn"
    return result[:_MOST_PANELS]


def _iterate_cases(rows: list[Row], chart: Chart) -> Iterator[Panel]:
    """Yield the panels of every sweep, those with the most rows first."""
    sweeps = _sweeps(rows)
    titled = []
    for (sweep,), members in sweeps.items():
        names = [value_label(sweep)] if len(sweeps) > 1 else []
        cases = panels(members, chart, len(members))[0]
        titled += [Panel(" · ".join(filter(None, [*names, case.title])), case.rows) for case in cases]
    yield from sorted(titled, key=lambda panel: -len(panel.rows))


def _x_positions(rows: Sequence[Row], chart: Chart) -> list[int]:
    return [row[AT] for row in sorted(rows, key=lambda row: row[chart.x])]


def _sweeps(rows: Sequence[Row]) -> dict[tuple[object, ...], list[Row]]:
    return group_rows([{"sweep": None} | row for row in rows], ["sweep"])


def _title(panel: Panel, chart: Chart, name: str) -> str:
    return " · ".join(filter(None, [panel.title, column_words(name) if len(chart.y) > 1 else ""]))


def _is_doubling(positions: Sequence[object]) -> bool:
    values = [float(place) for place in positions if isinstance(place, int | float)]
    return bool(values) and min(values) > 0 and max(values) >= _LOG_FROM * min(values)


def _sort_values(values: Sequence[Any]) -> list[Any]:
    """Sort numbers by size; keep the order of texts."""
    distinct = list(dict.fromkeys(values))
    return sorted(distinct) if all(is_finite(value) for value in distinct) else distinct
