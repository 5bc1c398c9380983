"""Run analysts' SQL in a sandbox: one SELECT at a time, with access to the store only.

Two layers. The connection is locked: no file outside the store, no extension, no change of settings. A locked DuckDB
still writes *inside* its allowed folders, so every text is parsed first. A SELECT passes only if its parse-tree
nodes and table functions are on lists of harmless ones.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from tracelab.errors import UsageError
from tracelab.store import execution, integrity, session, shared_relations

if TYPE_CHECKING:
    from tracelab.store.alignment import Alignment
    from tracelab.store.scope.row_mask import RowMask

_ONE_SELECT = "the sandbox runs exactly one SELECT (or EXPLAIN of one)"

_QUERY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
"""Parse-tree nodes that only read. DuckDB types `with x as (copy … to …) select …` as a SELECT; its nodes differ."""

_TABLE_FUNCTIONS = {
    *("generate_series", "range", "repeat", "repeat_row", "unnest", "json_each", "json_tree", "query_table", "summary"),
    *("glob", "read_parquet", "parquet_scan", "parquet_metadata", "parquet_file_metadata", "parquet_schema"),
    *("read_csv", "read_csv_auto", "read_json", "read_json_auto", "read_ndjson", "read_ndjson_auto", "read_text"),
    *("duckdb_columns", "duckdb_functions", "duckdb_settings", "duckdb_tables", "duckdb_types", "duckdb_views"),
    *("pragma_table_info", "pragma_version", "pg_timezone_names"),
}
"""DuckDB's table functions that only read. `query` and `json_execute_serialized_sql` run SQL from a string, the
latter even COPY; others switch on logs and profiles, or reach Python and external resources."""

_COMMENT = duckdb.token_type.comment


_CATALOG_WORDS = re.compile(
    r"\b(?:show|describe|summarize|(?:information_schema|sqlite_|duckdb_|pragma_|pg_)\w*)\b"
    r"|(?:^|[(;\n]|\*/)\s*desc\b|\bdesc\s+(?!(?:nulls|limit|offset|union|except|intersect)\b)[\w\"(]",
    re.IGNORECASE,
)
"""DESC is one where it begins a statement or names what it describes, and not where it ends a key of `order by`."""


def reads_catalog(text: str) -> bool:
    """Return whether a statement may list tables, columns or macros: its answer depends on all that a session has."""
    return bool(_CATALOG_WORDS.search(text))


@contextmanager
def connect(
    store: Path,
    *,
    memory_limit: str | None = None,
    alignment: "Alignment | None" = None,
    mask: "RowMask | None" = None,
    referenced: str | None = None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a locked session over the store, and close it at the end. Raises UsageError for a wrong memory limit.

    With `referenced`, the session has the tables and macros that this SQL names, without comments, in a quarter of
    the time.
    """
    execution.check_memory_limit(memory_limit)
    names = None if referenced is None else referenced.lower()
    with session.connect(store, comments=names is None, referenced=names, alignment=alignment, mask=mask) as con:
        execution.plan_for_any_rows(con)
        execution.limit_memory(con, memory_limit)
        _lock_down(con, store)
        with integrity.explain_read_errors(store):
            yield con


def _lock_down(con: duckdb.DuckDBPyConnection, store: Path) -> None:
    root = store.resolve().as_posix()
    pattern = re.sub(r"([*?\[])", r"[\1]", root)  # as in the views: DuckDB compares spelling
    settings: tuple[tuple[str, object], ...] = (
        ("enable_progress_bar", False),  # DuckDB draws it on stdout, among the data
        ("allow_persistent_secrets", False),
        ("autoinstall_known_extensions", False),
        ("autoload_known_extensions", False),
        ("allow_community_extensions", False),
        ("python_enable_replacements", False),  # a name in SQL must not reach a Python variable
        ("allowed_directories", sorted({root, pattern})),
        ("enable_external_access", False),
        ("lock_configuration", True),  # last: nothing can be set after it
    )
    for name, value in settings:
        con.execute(f"set {name} = ?", [value]).fetchall()


@contextmanager
def stream(
    con: duckdb.DuckDBPyConnection,
    text: str,
    values: Mapping[str, object] | None = None,
    *,
    timeout_s: float | None = None,
) -> Iterator[pa.RecordBatchReader]:
    """Check one SELECT, bind its `$name` parameters to `values`, and yield a reader of its rows.

    Raises UsageError for anything but a SELECT; TracelabError for a failing one, also while its rows are read.
    """
    statement = check(con, text)
    parameters = next(iter(con.extract_statements(statement))).named_parameters
    if missing := sorted(parameters - set(values or {})):
        names = ", ".join(f"${name}" for name in missing)
        raise UsageError(f"no values for the parameters {names}; write the values into the statement")
    params = dict(values) if values and parameters else None

    def start() -> execution.Answer:
        provide_computed(con, text)
        return execution.start_relation(con.sql(statement, params=params))

    with execution.stream(con, start, timeout_s) as rows:
        yield rows


def provide_computed(con: duckdb.DuckDBPyConnection, text: str) -> None:
    """Compute the computed tables that a checked text names."""
    if shared_relations.names_computed(text):
        from tracelab.store import computed_tables

        computed_tables.provide(con, text)


def run(con: duckdb.DuckDBPyConnection, text: str, values: Mapping[str, object] | None = None) -> pa.Table:
    """Check and run one SELECT as `stream` does, and return all its rows."""
    with stream(con, text, values) as rows:
        return rows.read_all()


def check(con: duckdb.DuckDBPyConnection, text: str) -> str:
    """Return the text if it is one SELECT, or EXPLAIN of one, that only reads. Raises UsageError otherwise."""
    if not _is_unicode(text):
        raise UsageError("the statement is not valid UTF-8; re-save it as UTF-8")
    kind = statement_kind(con, text)
    selects = [text]
    if kind == "EXPLAIN":  # EXPLAIN ANALYZE executes its statement of any kind
        selects = [inner for inner in _explained_statements(text) if _parses(con, inner)]
        kind = next(
            (statement_kind(con, inner) for inner in selects if statement_kind(con, inner) != "SELECT"), "SELECT"
        )
    if kind == "MULTI":
        raise UsageError(f"{_ONE_SELECT}; PIVOT without values runs several: write pivot … on column in (…)")
    if kind != "SELECT" or not selects:
        raise UsageError(f"refusing {kind}: {_ONE_SELECT}")
    with con.cursor() as clean:  # a cursor has no temporary macros, which could replace the functions of the check
        for select in selects:
            _check_select(clean, select)
    return text


def statement_kind(con: duckdb.DuckDBPyConnection, text: str) -> str:
    """Return DuckDB's name for the kind of the text's only statement. Raises UsageError for none or several."""
    try:
        kinds = [statement.type.name for statement in con.extract_statements(text)]
    except duckdb.Error as error:
        raise UsageError(str(error)) from error
    except ValueError as error:  # 2.0.0 parses statements that its Python enum lacks (UPDATE EXTENSIONS)
        raise UsageError(f"refusing a statement of unknown kind: {_ONE_SELECT}") from error
    if not kinds:
        raise UsageError(f"no statement: {_ONE_SELECT}")
    if len(kinds) > 1:
        raise UsageError(f"{len(kinds)} statements: {_ONE_SELECT}")
    return str(kinds[0])


def _is_unicode(text: str) -> bool:
    """Return whether the text has no surrogates, Python's form of undecodable bytes."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _parses(con: duckdb.DuckDBPyConnection, text: str) -> bool:
    try:
        return bool(con.extract_statements(text))
    except duckdb.Error:
        return False


def _explained_statements(text: str) -> list[str]:
    """Return every text that may be the explained statement: after EXPLAIN, after `analyze`, and after each `)`.

    The caller checks all of them that parse, so that DuckDB's grammar need not be repeated here.
    """
    tokens = tokenize(text)
    rests = [tokens[0][1]]
    second = tokens[1][0] if len(tokens) > 1 else ""
    if second in {"analyze", "analyse"}:
        rests.append(tokens[1][1])
    if second == "(":
        rests.extend(rest for word, rest in tokens if word == ")")
    return rests


def tokenize(text: str) -> list[tuple[str, str]]:
    """Split a statement into DuckDB's tokens without comments: (token in lower case, text after it)."""
    raw = text.encode()
    tokens = duckdb.tokenize(text)  # (first byte, type)
    ends = [*(start for start, _ in tokens[1:]), len(raw)]
    spans = [(start, end) for (start, kind), end in zip(tokens, ends, strict=True) if kind != _COMMENT]
    return [(raw[start:end].decode().strip().lower(), raw[end:].decode()) for start, end in spans]


def _check_select(con: duckdb.DuckDBPyConnection, text: str) -> None:
    """Raise UsageError if the SELECT contains a node that writes or a table function not known to only read."""
    refused = _refused_functions()
    for node in _walk_nodes(_parse_tree(con, text)):
        kind, function = str(node.get("type")), str(node.get("function_name")).lower()
        if kind.endswith("_NODE") and kind not in _QUERY_NODES:
            raise UsageError(f"refusing {kind.removesuffix('_NODE').replace('_QUERY', '')}: {_ONE_SELECT}")
        if function in refused:
            raise UsageError(
                f"refusing the function {function}(): it is not on the sandbox's list of functions that only read"
            )


@cache
def _refused_functions() -> frozenset[str]:
    """Return DuckDB's table functions that are not known to only read."""
    with session.open_duckdb() as con:
        functions = con.execute(
            "select function_name from duckdb_functions() where function_type in ('table', 'pragma') and internal"
        ).fetchall()
    return frozenset(str(name) for (name,) in functions) - _TABLE_FUNCTIONS


def _parse_tree(con: duckdb.DuckDBPyConnection, text: str) -> object:
    """Return DuckDB's parse tree of a SELECT."""
    ((serialized,),) = con.execute("select json_serialize_sql(?::varchar)", [text]).fetchall()
    try:
        tree: dict[str, object] = json.loads(serialized)
    except RecursionError as error:
        raise UsageError("the statement is nested too deeply; use CTEs") from error
    if tree["error"]:
        raise UsageError(f"{tree['error_message']}: {_ONE_SELECT}")
    return tree["statements"]


def _walk_nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Yield every object of the parse tree."""
    pending: list[Any] = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield part
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
