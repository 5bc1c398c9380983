"""Draw query results with Matplotlib: the query's header names the chart, column names imply units."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pyarrow as pa

from tracelab.errors import NoDataError, UsageError
from tracelab.foreign_text import escape_controls
from tracelab.plot.labels import NotDrawn, constant_notes, drawable, is_finite, name_host, narrowing_notes
from tracelab.plot.style import STYLE
from tracelab.query.spec import Chart, Query

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]

_CAPTION_WIDTH = 90


@dataclass(frozen=True)
class Picture:
    """A figure, and notes on omitted rows, the last of them on options that narrow the query."""

    figure: "Figure"
    not_drawn: tuple[str, ...] = ()


def figure(table: pa.Table, query: Query, joined: Mapping[str, frozenset[str]] | None = None) -> "Figure":
    """Return the figure of `picture`."""
    return picture(table, query, joined=joined).figure


def picture(
    table: pa.Table,
    query: Query,
    captions: Sequence[str] = (),
    joined: Mapping[str, frozenset[str]] | None = None,
) -> Picture:
    """Draw a result as the query's chart specifies; captions are lines below the title.

    `joined` are groups of kernels by label that are one bar where the chart joins them.

    Raises UsageError for a query without a chart or a result without its columns, NoDataError if no row has a value.
    """
    chart = query.chart
    if chart is None:
        raise UsageError(f"{query.name} has no chart in its header; add one, or omit --plot")
    if absent := [name for name in (chart.x, *chart.y) if name not in table.column_names]:
        raise UsageError(f"{query.name}: the chart names columns that the result lacks: {', '.join(absent)}")
    has_value = _is_known if chart.kind == "grid" else is_finite
    rows = [
        row for row in table.to_pylist() if row[chart.x] is not None and any(has_value(row[name]) for name in chart.y)
    ]
    if not rows:
        raise NoDataError(f"{query.name} has no rows to draw; omit --plot to see the result")
    rows = name_host(rows) if chart.host else rows
    if joined:
        from tracelab.plot.joined import join_rows

        rows = join_rows(rows, chart, joined)
    import matplotlib as mpl  # takes longer to import than most queries run

    with mpl.rc_context(STYLE):
        drawing, notes = _load_drawer(chart.kind)(table.to_pylist() if chart.kind in _NEEDS_ALL_ROWS else rows, chart)
        missing = [note for note in notes if isinstance(note, NotDrawn)]
        omitted = [*missing, *narrowing_notes(rows, query)] if missing else []
        others = [note for note in notes if note not in missing]
        _write_title(
            drawing,
            query.title,
            [*constant_notes(rows, chart), *others],
            *([line] for text in captions for line in wrap(text, _CAPTION_WIDTH)),
            omitted,
        )
        return Picture(drawing, tuple(map(str, omitted)))


def save(figure: "Figure", stream: BinaryIO, *, fmt: str) -> None:
    """Write a figure as png, svg or pdf, without a date: the same result gives the same bytes."""
    undated: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure.savefig(stream, format=fmt, metadata=undated.get(fmt), bbox_inches="tight", pad_inches=0.12)


def _write_title(figure: "Figure", title: str, *notes: Sequence[str]) -> None:
    lines = [escape_controls(title), *(" · ".join(line) for line in notes if line)]
    figure.suptitle("\n".join(map(drawable, lines)), x=0.01, ha="left", fontsize=10)


_NEEDS_ALL_ROWS = ("roofline", "curves", "grid")
"""Kinds that also need rows without values: kernels missing from the total, cells that did not run."""


def _is_known(value: object) -> bool:
    return value is not None


_MODULES: dict[str, str] = {
    "bars": "bars",
    "stacked": "bars",
    "pairs": "pairs",
    "scatter": "points",
    "line": "points",
    "steps": "points",
    "roofline": "roofline",
    "curves": "curves",
    "grid": "grid",
    "timeline": "timeline",
}
"""The module of each chart kind; it has a function of the kind's name."""


def _load_drawer(kind: str) -> Callable[[list[Row], Chart], tuple["Figure", list[str]]]:
    module = importlib.import_module(f"tracelab.plot.{_MODULES[kind]}")
    return cast("Callable[[list[Row], Chart], tuple[Figure, list[str]]]", getattr(module, kind))
