"""`tracelab ingest`: store trace files, and report the outcome for each."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from tracelab.cli import options
from tracelab.foreign_text import escape_path, print_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tracelab.ingest.pipeline import FileResult, Progress, Report
    from tracelab.readers.diagnostics import Diagnostic

_EPILOG = """\b
Examples:
  tracelab ingest traces/
  tracelab ingest 'runs/*/rank*.json.gz' --run mordred --store lab
  tracelab ingest job.tar.gz s3://bucket/traces/
  tracelab ingest /shared/job --cluster slurm:8
"""
_MAX_DIAGNOSTICS = 20
_LARGE_BYTES = 32 << 20
_KEPT_BYTES = 256 << 20
"""Memory that one file frees for the next ones; to take it from the system again takes a tenth of the time."""
_RANK_ASSUMED, _NO_EVENTS = "rank_assumed", "no_events"
_NOT_EVENTS = ("runs", "diagnostics")
"""Tables that the line of a run leaves out."""
_STATUS_WORDS = {
    "stored": "stored",
    _NO_EVENTS: "without events",
    "salvaged": "stored in part",
    "unchanged": "in the store already",
    "not_profiler_data": "no profiler data",
    "failed": "failed",
}


@click.command(epilog=_EPILOG, params=[options.STORE])
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option("--run", metavar="NAME", help="Name of the run that all these files belong to.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Files read at a time.  [default: one a core]")
@click.option(
    "--cluster",
    metavar="SPEC",
    help="Read the files on a Dask cluster: local:N, slurm:N, or a scheduler's address. Needs tracelab[cluster].",
)
@click.option(
    "--match/--no-match",
    default=True,
    show_default=True,
    help="Match the ranks of large new runs, else the first query that needs it does.",
)
@click.option("--replace", is_flag=True, help="Store files again that are in the store already.")
@click.option("-q", "--quiet", is_flag=True, help="Print problems only.")
def command(  # noqa: PLR0913  one for each option of the command
    paths: tuple[str, ...],
    store: Path | None,
    *,
    run: str | None,
    jobs: int | None,
    cluster: str | None,
    match: bool,
    replace: bool,
    quiet: bool,
) -> None:
    """Store trace files, so that you can query them.

    PATH is a file, a folder (everything in it), a pattern, a tar or zip archive, or a URL (s3://, gs://, az://, https://,
    file://). Files in one folder that are ranks of one job become one
    run; so do the cycles that torch.profiler's trace handler writes. Where several run folders have the same name, as
    those of a sweep on two machines, a part of the path is added to the names of the later ones. Ingest is idempotent
    and never modifies traces.
    """
    _start_hashing(paths)
    if len(paths) > 1 or not all(map(os.path.isfile, paths)):
        from tracelab.allocator import keep_freed_memory

        keep_freed_memory(_KEPT_BYTES)
    # This pool returns pages less eagerly than Arrow's own, so that fewer page faults occur;
    # pa.set_memory_pool would not reach the writer of Parquet.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

    from tracelab.ingest.pipeline import ingest
    from tracelab.store.files import store_address

    _finish_killed_runs(paths)
    with progress_bar(visible=sys.stderr.isatty() and not quiet) as progress:
        report = ingest(
            paths,
            store_address(store),
            run=run,
            jobs=jobs,
            replace=replace,
            progress=progress,
            cluster=cluster,
            match=match,
            announce=None if quiet else partial(print_lines, err=True),
        )
    for line in _render_report(report, problems_only=quiet):
        print_lines(line, err=True)
    if report.exit_code:
        raise click.exceptions.Exit(report.exit_code)


def _finish_killed_runs(paths: tuple[str, ...]) -> None:
    """Write the status of runs whose processes were killed, before their folders are read."""
    if all(map(os.path.isfile, paths)):
        return
    from tracelab.collect.folder_lock import find_locks

    if locks := find_locks(paths):
        from tracelab.collect.killed_run import finish_killed_runs

        for line in finish_killed_runs(locks):
            print_lines(line, err=True)


def _start_hashing(paths: tuple[str, ...]) -> None:
    """Start to hash a single large file while everything else is still being imported."""
    from pathlib import Path

    from tracelab.ingest.discovery import start_hashing

    path = Path(paths[0])
    with contextlib.suppress(OSError):  # reported where the path is read
        if len(paths) == 1 and path.is_file() and path.stat().st_size > _LARGE_BYTES:
            start_hashing(path)


@contextlib.contextmanager
def progress_bar(*, visible: bool) -> Iterator[Progress | None]:
    """Show a progress bar over the bytes of all files."""
    if not visible:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("ingest"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("ingest", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _render_report(report: Report, *, problems_only: bool) -> Iterator[str]:
    """Return the lines about an ingest: run after run, then problems and totals."""
    if problems_only:
        yield from _repair_lines(report.files)
        yield from (
            f"{escape_path(item.path)}: salvaged; {item.message}" for item in report.files if item.status == "salvaged"
        )
        yield from _refusal_lines(report)
        return
    if report.leftovers_removed:
        yield f"Removed {report.leftovers_removed:,} leftover files of an ingest that was killed."
    by_run: dict[str, list[FileResult]] = {}
    for result in report.files:
        if result.run and result.status in ("stored", "salvaged", "unchanged"):
            by_run.setdefault(result.run, []).append(result)
    for run, results in by_run.items():
        yield _run_line(run, results)
        yield from _repair_lines(results)
        yield from _diagnostic_lines(results)
        if run in report.matched_runs:
            yield "  matched the ranks, for queries across ranks"
    yield from _rank_lines(report)
    yield from _folder_lines(report)
    yield from _refusal_lines(report)
    yield _total_line(report)


def _repair_lines(results: Iterable[FileResult]) -> Iterator[str]:
    """Return a line for each damaged file of the store that was written again."""
    for result in results:
        yield from (f"  repaired: {problem}; stored {_file_name(result)} again" for problem in result.repaired)


def _refusal_lines(report: Report) -> Iterator[str]:
    """Return a line for each file that was not stored; for many without profiler data only their number."""
    others = [item for item in report.files if item.status == "not_profiler_data"]
    many = len(others) > _MAX_DIAGNOSTICS
    for item in report.files:
        if item.status == "failed" or (item.status == "not_profiler_data" and not many):
            yield item.message
    if many:
        yield f"{sum(item.files for item in others):,} files hold nothing that tracelab reads."


def _run_line(run: str, results: list[FileResult]) -> str:
    rows: dict[str, int] = {}
    for result in results:
        for table, count in result.rows.items():
            rows[table] = rows.get(table, 0) + count
    files = f"{len(results):,} files" if len(results) > 1 else _file_name(results[0])
    if all(result.status == "unchanged" for result in results):
        return f"{run}: already in the store ({files})"
    counts = sorted(((table, count) for table, count in rows.items() if table not in _NOT_EVENTS), key=lambda c: -c[1])
    return f"{run}: {files}; " + (", ".join(_count_rows(table, count) for table, count in counts) or "no events")


def _count_rows(table: str, count: int) -> str:
    """Return the rows of a table in words; those of `steps` are not all steps that a program took."""
    return f"{count:,} rows of steps" if table == "steps" else f"{count:,} {table}"


def _diagnostic_lines(results: list[FileResult]) -> Iterator[str]:
    """Return a line for each diagnostic code; several files share one line."""
    by_code: dict[tuple[str, str], list[tuple[FileResult, Diagnostic]]] = {}
    for result in results:
        for diagnostic in result.diagnostics:
            if diagnostic.code == _RANK_ASSUMED:
                continue
            by_code.setdefault((diagnostic.severity, diagnostic.code), []).append((result, diagnostic))
    for (severity, _), occurrences in list(by_code.items())[:_MAX_DIAGNOSTICS]:
        first_result, first = occurrences[0]
        more = _count_more(occurrences)
        name = f"{_file_name(first_result)}: " if len(results) > 1 else ""
        fix = f" {first.how_to_fix}" if first.how_to_fix else ""
        end = "" if first.message.endswith((".", "!", "?")) else "."
        yield f"  {severity}: {name}{first.message}{end}{fix}{more}"


def _rank_lines(report: Report) -> Iterator[str]:
    """Return one line about assumed ranks for all files; for programs of a single process the assumption is right."""
    assumed = [
        (result, diagnostic)
        for result in report.files
        for diagnostic in result.diagnostics
        if diagnostic.code == _RANK_ASSUMED
    ]
    files = len({result.path for result, _ in assumed})
    if files == 1:
        result, diagnostic = assumed[0]
        yield f"info: {_file_name(result)}: {diagnostic.message} {diagnostic.how_to_fix or ''}".rstrip()
    elif files:
        fix = assumed[0][1].how_to_fix or ""
        yield f"info: no rank in {files:,} files or their names; assuming 0 for each. {fix}".rstrip()


def _count_more(occurrences: list[tuple[FileResult, Diagnostic]]) -> str:
    """Return how many more files have this diagnostic, or how many more of its kind one file has."""
    files = len({result.path for result, _ in occurrences})
    if files > 1:
        return f" (and {files - 1:,} files more)"
    return f" (and {len(occurrences) - 1:,} messages more like it)" if len(occurrences) > 1 else ""


def _folder_lines(report: Report) -> Iterator[str]:
    """Return a line for each folder whose files became several runs; the line of a run counts the files of one."""
    folders: dict[Path, list[str]] = {}
    for result in report.files:
        if result.run and result.status in ("stored", "salvaged"):
            folders.setdefault(result.path.parent, []).append(result.run)
    for folder, runs in folders.items():
        if (count := len(set(runs))) > 1:
            files = f"{escape_path(folder)}: {len(runs):,} files"
            yield f"{files}, {count:,} runs, because not all are ranks recorded together"


def _file_name(result: FileResult) -> str:
    from pathlib import Path

    return escape_path(Path(result.path.name))


def _total_line(report: Report) -> str:
    kept = sum(result.events_kept for result in report.files)
    skipped = sum(result.events_skipped for result in report.files)
    counts = dict.fromkeys(_STATUS_WORDS, 0)
    for result in report.files:
        is_empty = result.status == "stored" and any(each.code == _NO_EVENTS for each in result.diagnostics)
        counts[_NO_EVENTS if is_empty else result.status] += result.files
    files = ", ".join(f"{count:,} {_STATUS_WORDS[status]}" for status, count in counts.items() if count)
    at_least = "at least " if any(result.status == "salvaged" for result in report.files) else ""
    lost = f", {at_least}{skipped:,} skipped" if skipped else ", none skipped"
    events = "event" if kept == 1 else "events"
    return f"{files or 'no files'}: {kept:,} {events} kept{lost}"
