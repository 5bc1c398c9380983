"""Write results to stdout or a file in the chosen format."""

import fcntl
import glob
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import click
import pyarrow as pa

from tracelab.errors import TracelabError, UsageError
from tracelab.foreign_text import TerminalStream, escape_path, print_lines
from tracelab.output.formats import SUFFIXES

TERMINAL_ROWS = 500
TEXT_WIDTH_IN_A_PIPE = 100
_WIDEST_TEXT = 110
_NAME_LENGTH, _PART_SUFFIX = 100, ".tracelab-part"


@dataclass(frozen=True)
class Output:
    """Output options of one command, checked before the query runs."""

    fmt: str
    path: Path | None
    force: bool
    show: tuple[str, ...] | None = None
    """The columns that a table has, empty for the first ones; None: all."""
    terminal_rows: int = TERMINAL_ROWS

    @classmethod
    def of(cls, fmt: str | None, path: Path | None, *, force: bool, piped: str = "csv") -> "Output":
        """Choose the format; `piped` is that of a pipe.

        Raises UsageError or TracelabError for a target that cannot be written.
        """
        if path == Path("-"):
            path = None
        if path is not None:
            check_writable(path, force=force)
        chosen = fmt or (_default_format(piped) if path is None else _format_of_suffix(path))
        if chosen == "parquet" and path is None and _is_terminal():
            raise UsageError("refusing to write binary Parquet to a terminal; use -o FILE.parquet")
        return cls(chosen, path, force)

    def emit(self, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Write the rows to the file, or to stdout; a table on a terminal has the first rows only."""
        try:
            self._write(rows)
        except pa.ArrowNotImplementedError as error:
            problem = f"{self.fmt} has no form for a value of this answer ({error}); cast it to text"
            raise TracelabError(problem) from error

    def _write(self, rows: pa.Table | pa.RecordBatchReader) -> None:
        from tracelab.output import writers
        from tracelab.output.first_rows import take_first

        if self.path is not None:
            write_atomically(
                self.path, lambda stream: writers.write(rows, self.fmt, stream, show=self.show), force=self.force
            )
        elif _is_terminal() and self.fmt == "table":
            first, has_more = take_first(rows, self.terminal_rows)
            width = shutil.get_terminal_size().columns
            color = not os.environ.get("NO_COLOR")
            writers.write(first, "table", _stdout(), width=width, color=color, show=self.show)
            if has_more:
                total = f" of {rows.num_rows:,}" if isinstance(rows, pa.Table) else ""
                summary = f"The first {first.num_rows:,}{total} rows; --format csv or -o FILE writes all rows."
                print_lines(summary, err=True)
        else:
            columns = os.environ.get("COLUMNS", "").lstrip("0")
            stream = _stdout_for(self.fmt)
            piped_width = int(columns) if columns.isdecimal() else None
            writers.write(rows, self.fmt, stream, width=piped_width, show=self.show)


def check_writable(path: Path, *, force: bool) -> None:
    """Raise TracelabError for an existing file without `force`, and for a missing or unwritable folder."""
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise TracelabError(f"no writable folder {path.parent}; create it, or choose another")
    if path.exists() and not path.is_file():
        raise TracelabError(f"{path} is not a regular file; omit -o and redirect stdout to it")
    if path.exists() and not force:
        raise TracelabError(f"{path} exists; add --force to overwrite it")


def write_atomically(path: Path, write: Callable[[BinaryIO], None], *, force: bool) -> None:
    """Write a file atomically: aside first, then moved into place; then print its path."""
    _delete_abandoned_parts(path)
    aside = None
    try:
        aside, stream = _create_locked_part(path)
        with stream:
            write(stream)
            stream.flush()
            check_writable(path, force=force)
            aside.replace(path)
    except OSError as error:
        raise TracelabError(f"{path} is not writable: {error.strerror or error}") from error
    finally:
        if aside is not None:
            with suppress(OSError):  # the folder may be read-only
                aside.unlink(missing_ok=True)
    print_lines(f"Wrote {escape_path(path)}", err=True)


def _create_locked_part(path: Path) -> tuple[Path, BinaryIO]:
    """Create the file that becomes `path`, with a lock that ends with the process: others delete unlocked ones."""
    while True:
        part = path.with_name(f".{path.name[:_NAME_LENGTH]}.{uuid.uuid4().hex[:8]}{_PART_SUFFIX}")
        stream = part.open("xb")
        with suppress(OSError):  # a file system without locks: no writer deletes the file of another one
            fcntl.flock(stream, fcntl.LOCK_EX)
        if os.fstat(stream.fileno()).st_nlink:
            return part, stream
        stream.close()  # another writer took it for abandoned, before it was locked


def _delete_abandoned_parts(path: Path) -> None:
    """Delete what killed processes of this user left of files with this name."""
    for part in path.parent.glob(glob.escape(f".{path.name[:_NAME_LENGTH]}.") + f"*{_PART_SUFFIX}"):
        with suppress(OSError):  # locked: a process is writing it
            handle = os.open(part, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.getuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    part.unlink()
            finally:
                os.close(handle)


def _format_of_suffix(path: Path) -> str:
    try:
        return SUFFIXES[path.suffix.lower()]
    except KeyError as error:
        known = ", ".join(SUFFIXES)
        raise UsageError(f"{path}: no format has this suffix; use {known}, or name a --format") from error


def _default_format(piped: str) -> str:
    return "table" if _is_terminal() else piped


def text_width() -> int:
    """Return the width of text for people: the terminal's, else $COLUMNS, else 100."""
    if sys.stdout.isatty():
        return min(shutil.get_terminal_size().columns, _WIDEST_TEXT)
    columns = os.environ.get("COLUMNS", "").lstrip("0")
    return int(columns) if columns.isdecimal() else TEXT_WIDTH_IN_A_PIPE


def emit_lines(answer: Output, lines: Callable[[int], Iterable[str]]) -> None:
    """Write text of a width to stdout, or to the file of `answer`."""
    if answer.path is None:
        for line in lines(text_width()):
            click.echo(line)
        return
    text = "".join(f"{line}\n" for line in lines(TEXT_WIDTH_IN_A_PIPE))
    write_text(answer.path, text, force=answer.force)


def write_text(path: Path, text: str, *, force: bool) -> None:
    """Write a text file atomically, in UTF-8."""

    def write(stream: BinaryIO) -> None:
        stream.write(text.encode())

    write_atomically(path, write, force=force)


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _stdout_for(fmt: str) -> BinaryIO:
    """Return stdout for a data format: exact in a pipe or file, escaped on a terminal."""
    stream = _stdout()
    return cast("BinaryIO", TerminalStream(stream, quotes_cells=fmt.startswith("csv"))) if _is_terminal() else stream


def _stdout() -> BinaryIO:
    sys.stdout.flush()
    return sys.stdout.buffer
