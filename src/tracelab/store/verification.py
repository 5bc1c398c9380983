"""Compare the files of a store with the sizes and hashes in its log."""

import os
import re
import shlex
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tracelab import schema
from tracelab.errors import StoreError
from tracelab.foreign_text import escape_path
from tracelab.store.commit import hash_file
from tracelab.store.commit_log import Part, PartKey, Snapshot, TableFile, read_snapshot
from tracelab.store.files import LocalFiles, find_address, is_copy
from tracelab.store.integrity import PERMISSION_DENIED

_DAMAGED_PAGE = re.compile(r"Failed to read file|corrupt|Parquet file|codec can't decode")
"""Errors that a damaged page causes. Some quote bytes of the page, which Python cannot decode."""


@dataclass(frozen=True)
class FileProblem:
    """A committed file that is missing or differs from what ingest wrote; `trace` is the file it was ingested from."""

    path: Path
    problem: str
    trace: str | None = None
    names_run: bool = False
    """Whether the repair must name the run, since the trace alone does not determine it."""

    @property
    def run(self) -> str | None:
        """The run that the file belongs to; None for a file of the log."""
        return run_of(self.path) if self.path.parent.name.startswith("run=") else None

    @property
    def sentence(self) -> str:
        """The file, and what is wrong with it."""
        return f"{escape_path(self.path)} is {self.problem}"

    def repair_command(self, store: Path) -> str:
        """Return the command that stores the trace again."""
        trace = shlex.quote(self.trace) if self.trace else "TRACE"
        run = f" --run {self.run}" if self.names_run else ""
        place = shlex.quote(escape_path(find_address(store)))
        return f"tracelab ingest {trace} --store {place}{run}"


class DamagedStoreError(StoreError):
    """Committed files are missing, truncated or altered."""

    def __init__(self, store: Path, problems: Sequence[FileProblem]) -> None:
        first, others = problems[0], len(problems) - 1
        more = f", and {others:,} more files are missing or damaged (`tracelab doctor` lists them)" if others else ""
        super().__init__(f"{first.sentence}{more}; ingest its trace again: `{first.repair_command(store)}`")
        self.problems = tuple(problems)


@dataclass(frozen=True)
class PartCheck:
    """The outcome for the files of one part."""

    files: int = 0
    size_bytes: int = 0
    problems: tuple[FileProblem, ...] = ()
    sources: int = 1


def check_part(store: Path, snapshot: Snapshot, part: Part, *, hashes: bool = True) -> PartCheck:
    """Compare the files of a part with the log; without `hashes` compare sizes only.

    Reports no problem for a part that another process removes meanwhile.
    """
    names_run = any(other.run != part.run for source in part.source_names for other in snapshot.parts_with(source))
    trace = find_common_path(part.traces)

    if is_copy(store):
        from tracelab.store import remote

        remote.complete(store, map(part.key_of, part.files))

    def problem(path: Path, what: str) -> FileProblem:
        return FileProblem(path, what, trace, names_run)

    paths = {store / part.key_of(table): file for table, file in part.files.items()}
    problems = [
        problem(path, difference) for path, file in paths.items() if (difference := _compare(path, file, hashes=hashes))
    ]
    unlisted = (store / part.key_of(table) for table in schema.BY_NAME.keys() - part.files.keys())
    problems += [problem(path, "unexpected (no ingest wrote it)") for path in unlisted if os.path.lexists(path)]
    if problems and part.key not in read_snapshot(LocalFiles(store)).parts:
        problems = []
    size_bytes = sum(file.size_bytes for file in paths.values())
    return PartCheck(len(paths), size_bytes, tuple(problems), len(part.listed_sources))


def verify_parts(store: Path, snapshot: Snapshot, parts: Sequence[Part]) -> list[PartCheck]:
    """Read and hash every file of some parts."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(partial(check_part, store, snapshot), parts))


def describe_lost(store: Path, snapshot: Snapshot) -> list[FileProblem]:
    """Return a problem for each commit that cannot be read: its traces are those of files that no other commit has."""
    if not snapshot.lost:
        return []
    trace = find_common_path([path for rows in read_unlisted(store, snapshot).values() for _, path in rows])
    return [FileProblem(store / key, problem, trace) for key, problem in snapshot.lost.items()]


def read_unlisted(store: Path, snapshot: Snapshot) -> dict[PartKey, list[tuple[str, str]]]:
    """Return source and path of the rows in `sources` of parts that no commit lists."""
    rows: dict[PartKey, list[tuple[str, str]]] = {}
    for path in store.glob("sources/run=*/*.parquet"):
        key = run_of(path), path.stem
        if key not in snapshot.parts:
            with suppress(OSError, pa.ArrowException):
                listed = pq.read_table(path, columns=["source", "path"], partitioning=None).to_pylist()
                rows[key] = [(row["source"], row["path"]) for row in listed]
    return rows


def find_common_path(paths: Sequence[str | None]) -> str | None:
    """Return the path of a trace, or the folder of several."""
    known = sorted({path for path in paths if path})
    if len(known) < 2:  # noqa: PLR2004
        return known[0] if known else None
    try:
        return os.path.commonpath(known)
    except ValueError:  # some are relative
        return known[0]


def find_damaged_file(store: Path, cause: duckdb.Error | UnicodeDecodeError) -> FileProblem | None:
    """Return the first damaged file that the store still lists. Pages are read only if the error may come from one."""
    may_be_pages = type(cause) is duckdb.Error or _DAMAGED_PAGE.search(str(cause)) is not None
    snapshot = read_snapshot(LocalFiles(store))
    for part in snapshot.parts.values():
        for table in part.files:
            path = store / part.key_of(table)
            try:
                with pq.ParquetFile(path) as file:
                    for _ in file.iter_batches() if may_be_pages else ():
                        pass
            except PermissionError as error:
                raise StoreError(f"{path} {PERMISSION_DENIED}") from error
            except (OSError, pa.ArrowException) as error:
                if part.key not in read_snapshot(LocalFiles(store)).parts:  # replaced since the log was read
                    break
                checked = check_part(store, snapshot, part, hashes=False).problems
                names_run = any(each.names_run for each in checked)
                return FileProblem(path, f"damaged ({_first_line(error)})", find_common_path(part.traces), names_run)
    if not may_be_pages:
        return None
    checks = verify_parts(store, snapshot, list(snapshot.parts.values()))  # what only DuckDB cannot read
    return next((problem for check in checks for problem in check.problems), None)


def run_of(path: Path) -> str:
    """Return the run that a file of the store belongs to."""
    return path.parent.name.removeprefix("run=")


def _compare(path: Path, file: TableFile, *, hashes: bool) -> str | None:
    """Return what is wrong with a file, as the end of "it is …"."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return "damaged (it is not a file)"
        size_bytes = status.st_size
        if size_bytes != file.size_bytes:
            return f"damaged ({size_bytes:,} bytes instead of {file.size_bytes:,})"
        if hashes and hash_file(path) != file.sha256:
            return "altered (its SHA-256 differs from the recorded one)"
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except PermissionError as error:
        raise StoreError(f"{path} {PERMISSION_DENIED}") from error
    except OSError as error:
        return f"damaged ({error.strerror or error})"
    return None


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".")
