"""Save a recording before `os._exit` ends the process, as scripts do whose libraries hang in their destructors."""

import contextlib
import os
import threading
from collections.abc import Callable
from typing import NoReturn

from tracelab import temp_folders

_LIMIT_S = 60.0
"""Time that saving may take: a program may call `os._exit` because a GPU hangs."""


def call_before_os_exit(save: Callable[[int], None]) -> Callable[[], None]:
    """Have `os._exit` call a function with the exit code first; a forked child does not.

    Returns a function that ends this.
    """
    exit_now, pid = os._exit, os.getpid()

    def save_and_exit(status: int) -> NoReturn:
        if pid == os.getpid():
            with contextlib.suppress(Exception):
                limit = threading.Timer(_LIMIT_S, exit_now, (status,))
                limit.daemon = True
                limit.start()
                save(status)
                temp_folders.delete_process_folder()
        exit_now(status)

    def undo() -> None:
        if os._exit is save_and_exit:
            os._exit = exit_now

    os._exit = save_and_exit
    return undo
