"""Join the rows of names that are one thing under several names, so that a chart has one bar of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tracelab.output.labels import Quantity, column_quantity
from tracelab.plot.labels import sum_known
from tracelab.query.spec import Chart

Row = dict[str, Any]


def join_rows(rows: Sequence[Row], chart: Chart, groups: Mapping[str, frozenset[str]]) -> list[Row]:
    """Return the rows with one in place of those of each group: its label, sums of durations, texts of its first row.

    `groups` are sets of values of the chart's x by label. Rows with another value of `by` than `chart.joined` remain.
    """
    if chart.by is None or chart.joined is None:
        return list(rows)
    label_of = {name: label for label, names in groups.items() for name in names}
    members: dict[str, list[Row]] = {}
    for row in rows:
        label = label_of.get(row[chart.x]) if row[chart.by] == chart.joined else None
        if label is not None:
            members.setdefault(label, []).append(row)
    several = {label: group for label, group in members.items() if len(group) > 1}
    sums = {id(group[0]): _sum_rows(group) | {chart.x: label} for label, group in several.items()}
    dropped = {id(row) for group in several.values() for row in group[1:]}
    return [sums.get(id(row), row) for row in rows if id(row) not in dropped]


def join_table(table: pa.Table, chart: Chart | None, groups: Mapping[str, frozenset[str]] | None) -> pa.Table:
    """Return a result with its rows joined, the same one where nothing is joined."""
    if chart is None or chart.joined is None or not groups:
        return table
    return pa.Table.from_pylist(join_rows(table.to_pylist(), chart, groups), table.schema)


def _sum_rows(rows: Sequence[Row]) -> Row:
    """Return the first row with the durations of all added up, and without the other numbers, which do not add up."""
    return {name: _sum_column(rows, name) for name in rows[0]}


def _sum_column(rows: Sequence[Row], name: str) -> object:
    first = rows[0][name]
    if column_quantity(name) is Quantity.DURATION:
        return sum_known(rows, name)
    return first if isinstance(first, str) else None
