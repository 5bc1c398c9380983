"""Check the files of a store at opening against its log, which has the size and the hash of each."""

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import duckdb

from tracelab.errors import StoreError, TracelabError, UsageError
from tracelab.store import commit_log
from tracelab.store.commit_log import Part, Snapshot, open_snapshot, read_snapshot
from tracelab.store.files import LocalFiles, find_address, is_copy

PERMISSION_DENIED = "cannot be read: permission denied; make the store's folders and files readable"
_NO_FILE = re.compile("No files found|No such file")
_ATTEMPTS = 5
"""How often a store is read where parts are replaced meanwhile."""


_Result = TypeVar("_Result")


class StoreChangedError(StoreError):
    """Files were replaced or removed while they were read."""

    def __init__(self, store: Path) -> None:
        super().__init__(f"{find_address(store)}: files were replaced while they were read; run the command again")


@contextmanager
def explain_read_errors(store: Path) -> Iterator[None]:
    """Replace an error of DuckDB by a StoreError that names the damaged file of the store, if there is one."""
    try:
        yield
    except (duckdb.Error, UnicodeDecodeError, TracelabError) as error:
        cause = error.__cause__ if isinstance(error, TracelabError) else error
        if isinstance(cause, duckdb.Error | UnicodeDecodeError) and not isinstance(error, UsageError):
            from tracelab.store import verification

            problem = verification.find_damaged_file(store, cause)
            if problem is not None:
                raise verification.DamagedStoreError(store, [problem]) from cause
            if _misses_file(cause):
                raise StoreChangedError(store) from cause
        raise


def repeat_if_changed(read: Callable[[], _Result]) -> _Result:
    """Read from a store, and again where its files were replaced meanwhile."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(StoreChangedError):
            return read()
    return read()


def _misses_file(cause: Exception) -> bool:
    """Return whether DuckDB did not find a file: each file of a session existed when it was opened."""
    return isinstance(cause, duckdb.IOException) and bool(_NO_FILE.search(str(cause)))


def is_store(folder: Path) -> bool:
    """Return whether a folder is a store that something was ingested into."""
    return bool(LocalFiles(folder).names(commit_log.FOLDER)) or any(folder.glob("sources/run=*/*.parquet"))


def read_checked_snapshot(store: Path, runs: Collection[str] | None = None) -> Snapshot:
    """Read what a store holds, and check that its files exist in their sizes: those of some runs, or all.

    Raises StoreError for another schema version, and DamagedStoreError.
    """
    root = store.resolve()
    for _ in range(_ATTEMPTS):
        snapshot = open_snapshot(store, LocalFiles(root))
        checked = [part for part in snapshot.parts.values() if runs is None or part.run in runs]
        if is_copy(root):
            checked = []
        suspects = [part for part in checked if not _has_files(root, part)]
        if not suspects and not snapshot.lost:
            return snapshot
        from tracelab.store.verification import DamagedStoreError, check_part, describe_lost

        now = read_snapshot(LocalFiles(root))
        checks = [check_part(store, now, part, hashes=False) for part in suspects if part.key in now.parts]
        problems = [*describe_lost(store, now), *(problem for check in checks for problem in check.problems)]
        if problems:
            raise DamagedStoreError(store, problems)
    raise StoreChangedError(store)


def list_runs_with(store: Path, tables: Collection[str]) -> list[str]:
    """Return the runs that the store lists files of all these tables for, without a check of the files."""
    listed: dict[str, set[str]] = {}
    for part in open_snapshot(store, LocalFiles(store.resolve())).parts.values():
        listed.setdefault(part.run, set()).update(part.tables)
    return sorted(run for run, of_run in listed.items() if of_run >= set(tables))


def _has_files(root: Path, part: Part) -> bool:
    """Return whether the files of a part exist in their sizes."""
    for table, file in part.files.items():
        try:  # a Path for each file would take as long as the system does
            status = os.stat(f"{root}/{part.key_of(table)}")  # noqa: PTH116
        except PermissionError as error:
            raise StoreError(f"{error.filename} {PERMISSION_DENIED}") from error
        except OSError:
            return False
        if status.st_size != file.size_bytes or not stat.S_ISREG(status.st_mode):
            return False
    return True


def table_paths(root: Path, parts: Iterable[Part], table: str) -> list[Path]:
    """Return the files of a table: what a query, an export or another engine reads. Those at a URL are copied first.

    Raises StoreChangedError where a file at a URL was removed since its log was read.
    """
    keys = [part.key_of(table) for part in parts if table in part.tables]
    if is_copy(root):
        from tracelab.store import remote

        if not remote.complete(root, keys):
            raise StoreChangedError(root)
    return [root / key for key in keys]
