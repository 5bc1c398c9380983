"""Read a whole nvprof file into a sink, in any of its formats."""

from collections.abc import Callable
from pathlib import Path

from tracelab.readers.base import ReadResult
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nvprof import probe, read_database, read_text
from tracelab.store.writer import Sink

VERSION = "nvprof-1"


def read(path: Path, open_sink: Callable[[int], Sink], *, workers: int, progress: Callable[[int], None]) -> ReadResult:  # noqa: ARG001
    """Put the rows of a file into a sink. Raises NotProfilerDataError."""
    if not probe.is_database(path):
        return read_text.read(path, open_sink, progress=progress)
    diagnostics = DiagnosticCounts()
    with probe.as_file(path, diagnostics) as file:
        return read_database.read(read_database.DatabaseSource(file, path, diagnostics), open_sink, progress=progress)
