"""Open files as streams of bytes, decompressing gzip; corrupt gzip files keep every byte before the corruption."""

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
_COMPRESSED_CHUNK_BYTES = 1 << 20
_SALVAGED_BYTES = 1 << 14
"""How much of a corrupt member is decompressed at once: it can become a thousand times larger."""
_CHUNK_BYTES = 4 << 20
_CHUNKS_AHEAD = 4
_FIRST_BYTES = 1 << 18
SNIFF_BYTES = 1 << 16  # the program's own output may precede the text of a profiler by some screens
_GzipError = cast("type[Exception]", isal_zlib.error)  # isal's stub declares no exception
_GZIP_WINDOW_BITS = 31  # zlib's window bits for a gzip member


def is_gzip(path: Path) -> bool:
    """Whether the file begins like a gzip member."""
    with path.open("rb") as file:
        return file.read(2) == GZIP_MAGIC


def read_head(path: Path) -> bytes:
    """Return the first SNIFF_BYTES of the content, decompressed."""
    with open_decompressed(path, DiagnosticCounts(), lambda _: None) as stream:
        return bytes(read_chunk(stream, SNIFF_BYTES))


def open_decompressed(path: Path, diagnostics: DiagnosticCounts, progress: Callable[[int], None]) -> io.RawIOBase:
    """Open the content of a file as a stream, decompressed; damage ends the stream and is noted in `diagnostics`.

    `progress` is called with the number of bytes read from the file, before decompression.
    """
    if is_gzip(path):
        return _ChunkStream(_run_on_thread(_gunzip(path, diagnostics, progress)))
    return _ProgressFile(path, progress)


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


def read_into(stream: io.RawIOBase, buffer: bytearray | mmap.mmap, start: int, size: int) -> int:
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
                    diagnostics.note("gzip_trailing", f"{len(compressed)} bytes or more after the last member")
                return
            member_start, yielded = file.tell() - len(compressed), 0
            member = isal_zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
            while compressed and not member.eof:
                try:
                    data = member.decompress(compressed, _CHUNK_BYTES)
                except _GzipError as error:
                    diagnostics.note("gzip_broken", error)
                    yield from _salvage(path, member_start, yielded)
                    return
                yielded += len(data)
                if data:
                    yield data
                compressed = member.unused_data if member.eof else member.unconsumed_tail or read_more()
            if not member.eof:
                diagnostics.note("gzip_cut_off", "the last member has no end")
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
