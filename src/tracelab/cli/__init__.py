"""The command line: one module a verb, imported when the verb is used; `tracelab --help` imports none of them."""

import gc
import os
import sys
import threading

from tracelab.cli.group import main

__all__ = ["main", "run"]

_OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Imports make a hundred thousand objects and leave none to collect; Python would look for some 150 times."""


def run() -> None:
    """Run the command line as a process of its own, which ends at once when its verb has.

    Python would take apart all that was imported, 0.05 s where DuckDB and Arrow are among it; a verb has closed its
    files and removed its folders by then. Torch and threads may have more to do, so they are left to end in their way.
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    try:
        main(prog_name="tracelab")
    except SystemExit as ended:
        if isinstance(ended.code, str) or "torch" in sys.modules or threading.active_count() > 1:
            raise
        sys.stderr.flush()
        os._exit(ended.code or 0)
