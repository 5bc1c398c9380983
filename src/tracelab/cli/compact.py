"""`tracelab compact`: make few large files of many small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tracelab.cli import options
from tracelab.foreign_text import print_lines

if TYPE_CHECKING:
    from pathlib import Path

_EPILOG = """\b
Examples:
  tracelab compact
  tracelab compact --run main --store s3://bucket/lab
"""


@click.command(epilog=_EPILOG, params=[options.STORE])
@click.option("--run", metavar="NAME", help="Only this run.")
def command(store: Path | str | None, run: str | None) -> None:
    """Make few large files of the many small ones that many ingests left, and fold the log of the store.

    Of the files of a run one a table remains, sorted by rank and time; traces whose files take over 64 MB stay as they
    are. Readers and writers go on meanwhile. Ingesting a trace again does nothing, as before.
    """
    from tracelab.cli.drop import check_run
    from tracelab.schema import store_address
    from tracelab.store.compaction import compact

    address = store_address(store)
    check_run(address, run)
    compacted = compact(address, run)
    for each in compacted:
        print_lines(f"{each.run}: {each.files_before:,} files became {each.files:,}", err=True)
    if not compacted:
        print_lines("nothing to compact", err=True)
