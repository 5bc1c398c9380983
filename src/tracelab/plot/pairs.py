"""Draw pairs: two values of a row that differ by orders of magnitude, on one logarithmic axis, with their factor."""

import math
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

from tracelab.errors import NoDataError
from tracelab.output.labels import format_significant
from tracelab.plot.labels import (
    as_length,
    column_words,
    drawable,
    identifying_columns,
    legend_label,
    omission_note,
    row_labels,
    varying_columns,
)
from tracelab.plot.style import OKABE_ITO, REST
from tracelab.query.spec import Chart

Row = dict[str, Any]

_MOST_PAIRS = 36
_ROOM = 0.55
"""Margin in decades at both ends, for the numbers beside the outermost dots."""
_WIDE = 0.2
"""Share of the axis that two dots must leave between them for the factor."""


def pairs(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    """Draw one line per row, from its smallest value to its largest; omit zeros."""
    positive = [row for row in rows if _scaled_values(row, chart.y)]
    if not positive:
        names = " and ".join(chart.y)
        raise NoDataError(f"{names} are 0 or unknown in every row, so there is nothing to draw; ask without --plot")
    visible = positive[:_MOST_PAIRS]
    figure = Figure(figsize=(7.2, 0.5 * len(visible) + 1.5), layout="constrained")
    axes = figure.subplots()
    spots = [spot for row in visible for spot in _scaled_values(row, chart.y).values()]
    low, high = math.log10(min(spots)) - _ROOM, math.log10(max(spots)) + _ROOM
    colors = dict(zip(chart.y, cycle(OKABE_ITO)))
    for place, row in enumerate(visible):
        _draw(axes, place, _scaled_values(row, chart.y), colors, room=_WIDE * (high - low))
    axes.set_xscale("log")
    axes.set_xlim(10**low, 10**high)
    axes.set_ylim(len(visible) - 0.4, -0.6)  # the first row on top
    columns = dict.fromkeys((chart.x, *varying_columns(visible, identifying_columns(chart, visible))))
    axes.set_yticks(range(len(visible)), list(map(drawable, row_labels(visible, list(columns)))))
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(LogLocator(numticks=12))
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="x")
    handles = [
        Line2D([], [], marker="o", linestyle="none", markersize=8, color=ink, label=legend_label(chart, name, rows))
        for name, ink in colors.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    empty = len(rows) - len(positive)
    notes = [f"{empty} of {len(rows)} left out, no figure above 0"] if empty else []
    return figure, ["logarithmic", *notes, *omission_note(len(visible), len(positive), column_words(chart.x))]


def _scaled_values(row: Row, names: Sequence[str]) -> dict[str, float]:
    return {name: as_length(row[name]) for name in names if as_length(row[name]) > 0}


def _draw(axes: Axes, place: int, spots: dict[str, float], colors: dict[str, str], *, room: float) -> None:
    """Draw the dots of one row with their values outside, and the factor between them."""
    least, most = min(spots.values()), max(spots.values())
    axes.plot([least, most], [place, place], color=REST, linewidth=2, zorder=1)
    for name, spot in spots.items():
        axes.plot([spot], [place], "o", color=colors[name], markersize=9, zorder=2)
        side, shift = ("right", -8) if spot == least and most > least else ("left", 8)
        text = EngFormatter(places=1)(spot)
        axes.annotate(text, (spot, place), (shift, 0), textcoords="offset points", ha=side, va="center", fontsize=8)
    if math.log10(most / least) > room:
        text = f"{format_significant(most / least, digits=3)} times"
        middle = (math.sqrt(least * most), place)
        axes.annotate(text, middle, (0, 5), textcoords="offset points", ha="center", va="bottom", fontsize=8)
