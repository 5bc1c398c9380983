"""A study recorded anew: its sweep is run, and what it wrote goes into the store."""

import importlib.util
from pathlib import Path

import click

from tracelab.errors import TracelabError
from tracelab.ingest import pipeline


def record(sweep: str, out: Path, fixed: tuple[str, ...]) -> None:
    """Run every cell of the sweep that is still to be run; cells that fail are results, and told."""
    if importlib.util.find_spec("torch") is None:
        raise TracelabError(
            f"{sweep} is recorded with torch, which is not installed; run `pip install 'tracelab[collect]'`, or see "
            "`tracelab study show ROW --example`"
        )
    from tracelab.cli.collect_sweep import command

    words = [sweep, "--out", str(out), *(word for each in fixed for word in ("--fixed", each))]
    with command.make_context("sweep", words) as ctx:
        try:
            command.invoke(ctx)
        except click.exceptions.Exit as stopped:
            if stopped.exit_code > 1:  # interrupted; 1 says that cells failed, which the rows tell
                raise


def store(folder: Path, place: Path) -> None:
    """Ingest the sweep's folder."""
    report = pipeline.ingest([folder], place)
    refused = [result.message for result in report.files if result.status == "failed"]
    for message in refused:
        click.echo(message, err=True)
    kept = sum(result.status in ("stored", "salvaged", "unchanged") for result in report.files)
    click.echo(f"{folder}: {kept:,} files in {place}", err=True)
