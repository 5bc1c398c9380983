"""Build small multiples for the report's script: curves and grids, a panel per case of a sweep."""

from collections.abc import Iterator, Sequence
from typing import Any

from tracelab.plot.axis import is_finite
from tracelab.plot.grid import STATUS_COLORS
from tracelab.plot.labels import column_words
from tracelab.plot.small_multiples import Panel, panels, value_label
from tracelab.query.spec import Chart
from tracelab.report.charts.rows import AT, Row, group_rows

_MOST_PANELS = 40
_LOG_FROM = 6
"""The axis becomes logarithmic if the largest x is at least this many times the smallest."""


def curve_panels(rows: list[Row], drawn: Chart) -> list[dict[str, Any]]:
    """Return a panel per case and y column: a line per value of `by`, points in the order of x."""
    found = []
    inks: dict[str, int] = {}  # one color per line, the same in every panel
    doubling = {sweep: _is_doubling([row[drawn.x] for row in cells]) for (sweep,), cells in _sweeps(rows).items()}
    for panel in _iterate_cases(rows, drawn):
        sweep = panel.rows[0].get("sweep")
        for index, name in enumerate(drawn.y):
            held = [row for row in panel.rows if is_finite(row[name]) and is_finite(row[drawn.x])]
            lines: dict[str, list[Row]] = {}
            for row in held:
                lines.setdefault(value_label(row[drawn.by]) if drawn.by else column_words(name), []).append(row)
            series = [
                {
                    "name": title,
                    "y": index,
                    "ink": inks.setdefault(title, len(inks)),
                    "rows": _x_positions(members, drawn),
                }
                for title, members in lines.items()
                if any(row[name] for row in members)
            ]
            if series:
                told = {
                    "title": _title(panel, drawn, name),
                    "run": sweep,
                    "y": [index],
                    "log": [doubling[sweep], False],
                }
                found.append(told | {"join": "line", "series": series})
    return _limit_panels(found)


def grid_panels(rows: list[Row], drawn: Chart) -> list[dict[str, Any]]:
    """Return a panel per case and y column: x across, `by` down, and the table's rows in each cell."""
    found = []
    for panel in _iterate_cases(rows, drawn):
        across = _sort_values([row[drawn.x] for row in panel.rows])
        down = list(dict.fromkeys(row[drawn.by] if drawn.by else None for row in panel.rows))
        axes = {"across": [value_label(value) for value in across], "down": [value_label(value) for value in down]}
        for index, name in enumerate(drawn.y):
            cells: dict[tuple[int, int], list[int]] = {}
            for row in panel.rows:
                if row[name] is not None:
                    place = across.index(row[drawn.x]), down.index(row[drawn.by] if drawn.by else None)
                    cells.setdefault(place, []).append(row[AT])
            if cells:
                told = {"title": _title(panel, drawn, name), "run": None, "y": [index], "inks": STATUS_COLORS}
                found.append(told | axes | {"cells": [[*place, members] for place, members in cells.items()]})
    return _limit_panels(found)


def _limit_panels(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Limit the number of panels; the last one notes how many were omitted."""
    if len(found) > _MOST_PANELS:
        found[_MOST_PANELS - 1]["note"] = f"{len(found) - _MOST_PANELS:,} of {len(found):,} panels not drawn"
    return found[:_MOST_PANELS]


def _iterate_cases(rows: list[Row], drawn: Chart) -> Iterator[Panel]:
    """Yield the panels of every sweep, those with the most rows first."""
    sweeps = _sweeps(rows)
    found = []
    for (sweep,), members in sweeps.items():
        said = [value_label(sweep)] if len(sweeps) > 1 else []
        cases = panels(members, drawn, len(members))[0]
        found += [Panel(" · ".join(filter(None, [*said, case.title])), case.rows) for case in cases]
    yield from sorted(found, key=lambda panel: -len(panel.rows))


def _x_positions(rows: Sequence[Row], drawn: Chart) -> list[int]:
    return [row[AT] for row in sorted(rows, key=lambda row: row[drawn.x])]


def _sweeps(rows: Sequence[Row]) -> dict[tuple[object, ...], list[Row]]:
    return group_rows([{"sweep": None} | row for row in rows], ["sweep"])


def _title(panel: Panel, drawn: Chart, name: str) -> str:
    return " · ".join(filter(None, [panel.title, column_words(name) if len(drawn.y) > 1 else ""]))


def _is_doubling(places: Sequence[object]) -> bool:
    values = [float(place) for place in places if isinstance(place, int | float)]
    return bool(values) and min(values) > 0 and max(values) >= _LOG_FROM * min(values)


def _sort_values(values: Sequence[Any]) -> list[Any]:
    """Sort numbers by size; keep the order of texts."""
    found = list(dict.fromkeys(values))
    return sorted(found) if all(is_finite(value) for value in found) else found
