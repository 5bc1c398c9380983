"""Choose axes: which columns share one, and the unit that fits them."""

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
"""Axes of shares are in percent."""
_GROUP_WORDS = {Quantity.DURATION: "time", Quantity.BYTES: "size", Quantity.PLAIN: "", Quantity.RATIO: ""}


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
