"""Open files as streams of bytes, decompressing gzip and zstd; corrupt files keep every byte before the corruption."""

import io
import re
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from isal import isal_zlib

from tracelab.readers.diagnostics import DiagnosticCounts

if TYPE_CHECKING:
    import pyarrow as pa

GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
_USTAR = slice(257, 262)
_ZSTD_MAGIC = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
"""How a frame of zstd begins, or one that decoders skip: parallel compressors put it first."""
_COMPRESSED_CHUNK_BYTES = 1 << 20
_SALVAGED_BYTES = 1 << 14
"""How much of a corrupt member is decompressed at once: it can become a thousand times larger."""
_SALVAGED_ZSTD_BYTES = 1 << 10
"""How much of a corrupt zstd file is returned at once: the last such piece is lost."""
_CHUNK_BYTES = 4 << 20
_CHUNKS_AHEAD = 4
_FIRST_BYTES = 1 << 18
SNIFF_BYTES = 1 << 16  # the program's own output may precede the text of a profiler by some screens
_GzipError = cast("type[Exception]", isal_zlib.error)  # isal's stub declares no exception
_GZIP_WINDOW_BITS = 31  # zlib's window bits for a gzip member
_MAGIC_BYTES = 4

_Decompressor = Callable[[Path, DiagnosticCounts, Callable[[int], None]], Iterator[bytes]]


def is_compressed(path: Path) -> bool:
    """Return whether a file begins like one of gzip or zstd; a folder does not."""
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return _find_decompressor(file.read(_MAGIC_BYTES)) is not None


def read_head(path: Path) -> bytes:
    """Return the first SNIFF_BYTES of the content, decompressed."""
    with open_decompressed(path, DiagnosticCounts(), lambda _: None) as stream:
        return bytes(read_chunk(stream, SNIFF_BYTES))


def is_archive(head: bytes) -> bool:
    """Return whether decompressed content that begins with `head` is a tar or zip archive."""
    if head.startswith(ZIP_MAGIC):
        return True
    if head[_USTAR] != b"ustar":
        return False
    import tarfile  # here, because few ingests need it

    try:
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True


def open_decompressed(path: Path, diagnostics: DiagnosticCounts, progress: Callable[[int], None]) -> io.RawIOBase:
    """Open the content of a file as a stream, decompressed; damage ends the stream and is noted in `diagnostics`.

    `progress` is called with the number of bytes read from the file, before decompression.
    """
    with path.open("rb") as file:
        decompress = _find_decompressor(file.read(_MAGIC_BYTES))
    if decompress is None:
        return _ProgressFile(path, progress)
    return _ChunkStream(_run_on_thread(decompress(path, diagnostics, progress)))


def _find_decompressor(head: bytes) -> "_Decompressor | None":
    if head.startswith(GZIP_MAGIC):
        return _gunzip
    return _decompress_zstd if _ZSTD_MAGIC.match(head) else None


class _ProgressFile(io.FileIO):
    """A file that reports how much of it was read."""

    def __init__(self, path: Path, progress: Callable[[int], None]) -> None:
        super().__init__(path)
        self._progress = progress

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - any writable buffer
        count = super().readinto(buffer) or 0
        self._progress(count)
        return count


class _ChunkStream(io.RawIOBase):
    """A stream over an iterator of chunks."""

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
        count = min(len(self._left), len(buffer))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def read_chunk(stream: io.RawIOBase, size: int, before: bytes | bytearray = b"") -> bytearray:
    """Return the bytes before, and up to `size` more from the stream; at its end only the bytes before."""
    buffer = bytearray(before)
    end = len(before) + size
    while (filled := len(buffer)) < end:
        buffer += bytes(min(end - filled, max(filled, _FIRST_BYTES)))  # in steps, for new bytes are cleared
        now = read_into(stream, buffer, filled, len(buffer) - filled)
        if now < len(buffer):
            del buffer[now:]
            break
    return buffer


def read_into(stream: io.RawIOBase, buffer: bytearray | memoryview, start: int, size: int) -> int:
    """Read up to `size` bytes into a buffer at `start`; return where they end."""
    filled = start
    with memoryview(buffer) as view:
        while filled < start + size and (count := stream.readinto(view[filled : start + size])):
            filled += count
    return filled


def _run_on_thread(chunks: Iterator[bytes]) -> Generator[bytes]:
    """Yield the chunks that are not empty, computed some ahead on a thread of their own.

    isal leaves the upper halves of a thread's vector registers in use. Other code that uses the lower halves (SSE) then
    runs at a tenth of its speed on that thread (measured on an Intel Xeon of 2023).
    """
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decompress")
    nonempty = filter(None, chunks)
    try:
        results = deque(thread.submit(next, nonempty, b"") for _ in range(_CHUNKS_AHEAD))
        while chunk := results.popleft().result():
            yield chunk
            results.append(thread.submit(next, nonempty, b""))
    finally:
        thread.shutdown(cancel_futures=True)


def _gunzip(path: Path, diagnostics: DiagnosticCounts, progress: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the content of all members, at most a chunk at a time."""
    with path.open("rb") as file:

        def read_more() -> bytes:
            data = file.read(_COMPRESSED_CHUNK_BYTES)
            progress(len(data))
            return data

        compressed = read_more()
        while compressed:
            if not compressed.startswith(GZIP_MAGIC[: len(compressed)]):
                if compressed.strip(b"\0"):
                    diagnostics.note("compressed_trailing", f"{len(compressed)} bytes or more after the last member")
                return
            member_start, yielded = file.tell() - len(compressed), 0
            member = isal_zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
            while compressed and not member.eof:
                try:
                    data = member.decompress(compressed, _CHUNK_BYTES)
                except _GzipError as error:
                    diagnostics.note("compressed_broken", error)
                    yield from _salvage(path, member_start, yielded)
                    return
                yielded += len(data)
                if data:
                    yield data
                compressed = member.unused_data if member.eof else member.unconsumed_tail or read_more()
            if not member.eof:
                diagnostics.note("compressed_cut_off", "the last member has no end")
                yield member.flush()
                return
            compressed = compressed or read_more()


def _salvage(path: Path, member_start: int, skip: int) -> Iterator[bytes]:
    """Yield what a corrupt member holds after the first `skip` bytes, to the last byte before the corruption.

    isal's decompressor drops the output of the call that fails. zlib's can be copied, so that ever smaller steps
    approach the corruption to the byte.
    """
    with path.open("rb") as file:
        file.seek(member_start)
        member, step = zlib.decompressobj(_GZIP_WINDOW_BITS), _SALVAGED_BYTES
        while step and (compressed := file.read(step)):
            attempt = member.copy()
            try:
                data = attempt.decompress(compressed)
            except zlib.error:
                file.seek(-len(compressed), 1)
                step = len(compressed) // 2
                continue
            member = attempt
            yield data[skip:]
            skip = max(0, skip - len(data))


def _decompress_zstd(path: Path, diagnostics: DiagnosticCounts, progress: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the content of all frames, at most a chunk at a time."""
    yielded, seen = 0, 0
    with path.open("rb") as file, _open_frames(file) as stream:
        try:
            while data := stream.read(_CHUNK_BYTES):
                progress(file.tell() - seen)
                yielded, seen = yielded + len(data), file.tell()
                yield data
        except OSError as error:
            diagnostics.note(*_describe_zstd_error(error))
        else:
            return
    yield from _salvage_zstd(path, yielded)


def _open_frames(file: io.BufferedReader) -> "pa.CompressedInputStream":
    import pyarrow as pa  # here, because hashing starts with this module, before Arrow's memory pool is chosen

    return pa.CompressedInputStream(file, "zstd")


def _describe_zstd_error(error: OSError) -> tuple[str, str]:
    """Return the code of a diagnostic, and its sample. Raises an error of the operating system."""
    if error.errno is not None:
        raise error
    problem = str(error)
    if "Truncated" in problem:
        return "compressed_cut_off", "the last frame has no end"
    if "Unknown frame descriptor" in problem:
        return "compressed_trailing", "it begins like no frame of zstd"
    return "compressed_broken", problem


def _salvage_zstd(path: Path, skip: int) -> Iterator[bytes]:
    """Yield what is before the corruption, after the first `skip` bytes: the call that fails returns nothing."""
    with path.open("rb") as file, _open_frames(file) as stream, suppress(OSError):
        while skip:
            skip -= len(stream.read(min(skip, _CHUNK_BYTES)))
        while data := stream.read(_SALVAGED_ZSTD_BYTES):
            yield data
