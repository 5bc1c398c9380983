"""Read the head and the tail of a trace file: format, rank, clock base, process and time span."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelab.errors import NotProfilerDataError, SourceError
from tracelab.readers import decompress
from tracelab.readers.base import Probe
from tracelab.readers.diagnostics import DiagnosticCounts, rank_from_name
from tracelab.readers.kineto import mapping
from tracelab.readers.kineto.chunker import HEAD_BYTES, Trace, read_trace_head

DESCRIPTION = "a Chrome trace as torch.profiler exports it"

_TAIL_BYTES = 1 << 16
_TIMES = re.compile(  # possessive, because nothing is found by going back
    rb'"ts"\s*+:\s*+"?+(-?+\d++(?:\.\d++)?+)"?+(?:\s*+,\s*+"dur"\s*+:\s*+"?+(\d++(?:\.\d++)?+))?+'
)
_UTF_16 = re.compile(rb"(?:\xff\xfe)?(?:[ \t\r\n]\0)*[{\[]\0|(?:\xfe\xff)?(?:\0[ \t\r\n])*\0[{\[]")
_CPU_EVENT = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|python_function|[a-z0-9]+_(?:runtime|driver)|Operator|Runtime)"'
    rb'(?:[^{}"]|"(?!pid"|cat"\s*+:)){0,4000}+"pid"\s*+:\s*+"?(\d{1,18})(?!\d)'
)


@dataclass(frozen=True)
class Assumptions:
    """Values that rows are written with, and that are corrected at the end where the trailer contradicts them."""

    rank: int
    base_ns: int
    gpu_pid: int | None
    """The process of GPU rows, which name none: the only process of the file."""
    large_groups: list[dict[str, Any]]
    """Entries of process groups of which the events list only the first ranks."""


def sniff(head: bytes) -> bool:
    """Whether decompressed content that begins like this may be a Chrome trace."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") or _UTF_16.match(head) is not None


def probe_file(path: Path) -> Probe:
    """Read the head of a trace, and the tail unless the file is compressed. Raises SourceError."""
    if _UTF_16.match(decompress.read_head(path)):
        raise SourceError(path, "is UTF-16 text from its first byte on; re-save it as UTF-8")
    trace, head, tail = _read_both_ends(path)
    if not _may_hold_events(trace, head):
        raise no_events_error(path, trace, trace.diagnostics)
    info = trace.meta.get("distributedInfo")
    world_size = info.get("world_size") if isinstance(info, dict) else None
    host = trace.meta.get("host_name")
    kineto = "schemaVersion" in trace.meta or "deviceProperties" in trace.meta or b'"traceName"' in tail
    return Probe(
        format="kineto" if kineto or b'"cat": "cpu_op"' in head else "chrome",
        rank=find_rank(path, trace.meta),
        world_size=world_size if isinstance(world_size, int) else None,
        host=host if isinstance(host, str) else None,
    )


def no_events_error(path: Path, trace: Trace, diagnostics: DiagnosticCounts) -> SourceError:
    """Return the error for a file without events: damaged before the first one, or not a trace."""
    if diagnostics.counts["compressed_cut_off"]:
        problem = (
            "is cut off before its first trace event: the compressed data ends before its end mark; copy the file again"
        )
        return SourceError(path, problem)
    if diagnostics.counts["compressed_broken"]:
        return SourceError(path, "is damaged before its first trace event: corrupt compression; copy the file again")
    if trace.is_head_too_long:
        problem = "holds no key traceEvents in its first 64 MB; export the trace without the long key before it"
        return NotProfilerDataError(path, problem)
    return NotProfilerDataError(path, f"holds no trace events; expected {DESCRIPTION}")


def read_assumptions(path: Path) -> Assumptions:
    """Read what can be known of a trace before its events."""
    trace, head, _ = _read_both_ends(path)
    match = _CPU_EVENT.search(head)
    pid = int(match[1]) if match else None
    return Assumptions(find_rank(path, trace.meta) or 0, find_base_ns(trace.meta), pid, _find_large_groups(trace.meta))


def time_span_ns(path: Path) -> tuple[int, int] | None:
    """Return when a trace begins and ends, to a microsecond; decompresses the whole file where it is compressed."""
    trace, head, tail = _read_both_ends(path)
    if decompress.is_compressed(path):
        with decompress.open_decompressed(path, DiagnosticCounts(), lambda _: None) as stream:
            while chunk := decompress.read_chunk(stream, HEAD_BYTES):
                tail = (tail + bytes(chunk))[-HEAD_BYTES:]
        trace.meta |= _search_trailing_keys(tail)
    ends = [tail] if tail is head or tail.endswith(bytes(head)) else [head, tail]  # a small file is both
    matches = [match for end in ends for match in _TIMES.findall(end)]
    if not matches:
        return None
    starts_us = [float(start) for start, _ in matches]
    ends_us = [
        start_us + float(dur) if dur else start_us for start_us, (_, dur) in zip(starts_us, matches, strict=True)
    ]
    base_ns = find_base_ns(trace.meta)

    def to_ns(time_us: float) -> float:
        return base_ns + time_us * mapping.US_PER_TICK

    first_ns, last_ns = to_ns(min(starts_us)), to_ns(max(ends_us))
    if not 0 < first_ns <= last_ns < math.inf:
        times_ns = [time_ns for time_us in (*starts_us, *ends_us) if 0 < (time_ns := to_ns(time_us)) < math.inf]
        if not times_ns:
            return None
        first_ns, last_ns = min(times_ns), max(times_ns)
    return int(first_ns), int(last_ns)


def find_rank(path: Path, meta: dict[str, Any]) -> int | None:
    """Return the rank in the file, else the one in its name."""
    info = meta.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    if isinstance(rank, int) and 0 <= rank < 1 << 31:
        return rank
    return rank_from_name(path)


def find_base_ns(meta: dict[str, Any]) -> int:
    """Return the unix time from which event times count; 0 where the file has none, or nonsense."""
    base = meta.get("baseTimeNanoseconds")
    if isinstance(base, str) and base.isdecimal():
        base = int(base)
    return base if isinstance(base, int) and 0 <= base < 1 << 62 else 0


def _find_large_groups(meta: dict[str, Any]) -> list[dict[str, Any]]:
    info = meta.get("distributedInfo")
    config = info.get("pg_config") if isinstance(info, dict) else None
    return [
        entry
        for entry in (config if isinstance(config, list) else [])
        if isinstance(entry, dict)
        and isinstance(ranks := entry.get("ranks"), list)
        and len(ranks) > mapping.LISTED_RANKS
    ]


def _read_both_ends(path: Path) -> tuple[Trace, bytearray, bytes | bytearray]:
    """Return the keys before the events, the first bytes of the file and, unless it is compressed, the last ones.

    Of a small file both are one object.
    """
    diagnostics = DiagnosticCounts()
    with decompress.open_decompressed(path, diagnostics, lambda _: None) as stream:
        trace, head = read_trace_head(stream)
    trace.diagnostics.merge(diagnostics)
    tail: bytes | bytearray = b""
    if not decompress.is_compressed(path):
        size_bytes = path.stat().st_size
        if size_bytes == len(head):
            tail = head
        else:
            with path.open("rb") as file:
                file.seek(max(0, size_bytes - HEAD_BYTES))
                tail = file.read()
        trace.meta = _search_trailing_keys(tail) | trace.meta
    return trace, head, tail


def _search_trailing_keys(tail: bytes | bytearray) -> dict[str, Any]:
    """Return base time and rank where the file has them behind the events."""
    keys: dict[str, Any] = {}
    end = tail[-_TAIL_BYTES:]
    if base := re.search(rb'"baseTimeNanoseconds"\s*:\s*(\d+)\s*[,}]', end):
        keys["baseTimeNanoseconds"] = int(base[1])
    if rank := re.search(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d+)', end):
        keys["distributedInfo"] = {"rank": int(rank[1])}
    return keys


def _may_hold_events(trace: Trace, head: bytearray) -> bool:
    if trace.array_form:
        return b'"ph"' in head or b'"ts"' in head or not head.strip(b"[] \t\r\n\xef\xbb\xbf")
    return trace.has_events or "traceEvents" in trace.meta or (trace.cut_off and b'"traceEvents"' in head)
