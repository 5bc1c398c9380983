"""A row's figure: published, study's and corrected figures side by side, small multiples by quantity and series."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from tracelab import plot
from tracelab import query as library
from tracelab.errors import NoDataError, UsageError
from tracelab.names import shortened, visible
from tracelab.plot.labels import drawable
from tracelab.plot.style import STYLE, color
from tracelab.study.answer import FIGURES, Answer
from tracelab.study.rows import Chart
from tracelab.units import Quantity, fitting

Cell = dict[str, Any]

MOST_PANELS = 12
MOST_PLACES = 16
_COLUMNS = 3
_LABEL, _TITLE = 26, 38
_WORDS = {"published": "published", "study": "study's method", "corrected": "corrected"}
_COLORS = {"published": color(7), "study": color(1), "corrected": color(0)}
_FILLS = _COLORS | {"published": "white"}
_MARKS = {"published": "D", "study": "o", "corrected": "o"}
_SCALED = {"ns": Quantity.DURATION, "bytes": Quantity.BYTES}


def figure(answer: Answer) -> Figure:
    """Draw the row's chart; NoDataError where no figure is at hand."""
    chart = answer.row.chart
    if chart is None:
        raise UsageError(f"{answer.row.id} has no figure; `tracelab study show {answer.row.id}` gives its numbers")
    if chart.answer is not None:
        question = library.find(answer.row.answers[chart.answer].query)
        return plot.figure(answer.charted[chart.answer], question)
    cells = [cell for cell in answer.cells.to_pylist() if any(_is_shown(cell, name, chart) for name in FIGURES)]
    if not cells:
        raise NoDataError(f"{answer.row.id} has no figure to draw; `tracelab study show {answer.row.id}` says why")
    with mpl.rc_context(STYLE):
        return _drawn(answer, cells, chart)


def _drawn(answer: Answer, cells: Sequence[Cell], chart: Chart) -> Figure:
    panels = _panels(cells, chart)
    shown = list(panels.items())[:MOST_PANELS]
    columns = min(_COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    drawn = Figure(figsize=(max(3.4 * columns, 5.2), 2.7 * lines + 1.1), layout="constrained")
    grid = drawn.subplots(lines, columns, squeeze=False)
    for axes in list(grid.flat)[len(shown) :]:
        axes.set_visible(False)
    for ((name, by), members), axes in zip(shown, grid.flat, strict=False):
        _panel(axes, members, chart)
        unit = _unit(members)
        axes.set_title("\n".join(_short(part, _TITLE) for part in (name, by) if part))
        axes.set_ylabel(unit)
    told = [name for name in FIGURES if any(cell[name] is not None for cell in cells)]
    handles = [
        Line2D([], [], linestyle="none", label=_WORDS[name], markerfacecolor=_FILLS[name], **_style(name))
        for name in told
    ]
    drawn.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    notes = [f"{len(shown)} of {len(panels)} panels shown"] if len(panels) > len(shown) else []
    head = [f"{answer.row.id}  {answer.row.title}", *notes]
    drawn.suptitle("\n".join(map(drawable, head)), x=0.01, ha="left", fontsize=10)
    return drawn


def _panels(cells: Sequence[Cell], chart: Chart) -> dict[tuple[str, str], list[Cell]]:
    """The cells by quantity and series; what is published for all series stands in each of its quantity's panels."""
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


def _style(name: str) -> dict[str, Any]:
    return {"color": _COLORS[name], "marker": _MARKS[name], "markersize": 5}


def _panel(axes: Axes, cells: Sequence[Cell], chart: Chart) -> None:
    """One panel: places along x, in their order, with up to three figures each."""
    places = sorted({_place(cell, chart.x) for cell in cells})[:MOST_PLACES]
    size = _size(cells)
    for offset, name in enumerate(FIGURES):
        found = [
            (places.index(_place(cell, chart.x)), cell[name] / size)
            for cell in cells
            if _is_shown(cell, name, chart) and _place(cell, chart.x) in places
        ]
        if not found:
            continue
        shift = 0.0 if chart.kind == "line" else (offset - 1) * 0.18
        xs, ys = [x + shift for x, _ in found], [y for _, y in found]
        axes.plot(xs, ys, zorder=3, linestyle="none", markerfacecolor=_FILLS[name], **_style(name))
        if chart.kind == "line" and name != "published":
            means = [(x, _mean([y for other, y in found if other == x])) for x in sorted({x for x, _ in found})]
            axes.plot([x for x, _ in means], [y for _, y in means], color=_COLORS[name], linewidth=1.2, alpha=0.8)
        elif chart.kind == "bars":
            axes.vlines(xs, _base(cells, size, chart), ys, color=_COLORS[name], linewidth=2.5, alpha=0.55)
    if chart.log:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif all((cell[name] or 0) >= 0 for cell in cells for name in FIGURES):
        axes.set_ylim(0, 1.1 * max(_values(cells), default=1.0) / size or 1.0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    slanted = max((len(label) for _, label in places), default=0) > 6  # noqa: PLR2004  else labels run into each other
    axes.set_xticks(
        range(len(places)),
        [_short(label, _LABEL) for _, label in places],
        rotation=30 if slanted else 0,
        ha="right" if slanted else "center",
        fontsize=7,
    )
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(-0.6, len(places) - 0.4)
    axes.set_xlabel("" if slanted else chart.x.replace("_", " "))
    axes.grid(axis="y")


def _is_shown(cell: Cell, name: str, chart: Chart) -> bool:
    return cell[name] is not None and cell[chart.x] is not None and (not chart.log or cell[name] > 0)


def _base(cells: Sequence[Cell], size: float, chart: Chart) -> float:
    """Where bars begin: at 0, on a logarithmic axis below the smallest."""
    if not chart.log:
        return 0.0
    return min(value for value in _values(cells) if value > 0) / size / 3


def _place(cell: Cell, x: str) -> tuple[float, str]:
    """Where along x: by its value, or by its name."""
    value = cell[x]
    return (float(value), f"{value:,}") if isinstance(value, int) else (0.0, visible(str(value)))


def _text(cell: Cell, column: str) -> str:
    value = cell[column]
    if value is None or isinstance(value, str):
        return visible(value or "")
    return f"{column.replace('_', ' ')} {value}"


def _tick(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e5 else f"{value:.3g}"  # noqa: PLR2004  longer ones are not read as digits


def _unit(cells: Sequence[Cell]) -> str:
    unit = next((str(cell["unit"]) for cell in cells if cell["unit"]), "")
    if unit in _SCALED:
        return fitting(_values(cells), _SCALED[unit]).symbol
    return {"ratio": "%", "x": "times", "count": ""}.get(unit, unit)


def _size(cells: Sequence[Cell]) -> float:
    unit = cells[0]["unit"]
    if unit in _SCALED:
        return fitting(_values(cells), _SCALED[unit]).size
    return 0.01 if unit == "ratio" else 1.0


def _values(cells: Sequence[Cell]) -> list[float]:
    return [cell[name] for cell in cells for name in FIGURES if cell[name] is not None]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _short(text: str, width: int) -> str:
    return drawable(shortened(visible(text), width))
