"""`tracelab ingest`: trace files go into the store, and the user is told what became of each."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

import click

from tracelab.cli import options
from tracelab.errors import escape_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tracelab.ingest.pipeline import FileResult, Progress, Report
    from tracelab.readers.diagnostics import Diagnostic

_EPILOG = """\b
Examples:
  tracelab ingest traces/
  tracelab ingest 'runs/*/rank*.json.gz' --run mordred --store lab
"""
_DIAGNOSTICS_SHOWN = 20
_LARGE_BYTES = 32 << 20


@click.command(epilog=_EPILOG, params=[options.STORE])
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option("--run", metavar="NAME", help="Name of the run that all these files belong to.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Files read at a time.  [default: one a core]")
@click.option("--replace", is_flag=True, help="Store again what is stored already.")
@click.option("-q", "--quiet", is_flag=True, help="Tell only what went wrong.")
def command(
    paths: tuple[str, ...], store: Path | None, run: str | None, jobs: int | None, *, replace: bool, quiet: bool
) -> None:
    """Store trace files, so that they can be asked.

    PATH is a file, a folder (everything in it) or a pattern. Ranks of one job that stand in one folder become one run.
    Of run folders of one name, a sweep's on two machines, say, the later ones are called by a part of their path, too.
    What is stored already is not stored again, and the trace files stay as they are.
    """
    _begin_hashing(paths)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads are not used here, and wait busily
    # This pool gives pages back less eagerly than Arrow's own, so that there is less to fault in anew;
    # pa.set_memory_pool would not reach the writer of Parquet.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

    from tracelab.ingest.pipeline import ingest
    from tracelab.store.commit import store_path

    with progress_bar(shown=sys.stderr.isatty() and not quiet) as progress:
        report = ingest(paths, store_path(store), run=run, jobs=jobs, replace=replace, progress=progress)
    for line in _told(report, problems_only=quiet):
        click.echo(line, err=True)
    if report.exit_code:
        raise click.exceptions.Exit(report.exit_code)


def _begin_hashing(paths: tuple[str, ...]) -> None:
    """Of a single large file, begin while everything else is still being imported."""
    from pathlib import Path

    from tracelab.ingest import hashing

    path = Path(paths[0])
    with contextlib.suppress(OSError):  # what is wrong with the path is told where it is read
        if len(paths) == 1 and path.is_file() and path.stat().st_size > _LARGE_BYTES:
            hashing.begin(path)


@contextlib.contextmanager
def progress_bar(*, shown: bool) -> Iterator[Progress | None]:
    """A progress bar over the bytes of all files."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("ingest"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("ingest", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _told(report: Report, *, problems_only: bool) -> Iterator[str]:
    """What became of the files, a run after the other, and the sum of it."""
    if problems_only:
        yield from (
            f"{escape_path(item.path)}: salvaged; {item.message}" for item in report.files if item.status == "salvaged"
        )
        yield from _refused(report)
        return
    if report.leftovers_removed:
        yield f"Removed {report.leftovers_removed:,} leftover files of an ingest that was killed."
    by_run: dict[str, list[FileResult]] = {}
    for result in report.files:
        if result.run and result.status in ("stored", "salvaged", "unchanged"):
            by_run.setdefault(result.run, []).append(result)
    for run, results in by_run.items():
        yield _run_line(run, results)
        yield from _diagnostic_lines(results)
    yield from _rank_lines(report)
    yield from _folder_lines(report)
    yield from _refused(report)
    yield _sum_line(report)


def _refused(report: Report) -> Iterator[str]:
    """The files that were not stored; of many that are no profiler data only their number."""
    others = [item for item in report.files if item.status == "not_profiler_data"]
    many = len(others) > _DIAGNOSTICS_SHOWN
    for item in report.files:
        if item.status == "failed" or (item.status == "not_profiler_data" and not many):
            yield item.message
    if many:
        yield f"{len(others):,} files hold nothing that tracelab reads."


def _run_line(run: str, results: list[FileResult]) -> str:
    rows: dict[str, int] = {}
    for result in results:
        for table, count in result.rows.items():
            rows[table] = rows.get(table, 0) + count
    files = f"{len(results):,} files" if len(results) > 1 else _name(results[0])
    if all(result.status == "unchanged" for result in results):
        return f"{run}: already in the store ({files})"
    shown = sorted(((table, count) for table, count in rows.items() if table not in _BESIDE), key=lambda item: -item[1])
    return f"{run}: {files}; " + (", ".join(f"{count:,} {table}" for table, count in shown) or "no events")


_BESIDE = ("runs", "diagnostics")


def _diagnostic_lines(results: list[FileResult]) -> Iterator[str]:
    """What the readers noticed; the same of several files is told once."""
    seen: dict[tuple[str, str], list[tuple[FileResult, Diagnostic]]] = {}
    for result in results:
        for diagnostic in result.diagnostics:
            if diagnostic.code == _RANK_ASSUMED:
                continue
            seen.setdefault((diagnostic.severity, diagnostic.code), []).append((result, diagnostic))
    for (severity, _), found in list(seen.items())[:_DIAGNOSTICS_SHOWN]:
        first_result, first = found[0]
        where = _how_many_more(found)
        name = f"{_name(first_result)}: " if len(results) > 1 else ""
        cure = f" {first.how_to_fix}" if first.how_to_fix else ""
        end = "" if first.message.endswith((".", "!", "?")) else "."
        yield f"  {severity}: {name}{first.message}{end}{cure}{where}"


def _rank_lines(report: Report) -> Iterator[str]:
    """That ranks were assumed, once for all files: of programs of a single process it is true anyway."""
    assumed = [
        (result, diagnostic)
        for result in report.files
        for diagnostic in result.diagnostics
        if diagnostic.code == _RANK_ASSUMED
    ]
    files = len({result.path for result, _ in assumed})
    if files == 1:
        result, diagnostic = assumed[0]
        yield f"info: {_name(result)}: {diagnostic.message} {diagnostic.how_to_fix or ''}".rstrip()
    elif files:
        cure = assumed[0][1].how_to_fix or ""
        yield f"info: 0 was assumed as the rank of {files:,} files whose names say none. {cure}".rstrip()


_RANK_ASSUMED = "rank_assumed"


def _how_many_more(found: list[tuple[FileResult, Diagnostic]]) -> str:
    """Beside the first message: how many files say the same, else how many messages like it one file has."""
    files = len({result.path for result, _ in found})
    if files > 1:
        return f" (and {files - 1:,} files more)"
    return f" (and {len(found) - 1:,} messages more like it)" if len(found) > 1 else ""


def _folder_lines(report: Report) -> Iterator[str]:
    """Of every folder with several files: whether they were taken for the ranks of one run."""
    folders: dict[Path, list[str]] = {}
    for result in report.files:
        if result.run and result.status in ("stored", "salvaged"):
            folders.setdefault(result.path.parent, []).append(result.run)
    for folder, runs in folders.items():
        if len(runs) > 1 and len(set(runs)) == 1:
            yield f"{escape_path(folder)}: its {len(runs):,} files are of one run, {runs[0]}"
        elif len(runs) > 1:
            files, count = f"{escape_path(folder)}: its {len(runs):,} files", len(set(runs))
            yield f"{files} are {count:,} runs, for not all are ranks recorded together"


def _name(result: FileResult) -> str:
    from pathlib import Path

    return escape_path(Path(result.path.name))


def _sum_line(report: Report) -> str:
    kept = sum(result.events_kept for result in report.files)
    skipped = sum(result.events_skipped for result in report.files)
    counts = {status: sum(result.status == status for result in report.files) for status in _WORDS}
    files = ", ".join(f"{count:,} {_WORDS[status]}" for status, count in counts.items() if count)
    at_least = "at least " if any(result.status == "salvaged" for result in report.files) else ""
    lost = f", {at_least}{skipped:,} skipped" if skipped else ", none skipped"
    events = "event" if kept == 1 else "events"
    return f"{files or 'no files'}: {kept:,} {events} kept{lost}"


_WORDS = {
    "stored": "stored",
    "salvaged": "stored in part",
    "unchanged": "in the store already",
    "not_profiler_data": "no profiler data",
    "failed": "failed",
}
