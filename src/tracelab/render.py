"""An Arrow table as text or bytes: exact in every format that a program reads, readable in the one people read."""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from rich.cells import cell_len

from tracelab.units import Quantity, quantity, scaled

FORMATS = ("table", "csv", "json", "jsonl", "parquet", "markdown")
SUFFIXES = {
    ".txt": "table",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".md": "markdown",
    ".markdown": "markdown",
}
"""Which format a file's name asks for."""

_BATCH = 10_000
_GAP = "  "
_NARROWEST_TEXT = 16


def write(table: pa.Table, fmt: str, stream: BinaryIO, *, width: int | None = None, color: bool = False) -> None:
    """Write the table in one of `FORMATS`; `width` and `color` are for people and change no other format."""
    if fmt == "table":
        for line in table_lines(table, width=width, color=color):
            stream.write(line.encode() + b"\n")
    else:
        _WRITERS[fmt](_distinct_names(table), stream)


def _distinct_names(table: pa.Table) -> pa.Table:
    """Number the columns that share a name: an object, or a Parquet file, would lose all but one of them."""
    seen: dict[str, int] = {}
    names = []
    for name in table.column_names:
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return table.rename_columns(names)


# --- formats that programs read


def _write_csv(table: pa.Table, stream: BinaryIO) -> None:
    """NULL is an empty field and an empty text is `""`; what CSV has no form for (lists, maps) is JSON in a field."""
    for index, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type) or pa.types.is_interval(field.type):
            texts = [None if value is None else _json(value) for value in _plain(table.column(index))]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
        elif pa.types.is_dictionary(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.string()))
    heading = io.StringIO()
    csv.writer(heading, lineterminator="\n").writerow(table.column_names)
    stream.write(heading.getvalue().encode())
    pa_csv.write_csv(table, stream, pa_csv.WriteOptions(include_header=False, quoting_style="needed"))


def _write_json(table: pa.Table, stream: BinaryIO) -> None:
    stream.write(b"[")
    for number, line in enumerate(_json_objects(table)):
        stream.write((",\n " if number else "\n ").encode() + line.encode())
    stream.write(b"\n]\n" if table.num_rows else b"]\n")


def _write_jsonl(table: pa.Table, stream: BinaryIO) -> None:
    for line in _json_objects(table):
        stream.write(line.encode() + b"\n")


def _json_objects(table: pa.Table) -> Iterator[str]:
    names = table.column_names
    for batch in table.to_batches(max_chunksize=_BATCH):
        columns = [_plain(column) for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield _json(dict(zip(names, row, strict=True)))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _plain(column: "pa.Array[Any] | pa.ChunkedArray[Any]") -> list[Any]:
    """A column as values that JSON has: exact integers, ISO times, NULL for what is no number."""
    values = column.to_pylist()
    if pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_boolean(column.type):
        return list(values)
    if pa.types.is_map(column.type):
        return [None if value is None else {str(key): _plain_value(item) for key, item in value} for value in values]
    return [_plain_value(value) for value in values]


def _plain_value(value: object) -> object:  # noqa: PLR0911  one line a type
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Decimal():  # DuckDB's HUGEINT, and literals as 1.5
            return int(value) if value == value.to_integral_value() else float(value)
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


def _write_parquet(table: pa.Table, stream: BinaryIO) -> None:
    pq.write_table(table, stream, compression="zstd")


def _write_markdown(table: pa.Table, stream: BinaryIO) -> None:
    """A pipe table with exact values; text is escaped, so that a hostile name is neither markup nor HTML."""
    rights = [_is_number(field.type) for field in table.schema]
    lines = [
        [_escaped(name, inside_words=False) for name in table.column_names],
        ["---:" if right else "---" for right in rights],
        *([_escaped(text) for text in row] for row in _text_rows(table)),
    ]
    for line in lines:
        stream.write(("| " + " | ".join(line) + " |\n").encode())


def _text_rows(table: pa.Table) -> Iterator[list[str]]:
    for batch in table.to_batches(max_chunksize=_BATCH):
        for row in zip(*(_plain(column) for column in batch.columns), strict=True):
            yield [_exact(value) for value in row]


def _exact(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _json(value)


def _escaped(text: str, *, inside_words: bool = True) -> str:
    text = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*\[\]|~$_])" if inside_words else r"([\\`*\[\]|~$])", r"\\\1", text)


_WRITERS: dict[str, Callable[[pa.Table, BinaryIO], None]] = {
    "csv": _write_csv,
    "json": _write_json,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "markdown": _write_markdown,
}


# --- the format that people read


def table_lines(table: pa.Table, *, width: int | None, color: bool = False) -> Iterator[str]:
    """Lay the table out in lines, none wider than `width` (None: as wide as it likes).

    Long text is shortened in its middle; a single row that does not fit stands upright; many rows that do not fit are
    cut into blocks of columns, each with the row's number.
    """
    if table.column_names == ["explain_key", "explain_value"]:  # a drawing: shortening would break it
        for plan in table.column(1).to_pylist():
            yield from (visible(line) for line in str(plan).splitlines())
        return
    columns = [_column(field, table.column(index)) for index, field in enumerate(table.schema)]
    fitted = columns if width is None else _fitted(columns, width)
    if width is None or _width(fitted) <= width:
        yield from _grid(fitted, color=color)
    elif table.num_rows == 1:
        yield from _upright(columns, width, color=color)
    else:
        yield from _blocks([_narrowed(column, width // 2) for column in columns], table.num_rows, width, color=color)


class _Column:
    """One column as text: a heading of one or more lines, and its cells."""

    def __init__(self, heading: list[str], cells: list[str], *, right: bool) -> None:
        self.heading = heading
        self.cells = cells
        self.right = right
        self.width = max(map(cell_len, [*heading, *cells]), default=0)


def _column(field: "pa.Field[Any]", values: "pa.ChunkedArray[Any]") -> _Column:
    return _Column([visible(field.name)], _cells(field, values), right=_is_number(field.type))


def _cells(field: "pa.Field[Any]", values: "pa.ChunkedArray[Any]") -> list[str]:
    if not _is_number(field.type):
        return ["NULL" if value is None else visible(_exact(value)) for value in _plain(values)]
    what = quantity(field.name)
    return ["NULL" if value is None else _number(value, what) for value in values.to_pylist()]


def _number(value: float | Decimal, what: Quantity) -> str:
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if what is Quantity.ID:
        return str(value)
    if what in {Quantity.DURATION, Quantity.BYTES}:
        return scaled(value, what)
    if isinstance(value, int):
        return f"{value:,}"
    if what is Quantity.RATIO and (value == 0 or abs(value) >= 1e-4):  # noqa: PLR2004  four decimals show it
        return f"{value:.4f}"
    return significant(value)


def significant(value: float, *, digits: int = 4) -> str:
    """So many significant digits, whole numbers in full: 1,234,567 · 12.35 · 0.001235 · 1.235e-09."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -5 or magnitude > 14:  # noqa: PLR2004  longer numbers are not read as digits
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _width(columns: Sequence[_Column]) -> int:
    return sum(column.width for column in columns) + len(_GAP) * (len(columns) - 1)


def _fitted(columns: list[_Column], width: int) -> list[_Column]:
    """Break headings at their underscores, then shorten text, until the columns fit or nothing more can give."""
    if _width(columns) <= width:
        return columns
    fitted = [_Column(_broken(column), column.cells, right=column.right) for column in columns]
    while (surplus := _width(fitted) - width) > 0:
        texts = [column for column in fitted if not column.right]
        widest = max(texts, key=lambda column: column.width, default=None)
        if widest is None or widest.width <= _NARROWEST_TEXT:
            return fitted
        next_widest = max((column.width for column in texts if column is not widest), default=0)
        target = max(_NARROWEST_TEXT, widest.width - surplus, min(next_widest, widest.width - 1))
        fitted = [_narrowed(column, target) if column is widest else column for column in fitted]
    return fitted


def _narrowed(column: _Column, width: int) -> _Column:
    """The column with its heading broken and, where it is text, shortened to the width."""
    heading = _broken(column) if len(column.heading) == 1 else column.heading
    if column.right or column.width <= width:
        return _Column(heading, column.cells, right=column.right)
    cells = [shortened(cell, max(width, _NARROWEST_TEXT)) for cell in column.cells]
    return _Column([shortened(line, max(width, _NARROWEST_TEXT)) for line in heading], cells, right=False)


def _broken(column: _Column) -> list[str]:
    """The heading in lines no wider than the cells, where its underscores allow."""
    room = max(map(cell_len, column.cells), default=0)
    lines: list[str] = []
    for part in column.heading[0].split("_"):
        if lines and cell_len(lines[-1]) + 1 + cell_len(part) <= room:
            lines[-1] = f"{lines[-1]}_{part}"
        else:
            lines[-1:] = [f"{lines[-1]}_", part] if lines else [part]
    return lines


def _grid(columns: Sequence[_Column], *, color: bool) -> Iterator[str]:
    height = max((len(column.heading) for column in columns), default=0)
    headings = [[""] * (height - len(column.heading)) + column.heading for column in columns]
    for line in zip(*headings, strict=True):
        yield _styled(_line(columns, line), _BOLD, color=color)
    yield _GAP.join("─" * column.width for column in columns)
    for row in zip(*(column.cells for column in columns), strict=True):
        yield _line(columns, row)


def _line(columns: Sequence[_Column], cells: Sequence[str]) -> str:
    return _GAP.join(
        _padded(cell, column.width, right=column.right) for column, cell in zip(columns, cells, strict=True)
    ).rstrip()


def _padded(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def _upright(columns: Sequence[_Column], width: int, *, color: bool) -> Iterator[str]:
    longest = max(cell_len(column.heading[0]) for column in columns)
    for column in columns:
        name = _padded(column.heading[0], longest, right=False)
        room = max(_NARROWEST_TEXT, width - longest - len(_GAP))
        yield _styled(name, _BOLD, color=color) + _GAP + shortened(column.cells[0], room)


def _blocks(columns: Sequence[_Column], rows: int, width: int, *, color: bool) -> Iterator[str]:
    number = _Column(["#"], [str(row) for row in range(1, rows + 1)], right=True)
    block = [number]
    for column in columns:
        if len(block) > 1 and _width([*block, column]) > width:
            yield from _grid(block, color=color)
            yield ""
            block = [number]
        block.append(column)
    yield from _grid(block, color=color)


_BOLD = "1"


def _styled(text: str, style: str, *, color: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if color else text


def visible(text: str) -> str:
    """The text in one line without control characters: a name may hold newlines, or commands to a terminal."""
    return "".join(character if character.isprintable() else _spelled(character) for character in text)


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()


def shortened(text: str, width: int) -> str:
    """The text in at most `width` cells, an ellipsis for its middle: both ends of a kernel's name tell something."""
    if cell_len(text) <= width:
        return text
    tail = max(0, width - 1) // 3
    end = _beginning(text[::-1], tail)[::-1]
    return _beginning(text, max(0, width - 1 - tail)) + "…"[:width] + end


def _beginning(text: str, width: int) -> str:
    """As many characters as the cells hold; some characters take two."""
    taken = 0
    for index, character in enumerate(text):
        taken += cell_len(character)
        if taken > width:
            return text[:index]
    return text


def as_text(table: pa.Table, fmt: str, *, width: int | None = None) -> str:
    """The table as one text, for documents and tests."""
    stream = io.BytesIO()
    write(table, fmt, stream, width=width)
    return stream.getvalue().decode()
