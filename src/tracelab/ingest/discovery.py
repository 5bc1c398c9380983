"""Expand input paths into source files, pick a reader for each, and hash them."""

import glob
import hashlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tracelab import temp_folders
from tracelab.allocator import map_memory
from tracelab.errors import NothingToStoreError, NotProfilerDataError, SourceError
from tracelab.foreign_text import escape_path
from tracelab.readers.base import (
    Probe,
    Reader,
    iterate_folder_readers,
    iterate_readers,
    list_source_files,
    report_crashes,
)
from tracelab.readers.decompress import is_archive, read_head

if TYPE_CHECKING:
    from tracelab.readers import kineto, ncu, nsys, nvprof, run_folder
    from tracelab.readers.base import FolderReader

    _CHECKED_READERS: tuple[Reader, ...] = (run_folder, ncu, kineto, nvprof, nsys)
    _CHECKED_FOLDER_READERS: tuple[FolderReader, ...] = (nsys,)

EXPORT_SUFFIXES = {
    ".nsys-rep": (".sqlite", "_pqtdir"),
    ".qdrep": (".sqlite", "_pqtdir"),
    ".qdstrm": (".sqlite", "_pqtdir"),
    ".ncu-rep": (".ncu.csv",),
    ".ncu-repz": (".ncu.csv",),
}
"""By a report's suffix: what follows its stem in the name of its export. Both are one recording."""

RUN_JSON, SWEEP_JSON, REQUEST, RANK_LOG = "run.json", "sweep.json", "record", re.compile(r"rank\d+\.log")
"""Names in the folders that `tracelab collect` writes."""

_GPU_CHECK_JSON = frozenset({"checks.json", "facts.json"})
_GPU_CHECK = _GPU_CHECK_JSON | {"checks.md"}
"""What `make gpu-check` writes beside its recordings."""

FileStamp = tuple[int, int]
"""Size and modification time of a source: when they differ, so may its content."""

MEMBER_MARK = "!"
"""Ends the name of an archive in the path of a member."""

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")

_HASH_BLOCK_BYTES = 4 << 20
_EARLY_HASH_BLOCK_BYTES = 32 << 20
"""Large, because after each block the thread waits until importing threads release the interpreter."""

_FILES_AT_ONCE = 8
"""Files that are probed or hashed at a time: on a file system in a network, each waits."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_started_hashes: dict[Path, "Future[str]"] = {}


@dataclass(frozen=True)
class Candidate:
    """A source with profiler data, a file or a folder as a whole, with its reader and its probe."""

    path: Path
    """Where its bytes are; `original_path` returns what that is a copy of."""
    reader: Reader
    probe: Probe
    stamp: FileStamp

    @property
    def size_bytes(self) -> int:
        """Size of the file, or of all files of the folder."""
        return self.stamp[0]


@dataclass(frozen=True)
class Refused:
    """A path that cannot be stored, with the reason; `readable` where the file was read and holds no profiler data."""

    path: Path
    message: str
    readable: bool = False
    files: int = 1
    """How many files, members or objects the reason is about."""


@dataclass(frozen=True)
class Archive:
    """A file whose members are sources."""

    path: Path


def stamp_file(path: Path) -> FileStamp:
    """Return size and modification time of a file; for a folder the sum and the latest of its files."""
    statuses = [file.stat() for file in list_source_files(path)]
    return sum(status.st_size for status in statuses), max((status.st_mtime_ns for status in statuses), default=0)


def discover(
    paths: Iterable[str | Path], store: Path | str, copies_folder: Callable[[], Path]
) -> list[Candidate | Refused]:
    """Return the sources that files, folders, patterns and URLs refer to, and why other paths are refused.

    Members of archives and objects at URLs are copied below the folder that `copies_folder` creates.
    """
    arguments: list[str | Path | Refused] = []
    for path in paths:
        if isinstance(path, str) and "://" in path:
            from tracelab.ingest.inputs import copy_objects

            arguments.extend(copy_objects(path, copies_folder()))
        else:
            arguments.append(path)
    sources: list[Candidate | Refused] = []
    for probed in map_files(probe_source, expand_paths(arguments, store)):
        if isinstance(probed, Archive):
            from tracelab.ingest.inputs import probe_members

            sources.extend(probe_members(probed.path, store, copies_folder()))
        else:
            sources.append(probed)
    return sources


def expand_paths(paths: Iterable[str | Path | Refused], store: Path | str) -> list[Path | Refused]:
    """Return the sources that files, folders and patterns refer to, in order, without the store's own folders.

    Each source occurs once, by its resolved path.
    """
    sources: dict[Path, Path | Refused] = {}
    for argument in paths:
        for item in [argument] if isinstance(argument, Refused) else _expand_path(argument, store):
            path = item if isinstance(item, Path) else item.path
            sources.setdefault(Path(os.path.realpath(path)), item)
    return list(sources.values())


def probe_source(item: Path | Refused) -> Candidate | Archive | Refused:
    """Pick the reader for a source, or return why there is none; an archive has sources of its own."""
    if isinstance(item, Refused):
        return item
    try:
        return _find_reader(item)
    except NotProfilerDataError as error:
        return Refused(item, str(error), readable=True)
    except SourceError as error:
        return Refused(item, str(error))
    except OSError as error:
        problem = "no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        return Refused(item, f"{escape_path(item)}: {problem}")


def _find_reader(path: Path) -> Candidate | Archive | Refused:
    if path.is_dir():
        folder_reader = next(reader for reader in iterate_folder_readers() if reader.is_source(path))
        with report_crashes(folder_reader, path):
            return Candidate(path, folder_reader, folder_reader.probe_file(path), stamp_file(path))
    stamp = stamp_file(path)
    if not path.is_file():
        return Refused(path, f"{escape_path(path)}: is no regular file")
    if stamp[0] == 0:
        return Refused(path, f"{escape_path(path)}: the file is empty", readable=True)
    head = read_head(path)
    if is_archive(head):
        return Archive(path)
    refusals: list[NotProfilerDataError] = []
    for reader in iterate_readers(head):
        try:
            with report_crashes(reader, path):
                if reader.sniff(head):
                    return Candidate(path, reader, reader.probe_file(path), stamp)
        except NothingToStoreError:
            raise
        except NotProfilerDataError as error:  # several formats begin alike: SQLite files of different tools
            refusals.append(error)
    if len(refusals) == 1:
        raise refusals[0]
    return Refused(path, f"{escape_path(path)}: unknown format; expected {_list_formats()}", readable=True)


def _list_formats() -> str:
    *others, last = (reader.DESCRIPTION for reader in iterate_readers())
    return f"{', '.join(others)}, or {last}"


def _expand_path(argument: str | Path, store: Path | str) -> Iterator[Path | Refused]:
    path = Path(argument)
    if os.path.isdir(path) and _is_source_folder(path):  # noqa: PTH112 - pathlib's raises where a folder above is closed
        yield path
    elif os.path.isdir(path):  # noqa: PTH112
        sources = list(_walk_folder(path, Path(os.path.realpath(store)) if isinstance(store, Path) else None))
        problem = f"{escape_path(path)}: no file to read; expected {_list_formats()}"
        yield from sources or [Refused(path, problem, readable=True)]
    elif os.path.lexists(path) or not glob.has_magic(str(argument)):
        yield path
    else:
        matches = sorted(glob.glob(str(argument), recursive=True))  # noqa: PTH207 - pathlib's take no absolute patterns
        if not matches:
            yield Refused(path, f"{escape_path(path)}: no file matches this pattern")
        for match in matches:
            yield from _expand_path(match, store)


def _walk_folder(folder: Path, store: Path | None) -> Iterator[Path | Refused]:
    """Yield every source in a folder, a folder that is one source as a whole; folders without permission are refused.

    It leaves out reports whose export is there too, what `tracelab collect` writes for people to read, and hidden
    files and folders: a run that still records keeps traces there, and files that are being written have such names.
    """
    refused: list[Refused] = []

    def refuse(error: OSError) -> None:
        path = Path(error.filename or folder)
        refused.append(Refused(path, f"{escape_path(path)}: {error.strerror}"))

    for root, folders, files in os.walk(folder, onerror=refuse):
        visible_folders = (name for name in folders if not name.startswith("."))
        folders[:] = sorted(name for name in visible_folders if not _is_store(Path(root) / name, store))
        sources = [name for name in folders if _is_source_folder(Path(root) / name)]
        yield from (Path(root) / name for name in sources)
        folders[:] = [name for name in folders if name not in sources]
        siblings = {*files, *sources}
        visible = (name for name in sorted(files) if not name.startswith(".") and not _has_export(name, siblings))
        paths = (
            Path(root) / name
            for name in visible
            if not (is_for_people(name, siblings) or _is_sweep_list(Path(root) / name))
        )
        yield from (path for path in paths if path.is_file())
    yield from refused


def _has_export(name: str, siblings: Collection[str]) -> bool:
    """Whether this is a report whose export is in the same folder."""
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 - a name, no path
    return any(f"{stem}{end}" in siblings for end in EXPORT_SUFFIXES.get(suffix, ()))


def is_for_people(name: str, siblings: Collection[str]) -> bool:
    """Whether this is by its name a rank's output or a request in a run folder, or a result of `make gpu-check`."""
    if name in _GPU_CHECK:
        return _GPU_CHECK_JSON.issubset(siblings)
    return RUN_JSON in siblings and (name == REQUEST or RANK_LOG.fullmatch(name) is not None)


def _is_sweep_list(path: Path) -> bool:
    """Whether this is the list of a sweep's cells."""
    if path.name != SWEEP_JSON:
        return False
    try:
        with path.open("rb") as file:
            return b'"tracelab": "sweep/' in file.read(64)
    except OSError:
        return False


def _is_source_folder(folder: Path) -> bool:
    return any(reader.is_source(folder) for reader in iterate_folder_readers())


def _is_store(folder: Path, store: Path | None) -> bool:
    from tracelab.store.commit_log import FOLDER  # here, because it imports Arrow, before which hashing starts

    return Path(os.path.realpath(folder)) == store or ((folder / "sources").is_dir() and (folder / FOLDER).is_dir())


def map_files(function: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """Apply a function to files, several at a time: it waits for the disk, or hashes."""
    if len(items) < 2:  # noqa: PLR2004
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(len(items), _FILES_AT_ONCE)) as pool:
        return list(pool.map(function, items))


def start_hashing(path: Path) -> None:
    """Start to hash a large file on a thread of its own; `hash_source` waits for it.

    Hashing takes a tenth of an ingest, and runs beside the imports.
    """
    future: Future[str] = Future()
    _started_hashes[path] = future

    def work() -> None:
        try:
            future.set_result(_hash(path, _EARLY_HASH_BLOCK_BYTES))
        except OSError as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()


def hash_source(path: Path) -> str:
    """Return the SHA-256 of a source, in hex."""
    future = _started_hashes.pop(path, None)
    return future.result() if future else _hash(path)


def _hash(path: Path, block_bytes: int = _HASH_BLOCK_BYTES) -> str:
    if path.is_dir():
        return _hash_folder(path)
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        size_bytes = os.fstat(file.fileno()).st_size + 1
        block = memoryview(bytearray(size_bytes) if size_bytes < block_bytes else map_memory(block_bytes))
        while size := file.readinto(block):
            digest.update(block[:size])
    return digest.hexdigest()


def _hash_folder(folder: Path) -> str:
    """Return the SHA-256 over the lines `<SHA-256>  <name>` of its files by name, as sha256sum prints them."""
    lines = (f"{_hash(file)}  ".encode() + os.fsencode(file.name) + b"\n" for file in list_source_files(folder))
    return hashlib.sha256(b"".join(lines)).hexdigest()


@contextmanager
def copies_folder() -> Iterator[Callable[[], Path]]:
    """Yield a function that creates the folder for the copies of one ingest; it is deleted at the end."""
    created: list[Path] = []

    def create() -> Path:
        if not created:
            created.append(temp_folders.new_path("inputs"))
            created[0].mkdir()
        return created[0]

    try:
        yield create
    finally:
        for folder in created:
            shutil.rmtree(folder, ignore_errors=True)


def original_path(path: Path) -> Path:
    """Return the path, or path form of a URL, from which a file was copied; that of any other file unchanged."""
    match = _pattern().match(str(path))
    if match is None:
        return path
    return Path(f"{match['scheme'] or ''}/{str(path)[match.end() :]}")


def resolve_original(path: Path) -> Path:
    """Return the path, or path form of a URL, from which a file was copied; that of any other file without links."""
    original = original_path(path)
    return path.resolve() if original is path else original


def name_originals(text: str) -> str:
    """Replace the paths of copies in a message by the paths and URLs from which they were copied."""
    return _pattern().sub(lambda match: f"{match['scheme']}//" if match["scheme"] else "/", text)


def _pattern() -> re.Pattern[str]:
    """Match the beginning of a copy's path, and the scheme of a URL with its slash."""
    root = re.escape(escape_path(Path(tempfile.gettempdir())))
    return re.compile(rf"{root}/\.?tracelab-[^/\s]+/inputs-\d+/(?:(?P<scheme>{_SCHEME.pattern})/)?")
