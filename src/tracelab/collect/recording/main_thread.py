"""Call a function on the main thread between two of its bytecodes: a profiler records the thread that starts it."""

import ctypes
import threading
from collections import deque
from collections.abc import Callable

_waiting: deque[Callable[[], None]] = deque()


def _call_waiting(_argument: int | None) -> int:
    while _waiting:
        _waiting.popleft()()
    return 0


_pending_call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_call_waiting)


def call_on_main_thread(function: Callable[[], None]) -> None:
    """Call at once on the main thread; from another one, as soon as the main thread executes Python again.

    A signal would reach it as well, but interrupt system calls of libraries. `function` must not raise.
    """
    if threading.current_thread() is threading.main_thread():
        function()
        return
    _waiting.append(function)
    ctypes.pythonapi.Py_AddPendingCall(_pending_call, None)
