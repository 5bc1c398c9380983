"""What the two ends of a trace file tell, without reading what stands between: rank, clock base, process, time span."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelab.errors import NotProfilerDataError, SourceError
from tracelab.readers import decompress
from tracelab.readers.base import Probe
from tracelab.readers.diagnostics import DiagnosticCounts, rank_from_name
from tracelab.readers.kineto import chunker, mapping
from tracelab.readers.kineto.chunker import Trace

_TAIL_BYTES = 1 << 16
DESCRIPTION = "a Chrome trace as torch.profiler exports it"

_TS = re.compile(rb'"ts"\s*:\s*"?(-?\d+(?:\.\d+)?)"?(?:\s*,\s*"dur"\s*:\s*"?(\d+(?:\.\d+)?))?')
_CPU_EVENT = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|python_function|[a-z0-9]+_(?:runtime|driver)|Operator|Runtime)"'
    rb'[^{}]{0,4000}?"pid"\s*:\s*"?(\d{1,18})(?!\d)'
)


@dataclass(frozen=True)
class Assumed:
    """What rows are written with, and corrected at the end where it turns out to be otherwise."""

    rank: int
    base_ns: int
    gpu_pid: int | None
    """The process of rows of a GPU, which name none: the file's only one."""


def sniff(head: bytes) -> bool:
    """Whether unpacked content that begins like this may be a Chrome trace."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def probe_file(path: Path) -> Probe:
    """Read the head of a trace, and the tail where the file can be read from its end. Raises SourceError."""
    trace, head, tail = _both_ends(path)
    if not _may_hold_events(trace, head):
        raise no_events(path, trace.diagnostics)
    info = trace.meta.get("distributedInfo")
    world = info.get("world_size") if isinstance(info, dict) else None
    kineto = "schemaVersion" in trace.meta or "deviceProperties" in trace.meta or b'"traceName"' in tail
    return Probe(
        format="kineto" if kineto or b'"cat": "cpu_op"' in head else "chrome",
        rank=rank_of(path, trace.meta),
        world_size=world if isinstance(world, int) else None,
    )


def no_events(path: Path, diagnostics: DiagnosticCounts) -> SourceError:
    """What to raise of a file in which there are none: it is of something else, unless they are what is missing."""
    if diagnostics.counts["gzip_cut_off"]:
        problem = "is cut off before its first trace event: the gzip data ends before its end mark; copy the file again"
        return SourceError(path, problem)
    if diagnostics.counts["gzip_broken"]:
        return SourceError(path, "is damaged before its first trace event: the gzip data breaks; copy the file again")
    return NotProfilerDataError(path, f"holds no trace events; expected {DESCRIPTION}")


def assumed(path: Path) -> Assumed:
    """What can be known of a trace before its events are read."""
    trace, head, _ = _both_ends(path)
    found = _CPU_EVENT.search(head)
    return Assumed(rank_of(path, trace.meta) or 0, base_of(trace.meta), int(found[1]) if found else None)


def time_span_ns(path: Path) -> tuple[int, int] | None:
    """About when a trace began and ended, in ns; reads (and unpacks) the whole file where it is packed."""
    trace, head, tail = _both_ends(path)
    if decompress.is_gzip(path):
        with decompress.open_decompressed(path, DiagnosticCounts(), lambda _: None) as stream:
            while chunk := decompress.read_chunk(stream, chunker.CHUNK_BYTES):
                tail = (tail + bytes(chunk[-chunker.HEAD_BYTES :]))[-chunker.HEAD_BYTES :]
        trace.meta |= _peeked_keys(tail)
    times = []
    for start, dur in _TS.findall(head) + _TS.findall(tail):
        start_ns = base_of(trace.meta) + int(float(start) * mapping.US_PER_TICK)
        times += [start_ns, start_ns + int(float(dur or 0) * mapping.US_PER_TICK)]
    times = [time for time in times if time > 0]
    return (min(times), max(times)) if times else None


def _both_ends(path: Path) -> tuple[Trace, bytes, bytes]:
    """The keys before the events, with the first bytes of the file and, unless it is packed, the last ones."""
    diagnostics = DiagnosticCounts()
    with decompress.open_decompressed(path, diagnostics, lambda _: None) as stream:
        trace, head = chunker.read_head(stream)
    trace.diagnostics.merge(diagnostics)
    tail = b""
    if not decompress.is_gzip(path):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - chunker.HEAD_BYTES))
            tail = file.read()
        trace.meta = _peeked_keys(tail) | trace.meta
    return trace, head, tail


def _peeked_keys(tail: bytes) -> dict[str, Any]:
    """Base time and rank, where they stand behind the events."""
    keys: dict[str, Any] = {}
    end = tail[-_TAIL_BYTES:]
    if base := re.search(rb'"baseTimeNanoseconds"\s*:\s*(\d+)\s*[,}]', end):
        keys["baseTimeNanoseconds"] = int(base[1])
    if rank := re.search(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d+)', end):
        keys["distributedInfo"] = {"rank": int(rank[1])}
    return keys


def _may_hold_events(trace: Trace, head: bytes) -> bool:
    if trace.array_form:
        return b'"ph"' in head or b'"ts"' in head or not head.strip(b"[] \t\r\n\xef\xbb\xbf")
    return trace.has_events or "traceEvents" in trace.meta or (trace.cut_off and b'"traceEvents"' in head)


def rank_of(path: Path, meta: dict[str, Any]) -> int | None:
    """The rank that the file says, else its name."""
    info = meta.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    if isinstance(rank, int) and 0 <= rank < 1 << 31:
        return rank
    return rank_from_name(path)


def base_of(meta: dict[str, Any]) -> int:
    """What the times of the events count from, in unix ns; 0 where the file does not say, or nonsense."""
    base = meta.get("baseTimeNanoseconds")
    if isinstance(base, str) and base.isdecimal():
        base = int(base)
    return base if isinstance(base, int) and 0 <= base < 1 << 62 else 0
