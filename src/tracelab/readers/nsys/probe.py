"""Detect exports and reports; read rank and time span before events are read."""

from pathlib import Path

from tracelab.readers.base import Probe
from tracelab.readers.diagnostics import DiagnosticCounts, rank_from_name
from tracelab.readers.nsys import metadata, parquet_export, report_export, sqlite_export
from tracelab.readers.nsys.export import Export
from tracelab.readers.nsys.sqlite_export import DESCRIPTION

__all__ = ["DESCRIPTION", "is_source", "probe_file", "sniff", "time_span_ns"]

FORMAT = "nsys"


def sniff(head: bytes) -> bool:
    """Return whether the content may be an export or a report."""
    return head.startswith((sqlite_export.MAGIC, report_export.MAGIC))


def is_source(path: Path) -> bool:
    """Return whether a folder is an export."""
    return parquet_export.is_source(path)


def probe_file(path: Path) -> Probe:
    """Return the rank in the name; none if several processes used a GPU, as each is then a rank."""
    if report_export.is_report(path):
        return Probe(FORMAT, rank_from_name(path))
    several = len(metadata.list_gpu_processes(open_export(path))) > 1
    return Probe(FORMAT, None if several else rank_from_name(path))


def time_span_ns(path: Path) -> tuple[int, int] | None:
    """Return begin and end of the session, in Unix ns; None for a report that is not exported."""
    if report_export.is_report(path):
        return None
    export = open_export(path)
    start_ns, dur_ns = (
        metadata.session_start_ns(export, DiagnosticCounts()),
        metadata.session_dur_ns(export, DiagnosticCounts()),
    )
    return (start_ns, start_ns + (dur_ns or 0)) if start_ns is not None else None


def open_export(path: Path) -> Export:
    """Open the export in a file or folder. Raises NotProfilerDataError, SourceError."""
    return parquet_export.open_folder(path) if path.is_dir() else sqlite_export.open_file(path)
