"""Values of JSON as columns of the schema: what does not fit its column's type is NULL, and counted."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from tracelab import schema
from tracelab.readers.diagnostics import DiagnosticCounts

Row = dict[str, object]
_BITS = {"int32": 31, "int64": 63}
_FILLED = ("run", "source", "rank", "args")
"""Columns that no field of a row fills by itself."""


def loads(text: str) -> Any:  # noqa: ANN401  whatever JSON holds
    """A value of JSON; NaN and Infinity, which JSON has not, as text, so that no column of numbers takes them.

    Raises ValueError, also where it is nested beyond all reason.
    """
    try:
        return json.loads(text, parse_constant=str)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def fitted(table: str, fields: Mapping[str, object], diagnostics: DiagnosticCounts) -> Row:
    """One row of a table; fields without a column stand in `args`, where the table has it."""
    columns = {column.name: column.type for column in schema.BY_NAME[table].columns}
    row: Row = {}
    rest: Row = {}
    for name, value in fields.items():
        if name not in columns or name in _FILLED:
            rest[name] = value
            continue
        row[name] = fit(value, columns[name])
        if row[name] is None and value is not None:
            diagnostics.note("value_unfit", f"{name} {shown(value)}")
    if rest and "args" in columns:
        row["args"] = clean(json.dumps(rest, ensure_ascii=False))
    else:
        for name, value in rest.items():
            diagnostics.note("field_unknown", f"{name} {shown(value)}")
    return row


def fit(value: object, kind: str) -> object:
    """The value as a column of this type holds it; None where it does not fit."""
    match kind:
        case "int32" | "int64":
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            return value if _is_number(value) and isinstance(value, int) and abs(value) >> _BITS[kind] == 0 else None
        case "double":
            return _double(value)
        case "bool":
            return value if isinstance(value, bool) else None
        case "text":
            return clean(value) if isinstance(value, str) else None
        case "timestamp":
            return _time(value)
    return None


def as_table(table: str, rows: list[Row]) -> pa.Table:
    """Fitted rows as a table of the schema, with the columns that one of them has."""
    given = {name for row in rows for name in row}
    columns = [column for column in schema.BY_NAME[table].columns if column.name in given]
    return pa.table({c.name: pa.array([row.get(c.name) for row in rows], schema.ARROW_TYPES[c.type]) for c in columns})


def clean(text: str) -> str:
    """Text that every encoder takes: halves of surrogate pairs, which JSON can spell, as their escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def shown(value: object) -> str:
    """A value as a message shows it."""
    return clean(repr(value)[:80])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _double(value: object) -> float | None:
    if not _is_number(value):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]  # it is a number
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _time(value: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
        return time and (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
