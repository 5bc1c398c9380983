"""Save a recording before SIGTERM ends its process, where the program does not handle that signal itself."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from tracelab import temp_folders
from tracelab.collect.recording.owner import allow_waking

_LIMIT_S = 3.0
"""Time until the main thread executes Python again, and can save the recording."""
_RETRY_S = 0.1
STUCK = "a library did not return after SIGTERM"
"""Why the main thread could not save."""
_installed: list["Termination"] = []


class Termination:
    """The handler of SIGTERM in this process; a forked child has the default one."""

    def __init__(self, save: Callable[[], None], *, is_busy: Callable[[], bool], give_up: Callable[[], None]) -> None:
        self._save = save
        self._is_busy = is_busy
        """Whether the signal interrupts saving: then the process ends when that has finished."""
        self._give_up = give_up
        """Called on a thread where the main thread is in a library and cannot handle the signal."""
        self._pid = os.getpid()
        self._begun = threading.Event()
        self._pipe: int | None = None

    def install(self) -> None:
        """Handle SIGTERM from here on; call it on the main thread."""
        allow_waking()
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        read, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        signal.signal(signal.SIGTERM, self._handle)
        before = signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
        threading.Thread(target=self._watch, args=(read,), name="tracelab-end", daemon=True).start()
        _installed.append(self)

    def remove(self) -> None:
        """Have SIGTERM end the process as before, unless the program has changed that meanwhile."""
        if self not in _installed:
            return
        _installed.remove(self)
        with contextlib.suppress(ValueError):  # not the main thread
            if signal.getsignal(signal.SIGTERM) == self._handle:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            other = signal.set_wakeup_fd(-1)
            if other not in (-1, self._pipe):
                signal.set_wakeup_fd(other)
        if self._pipe is not None:
            os.close(self._pipe)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._begun.set()
        if self._is_busy():
            threading.Timer(_RETRY_S, os.kill, (self._pid, signal.SIGTERM)).start()
            return
        self._save()
        temp_folders.delete_process_folder()  # a signal skips the functions of atexit
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(self._pid, signal.SIGTERM)

    def _watch(self, pipe: int) -> None:
        """End the process where its main thread does not: as without this handler."""
        while number := os.read(pipe, 1):
            if number[0] != signal.SIGTERM or self._pid != os.getpid():
                continue
            if not self._begun.wait(_LIMIT_S):
                self._give_up()
                temp_folders.delete_process_folder()
                os.kill(self._pid, signal.SIGKILL)
        os.close(pipe)


def _remove_all() -> None:
    while _installed:
        _installed[-1].remove()


os.register_at_fork(after_in_child=_remove_all)
