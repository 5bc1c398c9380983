"""Start the command line with Ctrl-C handled from its first import on, and with all three standard streams."""

import os
import sys

from tracelab.interrupts import handle_early_interrupts


def run() -> None:
    """Run the command line."""
    handle_early_interrupts()
    open_closed_streams()
    from tracelab.cli import run as run_command_line

    run_command_line()


def open_closed_streams() -> None:
    """Open the null device for standard streams that the caller has closed: else a file gets the number of one."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is the stream's
            os.set_inheritable(number, True)  # noqa: FBT003
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))
