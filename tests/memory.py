"""A session over tables in memory: the views and macros of a store without its files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import duckdb
import pyarrow as pa

from tests.build import Rows, complete_rows
from tracelab import computations, schema
from tracelab.query import execute, library, spec
from tracelab.store import computed_tables, execution, session


def insert(con: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[int | str | None]]) -> None:
    """Insert rows in one statement, which takes as long as one row does."""
    if rows:
        cells = ["(" + ", ".join("null" if cell is None else repr(cell) for cell in row) + ")" for row in rows]
        con.execute(f"insert into {table} values {', '.join(cells)}")


def end_ns(start_ns: int | None, dur_ns: int | None) -> int | None:
    """Return the end of a row; unknown unless both are known."""
    return None if start_ns is None or dur_ns is None else start_ns + dur_ns


def read_into_memory(con: duckdb.DuckDBPyConnection) -> None:
    """Let tables in memory shadow the views of a session: each query on a store opens all its files."""
    for table in schema.TABLES:
        con.execute(f"create temp table {table.name} as from {table.name}")


class _MemoryRows:
    """The rows of the tables stored_<table>, as SQL."""

    mixed = False

    def has(self, table: str) -> bool:
        return True

    def select(self, table: str) -> str:
        return f"select *, null::varchar as filename from stored_{table}"


@dataclass
class MemoryStore:
    """A store of few rows, replaced from test to test; to define its macros takes longer than most queries do."""

    con: duckdb.DuckDBPyConnection = field(default_factory=session.open_duckdb)
    _filled: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for table in schema.TABLES:
            columns = ", ".join(f'"{column.name}" {column.duckdb}' for column in table.columns)
            self.con.execute(f"create table stored_{table.name} ({columns})")
        texts = session.render_session(_MemoryRows(), session.render_library(Path()))
        session.run_statements(self.con, *texts.views)
        session.create_library(self.con, texts)
        execution.plan_for_few_rows(self.con)
        self.con.execute("set enable_progress_bar = false").fetchall()

    def filled(self, tables: Mapping[str, Rows]) -> Self:
        """Replace all rows by those that `build_store` would write."""
        computed_tables.forget(self.con)
        for name in self._filled:
            self.con.execute(f"truncate stored_{name}")
        rows, sources = complete_rows(tables)
        stamp = {"schema_version": schema.SCHEMA_VERSION}
        rows["sources"] = [row | stamp for row in sources.values()]
        for name, listed in rows.items():
            arrow = schema.BY_NAME[name].rows(listed)
            self.con.register("arrow_rows", arrow)
            self.con.execute(f"insert into stored_{name} by name from arrow_rows")
        self._filled = set(rows)
        return self

    def run_query(self, query: spec.Query, params: Mapping[str, spec.Value]) -> pa.Table:
        """Run a query of the library, as `Lab` does."""
        return execute.run(self.con, query, params)

    def read_relations(
        self, computation: computations.Computation, values: Mapping[str, spec.Value]
    ) -> dict[str, pa.Table]:
        """Return the rows that a computation is given."""
        read = {}
        for name, sql in computation.relations.items():
            computed_tables.provide(self.con, sql, values)
            used = set(re.findall(r"\$(\w+)", sql)) & values.keys()
            read[name] = execution.fetch_table(self.con, sql, {param: values[param] for param in used})
        return read

    def query(self, name: str, *, like: str | None = None, **params: spec.Value) -> pa.Table:
        """Run a query of the library by its name, as `Lab` does."""
        return self.run_query(library.find(name, like), params)
