"""State and printing of one interactive shell."""

import os
import shutil
import sys
from collections.abc import Callable

import click
import duckdb
import pyarrow as pa

from tracelab.foreign_text import print_lines
from tracelab.output.text_table import table_lines

DEFAULT_MAX_ROWS = 500


class Shell:
    """One interactive session: a connection, the row limit, and printing to the terminal.

    `on_create` runs after each CREATE TEMP, so that completion sees the new name.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, on_create: Callable[[], None] = lambda: None) -> None:
        self.con = con
        self.max_rows = DEFAULT_MAX_ROWS
        self.on_create = on_create

    def print_text(self, text: str) -> None:
        """Print text, through a pager if it is taller than the terminal."""
        lines = text.splitlines()
        if sys.stdout.isatty() and len(lines) >= shutil.get_terminal_size().lines:
            os.environ.setdefault("LESS", "-RFX")  # keep the text on the screen; quit at once if it fits
            click.echo_via_pager(text + "\n")
        else:
            click.echo(text)

    def print_table(self, table: pa.Table, *, has_more: bool = False) -> None:
        """Print a result at the terminal's width, then the number of rows. `has_more`: the query has further rows."""
        printed = table.slice(0, self.max_rows)
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self.print_text("\n".join(table_lines(printed, width=shutil.get_terminal_size().columns, color=color)))
        if has_more or printed.num_rows < table.num_rows:
            total = "more" if has_more else f"{table.num_rows:,}"
            summary = (
                f"{printed.num_rows:,} of {total} rows; .rows N changes the limit, "
                '`tracelab sql "…" -o FILE` writes all rows'
            )
        else:
            summary = f"{table.num_rows:,} row{'s' * (table.num_rows != 1)}"
        print_lines(f"({summary})", err=True)
