"""Map large memory, and set how much freed memory the C library keeps: glibc returns the pages of each large block."""

import ctypes
import mmap
import sys
from contextlib import suppress
from typing import Any

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt()."""
_LARGEST_MMAP_THRESHOLD = 32 << 20
"""Where glibc's own threshold for mapping memory ends up once memory of this size was freed."""
USUALLY_KEPT_BYTES = 2 * _LARGEST_MMAP_THRESHOLD
"""How much freed memory glibc itself keeps by then."""


def map_memory(size: int) -> mmap.mmap:
    """Return cleared memory of this process alone, in pages of 2 MB where Linux has them.

    Thousands of small pages take longer to set up than to fill.
    """
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return mmap.mmap(-1, size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # the kernel has none
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def keep_freed_memory(most_bytes: int) -> bool:
    """Keep so much freed memory for what this process allocates next; return whether the C library can."""
    libc = _find_glibc()
    if libc is None:
        return False
    libc.mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    libc.mallopt(_M_TRIM_THRESHOLD, most_bytes)
    return True


def return_freed_memory(kept_bytes: int = 0) -> None:
    """Return the pages of freed memory to the system, but for so many bytes."""
    if (libc := _find_glibc()) is not None:
        libc.malloc_trim(kept_bytes)


def _find_glibc() -> Any:  # noqa: ANN401
    """Return the C library, None where it is another one."""
    libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
