"""`tracelab schema`: print tables and columns."""

from pathlib import Path

import click

from tracelab.cli import options
from tracelab.cli.output import Output
from tracelab.foreign_text import print_lines
from tracelab.output.help_text import format_definitions

_EPILOG = """\b
Examples:
  tracelab schema
  tracelab schema kernels
  tracelab schema memcpys --format json
"""


@click.command(epilog=_EPILOG, params=[*options.OUTPUT])
@click.argument("table", required=False)
def command(table: str | None, fmt: str | None, output: Path | None, *, force: bool) -> None:
    """Print the tables with what a row is, or TABLE's columns with their types and meanings."""
    from tracelab import table_lookup

    answer = Output.of(fmt, output, force=force)
    rows = table_lookup.describe_tables(table)
    if answer.fmt == "table" and answer.path is None:
        if table is not None:
            print_lines(f"{table}: a row is {table_lookup.find_table(table).row}.\n")
        print_lines(format_definitions([list(row.values()) for row in rows.to_pylist()]))
    else:
        answer.emit(rows)
