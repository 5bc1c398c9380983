"""State and printing of one interactive shell."""

import os
import shutil
import sys
from collections.abc import Callable

import click
import duckdb
import pyarrow as pa

from tracelab.foreign_text import print_lines
from tracelab.output.first_rows import take_first
from tracelab.output.text_table import table_lines

DEFAULT_MAX_ROWS = 500

_NO_SHELL_IN_PAGER = {"LESSSECURE": "1", "PAGERSECURE": "1"}
"""Settings of less, and of `more` in util-linux, that turn off their commands that run programs or write files."""


class Shell:
    """One interactive session: a connection, the row limit, and printing to the terminal.

    `on_create` runs after each CREATE TEMP, so that completion sees the new name; `timeout_s` limits each statement.
    """

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        on_create: Callable[[], None] = lambda: None,
        timeout_s: float | None = None,
    ) -> None:
        self.con = con
        self.timeout_s = timeout_s
        self.max_rows = DEFAULT_MAX_ROWS
        self.on_create = on_create

    def print_text(self, text: str) -> None:
        """Print text, through a pager if it is taller than the terminal."""
        lines = text.splitlines()
        if sys.stdout.isatty() and len(lines) >= shutil.get_terminal_size().lines:
            os.environ.setdefault("LESS", "-RFX")  # keep the text on the screen; quit at once if it fits
            os.environ |= _NO_SHELL_IN_PAGER
            click.echo_via_pager(text + "\n")
        else:
            click.echo(text)

    def print_rows(self, rows: pa.RecordBatchReader) -> None:
        """Print the first rows of a result at the terminal's width, then their number."""
        printed, has_more = take_first(rows, self.max_rows)
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self.print_text("\n".join(table_lines(printed, width=shutil.get_terminal_size().columns, color=color)))
        count = f"{printed.num_rows:,} row{'s' * (printed.num_rows != 1)}"
        more = '; .rows N changes the limit, `tracelab sql "…" -o FILE` writes all rows'
        print_lines(f"(the first {count}{more})" if has_more else f"({count})", err=True)
