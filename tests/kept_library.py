"""Create the rules and macros of full sessions as copies: to define them takes DuckDB ten times as long."""

from collections.abc import Sequence
from pathlib import Path

import duckdb

from tracelab import schema
from tracelab.store import session


class KeptLibraries:
    """Libraries of sessions, each defined once in a database of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._define = session.create_library
        self._files: dict[tuple[str, ...], Path] = {}

    def create(self, con: duckdb.DuckDBPyConnection, library: Sequence[str]) -> None:
        """Copy a library into a session; one for a few queries is defined there, which is fast."""
        if len(library) == 1:
            self._define(con, library)
            return
        texts = tuple(library)
        if texts not in self._files:
            self._files[texts] = self._keep(texts)
        con.execute(f"attach {session.sql_literal(str(self._files[texts]))} as kept (read_only)")
        con.execute("copy from database kept to memory (schema)")
        con.execute("detach kept")

    def _keep(self, library: tuple[str, ...]) -> Path:
        path = self._folder / f"library{len(self._files)}.duckdb"
        with duckdb.connect(str(path)) as con:
            session.run_statements(con, *session.render_session(_NoRows(), library).views)
            tables = con.execute("select view_name from duckdb_views() where not internal").fetchall()
            self._define(con, library)
            for (name,) in tables:  # each session has its own
                con.execute(f"drop view {name}")
        return path


class _NoRows:
    """The rows of an empty store, as SQL."""

    mixed = False

    def has(self, table: str) -> bool:
        return False

    def select(self, table: str) -> str:
        columns = schema.BY_NAME[table].columns
        return f"select {', '.join(f'null::{each.duckdb} as {each.name}' for each in columns)} where false"
