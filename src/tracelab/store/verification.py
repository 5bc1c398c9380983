"""Compare the table files of committed sources with the sizes and hashes that ingest recorded."""

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tracelab import schema
from tracelab.errors import StoreError
from tracelab.foreign_text import escape_path
from tracelab.store.integrity import (
    PERMISSION_DENIED,
    DamagedRowError,
    TableFile,
    check_owner,
    mark_of,
    parse_manifest,
)

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
    def run(self) -> str:
        """The run that the file belongs to."""
        return run_of(self.path)

    @property
    def sentence(self) -> str:
        """The file, and what is wrong with it."""
        return f"{escape_path(self.path)} is {self.problem}"

    def repair_command(self, store: Path) -> str:
        """Return the command that stores the trace again."""
        trace = shlex.quote(self.trace) if self.trace else "TRACE"
        run = f" --run {self.run}" if self.names_run else ""
        return f"tracelab ingest {trace} --store {shlex.quote(escape_path(store))}{run}"


class DamagedStoreError(StoreError):
    """Committed files are missing, truncated or altered."""

    def __init__(self, store: Path, problems: Sequence[FileProblem]) -> None:
        first, others = problems[0], len(problems) - 1
        more = f", and {others:,} more files are missing or damaged (`tracelab doctor` lists them)" if others else ""
        super().__init__(f"{first.sentence}{more}; ingest its trace again: `{first.repair_command(store)}`")
        self.problems = tuple(problems)


@dataclass(frozen=True)
class SourceCheck:
    """The outcome for the sources of one commit. `recorded`: its row has sizes and hashes, as all but old ones have."""

    row_path: Path
    files: int = 0
    size_bytes: int = 0
    problems: tuple[FileProblem, ...] = ()
    recorded: bool = True
    sources: int = 1


def check_source(store: Path, run: str, source: str, *, hashes: bool = True) -> SourceCheck:
    """Compare the files of one commit, named by its source or part, with its row; without `hashes` compare sizes only.

    Reports no problem for a source that is not committed, or that another process replaces meanwhile.
    """
    row_path = store / "sources" / f"run={run}" / f"{source}.parquet"
    while (stamp := _stamp(row_path)) is not None:
        check = _check_committed(store, row_path, hashes=hashes)
        if not check.problems or _stamp(row_path) == stamp:
            return check
    return _check_lost(row_path)


def verify_sources(store: Path, row_paths: Sequence[Path]) -> list[SourceCheck]:
    """Read and hash every file of the sources whose rows these are."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda path: check_source(store, run_of(path), path.stem), row_paths))


def find_damaged_file(store: Path, cause: duckdb.Error | UnicodeDecodeError) -> FileProblem | None:
    """Return the first damaged file. Pages are read and hashed only if the error may come from one."""
    may_be_pages = type(cause) is duckdb.Error or _DAMAGED_PAGE.search(str(cause)) is not None
    for table in schema.TABLES:
        for path in sorted(store.glob(f"{table.name}/run=*/*.parquet")):
            try:
                with pq.ParquetFile(path) as file:
                    for _ in file.iter_batches() if may_be_pages else ():
                        pass
            except PermissionError as error:
                raise StoreError(f"{path} {PERMISSION_DENIED}") from error
            except (OSError, pa.ArrowException) as error:
                return _describe_damage(store, path, error)
    if not may_be_pages:
        return None
    checks = verify_sources(store, sorted(store.glob("sources/run=*/*.parquet")))  # what only DuckDB cannot read
    return next((problem for check in checks for problem in check.problems), None)


def parse_rows(content: bytes) -> list[dict[str, Any]]:
    """Parse the file of the rows of a commit, at least one. Raises DamagedRowError."""
    parse_manifest(content)
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            first, *others = file.read().to_pylist()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DamagedRowError(str(error).split("\n", 1)[0].rstrip(".")) from error
    return [first, *others]


def run_of(path: Path) -> str:
    """Return the run that a file of the store belongs to."""
    return path.parent.name.removeprefix("run=")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what differs once a file is replaced; None without a file."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise StoreError(f"{path} {PERMISSION_DENIED}") from error
    return status.st_ino, status.st_mtime_ns, status.st_size


def _check_lost(row_path: Path) -> SourceCheck:
    """Report the row of a committed source that is missing; a replacement removes the mark before the row."""
    mark = mark_of(row_path)
    stamp = _stamp(mark)
    if stamp is None or _stamp(row_path) is not None or _stamp(mark) != stamp:
        return SourceCheck(row_path)
    lost = FileProblem(row_path, "missing", _marked_trace(row_path), names_run=True)
    return SourceCheck(row_path, files=1, problems=(lost,))


def _marked_trace(row_path: Path) -> str | None:
    """Return the path of the trace of a committed source, without its row."""
    try:
        return mark_of(row_path).read_text(encoding="utf-8", errors="surrogateescape") or None
    except OSError:
        return None


def _check_committed(store: Path, row_path: Path, *, hashes: bool) -> SourceCheck:
    folder, name = row_path.parent.name, row_path.name

    def problem(path: Path, what: str, trace: str | None) -> FileProblem:
        return FileProblem(path, what, trace, len(list(store.glob(f"sources/run=*/{name}"))) > 1)

    try:
        content = row_path.read_bytes()
        manifest, rows = parse_manifest(content), parse_rows(content)
        trace = rows[0]["path"] if len(rows) == 1 else os.path.commonpath([row["path"] for row in rows])
        check_owner(manifest, row_path)
    except FileNotFoundError:
        return SourceCheck(row_path)
    except PermissionError as error:
        raise StoreError(f"{row_path} {PERMISSION_DENIED}") from error
    except (OSError, DamagedRowError) as error:
        cause = error.strerror if isinstance(error, OSError) else error
        return SourceCheck(row_path, 1, 0, (problem(row_path, f"damaged ({cause})", _marked_trace(row_path)),))
    if manifest is None:
        return SourceCheck(row_path, files=1, recorded=False)
    paths = {store / table / folder / name: file for table, file in manifest.files.items()}
    problems = tuple(
        problem(path, difference, trace)
        for path, file in paths.items()
        if (difference := _compare(path, file, hashes=hashes))
    )
    unlisted = tuple(
        problem(path, "unexpected (no ingest wrote it)", trace)
        for table in schema.BY_NAME.keys() - manifest.files.keys() - {"sources"}
        if os.path.lexists(path := store / table / folder / name)
    )
    problems += unlisted
    size_bytes = sum(file.size_bytes for file in paths.values())
    return SourceCheck(row_path, 1 + len(paths), size_bytes, problems, sources=len(rows))


def _compare(path: Path, file: TableFile, *, hashes: bool) -> str | None:
    """Return what is wrong with a file, as the end of "it is …"."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return "damaged (it is not a file)"
        size_bytes = status.st_size
        if size_bytes != file.size_bytes:
            return f"damaged ({size_bytes:,} bytes instead of {file.size_bytes:,})"
        if hashes and _hash_file(path) != file.sha256:
            return "altered (its SHA-256 differs from the recorded one)"
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except PermissionError as error:
        raise StoreError(f"{path} {PERMISSION_DENIED}") from error
    except OSError as error:
        return f"damaged ({error.strerror or error})"
    return None


def _hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _describe_damage(store: Path, path: Path, error: Exception) -> FileProblem:
    """Describe a file that cannot be read, with its trace where its source's row is undamaged."""
    problems = check_source(store, run_of(path), path.stem).problems
    trace = next((problem.trace for problem in problems), None)
    return FileProblem(path, f"damaged ({_first_line(error)})", trace, any(each.names_run for each in problems))


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".")
