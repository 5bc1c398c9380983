"""Choose what a table for people has of an answer: the columns that matter, and notes on what is left out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.errors import UsageError, suggest_close
from tracelab.output.labels import IDENTITY, Quantity, column_quantity
from tracelab.output.plain_values import is_numeric
from tracelab.output.text_table import apply_unit, format_cells, table_lines, wrap_text

MOST_COLUMNS = 8
_LEAST_REPEATED = 3
"""A duration or share that so many rows or more have in common is not one of each row."""
_PLACES = ("run", "rank", "device")
"""Columns that are left out where they have one value throughout."""


@dataclass(frozen=True)
class Selection:
    """Which rows and columns of an answer a user requests, for all formats."""

    columns: tuple[str, ...] = ()
    sort: str | None = None
    """A column; after a `-`, in descending order."""
    limit: int | None = None

    def apply(self, rows: pa.Table | pa.RecordBatchReader) -> tuple[pa.Table | pa.RecordBatchReader, int | None]:
        """Return the selected rows, and with `limit` how many there are; raise UsageError for an unknown column.

        Only a sort holds all rows in memory.
        """
        names = rows.schema.names
        indices = [_find_column(names, name) for name in self.columns]
        if self.sort is not None:
            rows = _sort_rows(rows if isinstance(rows, pa.Table) else rows.read_all(), self.sort)
        total = None
        if self.limit is not None:
            rows, total = _take_first(rows, self.limit)
        if not indices:
            return rows, total
        if isinstance(rows, pa.Table):
            return rows.select(indices), total
        schema = pa.schema([rows.schema.field(index) for index in indices])
        return pa.RecordBatchReader.from_batches(schema, (batch.select(indices) for batch in rows)), total


def _find_column(names: Sequence[str], name: str) -> int:
    if name not in names:
        raise UsageError(f"no column {name!r}{suggest_close('', name, names)}; the answer has {', '.join(names)}")
    return names.index(name)


def _sort_rows(table: pa.Table, by: str) -> pa.Table:
    """Return the rows in order of a column, NULL last; equal ones keep their order."""
    descending = by.startswith("-") and by not in table.column_names
    index = _find_column(table.column_names, by.removeprefix("-") if descending else by)
    keys = pa.table({"key": table.column(index)})
    try:
        order = pc.sort_indices(keys, sort_keys=[("key", "descending" if descending else "ascending")])
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise UsageError(f"column {table.column_names[index]!r} has no order; sort by another") from error
    return table.take(order)


def _take_first(rows: pa.Table | pa.RecordBatchReader, limit: int) -> tuple[pa.Table, int]:
    """Return the first rows and the number of all; only the first ones are kept in memory."""
    if isinstance(rows, pa.Table):
        return rows.slice(0, limit), rows.num_rows
    first: list[pa.RecordBatch] = []
    total = 0
    for batch in rows:
        if total < limit:
            first.append(batch.slice(0, limit - total))
        total += batch.num_rows
    return pa.Table.from_batches(first, rows.schema), total


_REASON = "reason"
"""Column with the reason why figures of a row are not known: without one there is nothing to note."""


def reduce_columns(table: pa.Table, show: Sequence[str], hint: str) -> tuple[pa.Table, list[str]]:
    """Return the table with the columns that matter, and a note on each kind of columns that are left out.

    `show` are the columns of the query's header; without them an answer of more than eight columns has those that
    identify a row and the first others. Columns without a value, with only zeros, and a run, rank or device that is the
    same in all rows move to a note; with `show` so does a figure that all of several rows repeat, such as the run's
    time. `hint` ends the note on the number of other columns.
    """
    table = apply_unit(table)
    names = table.column_names
    if show:
        candidates = [names.index(name) for name in show if name in names]
    else:
        candidates = list(range(len(names)))
        if len(names) > MOST_COLUMNS:
            candidates.sort(key=lambda index: names[index] not in IDENTITY)
    selected: list[int] = []
    constant: list[int] = []
    for index in candidates:
        if len(selected) == MOST_COLUMNS:
            break
        is_constant = _is_constant(table, index) or (bool(show) and _is_total(table, index))
        if not is_constant:
            selected.append(index)
        elif names[index] != _REASON:
            constant.append(index)
    if not selected:
        selected, constant = candidates[:MOST_COLUMNS], []
    notes = []
    if constant:
        values = [f"{names[index]} = {_first_cell(table, index)}" for index in constant]
        notes.append(f"In every row above: {', '.join(values)}.")
    if others := len(names) - len(selected) - len(constant):
        notes.append(f"{others} more column{'s' * (others != 1)}: {hint}.")
    return table.select(selected), notes


def view_lines(
    table: pa.Table, show: Sequence[str], *, width: int | None, color: bool = False, hint: str = "--all shows them"
) -> Iterator[str]:
    """Yield the lines of a table with the columns that matter, and below it the notes on those left out."""
    reduced, notes = reduce_columns(table, show, hint)
    yield from table_lines(reduced, width=width, color=color)
    if notes:
        yield ""
    for note in notes:
        yield from wrap_text(note, width)


def _is_constant(table: pa.Table, index: int) -> bool:
    """Return whether a column has no information: no value, only zeros, or one run, rank or device."""
    values = table.column(index)
    if table.num_rows == 0:
        return False
    if values.null_count == len(values):
        return True
    if values.null_count:
        return False
    if table.column_names[index] in _PLACES:
        return len(values.unique()) == 1
    return is_numeric(values.type) and not any(value.as_py() for value in values)  # stops at the first that is not 0


def _is_total(table: pa.Table, index: int) -> bool:
    """Return whether a duration or share is the same in several rows, and so is none of a row's own."""
    quantity = column_quantity(table.column_names[index])
    if table.num_rows < _LEAST_REPEATED or quantity not in (Quantity.DURATION, Quantity.RATIO):
        return False
    values = table.column(index)
    return not values.null_count and len(values.unique()) == 1


def _first_cell(table: pa.Table, index: int) -> str:
    return format_cells(table.schema.field(index), table.column(index).slice(0, 1))[0]
