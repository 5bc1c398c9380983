"""Curves in small multiples: a panel for each case and unit, a line for each series, one axis for all that compares."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from tracelab.header import Chart
from tracelab.plot.axis import Axis, fitted_axis, is_finite
from tracelab.plot.labels import words
from tracelab.plot.multiples import MOST_PANELS, Panel, panels, text_of
from tracelab.plot.style import OKABE_ITO, REST, ZERO, color

Row = dict[str, Any]
Series = dict[str, list[tuple[float, float]]]

MARKERS = "osD^vP*X"
"""One for each colour, so that lines stay apart in grey."""
_ACROSS = 4
_LOG_FROM = 6
"""Where the largest x is so many times the smallest, doublings stand at equal distances."""
_MOST_TICKS = 10


def curves(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    """Draw each y over x: a row of panels for each y, or where there is one y, as many as fit side by side."""
    drawn_y = [name for name in chart.y if any(is_finite(row[name]) for row in rows)]
    shown, notes = panels(rows, chart, MOST_PANELS if len(drawn_y) == 1 else _ACROSS)
    titles = list(dict.fromkeys(_series_name(row, chart) for panel in shown for row in panel.rows))
    styles = {title: _style(index) for index, title in enumerate(titles)}
    across = min(len(shown), _ACROSS)
    down = len(drawn_y) if len(drawn_y) > 1 else -(-len(shown) // across)
    drawn = Figure(figsize=(max(6.4, 2.5 * across + 0.9), 2.3 * down + 0.9), layout="constrained")
    grid = drawn.subplots(down, across, squeeze=False, sharex=True, sharey="row" if len(drawn_y) > 1 else True)
    places = list(grid.flat) if len(drawn_y) == 1 else None
    handles: dict[str, Line2D] = {}
    for line, name in enumerate(drawn_y):
        axis = fitted_axis([name], rows, stacked=False)
        for column, panel in enumerate(shown):
            axes = grid[line, column] if places is None else places[column]
            handles |= _draw(axes, _series(panel, chart, name), styles, axis, name)
            axes.set_title(panel.title if line == 0 else "")
            axes.set_ylabel(axis.label if column % across == 0 else "")
    _finish(drawn, grid, rows, chart, len(shown) if places is not None else None)
    if len(handles) > 1:
        ordered = [title for title in titles if title in handles]
        legend = [handles[title] for title in ordered]
        drawn.legend(legend, ordered, loc="outside lower center", ncols=min(len(ordered), 5))
    return drawn, [*notes, *_repeats(shown, chart, drawn_y)]


def _draw(axes: Axes, series: Series, styles: Mapping[str, Any], axis: Axis, name: str) -> dict[str, Line2D]:
    handles = {}
    if name.endswith("_factor"):
        axes.axhline(1 / axis.size, color=ZERO, linewidth=0.8, linestyle=(0, (4, 3)))
    for title, points in series.items():
        style = styles[title]
        means = sorted({x: fmean(y for other, y in points if other == x) for x, _ in points}.items())
        xs, ys = [x for x, _ in means], [y / axis.size for _, y in means]
        handles[title] = axes.plot(xs, ys, linewidth=1.4, markersize=4, label=title, **style)[0]
        if len(points) > len(means):
            dots = dict(style, linestyle="none", markersize=2.5, alpha=0.5)
            axes.plot([x for x, _ in points], [y / axis.size for _, y in points], **dots)
    axes.set_ylim(axis.least, axis.limit)
    axes.grid(visible=True)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    return handles


def _series(panel: Panel, chart: Chart, name: str) -> Series:
    """Points by series; a series of nothing but 0 is no line."""
    found: Series = {}
    for row in panel.rows:
        if is_finite(row[name]) and is_finite(row[chart.x]):
            found.setdefault(_series_name(row, chart), []).append((float(row[chart.x]), float(row[name])))
    lively = {title: points for title, points in found.items() if any(y for _, y in points)}
    return lively or found


def _series_name(row: Row, chart: Chart) -> str:
    return text_of(row[chart.by]).replace("_", " ") if chart.by is not None else words(chart.y[0])


def _style(index: int) -> dict[str, Any]:
    if index >= len(OKABE_ITO):
        return {"color": REST, "marker": ".", "linestyle": "-"}
    return {"color": color(index), "marker": MARKERS[index], "linestyle": "-"}


def _finish(drawn: Figure, grid: Any, rows: Sequence[Row], chart: Chart, used: int | None) -> None:  # noqa: ANN401
    """Ticks where there are values, on a logarithmic axis where they double; no axes where there is no panel."""
    values = sorted({row[chart.x] for row in rows if is_finite(row[chart.x])})
    is_log = values[0] > 0 and values[-1] >= _LOG_FROM * values[0]
    ticks = values if len(values) <= _MOST_TICKS else values[:: -(-len(values) // _MOST_TICKS)]
    for axes in grid.flat:
        if is_log:
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(ticks, [f"{value:,.6g}" for value in ticks])
    for number, axes in enumerate(grid.flat):
        if used is not None and number >= used:
            axes.remove()
        elif used is not None and number + grid.shape[1] >= used:
            axes.tick_params(labelbottom=True)
    drawn.supxlabel(fitted_axis([chart.x], rows, stacked=False).label, fontsize=9)


def _repeats(shown: Sequence[Panel], chart: Chart, names: Sequence[str]) -> list[str]:
    """Said where a line stands for several rows at one place."""
    for panel in shown:
        for name in names:
            for points in _series(panel, chart, name).values():
                if len(points) > len({x for x, _ in points}):
                    return ["a line is the mean of several rows, each a dot"]
    return []
