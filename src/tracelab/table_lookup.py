"""Find tables by name, stored or computed: those that a SQL text names, and what their rows and columns mean."""

import re
from operator import attrgetter

import pyarrow as pa

from tracelab import computations, schema
from tracelab.errors import UsageError, suggest_name
from tracelab.resources import QUERIES

COMPUTED_TABLES: dict[str, computations.ComputedTable] = {
    table.name: table for each in computations.COMPUTATIONS for table in each.tables
}
"""Every computed table by its name."""


SHARED_RELATIONS = frozenset(map(attrgetter("stem"), (QUERIES / "shared").glob("*.sql")))
"""The names of relations that several queries read: see `tracelab.store.shared_relations`."""


def names_computed(text: str) -> bool:
    """Return whether a SQL text names a computed table or a shared relation, which a session makes before it runs."""
    return not words_of(text).isdisjoint(COMPUTED_TABLES.keys() | SHARED_RELATIONS)


def named_computations(text: str) -> list[computations.Computation]:
    """Return the computations whose tables a SQL text names, in any case."""
    words = words_of(text)
    return [each for each in computations.COMPUTATIONS if any(table.name in words for table in each.tables)]


def words_of(text: str) -> set[str]:
    """Return the words of a SQL text in lower case, among them the names of the tables that it reads."""
    return set(re.findall(r"\w+", text.lower()))


def describe_tables(name: str | None = None) -> pa.Table:
    """Return the tables with what a row of each is, or the columns of one table with types and meanings."""
    if name is None:
        listed: list[schema.Table | computations.ComputedTable] = [*schema.TABLES, *COMPUTED_TABLES.values()]
        return pa.Table.from_pylist([{"table": table.name, "row": table.row} for table in listed])
    columns = find_table(name).view_columns
    return pa.Table.from_pylist(
        [{"column": column.name, "type": column.duckdb, "meaning": column.doc} for column in columns]
    )


def find_table(name: str) -> schema.Table | computations.ComputedTable:
    """Return a table, stored or computed, by its name. Raises UsageError for an unknown one."""
    table = schema.BY_NAME.get(name) or COMPUTED_TABLES.get(name)
    if table is None:
        raise UsageError(suggest_name("table", name, [*schema.BY_NAME, *COMPUTED_TABLES]))
    return table
