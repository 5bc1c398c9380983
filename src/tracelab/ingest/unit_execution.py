"""Execute the units of a plan: read the files of each, stage their rows, and commit them as one."""

import errno
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import Literal

import duckdb
import pyarrow as pa

from tracelab.errors import ChangedSourceError, NotProfilerDataError, ReaderBugError, SourceError, wants_tracebacks
from tracelab.foreign_text import escape_path
from tracelab.ingest.batches import BufferedSource, Unit, read_together
from tracelab.ingest.discovery import Candidate, hash_source, original_path, resolve_original, stamp_file
from tracelab.ingest.run_grouping import RunAssignment
from tracelab.readers.base import ReadResult
from tracelab.readers.diagnostics import GROUPING_MESSAGES, Diagnostic, DiagnosticCounts, build_diagnostics
from tracelab.store import commit as stores
from tracelab.store.commit import Row, Staged, Store
from tracelab.store.verification import PartCheck, check_part
from tracelab.store.writer import BufferedSink, Sink, write_together

Status = Literal["stored", "salvaged", "unchanged", "not_profiler_data", "failed"]

_FILE_ERRORS = (NotProfilerDataError, SourceError, OSError, ReaderBugError, duckdb.Error, pa.ArrowException)

DISK_LIMITS = {
    errno.ENOSPC: "its disk is full; free space",
    errno.EDQUOT: "the quota of its disk is used up; free space",
    errno.EFBIG: "a file reached the file size limit; raise it (ulimit -f)",
}
"""Errors that the disk of a store causes, with the remedy."""

_READS_OF_GROWING = 10
"""How often a file of a run folder is read that grows meanwhile, as the rows of steps do every 0.1 s."""


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
    problems = check.problems if (check := check_stored(first, store)) else ()
    if is_current and check and not problems:
        return [_unchanged_result(first, progress)]
    result = _store_alone(first, store, workers, replace=replace or check is not None, progress=progress)
    return [changed(result, repaired=tuple(problem.sentence for problem in problems))]


def check_stored(item: RunAssignment, store: Store) -> PartCheck | None:
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
    """Return the result of a file that was not stored, with the reason."""
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
        if _concerns_store(error, store.address):
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


def _concerns_store(error: OSError, store: Path | str) -> bool:
    """Whether the error is about the store, not about the file that is read."""
    return isinstance(store, str) or error.errno in DISK_LIMITS or Path(error.filename or "").is_relative_to(store)


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
