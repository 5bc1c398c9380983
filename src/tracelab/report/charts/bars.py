"""Build bar charts for the report's script: the longest bars of each process, and the sum of the others."""

from collections.abc import Sequence
from itertools import count

from tracelab.foreign_text import escape_controls
from tracelab.output.labels import IDENTITY, Quantity, column_from_title, column_quantity, shorten_distinctly
from tracelab.plot.bars import IN_TIME
from tracelab.plot.labels import (
    column_words,
    group_by_unit,
    is_additive,
    is_finite,
    join_values,
    pluralize,
    row_labels,
    sum_known,
    visible_parts,
)
from tracelab.query.spec import Chart
from tracelab.report.charts.rows import AT, MOST_BEYOND, Panel, Row, group_rows, run_of_group, share_equally

MOST_BARS = 15
"""Maximum for panels sorted by length; bars with an order of their own are all drawn, with a scroll bar."""
_FEWEST_BARS = 5
_BARS_IN_ALL = 600
_RUN_CELLS = 22


def bar_panels(rows: list[Row], table_size: int, chart: Chart, columns: Sequence[str]) -> list[Panel]:
    """Return a panel per process and unit; bars that compare processes share a panel.

    Omitted bars become one more bar if their values add up; its row follows all others.

    """
    is_ratio = all(column_quantity(column_from_title(name)) is Quantity.RATIO for name in chart.y)
    over_identity = chart.x in IDENTITY
    together = over_identity and (is_ratio or chart.kind == "stacked")
    by = [] if together else [name for name in columns if not over_identity or name == chart.by]
    label = [name for name in IDENTITY if name not in by and (name in columns or name == chart.x)]
    is_whole = over_identity or chart.x in IN_TIME
    groups = group_rows(rows, by)
    sizes = [len(members) for members in groups.values()]
    most = share_equally(sizes, table_size + MOST_BEYOND)
    most = most if is_whole else min(most, _max_bars(sizes))
    places = count(max(table_size, max(row[AT] for row in rows) + 1))  # the last rows of the table may have no bar
    visible = visible_parts(chart.y, rows) if chart.kind == "stacked" else chart.y
    panels = []
    for key, members in groups.items():
        ordered = members if is_whole else sorted(members, key=lambda row: -_length(row, chart))
        bars, rest = ordered[:most], ordered[most:]
        texts = _process_labels(bars, label) if over_identity else row_labels(bars, [chart.x])
        panel = {"title": join_values(by, key), "run": run_of_group(by, key)}
        if rest and not is_whole and _is_additive(rest, chart):  # processes and moments are compared, not added up
            texts = [*texts, f"others ({pluralize(len(rest), column_words(chart.x))})"]
            rows.append(_sum_columns(rest, chart) | {AT: next(places), "run": panel["run"]})
            bars.append(rows[-1])
            panel["others"] = rows[-1][AT]
        elif rest:
            panel["note"] = _omission_note(rest, len(members), chart)
        panels += _by_unit(panel | {"labels": texts, "rows": [row[AT] for row in bars]}, bars, chart, visible)
    return panels


def _by_unit(panel: Panel, bars: Sequence[Row], chart: Chart, visible: Sequence[str]) -> list[Panel]:
    """Return the panel of each unit in which a bar has a length, of a stacked bar with the `visible` parts."""
    return [
        panel | {"y": [chart.y.index(name) for name in names]}
        for names in group_by_unit(visible)
        if any(is_finite(row[name]) and row[name] for row in bars for name in names)
    ]


def _is_additive(rest: Sequence[Row], chart: Chart) -> bool:
    return all(map(is_additive, chart.y)) and any(_length(row, chart) for row in rest)


def _sum_columns(rest: Sequence[Row], chart: Chart) -> Row:
    return {chart.x: None} | {name: sum_known(rest, name) for name in chart.y}


def _omission_note(rest: Sequence[Row], total: int, chart: Chart) -> str:
    why = "" if any(is_finite(row[name]) and row[name] for row in rest for name in chart.y) else ", all 0"
    return f"{len(rest):,} of {pluralize(total, column_words(chart.x))} not drawn{why}"


def _max_bars(counts: Sequence[int]) -> int:
    """Return the maximum number of bars per panel such that all panels fit the page."""
    fits = (
        most for most in range(MOST_BARS, _FEWEST_BARS, -1) if sum(min(count, most) for count in counts) <= _BARS_IN_ALL
    )
    return next(fits, _FEWEST_BARS)


def _length(row: Row, chart: Chart) -> float:
    """Return a bar's length: all parts of a stacked bar, else the first column."""
    parts = chart.y if chart.kind == "stacked" else chart.y[:1]
    return abs(sum(float(row[name]) for name in parts if is_finite(row[name])))


def _process_labels(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Label processes; a long run name is shortened in favor of rank and GPU."""
    runs = [escape_controls(str(row.get("run"))) for row in rows]
    short = shorten_distinctly(runs, _RUN_CELLS)
    return [
        join_values(names, [(row | {"run": short[run]})[name] for name in names])
        for row, run in zip(rows, runs, strict=True)
    ]
