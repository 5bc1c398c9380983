"""What an export tells before its events are read: whether it is one, which rank, when."""

from pathlib import Path

from tracelab.readers.base import Probe
from tracelab.readers.diagnostics import DiagnosticCounts, rank_from_name
from tracelab.readers.nsys import metadata, parquet_export, report_export, sqlite_export
from tracelab.readers.nsys.export import Export
from tracelab.readers.nsys.sqlite_export import DESCRIPTION

__all__ = ["DESCRIPTION", "is_source", "probe_file", "sniff", "time_span_ns"]

FORMAT = "nsys"


def sniff(head: bytes) -> bool:
    """Whether content that begins like this may be an export, or a report."""
    return head.startswith((sqlite_export.MAGIC, report_export.MAGIC))


def is_source(path: Path) -> bool:
    """Whether a folder is one export."""
    return parquet_export.is_source(path)


def probe_file(path: Path) -> Probe:
    """The rank that the name says; none where several processes used a GPU, for each is a rank then."""
    if report_export.is_report(path):
        return Probe(FORMAT, rank_from_name(path))
    several = len(metadata.list_gpu_processes(open_export(path))) > 1
    return Probe(FORMAT, None if several else rank_from_name(path))


def time_span_ns(path: Path) -> tuple[int, int] | None:
    """When the session began and ended, in unix ns; of a report that is not exported nothing."""
    if report_export.is_report(path):
        return None
    export = open_export(path)
    start_ns, dur_ns = (
        metadata.session_start_ns(export, DiagnosticCounts()),
        metadata.session_dur_ns(export, DiagnosticCounts()),
    )
    return (start_ns, start_ns + (dur_ns or 0)) if start_ns is not None else None


def open_export(path: Path) -> Export:
    """An export that is there, in a file or a folder. Raises NotProfilerDataError, SourceError."""
    return parquet_export.open_folder(path) if path.is_dir() else sqlite_export.open_file(path)
