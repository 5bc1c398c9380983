"""Files into a store: found, told apart, grouped into runs, read in parallel, and committed one source at a time."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import Literal

import duckdb
import pyarrow as pa

from tracelab.errors import NotProfilerDataError, SourceError, StoreError, TracelabError, escape_path
from tracelab.ingest import run_grouping
from tracelab.ingest.discovery import Candidate, Refused, expand_paths, probe_source, stamp
from tracelab.ingest.hashing import hashed
from tracelab.ingest.run_grouping import RunAssignment
from tracelab.readers.base import ReadResult
from tracelab.readers.diagnostics import Diagnostic
from tracelab.run_names import check_run_name
from tracelab.store import commit as stores
from tracelab.store.writer import Sink

Status = Literal["stored", "salvaged", "unchanged", "not_profiler_data", "failed"]
Progress = Callable[[int, int], None]
"""Told the bytes read so far and the bytes there are; may come from any thread."""


@dataclass(frozen=True)
class FileResult:
    """What became of one file; `rows` counts the stored rows by table."""

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


@dataclass(frozen=True)
class Report:
    """What became of all files, in the order in which they were found."""

    files: tuple[FileResult, ...]
    leftovers_removed: int = 0

    @property
    def exit_code(self) -> int:
        """0: stored; 1: a file could not be read; 3: nothing given holds profiler data."""
        statuses = {result.status for result in self.files}
        if "failed" in statuses:
            return 1
        return 3 if statuses <= {"not_profiler_data"} else 0


class StoppedError(TracelabError):
    """The ingest was told to stop; nothing of the files under way is visible."""

    exit_code = 130


def ingest(
    paths: Sequence[str | Path],
    store: Path,
    *,
    run: str | None = None,
    jobs: int | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Store what the files hold. Raises UsageError for a bad run name, StoreError for a store that cannot be used.

    `paths` are files, folders (everything in them) and patterns. `jobs` files are read at a time, by default as many
    as there are processors; a single file is read by all of them.
    """
    if run is not None:
        check_run_name(run)
    try:
        store.mkdir(parents=True, exist_ok=True)
        leftovers = stores.remove_leftovers(store)
    except OSError as error:
        raise StoreError(
            f"{store}: cannot be used as a store ({error.strerror or error}); give another --store"
        ) from error
    looked = [probe_source(item) for item in expand_paths(paths, store)]
    candidates = [item for item in looked if isinstance(item, Candidate)]
    results = {item.path: _refused(item) for item in looked if isinstance(item, Refused)}
    with run_grouping.assign_runs(candidates, store, run) as placed:
        ours = {item.candidate.path for item in placed}
        results |= {item.path: _twice(item) for item in candidates if item.path not in ours}
        for result in _read_all(placed, store, jobs or os.cpu_count() or 1, replace=replace, progress=progress):
            results[result.path] = result
    return Report(tuple(results[item.path] for item in looked), leftovers)


def _refused(item: Refused) -> FileResult:
    status: Status = "not_profiler_data" if item.readable else "failed"
    return FileResult(item.path, status, message=item.message)


def _twice(item: Candidate) -> FileResult:
    return FileResult(
        item.path, "unchanged", message=f"{escape_path(item.path)}: has the content of another file given"
    )


def _read_all(
    placed: list[RunAssignment], store: Path, jobs: int, *, replace: bool, progress: Progress | None
) -> list[FileResult]:
    """Read all files, the largest first, some at a time."""
    if not placed:
        return []
    cores = os.cpu_count() or 1
    at_once = max(1, min(jobs, len(placed)))
    workers = max(1, cores // at_once)
    stop = threading.Event()
    told = ProgressCounter(progress, sum(item.candidate.size_bytes for item in placed), stop)
    largest_first = sorted(placed, key=lambda item: -item.candidate.size_bytes)
    with ThreadPoolExecutor(at_once) as pool:
        futures = [
            pool.submit(_read_one, item, store, workers, replace=replace, progress=told.more) for item in largest_first
        ]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


class ProgressCounter:
    """Adds up what the files' readers tell, and tells them when to stop."""

    def __init__(self, progress: Progress | None, total: int, stop: threading.Event) -> None:
        self._progress, self._total, self._stop = progress, total, stop
        self._done = 0
        self._lock = threading.Lock()

    def more(self, size_bytes: int) -> None:
        """Add bytes read. Raises StoppedError once the ingest is stopping."""
        if self._stop.is_set():
            raise StoppedError("stopped; the files under way were not stored")
        with self._lock:
            self._done += size_bytes
            if self._progress:
                self._progress(self._done, self._total)


def _read_one(
    item: RunAssignment, store: Path, workers: int, *, replace: bool, progress: Callable[[int], None]
) -> FileResult:
    candidate = item.candidate
    path = candidate.path
    begun = FileResult(path, "failed", run=item.run, format=candidate.probe.format)
    try:
        if item.sha256 and not replace:
            source = item.sha256[:16]
            if stores.committed_reader_version(store, item.run, source) == candidate.reader.VERSION:
                progress(candidate.size_bytes)
                return changed(
                    begun, status="unchanged", source=source, message=f"{escape_path(path)}: already in the store"
                )
        with ThreadPoolExecutor(1) as hasher, stores.staging_folder(store) as folder:
            sha256 = hasher.submit(lambda: item.sha256 or hashed(path))
            return _store(item, store, folder, sha256, workers, replace=replace, progress=progress)
    except NotProfilerDataError as error:
        return changed(begun, status="not_profiler_data", run=None, message=str(error))
    except SourceError as error:
        return changed(begun, message=str(error))
    except OSError as error:
        return changed(begun, message=f"{escape_path(path)}: {error.strerror or error}")
    except (duckdb.Error, pa.ArrowException) as error:
        return changed(
            begun,
            message=f"{escape_path(path)}: could not be read ({str(error).splitlines()[0]}); please report this file",
        )


def _store(
    item: RunAssignment,
    store: Path,
    folder: Path,
    sha256: Future[str],
    workers: int,
    *,
    replace: bool,
    progress: Callable[[int], None],
) -> FileResult:
    """Read one file into the staging folder and make it visible."""
    candidate = item.candidate
    source: Future[str] = Future()
    sha256.add_done_callback(lambda done: _pass_on(done, source))
    sinks: list[Sink] = []

    def open_sink(rank: int) -> Sink:
        sinks.append(Sink(folder, item.run, source, rank))
        return sinks[-1]

    facts = candidate.reader.read(candidate.path, open_sink, workers=workers, progress=progress)
    sink = sinks[0]
    sink.add("diagnostics", _diagnostic_rows(facts))
    row = facts.source | {
        "run": item.run,
        "source": source.result(),
        "path": escape_path(candidate.path.absolute()),
        "format": candidate.probe.format,
        "sha256": sha256.result(),
        "size_bytes": candidate.size_bytes,
        "reader_version": candidate.reader.VERSION,
    }
    if stamp(candidate.path) != candidate.stamp:
        raise SourceError(candidate.path, "changed while it was read; ingest it again when it is finished")
    if not stores.commit(store, folder, row, replace=replace, superseded=item.superseded):
        return FileResult(candidate.path, "unchanged", run=item.run, source=source.result())
    complete = bool(row["complete"])
    return FileResult(
        candidate.path,
        "stored" if complete else "salvaged",
        run=item.run,
        source=source.result(),
        format=candidate.probe.format,
        events_read=_count(facts, "events_read"),
        events_kept=_count(facts, "events_kept"),
        events_skipped=_count(facts, "events_skipped"),
        rows=sink.rows,
        diagnostics=facts.diagnostics,
        message="" if complete else "; ".join(d.message for d in facts.diagnostics if d.severity == "error"),
    )


def _pass_on(done: Future[str], source: Future[str]) -> None:
    """Name the source by its hash, or hand on why there is none."""
    if error := done.exception():
        source.set_exception(error)
    else:
        source.set_result(done.result()[:16])


def _count(facts: ReadResult, column: str) -> int:
    value = facts.source.get(column)
    return value if isinstance(value, int) else 0


def _diagnostic_rows(facts: ReadResult) -> pa.Table:
    names = ("severity", "code", "count", "message", "how_to_fix")
    return pa.table({name: [getattr(row, name) for row in facts.diagnostics] for name in names})
