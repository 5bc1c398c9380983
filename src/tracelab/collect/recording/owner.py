"""Run a profiler's calls on the thread that started it: Kineto keeps its state there, and crashes in any other."""

import contextlib
import ctypes
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

_WAKING_SIGNAL = signal.SIGURG
"""Signal that wakes a main thread that waits for another one; ignored by default, so one too many does no harm."""
_PENDING_S = 0.2
"""Time in which a main thread that executes Python calls what is pending."""
_BEGIN_S = 5.0
"""Time in which the owner begins a call, in seconds."""


class _Call:
    """A call that waits for its thread."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._claim = threading.Lock()
        self._done = threading.Event()

    def claim(self) -> bool:
        """Return whether this thread may run or withdraw the call: one does."""
        return self._claim.acquire(blocking=False)

    def run(self) -> None:
        """Call the function, unless the call was withdrawn."""
        if self.claim():
            try:
                self._function()
            finally:
                self._done.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end of the call."""
        return self._done.wait(seconds)


class Owner:
    """The thread that a recording runs on; `on_end` is called there before it ends."""

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        self._on_end = on_end
        self._thread: threading.Thread | None = None
        self._ended: set[int] = set()
        self._waiting: deque[_Call] = deque()
        self._holding: set[int] = set()
        """Threads that no call of another one may interrupt now."""

    def take(self) -> None:
        """Make this thread the owner."""
        thread: Any = threading.current_thread()
        self._thread = thread
        if thread is not threading.main_thread() and id(thread) not in self._ended and hasattr(thread, "_delete"):
            self._ended.add(id(thread))
            delete = thread._delete

            def end_and_delete() -> None:  # the last call of a thread in each Python from 3.11 on
                with contextlib.suppress(Exception):
                    self.run_waiting()
                    self._on_end()
                self._ended.discard(id(thread))
                delete()

            thread._delete = end_and_delete

    @property
    def is_current(self) -> bool:
        """Whether this thread is the owner."""
        return self._thread is threading.current_thread()

    @property
    def name(self) -> str:
        """Name of the owner."""
        return self._thread.name if self._thread is not None else "no thread"

    @property
    def is_held(self) -> bool:
        """Whether this thread is within a block of `hold`."""
        return threading.get_ident() in self._holding

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Have calls of other threads wait for the end of the block: it changes what they change, too."""
        own = threading.get_ident()
        self._holding.add(own)
        try:
            yield
        finally:
            self._holding.discard(own)
            self.run_waiting()

    def run_waiting(self) -> None:
        """Run the calls of other threads, in the owner."""
        while self.is_current and self._waiting and not self.is_held:
            with contextlib.suppress(IndexError):
                self._waiting.popleft().run()

    def call(self, function: Callable[[], None]) -> bool:
        """Call a function on the owner and wait for it; return False if the owner does not begin with it in time.

        A main thread is interrupted for it; another one calls `run_waiting` at its next step, or ends. `function` must
        not raise.
        """
        if self._thread is None or self.is_current:
            function()
            return True
        call = _Call(function)
        self._waiting.append(call)
        if self._thread is threading.main_thread():
            call_on_main_thread(self.run_waiting)
            if not call.wait(_PENDING_S):
                wake_main_thread()
        until = time.monotonic() + _BEGIN_S
        while not call.wait(0.05):
            if time.monotonic() > until and call.claim():
                return False
        return True


_pending: deque[Callable[[], None]] = deque()
_pending_lock = threading.Lock()
_scheduled = threading.Event()
"""Set while the main thread will call, or is calling, what is pending.

A second call is not scheduled meanwhile: where a debugger traces the program, Python 3.11 would wait for it forever.
"""


def _call_pending(_argument: int | None) -> int:
    while True:
        with _pending_lock:
            if not _pending:
                _scheduled.clear()
                return 0
            function = _pending.popleft()
        try:
            function()
        except Exception:  # noqa: BLE001  it would become a SystemError at any place of the program
            traceback.print_exc()


_pending_call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_call_pending)


def call_on_main_thread(function: Callable[[], None]) -> None:
    """Call at once on the main thread; from another one, as soon as the main thread executes Python again.

    A signal would reach it as well, but interrupt system calls of libraries. `function` must not raise.
    """
    if threading.current_thread() is threading.main_thread():
        function()
        return
    with _pending_lock:
        _pending.append(function)
        if _scheduled.is_set():
            return
        _scheduled.set()
    if ctypes.pythonapi.Py_AddPendingCall(_pending_call, None):  # too many calls of others wait; a later one is tried
        _scheduled.clear()


def allow_waking() -> None:
    """Have the signal handled that wakes the main thread; call it on that thread."""
    if signal.getsignal(_WAKING_SIGNAL) is signal.SIG_DFL:
        signal.signal(_WAKING_SIGNAL, lambda _number, _frame: None)


def wake_main_thread() -> None:
    """Interrupt a main thread that waits for a lock, as in Thread.join, so that it calls what is pending."""
    main = threading.main_thread().ident
    if main is not None and signal.getsignal(_WAKING_SIGNAL) not in (signal.SIG_DFL, signal.SIG_IGN, None):
        signal.pthread_kill(main, _WAKING_SIGNAL)
