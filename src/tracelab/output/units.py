"""Derive units from column names, and format numbers with them."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Quantity(Enum):
    """Kinds of numbers with different formats."""

    DURATION = "ns"
    BYTES = "bytes"
    RATIO = "ratio"
    ID = "id"
    PLAIN = "plain"


@dataclass(frozen=True)
class Scale:
    """One unit: its size in base units, and its symbol."""

    size: float
    symbol: str


DURATIONS = (Scale(1, "ns"), Scale(1e3, "µs"), Scale(1e6, "ms"), Scale(1e9, "s"))
BYTES = (Scale(1, "B"), Scale(1e3, "kB"), Scale(1e6, "MB"), Scale(1e9, "GB"), Scale(1e12, "TB"))
SCALES = {Quantity.DURATION: DURATIONS, Quantity.BYTES: BYTES}

_RATES = {
    "_gb_per_s": "GB/s",
    "_gflop_per_s": "GFLOP/s",
    "_flop_per_byte": "FLOP/byte",
    "_hz": "Hz",
    "_w": "W",
    "_c": "°C",
    "_ppb": "ppb",
}
_INSTANTS = ("start_ns", "end_ns", "time_ns")
_IDS = {
    *("pid", "tid", "forward_tid", "device", "rank", "context", "stream", "correlation", "external_id", "graph"),
    *("graph_node", "sequence_number", "seq", "root", "peer", "frame", "parent_frame", "address", "launch", "event_id"),
    *("src_device", "dst_device", "epoch", "step", "repeat"),
}
_DIGITS = 4


def column_quantity(column: str) -> Quantity:
    """Return the quantity of a column. Instants count as ids: scaling a time of day in ns has no meaning."""
    name = column.lower()
    if name in {*_IDS, *_INSTANTS} or name.endswith(tuple(f"_{instant}" for instant in _INSTANTS)):
        return Quantity.ID
    for kind in (Quantity.DURATION, Quantity.BYTES, Quantity.RATIO):
        if name == kind.value or name.endswith(f"_{kind.value}"):
            return kind
    return Quantity.PLAIN


def column_from_title(title: str) -> str:
    """Convert a title of another tool to a column name: Total Time (ns) becomes Total Time_ns."""
    return re.sub(r" \((ns)\)$", r"_\1", title)


def fit_scale(values: Iterable[float], kind: Quantity) -> Scale:
    """Return the unit in which the largest value has one to three digits before the point."""
    largest = max((abs(value) for value in values), default=0)
    return next((scale for scale in reversed(SCALES[kind]) if largest >= scale.size), SCALES[kind][0])


def format_scaled(value: float, kind: Quantity) -> str:
    """Format one value in its best unit, with four digits: 987 ns, 12.35 µs, 1.235 GB."""
    scale = fit_scale([value], kind)
    if scale.size == 1:
        return f"{value:.{_DIGITS}g} {scale.symbol}"
    number = value / scale.size
    digits = len(str(int(abs(number))))
    return f"{number:,.{max(0, _DIGITS - digits)}f} {scale.symbol}"


def format_significant(value: float, *, digits: int = 4) -> str:
    """Format with significant digits, whole numbers in full: 1,234,567 · 12.35 · 0.001235 · 1.235e-09."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -5 or magnitude > 14:  # noqa: PLR2004  longer numbers are not read as digits
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}"


def format_percent(ratio: float) -> str:
    """Format a ratio as a percentage: 24.35 %."""
    return f"{format_significant(100 * ratio)} %"


def column_unit(column: str) -> str | None:
    """Return the unit suffix of a column name as a symbol."""
    return next((symbol for ending, symbol in _RATES.items() if column.lower().endswith(ending)), None)


def spell_column(column: str) -> str:
    """Return a column name in words, without its unit: of_window_ratio becomes of window."""
    name = column
    for ending in ("_ns", "_bytes", "_ratio", *_RATES):
        name = name.removesuffix(ending)
    return name.replace("_", " ")
