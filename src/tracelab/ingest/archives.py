"""Unpack tar and zip archives: members that a reader may read become local copies, with bounds on memory and disk."""

import io
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from tracelab.ingest.copies import Copies, DiskFullError, NoPathError
from tracelab.ingest.discovery import MEMBER_MARK
from tracelab.readers.decompress import ZIP_MAGIC, open_decompressed
from tracelab.readers.diagnostics import DiagnosticCounts

_MOST_MEMBERS = 100_000
_MOST_HEADER_BYTES = 1 << 20
"""The most that the name or the attributes of one member may take: tarfile reads them at once."""
_MOST_GLOBAL_BYTES = 1 << 12
"""The most that attributes of all members may take: tarfile copies them for each one."""
_MOST_HEADERS = 4
"""The most headers that may precede one member: tarfile calls itself for each."""
_MOST_DIRECTORY_BYTES = 64 << 20
"""The most that the list of members of a zip archive may take: zipfile reads it at once."""
_PIECE_BYTES = 1 << 16
"""How much is copied at a time: of a truncated member, the last piece is lost."""
_MOST_RATIO = 250
"""How many times its size an archive may unpack to. Traces reach some thirty, and gzip can reach a thousand."""
_ALWAYS_ALLOWED_BYTES = 256 << 20
_LONG_HEADERS = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
"""Of a zip archive's members. A header of LZMA may request gigabytes of memory."""


class ArchiveError(Exception):
    """Why an archive cannot be read on, with the remedy."""


class Refusal(NamedTuple):
    """Why a member was not read; `may_lose_data` where it could be of a profiler."""

    reason: str
    may_lose_data: bool


class Unpacked(NamedTuple):
    """Copies of the members of an archive, the names of those that were not read, and why reading ended early."""

    copies: Copies
    refused: dict[Refusal, list[str]]
    ended: str | None


_LINK = Refusal("links, devices or sparse files, which are not read", may_lose_data=False)
_NESTED = Refusal("archives in an archive; unpack the outer one to read them", may_lose_data=False)
_TWICE = Refusal("named twice or more, of which the last counts", may_lose_data=False)
_OUTSIDE = Refusal("named with paths that lead out of the archive; pack it with relative names", may_lose_data=True)
_NO_NAME = Refusal("named with paths that no file can have here; pack it with other names", may_lose_data=True)
_ENCRYPTED_MEMBER = Refusal("encrypted; unpack it with its password", may_lose_data=True)
_METHOD = Refusal("compressed with a method other than deflate and bzip2; unpack it", may_lose_data=True)
_CORRUPT = Refusal("corrupt, and kept up to the damage; copy the archive again", may_lose_data=True)

_TAR_ERRORS = (tarfile.TarError, RecursionError, ValueError, OverflowError, LookupError)
_ZIP_ERRORS = (
    *(zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error),
    *(OSError, ValueError, OverflowError, struct.error),
)
"""What the libraries raise for archives with wrong numbers: a wrong place in a zip is an OSError."""
_DAMAGED = "is truncated or damaged, and was read up to there; copy it again"

_Read = Callable[[], IO[bytes]]
_Member = tuple[str, _Read | Refusal]


def unpack(archive: Path, name: Path, folder: Path, is_wanted: Callable[[str], bool] = lambda _: True) -> Unpacked:
    """Copy the wanted members that a reader may read below `folder`; `name` is the absolute path that users know."""
    copies = Copies(folder, name.with_name(name.name + MEMBER_MARK))
    refused: dict[Refusal, list[str]] = {}
    ended = None
    try:
        for member, read in _iterate_members(archive):
            if not is_wanted(member):
                continue
            if refusal := read if isinstance(read, Refusal) else _copy_member(member, read, copies):
                refused.setdefault(refusal, []).append(member)
    except ArchiveError as error:
        ended = str(error)
    except DiskFullError:
        ended = "does not fit into half of the free disk for temporary files; unpack it, or set TMPDIR to a larger disk"
    if copies.archives:
        refused[_NESTED] = sorted(map(str, copies.archives))
    return Unpacked(copies, refused, ended)


def _copy_member(member: str, read: _Read, copies: Copies) -> Refusal | None:
    """Copy a member, or return why it was not read."""
    name = PurePosixPath(member)
    if name.is_absolute() or ".." in name.parts or "\0" in member or not name.parts:
        return _OUTSIDE
    if any(part.startswith(".") for part in name.parts):  # hidden, as in a folder
        return None
    is_second = name in copies.written
    try:
        with read() as file:
            copies.add(name, iter(lambda: file.read(_PIECE_BYTES), b""))
    except NoPathError:
        return _NO_NAME
    except _TAR_ERRORS as error:
        raise ArchiveError(_DAMAGED) from error
    except zipfile.BadZipFile:
        return _CORRUPT
    return _TWICE if is_second else None


def _iterate_members(archive: Path) -> Iterator[_Member]:
    with archive.open("rb") as file:
        is_zip = file.read(4) in ZIP_MAGIC
    for number, member in enumerate(_iterate_zip(archive) if is_zip else _iterate_tar(archive)):
        if number == _MOST_MEMBERS:
            raise ArchiveError(f"has more than {number:,} members, of which the others were not read; unpack it")
        yield member


class _Allowance:
    """Counts what an archive unpacks to. Raises ArchiveError where that is out of proportion to its size."""

    def __init__(self, archive: Path) -> None:
        self._left = max(_ALWAYS_ALLOWED_BYTES, _MOST_RATIO * archive.stat().st_size)

    def take(self, size_bytes: int) -> None:
        self._left -= size_bytes
        if self._left < 0:
            raise ArchiveError(f"unpacks to more than {_MOST_RATIO} times its size, and was read no further; unpack it")


class _CountedFile(io.RawIOBase):
    """A file of which no single read is large, and all together are within the allowance."""

    def __init__(self, file: IO[bytes] | io.RawIOBase, allowance: _Allowance) -> None:
        self._file, self._allowance = file, allowance

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - any writable buffer
        data = self._file.read(min(len(buffer), _PIECE_BYTES)) or b""
        self._allowance.take(len(data))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _ZipMember(_CountedFile):
    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401
        try:
            return super().readinto(buffer)
        except _ZIP_ERRORS as error:
            raise zipfile.BadZipFile(str(error)) from error


def _iterate_tar(archive: Path) -> Iterator[_Member]:
    """Yield the members of a tar archive, which must be read in this order."""
    diagnostics = DiagnosticCounts()
    stream = _CountedFile(open_decompressed(archive, diagnostics, lambda _: None), _Allowance(archive))
    headers = _make_header_class()
    try:
        with stream, tarfile.open(fileobj=io.BufferedReader(stream), mode="r|", tarinfo=headers) as tar:
            while (info := tar.next()) is not None:
                vars(tar)["members"].clear()  # else it keeps all that it has passed
                if not info.isdir():
                    is_plain = info.isreg() and not info.issparse()
                    yield info.name, partial(_open_tar_member, tar, info) if is_plain else _LINK
            if not headers.is_at_end:
                raise tarfile.ReadError("no end mark")
    except _TAR_ERRORS as error:
        raise ArchiveError(_DAMAGED) from error


def _open_tar_member(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(info)
    assert file is not None  # noqa: S101 - it is a regular file
    return file


def _make_header_class() -> Any:  # noqa: ANN401 - a class with a field of its own
    """Return a class of headers that are refused where they would take much memory."""

    class Header(tarfile.TarInfo):
        is_at_end = False
        before_member = 0
        global_bytes = 0

        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Any:  # noqa: ANN401
            cls.is_at_end = buf.count(0) == tarfile.BLOCKSIZE
            info = super().frombuf(buf, encoding, errors)
            if info.type not in _LONG_HEADERS:
                cls.before_member = 0
                return info
            cls.before_member += 1
            cls.global_bytes += info.size if info.type == tarfile.XGLTYPE else 0
            if (
                max(
                    info.size - _MOST_HEADER_BYTES,
                    cls.before_member - _MOST_HEADERS,
                    cls.global_bytes - _MOST_GLOBAL_BYTES,
                )
                > 0
            ):
                raise ArchiveError("has headers that are too long, and was read up to there; unpack it")
            return info

    return Header


class _DirectoryFile(io.FileIO):
    """A zip archive whose list of members may take a bounded size."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MOST_DIRECTORY_BYTES:
            raise ArchiveError("has a list of members that is too long; unpack it")
        return super().read(size) or b""


def _iterate_zip(archive: Path) -> Iterator[_Member]:
    allowance = _Allowance(archive)
    with _DirectoryFile(archive) as file:
        try:
            packed = zipfile.ZipFile(file)
        except _ZIP_ERRORS as error:
            raise ArchiveError("is a zip archive without its list of members; copy it again") from error
        for info in sorted(packed.infolist(), key=lambda info: info.header_offset):
            if not info.filename.endswith("/"):
                yield info.filename, _find_refusal(info) or partial(_open_zip_member, packed, info, allowance)


def _find_refusal(info: zipfile.ZipInfo) -> Refusal | None:
    if info.flag_bits & _ENCRYPTED:
        return _ENCRYPTED_MEMBER
    if info.compress_type not in _METHODS:
        return _METHOD
    return _LINK if stat.S_ISLNK(info.external_attr >> 16) else None


def _open_zip_member(packed: zipfile.ZipFile, info: zipfile.ZipInfo, allowance: _Allowance) -> IO[bytes]:
    try:
        return io.BufferedReader(_ZipMember(packed.open(info), allowance))
    except _ZIP_ERRORS as error:
        raise zipfile.BadZipFile(str(error)) from error
