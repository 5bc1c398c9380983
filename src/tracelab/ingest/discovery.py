"""The sources that paths, folders and patterns mean, and which reader each is for."""

import glob
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tracelab.errors import NothingToStoreError, NotProfilerDataError, SourceError, escape_path
from tracelab.ingest.hashing import files_of
from tracelab.readers.base import Probe, Reader
from tracelab.readers.decompress import read_head
from tracelab.readers.registry import folder_readers, readers

EXPORTS = {
    ".nsys-rep": (".sqlite", "_pqtdir"),
    ".qdrep": (".sqlite", "_pqtdir"),
    ".qdstrm": (".sqlite", "_pqtdir"),
    ".ncu-rep": (".ncu.csv",),
    ".ncu-repz": (".ncu.csv",),
}
"""By a report's suffix: what follows its name where it is exported beside it. Both are one recording."""

RUN, SWEEP, PRINTED = "run.json", "sweep.json", re.compile(r"rank\d+\.log")
"""Names in the folders of `tracelab collect`."""

Stamp = tuple[int, int]
"""Size and time of change of a source: when they differ, so may its content."""


@dataclass(frozen=True)
class Candidate:
    """A file, or a folder that is one source, that holds profiler data, and what its ends tell."""

    path: Path
    reader: Reader
    probe: Probe
    stamp: Stamp

    @property
    def size_bytes(self) -> int:
        """Size of the file, or of all files of the folder."""
        return self.stamp[0]


@dataclass(frozen=True)
class Refused:
    """A path that cannot be stored, and why; `readable` where it was read and holds no profiler data."""

    path: Path
    message: str
    readable: bool = False


def stamp(path: Path) -> Stamp:
    """Size and time of change of a file, now; of a folder the sum and the latest of its files."""
    statuses = [file.stat() for file in files_of(path)]
    return sum(status.st_size for status in statuses), max((status.st_mtime_ns for status in statuses), default=0)


def expand_paths(paths: Iterable[str | Path], store: Path) -> list[Path | Refused]:
    """The files meant, each once by its resolved path, in order; folders of the store itself are left out."""
    files: dict[Path, Path | Refused] = {}
    for given in paths:
        for item in _meant(given, store):
            path = item if isinstance(item, Path) else item.path
            files.setdefault(Path(os.path.realpath(path)), item)
    return list(files.values())


def probe_source(item: Path | Refused) -> Candidate | Refused:
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
        return Refused(item, f"{escape_path(item)}: {problem}")


def _looked_at(path: Path) -> Candidate | Refused:
    if path.is_dir():
        whole = next(reader for reader in folder_readers() if reader.is_source(path))
        return Candidate(path, whole, whole.probe_file(path), stamp(path))
    marked = stamp(path)
    if not path.is_file():
        return Refused(path, f"{escape_path(path)}: is no regular file")
    if marked[0] == 0:
        return Refused(path, f"{escape_path(path)}: the file is empty", readable=True)
    head = read_head(path)
    refusals: list[NotProfilerDataError] = []
    for reader in readers():
        if reader.sniff(head):
            try:
                return Candidate(path, reader, reader.probe_file(path), marked)
            except NothingToStoreError:
                raise
            except NotProfilerDataError as error:  # several formats begin alike: SQLite files of different tools
                refusals.append(error)
    if len(refusals) == 1:
        raise refusals[0]
    expected = " or ".join(reader.DESCRIPTION for reader in readers())
    return Refused(path, f"{escape_path(path)}: no format that tracelab reads; expected {expected}", readable=True)


def _meant(given: str | Path, store: Path) -> Iterator[Path | Refused]:
    path = Path(given)
    if os.path.isdir(path) and _is_source(path):  # noqa: PTH112 - pathlib's raises where a folder above is closed
        yield path
    elif os.path.isdir(path):  # noqa: PTH112
        yield from _inside(path, Path(os.path.realpath(store)))
    elif os.path.lexists(path) or not glob.has_magic(str(given)):
        yield path
    else:
        matches = sorted(glob.glob(str(given), recursive=True))  # noqa: PTH207 - pathlib's take no absolute patterns
        if not matches:
            yield Refused(path, f"{escape_path(path)}: no file matches this pattern")
        for match in matches:
            yield from _meant(match, store)


def _inside(folder: Path, store: Path) -> Iterator[Path | Refused]:
    """Everything in a folder, a folder that is one source as a whole; what may not be entered is told.

    Left out are reports whose export is there too, what `tracelab collect` writes for people to read, and files that
    are hidden: so are those that are being written.
    """
    closed: list[Refused] = []

    def refuse(error: OSError) -> None:
        where = Path(error.filename or folder)
        closed.append(Refused(where, f"{escape_path(where)}: {error.strerror}"))

    for root, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not _is_store(Path(root) / name, store))
        sources = [name for name in folders if _is_source(Path(root) / name)]
        yield from (Path(root) / name for name in sources)
        folders[:] = [name for name in folders if name not in sources]
        beside = {*files, *sources}
        meant = (name for name in sorted(files) if not name.startswith(".") and not _is_exported(name, beside))
        told = (Path(root) / name for name in meant if not _is_record(Path(root) / name, beside))
        yield from (path for path in told if path.is_file())
    yield from closed


def _is_exported(name: str, beside: Collection[str]) -> bool:
    """Whether this is a report, and its export stands beside it."""
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 - a name, no path
    return any(f"{stem}{end}" in beside for end in EXPORTS.get(suffix, ()))


def _is_record(path: Path, beside: Collection[str]) -> bool:
    """Whether this is what a rank of a run folder printed, or the list of a sweep's cells."""
    if path.name != SWEEP:
        return PRINTED.fullmatch(path.name) is not None and RUN in beside
    try:
        with path.open("rb") as file:
            return b'"tracelab": "sweep/' in file.read(64)
    except OSError:
        return False


def _is_source(folder: Path) -> bool:
    return any(reader.is_source(folder) for reader in folder_readers())


def _is_store(folder: Path, store: Path) -> bool:
    return Path(os.path.realpath(folder)) == store or ((folder / "sources").is_dir() and (folder / ".staging").is_dir())
