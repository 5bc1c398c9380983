"""`tracelab study record`: run the sweep of a study and ingest its folder."""

import importlib.util
from pathlib import Path

import click

from tracelab.errors import TracelabError
from tracelab.foreign_text import print_lines
from tracelab.ingest import pipeline


def record(sweep: str, out: Path, fixed: tuple[str, ...]) -> None:
    """Run the remaining cells of the sweep; failed cells are results.

    Raises TracelabError if torch is missing.
    """
    if importlib.util.find_spec("torch") is None:
        raise TracelabError(
            f"{sweep} needs torch to be recorded; run `pip install 'tracelab[collect]'`, or see "
            "`tracelab study show ROW --example`"
        )
    from tracelab.cli.collect_sweep import command

    words = [sweep, "--out", str(out), *(word for each in fixed for word in ("--fixed", each))]
    with command.make_context("sweep", words) as ctx:
        try:
            command.invoke(ctx)
        except click.exceptions.Exit as stopped:
            if stopped.exit_code > 1:  # interrupted; 1 means failed cells, which the rows show
                raise


def ingest_sweep(folder: Path, store: Path) -> None:
    """Ingest the sweep's folder."""
    report = pipeline.ingest([folder], store)
    errors = [result.message for result in report.files if result.status == "failed"]
    for message in errors:
        print_lines(message, err=True)
    kept = sum(result.status in ("stored", "salvaged", "unchanged") for result in report.files)
    print_lines(f"{folder}: {kept:,} files in {store}", err=True)
