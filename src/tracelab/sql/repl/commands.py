"""Dot commands of the shell: name, usage, help and the function that runs each."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass

import duckdb

from tracelab import schema, table_lookup
from tracelab.errors import UsageError, suggest_name
from tracelab.foreign_text import escape_controls
from tracelab.output.help_text import format_definitions
from tracelab.query import execute, library, spec
from tracelab.sql import sandbox
from tracelab.sql.repl.shell import Shell
from tracelab.store import execution


@dataclass(frozen=True)
class Command:
    """One command: its arguments, its help, and the function that receives the shell and the rest of the line."""

    arguments: str
    help: str
    run: Callable[[Shell, str], None]


def run_command(shell: Shell, line: str) -> None:
    """Run a line that begins with a dot. Raises UsageError for an unknown command."""
    name, _, rest = line.strip().rstrip(";")[1:].partition(" ")
    name = {"exit": "quit", "q": "quit", "h": "help"}.get(name, name)
    if name not in COMMANDS:
        raise UsageError(suggest_name("command", f".{name}", [f".{known}" for known in COMMANDS]))
    COMMANDS[name].run(shell, rest.strip())


def _help(shell: Shell, _rest: str) -> None:
    rows = [(f".{name} {command.arguments}".rstrip(), command.help) for name, command in COMMANDS.items()]
    shell.print_text(
        "A statement ends with a semicolon: a SELECT, an EXPLAIN of one, or CREATE TEMP TABLE, VIEW or MACRO.\n"
        "Tab completes, Ctrl-C clears the line or stops the statement, Ctrl-D leaves.\n\n" + format_definitions(rows)
    )


def _tables(shell: Shell, _rest: str) -> None:
    counts = " union all ".join(
        f"select {place} as place, '{table.name}' as name, count(*) as rows from {table.name}"
        for place, table in enumerate(schema.TABLES)
    )
    counted = shell.con.execute(f"select name, rows from ({counts}) order by place").fetchall()
    rows = [(name, f"{count:>13,}", schema.BY_NAME[name].row) for name, count in counted]
    rows += [
        (escape_controls(name), " " * 13, escape_controls(comment))
        for name, comment in list_relations(shell.con)
        if name not in schema.BY_NAME
    ]
    shell.print_text(format_definitions(rows))


def list_relations(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """Return the views and temporary tables that a statement can name, with a description each."""
    rows = con.execute(
        "select view_name, coalesce(comment, 'temporary view') from duckdb_views() "
        "where not internal and schema_name <> 'computed' "
        "union all select table_name, 'temporary table' from duckdb_tables() "
        "where schema_name not in ('computed', 'scope') "
        "order by all"
    ).fetchall()
    return [(str(name), str(comment)) for name, comment in rows]


def _schema(shell: Shell, rest: str) -> None:
    name = rest.strip('"')
    if not name:
        tables = table_lookup.describe_tables().to_pylist()
        shell.print_text(format_definitions([tuple(row.values()) for row in tables]))
        return
    columns = shell.con.execute(
        "select column_name, lower(data_type), coalesce(comment, '') from duckdb_columns() "
        "where not internal and lower(table_name) = lower($1) order by column_index",
        [name],
    ).fetchall()
    if not columns:
        known = shell.con.execute("select distinct table_name from duckdb_columns() where not internal").fetchall()
        raise UsageError(suggest_name("table", name, [str(each) for (each,) in known]))
    if name.lower() in {*schema.BY_NAME, *table_lookup.COMPUTED_TABLES}:
        shell.print_text(f"{name.lower()}: a row is {table_lookup.find_table(name.lower()).row}.\n")
    shell.print_text(format_definitions([tuple(escape_controls(str(cell)) for cell in column) for column in columns]))


def _queries(shell: Shell, _rest: str) -> None:
    shell.print_text(format_definitions([(name, library.title_with_tools(name)) for name in library.library()]))


def _query(shell: Shell, rest: str) -> None:
    try:
        name, *words = shlex.split(rest) or [""]
    except ValueError as error:
        raise UsageError(f".query {rest}: unclosed quote") from error
    if not name:
        raise UsageError(".query takes a NAME; .queries lists them")
    values = _parse_options(name, words)
    like = values.pop("like", None)
    query = library.find(name, None if like is None else str(like))
    if not library.is_shipped(query):
        sandbox.check(shell.con, query.sql)
    with execution.stream(shell.con, lambda: execute.start(shell.con, query, values), shell.timeout_s) as rows:
        shell.print_rows(rows)


def _parse_options(name: str, words: list[str]) -> dict[str, spec.Value]:
    """Parse options as on the command line: --top 5, or --top=5."""
    values: dict[str, spec.Value] = {}
    remaining = iter(words)
    for word in remaining:
        option, equals, value = word.partition("=")
        if not option.startswith("--"):
            raise UsageError(f"{name}: {word!r} is not an option; write --name value")
        given = value if equals else next(remaining, None)
        if given is None:
            raise UsageError(f"{name}: {option} needs a value")
        values[option[2:].replace("-", "_")] = given
    return values


def _rows(shell: Shell, rest: str) -> None:
    if rest and not (rest.isdecimal() and int(rest)):
        raise UsageError(f".rows takes a whole number above 0, not {rest!r}")
    if rest:
        shell.max_rows = int(rest)
    shell.print_text(f"At most {shell.max_rows:,} rows of a result are printed.")


def _quit(_shell: Shell, _rest: str) -> None:
    raise EOFError


COMMANDS = {
    "help": Command("", "Print this help.", _help),
    "tables": Command("", "List tables and views: row count, and what a row is.", _tables),
    "schema": Command("[TABLE]", "List the tables, or TABLE's columns with types and meanings.", _schema),
    "queries": Command("", "List the queries of the library.", _queries),
    "query": Command("NAME [--option value]…", "Run a query of the library.", _query),
    "rows": Command("[N]", "Print the row limit of results; N changes it.", _rows),
    "quit": Command("", "Leave (also: Ctrl-D).", _quit),
}
"""Commands by name."""
