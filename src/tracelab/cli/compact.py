"""`tracelab compact`: make few large files of many small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tracelab.cli import options
from tracelab.errors import UsageError
from tracelab.foreign_text import print_lines

if TYPE_CHECKING:
    from pathlib import Path

_EPILOG = """\b
Examples:
  tracelab compact
  tracelab compact --run main --store s3://bucket/lab
  tracelab compact --precompute
"""


@click.command(epilog=_EPILOG, params=[options.STORE])
@click.option("--run", metavar="NAME", help="Only this run.")
@click.option(
    "--precompute",
    is_flag=True,
    help="Compute now what queries would compute when they first ask about a run, and what the store then keeps.",
)
def command(store: Path | str | None, run: str | None, *, precompute: bool) -> None:
    """Make few large files of the many small ones that many ingests left, and fold the log of the store.

    Each run then has one file a table, sorted by rank and time; traces whose files take over 64 MB keep their own.
    Readers and writers go on meanwhile; the small files are deleted at the end, and a command that still reads them
    then asks you to run it again. Ingesting a trace again does nothing, as before.

    The store keeps sums that queries compute: of large runs (50,000 rows of GPU activity, ops or API calls, or more)
    those of most queries, and of all runs the rollups that queries over many runs read. --precompute computes all of
    them now, which takes some 20 seconds for each million kernels, and 0.1 seconds for each small run.
    A store at a URL keeps rollups alone, which the first query that reads them computes.
    """
    from tracelab.cli.drop import list_runs
    from tracelab.query.execute import check_run
    from tracelab.store.compaction import compact
    from tracelab.store.files import store_address

    address = store_address(store)
    if precompute and isinstance(address, str):
        problem = "is at a URL, which keeps no sums, and rollups as queries compute them"
        raise UsageError(f"--precompute: the store {address} {problem}; leave the option out")
    stored = list_runs(address)
    if run is not None:
        check_run(stored, run)
    compacted = compact(address, run)
    for each in compacted:
        print_lines(f"{each.run}: {each.files_before:,} files became {each.files:,}", err=True)
    if not compacted:
        print_lines("nothing to compact", err=True)
    if precompute and not isinstance(address, str):
        _precompute(address, run)


def _precompute(store: Path, run: str | None) -> None:
    from tracelab.query.precomputation import precompute, precompute_rollups

    is_any_large = False
    for each in precompute(store, run):
        is_any_large = True
        print_lines(f"{each.run}: {len(each.queries):,} queries have been answered", err=True)
        for query, problem in each.failures.items():
            print_lines(f"{each.run}: {query}: {problem}", err=True)
    if not is_any_large:
        print_lines("no run has 50,000 rows of GPU activity, ops or API calls: no sums are kept", err=True)
    if run is None:
        runs = precompute_rollups(store)
        have = "1 run has" if runs == 1 else f"{runs:,} runs have"
        print_lines(f"{have} rollups, which queries over many runs read", err=True)
