"""The box around analysts' SQL: a session that reaches nothing but its store, and runs one SELECT at a time.

Two walls. The connection is locked: no file outside the store, no extension, no change of settings. But a locked DuckDB
still writes *inside* its allowed folders, so every text is parsed first, and only a SELECT that only reads passes: the
nodes of its parse tree and its table functions are held against lists of what is known to be harmless.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tracelab.errors import TracelabError, UsageError
from tracelab.store import integrity, session

_ONE_SELECT = "the box runs exactly one SELECT (or EXPLAIN of one)"

_QUERY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
"""Parse-tree nodes that only read. DuckDB types `with x as (copy … to …) select …` as a SELECT; its node tells."""

_TABLE_FUNCTIONS = {
    *("generate_series", "range", "repeat", "repeat_row", "unnest", "json_each", "json_tree", "query_table", "summary"),
    *("glob", "read_parquet", "parquet_scan", "parquet_metadata", "parquet_file_metadata", "parquet_schema"),
    *("read_csv", "read_csv_auto", "read_json", "read_json_auto", "read_ndjson", "read_ndjson_auto", "read_text"),
    *("duckdb_columns", "duckdb_functions", "duckdb_settings", "duckdb_tables", "duckdb_types", "duckdb_views"),
    *("pragma_table_info", "pragma_version", "pg_timezone_names"),
}
"""DuckDB's table functions that only read. `query` and `json_execute_serialized_sql` run SQL hidden in a text, the
latter even a COPY; others switch on logs and profiles, or talk to Python and to external resources."""

_COMMENT = duckdb.token_type.comment


@contextmanager
def connect(store: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a session over the store and lock it; at the end it is closed and its spill folder removed."""
    with tempfile.TemporaryDirectory(prefix="tracelab-", ignore_cleanup_errors=True) as spill:
        con = session.connect(store, comments=True)
        try:
            _lock_down(con, store, Path(spill))
            with integrity.explain_read_errors(store):
                yield con
        finally:
            con.close()


def _lock_down(con: duckdb.DuckDBPyConnection, store: Path, spill: Path) -> None:
    root = store.resolve().as_posix()
    pattern = re.sub(r"([*?\[])", r"[\1]", root)  # how the views spell it, and DuckDB compares the spelling
    settings: tuple[tuple[str, object], ...] = (
        ("temp_directory", str(spill)),  # its default is ./.tmp, and DuckDB adds it to the allowed folders
        ("enable_progress_bar", False),  # DuckDB draws it on stdout, where the data goes
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


def run(
    con: duckdb.DuckDBPyConnection,
    text: str,
    values: Mapping[str, object] | None = None,
    *,
    most_rows: int | None = None,
) -> pa.Table:
    """Check the text and run it; its `$name` parameters take `values`. Of it the first `most_rows` rows."""
    statement = check(con, text)
    wanted = next(iter(con.extract_statements(statement))).named_parameters
    if missing := sorted(wanted - set(values or {})):
        names = ", ".join(f"${name}" for name in missing)
        raise UsageError(f"the statement has parameters without values: {names}; write the values into the statement")
    with translate_errors():
        params = dict(values) if values and wanted else None
        return run_interruptible(con, lambda: _fetch(con.sql(statement, params=params), most_rows))


def _fetch(relation: duckdb.DuckDBPyRelation, most_rows: int | None) -> pa.Table:
    if most_rows is None:
        whole: pa.Table = relation.to_arrow_table()
        return whole
    batches: list[pa.RecordBatch] = []
    with relation.to_arrow_reader(most_rows) as reader:
        for batch in reader:  # a batch may be any shorter than what was asked for
            batches.append(batch)
            if sum(each.num_rows for each in batches) >= most_rows:
                break
        return pa.Table.from_batches(batches, reader.schema).slice(0, most_rows)


def check(con: duckdb.DuckDBPyConnection, text: str) -> str:
    """Return the text when it is one SELECT, or EXPLAIN of one, that only reads; raise UsageError otherwise."""
    if not _is_unicode(text):
        raise UsageError("the statement holds bytes that are no text in UTF-8")
    kind = statement_kind(con, text)
    selects = [text]
    if kind == "EXPLAIN":  # EXPLAIN ANALYZE executes what it explains, whatever that is
        selects = [inner for inner in _explained_statements(text) if _parses(con, inner)]
        kind = next(
            (statement_kind(con, inner) for inner in selects if statement_kind(con, inner) != "SELECT"), "SELECT"
        )
    if kind == "MULTI":
        raise UsageError(f"{_ONE_SELECT}, and PIVOT without its values is more; name them: pivot … on column in (…)")
    if kind != "SELECT" or not selects:
        raise UsageError(f"{kind} is refused: {_ONE_SELECT}")
    with con.cursor() as apart:  # a cursor has no temporary macros, which could stand in for the functions of the check
        for select in selects:
            _check_select(apart, select)
    return text


def run_interruptible(con: duckdb.DuckDBPyConnection, work: Callable[[], pa.Table]) -> pa.Table:
    """Work on a connection so that Ctrl-C ends it: DuckDB 2.0.0 sees the signal only sometimes by itself."""
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(work)
        try:
            return answer.result()
        except KeyboardInterrupt:
            con.interrupt()
            raise


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn DuckDB's errors into ours: a statement that cannot run is a usage error, a failing one a failure."""
    try:
        yield
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        raise UsageError(_strip_install_hints(error)) from error
    except duckdb.PermissionException as error:
        raise UsageError(f"the box reads the store and nothing else: {_first_line(error)}") from error
    except duckdb.Error as error:
        raise TracelabError(_strip_install_hints(error)) from error


def statement_kind(con: duckdb.DuckDBPyConnection, text: str) -> str:
    """The type of the text's only statement, as DuckDB names it."""
    try:
        kinds = [statement.type.name for statement in con.extract_statements(text)]
    except duckdb.Error as error:
        raise UsageError(str(error)) from error
    except ValueError as error:  # 2.0.0 knows statements that its Python enumeration does not, as UPDATE EXTENSIONS
        raise UsageError(f"a statement that DuckDB's Python client cannot name is refused: {_ONE_SELECT}") from error
    if not kinds:
        raise UsageError(f"there is no statement here: {_ONE_SELECT}")
    if len(kinds) > 1:
        raise UsageError(f"these are {len(kinds)} statements: {_ONE_SELECT}")
    return str(kinds[0])


def _is_unicode(text: str) -> bool:
    """Whether the text is free of surrogates, as which Python hands over bytes that it cannot decode."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _parses(con: duckdb.DuckDBPyConnection, text: str) -> bool:
    try:
        return bool(con.extract_statements(text))
    except duckdb.Error:
        return False


def _explained_statements(text: str) -> list[str]:
    """What may stand behind EXPLAIN: the text behind the word, behind `analyze`, and behind options in parentheses.

    Which of them DuckDB means is its grammar's business; a caller accepts all of them that parse.
    """
    found = tokenize(text)
    behind = [found[0][1]]
    second = found[1][0] if len(found) > 1 else ""
    if second in {"analyze", "analyse"}:
        behind.append(found[1][1])
    if second == "(":
        behind.extend(rest for word, rest in found if word == ")")
    return behind


def tokenize(text: str) -> list[tuple[str, str]]:
    """Every word of a statement as DuckDB splits it, in lower case, with the text behind it; no comments."""
    raw = text.encode()
    tokens = duckdb.tokenize(text)  # (first byte, type)
    ends = [*(start for start, _ in tokens[1:]), len(raw)]
    spans = [(start, end) for (start, kind), end in zip(tokens, ends, strict=True) if kind != _COMMENT]
    return [(raw[start:end].decode().strip().lower(), raw[end:].decode()) for start, end in spans]


def _check_select(con: duckdb.DuckDBPyConnection, text: str) -> None:
    """Raise UsageError when the SELECT holds a node that writes, or a table function not known to only read."""
    functions = con.execute(
        "select distinct function_name from duckdb_functions() where function_type in ('table', 'pragma') and internal"
    ).fetchall()
    refused = {str(name) for (name,) in functions} - _TABLE_FUNCTIONS
    for node in _walk_nodes(_parse_tree(con, text)):
        kind, function = str(node.get("type")), str(node.get("function_name")).lower()
        if kind.endswith("_NODE") and kind not in _QUERY_NODES:
            raise UsageError(f"{kind.removesuffix('_NODE').replace('_QUERY', '')} is refused: {_ONE_SELECT}")
        if function in refused:
            raise UsageError(f"the function {function}() is refused: the box knows no reason to trust it")


def _parse_tree(con: duckdb.DuckDBPyConnection, text: str) -> object:
    """DuckDB's own parse tree of a SELECT."""
    ((written,),) = con.execute("select json_serialize_sql(?::varchar)", [text]).fetchall()
    try:
        tree: dict[str, object] = json.loads(written)
    except RecursionError as error:
        raise UsageError("the statement is nested too deeply to be checked; use CTEs") from error
    if tree["error"]:
        raise UsageError(f"{tree['error_message']}: {_ONE_SELECT}")
    return tree["statements"]


def _walk_nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Every object of the parse tree."""
    waiting: list[Any] = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _strip_install_hints(error: Exception) -> str:
    """What DuckDB says, but for its advice to install an extension or change a setting, which the box refuses."""
    said, *advice = re.split(r"\s*^(?:Please try installing|Alternatively, consider)", str(error), flags=re.MULTILINE)
    return f"{said.strip()} The box loads no extensions." if advice else said.strip()


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
