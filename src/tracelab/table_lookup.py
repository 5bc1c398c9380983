"""Find tables by name, stored or computed, and what their rows and columns mean."""

from itertools import chain
from operator import attrgetter

import pyarrow as pa

from tracelab import computations, schema
from tracelab.errors import UsageError, suggest_name
from tracelab.table_types import ComputedTable, Table, index_by_name

COMPUTED_TABLES: dict[str, ComputedTable] = index_by_name(
    chain.from_iterable(map(attrgetter("tables"), computations.COMPUTATIONS))
)
"""Every computed table by its name."""


def describe_tables(name: str | None = None) -> pa.Table:
    """Return the tables with what a row of each is, or the columns of one table with types and meanings."""
    if name is None:
        listed: list[Table | ComputedTable] = [*schema.TABLES, *COMPUTED_TABLES.values()]
        return pa.Table.from_pylist([{"table": table.name, "row": table.row} for table in listed])
    columns = find_table(name).view_columns
    return pa.Table.from_pylist(
        [{"column": column.name, "type": column.duckdb, "meaning": column.doc} for column in columns]
    )


def find_stored_table(name: str) -> Table:
    """Return a table that a store has as files, by its name. Raises UsageError for any other."""
    if name not in schema.BY_NAME:
        raise UsageError(suggest_name("table", name, list(schema.BY_NAME)))
    return schema.BY_NAME[name]


def find_table(name: str) -> Table | ComputedTable:
    """Return a table, stored or computed, by its name. Raises UsageError for an unknown one."""
    table = schema.BY_NAME.get(name) or COMPUTED_TABLES.get(name)
    if table is None:
        raise UsageError(suggest_name("table", name, [*schema.BY_NAME, *COMPUTED_TABLES]))
    return table
