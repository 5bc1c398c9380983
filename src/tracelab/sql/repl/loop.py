"""The read-execute-print loop of `tracelab sql`."""

import re
from collections.abc import Callable
from pathlib import Path

from tracelab.errors import TracelabError, is_interrupt
from tracelab.foreign_text import print_lines
from tracelab.sql import sandbox, temp_objects
from tracelab.sql.repl.commands import run_command
from tracelab.sql.repl.shell import Shell
from tracelab.sql.repl.statements import split_statements
from tracelab.store import integrity


def run_shell(shell: Shell, store: Path, read: Callable[[], str]) -> None:
    """Execute the inputs that `read` returns until it, or a command, raises EOFError."""
    while True:
        try:
            execute_input(shell, store, read())
        except KeyboardInterrupt:  # while typing: the line is cleared
            continue
        except EOFError:
            return


def execute_input(shell: Shell, store: Path, text: str) -> None:
    """Execute one input: a dot command or SQL statements. Prints errors; raises EOFError to leave."""
    try:
        with integrity.explain_read_errors(store):
            _dispatch(shell, text.strip())
    except TracelabError as error:
        print_lines(_format_error(str(error)), err=True)
    except (KeyboardInterrupt, RuntimeError) as error:
        if not is_interrupt(error):
            raise
        print_lines("interrupted", err=True)


def _dispatch(shell: Shell, text: str) -> None:
    if text.startswith("."):
        run_command(shell, text)
        return
    for statement in split_statements(shell.con, text) if text.strip("; \n") else ():
        _run_statement(shell, statement)


def _run_statement(shell: Shell, statement: str) -> None:
    if sandbox.statement_kind(shell.con, statement) == "CREATE":
        created = temp_objects.create(shell.con, statement, shell.timeout_s)
        shell.on_create()
        print_lines(f"({created.kind} {created.name} exists until you leave)", err=True)
        return
    with sandbox.stream(shell.con, statement, timeout_s=shell.timeout_s) as rows:
        shell.print_rows(rows)


def _format_error(message: str) -> str:
    """Return DuckDB's message in one line, without its copy of the statement, which is visible right above."""
    summary = re.split(r"\n+LINE \d+:", message)[0]
    return "tracelab: " + " ".join(summary.split())
