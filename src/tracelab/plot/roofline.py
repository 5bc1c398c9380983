"""Draw rooflines: kernels by arithmetic intensity and performance, below the ceilings of memory and arithmetic."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tracelab.errors import NoDataError
from tracelab.foreign_text import escape_controls
from tracelab.output.labels import IDENTITY, NO_NAME, shorten, strip_signature
from tracelab.plot.label_placement import Label, place
from tracelab.plot.labels import drawable, join_values, omission_note, varying_columns
from tracelab.plot.roofs import DASHED, INK, TERA, View, draw_ridges, draw_roofs, find_roofs, fit_view, is_positive
from tracelab.plot.style import OKABE_ITO, REST
from tracelab.query.spec import Chart

Row = dict[str, Any]

MOST_PANELS = 6
MOST_LABELS = 5
_LEAST_SHARE = 0.03  # of the time; kernels below it get no label
_LABEL_CELLS = 30
_SOURCES = {"measured": "measured", "ncu": "by the report", "specification": "by the data sheet"}
_LARGEST = 24.0  # points across, of a kernel that takes all the time; the area is in proportion
_SMALLEST = 4.0
_COUNTED, _BY_SHAPES = "o", "s"
"""Markers of kernels whose FLOPs were counted, and of ops whose FLOPs their shapes yield."""


def roofline(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    """Draw one panel per device: its roofs, its kernels, and their total."""
    by = varying_columns(rows, dict.fromkeys(IDENTITY))
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    panels = [(key, members) for key, members in groups.items() if kernel_points(members, chart)]
    if not panels:
        raise NoDataError("no kernel has both FLOPs and bytes to draw; `flop_missing` names the metrics to take")
    visible = panels[:MOST_PANELS]
    figure, grid = _create_figure(len(visible))
    points = [point for _, members in visible for point in kernel_points(members, chart)]
    colors = _colors(points)
    for axes, (key, members) in zip(grid, visible, strict=False):
        axes.set_title(drawable(join_values(by, key)) if by else "")
        _draw_panel(axes, members, chart, colors)
    has_others = any(point["class"] not in colors for point in points)
    _legend(figure, [row for _, members in visible for row in members], colors, has_others=has_others)
    empty = len(groups) - len(panels)
    notes = [f"{empty} of {len(groups)} devices left out, no point to draw"] if empty else []
    notes += omission_note(len(visible), len(panels), "device")
    return figure, [*_device_notes(rows), "area is time", *_source_notes(rows), *notes]


def kernel_points(rows: Sequence[Row], chart: Chart) -> list[Row]:
    """Return each kernel's total, or its known precisions if the total is unknown; longest kernels first."""
    known = [row for row in rows if is_positive(row[chart.x]) and is_positive(row[chart.y[0]])]
    totals = {_identify(row) for row in known if row["precision"] == "all"}
    points = [row for row in known if row["precision"] == "all" or _identify(row) not in totals]
    return sorted(points, key=lambda row: -(row["dur_ns"] or 0))


def _identify(row: Row) -> tuple[object, ...]:
    return row["kernel"], row["launch"], row["shapes"], _is_by_shapes(row)


def _is_by_shapes(row: Row) -> bool:
    return bool(row["flop_source"] == "shapes")


def total_point(rows: Sequence[Row]) -> tuple[float, float] | None:
    """Return intensity and GFLOP/s over all kernels, including pure data movement; None if a total is unknown.

    Ops whose FLOPs their shapes yield are left out beside counted kernels, which may be the same work.
    """
    counted = [row for row in rows if not _is_by_shapes(row)]
    totals = [row for row in counted or rows if row["precision"] == "all"]
    sums = [sum(row[name] or 0 for row in totals) for name in ("flop", "dram_bytes", "dur_ns")]
    if any(row[name] is None for row in totals for name in ("flop", "dram_bytes", "dur_ns")) or not all(sums):
        return None
    return sums[0] / sums[1], sums[0] / sums[2]


def _create_figure(panels: int) -> tuple[Figure, list[Axes]]:
    across = min(panels, 2)
    down = math.ceil(panels / across)
    width, height = (8.0, 5.8) if panels == 1 else (12.4, 4.5 * down + 1.0)
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)  # measures the labels
    figure.subplots_adjust(
        0.65 / width, 1.05 / height, 1 - 0.8 / width, 1 - (0.75 if panels == 1 else 0.95) / height, 0.36, 0.26
    )
    grid = list(figure.subplots(down, across, squeeze=False).flatten())
    for axes in grid[panels:]:
        axes.set_visible(False)
    return figure, grid


def _draw_panel(axes: Axes, rows: list[Row], chart: Chart, colors: dict[str, str]) -> None:
    points = kernel_points(rows, chart)
    roofs = find_roofs(rows)
    together = total_point(rows)
    spots = [(float(row[chart.x]), float(row[chart.y[0]])) for row in points]
    view = fit_view([*spots, *([together] if together else [])], roofs)
    _scales(axes, view)
    marks = _draw_points(axes, points, spots, colors, view)
    lines = draw_roofs(axes, roofs, view, marks)
    ridges = draw_ridges(axes, roofs, view)
    total_ns = sum(row["dur_ns"] or 0 for row in points)
    labeled = [mark for row, mark in zip(points, marks, strict=True) if (row["dur_ns"] or 0) >= _LEAST_SHARE * total_ns]
    labels = [*ridges, *labeled[:MOST_LABELS]]
    if together:
        x, y = together[0], together[1] / view.unit
        axes.plot([x], [y], "*", color="black", markersize=13, markeredgecolor="white", zorder=5)
        marks.append(Label("all kernels", x, y, 6))
        labels.insert(len(ridges), marks[-1])
    place(axes, labels, [*marks, *ridges], lines)


def _draw_points(
    axes: Axes, points: Sequence[Row], spots: Sequence[tuple[float, float]], colors: dict[str, str], view: View
) -> list[Label]:
    """Draw the kernels, hollow if only part of their FLOPs is known; return their labels."""
    total_ns = sum(row["dur_ns"] or 0 for row in points) or 1
    marks = []
    for row, (x, y) in zip(points, spots, strict=True):
        across = max(_LARGEST * ((row["dur_ns"] or 0) / total_ns) ** 0.5, _SMALLEST)
        ink = colors.get(row["class"], REST)
        style: dict[str, Any] = {"color": ink, "markeredgecolor": "white", "markeredgewidth": 0.6}
        if row["precision"] != "all":
            style = {"color": "none", "markeredgecolor": ink, "markeredgewidth": 1.4}
        axes.plot(
            [x], [y / view.unit], _BY_SHAPES if _is_by_shapes(row) else _COUNTED, markersize=across, zorder=4, **style
        )
        marks.append(Label(_kernel_label(row), x, y / view.unit, across / 2))
    return marks


def _scales(axes: Axes, view: View) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(view.left, view.right)
    axes.set_ylim(view.low / view.unit, view.high / view.unit)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=12))
        axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.grid(visible=True)
    axes.set_xlabel("arithmetic intensity (FLOP per byte of DRAM)")
    axes.set_ylabel(f"performance ({'T' if view.unit == TERA else 'G'}FLOP/s)")


def _kernel_label(row: Row) -> str:
    """Return a short kernel name without arguments, with the precision if the point covers only that."""
    text = strip_signature(escape_controls(row["kernel"] or "")) or NO_NAME
    name = drawable(shorten(text.split("<", maxsplit=1)[0] or text, _LABEL_CELLS))
    return name if row["precision"] == "all" else f"{name} ({row['precision'].replace('_', ' ')})"


def _colors(points: Sequence[Row]) -> dict[str, str]:
    """Assign colors to the classes with the most time."""
    times: dict[str, float] = {}
    for row in points:
        times[row["class"]] = times.get(row["class"], 0) + (row["dur_ns"] or 0)
    inks = OKABE_ITO[:-1]  # black is for all kernels together
    return dict(zip(sorted(times, key=lambda name: -times[name]), inks, strict=False))


def _legend(figure: Figure, rows: Sequence[Row], colors: dict[str, str], *, has_others: bool) -> None:
    handles = [
        Line2D([], [], marker="o", linestyle="none", color=ink, markersize=7, label=drawable(name.replace("_", " ")))
        for name, ink in colors.items()
    ]
    if has_others:
        handles.append(Line2D([], [], marker="o", linestyle="none", color=REST, markersize=7, label="other classes"))
    if any(map(_is_by_shapes, rows)):
        square: dict[str, Any] = {"marker": _BY_SHAPES, "linestyle": "none", "color": "none", "markeredgecolor": INK}
        handles.append(Line2D([], [], **square, markersize=7, label="op: FLOPs from shapes, least bytes"))
    if any(row["precision"] == "all" and row["flop"] is None for row in rows if not _is_by_shapes(row)):
        style: dict[str, Any] = {"marker": "o", "linestyle": "none", "color": "none", "markeredgecolor": INK}
        handles.append(Line2D([], [], **style, markersize=7, label="one precision, others not counted"))
    ceiling_sources = [row["ceiling_source"] or "" for row in rows]
    if sources := [label for name, label in _SOURCES.items() if any(name in source for source in ceiling_sources)]:
        handles.append(Line2D([], [], color=INK, linewidth=1.8, label=f"ceiling ({' and '.join(sources)})"))
    roofs = find_roofs(rows)
    if roofs.theoretical or roofs.theoretical_memory is not None:
        handles.append(Line2D([], [], color=INK, linewidth=0.9, linestyle=DASHED, label=_theoretical_label(rows)))
    figure.legend(handles=handles, loc="lower center", ncols=min(len(handles), 4))


def _theoretical_label(rows: Sequence[Row]) -> str:
    """Label the dashed roofs by their source."""
    sources_present = {row["theoretical_source"] for row in rows}
    sources = [label for name, label in _SOURCES.items() if name in sources_present]
    return f"theoretical ({' and '.join(sources)})" if sources else "theoretical"


def _device_notes(rows: Sequence[Row]) -> list[str]:
    cards = {row["device_name"] for row in rows if row["device_name"]}
    return [drawable(escape_controls(card)) for card in cards] if len(cards) == 1 else []


def _source_notes(rows: Sequence[Row]) -> list[str]:
    """Return notes on the source of the times and the run of the ceilings."""
    times = sorted({row["time_source"] for row in rows if row["time_source"]})
    runs = sorted({row["ceiling_run"] for row in rows if row["ceiling_run"] and row["ceiling_run"] != row["run"]})
    bases = sorted({row["ceiling_basis"] for row in rows if row["ceiling_basis"]})
    ceilings = [" and ".join(bases)] if bases else []
    ceilings += [f"run {drawable(escape_controls(', '.join(runs)))}"] if runs else []
    return [
        *([f"time of {' and '.join(times)}"] if times else []),
        *([f"measured ceilings: {', '.join(ceilings)}"] if ceilings else []),
    ]
