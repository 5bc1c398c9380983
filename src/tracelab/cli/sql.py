"""`tracelab sql`: run one SELECT in the sandbox, or start the interactive shell."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelab.cli import options
from tracelab.cli.output import Output
from tracelab.cli.query import take_scope
from tracelab.errors import UsageError
from tracelab.foreign_text import escape_path, print_exact, print_lines
from tracelab.store.files import find_address, is_copy

if TYPE_CHECKING:
    from tracelab.client import Lab
    from tracelab.store.scope.row_mask import RowMask

_EPILOG = """\b
Examples:
  tracelab sql
  tracelab sql "select name, count(*) from kernels group by all order by 2 desc"
  echo "from runs" | tracelab sql - --format json
  tracelab sql "select count(*) from kernels" --steps 3-5 --within forward
  tracelab sql "from kernels" -o kernels.parquet --memory-limit 2GB --timeout 60
  (tracelab sql --init; cat mine.sql) | duckdb
"""


@click.command(
    epilog=_EPILOG, params=[options.STORE, *options.OUTPUT, options.ALIGNED, *options.SCOPE, *options.LIMITS]
)
@click.argument("statement", required=False)
@click.option("--init", is_flag=True, help="Print the SQL that gives any DuckDB client the same views and macros.")
def command(
    statement: str | None,
    store: Path | None,
    fmt: str | None,
    output: Path | None,
    *,
    init: bool,
    force: bool,
    aligned: bool,
    **others: Any,  # noqa: ANN401  the scope, and the limits: a text and a number
) -> None:
    """Run one SELECT over the store; STATEMENT `-` reads it from stdin. Without arguments, start a shell.

    The statement sees the tables of `tracelab schema` and the macros of the query library. It runs in a sandbox: one
    SELECT (or EXPLAIN of one), no file outside the store, no network, no extensions, no settings. A terminal shows the
    first 500 rows; files and pipes get all rows, streamed in constant memory in every format but table.
    """
    from tracelab.client import Lab
    from tracelab.store.session import open_store

    scope = take_scope(others)
    lab = Lab(open_store(store), **others, aligned=aligned, scope=scope)
    if alignment := lab.alignment():
        lab = replace(lab, aligned=alignment)
        for note in alignment.notes:
            print_lines(note, err=True)
    if init:
        from tracelab.store import session

        if statement is not None:
            raise UsageError("--init takes no statement")
        if is_copy(lab.store):
            problem = "is at a URL, and views would name temporary copies of its files"
            raise UsageError(
                f"--init: the store {find_address(lab.store)} {problem}; copy it to a folder, and name that"
            )
        print_exact(session.init_sql(lab.store, alignment, _choose_rows(lab)))
        return
    if statement is None and sys.stdin.isatty() and sys.stdout.isatty():
        if fmt or output:
            raise UsageError('--format and -o need a statement: tracelab sql "select …" -o FILE')
        _start_shell(lab)
        return
    text, destination = _read_statement(statement), Output.of(fmt, output, force=force)
    with replace(lab, scope=_choose_rows(lab, text)).open_sql(text) as rows:
        destination.emit(rows)


def _choose_rows(lab: "Lab", text: str | None = None) -> "RowMask | None":
    """Choose the rows of the scope, and print what it is."""
    mask = lab.row_mask_of_sql(text)
    if mask is not None:
        print_lines(mask.note, err=True)
    return mask


def _start_shell(lab: "Lab") -> None:
    from tracelab import __version__
    from tracelab.sql import sandbox
    from tracelab.sql.repl import Shell, run_shell, terminal

    with sandbox.connect(
        lab.store, memory_limit=lab.memory_limit, alignment=lab.alignment(), mask=_choose_rows(lab)
    ) as con:
        prompt, names = terminal.create_prompt(con, terminal.open_history())
        print_lines(
            f"tracelab {__version__}, the store {escape_path(find_address(lab.store))}; .help lists the commands",
            err=True,
        )
        run_shell(Shell(con, names.refresh, lab.timeout_s), lab.store, prompt.prompt)


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
