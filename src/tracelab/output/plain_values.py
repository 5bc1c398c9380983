"""Convert Arrow values to exact JSON types."""

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from tracelab.exact_json import json_text

_Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"


def to_plain(column: _Column) -> list[Any]:
    """Convert a column to JSON types: exact numbers (including Decimal), ISO times, None for NaN and infinities."""
    try:
        values = _to_microseconds(column).to_pylist()
    except (ValueError, OverflowError):  # a time with nanoseconds, or a year outside the range of Python's dates
        values = column.cast(pa.string()).to_pylist()
    if pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_boolean(column.type):
        return list(values)
    if pa.types.is_map(column.type):
        return [None if value is None else {str(key): _plain_value(item) for key, item in value} for value in values]
    return [_plain_value(value) for value in values]


def _to_microseconds(column: _Column) -> _Column:
    """Cast times in ns to µs; ArrowInvalid if that loses digits. Arrow returns pandas types for ns if it can."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz))
    return column


def _plain_value(value: object) -> object:  # noqa: PLR0911  one line a type
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Decimal():  # DuckDB's HUGEINT, and literals as 1.5
            return int(value) if value.as_tuple().exponent == 0 else value
        case pa.MonthDayNano():
            return _iso_duration(value)
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case dict():
            return {str(key): _plain_value(item) for key, item in value.items()}
        case list():
            return [_plain_value(item) for item in value]
        case None | bool() | int() | str():
            return value
        case timedelta():
            return value.total_seconds()
    return str(value)


def _iso_duration(interval: pa.MonthDayNano) -> str:
    """Return an interval in ISO 8601 with its three parts: P14M3DT1.5S."""
    sign, (seconds, nanoseconds) = "-" * (interval.nanoseconds < 0), divmod(abs(interval.nanoseconds), 10**9)
    fraction = f".{nanoseconds:09d}".rstrip("0").rstrip(".")
    return f"P{interval.months}M{interval.days}DT{sign}{seconds}{fraction}S"


def exact_text(value: object) -> str:
    """Return a plain value as exact text; NULL is empty."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)


def is_numeric(kind: pa.DataType) -> bool:
    """Return whether a column has a numeric type."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
