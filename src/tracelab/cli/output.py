"""Where an answer goes: stdout or a file, in the format that was asked for."""

import os
import shutil
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click
import pyarrow as pa

from tracelab.errors import TracelabError, UsageError
from tracelab.output import writers
from tracelab.output.formats import SUFFIXES

MOST_ROWS_ON_A_TERMINAL = 500


@dataclass(frozen=True)
class Output:
    """The output options of one command; made before the work, so that a wrong one costs no waiting."""

    fmt: str
    path: Path | None
    force: bool

    @classmethod
    def of(cls, fmt: str | None, path: Path | None, *, force: bool) -> "Output":
        """Settle the format, and refuse what cannot be written."""
        if path == Path("-"):
            path = None
        if path is not None:
            check_writable(path, force=force)
        chosen = fmt or (_default() if path is None else _by_suffix(path))
        if chosen == "parquet" and path is None and _is_terminal():
            raise UsageError("parquet is no text for a terminal; write it to a file with -o FILE.parquet")
        return cls(chosen, path, force)

    def emit(self, table: pa.Table) -> None:
        """Write the answer, and say so where it went into a file."""
        if self.path is not None:
            written_whole(self.path, lambda stream: writers.write(table, self.fmt, stream), force=self.force)
        elif _is_terminal() and self.fmt == "table":
            shown = table.slice(0, MOST_ROWS_ON_A_TERMINAL)
            width = shutil.get_terminal_size().columns
            writers.write(shown, "table", _stdout(), width=width, color=not os.environ.get("NO_COLOR"))
            if shown.num_rows < table.num_rows:
                told = f"{shown.num_rows} of {table.num_rows:,} rows; --format csv or -o FILE gives all"
                click.echo(told, err=True)
        else:
            columns = os.environ.get("COLUMNS", "").lstrip("0")
            writers.write(table, self.fmt, _stdout(), width=int(columns) if columns.isdecimal() else None)


def check_writable(path: Path, *, force: bool) -> None:
    """Refuse to overwrite without `force`, and to write where there is no folder or a closed one."""
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise TracelabError(f"there is no folder {path.parent} that you may write to; make one, or name another")
    if path.exists() and not path.is_file():
        raise TracelabError(f"{path} is no regular file; leave -o out and redirect stdout to it")
    if path.exists() and not force:
        raise TracelabError(f"{path} exists; add --force to overwrite it")


def written_whole(path: Path, write: Callable[[BinaryIO], None], *, force: bool) -> None:
    """Write a file aside and move it into place, so that it is there whole or not at all; then say so."""
    aside = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex[:8]}")
    try:
        with aside.open("wb") as stream:
            write(stream)
        check_writable(path, force=force)
        aside.replace(path)
    except OSError as error:
        raise TracelabError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # where nothing could be written nothing can be removed
            aside.unlink(missing_ok=True)
    click.echo(f"Wrote {path}", err=True)


def _by_suffix(path: Path) -> str:
    try:
        return SUFFIXES[path.suffix.lower()]
    except KeyError as error:
        known = ", ".join(SUFFIXES)
        raise UsageError(f"{path}: no format has this suffix; use one of {known}, or name a --format") from error


def _default() -> str:
    return "table" if _is_terminal() else "csv"


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _stdout() -> BinaryIO:
    sys.stdout.flush()
    return sys.stdout.buffer
