"""Labels, notes and axes of figures: what rows and columns are in words, escaped and shortened, and in which unit.

Labels keep characters that Matplotlib's font lacks; `drawable` escapes those before drawing.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import takewhile
from typing import Any

from tracelab.foreign_text import escape_controls
from tracelab.output.labels import (
    IDENTITY,
    NO_NAME,
    Quantity,
    column_from_title,
    column_quantity,
    column_unit,
    fit_scale,
    shorten,
    shorten_distinctly,
    spell_column,
    strip_signature,
)
from tracelab.plot.style import STYLE
from tracelab.query.report_rules import CLAUSE, PLACEHOLDER
from tracelab.query.spec import Chart, Query

Row = dict[str, Any]

PERCENT = 0.01
"""Axes of shares are in percent."""
_GROUP_WORDS = {Quantity.DURATION: "time", Quantity.BYTES: "size", Quantity.PLAIN: "", Quantity.RATIO: ""}

LABEL_CELLS = 44
_JOINT_CELLS = 58
"""Width of a label made of several names: enough to recognize each."""
HOST = "host"
_WORDS = (
    *(("dur", "duration"), ("comm", "communication"), ("gpu", "GPU"), ("nccl", "NCCL")),
    ("exposed memory", "exposed copies"),
)
"""Words of column names as labels spell them."""


def row_labels(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """Return one label per row; add other texts of the row, one after the other, until no two rows have one label."""
    texts = [[_join_columns(columns, row)] for row in rows]
    extras = [
        name
        for name in varying_columns(rows, rows[0])
        if name not in columns and any(isinstance(row[name], str) for row in rows)
    ]
    is_pair = bool(extras) and extras[0].startswith("src_")  # a source needs its destination
    for names in [extras] if is_pair else [[name] for name in extras]:
        if len(set(map(tuple, texts))) == len(texts):
            break
        for parts, row in zip(texts, rows, strict=True):
            parts += [strip_signature(escape_controls(row[name])) or NO_NAME for name in names if row[name] is not None]
    between = " → " if is_pair else ", "
    short = _disambiguate([" ".join(parts) for parts in texts], [_fit_parts(parts, between) for parts in texts])
    seen: dict[str, int] = {}
    for text in short:
        seen[text] = seen.get(text, 0) + 1
    numbers: dict[str, int] = {}
    for index, text in enumerate(short):
        if seen[text] > 1:
            numbers[text] = numbers.get(text, 0) + 1
            short[index] = f"{text} #{numbers[text]}"
    return short


def _disambiguate(full: Sequence[str], short: Sequence[str]) -> list[str]:
    """Return the short texts, except that equal short forms of different texts are cut around the difference."""
    texts_by_label: dict[str, set[str]] = {}
    for text, label in zip(full, short, strict=True):
        texts_by_label.setdefault(label, set()).add(text)
    differently = {
        label: shorten_distinctly(sorted(texts), LABEL_CELLS)
        for label, texts in texts_by_label.items()
        if len(texts) > 1
    }
    return [
        differently[label][text] if label in differently else label for text, label in zip(full, short, strict=True)
    ]


def identifying_columns(chart: Chart, rows: Sequence[Row]) -> list[str]:
    """Return the columns that identify a process, and those that the chart groups by."""
    panel_columns = chart.panel if chart.kind == "bars" else ()
    return [
        name
        for name in dict.fromkeys((*IDENTITY, *([chart.by] if chart.by else []), *panel_columns))
        if name in rows[0]
    ]


def varying_columns(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Return the columns with more than one value."""
    return [name for name in names if len({str(row.get(name)) for row in rows}) > 1]


def constant_notes(rows: list[Row], chart: Chart) -> list[str]:
    """Return a note with the known values that all rows share."""
    identifying = varying_columns(rows, identifying_columns(chart, rows))
    same = [
        name
        for name in identifying_columns(chart, rows)
        if name not in (*identifying, *chart.panel, chart.x) and rows[0][name] is not None
    ]
    return [join_values(same, [rows[0][name] for name in same])] if same else []


def join_values(names: Sequence[str], values: Sequence[object]) -> str:
    """Join values with their meaning: mordred · rank 0 · GPU 1."""
    prefixes = {
        "device": "GPU",
        "rank": "rank",
        "before": "before:",
        "after": "after:",
        "base_machine": "compared with",
    }
    parts = []
    for name, value in zip(names, values, strict=True):
        text = shorten(escape_controls(str(value)), LABEL_CELLS) if value is not None else "none"
        alone = isinstance(value, str) and (name not in prefixes or name == "device")
        parts.append(text if alone else f"{prefixes.get(name, column_words(name))} {text}")
    return " · ".join(parts)


def name_host(rows: Sequence[Row]) -> list[Row]:
    """Name the host in rows whose device is NULL."""
    return [row | {"device": HOST} if row.get("device", HOST) is None else row for row in rows]


def _join_columns(columns: Sequence[str], row: Row) -> str:
    if len(columns) == 1 and isinstance(row[columns[0]], str):
        return strip_signature(escape_controls(row[columns[0]])) or NO_NAME
    return join_values(columns, [row[name] for name in columns])


def _fit_parts(parts: Sequence[str], between: str) -> str:
    """Return a name and, in parentheses, what else identifies the row; short parts leave space to long ones."""
    if len(parts) == 1:
        return _shorten_label(parts[0], LABEL_CELLS)
    room, fitted = _JOINT_CELLS, list(parts)
    for done, index in enumerate(sorted(range(len(parts)), key=lambda index: len(parts[index]))):
        fitted[index] = _shorten_label(parts[index], room // (len(parts) - done))
        room -= len(fitted[index])
    first, *others = fitted
    return f"{first} ({between.join(others)})"


def _shorten_label(text: str, cells: int) -> str:
    """Shorten a label: keep the beginning of a template, which names the operation, and both ends of other texts."""
    if len(text) > cells and "<" in text[:cells] and text.endswith(">"):
        return text[: cells - 2] + "…>"
    return shorten(text, cells)


def drawable(text: str) -> str:
    """Escape characters that the font lacks."""
    return "".join(character if ord(character) in _glyphs() else _escape_character(character) for character in text)


def _escape_character(character: str) -> str:
    """Return the character's code with a fixed number of digits."""
    number = ord(character)
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


@cache
def _glyphs() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(STYLE["font.family"][0])).get_charmap())


def pluralize(count: int, noun: str) -> str:
    """Return count and noun: 1 class, 2 classes, 3 categories."""
    if count == 1:
        return f"{count} {noun}"
    several = re.sub(r"(?<=[^aeiou])y$", "ie", noun) if noun.endswith("y") else re.sub(r"(s|x|z|ch|sh)$", r"\1e", noun)
    return f"{count} {several}s"


def legend_label(chart: Chart, column: str, rows: Sequence[Row]) -> str:
    """Return the label of an x or y column; omit a clause in [ ] if its column has several values."""

    def value(clause: re.Match[str]) -> str:
        placeholder = PLACEHOLDER.search(clause[1])
        held = {row.get(placeholder["part"]) for row in rows} if placeholder else {None}
        one = next(iter(held)) if len(held) == 1 else None
        return (
            ""
            if one is None or placeholder is None
            else clause[1].replace(placeholder[0], shorten(escape_controls(str(one)), LABEL_CELLS))
        )

    return CLAUSE.sub(value, chart.labels.get(column, "")) or column_words(column_from_title(column))


def column_words(column: str) -> str:
    """Return a column name in words: of_window_ratio becomes share of window."""
    words = spell_column(column)
    for short, long in _WORDS:
        words = re.sub(rf"\b{short}\b", long, words)
    return f"share {words}" if column.startswith("of_") and column.endswith("_ratio") else words


class NotDrawn(str):
    """A note on omitted rows; the command line prints it as well."""

    __slots__ = ()


def omission_note(visible: int, total: int, noun: str) -> list[str]:
    """Return a note if fewer than all are drawn."""
    return [NotDrawn(f"{total - visible} of {pluralize(total, noun)} not drawn")] if visible < total else []


def narrowing_notes(rows: Sequence[Row], query: Query) -> list[str]:
    """Return a note on the query's options that select fewer of these rows."""
    chart = query.chart
    candidates = ("sweep", *IDENTITY, *((chart.by, *chart.panel) if chart else ()))
    params = {param.name: param for param in query.params}
    usable = [
        name for name in varying_columns(rows, [name for name in dict.fromkeys(candidates) if name]) if name in params
    ]
    options = [f"--{name.replace('_', '-')} {'N' if params[name].type == 'integer' else 'NAME'}" for name in usable]
    return [f"{' or '.join(options[:2])} narrows"] if options else []


@dataclass(frozen=True)
class Axis:
    """Scale of an axis: unit, lower end (0 or below) and upper end."""

    size: float
    label: str
    least: float
    limit: float

    @property
    def width(self) -> float:
        """Return the length of the axis in its unit."""
        return self.limit - self.least

    def scaled(self, value: object) -> float:
        """Convert a value to the axis's unit."""
        return as_length(value) / self.size


def fit_axis(names: Sequence[str], rows: Sequence[Row], *, stacked: bool, label: str = "") -> Axis:
    """Fit one axis to the columns of one kind over all rows; a `label` replaces the name of a single column."""
    totals = [[as_length(row.get(name)) for name in names] for row in rows]
    largest = max([0.0, *(sum(each) if stacked else max(each) for each in totals)])
    smallest = min([0.0, *(number for each in totals for number in each)]) if not stacked else 0.0
    kind = column_quantity(column_from_title(names[0]))
    words = label or column_words(column_from_title(names[0]))
    label = words if len(names) == 1 else _GROUP_WORDS.get(kind, "")
    if kind in {Quantity.DURATION, Quantity.BYTES}:
        scale = fit_scale([largest, smallest], kind)
        size, symbol = scale.size, scale.symbol
    else:
        size, symbol = (PERCENT, "%") if kind is Quantity.RATIO else (1.0, column_unit(names[0]) or "")
        label = label or ("share" if kind is Quantity.RATIO else "" if symbol else _plain_label(names, rows))
    room = (largest - smallest) / size * (0.02 if stacked else 0.12)
    limit = largest / size + (room if largest or not smallest else room / 4)
    least = smallest / size - room if smallest else 0.0
    return Axis(size, f"{label} ({symbol})" if symbol and label else label or symbol, least, limit or 1.0)


def _plain_label(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Label an axis of several plain columns: their common last words, or "count" for whole numbers."""
    ends = [column_words(name).split()[::-1] for name in names]
    common = [each[0] for each in takewhile(lambda each: len(set(each)) == 1, zip(*ends, strict=False))]
    are_whole = all(isinstance(row.get(name), int | None) for row in rows for name in names)
    return " ".join(reversed(common)) or ("count" if are_whole else "")


def group_by_unit(names: Sequence[str]) -> list[list[str]]:
    """Group columns by unit; columns of different units get separate axes."""
    measures: dict[tuple[Quantity, str | None], list[str]] = {}
    for name in names:
        measures.setdefault((column_quantity(column_from_title(name)), column_unit(name)), []).append(name)
    return list(measures.values())


def visible_parts(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Return the columns that are not 0 or unknown in every row; all of them where none is."""
    return [name for name in names if any(as_length(row.get(name)) for row in rows)] or list(names)


def is_additive(column: str) -> bool:
    """Return whether values of several rows add up: times, bytes and FLOPs do, means and extremes do not."""
    is_sum = column == "flop" or column_quantity(column_from_title(column)) in {Quantity.DURATION, Quantity.BYTES}
    return is_sum and not re.search(r"(^|_)(mean|median|min|max)(_|$)|(Avg|Med|Min|Max|StdDev) \(ns\)$", column)


def sum_known(rows: Sequence[Row], name: str) -> int | float | None:
    """Sum the known values of a column; None if there are none."""
    known = [row[name] for row in rows if is_finite(row[name])]
    return sum(known) if known else None


def is_finite(value: object) -> bool:
    """Return whether the value is a finite number."""
    return isinstance(value, int | float | Decimal) and math.isfinite(value)


def as_length(value: object) -> float:
    """Return the value as a bar length; 0 for anything but a finite number."""
    return float(value) if isinstance(value, int | float | Decimal) and math.isfinite(value) else 0.0
