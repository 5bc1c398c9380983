"""Build chart data for the report's scripts: panels, series and labels of the rows of a result."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pyarrow as pa

from tracelab.output.labels import Quantity, column_from_title, column_quantity, column_unit
from tracelab.plot.joined import join_rows
from tracelab.plot.labels import identifying_columns, is_finite, legend_label, name_host, varying_columns
from tracelab.query.spec import Chart, Query
from tracelab.report.charts.bars import bar_panels
from tracelab.report.charts.points import point_panels
from tracelab.report.charts.roofline import roofline_panels
from tracelab.report.charts.rows import AT, LENGTHS, MOST_BEYOND, Row, extra_rows, place_rows, select_processes
from tracelab.report.charts.small_multiples import curve_panels, grid_panels

_DRAWERS = {"roofline": roofline_panels, "curves": curve_panels, "grid": grid_panels}


def build_chart(
    query: Query,
    answer: pa.Table,
    table_rows: Sequence[int],
    *,
    several: bool,
    joined: Mapping[str, frozenset[str]] | None = None,
) -> dict[str, Any] | None:
    """Return the chart of a result; None without a chart in the header or without a drawable row.

    `table_rows` are the rows that the table shows; the chart refers to them and includes values of further rows itself.
    `several`: the page has several runs, so panels name theirs. `joined` are groups of kernels by label that are one
    bar.

    """
    chart = query.chart
    if chart is None:
        return None
    holds = _is_known if chart.kind == "grid" else is_finite
    kept, omitted = select_processes(answer, chart)
    rows, table_size = place_rows(answer, table_rows, kept), len(table_rows)
    rows = [row for row in rows if row[chart.x] is not None and any(holds(row[name]) for name in chart.y)]
    if not rows:
        return None
    rows = name_host(rows) if chart.host else rows
    if joined:
        rows = _join_rows(rows, chart, joined, answer.num_rows)
    left_out = 0
    if chart.kind in _DRAWERS:
        fit = [row for row in rows if row[AT] < table_size + MOST_BEYOND]
        left_out = len(rows) - len(fit)
        panels = _DRAWERS[chart.kind](fit, chart)
    else:
        differ = varying_columns(rows, identifying_columns(chart, rows))
        identifying = [
            name for name in identifying_columns(chart, rows) if name in differ or (name == "run" and several)
        ]
        if "sweep" in rows[0]:  # its rows are cells, each a run of its own
            identifying = varying_columns(rows, [name for name in ("sweep", chart.by) if name])
        identifying = [name for name in identifying if name != chart.x]
        panels = (bar_panels if chart.kind in LENGTHS else point_panels)(rows, table_size, chart, identifying)
    if not panels:
        return None
    numbers: dict[object, int] = {}
    for panel in panels:
        panel["run"] = numbers.setdefault(panel["run"], len(numbers))  # which panels are of one run, or one sweep
    columns = {
        name: _describe_column(answer.column_names.index(name), name, legend_label(chart, name, rows))
        for name in (chart.x, *chart.y)
    }
    data = {"kind": chart.kind, "x": columns[chart.x], "y": [columns[name] for name in chart.y], "panels": panels}
    signed = {"signed": True} if chart.signed else {}
    notes = [*([f"{left_out:,} of {len(rows):,} rows not drawn"] if left_out else []), *([omitted] if omitted else [])]
    note = {"note": "; ".join(notes)} if notes else {}
    return data | signed | note | extra_rows(panels, rows, table_size, chart)


def _describe_column(index: int, name: str, label: str) -> dict[str, Any]:
    """Describe a column: position, label, unit and color."""
    kind = column_quantity(column_from_title(name))
    unit = {Quantity.DURATION: "ns", Quantity.BYTES: "B", Quantity.RATIO: "%"}.get(kind) or column_unit(name) or ""
    return {"at": index, "name": label, "unit": unit, "column": name}


def _join_rows(rows: list[Row], chart: Chart, joined: Mapping[str, frozenset[str]], first_place: int) -> list[Row]:
    """Join rows of names that are one thing; the new ones have places beyond all rows of the answer."""
    places = count(first_place)
    return [row | {AT: next(places)} if row[chart.x] in joined else row for row in join_rows(rows, chart, joined)]


def _is_known(value: object) -> bool:
    return value is not None
