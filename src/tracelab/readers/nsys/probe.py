"""What an export tells before its events are read: whether it is one, which rank, when."""

from pathlib import Path

from tracelab.readers.base import Probe
from tracelab.readers.diagnostics import Findings, rank_in_name
from tracelab.readers.nsys import folder, metadata, report, sqlite
from tracelab.readers.nsys.export import Export
from tracelab.readers.nsys.sqlite import WHAT

__all__ = ["WHAT", "glimpse", "is_source", "sniff", "span"]

FORMAT = "nsys"


def sniff(head: bytes) -> bool:
    """Whether content that begins like this may be an export, or a report."""
    return head.startswith((sqlite.MAGIC, report.MAGIC))


def is_source(path: Path) -> bool:
    """Whether a folder is one export."""
    return folder.is_source(path)


def glimpse(path: Path) -> Probe:
    """The rank that the name says; none where several processes used a GPU, for each is a rank then."""
    if report.is_report(path):
        return Probe(FORMAT, rank_in_name(path))
    several = len(metadata.gpu_processes(opened(path))) > 1
    return Probe(FORMAT, None if several else rank_in_name(path))


def span(path: Path) -> tuple[int, int] | None:
    """When the session began and ended, in unix ns; of a report that is not exported nothing."""
    if report.is_report(path):
        return None
    export = opened(path)
    start_ns, dur_ns = metadata.session_start_ns(export, Findings()), metadata.session_dur_ns(export, Findings())
    return (start_ns, start_ns + (dur_ns or 0)) if start_ns is not None else None


def opened(path: Path) -> Export:
    """An export that is there, in a file or a folder. Raises NotProfilerDataError, SourceError."""
    return folder.opened(path) if path.is_dir() else sqlite.opened(path)
