"""Join the rows of names that are one thing under several names, so that a chart has one bar of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from tracelab.plot.axis import sum_known
from tracelab.query.spec import Chart

Row = dict[str, Any]


def join_rows(rows: Sequence[Row], chart: Chart, groups: Mapping[str, frozenset[str]]) -> list[Row]:
    """Return the rows with one in place of those of each group: the first of them with the label and the sums.

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
    sums = {
        id(group[0]): group[0] | {chart.x: label} | {name: sum_known(group, name) for name in chart.y}
        for label, group in several.items()
    }
    dropped = {id(row) for group in several.values() for row in group[1:]}
    return [sums.get(id(row), row) for row in rows if id(row) not in dropped]
