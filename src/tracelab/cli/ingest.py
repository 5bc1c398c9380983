"""`tracelab ingest`: trace files go into the store."""

from pathlib import Path

import click

from tracelab.cli import options

_EPILOG = """\b
Examples:
  tracelab ingest traces/
  tracelab ingest 'runs/*/rank*.json.gz' --run mordred --store lab
"""


@click.command(epilog=_EPILOG, params=[options.store()])
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option("--run", metavar="NAME", help="Name of the run; files of several ranks may share one.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes.  [default: one a core]")
@click.option("--replace", is_flag=True, help="Store again what is stored already.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only problems.")
def command(  # noqa: PLR0913  one parameter an option
    paths: tuple[str, ...], store: Path | None, run: str | None, jobs: int | None, *, replace: bool, quiet: bool
) -> None:
    """Store trace files, so that they can be asked. PATH is a file, a folder or a pattern.

    What is stored already is not stored again. The trace files stay as they are.
    """
    from tracelab import ingest
    from tracelab.lab import store_path

    report = ingest.ingest(
        [Path(path) for path in paths], store=store_path(store), run=run, jobs=jobs, replace=replace, progress=None
    )
    if not quiet:
        click.echo(report, err=True)
