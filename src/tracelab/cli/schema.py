"""`tracelab schema`: the tables and columns, as schema.py declares them."""

from pathlib import Path

import click

from tracelab.cli import options
from tracelab.cli.output import Output
from tracelab.errors import UsageError, unknown

_EPILOG = """\b
Examples:
  tracelab schema
  tracelab schema kernels
  tracelab schema memcpys --format json
"""


@click.command(epilog=_EPILOG, params=options.output())
@click.argument("table", required=False)
def command(table: str | None, fmt: str | None, output: Path | None, *, force: bool) -> None:
    """Print the tables with what a row is, or TABLE's columns with their types and meanings."""
    import pyarrow as pa

    from tracelab import schema

    answer = Output.of(fmt, output, force=force)
    if table is None:
        rows = [{"table": each.name, "row": each.row} for each in schema.TABLES]
    elif table in schema.BY_NAME:
        columns = schema.BY_NAME[table].view_columns
        rows = [{"column": each.name, "type": each.duckdb, "meaning": each.doc} for each in columns]
    else:
        raise UsageError(unknown("table", table, list(schema.BY_NAME)))
    if answer.fmt == "table" and answer.path is None:
        if table is not None:
            click.echo(f"{table}: a row is {schema.BY_NAME[table].row}.\n")
        click.echo(_definitions(rows))
    else:
        answer.emit(pa.Table.from_pylist(rows))


def _definitions(rows: list[dict[str, str]]) -> str:
    """Names on the left, meanings wrapped on the right: a sentence that is cut is none."""
    formatter = click.HelpFormatter(width=min(click.HelpFormatter().width + 2, 120), max_width=120)
    names = [list(row.values()) for row in rows]
    width = max(len(row[0]) for row in names)
    formatter.write_dl([("  ".join([row[0].ljust(width), *row[1:-1]]).rstrip(), row[-1]) for row in names], col_max=48)
    return formatter.getvalue().rstrip()
