"""Read Nsight Compute: CSV pages, console text, and reports through NVIDIA's module.

The modules that read a report are imported on use: every file is probed here before the Kineto reader.
"""

from collections.abc import Callable
from pathlib import Path

from tracelab.readers.base import ReadResult
from tracelab.readers.ncu.probe import DESCRIPTION, VERSION, probe_file, sniff, time_span_ns
from tracelab.store.writer import Sink

__all__ = ["DESCRIPTION", "VERSION", "probe_file", "read", "sniff", "time_span_ns"]


def read(path: Path, open_sink: Callable[[int], Sink], *, workers: int, progress: Callable[[int], None]) -> ReadResult:
    """Put the metrics of a report into a sink. Raises NotProfilerDataError if it has no launch."""
    from tracelab.readers.ncu.read_report import read as read_report

    return read_report(path, open_sink, workers=workers, progress=progress)
