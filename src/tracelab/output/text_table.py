"""Lay out a table for a terminal: fitted to a width, with units and shortened names; values are rounded."""

import textwrap
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from rich.cells import cell_len, chop_cells

from tracelab.foreign_text import escape_controls
from tracelab.output.labels import (
    NO_NAME,
    Quantity,
    column_quantity,
    format_percent,
    format_scaled,
    format_significant,
    shorten,
    shorten_distinctly,
)
from tracelab.output.plain_values import exact_text, is_numeric, to_plain

_GAP = "  "
_NARROWEST_TEXT = 16
_SHORT_TEXT = 20
_NAMES = frozenset(("kernel", "name"))
_WHOLE = (frozenset(("run", "before", "after")), frozenset(("host",)))
"""Names that the next command takes, which are never shortened: runs, and in a table without runs hosts."""
_UNIT = b"unit"
"""Metadata of a column of values with their unit, which its name lacks."""
_LONG = 48
"""Text that is wider, and the same in all rows or all of a run, is written once below the table."""


def table_lines(table: pa.Table, *, width: int | None, color: bool = False) -> Iterator[str]:
    """Yield the lines of a table, none wider than `width` (None: no limit).

    Long text is shortened in its middle; a name that a reader goes on with, as that of a run, has a line of its own
    where its column is too narrow for it. A single row that does not fit prints one value per line; several rows are
    split into blocks of columns, each with the row's number and the column that identifies the row. Long text that is
    the same in all rows, or in all rows of a run, follows the table, complete.
    """
    if table.column_names == ["explain_key", "explain_value"]:  # a drawing: shortening would break it
        for plan in table.column(1).to_pylist():
            yield from (escape_controls(line) for line in str(plan).splitlines())
        return
    whole = next((names for names in _WHOLE if names & set(table.column_names)), frozenset())
    columns = [_column(field, table.column(at), whole=field.name in whole) for at, field in enumerate(table.schema)]
    columns, texts = _take_long_texts(columns, table.num_rows, width)
    fitted = columns if width is None else _fit_columns(columns, width)
    if width is None or _width(fitted) <= width:
        yield from _grid(fitted, width, color=color)
    elif table.num_rows == 1:
        yield from _records(columns, width, color=color)
    else:
        yield from _blocks(columns, table.num_rows, width, color=color)
    for each in texts:
        yield ""
        yield from wrap_text(each, width)


def wrap_text(text: str, width: int | None) -> list[str]:
    """Break a text into lines of at most `width` terminal cells (None: one line), at spaces where there are some."""
    if width is None:
        return [text]
    lines = textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False)
    return [piece for line in lines for piece in (chop_cells(line, width) if cell_len(line) > width else [line])]


def _take_long_texts(columns: "list[_Column]", rows: int, width: int | None) -> "tuple[list[_Column], Sequence[str]]":
    """Return the columns without those of long text, not names, that rows share, and each of these texts once.

    All rows share a text, but a single row only where it does not fit. Where the columns do not fit, all rows of one
    text of the first column may share one, too: as the reason why figures of a run are not known.
    """
    fits = width is None or _width(columns) <= width
    if rows == 0 or (rows == 1 and fits):
        return columns, []
    long = [each for each in columns if not each.right and each.heading[0] not in _NAMES and each.width > _LONG]
    shared = [each for each in long if len(set(each.cells)) == 1]
    if shared and len(shared) < len(columns):
        left = [each for each in columns if each not in shared]
        return left, [f"{each.heading[0]}: {each.cells[0]}" for each in shared]
    keys = columns[0]
    repeated = [
        each
        for each in long
        if each is not keys and len(set(zip(keys.cells, each.cells, strict=True))) == len(set(keys.cells)) < rows
    ]
    if fits or keys.right or not repeated:
        return columns, []
    texts = [
        f"{each.heading[0]} of {', '.join(owners)}: {text}"
        for each in repeated
        for text, owners in _owners_of_texts(keys, each).items()
    ]
    return [each for each in columns if each not in repeated], texts


def _owners_of_texts(keys: "_Column", column: "_Column") -> dict[str, list[str]]:
    """Return each text of a column, but NULL, with the texts of the first column that have it."""
    owners: dict[str, list[str]] = {}
    for key, text in dict.fromkeys(zip(keys.cells, column.cells, strict=True)):
        if text != "NULL":
            owners.setdefault(text, []).append(key)
    return owners


class _Column:
    """One column as text: heading lines and cells; `whole`: cells that do not fit have a line of their own."""

    def __init__(self, heading: list[str], cells: list[str], *, right: bool, whole: bool = False) -> None:
        self.heading = heading
        self.cells = cells
        self.right = right
        self.whole = whole
        self.width = max(map(cell_len, [*heading, *cells]), default=0)


def _column(field: "pa.Field[Any]", values: "pa.ChunkedArray[Any]", *, whole: bool) -> _Column:
    is_number = is_numeric(field.type)
    cells = format_cells(field, values)
    return _Column([escape_controls(field.name)], cells, right=is_number, whole=whole and not is_number)


def apply_unit(table: pa.Table) -> pa.Table:
    """Return the table with the unit of its column `unit`, if all rows share one, noted at the columns of values."""
    units = table.column("unit").unique().to_pylist() if "unit" in table.column_names else []
    if len(units) != 1 or not isinstance(units[0], str):
        return table
    fields = [
        field.with_metadata({_UNIT: units[0]}) if field.name == "value" or field.name.endswith("_value") else field
        for field in table.schema
    ]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields))


def format_cells(field: "pa.Field[Any]", values: "pa.ChunkedArray[Any]") -> list[str]:
    """Format a column's values with units, in one line each; NULL for a missing one."""
    if not is_numeric(field.type):
        empty = NO_NAME if field.name in _NAMES else ""
        return ["NULL" if value is None else escape_controls(exact_text(value)) or empty for value in to_plain(values)]
    unit = (field.metadata or {}).get(_UNIT, b"").decode()
    quantity = column_quantity(unit or field.name)
    symbol = f" {unit}" if unit and quantity is Quantity.PLAIN else ""
    return ["NULL" if value is None else _format_number(value, quantity) + symbol for value in values.to_pylist()]


def _format_number(value: float | Decimal, quantity: Quantity) -> str:
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if quantity is Quantity.ID:
        return str(value)
    if quantity in {Quantity.DURATION, Quantity.BYTES}:
        return format_scaled(value, quantity)
    if quantity is Quantity.RATIO:
        return format_percent(value)
    if isinstance(value, int):
        return f"{value:,}"
    return format_significant(value)


def _width(columns: Sequence[_Column]) -> int:
    return sum(column.width for column in columns) + len(_GAP) * (len(columns) - 1)


def _fit_columns(columns: list[_Column], width: int) -> list[_Column]:
    """Break headings at underscores, then shorten text, until the columns fit or nothing more can shrink.

    Columns of names that stay whole become narrower before short text, such as a time of day, is shortened.
    """
    if _width(columns) <= width:
        return columns
    fitted = [_narrow(column, column.width) for column in columns]
    for whole, narrowest in ((False, _SHORT_TEXT), (True, _SHORT_TEXT), (False, _NARROWEST_TEXT)):
        fitted = _shrink_texts(fitted, width, narrowest, whole=whole)
    return fitted


def _shrink_texts(fitted: list[_Column], width: int, narrowest: int, *, whole: bool) -> list[_Column]:
    """Narrow the widest columns of text, those that stay whole or the others, until all columns fit, if they can."""
    while (surplus := _width(fitted) - width) > 0:
        texts = [column for column in fitted if not column.right and column.whole == whole]
        widest = max(texts, key=lambda column: column.width, default=None)
        if widest is None or widest.width <= narrowest:
            return fitted
        next_widest = max((column.width for column in texts if column is not widest), default=0)
        target = max(narrowest, widest.width - surplus, min(next_widest, widest.width - 1))
        fitted = [_narrow(column, target) if column is widest else column for column in fitted]
    return fitted


def _narrow(column: _Column, width: int) -> _Column:
    """Return the column with a broken heading and, for text, shortened cells."""
    heading = _break_title(column) if len(column.heading) == 1 else column.heading
    if column.right or column.width <= width:
        return _Column(heading, column.cells, right=column.right, whole=column.whole)
    width = max(width, _NARROWEST_TEXT)
    heading = [shorten(line, width) for line in heading]
    if column.whole:
        narrowed = _Column(heading, column.cells, right=False, whole=True)
        narrowed.width = width
        return narrowed
    short = {cell: shorten(cell, width) for cell in column.cells}
    if len(set(short.values())) < len(short):
        short = shorten_distinctly(column.cells, width)
    return _Column(heading, [short[cell] for cell in column.cells], right=False)


def _break_title(column: _Column) -> list[str]:
    """Break a heading at underscores into lines no wider than the cells."""
    room = max(map(cell_len, column.cells), default=0)
    lines: list[str] = []
    for part in column.heading[0].split("_"):
        if lines and cell_len(lines[-1]) + 1 + cell_len(part) <= room:
            lines[-1] = f"{lines[-1]}_{part}"
        else:
            lines[-1:] = [f"{lines[-1]}_", part] if lines else [part]
    return lines


def _grid(columns: Sequence[_Column], width: int | None, *, color: bool) -> Iterator[str]:
    height = max((len(column.heading) for column in columns), default=0)
    headings = [[""] * (height - len(column.heading)) + column.heading for column in columns]
    for line in zip(*headings, strict=True):
        yield from (_style(each, _BOLD, color=color) for each in _lines(columns, line, width))
    yield _GAP.join("─" * column.width for column in columns)
    for row in zip(*(column.cells for column in columns), strict=True):
        yield from _lines(columns, row, width)


def _lines(columns: Sequence[_Column], cells: Sequence[str], width: int | None) -> Iterator[str]:
    """Yield the line of a row; a cell wider than its column ends it, and the other cells follow on the next one."""
    line = ""
    for place, (column, cell) in enumerate(zip(columns, cells, strict=True)):
        offset = cell_len(line)
        if cell_len(cell) > column.width:
            yield line + (cell if width is None else shorten(cell, width - offset))
            line = " " * (offset + column.width + len(_GAP))
            if place == len(columns) - 1:
                return
        else:
            line += _pad(cell, column.width, right=column.right) + _GAP
    yield line.rstrip()


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def _records(columns: Sequence[_Column], width: int, *, color: bool) -> Iterator[str]:
    longest = max(cell_len(column.heading[0]) for column in columns)
    for column in columns:
        name = _pad(column.heading[0], longest, right=False)
        room = max(_NARROWEST_TEXT, width - longest - len(_GAP))
        yield _style(name, _BOLD, color=color) + _GAP + shorten(column.cells[0], room)


def _blocks(columns: Sequence[_Column], rows: int, width: int, *, color: bool) -> Iterator[str]:
    key = _key_column(columns)
    first = [_Column(["#"], [str(row) for row in range(1, rows + 1)], right=True)]
    if key is not None:
        first.append(_narrow(key, width // 3))
    room = width - _width(first) - len(_GAP)
    block = [*first]
    for column in columns:
        if column is key:
            continue
        narrowed = _narrow(column, min(width // 2, room))
        if len(block) > len(first) and _width([*block, narrowed]) > width:
            yield from _grid(block, width, color=color)
            yield ""
            block = [*first]
        block.append(narrowed)
    yield from _grid(block, width, color=color)


def _key_column(columns: Sequence[_Column]) -> _Column | None:
    """Return the text column that identifies a row: the first of those with most different values, if there are two."""
    texts = [column for column in columns if not column.right]
    key = max(texts, key=lambda column: len(set(column.cells)), default=None)
    return key if key is not None and len(set(key.cells)) > 1 else None


_BOLD = "1"


def _style(text: str, style: str, *, color: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if color else text
