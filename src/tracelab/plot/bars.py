"""Draw bar charts: side by side or stacked, one panel per process."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tracelab.output.labels import IDENTITY, Quantity, column_quantity, format_significant
from tracelab.plot.labels import (
    Axis,
    as_length,
    column_words,
    drawable,
    fit_axis,
    group_by_unit,
    identifying_columns,
    is_additive,
    is_finite,
    join_values,
    legend_label,
    omission_note,
    pluralize,
    row_labels,
    sum_known,
    varying_columns,
    visible_parts,
)
from tracelab.plot.style import DARK, MAX_INCHES, OKABE_ITO, REST, ZERO
from tracelab.query.spec import Chart

Row = dict[str, Any]

MOST_BARS = 20
MOST_BARS_IN_ALL = 48
MOST_PANELS = 12
IN_TIME = ("step", "epoch")
"""Columns with an order of their own, the order of the rows; other bars are sorted by length."""
_LEAST_PLACES = 2
_BAR_INCHES, _HEAD_INCHES = 0.24, 0.8
_LEAST_BARS = 5
_ROOM_FOR_A_SHARE = 0.059
_ALIKE = 4  # runs whose longest bars differ by more have an axis each; panels of one run are compared on one
_SIGNS = {True: ("▲ ", "#D55E00", "////"), False: ("▼ ", "#0072B2", None)}
"""Of a signed chart sign, color and hatch of values above 0, and of those below."""
_SIGNED = ["▲, hatched: more than before", "▼: less"]
_LABEL = "\0label"  # no column has such a name
_IS_REST = "\0rest"


@dataclass(frozen=True)
class _Panel:
    """The bars of one process, and the number of bars including omitted ones."""

    title: str
    run: object
    bars: list[Row]
    of: int


def bars(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    """Draw one bar per row and y column."""
    return _draw_panels(rows, chart, stacked=False)


def stacked(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    """Draw one bar per row with its y columns stacked."""
    return _draw_panels(rows, chart, stacked=True)


def _draw_panels(rows: list[Row], chart: Chart, *, stacked: bool) -> tuple[Figure, list[str]]:
    """Draw horizontal bars, since labels are long: one row of panels per process, one column of panels per unit."""
    panels, several, notes = _group_into_panels(rows, chart)
    groups = [names for names in group_by_unit(chart.y) if any(is_finite(row[name]) for row in rows for name in names)]
    widest = 1 if stacked else max(map(len, groups))
    tall = [max(len(panel.bars), _LEAST_PLACES) * widest**0.5 for panel in panels]
    below = accumulate(_BAR_INCHES * each + _HEAD_INCHES for each in tall)
    panels = panels[: max(1, sum(inches <= MAX_INCHES for inches in below))]
    heights = tall[: len(panels)]
    colors = {name: REST if name.startswith("idle") else hue for name, hue in zip(chart.y, cycle(OKABE_ITO))}
    own = not chart.signed and any(_need_own_axes(panels, names, stacked=stacked) for names in groups)
    inches = _BAR_INCHES * sum(heights) + (_HEAD_INCHES if own else 0.5) * len(panels) + 0.9
    figure = Figure(figsize=(7.2 if len(groups) == 1 else 9.6, inches), layout="constrained")
    grid = figure.subplots(
        len(panels), len(groups), squeeze=False, sharex=False if own else "col", height_ratios=heights
    )
    for column, names in enumerate(groups):
        label = legend_label(chart, names[0], rows) if names[0] in chart.labels else ""
        shared = fit_axis(names, [bar for panel in panels for bar in panel.bars], stacked=stacked, label=label)
        own_axes = own and _need_own_axes(panels, names, stacked=stacked)
        for panel, axes in zip(panels, grid[:, column], strict=True):
            bars = panel.bars
            own_bars = _bars_of(panels, panel.run)
            axis = fit_axis(names, own_bars, stacked=stacked, label=label) if own_axes else shared
            _draw_bars(axes, bars, {name: colors[name] for name in names}, axis, stacked=stacked, signed=chart.signed)
            texts = [drawable(bar[_LABEL]) if column == 0 else "" for bar in bars]
            axes.set_yticks(range(len(bars)), texts)
            axes.set_title(drawable(panel.title) if column == 0 else "")
            axes.set_xlabel(axis.label if own_axes or axes is grid[-1, column] else "")
    if max(map(len, groups)) > 1:
        named = visible_parts(chart.y, rows) if stacked else chart.y
        handles = [Patch(color=colors[name], label=legend_label(chart, name, rows)) for name in named]
        figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 4))
    missing = sum(panel.of - len(panel.bars) for panel in panels)
    of = sum(panel.of for panel in panels)
    noun = "bar" if chart.x in IDENTITY and len(panels) > 1 else column_words(chart.x)  # each panel has the same ranks
    notes += omission_note(len(panels), several, "panel") + omission_note(of - missing, of, noun)
    return figure, [*notes, *(["each run has its own axis"] if own else []), *(_SIGNED if chart.signed else [])]


def _bars_of(panels: Sequence[_Panel], run: object) -> list[Row]:
    return [bar for panel in panels if panel.run == run for bar in panel.bars]


def _need_own_axes(panels: Sequence[_Panel], names: Sequence[str], *, stacked: bool) -> bool:
    """Return whether a run's bars would be unreadably short on another run's axis; shares always use one axis."""
    if column_quantity(names[0]) is Quantity.RATIO:
        return False
    runs = list(dict.fromkeys(panel.run for panel in panels))
    axes = [fit_axis(names, _bars_of(panels, run), stacked=stacked) for run in runs]
    longest = [axis.width * axis.size for axis in axes]
    return max(longest) > _ALIKE * min(longest)


def _draw_bars(
    axes: Axes, bars: Sequence[Row], colors: dict[str, str], axis: Axis, *, stacked: bool, signed: bool
) -> None:
    thickness = 0.72 if stacked else 0.8 / len(colors)
    starts = [0.0] * len(bars)
    totals = [sum(axis.scaled(bar[name]) for name in colors) for bar in bars]
    for index, (name, shade) in enumerate(colors.items()):
        lengths = [axis.scaled(bar[name]) for bar in bars]
        shift = 0.0 if stacked else (index - (len(colors) - 1) / 2) * thickness
        shades = [REST if bar.get(_IS_REST) and not stacked else shade for bar in bars]
        places = [place + shift for place in range(len(bars))]
        drawn = axes.barh(places, lengths, thickness, left=starts if stacked else None, color=shades, linewidth=0)
        if signed:
            for patch, length in zip(drawn, lengths, strict=True):
                _, face, hatch = _SIGNS[length > 0]
                patch.set(facecolor=face, hatch=hatch, edgecolor="white")
        if stacked:
            _write_shares(axes, starts, lengths, totals, shade, room=_ROOM_FOR_A_SHARE * axis.limit)
            starts = [start + length for start, length in zip(starts, lengths, strict=True)]
        else:
            _write_values(axes, places, lengths, [bar[name] for bar in bars], axis, signed=signed)
    margin = 0.6 + max(0, _LEAST_PLACES - len(bars)) / 2
    axes.set_ylim(len(bars) - 1 + margin, -margin)  # the first bar on top
    axes.set_xlim(axis.least, axis.limit)
    if axis.least < 0:
        axes.axvline(0, color=ZERO, linewidth=0.8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)


def _write_values(
    axes: Axes, places: Sequence[float], lengths: Sequence[float], values: Sequence[object], axis: Axis, *, signed: bool
) -> None:
    for place, length, value in zip(places, lengths, values, strict=True):
        is_integer = isinstance(value, int) and axis.size == 1
        text = "no value" if value is None else f"{value:,}" if is_integer else format_significant(length, digits=3)
        if signed and length:
            text = _SIGNS[length > 0][0] + text
        gap, side = (-0.008, "right") if length < 0 else (0.008, "left")
        axes.text(length + axis.width * gap, place, text, va="center", ha=side, fontsize=7, color="#333333")


def _write_shares(
    axes: Axes, starts: Sequence[float], lengths: Sequence[float], totals: Sequence[float], shade: str, *, room: float
) -> None:
    """Write the percentage into each part that is wide enough."""
    for place, (start, length, total) in enumerate(zip(starts, lengths, totals, strict=True)):
        if length > room:
            ink = "white" if shade in DARK else "black"
            text = f"{length / total:.0%}"
            axes.text(start + length / 2, place, text, ha="center", va="center", fontsize=7, color=ink)


def _has_length(rows: Sequence[Row], chart: Chart) -> bool:
    return any(as_length(row[name]) for row in rows for name in chart.y)


def _length(row: Row, chart: Chart) -> float:
    """Return the length of a row's bar: all parts of a stacked bar, else the first column."""
    parts = chart.y if chart.kind == "stacked" else chart.y[:1]
    return abs(sum(as_length(row[name]) for name in parts))


def _max_bars(counts: Sequence[int]) -> int:
    """Return the maximum number of bars per panel such that all panels fit on a page."""
    fits = (
        most
        for most in range(MOST_BARS, _LEAST_BARS, -1)
        if sum(min(count, most) for count in counts) <= MOST_BARS_IN_ALL
    )
    return next(fits, _LEAST_BARS)


def _group_into_panels(rows: list[Row], chart: Chart) -> tuple[list[_Panel], int, list[str]]:
    """Group rows into panels of labeled, sorted bars; return them, their number before the limit, and notes."""
    identifying = [name for name in varying_columns(rows, identifying_columns(chart, rows)) if name != chart.x]
    over_identity = chart.x in IDENTITY
    by = [name for name in identifying if name == chart.by] if over_identity else identifying
    within = [name for name in identifying if name not in by]
    label = [name for name in IDENTITY if name in within or name == chart.x] if over_identity else [chart.x]
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    nonzero = {key: members for key, members in groups.items() if _has_length(members, chart)} or groups
    empty = len(groups) - len(nonzero)
    notes = [f"{empty} of {len(groups)} panels left out, all 0"] if empty else []
    visible = list(nonzero.items())[:MOST_PANELS]
    most = _max_bars([len(members) for _, members in visible])
    panels = []
    for key, members in visible:
        kept = over_identity or chart.x in IN_TIME
        ordered = members if kept else sorted(members, key=lambda row: -_length(row, chart))
        bars, rest = ordered[:most], ordered[most:]
        bars = [bar | {_LABEL: text} for bar, text in zip(bars, row_labels(bars, label), strict=True)]
        of = len(members)
        if rest and not over_identity and all(map(is_additive, chart.y)):  # processes are compared, not added up
            title = f"others ({pluralize(len(rest), column_words(chart.x))})"
            bars.append({_LABEL: title, _IS_REST: True} | {name: sum_known(rest, name) for name in chart.y})
            of = len(bars)
        run = key[by.index("run")] if "run" in by else None
        panels.append(_Panel(join_values(by, key), run, bars, of))
    return panels, len(nonzero), notes
