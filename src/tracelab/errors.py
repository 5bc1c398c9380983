"""The errors that tracelab raises on purpose: one sentence each, with what is wrong, where, and what to do."""

import difflib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from tracelab.foreign_text import escape_path


class TracelabError(Exception):
    """An expected failure; the command line prints its text and exits with `exit_code`."""

    exit_code = 1


class UsageError(TracelabError):
    """The request itself is wrong: an unknown name, a bad value, a statement that is refused."""

    exit_code = 2


class NoDataError(TracelabError):
    """The request is valid, but the store or the file has no data for it."""

    exit_code = 3


class StoreError(TracelabError):
    """The store cannot be read or written."""


class ReaderBugError(TracelabError):
    """A reader breaks its contract, independently of the file."""


class SchemaMismatchError(ReaderBugError):
    """A reader wrote rows that do not fit the schema: a bug in the reader, for any content of the file."""

    def __init__(self, table: str, column: str | None, problem: str) -> None:
        super().__init__(f"table {table!r} {problem}" if column is None else f"column {table}.{column} {problem}")
        self.table = table
        self.column = column


class SourceError(TracelabError):
    """One input file cannot be read."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{escape_path(path)}: {problem}")
        self.path = path
        self.problem = problem


class ChangedSourceError(SourceError):
    """The file has changed while it was read."""


class ReaderCrashError(SourceError):
    """A reader raised an error that its contract does not name."""


class NotProfilerDataError(SourceError):
    """The file can be read, but no profiler wrote it."""

    exit_code = 3


class NothingToStoreError(NotProfilerDataError):
    """The format is certain, and such a file holds nothing to store; no other reader is tried."""


def suggest_name(kind: str, name: str, known: Sequence[str]) -> str:
    """Return the error message for an unknown name, with the nearest known one."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}."
    return f"no {kind} {name!r}; {hint}"


def suggest_close(prefix: str, name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean '…'?)` for the known name that is nearest to the given one; empty where none is near."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f" (did you mean {prefix + near[0]!r}?)" if near else ""


def is_interrupt(error: BaseException) -> bool:
    """Whether this is Ctrl-C: as Python raises it, or as DuckDB 2.0.0 does where it works on the main thread."""
    return isinstance(error, KeyboardInterrupt) or (type(error) is RuntimeError and str(error) == "Query interrupted")


def wants_tracebacks() -> bool:
    """Whether the user sets TRACELAB_TRACEBACK, to see the traceback of every reported error."""
    return bool(os.environ.get("TRACELAB_TRACEBACK"))
