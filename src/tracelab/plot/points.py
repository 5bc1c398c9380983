"""Draw points: one column over another, alone or joined by lines."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from tracelab.plot.labels import (
    column_words,
    drawable,
    fit_axis,
    group_by_unit,
    identifying_columns,
    is_finite,
    join_values,
    varying_columns,
)
from tracelab.plot.style import OKABE_ITO, REST
from tracelab.query.spec import Chart

Row = dict[str, Any]

MOST_SERIES = len(OKABE_ITO)
MOST_DOTS = 50  # of a longer line they would hide it
_LOG_FROM = 100


def scatter(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    """Draw one point per row and y column; log scale beyond two decades."""
    return _draw_series(rows, chart, drawstyle=None)


def line(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    """Draw points joined in the order of x."""
    return _draw_series(rows, chart, drawstyle="default")


def steps(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    """Draw steps: each value holds until the next point."""
    return _draw_series(rows, chart, drawstyle="steps-post")


def _draw_series(
    rows: list[Row], chart: Chart, *, drawstyle: Literal["default", "steps-post"] | None
) -> tuple[Figure, list[str]]:
    """Draw one panel per unit of y, and one color per y and identifying value."""
    joined = drawstyle is not None
    groups = [names for names in group_by_unit(chart.y) if any(is_finite(row[name]) for row in rows for name in names)]
    figure = Figure(figsize=(7.2, 3.4 * len(groups) + 0.6), layout="constrained")
    grid = figure.subplots(len(groups), 1, squeeze=False, sharex=True)[:, 0]
    across = fit_axis([chart.x], rows, stacked=False)
    handles: dict[str, Line2D] = {}
    notes: list[str] = []
    for axes, names in zip(grid, groups, strict=True):
        up = fit_axis(names, rows, stacked=False)
        every = _collect_series(rows, chart, names)
        series = {title: points for title, points in every.items() if any(y for _, y in points)} if joined else every
        series = series or every
        if len(series) < len(every):
            notes.append(f"{len(every) - len(series)} of {len(every)} lines left out, all 0")
        if len(series) > MOST_SERIES:
            notes.append(f"{len(series) - MOST_SERIES + 1} of {len(series)} series in gray")
        for index, (title, points) in enumerate(series.items()):
            is_rest = len(series) > MOST_SERIES and index >= MOST_SERIES - 1
            name, ink = ("others", REST) if is_rest else (title, OKABE_ITO[index])
            xs, ys = zip(*[(across.scaled(x), up.scaled(y)) for x, y in sorted(points, key=itemgetter(0))], strict=True)
            dot = "" if joined and (drawstyle == "steps-post" or len(points) > MOST_DOTS) and len(points) > 1 else "o"
            style: dict[str, Any] = {"color": ink, "marker": dot, "markersize": 4 if joined else 5}
            style |= {"linestyle": "-", "drawstyle": drawstyle} if joined else {"linestyle": "none"}
            handles[name] = axes.plot(xs, ys, linewidth=1.4, alpha=0.9, label=drawable(name), **style)[0]
        axes.set_ylabel(up.label)
        axes.grid(visible=True)
        if joined:  # heights are compared, and read from the base
            axes.set_ylim(up.least, up.limit)
        _scale(axes, rows, chart.x, names, joined=joined)
    grid[-1].set_xlabel(across.label)
    if len(handles) > 1:
        figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=3)
    return figure, notes


def _collect_series(rows: list[Row], chart: Chart, names: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    by = [name for name in varying_columns(rows, identifying_columns(chart, rows)) if name != chart.x]
    if chart.by is not None and chart.kind == "scatter":
        by = [name for name in by if name == chart.by]
    series: dict[str, list[tuple[float, float]]] = {}
    for name in names:
        for row in rows:
            if is_finite(row[name]) and is_finite(row[chart.x]):
                parts = [join_values(by, [row[key] for key in by])] if by else []
                title = " · ".join([*([column_words(name)] if len(names) > 1 else []), *parts]) or column_words(name)
                series.setdefault(title, []).append((row[chart.x], row[name]))
    return series


def _scale(axes: Axes, rows: list[Row], x: str, names: Sequence[str], *, joined: bool) -> None:
    """Set log scale for scatter plots beyond two decades, and plain tick labels."""
    for columns, axis, set_scale in (((x,), axes.xaxis, axes.set_xscale), (names, axes.yaxis, axes.set_yscale)):
        values = [row[name] for row in rows for name in columns if is_finite(row[name])]
        if not joined and min(values) > 0 and max(values) > _LOG_FROM * min(values):
            set_scale("log")
            axis.set_minor_formatter(FuncFormatter(lambda *_: ""))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
