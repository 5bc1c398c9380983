"""Axes: which columns share one, and the unit that fits them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile
from typing import Any

from tracelab.output.units import Quantity, column_from_title, column_quantity, column_unit, fit_scale
from tracelab.plot.labels import column_words

Row = dict[str, Any]

PERCENT = 0.01
"""What an axis of shares is in, as people read them."""
_GROUP_WORDS = {Quantity.DURATION: "time", Quantity.BYTES: "size", Quantity.PLAIN: "", Quantity.RATIO: ""}


@dataclass(frozen=True)
class Axis:
    """The unit in which an axis shows its columns, and where it begins (at 0, or below it) and ends."""

    size: float
    label: str
    least: float
    limit: float

    @property
    def width(self) -> float:
        """From one end to the other, in the axis's unit."""
        return self.limit - self.least

    def scaled(self, value: object) -> float:
        """The value in the axis's unit."""
        return as_length(value) / self.size


def fit_axis(names: Sequence[str], rows: Sequence[Row], *, stacked: bool) -> Axis:
    """The axis for columns of one kind, wide enough for all rows."""
    totals = [[as_length(row.get(name)) for name in names] for row in rows]
    largest = max([0.0, *(sum(each) if stacked else max(each) for each in totals)])
    smallest = min([0.0, *(number for each in totals for number in each)]) if not stacked else 0.0
    kind = column_quantity(column_from_title(names[0]))
    said = column_words(column_from_title(names[0])) if len(names) == 1 else _GROUP_WORDS.get(kind, "")
    if kind in {Quantity.DURATION, Quantity.BYTES}:
        scale = fit_scale([largest, smallest], kind)
        size, symbol = scale.size, scale.symbol
    else:
        size, symbol = (PERCENT, "%") if kind is Quantity.RATIO else (1.0, column_unit(names[0]) or "")
        said = said or ("share" if kind is Quantity.RATIO else "" if symbol else _plain_label(names, rows))
    room = (largest - smallest) / size * (0.02 if stacked else 0.12)
    limit = largest / size + (room if largest or not smallest else room / 4)
    least = smallest / size - room if smallest else 0.0
    return Axis(size, f"{said} ({symbol})" if symbol and said else said or symbol, least, limit or 1.0)


def _plain_label(names: Sequence[str], rows: Sequence[Row]) -> str:
    """What the axis of several plain columns is called: the words they end with, else whole numbers are counts."""
    ends = [column_words(name).split()[::-1] for name in names]
    alike = [each[0] for each in takewhile(lambda each: len(set(each)) == 1, zip(*ends, strict=False))]
    are_whole = all(isinstance(row.get(name), int | None) for row in rows for name in names)
    return " ".join(reversed(alike)) or ("count" if are_whole else "")


def group_by_unit(names: Sequence[str]) -> list[list[str]]:
    """The columns by their unit: only those of one unit share an axis."""
    measures: dict[tuple[Quantity, str | None], list[str]] = {}
    for name in names:
        measures.setdefault((column_quantity(column_from_title(name)), column_unit(name)), []).append(name)
    return list(measures.values())


def is_additive(column: str) -> bool:
    """Whether the values of several rows add up to one: times, bytes and FLOPs do, means and extremes do not."""
    is_sum = column == "flop" or column_quantity(column_from_title(column)) in {Quantity.DURATION, Quantity.BYTES}
    return is_sum and not re.search(r"(^|_)(mean|median|min|max)(_|$)|(Avg|Med|Min|Max|StdDev) \(ns\)$", column)


def known_sum(rows: Sequence[Row], name: str) -> int | float | None:
    """What a column's known values add up to; NULL where none is known."""
    known = [row[name] for row in rows if is_finite(row[name])]
    return sum(known) if known else None


def is_finite(value: object) -> bool:
    """Whether the value is a number that can be drawn."""
    return isinstance(value, int | float | Decimal) and math.isfinite(value)


def as_length(value: object) -> float:
    """The value as a length; what is no number has none."""
    return float(value) if isinstance(value, int | float | Decimal) and math.isfinite(value) else 0.0
