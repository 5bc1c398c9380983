"""Draw a row's chart: published, study's and corrected figures, in small multiples by quantity and series."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from tracelab import plot
from tracelab.errors import NoDataError, UsageError
from tracelab.foreign_text import escape_controls
from tracelab.output.labels import Quantity, fit_scale, shorten_distinctly
from tracelab.plot.labels import drawable
from tracelab.plot.style import OKABE_ITO, STYLE
from tracelab.query import library
from tracelab.study.evaluate import FIGURES, Answer
from tracelab.study.spec import Chart

Cell = dict[str, Any]

MOST_PANELS = 12
MOST_PLACES = 16
_COLUMNS = 3
_LABEL, _TITLE = 30, 38
_TITLE_LINES = 2
_MOST_NAMED = 8
_ROOM_A_NAME = 0.07
_WORDS = {"published": "published", "study": "study's method", "corrected": "corrected"}
_COLORS = {"published": OKABE_ITO[7], "study": OKABE_ITO[1], "corrected": OKABE_ITO[0]}
_FILLS = _COLORS | {"published": "white"}
_MARKS = {"published": "D", "study": "o", "corrected": "o"}
_UNTIL = "until the run failed"
_LINE_COLUMNS = ("model", "setting", "gpus", "batch_size", "machine")
"""Columns that distinguish the lines of a panel, in this order."""
_SHAPES = "os^vP*X"
"""Markers of lines; there is one more dash pattern, so that combinations repeat late."""
_DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (8, 2)), (0, (1, 3)), (0, (4, 1, 1, 1, 1, 1)), (0, (8, 2, 1, 2)))
_HOLLOW = {"markerfacecolor": "white"}
"""Marker style of a failed run."""
_SCALED = {"ns": Quantity.DURATION, "bytes": Quantity.BYTES}


def draw_row(answer: Answer) -> Figure:
    """Draw the row's chart; raise NoDataError without figures."""
    chart = answer.row.chart
    if chart is None:
        raise UsageError(f"{answer.row.id} has no figure; `tracelab study show {answer.row.id}` shows its numbers")
    if chart.answer is not None:
        query = library.find(answer.row.answers[chart.answer].query)
        return plot.figure(answer.charted[chart.answer], query)
    cells = [cell for cell in answer.cells.to_pylist() if any(_is_shown(cell, name, chart) for name in FIGURES)]
    if not cells:
        raise NoDataError(f"{answer.row.id} has no figure to draw; `tracelab study show {answer.row.id}` shows why")
    with mpl.rc_context(STYLE):
        return _draw_panels(answer, cells, chart)


def _draw_panels(answer: Answer, cells: Sequence[Cell], chart: Chart) -> Figure:
    panels = _group_panels(cells, chart)
    ordered = sorted(panels.items(), key=lambda panel: not any(cell["published"] is not None for cell in panel[1]))
    shown = ordered[:MOST_PANELS]  # those with published figures first: the others compare with them
    columns = min(_COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    drawn = Figure(figsize=(max(3.4 * columns, 5.2), 2.7 * lines + 1.1), layout="constrained")
    grid = drawn.subplots(lines, columns, squeeze=False)
    for axes in list(grid.flat)[len(shown) :]:
        axes.set_visible(False)
    titles = shorten_distinctly([escape_controls(part) for title, _ in shown for part in title], _TITLE * _TITLE_LINES)
    for (title, members), axes in zip(shown, grid.flat, strict=False):
        _draw_panel(axes, members, chart)
        axes.set_title("\n".join(_wrap_title(titles[escape_controls(part)]) for part in title if part))
        axes.set_ylabel(_unit(members))
    members_shown = [cell for _, members in shown for cell in members]
    drawn_names = [name for name in FIGURES if any(_is_shown(cell, name, chart) for cell in members_shown)]
    handles = [Line2D([], [], linestyle="none", label=_WORDS[name], **_style(name)) for name in drawn_names]
    handles += [
        Line2D([], [], linestyle="none", label=f"{_WORDS[name]}, {_UNTIL}", **_style(name) | _HOLLOW)
        for name in drawn_names
        if any(cell["status"] and _is_shown(cell, name, chart) for cell in members_shown)
    ]
    drawn.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    notes = [f"{len(shown)} of {len(panels)} panels shown"] if len(panels) > len(shown) else []
    head = [f"{answer.row.id}  {answer.row.title}", *notes]
    drawn.suptitle("\n".join(map(drawable, head)), x=0.01, ha="left", fontsize=10)
    return drawn


def _group_panels(cells: Sequence[Cell], chart: Chart) -> dict[tuple[str, str], list[Cell]]:
    """Group the cells by quantity and series; figures published for all series join each panel of their quantity."""
    panels: dict[tuple[str, str], list[Cell]] = {}
    if chart.by is None:
        for cell in cells:
            panels.setdefault((cell["quantity"], ""), []).append(cell)
        return panels
    for cell in cells:
        if cell[chart.by] is not None:
            panels.setdefault((cell["quantity"], _text(cell, chart.by)), []).append(cell)
    for cell in cells:
        if cell[chart.by] is None:
            beside = [members for (name, _), members in panels.items() if name == cell["quantity"]]
            for members in beside or [panels.setdefault((cell["quantity"], ""), [])]:
                members.append(cell)
    return panels


def _wrap_title(text: str) -> str:
    """Wrap a part of a title."""
    return "\n".join(map(drawable, textwrap.wrap(text, _TITLE)))


def _style(name: str) -> dict[str, Any]:
    return {"color": _COLORS[name], "marker": _MARKS[name], "markerfacecolor": _FILLS[name], "markersize": 5}


def _draw_panel(axes: Axes, cells: Sequence[Cell], chart: Chart) -> None:
    """Draw a panel: places along x, in order, with up to three figures each."""
    places = sorted({_place(cell, chart.x) for cell in cells})[:MOST_PLACES]
    lines = _group_lines(cells, chart) if chart.kind == "line" else {}
    shapes = {id(cell): shape for members, shape in zip(lines.values(), cycle(_SHAPES)) for cell in members}
    for offset, name in enumerate(FIGURES):
        shift = 0.0 if chart.kind == "line" else (offset - 1) * 0.18
        for cell in cells:
            if _is_shown(cell, name, chart) and _place(cell, chart.x) in places:
                spot = (places.index(_place(cell, chart.x)) + shift, cell[name] / _size(cells))
                shape = {"marker": shapes[id(cell)]} if id(cell) in shapes and name != "published" else {}
                _draw_point(axes, spot, cell, _style(name) | shape)
                if chart.kind == "bars":
                    base = _bar_base(cells, _size(cells), chart)
                    axes.vlines(*spot[:1], base, spot[1], color=_COLORS[name], linewidth=2.5, alpha=0.55)
    _draw_lines(axes, lines, chart, places, _size(cells))
    if chart.log:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif all((cell[name] or 0) >= 0 for cell in cells for name in FIGURES):
        room = 1.1 + (_ROOM_A_NAME * min(len(lines), _MOST_NAMED) if len(lines) > 1 else 0)  # for the legend
        axes.set_ylim(0, room * max(_values(cells), default=1.0) / _size(cells) or 1.0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    slanted = max((len(label) for _, label in places), default=0) > 6  # noqa: PLR2004  else labels run into each other
    axes.set_xticks(
        range(len(places)),
        list(map(drawable, shorten_distinctly([label for _, label in places], _LABEL).values())),
        rotation=30 if slanted else 0,
        ha="right" if slanted else "center",
        fontsize=7,
    )
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(-0.6, len(places) - 0.4)
    axes.set_xlabel("" if slanted else chart.x.replace("_", " "))
    axes.grid(axis="y")


def _draw_point(axes: Axes, spot: tuple[float, float], cell: Cell, style: dict[str, Any]) -> None:
    """Draw a figure; that of a failed run is hollow and labeled with its status."""
    axes.plot(
        *[[place] for place in spot], zorder=3, linestyle="none", **(style | _HOLLOW if cell["status"] else style)
    )
    if cell["status"]:
        text = drawable(escape_controls(cell["status"]))
        axes.annotate(text, spot, (-6, 0), textcoords="offset points", ha="right", va="center", fontsize=7)


def _draw_lines(
    axes: Axes, lines: Mapping[str, Sequence[Cell]], chart: Chart, places: Sequence[tuple[float, str]], size: float
) -> None:
    """Draw lines through the cells that differ in x alone, repeats as their mean, each with its own dashes.

    Failed runs are on no line, because their figures end at the failure.
    """
    for members, dashes in zip(lines.values(), cycle(_DASHES)):
        for name in ("study", "corrected"):
            points: dict[int, list[float]] = {}
            for cell in members:
                if _is_shown(cell, name, chart) and _place(cell, chart.x) in places and not cell["status"]:
                    points.setdefault(places.index(_place(cell, chart.x)), []).append(cell[name] / size)
            if points:
                means = [(x, sum(points[x]) / len(points[x])) for x in sorted(points)]
                axes.plot(*zip(*means, strict=True), color=_COLORS[name], linewidth=1.2, alpha=0.8, linestyle=dashes)
    if len(lines) > 1:
        labels = shorten_distinctly(lines, _LABEL)
        handles = [
            Line2D([], [], color="black", linewidth=0.8, linestyle=dashes, marker=shape, markersize=3.5, label=label)
            for label, dashes, shape in zip(map(drawable, labels.values()), cycle(_DASHES), cycle(_SHAPES))
        ]
        more = len(handles) - _MOST_NAMED
        rest = [Line2D([], [], linestyle="none", label=f"and {more} more")] if more > 0 else []
        axes.legend(handles=[*handles[:_MOST_NAMED], *rest], fontsize=5.5, handlelength=3.5)


def _group_lines(cells: Sequence[Cell], chart: Chart) -> dict[str, list[Cell]]:
    """Group the cells of runs by the label of their line in the panel."""
    ours = [cell for cell in cells if any(_is_shown(cell, name, chart) for name in ("study", "corrected"))]
    columns: list[str] = []
    for column in _LINE_COLUMNS:  # skip a column that separates no more cells
        more = {tuple(cell[each] for each in (*columns, column)) for cell in ours}
        if column not in (chart.x, chart.by) and len(more) > len(
            {tuple(cell[each] for each in columns) for cell in ours}
        ):
            columns.append(column)
    words = [
        tuple(part for each in columns if cell[each] is not None for part in _text(cell, each).split(", "))
        for cell in ours
    ]
    shared = set.intersection(*map(set, words)) if len(set(words)) > 1 else set()
    lines: dict[str, list[Cell]] = {}
    for cell, parts in zip(ours, words, strict=True):
        lines.setdefault(", ".join(part for part in parts if part not in shared), []).append(cell)
    return lines


def _is_shown(cell: Cell, name: str, chart: Chart) -> bool:
    return cell[name] is not None and cell[chart.x] is not None and (not chart.log or cell[name] > 0)


def _bar_base(cells: Sequence[Cell], size: float, chart: Chart) -> float:
    """Return the base of bars: 0, or below the smallest figure on a logarithmic axis."""
    if not chart.log:
        return 0.0
    return min(value for value in _values(cells) if value > 0) / size / 3


def _place(cell: Cell, x: str) -> tuple[float, str]:
    """Return the sort key and the label along x."""
    value = cell[x]
    return (float(value), f"{value:,}") if isinstance(value, int) else (0.0, escape_controls(str(value)))


def _text(cell: Cell, column: str) -> str:
    value = cell[column]
    if value is None or isinstance(value, str):
        return escape_controls(value or "")
    return f"{column.replace('_', ' ')} {value}"


def _tick(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e5 else f"{value:.3g}"  # noqa: PLR2004  longer ones are not read as digits


def _unit(cells: Sequence[Cell]) -> str:
    unit = next((str(cell["unit"]) for cell in cells if cell["unit"]), "")
    if unit in _SCALED:
        return fit_scale(_values(cells), _SCALED[unit]).symbol
    return {"ratio": "%", "x": "times", "count": ""}.get(unit, unit)


def _size(cells: Sequence[Cell]) -> float:
    unit = cells[0]["unit"]
    if unit in _SCALED:
        return fit_scale(_values(cells), _SCALED[unit]).size
    return 0.01 if unit == "ratio" else 1.0


def _values(cells: Sequence[Cell]) -> list[float]:
    return [cell[name] for cell in cells for name in FIGURES if cell[name] is not None]
