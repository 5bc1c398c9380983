"""The session: a store as DuckDB views and macros, from one SQL text that serves tracelab and any other client."""

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

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
    con = _bare()
    with integrity.named(store):
        con.execute(_text_of(con, store, comments=comments, asked=asked))
    return con


def init_sql(store: Path) -> str:
    """The SQL that gives any DuckDB client the views, comments and macros of this store, as it stands now.

    Rows that are committed later show up by themselves; a table that had no file yet needs the text anew.
    """
    with integrity.named(store), _bare() as con:
        return _text_of(con, store, comments=True, asked=None)


def _text_of(con: duckdb.DuckDBPyConnection, store: Path, *, comments: bool, asked: str | None) -> str:
    root = store.resolve()
    mixed = _schema_versions(con, root, store) != {schema.SCHEMA_VERSION}
    tables: Sequence[schema.Table] = schema.TABLES
    library: Sequence[str] = (kernel_classes.sql(kernel_classes.rules(root)), *macros.shipped())
    if asked is not None:
        library = [macros.needed(library, asked)]
        named = macros.words(asked, *library)
        tables = [table for table in tables if table.name in named]
    views = [_view(root, table, mixed=mixed) for table in tables]
    said = [_comments(table) for table in tables] if comments else []
    return "\n\n".join([_SETTINGS, *views, *said, *library]) + "\n"


def _bare() -> duckdb.DuckDBPyConnection:
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
    rows = con.execute(f"select distinct schema_version from {_parquet(root, 'sources')}").fetchall()
    versions = {str(version) for (version,) in rows}
    for version in sorted(versions):
        if version.split(".")[0] != schema.SCHEMA_VERSION.split(".")[0]:
            raise StoreError(
                f"{store}: written with schema {version}, this tracelab has {schema.SCHEMA_VERSION}; "
                "re-ingest the traces into a new store"
            )
    return versions


def _view(root: Path, table: schema.Table, *, mixed: bool) -> str:
    """One view. `mixed`: files of several schema versions may stand side by side."""
    rows = _runs(root, mixed=mixed) if table.name == "runs" else _rows(root, table, mixed=mixed)
    return f"create or replace view {table.name} as\n{rows};"


def _comments(table: schema.Table) -> str:
    columns = (
        f'comment on column {table.name}."{column.name}" is {_text(column.doc)};' for column in table.view_columns
    )
    return "\n".join([f"comment on view {table.name} is {_text(table.row)};", *columns])


def _rows(root: Path, table: schema.Table, *, mixed: bool) -> str:
    if not integrity.has_files(root, table.name):
        return f"select {_nulls(table.view_columns)} where false"
    columns = ", ".join(
        "try(start_ns + dur_ns) as end_ns" if column.name == "end_ns" else f'"{column.name}"'
        for column in table.view_columns
    )
    return f"select {columns}\nfrom {_stored(root, table, mixed=mixed)}{_committed(root, table)}"


def _runs(root: Path, *, mixed: bool) -> str:
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
        f"from {_parquet(root, 'sources')} as committed\n"
        f"left join {_stored(root, table, mixed=mixed)} as described using (run, source)\ngroup by committed.run"
    )


def _stored(root: Path, table: schema.Table, *, mixed: bool) -> str:
    """What the files hold, in the schema's types: a table without files is empty, a column they lack is NULL."""
    empty = f"select {_nulls(table.columns)}, null::varchar as filename where false"
    if not integrity.has_files(root, table.name):
        return f"({empty})"
    files = _parquet(root, table.name, ", union_by_name = true" if mixed else "")
    return f"(\n  {empty}\n  union all by name select *, filename from {files}\n)"


def _nulls(columns: Iterable[schema.Column]) -> str:
    return ", ".join(f'null::{column.duckdb} as "{column.name}"' for column in columns)


def _committed(root: Path, table: schema.Table) -> str:
    """The filter that hides what an interrupted ingest left.

    The row in `sources` is the file sources/<run>/<source>.parquet, so names of files decide and no row is compared:
    on 10 million kernels in 300 sources this costs 12 ms, a semi join on (run, source) 75 ms.
    """
    if table.name == "sources":
        return ""
    ours, theirs = (_text(f"{root.as_posix()}/{name}/run=") for name in (table.name, "sources"))
    return f"\nwhere filename in (select replace(file, {theirs}, {ours}) from glob({_glob(root, 'sources')}))"


def _parquet(root: Path, table: str, options: str = "") -> str:
    # Hive partitions win over the column of the file, and without a type a run named 2024-01-05 would be a date.
    return f"read_parquet({_glob(root, table)}, hive_partitioning = true, hive_types = {{'run': 'varchar'}}{options})"


def _glob(root: Path, table: str) -> str:
    escaped = "".join(f"[{char}]" if char in "*?[" else char for char in root.as_posix())
    return _text(f"{escaped}/{table}/run=*/*.parquet")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
