"""Draw grids: one column across, another down, and the value written into each colored cell."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tracelab.output.labels import Quantity, Scale, column_quantity, fit_scale, format_significant
from tracelab.plot.labels import as_length, column_words, drawable, is_finite, legend_label, omission_note
from tracelab.plot.small_multiples import Panel, line_label, panels, value_label, wrap_title
from tracelab.plot.style import MAX_INCHES, REST
from tracelab.query.spec import Chart

Row = dict[str, Any]
Cells = dict[tuple[object, object], list[Any]]

STATUS_COLORS = {
    "ok": "#009E73",
    "oom": "#D55E00",
    "timeout": "#E69F00",
    "failed": "#000000",
    "profiler_error": "#CC79A7",
    "no_kernels": "#CC79A7",
    "permission_denied": "#CC79A7",
    "not_run": "#E8E8E8",
}
"""Colors that color-blind readers can distinguish; each cell has its word as well."""
_MAP = "cividis"
_EQUAL_CONTRAST = 0.179
"""Luminance on which black and white text have the same contrast, by WCAG 2."""
_ACROSS = 3
_CELL_INCHES = (0.62, 0.30)
_HEAD_INCHES = 0.45
_MOST_COLUMNS = 30
_MOST_DENSE_COLUMNS = 400
_DENSE_INCHES = 9.6


def grid(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    """Draw one grid per panel and y: x across, `by` down."""
    rows = [row for row in rows if row[chart.x] is not None]
    units = {name: _fit_unit(name, rows) for name in chart.y}
    rows = [row | {name: _scale(row[name], unit) for name, unit in units.items() if unit} for row in rows]
    drawn_y = [name for name in chart.y if any(row[name] is not None for row in rows)]
    visible, notes = panels(rows, chart)
    rows_with_value = [row for panel in visible for row in panel.rows if any(row[name] is not None for name in drawn_y)]
    every_x = _sort_values(row[chart.x] for row in rows_with_value)
    lines_with_value = {row[chart.by] if chart.by else None for row in rows_with_value}
    every_line = [
        line for line in _sort_values(row[chart.by] if chart.by else None for row in rows) if line in lines_with_value
    ]
    if len(every_x) > _MOST_COLUMNS and len(visible) == len(drawn_y) == 1 and all(map(is_finite, every_x)):
        values = [row[drawn_y[0]] for row in rows_with_value]
        if all(is_finite(value) for value in values if value is not None):
            unit = units[drawn_y[0]]
            return _draw_dense(visible[0], chart, (every_x, every_line), f" ({unit.symbol})" if unit else "", notes)
    columns = every_x[: max(1, _MOST_COLUMNS // len(drawn_y))]
    across = (
        len(drawn_y) if len(drawn_y) > 1 else min(len(visible), max(1, min(_ACROSS, _MOST_COLUMNS // len(columns))))
    )
    down = len(visible) if len(drawn_y) > 1 else -(-len(visible) // across)
    lines = every_line[: max(1, int((MAX_INCHES / down - _HEAD_INCHES) / _CELL_INCHES[1]))]
    notes += omission_note(len(columns), len(every_x), column_words(chart.x))
    notes += omission_note(len(lines), len(every_line), column_words(chart.by or ""))
    width, height = _CELL_INCHES[0] * len(columns), _CELL_INCHES[1] * len(lines)
    figure = Figure(
        figsize=(max(6.4, (width + 0.3) * across + 1.3), (height + _HEAD_INCHES) * down + 1.0), layout="constrained"
    )
    places = figure.subplots(down, across, squeeze=False)
    shades = {name: _assign_shades([row[name] for row in rows]) for name in drawn_y}
    tasks = [(panel, name) for panel in visible for name in drawn_y]
    for number, axes in enumerate(places.flat):
        if number >= len(tasks):
            axes.remove()
            continue
        panel, name = tasks[number]
        _draw(axes, _collect_cells(panel, chart, name), (columns, lines), shades[name])
        titles = [panel.title, *([column_words(name)] if len(drawn_y) > 1 else [])]
        axes.set_title(wrap_title(" · ".join(filter(None, titles)), max(width, figure.get_figwidth() / across - 1.3)))
        axes.set_yticks(
            range(len(lines)), [drawable(line_label(chart, line)) for line in lines] if number % across == 0 else []
        )
        axes.set_xticks(range(len(columns)), [drawable(value_label(column)) for column in columns])
        axes.set_xlabel(legend_label(chart, chart.x, rows) if number + across >= len(tasks) else "")
    unit = units[drawn_y[0]] if drawn_y else None
    symbol = f" ({unit.symbol})" if unit else ""
    caption = [f"cells: {legend_label(chart, drawn_y[0], rows)}{symbol}"] if len(drawn_y) == 1 else []
    return figure, [*notes, *caption]


def _draw_dense(
    panel: Panel, chart: Chart, order: tuple[list[Any], list[Any]], symbol: str, notes: list[str]
) -> tuple[Figure, list[str]]:
    """Draw cells that are too narrow for their numbers: a color bar has the scale instead."""
    every_x, every_line = order
    columns = every_x[:_MOST_DENSE_COLUMNS]
    lines = every_line[: max(1, int((MAX_INCHES - _HEAD_INCHES) / _CELL_INCHES[1]))]
    notes += omission_note(len(columns), len(every_x), column_words(chart.x))
    notes += omission_note(len(lines), len(every_line), column_words(chart.by or ""))
    cells = _collect_cells(panel, chart, chart.y[0])
    means = np.full((len(lines), len(columns)), np.nan)
    for down, line in enumerate(lines):
        for across, column in enumerate(columns):
            if values := cells.get((column, line)):
                means[down, across] = fmean(values)
    if np.isnan(means).any():
        notes += ["white: no value"]
    figure = Figure(figsize=(_DENSE_INCHES, _CELL_INCHES[1] * len(lines) + 3 * _HEAD_INCHES), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(means, aspect="auto", cmap=_MAP, interpolation="nearest", vmin=min(0.0, np.nanmin(means)))
    axes.set_yticks(range(len(lines)), [drawable(value_label(line)) for line in lines])
    axes.set_ylabel(column_words(chart.by or ""))
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda at, _: value_label(columns[int(at)]) if 0 <= at < len(columns) else "")
    )
    axes.set_xlabel(legend_label(chart, chart.x, panel.rows))
    axes.set_title(drawable(panel.title))
    for side in axes.spines.values():
        side.set_visible(False)
    figure.colorbar(image, label=f"{legend_label(chart, chart.y[0], panel.rows)}{symbol}")
    return figure, notes


def _fit_unit(name: str, rows: Sequence[Row]) -> Scale | None:
    """Return the unit of a column of durations or bytes; None for any other column."""
    kind = column_quantity(name)
    values = [row[name] for row in rows if is_finite(row[name])]
    return fit_scale(values, kind) if values and kind in {Quantity.DURATION, Quantity.BYTES} else None


def _scale(value: object, unit: Scale) -> object:
    return as_length(value) / unit.size if is_finite(value) else value


def _draw(axes: Axes, cells: Cells, order: tuple[Sequence[object], Sequence[object]], shade: Mapping[Any, str]) -> None:
    columns, lines = order
    for down, line in enumerate(lines):
        for across, column in enumerate(columns):
            values = cells.get((column, line))
            if values is None:
                continue
            text, ink = _cell_text(values, shade)
            light = _luminance(ink) > _EQUAL_CONTRAST
            axes.add_patch(Rectangle((across - 0.47, down - 0.47), 0.94, 0.94, color=ink, linewidth=0))
            axes.text(across, down, text, ha="center", va="center", fontsize=7, color="black" if light else "white")
    axes.set_xlim(-0.55, len(columns) - 0.45)
    axes.set_ylim(len(lines) - 0.45, -0.55)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def _luminance(ink: str) -> float:
    """Return the relative luminance of a color, with a gamma of 2.2 for the curve of sRGB."""
    red, green, blue = (math.pow(part, 2.2) for part in to_rgb(ink))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _collect_cells(panel: Panel, chart: Chart, name: str) -> Cells:
    cells: Cells = {}
    for row in panel.rows:
        if row[name] is not None:
            cells.setdefault((row[chart.x], row[chart.by] if chart.by else None), []).append(row[name])
    return cells


def _cell_text(values: Sequence[Any], shade: Mapping[Any, str]) -> tuple[str, str]:
    """Return text and color of a cell: the mean of numbers, or the rarest of different texts and its count."""
    if all(is_finite(value) for value in values):
        mean = fmean(values)
        return format_significant(mean, digits=2), shade.get(values[0], REST) if len(values) == 1 else _nearest_shade(
            mean, shade
        )
    counts = {value: list(values).count(value) for value in values}
    rarest = min(counts, key=lambda value: (counts[value], str(value)))
    text = drawable(value_label(rarest)).replace("_", " ")
    return text if len(counts) == 1 else f"{counts[rarest]}/{len(values)} {text}", shade[rarest]


def _nearest_shade(mean: float, shade: Mapping[Any, str]) -> str:
    return shade[min(shade, key=lambda value: abs(value - mean))]


def _assign_shades(values: Sequence[Any]) -> dict[Any, str]:
    """Assign a color to each value; numbers use a color map from 0 (or below) to 1 (or above)."""
    known = [value for value in values if value is not None]
    if not all(is_finite(value) for value in known):
        return {value: STATUS_COLORS.get(str(value), REST) for value in known}
    low, high = min(0.0, *known), max(1.0, *known)
    colors = mpl.colormaps[_MAP]
    return {value: mpl.colors.to_hex(colors((float(value) - low) / (high - low))) for value in known}


def _sort_values(values: Any) -> list[Any]:  # noqa: ANN401  an iterable of any cell type
    """Sort numbers by size; keep the order of texts."""
    distinct = list(dict.fromkeys(values))
    return sorted(distinct) if all(is_finite(value) for value in distinct) else distinct
