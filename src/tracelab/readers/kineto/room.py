"""Memory for a piece of a trace that is a file too: DuckDB reads what was read into it, and no copy of that."""

import contextlib
import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

FIRST = 1
"""Where a piece begins: before it stands the bracket of a JSON array."""


class Room:
    """Holds one piece after another: written at `FIRST` of its bytes, then closed to be a JSON array in a file."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self.path = path
        self._descriptor = descriptor
        self._bytes: mmap.mmap | None = None

    def bytes(self, size: int) -> mmap.mmap:
        """Bytes to write into, enough for a piece of this size and its brackets; what they held is gone."""
        size += 2 * FIRST
        if self._bytes is None or len(self._bytes) < size:
            os.ftruncate(self._descriptor, size)
            self._bytes = mmap.mmap(self._descriptor, size)
        else:
            os.ftruncate(self._descriptor, len(self._bytes))
        return self._bytes

    def closed(self, end: int) -> memoryview:
        """The piece that ends there; with brackets around it, it is now the file's content."""
        assert self._bytes is not None  # noqa: S101 - it was written into
        self._bytes[0:FIRST], self._bytes[end : end + 1] = b"[", b"]"
        os.ftruncate(self._descriptor, end + 1)
        return memoryview(self._bytes)[FIRST:end]


@contextlib.contextmanager
def room() -> Iterator[Room]:
    """A file in memory, where the system has such, and gone with the process; else one that is removed at the end."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tracelab")
        try:
            yield Room(descriptor, Path(f"/proc/self/fd/{descriptor}"))
        finally:
            os.close(descriptor)
    else:
        with tempfile.TemporaryDirectory(prefix="tracelab-") as folder:
            path = Path(folder) / "piece.json"
            with path.open("w+b") as file:
                yield Room(file.fileno(), path)
