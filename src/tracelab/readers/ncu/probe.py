"""Detect files of ncu by their first bytes, and read their rank."""

import re
from pathlib import Path

from tracelab.readers.base import Probe
from tracelab.readers.diagnostics import rank_from_name

VERSION = "ncu-1"
DESCRIPTION = "a report of Nsight Compute (ncu) as CSV, text or .ncu-rep"
REPORT_MAGIC = b"NVR\0"
_OWN_MESSAGE = re.compile(r"==(?:PROF|ERROR|WARNING)==")
_NVPROF = re.compile(r"==\d+== (?:NVPROF|Profiling)|========")
_SESSION = re.compile(r'"?(?:Launch|Session|Device) Attribute(?:","|  )')


def sniff(head: bytes) -> bool:
    """Return whether the decompressed content may be of ncu."""
    if is_report(head):
        return True
    if head.lstrip()[:2] in (b'{"', b"{\n", b"[{", b"[\n") or head.startswith(b"SQLite format 3"):
        return False
    from tracelab.readers.ncu import console
    from tracelab.readers.ncu.csv_columns import parse_header
    from tracelab.readers.text_lines import lines_of_head

    has_messages = False
    for line in lines_of_head(head):
        if _NVPROF.match(line):
            return False
        if parse_header(line) or _SESSION.match(line) or console.is_launch_line(line):
            return True
        has_messages = has_messages or bool(_OWN_MESSAGE.match(line))
    return has_messages


def probe_file(path: Path) -> Probe:
    """Return the rank in the file's name; a report names only processes."""
    return Probe(format="ncu", rank=rank_from_name(path))


def time_span_ns(path: Path) -> tuple[int, int] | None:  # noqa: ARG001 - the contract of readers
    """Return None: launches are serialized and replayed, so a report has no times of its own."""
    return None


def is_report(head: bytes) -> bool:
    """Return whether these are the first bytes of a .ncu-rep, or the decompressed ones of a .ncu-repz."""
    return head.startswith(REPORT_MAGIC)
