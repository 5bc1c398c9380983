"""Draw timelines: the activity of each device per time bin, stacked to 100 %, one panel per device."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, PercentFormatter

from tracelab.output.labels import Quantity, fit_scale, format_significant
from tracelab.plot.labels import (
    as_length,
    drawable,
    identifying_columns,
    join_values,
    legend_label,
    omission_note,
    varying_columns,
    visible_parts,
)
from tracelab.plot.style import OKABE_ITO, REST
from tracelab.query.spec import Chart

Row = dict[str, Any]

MOST_DEVICES = 16
_COLORS = (OKABE_ITO[0], OKABE_ITO[3], OKABE_ITO[1], OKABE_ITO[2], OKABE_ITO[4])
"""Colors of parts; the last part of a timeline is the rest of a bin."""
_LENGTH = "bin_ns"


def timeline(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    """Draw each device's bins as steps: edges stay where they were measured, without smoothing."""
    identifying = varying_columns(rows, identifying_columns(chart, rows))
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in identifying), []).append(row)
    visible = list(groups.items())[:MOST_DEVICES]
    figure = Figure(figsize=(7.2, 0.95 * len(visible) + 1.35), layout="constrained")
    grid = figure.subplots(len(visible), 1, squeeze=False, sharex=len({row["run"] for row in rows}) == 1)
    scale = fit_scale([as_length(row[chart.x]) + as_length(row[_LENGTH]) for row in rows], Quantity.DURATION)
    shades = [*_COLORS[: len(chart.y) - 1], REST]
    for (key, bins), axes in zip(visible, grid[:, 0], strict=True):
        edges = [as_length(row[chart.x]) / scale.size for row in bins]
        edges.append((as_length(bins[-1][chart.x]) + as_length(bins[-1][_LENGTH])) / scale.size)
        below = [0.0] * len(bins)
        for name, shade in zip(chart.y, shades, strict=True):
            above = [
                base + as_length(row[name]) / as_length(row[_LENGTH]) for base, row in zip(below, bins, strict=True)
            ]
            axes.stairs(above, edges, baseline=below, fill=True, color=shade, linewidth=0)
            below = above
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 0.5, 1])
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.set_title(drawable(join_values(identifying, key)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.set_xlabel(f"time since the start ({scale.symbol})")
    figure.supylabel("share of the bin", fontsize=9)
    parts = visible_parts(chart.y, rows)
    handles = [
        Patch(color=shade, label=legend_label(chart, name, rows))
        for name, shade in zip(chart.y, shades, strict=True)
        if name in parts
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure, [*_bin_note(rows), *omission_note(len(visible), len(groups), "device")]


def _bin_note(rows: Sequence[Row]) -> list[str]:
    longest = max(as_length(row[_LENGTH]) for row in rows)
    scale = fit_scale([longest], Quantity.DURATION)
    return [f"a bin is {format_significant(longest / scale.size)} {scale.symbol}"]
