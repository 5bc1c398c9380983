"""`tracelab sql`: run one SELECT in the sandbox, or start the interactive shell."""

import sys
from pathlib import Path

import click

from tracelab.cli import options
from tracelab.cli.output import Output
from tracelab.errors import UsageError
from tracelab.foreign_text import escape_path, print_exact, print_lines

_EPILOG = """\b
Examples:
  tracelab sql
  tracelab sql "select name, count(*) from kernels group by all order by 2 desc"
  echo "from runs" | tracelab sql - --format json
  (tracelab sql --init; cat mine.sql) | duckdb
"""


@click.command(epilog=_EPILOG, params=[options.STORE, *options.OUTPUT])
@click.argument("statement", required=False)
@click.option("--init", is_flag=True, help="Print the SQL that gives any DuckDB client the same views and macros.")
def command(
    statement: str | None, store: Path | None, fmt: str | None, output: Path | None, *, init: bool, force: bool
) -> None:
    """Run one SELECT over the store; STATEMENT `-` reads it from stdin. Without arguments, start a shell.

    The statement sees the tables of `tracelab schema` and the macros of the query library. It runs in a sandbox: one
    SELECT (or EXPLAIN of one), no file outside the store, no network, no extensions, no settings.
    """
    from tracelab.schema import store_path
    from tracelab.sql import sandbox
    from tracelab.store import session

    if init:
        if statement is not None:
            raise UsageError("--init takes no statement")
        print_exact(session.init_sql(store_path(store)))
        return
    if statement is None and sys.stdin.isatty() and sys.stdout.isatty():
        if fmt or output:
            raise UsageError('--format and -o need a statement: tracelab sql "select …" -o FILE')
        _start_shell(store_path(store))
        return
    text, destination = _read_statement(statement), Output.of(fmt, output, force=force)
    with sandbox.connect(store_path(store)) as con:
        destination.emit(sandbox.run(con, text))


def _start_shell(store: Path) -> None:
    from tracelab import __version__
    from tracelab.sql import sandbox
    from tracelab.sql.repl import Shell, run_shell, terminal

    with sandbox.connect(store) as con:
        prompt, names = terminal.create_prompt(con, terminal.open_history())
        print_lines(f"tracelab {__version__}, the store {escape_path(store)}; .help lists the commands", err=True)
        run_shell(Shell(con, names.refresh), store, prompt.prompt)


def _read_statement(statement: str | None) -> str:
    if statement not in {None, "-"}:
        return str(statement)
    if statement is None and sys.stdin.isatty():
        raise UsageError('no statement; write tracelab sql "select …", or - to read it from stdin')
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin is not valid UTF-8 at byte {error.start}") from error
    if not text.strip():
        raise UsageError('no statement on stdin; write tracelab sql "select …"')
    return text
