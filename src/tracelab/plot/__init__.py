"""An answer as a picture: the query's header says what to draw, the columns' names say the units."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import matplotlib as mpl
import pyarrow as pa
from matplotlib.figure import Figure

from tracelab.errors import NoDataError, UsageError
from tracelab.output.labels import visible
from tracelab.plot.axis import is_finite
from tracelab.plot.bars import bars, stacked
from tracelab.plot.curves import curves
from tracelab.plot.grid import grid
from tracelab.plot.labels import constants, drawable, with_host
from tracelab.plot.limits import NotDrawn, narrowing
from tracelab.plot.pairs import pairs
from tracelab.plot.points import line, scatter, steps
from tracelab.plot.roofline import roofline
from tracelab.plot.style import STYLE
from tracelab.plot.timeline import timeline
from tracelab.query.spec import Chart, Query

Row = dict[str, Any]


@dataclass(frozen=True)
class Picture:
    """A figure, and what it had no room for: a clause each, the last of them on what to ask instead."""

    figure: Figure
    not_drawn: tuple[str, ...] = ()


def figure(table: pa.Table, query: Query) -> Figure:
    """Draw the answer as the query's chart says; raises NoDataError where there is nothing to draw."""
    return picture(table, query).figure


def picture(table: pa.Table, query: Query) -> Picture:
    """Draw the answer as the query's chart says; raises NoDataError where there is nothing to draw."""
    chart = query.chart
    if chart is None:
        raise UsageError(f"{query.name} has no chart in its header, so there is nothing to draw")
    if lacking := [name for name in (chart.x, *chart.y) if name not in table.column_names]:
        raise UsageError(f"{query.name}: the chart names columns that the answer lacks: {', '.join(lacking)}")
    shows = _is_told if chart.kind == "grid" else is_finite
    rows = [row for row in table.to_pylist() if row[chart.x] is not None and any(shows(row[name]) for name in chart.y)]
    if not rows:
        raise NoDataError(f"{query.name} has no rows to draw; ask without --plot to see what the answer holds")
    rows = with_host(rows) if chart.host else rows
    with mpl.rc_context(STYLE):
        drawn, notes = _DRAWERS[chart.kind](table.to_pylist() if chart.kind in _OF_ALL else rows, chart)
        missing = [note for note in notes if isinstance(note, NotDrawn)]
        told = [*missing, *narrowing(rows, query)] if missing else []
        others = [note for note in notes if note not in missing]
        _head(drawn, query.title, [*constants(rows, chart), *others], told)
        return Picture(drawn, tuple(map(str, told)))


def save(drawn: Figure, stream: BinaryIO, *, fmt: str) -> None:
    """Write the figure as png, svg or pdf; undated, so that the same answer gives the same bytes."""
    undated: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context(STYLE):
        drawn.savefig(stream, format=fmt, metadata=undated.get(fmt), bbox_inches="tight", pad_inches=0.12)


def _head(drawn: Figure, title: str, *notes: Sequence[str]) -> None:
    lines = [visible(title), *(" · ".join(line) for line in notes if line)]
    drawn.suptitle("\n".join(map(drawable, lines)), x=0.01, ha="left", fontsize=10)


_OF_ALL = ("roofline", "curves", "grid")
"""Kinds that tell of rows without figures too: kernels that are missing in the sum of all, cells that did not run."""


def _is_told(value: object) -> bool:
    return value is not None


_DRAWERS: dict[str, Callable[[list[Row], Chart], tuple[Figure, list[str]]]] = {
    "bars": bars,
    "stacked": stacked,
    "pairs": pairs,
    "scatter": scatter,
    "line": line,
    "steps": steps,
    "roofline": roofline,
    "curves": curves,
    "grid": grid,
    "timeline": timeline,
}
