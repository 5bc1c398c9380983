"""Local copies of members of archives and of objects at URLs, and the names by which users know them.

A copy lies below the folder of its ingest under the path of what it was taken from, so that its own path has its name:
`/data/job.tar!/rank0.json` for a member, `s3://bucket/job/rank0.json` for an object.
"""

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from tracelab.readers.base import iterate_readers
from tracelab.readers.decompress import is_archive, read_head

_HEAD_BYTES = 1 << 17
"""Enough for readers to recognize a member; the rest of one that none accepts is not read."""

_NO_PATH = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EINVAL)


class DiskFullError(Exception):
    """The copies would take more than half of what was free for temporary files."""


class NoPathError(Exception):
    """A name cannot be the path of a file here."""


def copy_path(folder: Path, name: Path) -> Path:
    """Return the path of the copy with a name, which is absolute or the path form of a URL."""
    return folder / str(name).lstrip("/")


class Copies:
    """Writes copies of the members of one archive or the objects of one URL; lists those that no reader accepts."""

    def __init__(self, folder: Path, origin: Path) -> None:
        self.root = copy_path(folder, origin)
        self.root.mkdir(parents=True, exist_ok=True)
        self._least_free_bytes = shutil.disk_usage(folder).free // 2
        self.written: set[PurePosixPath] = set()
        self.rejected: set[PurePosixPath] = set()
        self.archives: set[PurePosixPath] = set()

    def add(self, name: PurePosixPath, chunks: Iterator[bytes], *, may_be_archive: bool = False) -> None:
        """Write a copy if a reader accepts its beginning. Raises DiskFullError, NoPathError and errors of `chunks`.

        What was copied before an error of `chunks` stays, as of a file that is cut off.
        """
        path = self.root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("wb")
        except OSError as error:
            if error.errno in _NO_PATH:
                raise NoPathError(str(name)) from error
            raise
        self.written.add(name)
        refused_as = None
        try:
            with file:
                refused_as = self._write(file, chunks, may_be_archive=may_be_archive)
        finally:
            if refused_as is not None or path.stat().st_size == 0:
                path.unlink()
                self.written.discard(name)
        if refused_as is not None:
            refused_as.add(name)

    def _write(self, file: BinaryIO, chunks: Iterator[bytes], *, may_be_archive: bool) -> set[PurePosixPath] | None:
        """Write the chunks, or only the first ones of a file that is not read; return the list that it belongs to."""
        head_bytes = 0
        for chunk in chunks:
            self._check_disk()
            file.write(chunk)
            head_bytes += len(chunk)
            if head_bytes >= _HEAD_BYTES:
                break
        file.flush()
        path = Path(file.name)
        head = read_head(path)
        if is_archive(head) and not may_be_archive:
            return self.archives
        if not is_archive(head) and not _may_be_read(path, head):
            return self.rejected
        for chunk in chunks:
            self._check_disk()
            file.write(chunk)
        return None

    def _check_disk(self) -> None:
        if shutil.disk_usage(self.root).free < self._least_free_bytes:
            raise DiskFullError


def _may_be_read(path: Path, head: bytes) -> bool:
    """Return whether a reader accepts the beginning of a file, or may take it as part of a folder of Parquet files."""
    return path.suffix == ".parquet" or any(reader.sniff(head) for reader in iterate_readers(head))
