"""`tracelab drop`: remove runs from the store."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import click

from tracelab.cli import options
from tracelab.errors import UsageError
from tracelab.foreign_text import print_lines

if TYPE_CHECKING:
    from pathlib import Path

_EPILOG = """\b
Examples:
  tracelab drop --run main
  tracelab drop --run 'nightly-*' --dry-run
  tracelab drop --older-than 90d --dry-run
"""
_UNITS_S = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


@click.command(epilog=_EPILOG, params=[options.STORE])
@click.option("--run", "names", metavar="NAME", multiple=True, help="Remove this run, or those of a shell pattern.")
@click.option("--older-than", metavar="AGE", help="Remove runs whose last ingest is older: 12h, 90d or 4w.")
@click.option("--dry-run", is_flag=True, help="List what would be removed; remove nothing.")
def command(store: Path | str | None, *, names: tuple[str, ...], older_than: str | None, dry_run: bool) -> None:
    """Remove runs from the store, in one commit. Their traces stay, and can be ingested again.

    It takes --run or --older-than, not both, and lists the runs that it removes. Quote a pattern, such as 'nightly-*',
    and look at what --dry-run lists first.
    """
    if bool(names) == (older_than is not None):
        raise UsageError("name what to remove: --run NAME or --older-than AGE, one of the two")
    before_s = None if older_than is None else time.time() - parse_age_s(older_than)
    from tracelab.query.execute import expand_runs
    from tracelab.store import compaction
    from tracelab.store.files import store_address

    address = store_address(store)
    stored = list_runs(address)
    wanted = frozenset(expand_runs(stored, names, "--run")) if names else None
    runs = compaction.list_runs(address, wanted, before_s) if dry_run else compaction.drop(address, wanted, before_s)
    for each in runs:
        day = time.strftime("%Y-%m-%d", time.gmtime(each.ingested_at_s))
        size = f"{each.files:,} files, {each.size_bytes / 1e6:,.1f} MB"
        sources = "1 source" if each.sources == 1 else f"{each.sources:,} sources"
        print_lines(f"{each.run}: {sources}, {size}, ingested {day}", err=True)
    total = "1 run" if len(runs) == 1 else f"{len(runs):,} runs"
    print_lines(f"{total} would be removed" if dry_run else f"removed {total}", err=True)


def list_runs(address: Path | str) -> list[str]:
    """Return the runs of a store, by name. Raises NoDataError for an empty store."""
    from tracelab.store.commit import Store
    from tracelab.store.commit_log import check_not_empty

    return sorted(check_not_empty(address, Store(address).snapshot()).runs)


def parse_age_s(text: str) -> float:
    """Return an age in seconds: 90d, 12h or 4w. Raises UsageError for any other text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([hdw])", text)
    if match is None:
        raise UsageError(f"{text!r} is not an age; write 90d, 12h or 4w")
    return float(match[1]) * _UNITS_S[match[2]]
