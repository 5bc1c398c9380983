"""Convert JSON values to the columns of the schema.

A value that does not coerce its column becomes NULL and is counted.
"""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tracelab import schema
from tracelab.exact_json import json_text
from tracelab.readers.diagnostics import DiagnosticCounts, describe_value

Row = dict[str, object]
_EXACT_LENGTH = 16
"""Longest text of a fraction, with its point, that has at most 15 digits."""
_DIGITS_OF_INT64 = 19
_BITS = {"int32": 31, "int64": 63}
_SET_ELSEWHERE = ("run", "source", "rank", "args")
"""Columns that no field of a row sets."""


def _parse_fraction(text: str) -> float | Decimal | str:
    """Return a float where it has all digits of the text, as it has up to 15, else a Decimal; the text beyond both."""
    number = float(text)
    if math.isinf(number) or (number == 0 and len(text) > _EXACT_LENGTH):
        return text
    if len(text) <= _EXACT_LENGTH:
        return number
    exact = Decimal(text)
    return number if Decimal(repr(number)) == exact else exact


_DECODER = json.JSONDecoder(parse_constant=str, parse_float=_parse_fraction)


def loads(text: str) -> Any:  # noqa: ANN401  any JSON value
    """Parse JSON exactly; NaN and Infinity, which JSON does not have, become text that no numeric column takes.

    Raises ValueError, also for nesting beyond the recursion limit.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def build_row(table: str, fields: Mapping[str, object], diagnostics: DiagnosticCounts) -> Row:
    """Build a row of a table; fields without a column go into `args`, if the table has it."""
    columns = {column.name: column.type for column in schema.BY_NAME[table].columns}
    row: Row = {}
    unknown: Row = {}
    for name, value in fields.items():
        if name not in columns or name in _SET_ELSEWHERE:
            unknown[name] = value
            continue
        row[name] = coerce_value(value, columns[name])
        if row[name] is None and value is not None:
            diagnostics.note("value_unfit", f"{name} {describe_value(value)}")
    if unknown and "args" in columns:
        row["args"] = escape_surrogates(format_json(unknown))
    else:
        for name, value in unknown.items():
            diagnostics.note("field_unknown", f"{name} {describe_value(value)}")
    return row


def coerce_value(value: object, kind: str) -> object:
    """Return the value in the column's type; None if it does not coerce."""
    match kind:
        case "int32" | "int64":
            value = _to_whole(value)
            return value if _is_number(value) and isinstance(value, int) and abs(value) >> _BITS[kind] == 0 else None
        case "double":
            return _to_double(value)
        case "bool":
            return value if isinstance(value, bool) else None
        case "text":
            return escape_surrogates(value) if isinstance(value, str) else None
        case "timestamp":
            return _parse_time(value)
    return None


def build_table(table: str, rows: list[Row]) -> pa.Table:
    """Build an Arrow table from rows of `build_row`, with the columns that at least one row has."""
    used = {name for row in rows for name in row}
    columns = [column for column in schema.BY_NAME[table].columns if column.name in used]
    return pa.table({c.name: pa.array([row.get(c.name) for row in rows], c.arrow.type) for c in columns})


def format_json(value: object) -> str:
    """Return a value as JSON text, with all digits."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:  # a Decimal
        return json_text(value)


def escape_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can spell, by their escapes, so that every encoder takes the text."""
    return text.encode("utf-8", "backslashreplace").decode()


def _to_whole(value: object) -> object:
    """Return a whole number that is written with a fraction as an int; any other value unchanged."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Decimal) and value.adjusted() < _DIGITS_OF_INT64 and value == value.to_integral_value():
        return int(value)
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _to_double(value: object) -> float | None:
    if not _is_number(value):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]  # it is a number
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _parse_time(value: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
        return time and (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
