"""Connections to DuckDB for the queries that are asked of every piece of a trace, kept from file to file."""

import contextlib
from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

_MOST_BOUND = 256


class Connection:
    """Binds each query once, however often it is asked: that takes as long as to load some thousand events."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._con = connection
        self._bound: dict[str, duckdb.DuckDBPyRelation] = {}
        self._registered: set[str] = set()

    def register(self, name: str, rows: pa.Table) -> None:
        """Give a table a name that queries can use."""
        self._con.register(name, rows)
        self._registered.add(name)

    def unregister(self, name: str) -> None:
        """Let a table go."""
        self._con.unregister(name)
        self._registered.discard(name)

    def arrow(self, query: str) -> pa.Table:
        """The answer to a query, in one piece if it is no longer than a piece of a trace."""
        bound = self._bound.get(query)
        if bound is None:
            bound = self._con.sql(query)
            assert bound is not None  # noqa: S101 - a query always has a result; the stub speaks of statements
            if len(self._bound) == _MOST_BOUND:
                self._bound.clear()
            self._bound[query] = bound
        table: pa.Table = bound.to_arrow_table()
        return table

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The answer to a query of a few rows."""
        return self._con.execute(query).fetchall()

    def let_go(self) -> None:
        """Let all tables go; the queries stay bound."""
        for name in list(self._registered):
            self.unregister(name)

    def close(self) -> None:
        """End the connection."""
        self._bound.clear()
        self._con.close()


_kept: deque[Connection] = deque()


@contextlib.contextmanager
def connection() -> Iterator[Connection]:
    """A connection while a file is read, which goes on to the next file: most queries of two files are the same."""
    try:
        taken = _kept.pop()
    except IndexError:
        taken = Connection(_engine().cursor())
    try:
        yield taken
    except BaseException:
        taken.close()
        raise
    taken.let_go()
    _kept.append(taken)


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory whose queries each run on the thread that asks."""
    return duckdb.connect(
        config={
            "threads": 1,
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )
