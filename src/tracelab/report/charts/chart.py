"""What a chart shows, for the script that draws it: panels, series and labels of the rows of an answer."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tracelab.output.units import Quantity, column_from_title, column_quantity, column_unit
from tracelab.plot.axis import is_finite
from tracelab.plot.labels import column_words, identifying_columns, name_host, varying_columns
from tracelab.query.spec import Query
from tracelab.report.charts.bars import lengths
from tracelab.report.charts.points import points
from tracelab.report.charts.roofline import roofline
from tracelab.report.charts.rows import AT, LENGTHS, MOST_BEYOND, beyond, placed
from tracelab.report.charts.small_multiples import curves, grid

_DRAWERS = {"roofline": roofline, "curves": curves, "grid": grid}


def chart(query: Query, answer: pa.Table, kept: Sequence[int], *, several: bool) -> dict[str, Any] | None:
    """The chart of an answer; None where the header has none, or no row can be drawn.

    `kept` are the rows that the table shows: the chart names them, and brings the figures of others along.
    `several`: the page has several runs, so that a panel says which it is of.
    """
    drawn = query.chart
    if drawn is None:
        return None
    holds = _is_there if drawn.kind == "grid" else is_finite
    rows, shown = placed(answer, kept), len(kept)
    rows = [row for row in rows if row[drawn.x] is not None and any(holds(row[name]) for name in drawn.y)]
    if not rows:
        return None
    rows = name_host(rows) if drawn.host else rows
    left_out = 0
    if drawn.kind in _DRAWERS:
        fit = [row for row in rows if row[AT] < shown + MOST_BEYOND]
        left_out = len(rows) - len(fit)
        panels = _DRAWERS[drawn.kind](fit, drawn)
    else:
        differ = varying_columns(rows, identifying_columns(drawn, rows))
        told = [name for name in identifying_columns(drawn, rows) if name in differ or (name == "run" and several)]
        if "sweep" in rows[0]:  # its rows are cells, each a run of its own
            told = varying_columns(rows, [name for name in ("sweep", drawn.by) if name])
        told = [name for name in told if name != drawn.x]
        panels = (lengths if drawn.kind in LENGTHS else points)(rows, shown, drawn, told)
    if not panels:
        return None
    numbers: dict[object, int] = {}
    for panel in panels:
        panel["run"] = numbers.setdefault(panel["run"], len(numbers))  # which panels are of one run, or one sweep
    columns = {name: _column(answer.column_names.index(name), name) for name in (drawn.x, *drawn.y)}
    found = {"kind": drawn.kind, "x": columns[drawn.x], "y": [columns[name] for name in drawn.y], "panels": panels}
    note = {"note": f"{left_out:,} of {len(rows):,} rows not drawn"} if left_out else {}
    return found | note | beyond(panels, rows, shown, drawn)


def _column(index: int, name: str) -> dict[str, Any]:
    """A column: where it stands, what people call it, its unit, and what colours it."""
    kind = column_quantity(column_from_title(name))
    what = {Quantity.DURATION: "ns", Quantity.BYTES: "B", Quantity.RATIO: "%"}.get(kind) or column_unit(name) or ""
    return {"at": index, "name": column_words(column_from_title(name)), "unit": what, "column": name}


def _is_there(value: object) -> bool:
    return value is not None
