"""The session: a store as DuckDB views and macros, from one SQL text that serves tracelab and any other client."""

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import duckdb

from tracelab import schema
from tracelab.errors import NoDataError, StoreError
from tracelab.store import integrity, kernel_classes, macros

_SETTINGS = """\
-- Of one run among many DuckDB expects few rows, and would join in time by comparing each row with each.
set global asof_loop_join_threshold = 0;"""


def connect(store: Path, *, comments: bool = False, asked: str | None = None) -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB that shows the store, by the text of `init_sql`.

    Only who may look up the columns needs `comments`: they are a third of the time that it takes. Where all that will
    be asked is known, the views and macros that this SQL does not need are left out, which are the other two.
    """
    con = bare_connection()
    with integrity.explain_read_errors(store):
        for text in _texts(con, store, comments=comments, asked=asked):
            run_text(con, text)
    return con


def init_sql(store: Path) -> str:
    """The SQL that gives any DuckDB client the views, comments and macros of this store, as it stands now.

    Rows that are committed later show up by themselves; a table that had no file yet needs the text anew.
    """
    with integrity.explain_read_errors(store), bare_connection() as con:
        return "\n\n".join(_texts(con, store, comments=True, asked=None)) + "\n"


def _texts(con: duckdb.DuckDBPyConnection, store: Path, *, comments: bool, asked: str | None) -> list[str]:
    root = store.resolve()
    mixed = _schema_versions(con, root, store) != {schema.SCHEMA_VERSION}
    library: Sequence[str] = (kernel_classes.render_rules(kernel_classes.load_rules(root)), *macros.shipped_files())
    return session_texts(ParquetRows(root, mixed=mixed), library, comments=comments, asked=asked)


def run_text(con: duckdb.DuckDBPyConnection, text: str) -> None:
    """Run the statements of a text of `session_texts`."""
    for statement in _parsed(text):
        con.execute(statement)


@lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[duckdb.Statement, ...]:
    """Parse a text once per process: most texts are the same for every store, and parsing is a third of their cost."""
    return tuple(duckdb.extract_statements(text))


def bare_connection() -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB that loads no extension by itself."""
    return duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            # made when it is needed; the default is .tmp where the user happens to stand
            "temp_directory": str(Path(tempfile.gettempdir()) / f"tracelab-{os.getpid()}"),
        },
    )


def _schema_versions(con: duckdb.DuckDBPyConnection, root: Path, store: Path) -> set[str]:
    """The schema versions in the store; raises when there are no sources, or those of another major version."""
    if not integrity.has_files(root, "sources"):
        problem = "holds no ingested trace" if root.is_dir() else "does not exist"
        raise NoDataError(f"the store {store} {problem}; run `tracelab ingest PATH --store {store}` first")
    rows = con.execute(f"select distinct schema_version from {ParquetRows(root).files('sources')}").fetchall()
    versions = {str(version) for (version,) in rows}
    for version in sorted(versions):
        if version.split(".")[0] != schema.SCHEMA_VERSION.split(".")[0]:
            raise StoreError(
                f"{store}: written with schema {version}, this tracelab has {schema.SCHEMA_VERSION}; "
                "re-ingest the traces into a new store"
            )
    return versions


@dataclass(frozen=True)
class ParquetRows:
    """The rows of a store's Parquet files, as SQL. `mixed`: the files have several schema versions."""

    root: Path
    mixed: bool = False

    def has(self, table: str) -> bool:
        """Return whether the table has a file."""
        return integrity.has_files(self.root, table)

    def select(self, table: str) -> str:
        """Select all columns of all files, and `filename`."""
        return f"select *, filename from {self.files(table, ', union_by_name = true' if self.mixed else '')}"

    def files(self, table: str, options: str = "") -> str:
        """Read the files of a table."""
        # Hive partitions win over the column of the file, and without a type a run named 2024-01-05 would be a date.
        types = "hive_partitioning = true, hive_types = {'run': 'varchar'}"
        return f"read_parquet({self._glob(table)}, {types}{options})"

    def committed(self, table: str) -> str:
        """Filter out what an interrupted ingest left.

        The row in `sources` is the file sources/<run>/<source>.parquet, so names of files decide and no row is
        compared: on 10 million kernels in 300 sources this costs 12 ms, a semi join on (run, source) 75 ms.
        """
        if table == "sources":
            return ""
        ours, theirs = (_text(f"{self.root.as_posix()}/{name}/run=") for name in (table, "sources"))
        return f"\nwhere filename in (select replace(file, {theirs}, {ours}) from glob({self._glob('sources')}))"

    def _glob(self, table: str) -> str:
        escaped = "".join(f"[{char}]" if char in "*?[" else char for char in self.root.as_posix())
        return _text(f"{escaped}/{table}/run=*/*.parquet")


class StoredRows(Protocol):
    """Where the rows of the tables are."""

    def has(self, table: str) -> bool:
        """Return whether there may be rows of the table."""

    def select(self, table: str) -> str:
        """Select all stored columns of a table, and `filename`."""

    def committed(self, table: str) -> str:
        """Filter on `filename` that keeps the rows of committed sources."""


def session_texts(
    stored: StoredRows, library: Sequence[str], *, comments: bool = False, asked: str | None = None
) -> list[str]:
    """Return the SQL of a session in pieces: settings, a view for each table, comments, and the library.

    With `asked`, the views and macros that this SQL does not need are left out.
    """
    tables: Sequence[schema.Table] = schema.TABLES
    if asked is not None:
        library = [macros.required_definitions(library, asked)]
        named = macros.words(asked, *library)
        tables = [table for table in tables if table.name in named]
    views = [_view(stored, table) for table in tables]
    documented = [_comments(table) for table in tables] if comments else []
    return [_SETTINGS, *views, *documented, *library]


def _view(stored: StoredRows, table: schema.Table) -> str:
    rows = _runs(stored) if table.name == "runs" else _rows(stored, table)
    return f"create or replace view {table.name} as\n{rows};"


def _comments(table: schema.Table) -> str:
    columns = (
        f'comment on column {table.name}."{column.name}" is {_text(column.doc)};' for column in table.view_columns
    )
    return "\n".join([f"comment on view {table.name} is {_text(table.row)};", *columns])


def _rows(stored: StoredRows, table: schema.Table) -> str:
    if not stored.has(table.name):
        return f"select {_nulls(table.view_columns)} where false"
    columns = ", ".join(
        "try(start_ns + dur_ns) as end_ns" if column.name == "end_ns" else f'"{column.name}"'
        for column in table.view_columns
    )
    return f"select {columns}\nfrom {_typed(stored, table)}{stored.committed(table.name)}"


def _runs(stored: StoredRows) -> str:
    """One row a run: of each column the first value that any of its sources has, run.json's before the others'.

    The others stand in the order of their names.
    """
    table = schema.BY_NAME["runs"]
    order = "committed.format <> 'run', described.source"
    firsts = ",\n  ".join(
        f'any_value(described."{column.name}" order by {order}) as "{column.name}"'
        for column in table.columns
        if column.name not in {"run", "source"}
    )
    return (
        f"select\n  committed.run,\n  coalesce(min(described.source), min(committed.source)) as source,\n  {firsts}\n"
        f"from ({stored.select('sources')}) as committed\n"
        f"left join {_typed(stored, table)} as described using (run, source)\ngroup by committed.run"
    )


def _typed(stored: StoredRows, table: schema.Table) -> str:
    """Select what is stored in the schema's types: a table without files is empty, a column they lack is NULL."""
    empty = f"select {_nulls(table.columns)}, null::varchar as filename where false"
    if not stored.has(table.name):
        return f"({empty})"
    return f"(\n  {empty}\n  union all by name {stored.select(table.name)}\n)"


def _nulls(columns: Iterable[schema.Column]) -> str:
    return ", ".join(f'null::{column.duckdb} as "{column.name}"' for column in columns)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
