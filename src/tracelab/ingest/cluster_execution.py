"""Execute units on the workers of a Dask cluster, and collect the outcome for each file."""

import os
import pickle
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import partial
from pathlib import Path
from typing import TypeAlias

import cloudpickle

from tracelab.errors import StoreError, TracelabError
from tracelab.foreign_text import escape_path
from tracelab.ingest.batches import Unit
from tracelab.ingest.cluster import open_executor, worker_died
from tracelab.ingest.discovery import copies_folder, stamp_file
from tracelab.ingest.pipeline import (
    ExecuteAll,
    FileResult,
    Progress,
    ProgressCounter,
    count_bytes,
    execute,
    failed_result,
)
from tracelab.ingest.run_grouping import RunAssignment
from tracelab.store.commit import Store

_CHECK_S = 5
"""How often the workers are checked."""

_OTHER_TRACELAB = "a worker has no tracelab, or another version than this process"
_LOST_SCHEDULER = "the connection to the Dask scheduler was lost; ingest again, and what is stored stays"


@dataclass(frozen=True)
class _Call:
    """A call that is made where it is unpickled.

    A worker that cannot import what a task names loses its connection to the scheduler, and dies. It can import pickle,
    so that the error of this import is that of the task.
    """

    function: Callable[[], object]

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        return self.function, ()


_Submit: TypeAlias = Callable[[Unit], Future[list[FileResult]]]


@contextmanager
def connect(
    spec: str,
    store: Path | str,
    *,
    replace: bool,
    progress: Progress | None,
    announce: Callable[[str], None] | None = None,
) -> Iterator[ExecuteAll]:
    """Open a cluster, and yield a function that executes units on its workers.

    A file failed where all workers that read it alone died, and where its worker stored it in another store than this.
    """
    place = store.absolute() if isinstance(store, Path) else store
    with open_executor(spec, announce) as (pool, check_workers):

        def submit(unit: Unit) -> Future[list[FileResult]]:
            call = partial(execute_on_worker, _with_absolute_paths(unit), place, replace=replace)
            return pool.submit(pickle.loads, cloudpickle.dumps(_Call(call)))

        def execute_all(units: Sequence[Unit]) -> list[FileResult]:
            counter = ProgressCounter(progress, sum(map(count_bytes, units)), threading.Event())
            return _fail_stored_elsewhere(_execute_units(units, submit, check_workers, counter.add), store)

        yield execute_all


def _execute_units(
    units: Sequence[Unit], submit: _Submit, check_workers: Callable[[], None], progress: Callable[[int], None]
) -> list[FileResult]:
    """Execute units at the same time, then, one after another, each file of those whose workers died.

    Dask blames a death on all tasks that the worker held, also on one that it had not begun.
    """
    results: list[FileResult] = []
    suspects: list[RunAssignment] = []

    def collect(unit: Unit, future: Future[list[FileResult]], *, is_alone: bool) -> None:
        error = future.exception()
        if error is not None and _is_import_error(error):
            raise TracelabError(f"{_OTHER_TRACELAB} ({error}); install this one there, and ingest again") from error
        if error is None or not worker_died(error):
            pairs = zip(unit, future.result(), strict=True)
            results.extend(changed(result, path=item.candidate.path) for item, result in pairs)
        elif is_alone:
            results.append(failed_result(unit[0], _describe_death(unit[0])))
        else:
            suspects.extend(unit)
            return
        progress(count_bytes(unit))

    try:
        for unit, future in _completed(units, submit, check_workers):
            collect(unit, future, is_alone=sum(map(len, units)) == 1)
        for suspect in suspects:
            for unit, future in _completed([(suspect,)], submit, check_workers):
                collect(unit, future, is_alone=True)
    except CancelledError as error:
        raise TracelabError(_LOST_SCHEDULER) from error
    return results


def _is_import_error(error: BaseException) -> bool:
    """Return whether a worker could not import a module, or found no such name in it, as pickle reports that."""
    return isinstance(error, ImportError) or str(error).startswith("Can't get attribute")


def _completed(
    units: Sequence[Unit], submit: _Submit, check_workers: Callable[[], None]
) -> Iterator[tuple[Unit, Future[list[FileResult]]]]:
    """Yield units as they complete, and check the workers from time to time."""
    pending = {submit(unit): unit for unit in units}
    try:
        while pending:
            with suppress(TimeoutError):
                for future in as_completed(list(pending), timeout=_CHECK_S):
                    yield pending.pop(future), future
            check_workers()
    finally:
        for future in pending:
            future.cancel()


def _fail_stored_elsewhere(results: Sequence[FileResult], store: Path | str) -> list[FileResult]:
    """Fail files whose sources are not in the log of the store: the path of the store is another one for their worker.

    The log is listed anew, since a network file system may report a missing commit as missing for a minute.
    """
    snapshot = Store(store).snapshot()

    def check(result: FileResult) -> FileResult:
        if result.source is None or snapshot.parts_with(result.source):
            return result
        problem = f"its worker stored it in another store than {store}; choose a --store that all workers share"
        message = f"{escape_path(result.path)}: {problem}"
        return FileResult(result.path, "failed", run=result.run, format=result.format, message=message)

    return [check(result) for result in results]


def execute_on_worker(unit: Unit, store: Path | str, *, replace: bool) -> list[FileResult]:
    """Execute a unit on a worker, which reports when it is done. Raises StoreError with the name of its host."""
    with copies_folder() as create_copies:
        restored = _restore_copies(unit, create_copies)
        try:
            results = execute(restored, Store(store), 1, replace=replace, progress=lambda _: None)
        except StoreError as error:  # which may be its own: it may lack the credentials of this process
            raise StoreError(f"the worker on {socket.gethostname()}: {error}") from error
        return list(map(_explain_missing_file, results))


def _explain_missing_file(result: FileResult) -> FileResult:
    """Name the worker that cannot see a file, which the process that plans has read."""
    if result.status != "failed" or os.access(result.path, os.F_OK):
        return result
    problem = f"the worker on {socket.gethostname()} cannot see it; put the traces on a disk that all workers share"
    return changed(result, message=f"{escape_path(result.path)}: {problem}, at the same path")


def _restore_copies(unit: Unit, create_copies: Callable[[], Path]) -> Unit:
    """Copy members and objects here if the copies are on another machine. Those that cannot be copied fail later."""
    if all(os.access(item.candidate.path, os.F_OK) for item in unit):
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
