"""Small multiples for the script that draws them: curves and grids, a panel for each case of a sweep."""

from collections.abc import Iterator, Sequence
from typing import Any

from tracelab.plot.axis import is_finite
from tracelab.plot.grid import STATUS_COLORS
from tracelab.plot.labels import column_words
from tracelab.plot.small_multiples import Panel, panels, value_label
from tracelab.query.spec import Chart
from tracelab.report.charts.rows import AT, Row, grouped

_MOST_PANELS = 40
_LOG_FROM = 6
"""Where the largest x is so many times the smallest, doublings stand at equal distances."""


def curves(rows: list[Row], drawn: Chart) -> list[dict[str, Any]]:
    """A panel for each case and column of y, a line for each value of `by`, its points in the order of x."""
    found = []
    inks: dict[str, int] = {}  # one colour for each line, whatever panel it is in
    doubling = {sweep: _is_doubling([row[drawn.x] for row in cells]) for (sweep,), cells in _sweeps(rows).items()}
    for panel in _cases(rows, drawn):
        sweep = panel.rows[0].get("sweep")
        for index, name in enumerate(drawn.y):
            held = [row for row in panel.rows if is_finite(row[name]) and is_finite(row[drawn.x])]
            lines: dict[str, list[Row]] = {}
            for row in held:
                lines.setdefault(value_label(row[drawn.by]) if drawn.by else column_words(name), []).append(row)
            series = [
                {"name": title, "y": index, "ink": inks.setdefault(title, len(inks)), "rows": _across(members, drawn)}
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
    return _counted(found)


def grid(rows: list[Row], drawn: Chart) -> list[dict[str, Any]]:
    """A panel for each case and column of y: x across, `by` down, and which rows of the table stand in each cell."""
    found = []
    for panel in _cases(rows, drawn):
        across = _ordered([row[drawn.x] for row in panel.rows])
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
    return _counted(found)


def _counted(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """No more panels than anybody looks at; the last one says how many there are."""
    if len(found) > _MOST_PANELS:
        found[_MOST_PANELS - 1]["note"] = f"{len(found) - _MOST_PANELS:,} of {len(found):,} panels not drawn"
    return found[:_MOST_PANELS]


def _cases(rows: list[Row], drawn: Chart) -> Iterator[Panel]:
    """The panels of every sweep, those with the most rows first: a case of a single cell tells little."""
    sweeps = _sweeps(rows)
    found = []
    for (sweep,), members in sweeps.items():
        said = [value_label(sweep)] if len(sweeps) > 1 else []
        cases = panels(members, drawn, len(members))[0]
        found += [Panel(" · ".join(filter(None, [*said, case.title])), case.rows) for case in cases]
    yield from sorted(found, key=lambda panel: -len(panel.rows))


def _across(rows: Sequence[Row], drawn: Chart) -> list[int]:
    return [row[AT] for row in sorted(rows, key=lambda row: row[drawn.x])]


def _sweeps(rows: Sequence[Row]) -> dict[tuple[object, ...], list[Row]]:
    return grouped([{"sweep": None} | row for row in rows], ["sweep"])


def _title(panel: Panel, drawn: Chart, name: str) -> str:
    return " · ".join(filter(None, [panel.title, column_words(name) if len(drawn.y) > 1 else ""]))


def _is_doubling(places: Sequence[object]) -> bool:
    values = [float(place) for place in places if isinstance(place, int | float)]
    return bool(values) and min(values) > 0 and max(values) >= _LOG_FROM * min(values)


def _ordered(values: Sequence[Any]) -> list[Any]:
    """Numbers by size, texts as they come."""
    found = list(dict.fromkeys(values))
    return sorted(found) if all(is_finite(value) for value in found) else found
