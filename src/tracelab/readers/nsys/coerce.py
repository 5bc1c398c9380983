"""Convert cells to columns of one kind; a value that does not fit becomes NULL and is counted."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.diagnostics import DiagnosticCounts, describe_value
from tracelab.readers.nsys.export import ARROW, Array, Kind

LONGEST_TEXT = 1 << 20
"""Most bytes of a text that are kept."""

_INT64 = range(-(1 << 63), 1 << 63)


def build_column(values: Sequence[object], kind: Kind, name: str, diagnostics: DiagnosticCounts) -> Array:
    """Build a column from single SQLite values (text as bytes)."""
    convert = {"int": _to_int, "real": _to_float, "text": _to_bytes}[kind]
    cells = []
    for value in values:
        cell = None if value is None else convert(value)
        if cell is None and value is not None:
            diagnostics.note("value_unfit", f"{name} {describe_value(value)}")
        cells.append(cell)
    if kind == "text":
        return decode_text(pa.array(cells, pa.binary()), name, diagnostics)
    return pa.array(cells, ARROW[kind])


def decode_text(values: Array, name: str, diagnostics: DiagnosticCounts) -> Array:
    """Decode bytes as text; invalid UTF-8 is replaced and counted, with the column's name: a text may be a secret."""
    if (pc.max(pc.binary_length(values)).as_py() or 0) > LONGEST_TEXT:
        return pa.array([_decode_cell(cell, name, diagnostics) for cell in values.to_pylist()], pa.string())
    try:
        text = values.cast(pa.string())
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([_decode_cell(cell, name, diagnostics) for cell in values.to_pylist()], pa.string())
    return text


def to_int32(values: Array, name: str, diagnostics: DiagnosticCounts) -> Array:
    """Convert integers to 32 bits; values beyond become NULL and are counted."""
    try:
        return values.cast(pa.int32())
    except pa.ArrowInvalid:
        fits = pc.and_(pc.less(values, 1 << 31), pc.greater_equal(values, -(1 << 31)))
        out_of_range = values.filter(pc.invert(pc.fill_null(fits, True)))  # noqa: FBT003
        diagnostics.note("value_unfit", f"{name} {out_of_range[0]}", count=len(out_of_range))
        return pc.if_else(fits, values, None).cast(pa.int32())


def _decode_cell(cell: bytes | None, name: str, diagnostics: DiagnosticCounts) -> str | None:
    if cell is None:
        return None
    if len(cell) > LONGEST_TEXT:
        diagnostics.note("text_cut", name)
        cell = cell[:LONGEST_TEXT].decode(errors="ignore").encode()
    text = cell.decode(errors="replace")
    if text.encode() != cell:
        diagnostics.note("invalid_text", name)
    return text


def _to_int(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bytes):
        try:
            value = int(value)
        except ValueError:
            return None
    return value if isinstance(value, int) and value in _INT64 else None


def _to_float(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float | bytes) else None
    except ValueError:
        return None


def _to_bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
