"""Find tables by name, stored or computed, and what their rows and columns mean."""

from itertools import chain
from operator import attrgetter

import pyarrow as pa

from tracelab import computations, schema
from tracelab.errors import UsageError, suggest_name

_COMPUTED = tuple(chain.from_iterable(map(attrgetter("tables"), computations.COMPUTATIONS)))
COMPUTED_TABLES: dict[str, schema.ComputedTable] = dict(zip(map(attrgetter("name"), _COMPUTED), _COMPUTED, strict=True))
"""Every computed table by its name."""


def describe_tables(name: str | None = None) -> pa.Table:
    """Return the tables with what a row of each is, or the columns of one table with types and meanings."""
    if name is None:
        listed: list[schema.Table | schema.ComputedTable] = [*schema.TABLES, *COMPUTED_TABLES.values()]
        return pa.Table.from_pylist([{"table": table.name, "row": table.row} for table in listed])
    columns = find_table(name).view_columns
    return pa.Table.from_pylist(
        [{"column": column.name, "type": column.duckdb, "meaning": column.doc} for column in columns]
    )


def find_table(name: str) -> schema.Table | schema.ComputedTable:
    """Return a table, stored or computed, by its name. Raises UsageError for an unknown one."""
    table = schema.BY_NAME.get(name) or COMPUTED_TABLES.get(name)
    if table is None:
        raise UsageError(suggest_name("table", name, [*schema.BY_NAME, *COMPUTED_TABLES]))
    return table
