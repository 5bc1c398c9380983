"""`tracelab report`: write a store, or some of its runs, as one HTML file."""

import sys
import webbrowser
from pathlib import Path
from typing import Any

import click

from tracelab.cli import options
from tracelab.cli.output import check_writable, write_text
from tracelab.cli.query import take_scope
from tracelab.errors import UsageError
from tracelab.foreign_text import print_lines

_EPILOG = """\b
Examples:
  tracelab report
  tracelab report --run before --run after -o both.html
  tracelab report --open --force
  tracelab report --steps 10-20 -o steps.html
"""
_DEFAULT = Path("report.html")


@click.command(epilog=_EPILOG, params=[options.STORE, options.RUNS, options.ALIGNED, *options.SCOPE, options.WHOLE])
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    default=_DEFAULT,
    show_default=True,
    metavar="FILE",
    help="The file to write; - is stdout.",
)
@click.option(
    "--all-findings",
    is_flag=True,
    help="Show all findings that cost at least 1 % of the run, also those within the thresholds of their rules.",
)
@click.option("--open", "open_browser", is_flag=True, help="Open it in the browser.")
@click.option("--force", is_flag=True, help="Overwrite a file that exists.")
def command(
    store: Path | None,
    runs: tuple[str, ...],
    output: Path,
    *,
    all_findings: bool,
    open_browser: bool,
    force: bool,
    aligned: bool,
    **scope: Any,  # noqa: ANN401  options have all types
) -> None:
    """Write the store as one HTML file: summary, findings, charts, tables, definitions and SQL.

    Where `collect run` recorded the start of a program, only what follows its first step counts; --whole includes all.

    The file loads and sends nothing: it opens from disk, and can be mailed or archived.

    """
    to_stdout = str(output) == "-"
    if to_stdout and open_browser:
        raise UsageError("--open needs a file; omit -o -")
    if not to_stdout:
        check_writable(output, force=force)

    from tracelab.report.document import report
    from tracelab.store.session import open_store

    page = report(open_store(store), runs, aligned=aligned, all_findings=all_findings, scope=take_scope(scope))
    if to_stdout:
        sys.stdout.flush()
        sys.stdout.buffer.write(page.encode())
        return
    write_text(output, page, force=force)
    if open_browser and not webbrowser.open(output.resolve().as_uri()):
        print_lines("No browser could be started; open the file yourself.", err=True)
