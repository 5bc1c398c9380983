"""Open a store as DuckDB views and macros, through one SQL text that works in every DuckDB client."""

import hashlib
import os
import re
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import duckdb

from tracelab import schema, table_lookup, temp_folders
from tracelab.resources import QUERIES
from tracelab.store import commit_log, execution, integrity, rules, shared_relations
from tracelab.store.commit_log import Snapshot
from tracelab.store.files import store_address
from tracelab.table_types import Column, ComputedTable, Table

if TYPE_CHECKING:
    from tracelab.store.alignment import Alignment
    from tracelab.store.scope.row_mask import RowMask

MACROS = QUERIES / "lib"
WITHOUT = QUERIES / "without"
"""What replaces macros and views of `MACROS` where a session lacks something: the same rows from a smaller plan.

A file is named after what the session lacks, a scope or a table.
"""

UNSCOPED, LEFT_OUT, AROUND = "unscoped_", "left_out_", "around_"
"""Prefixes of the views of all rows of a table, in a scope or not, and of those that a scope leaves out.

The last one has these, too, of a scope of executions: earlier rows may have launched work in it, which they name.
"""
_BESIDE = {
    UNSCOPED: (
        "api_calls",
        "ops",
        "python_frames",
        "annotations",
        "collectives",
        "memory_events",
        "kernels",
        "memcpys",
        "syncs",
    ),
    LEFT_OUT: (*schema.GPU_ACTIVITY, "syncs", "api_calls", "ops", "python_frames", "annotations"),
    AROUND: ("api_calls", "ops", "python_frames", "annotations"),
}
"""The tables with such a view: what is around the rows of a scope or names them, captures, and what occupies a GPU."""
_PLAIN_STORE, _WHOLE_STORE = "plain_store", "whole_store"
"""Macros, not variables, since cursors of a session have its macros."""
SCOPE = "scope"
"""The schema of what a scope adds to a session."""
RECORDED = f"{SCOPE}.recorded"
"""A macro: the tables of which a scope has chosen rows, be it none."""
MOST_LIBRARIES = 24
"""Libraries in the user's cache: one for each set of rules, and others for each version of tracelab and of DuckDB."""
_DEFINITION = re.compile(r"^create or replace (macro|view) (\w+)", re.MULTILINE)
_COMMENT = re.compile(r"^comment on (?:view|column) (\w+).*$", re.MULTILINE)
_PROSE = re.compile(r"^\s*--.*\n|^comment on .*\n", re.MULTILINE)
_WORD = re.compile(r"\w+")
_CALL = re.compile(r'(\w+)"?\s*\(')
_RELATION = re.compile(r"(?:\b(?:from|join|pivot|unpivot)\s+|')(\w+)")
"""A relation that a definition reads, or whose name it passes on: no column that has the name of a view."""
_SETTINGS = """\
-- For one run among many, DuckDB expects few rows and would run an ASOF join as a nested loop.
set global asof_loop_join_threshold = 0;"""


_PARTITIONS = "hive_partitioning = true, hive_types = {'run': 'varchar'}"
"""Without a type, a run named 2024-01-05 would become a date."""


def connect(  # noqa: PLR0913  one for each choice of a session
    store: Path,
    *,
    comments: bool = False,
    referenced: str | None = None,
    alignment: "Alignment | None" = None,
    runs: Sequence[str] | None = None,
    read_runs: Collection[str] | None = None,
    mask: "RowMask | None" = None,
    numbered: Sequence[str] = (),
) -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB with the views and macros of a store.

    `comments` adds comments on views and columns, a third of the opening time. `referenced` is SQL that covers all
    later queries; views and macros that it does not need are left out, which saves most of the rest. The views move
    the times of ranks by the shifts of `alignment`, and have only the rows of `runs` and of `mask` where these are
    given. `read_runs` are all runs that later queries read: views of tables leave out the files of other runs, which
    need not be opened then, and only the files of these are checked. For each table of `numbered`, a view
    numbered_<table> has its rows with file_row_number and filename. The session shows what the store holds now. Raises
    NoDataError for a store without sources and StoreError for one of another schema version or with damaged files.
    """

    def open_once() -> duckdb.DuckDBPyConnection:
        con = open_duckdb()
        with integrity.explain_read_errors(store):
            snapshot = list_parts(store, runs if read_runs is None else read_runs)
            if snapshot.is_small:
                execution.plan_for_few_rows(con)
            stored = ParquetRows(store.resolve(), snapshot, runs if read_runs is None else read_runs)
            rows, beside = _open_rows(stored, alignment=alignment, runs=runs, mask=mask)
            texts = _session_sql(rows, beside, store, comments=comments, referenced=referenced, mask=mask)
            run_statements(con, *texts.views)
            create_library(con, texts)
            run_statements(con, *texts.window)
            for table in numbered:
                run_statements(con, _create_numbered_view(rows, schema.BY_NAME[table]))
            for macro, its_rows in ((_PLAIN_STORE, rows), (_WHOLE_STORE, beside.get(UNSCOPED, rows))):
                if _is_plain(its_rows):
                    con.execute(f"create macro {macro}() as {sql_literal(str(store.resolve()))}").fetchall()
        return con

    return integrity.repeat_if_changed(open_once)


def plain_store(con: duckdb.DuckDBPyConnection) -> Path | None:
    """Return the store of a session that has all its rows as they are stored; None of any other session."""
    return _find_store(con, _PLAIN_STORE)


def whole_store(con: duckdb.DuckDBPyConnection) -> Path | None:
    """Return the store of a session that has all its rows as they are stored, be it beside those of a scope."""
    return _find_store(con, _WHOLE_STORE)


def _find_store(con: duckdb.DuckDBPyConnection, macro: str) -> Path | None:
    try:
        ((root,),) = con.execute(f"select {macro}()").fetchall()
    except duckdb.CatalogException:
        return None
    return Path(root)


def scoped_tables(con: duckdb.DuckDBPyConnection) -> frozenset[str] | None:
    """Return the tables with rows of which the session has those of a scope; None without a scope."""
    try:
        ((tables,),) = con.execute(f"select {RECORDED}()").fetchall()
    except duckdb.CatalogException:
        return None
    return frozenset(tables)


def _is_plain(rows: "StoredRows") -> bool:
    return isinstance(rows, ParquetRows)


def init_sql(store: Path, alignment: "Alignment | None" = None, mask: "RowMask | None" = None) -> str:
    """Render the SQL that creates the store's views, comments and macros in any DuckDB client.

    The views list the files that are in the store now: render it again after an ingest.
    """
    with integrity.explain_read_errors(store):
        stored = ParquetRows(store.resolve(), list_parts(store))
        rows, beside = _open_rows(stored, alignment=alignment, mask=mask)
        texts = _session_sql(rows, beside, store, comments=True, referenced=None, mask=mask)
    return "\n\n".join((*texts.views, *texts.library, *texts.window)) + "\n"


def _open_rows(
    stored: "ParquetRows",
    *,
    alignment: "Alignment | None",
    runs: Sequence[str] | None = None,
    mask: "RowMask | None",
) -> "tuple[StoredRows, dict[str, StoredRows]]":
    """Return the rows of a session, and those beside a scope by the prefix of their views."""
    if mask is None:
        return _place_rows(stored, alignment, runs), {}
    from tracelab.store.scope.row_mask import LeftOutRows, MaskedRows

    left_out = LeftOutRows(stored, mask)
    beside: dict[str, StoredRows] = {UNSCOPED: stored, LEFT_OUT: left_out}
    if mask.scope.by == "execution":
        beside[AROUND] = left_out
    return (
        _place_rows(MaskedRows(stored, mask), alignment, runs),
        {prefix: _place_rows(rows, alignment, runs) for prefix, rows in beside.items()},
    )


def _place_rows(rows: "StoredRows", alignment: "Alignment | None", runs: Sequence[str] | None) -> "StoredRows":
    """Restrict rows to runs, and move their times to one clock."""
    if runs is not None:
        rows = RowsOfRuns(rows, tuple(runs))
    if alignment is not None:
        from tracelab.store.alignment import AlignedRows

        rows = AlignedRows(rows, alignment)
    return rows


def _session_sql(
    rows: "StoredRows",
    beside: "Mapping[str, StoredRows]",
    store: Path,
    *,
    comments: bool,
    referenced: str | None,
    mask: "RowMask | None",
) -> "SessionSql":
    library = render_library(store.resolve(), absent=_list_absent(rows, mask))
    if mask is not None and referenced is not None:
        scope = [
            sql for each in shared_relations.required_computations(referenced) for sql in each.scope_relations.values()
        ]
        referenced = "\n".join([referenced, *scope])
    texts = render_session(rows, library, beside=beside, comments=comments, referenced=referenced)
    if mask is None:
        return texts
    return replace(texts, views=[mask.render(), *texts.views], window=[mask.render_window()])


def _list_absent(rows: "StoredRows", mask: "RowMask | None") -> list[str]:
    """Return what a session lacks of that for which `WITHOUT` has definitions: a scope, or tables."""
    return [name for name in _list_replaced() if (mask is None if name == SCOPE else not rows.has(name))]


def create_library(con: duckdb.DuckDBPyConnection, texts: "SessionSql") -> None:
    """Create the rules and macros of a session behind its views: a copy of all, else those that it needs."""
    if not _copy_library(con, texts.whole_library):
        run_statements(con, *texts.library)


def _copy_library(con: duckdb.DuckDBPyConnection, library: Sequence[str]) -> bool:
    """Copy a library from the user's cache, and return whether that succeeded: to define it takes ten times as long."""
    digest = hashlib.sha256("\0".join([duckdb.__version__, *library]).encode()).hexdigest()
    try:
        path = _cache_folder() / f"library-{digest[:32]}.duckdb"
        if not path.exists():
            _keep_library(library, path)
        if path.stat().st_uid != os.getuid():
            return False
        con.execute(f"attach {sql_literal(str(path))} as kept (read_only)")
    except (OSError, RuntimeError, duckdb.Error):  # RuntimeError: no home folder
        return False
    try:
        con.execute("copy from database kept to memory (schema)")
    finally:
        con.execute("detach kept")
    return True


def _cache_folder() -> Path:
    """Return the folder for files that tracelab makes anew when they are gone. Raises RuntimeError without a home."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache") / "tracelab"


def _keep_library(library: Sequence[str], path: Path) -> None:
    """Write a library into a file, which appears whole; processes that do so at once write the same."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_suffix(f".{uuid.uuid4().hex}")
    try:
        with duckdb.connect(str(draft)) as con:
            _define_alone(con, library)
        draft.replace(path)
    finally:
        for left in path.parent.glob(f"{draft.name}*"):
            left.unlink(missing_ok=True)
    for old in sorted(path.parent.glob("library-*"), key=lambda each: each.stat().st_mtime)[:-MOST_LIBRARIES]:
        old.unlink(missing_ok=True)


def _define_alone(con: duckdb.DuckDBPyConnection, library: Sequence[str]) -> None:
    """Define a library in an empty database. It refers to views, which each session has of its own."""
    run_statements(con, *render_session(_NoRows(), library).views)
    views = con.execute("select view_name from duckdb_views() where not internal").fetchall()
    run_statements(con, *library)
    for (name,) in views:
        con.execute(f"drop view {name}")


def run_statements(con: duckdb.DuckDBPyConnection, *texts: str) -> None:
    """Run the statements of texts of `render_session`."""
    for text in texts:
        for statement in _parse_statements(text):
            con.execute(statement)


@lru_cache(maxsize=256)
def _parse_statements(text: str) -> tuple[duckdb.Statement, ...]:
    """Parse a text once per process: most texts are the same for every store, and parsing is a third of their cost."""
    return tuple(duckdb.extract_statements(text))


def open_duckdb() -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB that loads no extension by itself."""
    return duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            # Else what a query has freed stays with the process, beside the arrays of a computed table.
            "allocator_background_threads": "true",
            "disabled_optimizers": execution.NEEDLESS_PASSES,
            # Created on demand, one for each connection; the default is .tmp in the current folder.
            "temp_directory": str(temp_folders.new_path("spill")),
        },
    )


def open_store(given: Path | str | None) -> Path:
    """Return the folder of a store: the given one, else $TRACELAB_STORE, else ./lab. One at a URL is copied first."""
    address = store_address(given)
    if isinstance(address, Path):
        return address
    from tracelab.store import remote

    return remote.fetch(address)


def list_parts(store: Path, runs: Collection[str] | None = None) -> Snapshot:
    """Read what a store holds, and check the files of some runs, or all. Raises NoDataError for an empty store."""
    return commit_log.check_not_empty(store, integrity.read_checked_snapshot(store, runs))


@dataclass(frozen=True)
class ParquetRows:
    """The rows of a store's Parquet files, as SQL: those that a snapshot lists.

    With `runs`, a table has the files of these only, where one of them has some; `sources` and `runs` have all.
    """

    root: Path
    snapshot: Snapshot
    runs: Collection[str] | None = None

    @property
    def mixed(self) -> bool:
        """Whether the files have several schema versions."""
        return {part.schema_version for part in self.snapshot.parts.values()} != {schema.SCHEMA_VERSION}

    def has(self, table: str) -> bool:
        """Return whether the table has a file."""
        return any(table in part.tables for part in self.snapshot.parts.values())

    def select(self, table: str) -> str:
        """Select all columns of all files, `filename` and `file_row_number`."""
        if table == "sources":
            return self._select_sources()
        parts = [part for part in self.snapshot.parts.values() if table in part.tables]
        if self.runs is not None and table != "runs":
            parts = [part for part in parts if part.run in self.runs] or parts
        paths = integrity.table_paths(self.root, parts, table)
        return f"select *, filename, file_row_number from {self._read(paths)}"

    def _select_sources(self) -> str:
        """Select the rows of the checkpoint that are still in the store, and of the files since."""
        checkpoint, parts = self.snapshot.checkpoint, self.snapshot.parts
        folded = checkpoint.parts if checkpoint else frozenset()
        texts = []
        if checkpoint and folded & parts.keys():
            removed = ", ".join(sql_literal(name) for _, name in sorted(folded - parts.keys()))
            where = f" where part not in ({removed})" if removed else ""
            rows = self._read([self.root / checkpoint.rows_key], "hive_partitioning = false")
            texts.append(f"select * exclude (part), filename, file_row_number from {rows}{where}")
        since = integrity.table_paths(self.root, (part for key, part in parts.items() if key not in folded), "sources")
        if since:
            texts.append(f"select *, filename, file_row_number from {self._read(since)}")
        return " union all by name ".join(texts)

    def _read(self, paths: Iterable[Path], partitions: str = _PARTITIONS) -> str:
        """Read files, whose names may have characters that patterns have."""
        listed = ", ".join(sql_literal(_escape_pattern(path.as_posix())) for path in paths)
        return f"read_parquet([{listed}], {partitions}{', union_by_name = true' if self.mixed else ''})"


def _escape_pattern(path: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in path)


@dataclass(frozen=True)
class RowsOfRuns:
    """The stored rows of some runs."""

    rows: "StoredRows"
    runs: tuple[str, ...]

    @property
    def mixed(self) -> bool:
        """Whether some rows may lack columns of the schema, or have others."""
        return self.rows.mixed

    def has(self, table: str) -> bool:
        """Return whether there may be rows of the table."""
        return self.rows.has(table)

    def select(self, table: str) -> str:
        """Select all stored columns of these runs, and `filename`."""
        names = ", ".join(map(sql_literal, self.runs)) or "null"
        return f"select * from ({self.rows.select(table)}) where run in ({names})"


class StoredRows(Protocol):
    """Source of the rows of the tables: Parquet files, or tables in memory."""

    @property
    def mixed(self) -> bool:
        """Whether some rows may lack columns of the schema, or have others."""

    def has(self, table: str) -> bool:
        """Return whether there may be rows of the table."""

    def select(self, table: str) -> str:
        """Select all stored columns of a table, and `filename`."""


class _NoRows:
    """The rows of an empty store."""

    mixed = False

    def has(self, table: str) -> bool:  # noqa: ARG002
        return False

    def select(self, table: str) -> str:
        return _select_none(schema.BY_NAME[table])


@dataclass(frozen=True)
class SessionSql:
    """A session as SQL texts, in their order: settings and views; rules and macros; what replaces these in a scope.

    `library` has the rules and macros that the session needs, `whole_library` all of them.
    """

    views: list[str]
    library: list[str]
    whole_library: list[str]
    window: list[str] = field(default_factory=list)


def render_library(root: Path, *, absent: Collection[str] = (SCOPE,)) -> list[str]:
    """Render rules for kernels and process groups, the store's own first, macros, and formulas for ops as SQL texts.

    Of definitions of the same name the last one counts: those of `WITHOUT` for what is `absent`.
    """
    return [
        rules.render_rules(rules.load_rules(root)),
        rules.render_role_rules(rules.load_role_rules(root)),
        *_macro_files(MACROS),
        rules.render_formulas(),
        *(_render_without(name) for name in absent),
    ]


def render_session(
    stored: StoredRows,
    library: Sequence[str],
    *,
    beside: Mapping[str, StoredRows] = MappingProxyType({}),
    comments: bool = False,
    referenced: str | None = None,
) -> SessionSql:
    """Render a session as SQL texts: settings, one view a table, comments, and the macro library.

    With `referenced`, leave out the views and macros that this SQL does not need. `beside` has the rows of a store that
    `stored` lacks in a scope, by the prefix of their views: without one it lacks none, and these are the same rows.
    """
    tables: Sequence[Table] = schema.TABLES
    whole, words = list(library), None
    computed = list(table_lookup.COMPUTED_TABLES.values())
    if referenced is not None:
        computed = [table for each in shared_relations.required_computations(referenced) for table in each.tables]
        library, words = _narrow(library, referenced, has_kept=_is_plain(stored))
        tables = _named_tables(words)
    views = [*(_create_view(stored, table) for table in tables), *map(_create_placeholder, computed)]
    if referenced is None:
        views += shared_relations.render_placeholders()
    for prefix, rows in ({UNSCOPED: stored, LEFT_OUT: None, AROUND: None} | dict(beside)).items():
        views += [
            _create_view(rows, schema.BY_NAME[table], prefix + table)
            for table in _BESIDE[prefix]
            if words is None or prefix + table in words
        ]
    commented: list[Table | ComputedTable] = [*tables, *computed]
    documented = [_create_comments(table) for table in commented] if comments else []
    return SessionSql([_SETTINGS, *views, *documented], list(library), whole)


def referenced_tables(store: Path, referenced: str) -> list[str]:
    """Return the tables of which a session with `referenced` has views."""
    return [table.name for table in _named_tables(_narrow(render_library(store.resolve()), referenced)[1])]


def _named_tables(words: frozenset[str]) -> list[Table]:
    return [table for table in schema.TABLES if {prefix + table.name for prefix in ("", *_BESIDE)} & words]


def _narrow(library: Sequence[str], referenced: str, *, has_kept: bool = False) -> tuple[list[str], frozenset[str]]:
    """Return the definitions that a SQL text needs, with those that its computed tables rest on, and all names in them.

    With `has_kept`, sessions of their own compute the tables that the store keeps: this one needs only `sources`.
    """
    texts = "\n".join([referenced, *_relation_texts(referenced, has_kept=has_kept)])
    if shared_relations.names_computed(texts):
        counted = [shared_relations.ACTIVITY] if shared_relations.names_own(texts) else []
        texts = "\n".join([texts, "sources", *counted, *shared_relations.definitions(texts)])
    required = _required_definitions(library, texts)
    names = frozenset(_WORD.findall(texts)).union(*(each.references for each in required))
    return ["\n\n".join(each.text for each in required)], names


def _relation_texts(referenced: str, *, has_kept: bool) -> list[str]:
    """Return the relations of the computed tables that a text names, and of those that these rest on."""
    texts = []
    for each in shared_relations.required_computations(referenced):
        relations = ["sources"] if each.kept and has_kept else list(each.texts.values())
        texts += [*relations, *_relation_texts("\n".join(relations), has_kept=has_kept)]
    return texts


def _create_view(stored: StoredRows | None, table: Table, name: str | None = None) -> str:
    rows = _select_runs(stored) if stored and table.name == "runs" else _select_rows(stored, table)
    return f"create or replace view {name or table.name} as\n{rows};"


def _create_numbered_view(stored: StoredRows, table: Table) -> str:
    """Create the view of a table in which a row has its place: `file_row_number` of `filename`."""
    rows = _select_rows(stored, table, "filename", "file_row_number")
    return f"create or replace view numbered_{table.name} as\n{rows};"


def _create_placeholder(table: ComputedTable) -> str:
    """Create the view that `computed_tables` replaces where a text names the table; other clients get an error."""
    problem = f"tracelab computes {table.name}: query it with `tracelab sql`, or with Lab.sql in Python"
    return (
        f"create or replace view {table.name} as\n"
        f"select {_null_columns(table.view_columns)} from range(1) where error({sql_literal(problem)});"
    )


def _create_comments(table: Table | ComputedTable) -> str:
    columns = (
        f'comment on column {table.name}."{column.name}" is {sql_literal(column.doc)};' for column in table.view_columns
    )
    return "\n".join([f"comment on view {table.name} is {sql_literal(table.row)};", *columns])


def _select_rows(stored: StoredRows | None, table: Table, *places: str) -> str:
    if stored is None or not stored.has(table.name):
        nulls = "".join(f", null as {place}" for place in places)
        return f"select {_null_columns(table.view_columns)}{nulls} where false"
    columns = ", ".join(
        "try(start_ns + dur_ns) as end_ns" if column.name == "end_ns" else f'"{column.name}"'
        for column in table.view_columns
    )
    return f"select {', '.join([columns, *places])}\nfrom {_select_typed(stored, table)}"


def _select_runs(stored: StoredRows) -> str:
    """Render `runs`, one row a run: the first value of each column over the sources, run.json first, then by name."""
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
        f"left join {_select_typed(stored, table)} as described using (run, source)\ngroup by committed.run"
    )


def _select_typed(stored: StoredRows, table: Table) -> str:
    """Select stored rows in the schema's types: a table without files is empty, a missing column is NULL."""
    if not stored.has(table.name):
        return f"({_select_none(table)})"
    if not stored.mixed:  # files of this version have all columns; a union takes time for each use of the table
        return f"({stored.select(table.name)})"
    return f"(\n  {_select_none(table)}\n  union all by name {stored.select(table.name)}\n)"


def _select_none(table: Table) -> str:
    return f"select {_null_columns(table.columns)}, null::varchar as filename where false"


def _null_columns(columns: Iterable[Column]) -> str:
    return ", ".join(f'null::{column.duckdb} as "{column.name}"' for column in columns)


def sql_literal(value: str) -> str:
    """Return a text as SQL."""
    return "'" + value.replace("'", "''") + "'"


@cache
def _macro_files(folder: Path) -> tuple[str, ...]:
    """Return the SQL of each file of a folder; a file uses only macros of earlier ones."""
    return tuple(path.read_text(encoding="utf-8").strip() for path in sorted(folder.glob("*.sql")))


@cache
def _list_replaced() -> list[str]:
    return sorted(path.stem for path in WITHOUT.glob("*.sql"))


@cache
def _render_without(name: str) -> str:
    """Return the definitions of a session that lacks something, with the comments on the views that they replace."""
    text = WITHOUT.joinpath(f"{name}.sql").read_text(encoding="utf-8").strip()
    replaced = {each.name for each in _split_definitions(text)}
    comments = [match[0] for text in _macro_files(MACROS) for match in _COMMENT.finditer(text) if match[1] in replaced]
    return "\n\n".join([text, *comments])


def _required_definitions(texts: Sequence[str], referenced: str) -> "list[_Definition]":
    """Return the definitions that the SQL `referenced` uses, directly or through others, in order.

    A superset is harmless. Creating all definitions takes DuckDB several times as long as most queries run.
    """
    definitions = {definition.name: definition for text in texts for definition in _split_definitions(text)}
    known = {name: each.references for name, each in definitions.items()}
    calls = set(_CALL.findall(referenced))
    views = {each.name for each in definitions.values() if each.is_view}
    pending: set[str] = (calls | views & set(_WORD.findall(referenced))) & known.keys()
    required: set[str] = set()
    while pending:
        required |= pending
        pending = set().union(*(known[name] for name in pending)) & known.keys() - required
    return [each for each in definitions.values() if each.name in required]


@dataclass(frozen=True)
class _Definition:
    """A view or macro: its SQL without comments, and the names of what it may read or call."""

    name: str
    is_view: bool
    text: str
    references: frozenset[str]


@cache
def _split_definitions(text: str) -> tuple[_Definition, ...]:
    """Split a text into definitions."""
    plain = _PROSE.sub("", text + "\n")
    starts = [match.start() for match in _DEFINITION.finditer(plain)]
    parts = [plain[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
    return tuple(_describe_definition(part) for part in parts)


def _describe_definition(text: str) -> _Definition:
    match = _DEFINITION.match(text)
    assert match is not None  # noqa: S101 - each part starts with one
    kind, name = match.groups()
    return _Definition(name, kind == "view", text, frozenset([*_CALL.findall(text), *_RELATION.findall(text)]))
