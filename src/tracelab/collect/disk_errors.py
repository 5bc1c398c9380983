"""A disk that is full, or a file that may grow no further: which one, in a sentence without anybody's path."""

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT)
_PROBE_BYTES = 64 << 10


@dataclass(frozen=True)
class WritePaths:
    """Where a run writes."""

    folder: Path
    """Its run folder, under --out."""
    scratch: Path
    """A folder of this node's own, under TMPDIR."""


@contextlib.contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Name the file in what goes wrong: a failed write does not say by itself where it was."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def missing_export_error(path: Path) -> OSError:
    """Why torch's exporter wrote no file, of which it says nothing; what it leaves beside goes, and gives room back."""
    import resource

    parts = list(path.parent.glob(f"{path.name}*"))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    reached = limit != resource.RLIM_INFINITY and any(part.stat().st_size >= limit for part in parts)
    for part in parts:
        part.unlink(missing_ok=True)
    number = errno.EFBIG if reached else errno.ENOSPC
    return OSError(number, os.strerror(number), str(path))


def describe_disk_error(error: OSError, places: WritePaths | None = None) -> str | None:
    """What is full and what to do; None where that is not what happened."""
    scratch = places is not None and _within(error.filename, places.scratch)
    folder = places is not None and _within(error.filename, places.folder)
    if error.errno == errno.EFBIG:
        what = (
            "a file in the scratch folder (TMPDIR)" if scratch else "a file in the run folder" if folder else "a file"
        )
        return f"{what} reached the limit on the size of files; raise it (ulimit -f) and run it again"
    if error.errno not in _FULL:
        return None
    if scratch:
        return (
            "the scratch disk (TMPDIR) is full, or the quota used up; make room there or set TMPDIR to another disk, "
            "and run it again"
        )
    what = "the disk of the run folder (--out)" if folder else "the disk"
    return f"{what} is full, or the quota used up; make room and run it again"


def describe_full_scratch(places: WritePaths) -> str | None:
    """The sentence where nothing can be written to the scratch folder: who is silent may have met that."""
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
