"""Error messages for a full disk or a file size limit: the role of its folder, no path but that of a kept trace."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT)
_PROBE_BYTES = 64 << 10


@dataclass(frozen=True)
class WritePaths:
    """The folders a run writes to."""

    folder: Path
    """The run folder, under --out."""
    scratch: Path
    """A temporary folder of this node, under TMPDIR."""


class KeptTraceError(OSError):
    """A trace that does not fit on the disk of its target; `kept` is where it is instead."""

    kept: Path


@contextlib.contextmanager
def keep_where_full(source: Path, name: str) -> Iterator[None]:
    """Move a file out of the scratch folder, which is deleted, where the block finds a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in (*_FULL, errno.EFBIG):
            raise
        kept = source.replace(Path(tempfile.gettempdir()) / name)
        problem = KeptTraceError(error.errno, error.strerror, error.filename)
        problem.kept = kept
        raise problem from error


@contextlib.contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Add the file name to an OSError raised in the block: a failed write does not carry it."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def missing_export_error(path: Path) -> OSError:
    """Return the error for a trace that torch's exporter silently failed to write, and delete its partial files."""
    import resource

    if not path.parent.exists():
        return FileNotFoundError(errno.ENOENT, "the scratch folder (TMPDIR) was deleted while it was in use", str(path))
    parts = list(path.parent.glob(f"{path.name}*"))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    reached = limit != resource.RLIM_INFINITY and any(part.stat().st_size >= limit for part in parts)
    for part in parts:
        part.unlink(missing_ok=True)
    number = errno.EFBIG if reached else errno.ENOSPC
    return OSError(number, os.strerror(number), str(path))


def describe_disk_error(error: OSError, places: WritePaths | None = None) -> str | None:
    """Return what is full and what to do, or None for another error."""
    problem = _describe_full(error, places)
    if problem is not None and isinstance(error, KeptTraceError):
        return f"{problem}; or ingest the trace, which is kept as {error.kept}"
    return problem


def _describe_full(error: OSError, places: WritePaths | None) -> str | None:
    scratch = places is not None and _within(error.filename, places.scratch)
    folder = places is not None and _within(error.filename, places.folder)
    if error.errno == errno.EFBIG:
        problem = (
            "a file in the scratch folder (TMPDIR)" if scratch else "a file in the run folder" if folder else "a file"
        )
        return f"{problem} reached the file size limit; raise it (ulimit -f) and run again"
    if error.errno not in _FULL:
        return None
    if scratch:
        return (
            "the scratch disk (TMPDIR) is full or over quota; free space there or set TMPDIR to another disk, "
            "and run again"
        )
    own = f"the disk of {Path(os.fsdecode(str(error.filename))).name}" if error.filename is not None else "the disk"
    problem = "the disk of the run folder (--out)" if folder else own
    return f"{problem} is full or over quota; free space and run again"


def describe_full_scratch(places: WritePaths) -> str | None:
    """Return the error message if the scratch folder cannot be written: a rank without outcome may have hit that."""
    probe = places.scratch / ".probe"
    try:
        with name_file_in_errors(probe), probe.open("wb") as file:
            file.write(os.urandom(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return describe_disk_error(error, places)
    finally:
        probe.unlink(missing_ok=True)
    return None


def _within(name: object, folder: Path) -> bool:
    return name is not None and Path(os.fsdecode(str(name))).absolute().is_relative_to(folder.absolute())
