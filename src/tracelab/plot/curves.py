"""Draw line charts as small multiples: one panel per case and unit, one line per series, shared axes."""

from collections.abc import Iterable, Mapping, Sequence
from math import isnan, nan
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FuncFormatter, NullLocator

from tracelab.output.labels import IDENTITY, Quantity, column_quantity
from tracelab.plot.labels import Axis, column_words, drawable, fit_axis, is_finite, pluralize
from tracelab.plot.small_multiples import MOST_PANELS, Panel, label_values, line_label, panels, wrap_title
from tracelab.plot.style import MAX_INCHES, OKABE_ITO, REST, ZERO
from tracelab.query.spec import Chart

Row = dict[str, Any]
Series = dict[str, list[tuple[float, float]]]

MARKERS = "osD^vP*X"
"""Dash patterns, one per color, so that lines differ in black and white too."""
_ACROSS = 4
_HEIGHT = 2.3
_EDGE = 0.55  # inches of a panel beside its axes
_LOG_FROM = 6
"""The axis becomes logarithmic if the largest x is at least this many times the smallest."""
_MOST_TICKS = 10
_ALIKE = 4  # panels whose highest lines differ by more have an axis each
_MARGIN = 0.05
_LARGE = 1e6  # numbers from here on are written as 4.3G


def curves(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    """Draw each y over x: one row of panels per y, or panels side by side for a single y."""
    rows = [row for row in rows if is_finite(row[chart.x])]
    names = [name for name in chart.y if any(is_finite(row[name]) for row in rows)]
    fit = max(1, int(MAX_INCHES / (_HEIGHT * len(names))))
    visible, notes = panels(rows, chart, min(MOST_PANELS, fit * _ACROSS))
    labels = label_values([row[chart.by] for panel in visible for row in panel.rows]) if chart.by else {}
    series_by_axes = {
        (name, place): _collect_series(panel, chart, name, labels)
        for name in names
        for place, panel in enumerate(visible)
    }
    spots = {
        title: sum(len(series.get(title, ())) for series in series_by_axes.values())
        for title in _panel_titles(visible, chart, labels)
    }
    titles = [title for title, count in spots.items() if count]
    if len(titles) > len(OKABE_ITO):  # those of the most points have a color
        titles.sort(key=lambda title: -spots[title])
    styles = {title: _style(index) for index, title in enumerate(titles)}
    across = min(len(visible), _ACROSS)
    blocks = -(-len(visible) // across)
    down = len(names) * blocks
    width = max(6.4, 2.6 * across + 0.9)
    figure = Figure(figsize=(width, _HEIGHT * down + 0.9), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False)
    own = [name for name in names if _need_own_axes(visible, name)]
    for (name, place), series in series_by_axes.items():
        axes = grid[names.index(name) + len(names) * (place // across), place % across]
        axis = fit_axis([name], visible[place].rows if name in own else rows, stacked=False)
        _draw(axes, series, styles, axis, name)
        axes.set_title(wrap_title(visible[place].title, width / across - _EDGE) if name == names[0] else "")
        axes.set_ylabel(axis.label if place % across == 0 or name in own else "")
    _finish_axes(grid, rows, chart, (len(visible), len(names)))
    if len(titles) > 1:
        handles = [
            Line2D([], [], markersize=4, label=drawable(title), **styles[title]) for title in titles[: len(OKABE_ITO)]
        ]
        if rest := len(titles) - len(handles):
            handles.append(Line2D([], [], markersize=4, label=pluralize(rest, "other"), **_style(len(OKABE_ITO))))
        figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5))
    notes += ["each panel has its own axis"] if own else []
    return figure, [
        *notes,
        *(["a line is the mean of several rows, each a dot"] if _has_averaged_points(series_by_axes.values()) else []),
    ]


def _need_own_axes(visible: Sequence[Panel], name: str) -> bool:
    """Return whether a panel's lines would be unreadably flat on another panel's axis; shares always use one axis."""
    if column_quantity(name) is Quantity.RATIO or name.endswith("accuracy"):
        return False
    highest = [max([0.0, *(abs(row[name]) for row in panel.rows if is_finite(row[name]))]) for panel in visible]
    return column_quantity(name) is not Quantity.RATIO and max(highest) > _ALIKE * min(
        [each for each in highest if each] or [1]
    )


def _draw(axes: Axes, series: Series, styles: Mapping[str, Any], axis: Axis, name: str) -> None:
    if name.endswith("_factor"):
        axes.axhline(1 / axis.size, color=ZERO, linewidth=0.8, linestyle=(0, (4, 3)))
    for title, points in series.items():
        places = sorted({x for x, _ in points})
        means = [_mean([y for other, y in points if other == x]) / axis.size for x in places]
        axes.plot(places, means, linewidth=1.4, markersize=4, **styles[title])
        if len(points) > len(places):
            dots = dict(styles[title], linestyle="none", markersize=2.5, alpha=0.5)
            axes.plot([x for x, _ in points], [y / axis.size for _, y in points], **dots)
    axes.set_ylim(axis.least, axis.limit)
    axes.grid(visible=True)
    large = EngFormatter(sep="")
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: large(value) if abs(value) >= _LARGE else f"{value:,.6g}")
    )


def _mean(values: Sequence[float]) -> float:
    """Return the mean of the known values; NaN without any, which leaves a gap in the line."""
    known = [value for value in values if not isnan(value)]
    return fmean(known) if known else nan


def _panel_titles(visible: Sequence[Panel], chart: Chart, labels: Mapping[object, str]) -> list[str]:
    return list(dict.fromkeys(_series_name(row, chart, labels) for panel in visible for row in panel.rows))


def _collect_series(panel: Panel, chart: Chart, name: str, labels: Mapping[object, str]) -> Series:
    """Collect points by series, NaN for missing values; drop series of zeros."""
    series: Series = {}
    for row in panel.rows:
        y = float(row[name]) if is_finite(row[name]) else nan
        series.setdefault(_series_name(row, chart, labels), []).append((float(row[chart.x]), y))
    known = {title: points for title, points in series.items() if not all(isnan(y) for _, y in points)}
    return {title: points for title, points in known.items() if any(y > 0 or y < 0 for _, y in points)} or known


def _series_name(row: Row, chart: Chart, labels: Mapping[object, str]) -> str:
    if chart.by is None:
        return column_words(chart.y[0])
    return line_label(chart, row[chart.by]) if chart.by in IDENTITY else labels[row[chart.by]].replace("_", " ")


def _style(index: int) -> dict[str, Any]:
    if index >= len(OKABE_ITO):
        return {"color": REST, "marker": ".", "linestyle": "-"}
    return {"color": OKABE_ITO[index], "marker": MARKERS[index], "linestyle": "-"}


def _finish_axes(grid: Any, rows: Sequence[Row], chart: Chart, used: tuple[int, int]) -> None:  # noqa: ANN401  axes
    """Set ticks at the values, log scale where they double, and remove unused axes."""
    values = sorted({row[chart.x] for row in rows})
    is_log = values[0] > 0 and values[-1] >= _LOG_FROM * values[0]
    ticks = values if len(values) <= _MOST_TICKS else values[:: -(-len(values) // _MOST_TICKS)]
    (visible, each), across = used, grid.shape[1]
    for number, axes in enumerate(grid.flat):
        row, column = divmod(number, across)
        place = row // each * across + column
        if place >= visible:
            axes.remove()
            continue
        if is_log:
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
        is_lowest = row % each == each - 1 and place + across >= visible
        axes.set_xlim(*_padded_limits(values, is_log=is_log))
        axes.set_xticks(ticks, [f"{value:,.6g}" if is_lowest else "" for value in ticks])
        axes.set_xlabel(column_words(chart.x) if is_lowest else "")


def _padded_limits(values: Sequence[float], *, is_log: bool) -> tuple[float, float]:
    """Return limits a little beyond the first and last value."""
    low, high = float(values[0]), float(values[-1])
    if is_log:
        factor = (high / low) ** _MARGIN
        return low / factor, high * factor
    room = (high - low) * _MARGIN or 0.5
    return low - room, high + room


def _has_averaged_points(every_series: Iterable[Series]) -> bool:
    """Return whether a line averages several rows at one x."""
    every = (points for series in every_series for points in series.values())
    return any(len(points) > len({x for x, _ in points}) for points in every)
