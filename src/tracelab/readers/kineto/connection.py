"""A connection to DuckDB for the queries that are asked of every piece of a trace."""

from typing import Any

import duckdb
import pyarrow as pa


class Connection:
    """Binds each query once, however often it is asked: that takes as long as to load some thousand events."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._con = connection
        self._bound: dict[str, duckdb.DuckDBPyRelation] = {}

    def register(self, name: str, rows: pa.Table) -> None:
        """Give a table a name that queries can use."""
        self._con.register(name, rows)

    def unregister(self, name: str) -> None:
        """Let a table go."""
        self._con.unregister(name)

    def arrow(self, query: str) -> pa.Table:
        """The answer to a query, in one piece if it is no longer than a piece of a trace."""
        bound = self._bound.get(query)
        if bound is None:
            bound = self._con.sql(query)
            assert bound is not None  # noqa: S101 - a query always has a result; the stub speaks of statements
            self._bound[query] = bound
        table: pa.Table = bound.to_arrow_table()
        return table

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The answer to a query of a few rows."""
        return self._con.execute(query).fetchall()
