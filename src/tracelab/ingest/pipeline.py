"""Ingest files: plan what belongs to which run, then read several files at a time and commit them."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path

from tracelab.errors import SourceError, StoreError, TracelabError
from tracelab.foreign_text import escape_path
from tracelab.ingest import run_grouping
from tracelab.ingest.batches import Unit, make_units
from tracelab.ingest.discovery import (
    Candidate,
    Refused,
    copies_folder,
    discover,
    name_originals,
    original_path,
    stamp_file,
)
from tracelab.ingest.run_grouping import RunAssignment
from tracelab.ingest.unit_execution import DISK_LIMITS, FileResult, Status, check_stored, execute, failed_result
from tracelab.run_names import check_run_name
from tracelab.schema import store_address
from tracelab.store import commit as stores
from tracelab.store.commit import Store

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and all bytes to read; from any thread."""


@dataclass(frozen=True)
class Report:
    """The outcome for all files, in the order in which they were found."""

    files: tuple[FileResult, ...]
    leftovers_removed: int = 0

    @property
    def exit_code(self) -> int:
        """0: stored; 1: a file could not be read; 3: no file holds profiler data."""
        statuses = {result.status for result in self.files}
        if "failed" in statuses:
            return 1
        return 3 if statuses <= {"not_profiler_data"} else 0


_LOST_SCHEDULER = "the connection to the Dask scheduler was lost; ingest again, and what is stored stays"


class StoppedError(TracelabError):
    """The ingest was stopped; the files that were being read are not visible."""

    exit_code = 130


def ingest(
    paths: Sequence[str | Path],
    store: Path | str,
    *,
    run: str | None = None,
    jobs: int | None = None,
    replace: bool = False,
    progress: Progress | None = None,
    cluster: str | None = None,
) -> Report:
    """Store what the files hold. Raises UsageError for a bad run name, StoreError for a store that cannot be used.

    `paths` are files, folders (everything in them) and patterns. `jobs` files are read at a time, by default as many
    as there are processors; a single file is read by all of them. `cluster` is a Dask cluster whose workers read the
    files instead: `local:N`, `slurm:N` or the address of a scheduler. Its workers need the paths that this process has.
    """
    if run is not None:
        check_run_name(run)
    if cluster is not None:
        from tracelab.ingest.cluster import check_spec

        check_spec(cluster)

    opened = Store(store_address(store))

    def execute_all(units: Sequence[Unit]) -> list[FileResult]:
        if cluster is not None:
            return _execute_on_cluster(units, opened.address, cluster, replace=replace, progress=progress)
        return _execute_here(units, opened, jobs or os.cpu_count() or 1, replace=replace, progress=progress)

    with _explain_store_errors(opened.address):
        return _ingest(paths, opened, run, execute_all)


def _ingest(
    paths: Sequence[str | Path],
    store: Store,
    run: str | None,
    execute_all: Callable[[Sequence[Unit]], list[FileResult]],
) -> Report:
    """Plan once, for all files, then execute the plan."""
    leftovers = 0
    if isinstance(store.address, Path):
        store.address.mkdir(parents=True, exist_ok=True)
        leftovers = stores.remove_leftovers(store.address)
    with copies_folder() as create_copies:
        results = _ingest_all(discover(paths, store.address, create_copies), store, run, execute_all)
    return Report(tuple(map(_name_result, results)), leftovers)


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
        check = check_stored(items[0], store)
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
def _explain_store_errors(store: Path | str) -> Iterator[None]:
    """Replace an OSError by a StoreError with the remedy, or by a SourceError if it is about another file."""
    try:
        yield
    except OSError as error:
        if isinstance(store, str):
            raise
        if error.errno in DISK_LIMITS:
            raise StoreError(f"{store}: {DISK_LIMITS[error.errno]} and ingest again; stored files stay") from error
        path = Path(error.filename or store)
        if not (path.is_relative_to(store) or store.is_relative_to(path)):
            raise SourceError(path, error.strerror or str(error)) from error
        place = "" if path == store else f"{escape_path(path)}: "
        raise StoreError(
            f"{store}: cannot be used as a store ({place}{error.strerror or error}); choose another --store"
        ) from error


def _refused_result(item: Refused) -> FileResult:
    status: Status = "not_profiler_data" if item.readable else "failed"
    return FileResult(item.path, status, message=item.message)


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
    counter = ProgressCounter(progress, sum(map(_count_bytes, units)), stop)
    with ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(execute, unit, store, workers, replace=replace, progress=counter.add) for unit in units]
        try:
            return [result for future in futures for result in future.result()]
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _execute_on_cluster(
    units: Sequence[Unit], store: Path | str, spec: str, *, replace: bool, progress: Progress | None
) -> list[FileResult]:
    """Execute all units on the workers of a cluster. Where all workers that read a unit died, its files failed."""
    from tracelab.ingest.cluster import open_executor, worker_died

    counter = ProgressCounter(progress, sum(map(_count_bytes, units)), threading.Event())
    place = store.absolute() if isinstance(store, Path) else store
    results: list[FileResult] = []
    futures: dict[Future[list[FileResult]], Unit] = {}

    with open_executor(spec) as (pool, wait_for_worker):

        def submit(unit: Unit) -> Future[list[FileResult]]:
            future = pool.submit(_execute_quietly, _with_absolute_paths(unit), place, replace=replace)
            futures[future] = unit
            return future

        def collect(future: Future[list[FileResult]]) -> None:
            unit = futures[future]
            if (error := future.exception()) and worker_died(error):
                if len(unit) > 1:  # one of its files may be to blame
                    for alone in [submit((item,)) for item in unit]:
                        collect(alone)
                    return
                results.append(failed_result(unit[0], _describe_death(unit[0])))
            else:
                pairs = zip(unit, future.result(), strict=True)
                results.extend(changed(result, path=item.candidate.path) for item, result in pairs)
            counter.add(_count_bytes(unit))

        try:
            submitted = [submit(unit) for unit in units]
            wait_for_worker()
            for future in as_completed(submitted):
                collect(future)
        except CancelledError as error:
            raise StoppedError(_LOST_SCHEDULER) from error
        finally:
            for future in futures:
                future.cancel()
    return results


def _execute_quietly(unit: Unit, store: Path | str, *, replace: bool) -> list[FileResult]:
    """Execute a unit on a worker, which reports when it is done."""
    with copies_folder() as create_copies:
        restored = _restore_copies(unit, create_copies)
        return execute(restored, Store(store), 1, replace=replace, progress=lambda _: None)


def _restore_copies(unit: Unit, create_copies: Callable[[], Path]) -> Unit:
    """Copy members and objects here if the copies are on another machine. Those that cannot be copied fail later."""
    if all(item.candidate.path.exists() for item in unit):
        return unit
    from tracelab.ingest.inputs import restore_copies

    restored: dict[Path, Path] = {}
    with suppress(StoreError, OSError):
        restored = restore_copies([item.candidate.path for item in unit], create_copies())

    def restore(item: RunAssignment) -> RunAssignment:
        copy = restored.get(item.candidate.path)
        if copy is None or not copy.exists():
            return item
        return changed(item, candidate=changed(item.candidate, path=copy, stamp=stamp_file(copy)))

    return tuple(map(restore, unit))


def _describe_death(item: RunAssignment) -> str:
    return f"{escape_path(item.candidate.path)}: each worker that read it died; check their memory, and ingest it again"


def _with_absolute_paths(unit: Unit) -> Unit:
    """Return the unit with paths that mean the same in each folder that a worker may run in."""
    candidates = [changed(item.candidate, path=item.candidate.path.absolute()) for item in unit]
    return tuple(changed(item, candidate=candidate) for item, candidate in zip(unit, candidates, strict=True))


def _count_bytes(unit: Unit) -> int:
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
