"""Detect files of nvprof by content: prefixes of its lines, tables of its database."""

import contextlib
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tracelab.errors import NotProfilerDataError
from tracelab.readers import decompress
from tracelab.readers.base import Probe
from tracelab.readers.diagnostics import DiagnosticCounts, rank_from_name
from tracelab.readers.nvprof import read_database, sqlite_scan
from tracelab.readers.nvprof.activity_mapping import PREFIX
from tracelab.readers.nvprof.table_layout import parse_header
from tracelab.readers.text_lines import decode_head, detect_encoding, iter_blocks, split_lines
from tracelab.temp_folders import process_folder

DESCRIPTION = "nvprof's database or printed result"
_SEARCHED_BYTES = 64 << 20
_OWN = re.compile(
    r"""(?:^"?|[^"'])==\d+== """
    r"(?:NVPROF is profiling|Profiling (?:application|result)|Generated result file|[A-Z]\w* result:)"
)
"""A quote begins a line of a table; behind one elsewhere is a literal of a program that prints such lines."""
_TIMED = ("KERNEL", "CONCURRENT_KERNEL", "MEMCPY", "RUNTIME", "DRIVER")


def sniff(head: bytes) -> bool:
    """Return whether the content may be of nvprof: an SQLite file, its lines, or long output before them."""
    if head.startswith(sqlite_scan.MAGIC):
        return True
    text = decode_head(head)
    if _has_own_line(split_lines(text)):
        return True
    is_text = detect_encoding(head)[0] != "utf-8" or b"\0" not in head
    return is_text and len(head) >= decompress.SNIFF_BYTES and text.lstrip()[:1] not in ("{", "[")


def probe_file(path: Path) -> Probe:
    """Look for nvprof's tables or lines. Raises NotProfilerDataError."""
    if is_database(path):
        with as_file(path, DiagnosticCounts()) as file, closing(sqlite_scan.open_database(file)) as con:
            read_database.list_tables(path, con)
    elif not _has_own_lines(path):
        raise NotProfilerDataError(path, f"no profiler data; expected {DESCRIPTION}")
    return Probe(format="nvprof", rank=rank_from_name(path))


def time_span_ns(path: Path) -> tuple[int, int] | None:
    """Return about the begin and end of a database from its first and last rows; printed times have no date."""
    if not is_database(path):
        return None
    times: list[int] = []
    with as_file(path, DiagnosticCounts()) as file, closing(sqlite_scan.open_database(file)) as con:
        for kind in _TIMED:
            for order in ("asc", "desc"):
                with contextlib.suppress(sqlite3.DatabaseError):
                    table = sqlite_scan.quote_name(PREFIX + kind)
                    rows = con.execute(f'select start, "end" from {table} order by rowid {order} limit 1').fetchall()
                    times += [time for row in rows for time in row if isinstance(time, int) and time > 0]
    return (min(times), max(times)) if times else None


def is_database(path: Path) -> bool:
    """Return whether the decompressed content is an SQLite file."""
    return decompress.read_head(path).startswith(sqlite_scan.MAGIC)


@contextlib.contextmanager
def as_file(path: Path, diagnostics: DiagnosticCounts) -> Iterator[Path]:
    """Yield a database as SQLite opens it; a compressed one is decompressed to a temporary file."""
    if not decompress.is_compressed(path):
        yield path
        return
    with tempfile.TemporaryDirectory(dir=process_folder()) as folder:
        file = Path(folder) / "unpacked.nvprof"
        with file.open("wb") as out, decompress.open_decompressed(path, diagnostics, lambda _: None) as stream:
            while chunk := decompress.read_chunk(stream, 4 << 20):
                out.write(chunk)
        yield file


def _has_own_lines(path: Path) -> bool:
    """Return whether one of the first lines is nvprof's, or the header of one of its tables."""
    seen = 0
    with decompress.open_decompressed(path, DiagnosticCounts(), lambda _: None) as stream:
        for block in iter_blocks(stream, DiagnosticCounts()):
            if _has_own_line(block.lines):
                return True
            seen += sum(map(len, block.lines))
            if seen > _SEARCHED_BYTES:
                return False
    return False


def _has_own_line(lines: list[str]) -> bool:
    return any(_OWN.search(line) or parse_header(line) for line in lines)
