"""Memory for a piece of a trace."""

import mmap


class Room:
    """Holds one piece after another."""

    def __init__(self) -> None:
        self._bytes: mmap.mmap | None = None

    def bytes(self, size: int) -> mmap.mmap:
        """Bytes to write into, at least so many; what they held is gone."""
        if self._bytes is None or len(self._bytes) < size:
            self._bytes = mmap.mmap(-1, size)
        return self._bytes
