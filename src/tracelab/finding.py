"""The files that paths, folders and patterns mean, and which reader each is for."""

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tracelab.errors import NotProfilerDataError, SourceError, printable
from tracelab.readers.base import Glimpse, Reader
from tracelab.readers.registry import READERS
from tracelab.readers.unpack import unpacked_head

Stamp = tuple[int, int]
"""Size and time of change of a file: when they differ, so may its content."""


@dataclass(frozen=True)
class Candidate:
    """A file that holds profiler data, and what its ends tell."""

    path: Path
    reader: Reader
    glimpse: Glimpse
    stamp: Stamp

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return self.stamp[0]


@dataclass(frozen=True)
class Refused:
    """A path that cannot be stored, and why; `readable` where it was read and holds no profiler data."""

    path: Path
    message: str
    readable: bool = False


def stamp(path: Path) -> Stamp:
    """Size and time of change of a file, now."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def found(paths: Iterable[str | Path], store: Path) -> list[Path | Refused]:
    """The files meant, each once by its resolved path, in order; folders of the store itself are left out."""
    files: dict[Path, Path | Refused] = {}
    for given in paths:
        for item in _meant(given, store):
            path = item if isinstance(item, Path) else item.path
            files.setdefault(Path(os.path.realpath(path)), item)
    return list(files.values())


def looked_at(item: Path | Refused) -> Candidate | Refused:
    """Find out which reader a file is for."""
    if isinstance(item, Refused):
        return item
    try:
        return _looked_at(item)
    except NotProfilerDataError as error:
        return Refused(item, str(error), readable=True)
    except SourceError as error:
        return Refused(item, str(error))
    except OSError as error:
        problem = "no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        return Refused(item, f"{printable(item)}: {problem}")


def _looked_at(path: Path) -> Candidate | Refused:
    marked = stamp(path)
    if not path.is_file():
        return Refused(path, f"{printable(path)}: is no regular file")
    if marked[0] == 0:
        return Refused(path, f"{printable(path)}: the file is empty", readable=True)
    head = unpacked_head(path)
    for reader in READERS:
        if reader.sniff(head):
            return Candidate(path, reader, reader.glimpse(path), marked)
    expected = " or ".join(reader.WHAT for reader in READERS)
    return Refused(path, f"{printable(path)}: no format that tracelab reads; expected {expected}", readable=True)


def _meant(given: str | Path, store: Path) -> Iterator[Path | Refused]:
    path = Path(given)
    if os.path.isdir(path):  # noqa: PTH112 - pathlib's raises where a folder above may not be entered
        yield from _inside(path, Path(os.path.realpath(store)))
    elif os.path.lexists(path) or not glob.has_magic(str(given)):
        yield path
    else:
        matches = sorted(glob.glob(str(given), recursive=True))  # noqa: PTH207 - pathlib's take no absolute patterns
        if not matches:
            yield Refused(path, f"{printable(path)}: no file matches this pattern")
        for match in matches:
            yield from _meant(match, store)


def _inside(folder: Path, store: Path) -> Iterator[Path | Refused]:
    """Everything in a folder; what may not be entered is told."""
    closed: list[Refused] = []

    def refuse(error: OSError) -> None:
        where = Path(error.filename or folder)
        closed.append(Refused(where, f"{printable(where)}: {error.strerror}"))

    for root, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not _is_store(Path(root) / name, store))
        yield from (Path(root) / name for name in sorted(files) if (Path(root) / name).is_file())
    yield from closed


def _is_store(folder: Path, store: Path) -> bool:
    return Path(os.path.realpath(folder)) == store or ((folder / "sources").is_dir() and (folder / ".staging").is_dir())
