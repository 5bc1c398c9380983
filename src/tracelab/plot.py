"""An answer as a picture: the query's header says what to draw, the columns' names say the units."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, BinaryIO

import matplotlib as mpl
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tracelab.errors import NoDataError, UsageError
from tracelab.query import Chart, Query
from tracelab.render import shortened, significant, visible
from tracelab.units import Quantity, fitting, quantity, spoken, unit

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
"""Eight colours that colour-blind readers tell apart (Okabe and Ito, 2008), the darker ones first."""
REST = "#BBBBBB"

MOST_BARS = 20
MOST_BARS_IN_ALL = 48
MOST_PANELS = 12
MOST_SERIES = len(OKABE_ITO)
_IDENTITY = ("run", "rank", "device")
_LABEL_CELLS = 44
_LEAST_PLACES = 2

STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.edgecolor": "#555555",
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "text.parse_math": False,  # a kernel may be named $x$
    "text.usetex": False,
    "svg.hashsalt": "tracelab",  # the same answer gives the same file
    "pdf.fonttype": 42,
    "figure.dpi": 100,
    "savefig.dpi": 200,
}


Row = dict[str, Any]


def figure(table: pa.Table, query: Query) -> Figure:
    """Draw the answer as the query's chart says; raises NoDataError where there is nothing to draw."""
    chart = query.chart
    if chart is None:
        raise UsageError(f"{query.name} has no chart in its header, so there is nothing to draw")
    if missing := [name for name in (chart.x, *chart.y) if name not in table.column_names]:
        raise UsageError(f"{query.name}: the chart names columns that the answer lacks: {', '.join(missing)}")
    rows = [row for row in table.to_pylist() if row[chart.x] is not None and any(map(_is_finite, _ys(row, chart)))]
    if not rows:
        raise NoDataError(f"{query.name} has no rows to draw; ask without --plot to see what the answer holds")
    with mpl.rc_context(STYLE):
        drawn, notes = _DRAWERS[chart.kind](rows, chart)
        _head(drawn, query.title, [*_constants(rows, chart), *notes])
        return drawn


def save(drawn: Figure, stream: BinaryIO, *, fmt: str) -> None:
    """Write the figure as png, svg or pdf; undated, so that the same answer gives the same bytes."""
    undated: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context(STYLE):
        drawn.savefig(stream, format=fmt, metadata=undated.get(fmt), bbox_inches="tight", pad_inches=0.12)


# --- bars: lengths from one base, side by side or on top of each other


def _bars(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    return _lengths(rows, chart, stacked=False)


def _stacked(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    return _lengths(rows, chart, stacked=True)


def _lengths(rows: list[Row], chart: Chart, *, stacked: bool) -> tuple[Figure, list[str]]:
    """Horizontal bars, for labels are long: a panel for each process, a column of panels for each unit."""
    panels, notes = _panels(rows, chart)
    measures = _measures(chart.y)
    heights = [max(len(bars), _LEAST_PLACES) * (1 if stacked else max(map(len, measures))) ** 0.5 for _, bars in panels]
    inches = 0.24 * sum(heights) + 0.5 * len(panels) + 0.9
    drawn = Figure(figsize=(7.2 if len(measures) == 1 else 9.6, inches), layout="constrained")
    grid = drawn.subplots(len(panels), len(measures), squeeze=False, sharex="col", height_ratios=heights)
    for column, names in enumerate(measures):
        axis = _axis(names, [bar for _, bars in panels for bar in bars], stacked=stacked)
        for (title, bars), axes in zip(panels, grid[:, column], strict=True):
            _draw_bars(axes, bars, names, axis, stacked=stacked)
            axes.set_yticks(range(len(bars)), [bar[_LABEL] for bar in bars] if column == 0 else [""] * len(bars))
            axes.set_title(title if column == 0 else "")
        grid[-1, column].set_xlabel(axis.label)
        if len(names) > 1:
            handles = [Patch(color=_color(index), label=_words(name)) for index, name in enumerate(names)]
            drawn.legend(handles=handles, loc="outside lower center", ncols=min(len(names), 4))
    return drawn, notes


def _draw_bars(axes: Axes, bars: Sequence[Row], names: Sequence[str], axis: "_Axis", *, stacked: bool) -> None:
    thickness = 0.72 if stacked else 0.8 / len(names)
    starts = [0.0] * len(bars)
    for index, name in enumerate(names):
        lengths = [axis.scaled(bar[name]) for bar in bars]
        shift = 0.0 if stacked else (index - (len(names) - 1) / 2) * thickness
        colors = [REST if bar.get(_IS_REST) else _color(index) for bar in bars]
        places = [place + shift for place in range(len(bars))]
        axes.barh(places, lengths, thickness, left=starts if stacked else None, color=colors, linewidth=0)
        if stacked:
            _write_shares(axes, starts, lengths, [_total(bar, names, axis) for bar in bars], _color(index))
            starts = [start + length for start, length in zip(starts, lengths, strict=True)]
        else:
            _write_values(axes, places, lengths, [bar[name] for bar in bars], axis)
    margin = 0.6 + max(0, _LEAST_PLACES - len(bars)) / 2
    axes.set_ylim(len(bars) - 1 + margin, -margin)  # the first bar on top
    axes.set_xlim(0, axis.limit)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)


def _write_values(
    axes: Axes, places: Sequence[float], lengths: Sequence[float], values: Sequence[object], axis: "_Axis"
) -> None:
    for place, length, value in zip(places, lengths, values, strict=True):
        whole = isinstance(value, int) and axis.size == 1
        text = "no value" if value is None else f"{value:,}" if whole else significant(length, digits=3)
        axes.text(length + axis.limit * 0.008, place, text, va="center", fontsize=7, color="#333333")


def _write_shares(
    axes: Axes, starts: Sequence[float], lengths: Sequence[float], totals: Sequence[float], color: str
) -> None:
    """Write the share of its own bar into every part that has room for it."""
    widest = axes.get_xlim()[1] if not totals else max(totals)
    for place, (start, length, total) in enumerate(zip(starts, lengths, totals, strict=True)):
        if length > 0.06 * widest:
            ink = "white" if color in _DARK else "black"
            text = f"{length / total:.0%}"
            axes.text(start + length / 2, place, text, ha="center", va="center", fontsize=7, color=ink)


def _total(bar: Row, names: Sequence[str], axis: "_Axis") -> float:
    return sum(axis.scaled(bar[name]) for name in names)


_LABEL = "\0label"  # no column has such a name
_IS_REST = "\0rest"


def _panels(rows: list[Row], chart: Chart) -> tuple[list[tuple[str, list[Row]]], list[str]]:
    """The rows as labelled bars in panels, sorted, no more than a page takes; and what was left out."""
    varying = [name for name in _varying(rows, _keys(chart, rows)) if name != chart.x]
    over_identity = chart.x in _IDENTITY
    by = [name for name in varying if name == chart.by] if over_identity else varying
    label = [*(name for name in varying if name not in by), chart.x] if over_identity else [chart.x]
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    notes = [f"{MOST_PANELS} of {len(groups)} panels shown"] if len(groups) > MOST_PANELS else []
    shown = list(groups.items())[:MOST_PANELS]
    most = max(5, min(MOST_BARS, MOST_BARS_IN_ALL // len(shown)))
    panels = []
    for key, members in shown:
        ordered = members if over_identity else sorted(members, key=lambda row: -_number(row[chart.y[0]]))
        bars, rest = ordered[:most], ordered[most:]
        bars = [bar | {_LABEL: text} for bar, text in zip(bars, _labels(bars, label), strict=True)]
        if rest and all(map(_is_additive, chart.y)):
            sums = {name: sum(_number(row[name]) for row in rest) for name in chart.y}
            bars.append({_LABEL: f"{len(rest)} others", _IS_REST: True, **sums})
        elif rest:
            notes.append(f"{most} of {len(ordered)} shown")
        panels.append((_named(by, key), bars))
    return panels, list(dict.fromkeys(notes))


def _labels(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """One label a row; where the columns named do not tell rows apart, other text of the row is added."""
    texts = [_joined(columns, row) for row in rows]
    extras = [name for name in _varying(rows, rows[0]) if isinstance(rows[0][name], str) and name not in columns]
    if len(set(texts)) < len(texts) and extras:
        texts = [
            f"{text} ({', '.join(str(row[name]) for name in extras)})" for text, row in zip(texts, rows, strict=True)
        ]
    short = [drawable(_short(text)) for text in texts]
    seen: dict[str, int] = {}
    for text in short:
        seen[text] = seen.get(text, 0) + 1
    numbers: dict[str, int] = {}
    for index, text in enumerate(short):
        if seen[text] > 1:
            numbers[text] = numbers.get(text, 0) + 1
            short[index] = f"{text} #{numbers[text]}"
    return short


# --- points: one thing over another


def _scatter(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    return _points(rows, chart, joined=False)


def _line(rows: list[Row], chart: Chart) -> tuple[Figure, list[str]]:
    return _points(rows, chart, joined=True)


def _points(rows: list[Row], chart: Chart, *, joined: bool) -> tuple[Figure, list[str]]:
    """A panel for each unit of y; a colour for each y and each value of what tells the rows apart."""
    measures = _measures(chart.y)
    drawn = Figure(figsize=(7.2, 3.4 * len(measures) + 0.6), layout="constrained")
    grid = drawn.subplots(len(measures), 1, squeeze=False, sharex=True)[:, 0]
    across = _axis([chart.x], rows, stacked=False)
    handles: dict[str, Line2D] = {}
    notes: list[str] = []
    for axes, names in zip(grid, measures, strict=True):
        up = _axis(names, rows, stacked=False)
        series = _series(rows, chart, names)
        if len(series) > MOST_SERIES:
            notes = [f"{len(series) - MOST_SERIES + 1} of {len(series)} series in grey"]
        for index, (title, points) in enumerate(series.items()):
            is_rest = len(series) > MOST_SERIES and index >= MOST_SERIES - 1
            title, color = ("others", REST) if is_rest else (title, _color(index))  # noqa: PLW2901
            xs, ys = zip(*[(across.scaled(x), up.scaled(y)) for x, y in sorted(points)], strict=True)
            style: dict[str, Any] = {"color": color, "marker": "o", "markersize": 4 if joined else 5}
            handles[title] = axes.plot(
                xs, ys, linestyle="-" if joined else "none", linewidth=1.4, alpha=0.9, label=title, **style
            )[0]
        axes.set_ylabel(up.label)
        axes.grid(visible=True)
        _scale(axes, rows, chart.x, names, joined=joined)
    grid[-1].set_xlabel(across.label)
    if len(handles) > 1:
        drawn.legend(handles=list(handles.values()), labels=list(handles), loc="outside lower center", ncols=3)
    return drawn, notes


def _series(rows: list[Row], chart: Chart, names: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    by = [name for name in _varying(rows, _keys(chart, rows)) if name != chart.x]
    if chart.by is not None and chart.kind == "scatter":
        by = [name for name in by if name == chart.by]
    series: dict[str, list[tuple[float, float]]] = {}
    for name in names:
        for row in rows:
            if _is_finite(row[name]) and _is_finite(row[chart.x]):
                told = [_named(by, [row[key] for key in by])] if by else []
                title = " · ".join([*([_words(name)] if len(names) > 1 else []), *told]) or _words(name)
                series.setdefault(title, []).append((row[chart.x], row[name]))
    return series


def _scale(axes: Axes, rows: list[Row], x: str, names: Sequence[str], *, joined: bool) -> None:
    """Scatter over more than two decades on a logarithmic axis; plain numbers on every axis."""
    for columns, axis, set_scale in (((x,), axes.xaxis, axes.set_xscale), (names, axes.yaxis, axes.set_yscale)):
        values = [row[name] for row in rows for name in columns if _is_finite(row[name])]
        if not joined and min(values) > 0 and max(values) > _LOG_FROM * min(values):
            set_scale("log")
            axis.set_minor_formatter(FuncFormatter(lambda *_: ""))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


_LOG_FROM = 100


# --- what all kinds share


@dataclass(frozen=True)
class _Axis:
    """The unit in which an axis shows its columns."""

    size: float
    label: str
    limit: float

    def scaled(self, value: object) -> float:
        return _number(value) / self.size


def _axis(names: Sequence[str], rows: Iterable[Row], *, stacked: bool) -> _Axis:
    totals = [[_number(row.get(name)) for name in names] for row in rows]
    largest = max((sum(each) if stacked else max(each) for each in totals), default=0.0)
    kind = quantity(names[0])
    words = _words(names[0]) if len(names) == 1 else _GROUP_WORDS.get(kind, "")
    if kind in {Quantity.DURATION, Quantity.BYTES}:
        scale = fitting([largest], kind)
        size, symbol = scale.size, scale.symbol
    else:
        size, symbol = 1.0, unit(names[0]) or ("ratio" if kind is Quantity.RATIO else "")
    limit = largest / size * (1.02 if stacked else 1.12) or 1.0
    return _Axis(size, f"{words} ({symbol})" if symbol and words else words or symbol, limit)


def _measures(names: Sequence[str]) -> list[list[str]]:
    """The columns by their unit: only those of one unit share an axis."""
    measures: dict[tuple[Quantity, str | None], list[str]] = {}
    for name in names:
        measures.setdefault((quantity(name), unit(name)), []).append(name)
    return list(measures.values())


def _keys(chart: Chart, rows: Sequence[Row]) -> list[str]:
    """What tells processes apart, and what the chart names beside it."""
    return [name for name in dict.fromkeys((*_IDENTITY, *([chart.by] if chart.by else []))) if name in rows[0]]


def _varying(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    return [name for name in names if len({str(row.get(name)) for row in rows}) > 1]


def _constants(rows: list[Row], chart: Chart) -> list[str]:
    """What is the same in all rows, said once under the title."""
    varying = _varying(rows, _keys(chart, rows))
    same = [name for name in _keys(chart, rows) if name not in varying and name != chart.x]
    return [_named(same, [rows[0][name] for name in same])] if same else []


def _named(names: Sequence[str], values: Sequence[object]) -> str:
    """Values with what they are: mordred · rank 0 · GPU 1."""
    said = {"device": "GPU", "rank": "rank"}
    parts = []
    for name, value in zip(names, values, strict=True):
        text = drawable(shortened(visible(str(value)), _LABEL_CELLS)) if value is not None else "none"
        parts.append(f"{said.get(name, _words(name))} {text}" if name in said or not isinstance(value, str) else text)
    return " · ".join(parts)


def _joined(columns: Sequence[str], row: Row) -> str:
    if len(columns) == 1 and isinstance(row[columns[0]], str):
        return plain_kernel(visible(row[columns[0]]))
    return _named(columns, [row[name] for name in columns])


def _short(text: str) -> str:
    """A label in the room there is: of a template its beginning, for that names the operation; of others both ends."""
    if len(text) > _LABEL_CELLS and "<" in text[:_LABEL_CELLS] and text.endswith(">"):
        return text[: _LABEL_CELLS - 2] + "…>"
    return shortened(text, _LABEL_CELLS)


def plain_kernel(name: str) -> str:
    """A kernel's name without what every C++ name carries: return type, arguments, well-known namespaces."""
    name = re.sub(r"^void ", "", name)
    name = re.sub(r"\(anonymous namespace\)::|\bat::native::|\bat::cuda::|\bstd::", "", name)
    depth = 0
    for index, character in enumerate(name):
        depth += (character in "<[") - (character in ">]")
        if character == "(" and depth == 0 and index > 0:
            return name[:index].strip()
    return name


def _head(drawn: Figure, title: str, notes: Sequence[str]) -> None:
    lines = [drawable(visible(title)), *([" · ".join(notes)] if notes else [])]
    drawn.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=10)


def drawable(text: str) -> str:
    """The text with characters spelled out that the font lacks: a box tells nothing, and warns."""
    return "".join(character if ord(character) in _glyphs() else f"\\u{ord(character):04x}" for character in text)


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(get_font(findfont(STYLE["font.family"][0])).get_charmap())


def _words(column: str) -> str:
    words = spoken(column)
    for short, whole in (("dur", "duration"), ("comm", "communication"), ("gpu", "GPU"), ("nccl", "NCCL")):
        words = re.sub(rf"\b{short}\b", whole, words)
    return f"share {words}" if column.startswith("of_") and column.endswith("_ratio") else words


def _is_additive(column: str) -> bool:
    is_sum = quantity(column) in {Quantity.DURATION, Quantity.BYTES}
    return is_sum and not re.search(r"(^|_)(mean|median|min|max)(_|$)", column)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and math.isfinite(value)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float | Decimal) and math.isfinite(value) else 0.0


def _ys(row: Row, chart: Chart) -> list[object]:
    return [row[name] for name in chart.y]


def _color(index: int) -> str:
    return OKABE_ITO[index % len(OKABE_ITO)]


_DARK = {"#0072B2", "#009E73", "#D55E00", "#000000"}
_GROUP_WORDS = {Quantity.DURATION: "time", Quantity.BYTES: "size", Quantity.PLAIN: "", Quantity.RATIO: ""}
_DRAWERS: dict[str, Callable[[list[Row], Chart], tuple[Figure, list[str]]]] = {
    "bars": _bars,
    "stacked": _stacked,
    "scatter": _scatter,
    "line": _line,
}
