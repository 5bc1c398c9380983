"""Free a forked child of the state of its parent's profiler, whose threads it lacks."""

import ctypes
import threading
from typing import Any

_open: list[int] = []
"""The thread of this process that a profiler of its parent still records, if there is one."""


def leave_profiler(torch: Any) -> None:  # noqa: ANN401  torch carries no types here
    """Leave a profiler that has been started in the parent of this process to the parent.

    To end it takes as long as to save it, so it only stops to record: most children are data loading processes.
    """
    _skip_exit_handlers()
    if torch._C._autograd._profiler_enabled():
        torch._C._autograd._enable_record_function(False)  # noqa: FBT003
        _open[:] = [threading.get_ident()]


def end_inherited_profiler(torch: Any) -> None:  # noqa: ANN401
    """End the profiler of the parent, so that this process can start one."""
    if _open == [threading.get_ident()]:
        _open.clear()
        torch._C._autograd._disable_profiler()
        torch._C._autograd._enable_record_function(True)  # noqa: FBT003


def _skip_exit_handlers() -> None:
    """Have this process end without the destructors of C++ libraries, with its own exit code.

    That of Kineto waits forever for a thread that only the parent has (torch 2.13). The functions are glibc's, which
    calls them after Python has ended, the last one first.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):
        libc.on_exit(libc._exit, None)
        libc.__cxa_atexit(libc.fflush, None, None)
