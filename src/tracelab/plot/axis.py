"""Axes: which columns share one, and the unit that fits them."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tracelab.plot.labels import words
from tracelab.units import Quantity, as_column, fitting, quantity, unit

Row = dict[str, Any]

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
        return number(value) / self.size


def fitted_axis(names: Sequence[str], rows: Iterable[Row], *, stacked: bool) -> Axis:
    """The axis for columns of one kind, wide enough for all rows."""
    totals = [[number(row.get(name)) for name in names] for row in rows]
    largest = max([0.0, *(sum(each) if stacked else max(each) for each in totals)])
    smallest = min([0.0, *(number for each in totals for number in each)]) if not stacked else 0.0
    kind = quantity(as_column(names[0]))
    said = words(as_column(names[0])) if len(names) == 1 else _GROUP_WORDS.get(kind, "")
    if kind in {Quantity.DURATION, Quantity.BYTES}:
        scale = fitting([largest, smallest], kind)
        size, symbol = scale.size, scale.symbol
    else:
        size, symbol = 1.0, unit(names[0]) or ("ratio" if kind is Quantity.RATIO else "")
    room = (largest - smallest) / size * (0.02 if stacked else 0.12)
    limit = largest / size + (room if largest or not smallest else room / 4)
    least = smallest / size - room if smallest else 0.0
    return Axis(size, f"{said} ({symbol})" if symbol and said else said or symbol, least, limit or 1.0)


def measures(names: Sequence[str]) -> list[list[str]]:
    """The columns by their unit: only those of one unit share an axis."""
    measures: dict[tuple[Quantity, str | None], list[str]] = {}
    for name in names:
        measures.setdefault((quantity(as_column(name)), unit(name)), []).append(name)
    return list(measures.values())


def is_additive(column: str) -> bool:
    """Whether the values of several rows add up to one: times and bytes do, means and extremes do not."""
    is_sum = quantity(as_column(column)) in {Quantity.DURATION, Quantity.BYTES}
    return is_sum and not re.search(r"(^|_)(mean|median|min|max)(_|$)|(Avg|Med|Min|Max|StdDev) \(ns\)$", column)


def is_finite(value: object) -> bool:
    """Whether the value is a number that can be drawn."""
    return isinstance(value, int | float | Decimal) and math.isfinite(value)


def number(value: object) -> float:
    """The value as a length; what is no number has none."""
    return float(value) if isinstance(value, int | float | Decimal) and math.isfinite(value) else 0.0
