"""A file's content as a stream of bytes: as it stands, or unpacked; of a damaged gzip file what can be unpacked."""

import io
import mmap
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from isal import isal_zlib

from tracelab.readers.diagnostics import DiagnosticCounts

GZIP_MAGIC = b"\x1f\x8b"
_PACKED_BYTES = 1 << 20
_UNPACKED_BYTES = 4 << 20
_CHUNKS_AHEAD = 4
_FIRST_BYTES = 1 << 18
SNIFF_BYTES = 1 << 16  # a text may begin with screens of its program's own output
_Broken = cast("type[Exception]", isal_zlib.error)  # isal's stub declares no exception
_GZIP = 31  # zlib's window bits for a gzip member


def is_gzip(path: Path) -> bool:
    """Whether the file begins as a gzip member does."""
    with path.open("rb") as file:
        return file.read(2) == GZIP_MAGIC


def read_head(path: Path) -> bytes:
    """The first bytes of the content."""
    with open_decompressed(path, DiagnosticCounts(), lambda _: None) as stream:
        return bytes(read_chunk(stream, SNIFF_BYTES))


def open_decompressed(path: Path, diagnostics: DiagnosticCounts, progress: Callable[[int], None]) -> io.RawIOBase:
    """The file's content as a stream; of a damaged gzip file what can be unpacked.

    `progress` is told of the bytes read, as they stand in the file.
    """
    if is_gzip(path):
        return _Chunks(_apart(_gunzipped(path, diagnostics, progress)))
    return _Watched(path, progress)


class _Watched(io.FileIO):
    """A file that tells how much of it was read."""

    def __init__(self, path: Path, progress: Callable[[int], None]) -> None:
        super().__init__(path)
        self._progress = progress

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - any writable buffer
        taken = super().readinto(buffer) or 0
        self._progress(taken)
        return taken


class _Chunks(io.RawIOBase):
    """An iterator of chunks as a stream."""

    def __init__(self, chunks: Generator[bytes]) -> None:
        self._chunks = chunks
        self._left = memoryview(b"")

    def close(self) -> None:
        self._chunks.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - any writable buffer
        if not self._left:
            self._left = memoryview(next(self._chunks, b""))
        taken = min(len(self._left), len(buffer))
        buffer[:taken] = self._left[:taken]
        self._left = self._left[taken:]
        return taken


def read_chunk(stream: io.RawIOBase, size: int, before: bytes | bytearray = b"") -> bytearray:
    """The next bytes of a stream, behind those given; what was given alone at the end of the stream."""
    buffer = bytearray(before)
    end = len(before) + size
    while (filled := len(buffer)) < end:
        buffer += bytes(min(end - filled, max(filled, _FIRST_BYTES)))  # what is made room for is also cleared
        now = read_into(stream, buffer, filled, len(buffer) - filled)
        if now < len(buffer):
            del buffer[now:]
            break
    return buffer


def read_into(stream: io.RawIOBase, buffer: bytearray | mmap.mmap, start: int, size: int) -> int:
    """Read `size` bytes, or what there is, into a buffer; where in it they end."""
    filled = start
    with memoryview(buffer) as view:
        while filled < start + size and (taken := stream.readinto(view[filled : start + size])):
            filled += taken
    return filled


def _apart(chunks: Iterator[bytes]) -> Generator[bytes]:
    """The same chunks, none of them empty, made by a thread of their own, a few ahead.

    isal leaves the upper halves of a thread's vector registers in use. Other code that takes the lower ones (SSE) runs
    at a tenth of its speed on such a thread, as measured on an Intel Xeon of 2023.
    """
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="unpack")
    full = filter(None, chunks)
    try:
        made = deque(thread.submit(next, full, b"") for _ in range(_CHUNKS_AHEAD))
        while chunk := made.popleft().result():
            yield chunk
            made.append(thread.submit(next, full, b""))
    finally:
        thread.shutdown(cancel_futures=True)


def _gunzipped(path: Path, diagnostics: DiagnosticCounts, progress: Callable[[int], None]) -> Iterator[bytes]:
    """The content of all members, none of it longer than a chunk at a time."""
    with path.open("rb") as file:

        def more() -> bytes:
            data = file.read(_PACKED_BYTES)
            progress(len(data))
            return data

        packed = more()
        while packed:
            if not packed.startswith(GZIP_MAGIC[: len(packed)]):
                if packed.strip(b"\0"):
                    diagnostics.note("gzip_trailing", f"{len(packed)} bytes or more behind the last member")
                return
            member_start, given = file.tell() - len(packed), 0
            member = isal_zlib.decompressobj(wbits=_GZIP)
            while packed and not member.eof:
                try:
                    data = member.decompress(packed, _UNPACKED_BYTES)
                except _Broken as error:
                    diagnostics.note("gzip_broken", error)
                    yield from _until_break(path, member_start, given)
                    return
                given += len(data)
                if data:
                    yield data
                packed = member.unused_data if member.eof else member.unconsumed_tail or more()
            if not member.eof:
                diagnostics.note("gzip_cut_off", "the last member has no end")
                yield member.flush()
                return
            packed = packed or more()


def _until_break(path: Path, member_start: int, given: int) -> Iterator[bytes]:
    """What a broken member still holds behind the `given` bytes, to the last byte before the break.

    isal's decompressor drops the output of the call that fails; zlib's can be copied, so ever smaller steps get
    as near to the break as there is.
    """
    with path.open("rb") as file:
        file.seek(member_start)
        member, step = zlib.decompressobj(_GZIP), _PACKED_BYTES
        while step and (packed := file.read(step)):
            attempt = member.copy()
            try:
                data = attempt.decompress(packed)
            except zlib.error:
                file.seek(-len(packed), 1)
                step = len(packed) // 2
                continue
            member = attempt
            yield data[given:]
            given = max(0, given - len(data))
