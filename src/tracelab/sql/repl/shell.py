"""A conversation: a line is read, carried out, its answer shown; nothing but leaving ends it."""

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click
import duckdb
import pyarrow as pa

from tracelab.errors import TracelabError, is_interrupt
from tracelab.output.text_table import table_lines
from tracelab.sql import sandbox, temp_objects
from tracelab.sql.repl import commands
from tracelab.sql.repl.statements import split_statements
from tracelab.store import integrity

MOST_ROWS = 500


class Shell:
    """One session at the prompt: a connection, and how much of an answer is shown."""

    def __init__(self, con: duckdb.DuckDBPyConnection, store: Path, renew: Callable[[], None] = lambda: None) -> None:
        self.con = con
        self.most_rows = MOST_ROWS
        self._store = store
        self._renew = renew

    def hear(self, text: str) -> None:
        """Carry out what was typed; what goes wrong is said in one sentence. Raises EOFError to leave."""
        try:
            with integrity.explain_read_errors(self._store):
                self._carry_out(text.strip())
        except TracelabError as error:
            click.echo(_format_error(str(error)), err=True)
        except (KeyboardInterrupt, RuntimeError) as error:
            if not is_interrupt(error):
                raise
            click.echo("interrupted", err=True)

    def tell(self, text: str) -> None:
        """Print text, through a pager where the terminal is too low for it."""
        lines = text.splitlines()
        if sys.stdout.isatty() and len(lines) >= shutil.get_terminal_size().lines:
            os.environ.setdefault("LESS", "-RFX")  # leave the text on the screen, and quit at once where it fits
            click.echo_via_pager(text + "\n")
        else:
            click.echo(text)

    def show(self, table: pa.Table, *, more: bool = False) -> None:
        """Print an answer to the terminal's width, and say what of it is shown. `more`: there are rows behind these."""
        shown = table.slice(0, self.most_rows)
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self.tell("\n".join(table_lines(shown, width=shutil.get_terminal_size().columns, color=color)))
        if more or shown.num_rows < table.num_rows:
            of = "more" if more else f"{table.num_rows:,}"
            told = f'{shown.num_rows:,} of {of} rows; .rows N shows others, `tracelab sql "…" -o FILE` writes all'
        else:
            told = f"{table.num_rows:,} row{'s' * (table.num_rows != 1)}"
        click.echo(f"({told})", err=True)

    def _carry_out(self, text: str) -> None:
        if text.startswith("."):
            commands.run_command(self, text)
            return
        for statement in split_statements(self.con, text) if text.strip("; \n") else ():
            self._run(statement)

    def _run(self, statement: str) -> None:
        if sandbox.statement_kind(self.con, statement) == "CREATE":
            made = temp_objects.create(self.con, statement)
            self._renew()
            click.echo(f"({made.kind} {made.name} is there until you leave)", err=True)
            return
        table = sandbox.run(self.con, statement, most_rows=self.most_rows + 1)
        self.show(table.slice(0, self.most_rows), more=table.num_rows > self.most_rows)


def run_shell(talk: Shell, read: Callable[[], str]) -> None:
    """Hear what `read` gives until it, or a command, says that there is no more."""
    while True:
        try:
            talk.hear(read())
        except KeyboardInterrupt:  # while a line was typed: it is cleared
            continue
        except EOFError:
            return


def _format_error(message: str) -> str:
    """DuckDB's message without the picture of the statement, which stands right above, in one line."""
    said = re.split(r"\n+LINE \d+:", message)[0]
    return "tracelab: " + " ".join(said.split())
