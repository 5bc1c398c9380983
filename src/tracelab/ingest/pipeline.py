"""Ingest files: plan what belongs to which run, then read several files at a time and commit them."""

import errno
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import Literal, TypeAlias

import duckdb
import pyarrow as pa

from tracelab import temp_folders
from tracelab.errors import (
    ChangedSourceError,
    NotProfilerDataError,
    ReaderBugError,
    SourceError,
    StoreError,
    TracelabError,
    is_interrupt,
    wants_tracebacks,
)
from tracelab.foreign_text import escape_path
from tracelab.ingest import run_grouping
from tracelab.ingest.batches import BufferedSource, Unit, make_units, read_together
from tracelab.ingest.discovery import (
    Candidate,
    Refused,
    copies_folder,
    discover,
    hash_source,
    name_originals,
    original_path,
    resolve_original,
    stamp_file,
)
from tracelab.ingest.run_grouping import RunAssignment
from tracelab.readers.base import ReadResult, report_crashes
from tracelab.readers.diagnostics import GROUPING_MESSAGES, Diagnostic, DiagnosticCounts, build_diagnostics
from tracelab.run_names import check_run_name
from tracelab.store import commit as stores
from tracelab.store.commit import Row, Staged, Store
from tracelab.store.files import store_address
from tracelab.store.verification import PartCheck, check_part
from tracelab.store.writer import BufferedSink, Sink, write_together

Status = Literal["stored", "salvaged", "unchanged", "not_profiler_data", "failed"]
Progress = Callable[[int, int], None]
"""Called with the bytes read so far and all bytes to read; from any thread."""


_FILE_ERRORS = (NotProfilerDataError, SourceError, OSError, ReaderBugError, duckdb.Error, pa.ArrowException)


@dataclass(frozen=True)
class FileResult:
    """The outcome for one file; `rows` counts the stored rows by table.

    `repaired` describes the damaged files of the store for which the file was stored again.
    """

    path: Path
    status: Status
    run: str | None = None
    source: str | None = None
    format: str | None = None
    events_read: int = 0
    events_kept: int = 0
    events_skipped: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    message: str = ""
    repaired: tuple[str, ...] = ()
    files: int = 1
    """How many files, members of an archive or objects this is about."""


@dataclass(frozen=True)
class Report:
    """The outcome for all files, in the order in which they were found.

    `matched_runs` are those whose ranks were matched ahead of queries.
    """

    files: tuple[FileResult, ...]
    leftovers_removed: int = 0
    matched_runs: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: stored; 1: a file could not be read; 3: no file holds profiler data."""
        statuses = {result.status for result in self.files}
        if "failed" in statuses:
            return 1
        return 3 if statuses <= {"not_profiler_data"} else 0


_DISK_LIMITS = {
    errno.ENOSPC: "its disk is full; free space",
    errno.EDQUOT: "the quota of its disk is used up; free space",
    errno.EFBIG: "a file reached the file size limit; raise it (ulimit -f)",
}


ExecuteAll: TypeAlias = Callable[[Sequence[Unit]], list[FileResult]]
"""Executes all units, and returns the outcome for each file."""


_READS_OF_GROWING = 10
"""How often a file of a run folder is read that grows meanwhile, as the rows of steps do every 0.1 s."""


_LEAST_MATCHED_KERNELS, _MOST_MATCHED_ROWS, _MOST_MATCHED_FILES = 50_000, 10_000_000, 64
"""Limits of a run whose ranks an ingest matches: a smaller one takes the first query less than half a second, and a
larger one an ingest more memory and time than it may."""


class StoppedError(TracelabError):
    """The ingest was stopped; the files that were being read are not visible."""

    exit_code = 130


def ingest(  # noqa: PLR0913  one for each option of the command
    paths: Sequence[str | Path],
    store: Path | str,
    *,
    run: str | None = None,
    jobs: int | None = None,
    replace: bool = False,
    progress: Progress | None = None,
    cluster: str | None = None,
    match: bool = True,
    announce: Callable[[str], None] | None = None,
) -> Report:
    """Store what the files hold. Raises UsageError for a bad run name, StoreError for a store that cannot be used.

    `paths` are files, folders (everything in them) and patterns. `jobs` files are read at a time, by default as many
    as there are processors; a single file is read by all of them. `cluster` is a Dask cluster whose workers read the
    files instead: `local:N`, `slurm:N` or the address of a scheduler. Its workers need the paths that this process has.
    `announce` is called every minute with what is waited for, while no worker is there.

    With `match`, the ranks of new runs of 50,000 kernels or more are matched, which queries across ranks then need not
    do: not those of runs with over ten million rows or 64 files, nor what a cluster ingests or a store at a URL holds.
    """
    if run is not None:
        check_run_name(run)
    if cluster is not None:
        from tracelab.ingest.cluster import check_spec

        check_spec(cluster)

    opened = Store(store_address(store))

    def execute_here(units: Sequence[Unit]) -> list[FileResult]:
        return _execute_here(units, opened, jobs or os.cpu_count() or 1, replace=replace, progress=progress)

    def open_execution(probed: Sequence[Candidate | Refused]) -> AbstractContextManager[ExecuteAll]:
        if cluster is None or not any(isinstance(item, Candidate) for item in probed):
            return nullcontext(execute_here)
        from tracelab.ingest.cluster_execution import connect

        return connect(cluster, opened.address, replace=replace, progress=progress, announce=announce)

    with _explain_store_errors(opened.address):
        report = _ingest(paths, opened, run, open_execution)
    if match and cluster is None and isinstance(opened.address, Path):
        return changed(report, matched_runs=tuple(_match_ranks(report, opened.address)))
    return report


def _ingest(
    paths: Sequence[str | Path],
    store: Store,
    run: str | None,
    open_execution: Callable[[Sequence[Candidate | Refused]], AbstractContextManager[ExecuteAll]],
) -> Report:
    """Plan once, for all files, then execute the plan. What cannot be opened to execute it leaves no store behind."""
    with copies_folder() as create_copies:
        probed = discover(paths, store.address, create_copies)
        with open_execution(probed) as execute_all:
            leftovers = 0
            if isinstance(store.address, Path):
                store.address.mkdir(parents=True, exist_ok=True)
                leftovers = stores.remove_leftovers(store.address)
            results = _ingest_all(probed, store, run, execute_all)
    return Report(tuple(map(_name_result, results)), leftovers)


def _match_ranks(report: Report, store: Path) -> Iterator[str]:
    """Match the ranks of new runs; return those runs. What cannot be matched is left to queries."""
    by_run: dict[str, list[FileResult]] = {}
    for result in report.files:
        if result.run is not None and result.status in ("stored", "salvaged"):
            by_run.setdefault(result.run, []).append(result)
    for run, results in by_run.items():
        kernels = sum(result.rows.get("kernels", 0) for result in results)
        rows = sum(sum(result.rows.values()) for result in results)
        has_size = kernels >= _LEAST_MATCHED_KERNELS and rows <= _MOST_MATCHED_ROWS
        if not has_size or not 1 < len(results) <= _MOST_MATCHED_FILES:
            continue
        from tracelab.store import matching

        try:
            with suppress(TracelabError, OSError, duckdb.Error, pa.ArrowException):
                if matching.match_ranks(store, run, len(results)):
                    yield run
        except (KeyboardInterrupt, RuntimeError) as error:
            if not is_interrupt(error):
                raise
            raise StoppedError("stopped while ranks were matched; all files are stored") from error


def _ingest_all(
    probed: Sequence[Candidate | Refused],
    store: Store,
    run: str | None,
    execute_all: Callable[[Sequence[Unit]], list[FileResult]],
) -> list[FileResult]:
    candidates = [item for item in probed if isinstance(item, Candidate)]
    results: dict[Path, FileResult] = {}
    with store.staging_folder() as staging:
        assignments = run_grouping.assign_runs(candidates, store, staging, run)
        assigned = {item.candidate.path for item in assignments}
        results |= {item.path: _copy_result(item) for item in candidates if item.path not in assigned}
        assignments, repaired, refused = _release_damaged_parts(store, staging, assignments)
        units = make_units(assignments) if len(assignments) > 1 else [(item,) for item in assignments]
        results |= {result.path: result for result in (*refused, *(execute_all(units) if units else ()))}
        results |= {path: changed(results[path], repaired=sentences) for path, sentences in repaired.items()}
        stores.void_lost_commits(store, staging)
    return [_refused_result(item) if isinstance(item, Refused) else results[item.path] for item in probed]


def _name_result(result: FileResult) -> FileResult:
    """Name the original instead of its copy."""
    return changed(result, path=original_path(result.path), message=name_originals(result.message))


def _release_damaged_parts(
    store: Store, staging: Path, assignments: Sequence[RunAssignment]
) -> tuple[list[RunAssignment], dict[Path, tuple[str, ...]], list[FileResult]]:
    """Remove damaged parts of several sources that are all ingested again, so that these are stored as new ones.

    Returns the assignments, the damage by the first file of each part, and results for the files of other such parts.
    """
    by_part: dict[tuple[str, str], list[RunAssignment]] = {}
    for item in assignments:
        if item.is_stored_together and item.stored_part and isinstance(store.address, Path):
            by_part.setdefault((item.run, item.stored_part), []).append(item)
    repaired: dict[Path, tuple[str, ...]] = {}
    refused: dict[Path, FileResult] = {}
    released: dict[Path, RunAssignment] = {}
    for key, items in by_part.items():
        check = _check_stored(items[0], store)
        if check is None or not check.problems:
            continue
        if check.sources > len(items):
            problem = check.problems[0].sentence
            message = f"{problem}; it holds {check.sources:,} traces: ingest all of them again, in one command"
            refused |= {item.candidate.path: failed_result(item, message) for item in items}
            continue
        stores.remove_part(store, staging, key)
        new = [changed(item, stored_part=None, stored_version=None, is_stored_together=False) for item in items]
        released |= {item.candidate.path: item for item in new}
        repaired[items[0].candidate.path] = tuple(problem.sentence for problem in check.problems)
    kept = [released.get(item.candidate.path, item) for item in assignments if item.candidate.path not in refused]
    return kept, repaired, list(refused.values())


@contextmanager
def _explain_store_errors(address: Path | str) -> Iterator[None]:
    """Replace an OSError by a StoreError with the remedy, or by a SourceError if it is about another file."""
    try:
        yield
    except OSError as error:
        if isinstance(address, str):
            raise _explain_url_error(error, address) from error
        raise _explain_disk_error(error, address) from error


def _explain_disk_error(error: OSError, store: Path) -> TracelabError:
    if error.errno in _DISK_LIMITS:
        return StoreError(f"{store}: {_DISK_LIMITS[error.errno]} and ingest again; stored files stay")
    path = Path(error.filename or store)
    if not (path.is_relative_to(store) or store.is_relative_to(path)):
        return SourceError(path, error.strerror or str(error))
    place = "" if path == store else f"{escape_path(path)}: "
    return StoreError(f"{store}: cannot be used as a store ({place}{error.strerror or error}); choose another --store")


def _explain_url_error(error: OSError, url: str) -> TracelabError:
    """Explain an error of an object, which has no number, of a temporary file, or of a source."""
    if error.errno is None:
        return StoreError(f"{url}: {str(error).splitlines()[0]}; ingest again, stored files stay")
    path = Path(error.filename or "")
    if error.filename is None or error.errno in _DISK_LIMITS or temp_folders.has_path(path):
        return StoreError(f"{temp_folders.describe_error(error)}; stored files stay")
    return SourceError(path, error.strerror or str(error))


def _refused_result(item: Refused) -> FileResult:
    status: Status = "not_profiler_data" if item.readable else "failed"
    return FileResult(item.path, status, message=item.message, files=item.files)


def _copy_result(item: Candidate) -> FileResult:
    message = f"{escape_path(item.path)}: has the same content as another file of this ingest"
    return FileResult(item.path, "unchanged", message=message)


def _execute_here(
    units: Sequence[Unit], store: Store, jobs: int, *, replace: bool, progress: Progress | None
) -> list[FileResult]:
    """Execute all units, some at a time."""
    at_once = max(1, min(jobs, len(units)))
    workers = max(1, (os.cpu_count() or 1) // at_once)
    stop = threading.Event()
    counter = ProgressCounter(progress, sum(map(count_bytes, units)), stop)
    with ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(execute, unit, store, workers, replace=replace, progress=counter.add) for unit in units]
        try:
            return [result for future in futures for result in future.result()]
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def count_bytes(unit: Unit) -> int:
    """Return how large the files of a unit are."""
    return sum(item.candidate.size_bytes for item in unit)


class ProgressCounter:
    """Adds up the bytes that readers report, and stops the readers."""

    def __init__(self, progress: Progress | None, total: int, stop: threading.Event) -> None:
        self._progress, self._total, self._stop = progress, total, stop
        self._done = 0
        self._lock = threading.Lock()

    def add(self, size_bytes: int) -> None:
        """Add bytes read. Raises StoppedError once the ingest is stopping."""
        if self._stop.is_set():
            raise StoppedError("stopped; the files that were being read are not stored")
        with self._lock:
            self._done += size_bytes
            if self._progress:
                self._progress(self._done, self._total)


def execute(
    unit: Unit, store: Store, workers: int, *, replace: bool, progress: Callable[[int], None]
) -> list[FileResult]:
    """Store the files of a unit, and return the outcome for each, in their order."""
    first = unit[0]
    is_current = first.stored_version == first.candidate.reader.VERSION and not replace
    if first.is_stored_together:
        if is_current:
            return [_unchanged_result(item, progress) for item in unit]
        return _store_together(unit, store, replace=True, progress=progress)
    if len(unit) > 1:
        return _store_together(unit, store, replace=False, progress=progress)
    problems = check.problems if (check := _check_stored(first, store)) else ()
    if is_current and check and not problems:
        return [_unchanged_result(first, progress)]
    result = _store_alone(first, store, workers, replace=replace or check is not None, progress=progress)
    return [changed(result, repaired=tuple(problem.sentence for problem in problems))]


def _check_stored(item: RunAssignment, store: Store) -> PartCheck | None:
    """Compare the part that holds a file with the log; None where none does. At a URL, nothing is compared."""
    if item.stored_part is None:
        return None
    snapshot = store.snapshot()
    part = snapshot.parts.get((item.run, item.stored_part))
    if part is None:
        return None
    if isinstance(store.address, Path):
        return check_part(store.address, snapshot, part)
    return PartCheck(sources=len(part.listed_sources))


def failed_result(item: RunAssignment, message: str = "") -> FileResult:
    """Return the outcome for a file that was not stored."""
    candidate = item.candidate
    return FileResult(candidate.path, "failed", run=item.run, format=candidate.probe.format, message=message)


def _unchanged_result(item: RunAssignment, progress: Callable[[int], None]) -> FileResult:
    progress(item.candidate.size_bytes)
    return changed(
        failed_result(item, f"{escape_path(item.candidate.path)}: already in the store"),
        status="unchanged",
        source=(item.sha256 or "")[:16],
    )


@dataclass(frozen=True)
class _ReadSource:
    """A file that was read, with its rows and its row in `sources`."""

    item: RunAssignment
    result: ReadResult
    sink: Sink
    row: Row


@dataclass(frozen=True)
class _BufferedSource(_ReadSource):
    sink: BufferedSink


def _store_together(unit: Unit, store: Store, *, replace: bool, progress: Callable[[int], None]) -> list[FileResult]:
    """Read small files one after another and commit them as one; what needs care is stored alone."""
    results: dict[Path, FileResult] = {}
    with store.staging_folder() as folder:
        sources = _complete_all(read_together(unit, folder, progress))
        while sources:
            for old in folder.glob("*.parquet"):
                old.unlink()
            write_together(folder, [source.sink for source in sources])
            taken = stores.commit(store, _stage(folder, sources), replace=replace)
            if not taken:
                break
            for source in sources:
                if (name := str(source.row["source"])) in taken:
                    path = source.item.candidate.path
                    results[path] = FileResult(path, "unchanged", run=taken[name], source=name)
            sources = [source for source in sources if source.row["source"] not in taken]
    results |= {source.item.candidate.path: _stored_result(source) for source in sources}
    for item in unit:
        if item.candidate.path not in results:
            results[item.candidate.path] = _store_alone(item, store, 1, replace=replace, progress=progress)
    return [results[item.candidate.path] for item in unit]


def _stage(folder: Path, sources: Sequence[_ReadSource]) -> Staged:
    """Describe sources of one run whose files are in a staging folder."""
    first = sources[0].item
    known = {str(source.row["source"]): _describe_source(source) for source in sources}
    return Staged(folder, [source.row for source in sources], known, once=first.once, superseded=first.superseded)


def _describe_source(source: _ReadSource) -> dict[str, object]:
    """Return what later plans need of a source beyond its row in `sources`."""
    candidate = source.item.candidate
    probe = candidate.probe
    return {
        "folder": escape_path(resolve_original(candidate.path).parent),
        "rank": probe.rank,
        "world_size": probe.world_size,
        "host": probe.host,
        "span_ns": None if probe.rank is None else source.sink.span_ns(),
    }


def _complete_all(read: Sequence[BufferedSource]) -> list[_BufferedSource]:
    """Complete sources that were read together; those with an error are left out."""
    sources = []
    for each in read:
        with suppress(*_FILE_ERRORS):
            result, row = _complete(each.item, each.result, each.sink, each.sha256)
            sources.append(_BufferedSource(each.item, result, each.sink, row))
    return sources


def _store_alone(
    item: RunAssignment, store: Store, workers: int, *, replace: bool, progress: Callable[[int], None]
) -> FileResult:
    candidate = item.candidate
    path = candidate.path
    failed = failed_result(item)
    try:
        return _store_latest(item, store, workers, replace=replace, progress=progress)
    except NotProfilerDataError as error:
        return changed(failed, status="not_profiler_data", run=None, message=str(error))
    except SourceError as error:
        return changed(failed, message=str(error))
    except OSError as error:
        if _concerns_store(error, store):
            raise
        return changed(failed, message=f"{escape_path(path)}: {error.strerror or error}")
    except (ReaderBugError, duckdb.Error, pa.ArrowException) as error:
        if wants_tracebacks():
            traceback.print_exc()
        return changed(failed, message=_reader_bug_message(candidate, error))


def _store_latest(
    item: RunAssignment,
    store: Store,
    workers: int,
    *,
    replace: bool,
    progress: Callable[[int], None],
    reads: int = _READS_OF_GROWING,
) -> FileResult:
    """Read one file and commit it; one that grows in a run folder is read again, until that is faster than its growth.

    Raises ChangedSourceError where it never is.
    """
    try:
        with ThreadPoolExecutor(1) as hasher, store.staging_folder() as folder:
            sha256 = hasher.submit(lambda: item.sha256 or hash_source(item.candidate.path))
            return _store(item, store, folder, sha256, workers, replace=replace, progress=progress)
    except ChangedSourceError:
        if not item.in_run_folder or reads == 1:
            raise
    current = changed(item.candidate, stamp=stamp_file(item.candidate.path))
    latest = changed(item, candidate=current, sha256=None)
    return _store_latest(latest, store, workers, replace=replace, progress=progress, reads=reads - 1)


def _concerns_store(error: OSError, store: Store) -> bool:
    """Whether the error is about the store, not about the file that is read. One of an object has no number."""
    if error.errno is None or error.errno in _DISK_LIMITS:
        return True
    return Path(error.filename or "").is_relative_to(store.disk_folder)


def _reader_bug_message(candidate: Candidate, error: Exception) -> str:
    """Describe an error that no file should cause; a developer needs the traceback, a user somewhere to report it."""
    prefix = f"{escape_path(candidate.path)}: reader {candidate.reader.VERSION!r}"
    problem = str(error).splitlines()[0]
    trace = "TRACELAB_TRACEBACK=1 prints the traceback"
    if isinstance(error, ReaderBugError):
        return f"{prefix} is wrong: {problem}; {trace}"
    return f"{prefix} failed ({problem}); please report this file; {trace}"


def _store(
    item: RunAssignment,
    store: Store,
    folder: Path,
    sha256: Future[str],
    workers: int,
    *,
    replace: bool,
    progress: Callable[[int], None],
) -> FileResult:
    """Read one file into the staging folder and make it visible."""
    path = item.candidate.path
    source: Future[str] = Future()
    sha256.add_done_callback(lambda done: _set_source(done, source))
    sinks: list[Sink] = []

    def open_sink(rank: int) -> Sink:
        sinks.append(Sink(folder, item.run, source, rank))
        return sinks[-1]

    with report_crashes(item.candidate.reader, path):
        result = item.candidate.reader.read(path, open_sink, workers=workers, progress=progress)
    _check_result(result)
    if not sinks:
        raise ReaderBugError("read() opened no sink; call open_sink once, with the file's rank")
    result, row = _complete(item, result, sinks[0], sha256.result())
    read = _ReadSource(item, result, sinks[0], row)
    if taken := stores.commit(store, _stage(folder, [read]), replace=replace):
        return FileResult(path, "unchanged", run=taken[source.result()], source=source.result())
    return _stored_result(read)


def _complete(item: RunAssignment, result: ReadResult, sink: Sink, sha256: str) -> tuple[ReadResult, Row]:
    """Add the diagnostics to the sink, and return the result with them and the row of `sources`.

    Raises ChangedSourceError if the file has changed since it was discovered.
    """
    candidate = item.candidate
    _check_result(result)
    result = changed(result, diagnostics=result.diagnostics + _diagnose_grouping(item))
    sink.add("diagnostics", _diagnostic_rows(result))
    row = result.source | {
        "run": item.run,
        "source": sha256[:16],
        "path": escape_path(original_path(candidate.path.absolute())),
        "format": candidate.probe.format,
        "sha256": sha256,
        "size_bytes": candidate.size_bytes,
        "reader_version": candidate.reader.VERSION,
    }
    if stamp_file(candidate.path) != candidate.stamp:
        raise ChangedSourceError(candidate.path, "changed while it was read; ingest it again when it is finished")
    return result, row


def _stored_result(source: _ReadSource) -> FileResult:
    candidate, result, complete = source.item.candidate, source.result, bool(source.row["complete"])
    return FileResult(
        candidate.path,
        "stored" if complete else "salvaged",
        run=source.item.run,
        source=str(source.row["source"]),
        format=candidate.probe.format,
        events_read=_source_count(result, "events_read"),
        events_kept=_source_count(result, "events_kept"),
        events_skipped=_source_count(result, "events_skipped"),
        rows=source.sink.rows,
        diagnostics=result.diagnostics,
        message="" if complete else "; ".join(d.message for d in result.diagnostics if d.severity == "error"),
    )


def _diagnose_grouping(item: RunAssignment) -> tuple[Diagnostic, ...]:
    counts = DiagnosticCounts()
    if item.repeats:
        counts.note("rank_recorded_again", item.repeats)
    return build_diagnostics(counts, GROUPING_MESSAGES)


def _check_result(result: ReadResult) -> None:
    """Raise ReaderBugError if a required value is missing, or if the counts of events do not add up."""
    required = ("complete", "events_read", "events_kept", "events_skipped")
    if missing := [name for name in required if name not in result.source]:
        raise ReaderBugError(f"ReadResult.source lacks {', '.join(missing)}")
    read, kept, skipped = (result.source[name] for name in required[1:])
    if isinstance(read, int) and isinstance(kept, int) and isinstance(skipped, int) and read != kept + skipped:
        raise ReaderBugError(f"events_read ({read:,}) is not events_kept ({kept:,}) + events_skipped ({skipped:,})")


def _set_source(sha256: Future[str], source: Future[str]) -> None:
    """Name the source by its hash, or pass on why there is none."""
    if error := sha256.exception():
        source.set_exception(error)
    else:
        source.set_result(sha256.result()[:16])


def _source_count(result: ReadResult, column: str) -> int:
    value = result.source.get(column)
    return value if isinstance(value, int) else 0


def _diagnostic_rows(result: ReadResult) -> pa.Table:
    names = ("severity", "code", "count", "message", "how_to_fix")
    return pa.table({name: [getattr(row, name) for row in result.diagnostics] for name in names})
