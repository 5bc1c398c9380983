"""Exit on Ctrl-C in one line; imports next to nothing, so that it can be ready before anything else is imported."""

import _signal  # type: ignore[import-not-found]  # signal would import enum and re, and Ctrl-C in them print a traceback
import os

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def handle_early_interrupts() -> None:
    """Exit on Ctrl-C until another handler replaces this one; an ignored signal stays ignored."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, exit_interrupted)


def exit_interrupted(_number: int, _frame: object) -> None:
    """Exit without an exception: an import may abort on one, or replace it by another with a traceback."""
    os.write(2, b"tracelab: interrupted\n")
    os._exit(INTERRUPTED)
