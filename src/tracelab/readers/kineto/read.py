"""A whole Kineto or Chrome trace into a sink: pieces read in parallel, put in order, corrected at the end."""

import io
import os
import re
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tracelab import schema
from tracelab.errors import NotProfilerDataError
from tracelab.readers.base import Facts, Glimpse
from tracelab.readers.kineto import copies, mapping, scan
from tracelab.readers.kineto.diagnostics import diagnostics
from tracelab.readers.kineto.findings import Findings
from tracelab.readers.kineto.piece import PieceReader, Rows
from tracelab.readers.kineto.scan import Trace
from tracelab.sink import Correction, Sink

VERSION = "kineto-1"

_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])(?:rank|worker)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_TS = re.compile(rb'"ts"\s*:\s*"?(-?\d+(?:\.\d+)?)"?(?:\s*,\s*"dur"\s*:\s*"?(\d+(?:\.\d+)?))?')
_CPU_EVENT = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|python_function|[a-z0-9]+_(?:runtime|driver)|Operator|Runtime)"'
    rb'[^{}]{0,4000}?"pid"\s*:\s*"?(\d+)'
)
_UNIX_SINCE_US = 10**15
"""Absolute microseconds: a trace whose times are beyond this (2001) counts from 1970."""

_CPU_TABLES = ("ops", "api_calls", "python_frames")

_ALLOWED_KEYS = {
    *("schemaVersion", "traceName", "trace_id", "displayTimeUnit", "generated", "record_shapes", "with_stack"),
    *("with_flops", "with_modules", "profile_memory", "cupti_version", "cuda_runtime_version", "cuda_driver_version"),
    *("hip_runtime_version", "hip_driver_version", "roctracer_version"),
}
"""Top-level keys that go into the run's tags; others may name users, jobs and machines."""


def sniff(head: bytes) -> bool:
    """Whether unpacked content that begins like this may be a Chrome trace."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def glimpse(path: Path) -> Glimpse:
    """Read the head of a trace, and the tail where the file can be read from its end."""
    trace, head, tail = _ends(path)
    if not _may_hold_events(trace, head):
        raise NotProfilerDataError(path, "holds no trace events; expected a Chrome trace as torch.profiler exports it")
    return _glimpse(path, trace, head, tail)


def span(path: Path) -> tuple[int, int] | None:
    """About when a trace began and ended, in ns; reads (and unpacks) the whole file where it is packed."""
    trace, head, tail = _ends(path)
    if scan.is_gzip(path):
        with scan.unpacked(path, Findings(), lambda _: None) as stream:
            while chunk := scan.read_chunk(stream, scan.CHUNK_BYTES):
                tail = (tail + bytes(chunk[-scan.HEAD_BYTES :]))[-scan.HEAD_BYTES :]
        trace.meta |= _peeked_keys(tail)
    times = []
    for start, dur in _TS.findall(head) + _TS.findall(tail):
        start_ns = _base_ns(trace.meta) + int(float(start) * mapping.US_PER_TICK)
        times += [start_ns, start_ns + int(float(dur or 0) * mapping.US_PER_TICK)]
    times = [time for time in times if time > 0]
    return (min(times), max(times)) if times else None


def read(
    path: Path, sink_for: Callable[[Glimpse], Sink], *, workers: int, progress: Callable[[int], None]
) -> Facts:
    """Put the rows of a trace into a sink. Raises NotProfilerDataError where there are no events in it."""
    trace, head, tail = _ends(path)
    assumed = _glimpse(path, trace, head, tail)
    base_ns = _base_ns(trace.meta)
    pid = _first_cpu_pid(head)
    sink = sink_for(assumed)
    trace = Trace()
    whole = _Whole()
    with scan.unpacked(path, trace.findings, progress) as stream:
        _read_pieces(stream, trace, sink, whole, workers=workers, base_ns=base_ns, gpu_pid=pid)
    whole.findings.add(trace.findings)
    if not whole.events and not (trace.has_events or "traceEvents" in trace.meta):
        raise NotProfilerDataError(path, "holds no trace events; expected a Chrome trace as torch.profiler exports it")
    rank = _rank(path, trace.meta)
    for table, rows in _described(path, trace, whole, rank or 0).items():
        sink.put(table, rows)
    sink.close()
    _correct(sink, trace, whole, assumed=assumed, base_ns=base_ns, gpu_pid=pid, rank=rank)
    copies.add_sizes_from_launches(sink, whole.findings)
    return _facts(trace, whole, rank_known=rank is not None)


@dataclass
class _Whole:
    """What all pieces together have told."""

    events_kept: int = 0
    events_skipped: int = 0
    cpu_pids: set[int] = field(default_factory=set)
    windows: list[tuple[str, int, int | None]] = field(default_factory=list)
    first_time_ns: int | None = None
    findings: Findings = field(default_factory=Findings)

    @property
    def events(self) -> int:
        return self.events_kept + self.events_skipped

    def add(self, rows: Rows) -> None:
        self.events_kept += rows.events_kept
        self.events_skipped += rows.events_skipped
        self.findings.add(rows.findings)
        for name, table in rows.tables:
            columns = table.column_names
            if name in _CPU_TABLES:
                self.cpu_pids |= {pid for pid in pc.unique(table.column("pid")).to_pylist() if pid is not None}
            if "dur_ns" in columns and name != "collectives":
                self._note_durations(table)
            if name == "other_events":
                self._note_windows(table)
            for time in ("start_ns", "time_ns"):
                if time in columns:
                    first = pc.min(table.column(time)).as_py()
                    times = [value for value in (self.first_time_ns, first) if value is not None]
                    self.first_time_ns = min(times, default=None)

    def _note_durations(self, table: pa.Table) -> None:
        dur, start = table.column("dur_ns"), table.column("start_ns")
        if negative := pc.sum(pc.less(dur, 0)).as_py():
            self.findings.note("negative_duration", count=negative)
        if start.null_count and (missing := pc.sum(pc.and_(pc.is_null(start), pc.is_valid(dur))).as_py()):
            self.findings.note("time_missing", count=missing)

    def _note_windows(self, table: pa.Table) -> None:
        """The profiler's own marks: its span, and the instants that begin and end its recording."""
        span = pc.and_(pc.equal(table.column("category"), "Trace"), pc.equal(table.column("phase"), "X"))
        mark = pc.and_(pc.is_null(table.column("category")), pc.equal(table.column("phase"), "i"))
        marks = table.filter(pc.or_kleene(pc.fill_null(span, False), pc.fill_null(mark, False)))  # noqa: FBT003
        for row in marks.select(["name", "start_ns", "dur_ns"]).to_pylist():
            if row["start_ns"] is not None:
                self.windows.append((row["name"], row["start_ns"], row["dur_ns"]))


def _read_pieces(
    stream: io.RawIOBase, trace: Trace, sink: Sink, whole: _Whole, *, workers: int, base_ns: int, gpu_pid: int | None
) -> None:
    """Read the pieces on several threads; DuckDB and Arrow let go of the interpreter while they work."""
    buffers = scan.Buffers()
    pieces = scan.pieces(stream, trace, buffers)
    failures: list[BaseException] = []
    taking, adding = threading.Lock(), threading.Lock()

    def next_piece() -> memoryview | None:
        with taking:
            return None if failures else next(pieces, None)

    def put(rows: Rows) -> None:
        with adding:
            whole.add(rows)
        for table, part in rows.tables:
            sink.put(table, part)

    def work(reader: PieceReader) -> None:
        try:
            while (piece := next_piece()) is not None:
                put(reader.read(piece))
                buffers.give_back(piece)
            put(reader.rest())
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread, and raised there
            failures.append(error)

    with tempfile.TemporaryDirectory(prefix="tracelab-", dir=_scratch_root()) as scratch, _engine(scratch) as engine:
        readers = [
            PieceReader(engine.cursor(), Path(scratch) / f"{at}.json", base_ns=base_ns, gpu_pid=gpu_pid)
            for at in range(workers)
        ]
        threads = [threading.Thread(target=work, args=(reader,), daemon=True) for reader in readers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def _engine(scratch: str) -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory whose queries each run on the thread that asks."""
    return duckdb.connect(
        config={
            "threads": 1,
            "temp_directory": scratch,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "preserve_insertion_order": True,
        }
    )


def _scratch_root() -> str | None:
    """Memory-backed where the system has it, for every piece passes through a file once."""
    memory = Path("/dev/shm")  # noqa: S108 - a private folder is made in it
    try:
        status = os.statvfs(memory)
    except (OSError, AttributeError):
        return None
    roomy = status.f_bavail * status.f_frsize > 16 * scan.CHUNK_BYTES
    return str(memory) if roomy and os.access(memory, os.W_OK) else None


# ---- what the ends of a file tell ----------------------------------------------------------------------------------


def _ends(path: Path) -> tuple[Trace, bytes, bytes]:
    """The keys before the events, with the first bytes of the file and, unless it is packed, the last ones."""
    with scan.unpacked(path, Findings(), lambda _: None) as stream:
        trace, head = scan.read_head(stream)
    tail = b""
    if not scan.is_gzip(path):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - scan.HEAD_BYTES))
            tail = file.read()
        trace.meta = _peeked_keys(tail) | trace.meta
    return trace, head, tail


def _peeked_keys(tail: bytes) -> dict[str, Any]:
    """Base time and rank, where they stand behind the events."""
    keys: dict[str, Any] = {}
    behind = tail[tail.rfind(b"]") :] if b"baseTimeNanoseconds" not in tail[tail.rfind(b"]") :] else tail
    if base := re.search(rb'"baseTimeNanoseconds"\s*:\s*(\d+)\s*[,}]', tail[-65536:]):
        keys["baseTimeNanoseconds"] = int(base[1])
    if rank := re.search(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d+)', behind[-65536:]):
        keys["distributedInfo"] = {"rank": int(rank[1])}
    return keys


def _may_hold_events(trace: Trace, head: bytes) -> bool:
    if trace.array_form:
        return b'"ph"' in head or b'"ts"' in head or not head.strip(b"[] \t\r\n\xef\xbb\xbf")
    return trace.has_events or "traceEvents" in trace.meta or trace.cut_off and b'"traceEvents"' in head


def _glimpse(path: Path, trace: Trace, head: bytes, tail: bytes) -> Glimpse:
    info = trace.meta.get("distributedInfo")
    world = info.get("world_size") if isinstance(info, dict) else None
    kineto = "schemaVersion" in trace.meta or "deviceProperties" in trace.meta or b'"traceName"' in tail
    return Glimpse(
        format="kineto" if kineto or b'"cat": "cpu_op"' in head else "chrome",
        rank=_rank(path, trace.meta),
        world_size=world if isinstance(world, int) else None,
    )


def _rank(path: Path, meta: dict[str, Any]) -> int | None:
    """The rank that the file says, else its name."""
    info = meta.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    if isinstance(rank, int) and 0 <= rank < 1 << 31:
        return rank
    named = _RANK_IN_NAME.search(path.name)
    return int(named[1]) if named else None


def _base_ns(meta: dict[str, Any]) -> int:
    base = meta.get("baseTimeNanoseconds")
    if isinstance(base, str) and base.isdecimal():
        base = int(base)
    return base if isinstance(base, int) and 0 <= base < 1 << 62 else 0


def _first_cpu_pid(head: bytes) -> int | None:
    found = _CPU_EVENT.search(head)
    return int(found[1]) if found else None


# ---- what is known at the end --------------------------------------------------------------------------------------


def _correct(
    sink: Sink,
    trace: Trace,
    whole: _Whole,
    *,
    assumed: Glimpse,
    base_ns: int,
    gpu_pid: int | None,
    rank: int | None,
) -> None:
    """Put right what the end of the file says otherwise than was assumed at its beginning."""
    shift_ns = _base_ns(trace.meta) - base_ns
    only_pid = next(iter(whole.cpu_pids)) if len(whole.cpu_pids) == 1 else None
    new_rank = (rank or 0) if (rank or 0) != (assumed.rank or 0) else None
    pids = dict.fromkeys(mapping.GPU_TABLES, only_pid) if only_pid != gpu_pid else None
    if shift_ns or pids or new_rank is not None:
        sink.correct(Correction(shift_ns=shift_ns, rank=new_rank, gpu_pid=pids))
    if shift_ns:
        whole.windows = [(name, start + shift_ns, dur) for name, start, dur in whole.windows]
        whole.first_time_ns = whole.first_time_ns + shift_ns if whole.first_time_ns is not None else None


def _facts(trace: Trace, whole: _Whole, *, rank_known: bool) -> Facts:
    if trace.cut_off:
        whole.findings.note("cut_off")
    if not rank_known:
        whole.findings.note("rank_assumed")
    incomplete = trace.cut_off or whole.events_skipped or any(
        code.startswith("gzip_") or code == "header_damaged" for code in whole.findings.counts
    )
    window = _window(whole.windows)
    unix = "baseTimeNanoseconds" in trace.meta or (whole.first_time_ns or 0) > _UNIX_SINCE_US * mapping.US_PER_TICK
    return Facts(
        source={
            "producer": "torch.profiler (Kineto)" if "schemaVersion" in trace.meta else None,
            "producer_version": _text(trace.meta.get("schemaVersion")),
            "events_read": whole.events,
            "events_kept": whole.events_kept,
            "events_skipped": whole.events_skipped,
            "complete": not incomplete,
            "clock": "unix" if unix else "session",
            "window_start_ns": window[0] if window else None,
            "window_dur_ns": window[1] if window else None,
        },
        diagnostics=diagnostics(whole.findings),
    )


def _window(windows: list[tuple[str, int, int | None]]) -> tuple[int, int] | None:
    """The profiler's recording window: its own span, else from its first to its last mark."""
    for name, start, dur in windows:
        if dur is not None and dur >= 0 and (name or "").startswith("PyTorch Profiler"):
            return start, dur
    starts = [start for name, start, _ in windows if (name or "").startswith("Iteration Start")]
    ends = [start for name, start, _ in windows if name == "Record Window End"]
    return (min(starts), max(ends) - min(starts)) if starts and ends and max(ends) >= min(starts) else None


def _described(path: Path, trace: Trace, whole: _Whole, rank: int) -> dict[str, pa.Table]:
    """Rows of `devices` and `runs`, from the keys beside the events."""
    meta = trace.meta
    properties = meta.get("deviceProperties")
    devices = [entry for entry in properties if isinstance(entry, dict)] if isinstance(properties, list) else []
    info = meta.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    host = _text(meta.get("host_name"))
    run = {
        "world_size": _int(info.get("world_size")),
        "profiler": "kineto" if "schemaVersion" in meta else None,
        "host": host,
        "gpu": next((name for entry in devices if (name := _text(entry.get("name")))), None),
        "cuda_version": _cuda_version(meta.get("cuda_runtime_version")),
        "tags": sorted((key, str(value)) for key, value in meta.items() if key in _ALLOWED_KEYS),
    }
    return {
        "devices": _plain("devices", [_device(entry) | {"rank": rank, "host": host} for entry in devices]),
        "runs": _plain("runs", [run]),
    }


def _device(entry: dict[str, Any]) -> dict[str, object]:
    major, minor = _int(entry.get("computeMajor")), _int(entry.get("computeMinor"))
    return {
        "device": _int(entry.get("id")),
        "uuid": _text(entry.get("uuid")),
        "bus_id": _text(entry.get("busId") or entry.get("pciBusId")),
        "name": _text(entry.get("name")),
        "compute_capability": f"{major}.{minor}" if major is not None and minor is not None else None,
        "sm_count": _int(entry.get("numSms")),
        "memory_bytes": _int(entry.get("totalGlobalMem")),
        "l2_bytes": _int(entry.get("l2CacheSize")),
        "max_threads_per_sm": _int(entry.get("maxThreadsPerMultiprocessor")),
    }


def _plain(table: str, rows: list[dict[str, object]]) -> pa.Table:
    columns = [column for column in schema.BY_NAME[table].columns if column.name not in ("run", "source")]
    return pa.table(
        {c.name: pa.array([row.get(c.name) for row in rows], schema.ARROW_TYPES[c.type]) for c in columns}
    )


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and value != "" else None


def _cuda_version(value: object) -> str | None:
    """CUDA's version number (12090) as people write it (12.9)."""
    number = _int(value)
    return f"{number // 1000}.{number % 1000 // 10}" if number else None
