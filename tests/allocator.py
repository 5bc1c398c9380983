"""The memory allocator of the processes of a test run: jemalloc, where it is installed.

DuckDB allocates some hundred thousand small objects to plan a query, and glibc takes a quarter of the time for them.
Only the processes that pytest-xdist starts have another allocator: what a test starts has the one that users have.
"""

import ctypes.util
import os

_PRELOAD = "LD_PRELOAD"
_OPTIONS = "MALLOC_CONF"
_KEEP_FREED = "dirty_decay_ms:-1,muzzy_decay_ms:-1"
"""Freed memory stays with a process: to return it and to have it again takes 6 % of the time."""


def use_in_workers() -> None:
    """Let processes that this one starts allocate by jemalloc, which Debian has as libjemalloc2."""
    if not os.environ.get(_PRELOAD) and (found := ctypes.util.find_library("jemalloc")):
        os.environ[_PRELOAD] = found
        os.environ.setdefault(_OPTIONS, _KEEP_FREED)


def leave_to_workers() -> None:
    """In such a process: start others with the allocator that they would have anyway."""
    if "jemalloc" in os.environ.get(_PRELOAD, ""):
        del os.environ[_PRELOAD]
        if os.environ.get(_OPTIONS) == _KEEP_FREED:
            del os.environ[_OPTIONS]
