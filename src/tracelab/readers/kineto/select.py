"""Mappings compiled to SQL: the query that makes the rows of one table."""

from collections.abc import Collection

import pyarrow as pa

from tracelab import schema
from tracelab.readers.kineto import arguments, mapping
from tracelab.readers.kineto.mapping import Mapping

REST = "args"
"""The column of the arguments that are left over, as JSON."""
REST_BESIDE = "args beside"
"""The same for the second table that some events are rows of."""

_BASE: dict[str, pa.DataType] = {
    **dict.fromkeys(("ph", "source_cat", "name", "pid", "tid", REST, REST_BESIDE), pa.string()),
    **dict.fromkeys(("start_ns", "dur_ns"), pa.int64()),
}


def rows_query(target: Mapping, present: Collection[str], where: str, rest: str, *, gpu_pid: str) -> str:
    """The query over the relation `events` that makes the rows of one table of the events that have these arguments.

    `rest` is the column of what is left over of them for this table.
    """

    def reference(keys: tuple[str, ...], kind: str) -> str:
        columns = [name(arguments.column(key)) for key in keys if key in present]
        if kind == "DOUBLE":
            columns = [f"try_cast({column} as double)" for column in columns]
        if not columns:
            return f"(NULL::{kind})"
        return columns[0] if len(columns) == 1 else f"coalesce({', '.join(columns)})"

    columns = {
        column: value.template.format(*(reference(keys, kind) for keys, kind in value.arguments))
        for column, value in target.columns.items()
    }
    today = f"{todays_category('source_cat')} as cat, {gpu_pid}::bigint as gpu_pid"
    selected = rows_of(target.table, columns | {"args": name(rest)})
    return f"select {selected} from (select *, {today} from events where {where})"


def todays_category(column: str) -> str:
    """SQL for today's name of a category, lower case."""
    whens = " ".join(f"when '{old}' then '{new}'" for old, new in mapping.CATEGORY_ALIASES.items())
    return f"case lower({column}) {whens} else lower({column}) end"


def with_base_columns(events: pa.Table) -> pa.Table:
    """The events with every column that mappings may speak of beside arguments, be it empty."""
    for column, kind in _BASE.items():
        if column not in events.column_names:
            events = events.append_column(column, pa.nulls(len(events)).cast(kind))
    return events


def rows_of(table: str, columns: dict[str, str]) -> str:
    """The select list of a table: the given expressions, as its types; columns not given are left out, and NULL."""
    types = {column.name: column.duckdb for column in schema.BY_NAME[table].columns}
    casts = {column: "try_cast" if types[column] == "integer" else "cast" for column in columns}
    return ", ".join(
        f"{casts[column]}({text} as {types[column]}) as {name(column)}" for column, text in columns.items()
    )


def name(text: str) -> str:
    """An SQL identifier."""
    return '"' + text.replace('"', '""') + '"'
