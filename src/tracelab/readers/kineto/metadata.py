"""Summarize a trace: totals over its chunks, its devices, its run and its row in `sources`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow._compute import call_function  # pyarrow.compute takes 40 ms to import

from tracelab import schema
from tracelab.readers.base import ReadResult
from tracelab.readers.diagnostics import DiagnosticCounts, build_diagnostics
from tracelab.readers.kineto import mapping
from tracelab.readers.kineto.chunker import Trace
from tracelab.readers.kineto.diagnostics import MESSAGES
from tracelab.readers.kineto.late_events import (
    ASCEND,
    ASCEND_DEVICE,
    METRICS,
    METRICS_CATEGORY,
    PAIRS,
)
from tracelab.readers.kineto.launch_ranges import COLLECTIVE_RANGE, KERNEL_NAME
from tracelab.readers.kineto.mapper import Rows

_WINDOW_CATEGORY = "Trace"
"""The category of the profiler's own span."""
_CPU_TABLES = ("ops", "api_calls", "python_frames")
_MIN_UNIX_TIME_US = 10**15
"""A trace whose microseconds are beyond this (the year 2001) counts from 1970."""

_ALLOWED_KEYS = {
    *("schemaVersion", "traceName", "trace_id", "displayTimeUnit", "generated", "record_shapes", "with_stack"),
    *("with_flops", "with_modules", "profile_memory", "cupti_version", "cuda_runtime_version", "cuda_driver_version"),
    *("hip_runtime_version", "hip_driver_version", "roctracer_version"),
}
"""Top-level keys that are stored in the run's tags; others may name users, jobs and machines."""

_DEVICE_PREFIXES = ("hpu_", "mtia_", "xpu_", "mlu_", "gcu_", "musa_", "aiu_", "npu_", "privateuse1_")
"""Categories of device activity begin so."""

_INCOMPLETE_CODES = ("header_damaged", "keys_unread", "events_twice")
"""Diagnostic codes of files that were not read completely."""


@dataclass
class TraceSummary:
    """Totals over all chunks of a trace."""

    events_kept: int = 0
    events_skipped: int = 0
    cpu_pids: set[int] = field(default_factory=set)
    windows: list[tuple[str, int, int | None]] = field(default_factory=list)
    first_time_ns: int | None = None
    copies_without_size: int = 0
    late_kinds: set[str] = field(default_factory=set)
    has_collective_ranges: bool = False
    collective_kernels: int = 0
    noted_kernels: int = 0
    """Communication kernels with metadata of their own."""
    diagnostics: DiagnosticCounts = field(default_factory=DiagnosticCounts)

    @property
    def only_pid(self) -> int | None:
        """The file's only process."""
        return next(iter(self.cpu_pids)) if len(self.cpu_pids) == 1 else None

    @property
    def events(self) -> int:
        """Events in the file, kept or skipped."""
        return self.events_kept + self.events_skipped

    def shift(self, shift_ns: int) -> None:
        """Shift all times, where the clock base is behind the events."""
        self.windows = [(name, start + shift_ns, dur) for name, start, dur in self.windows]
        if self.first_time_ns is not None:
            self.first_time_ns += shift_ns

    def add(self, rows: Rows) -> None:
        """Add the rows of a chunk."""
        self.events_kept += rows.events_kept
        self.events_skipped += rows.events_skipped
        self.diagnostics.merge(rows.diagnostics)
        for name, table in rows.tables:
            columns = table.column_names
            if name in _CPU_TABLES:
                self.cpu_pids |= {pid for pid in _unique(table.column("pid")) if pid}  # 0 is no process
            if "dur_ns" in columns and name != "collectives":
                self._note_durations(table)
            if name == "other_events":
                categories = _unique(table.column("category"))
                if not {None, _WINDOW_CATEGORY}.isdisjoint(categories):
                    self._note_windows(table)
                self._note_late_kinds(table, categories)
            self._note_collectives(name, table)
            if name == "memcpys":
                self.copies_without_size += table.column("size_bytes").null_count
            for time in ("start_ns", "time_ns"):
                if time in columns:
                    first = call_function("min", [table.column(time)]).as_py()
                    times = [value for value in (self.first_time_ns, first) if value is not None]
                    self.first_time_ns = min(times, default=None)

    def _note_late_kinds(self, events: pa.Table, distinct: Sequence[str | None]) -> None:
        """Note the kinds of late events among rows of `other_events`; count device activity that no table takes."""
        categories = {text: (text or "").lower() for text in distinct}
        if METRICS_CATEGORY in categories.values():
            self.late_kinds.add(METRICS)
        if not set(mapping.OP_CATEGORIES).isdisjoint(categories.values()):
            self.late_kinds.add(PAIRS)
        if None in categories:
            metadata = call_function("filter", [events.column("args"), _equals(events, "phase", "M")])
            if any(f'"{ASCEND_DEVICE}"' in args for args in metadata.to_pylist() if args is not None):
                self.late_kinds.add(ASCEND)
        for category, lowered in categories.items():
            if lowered.startswith(_DEVICE_PREFIXES):
                conditions = [_equals(events, "category", category or ""), _equals(events, "phase", "X")]
                count = _count(call_function("and", conditions))
                self.diagnostics.note("device_events_unmapped", category, count=count)

    def _note_collectives(self, name: str, table: pa.Table) -> None:
        """Count the communication kernels and those with metadata, and look for ranges that name collectives."""
        if name == "annotations":
            self.has_collective_ranges = self.has_collective_ranges or bool(_matching_names(table, COLLECTIVE_RANGE))
        elif name == "kernels":
            self.collective_kernels += _matching_names(table, KERNEL_NAME)
        elif name == "collectives":
            self.noted_kernels += _count(_equals(table, "origin", "kernel"))

    @property
    def needs_ranges(self) -> bool:
        """Whether the ranges that launched kernels may name collectives that the kernels do not."""
        return self.has_collective_ranges and self.collective_kernels > self.noted_kernels

    def _note_durations(self, table: pa.Table) -> None:
        dur, start = table.column("dur_ns"), table.column("start_ns")
        if negative := _count(call_function("less", [dur, pa.scalar(0)])):
            self.diagnostics.note("negative_duration", count=negative)
        if start.null_count:
            has_start, has_dur = (call_function("is_valid", [each]) for each in (start, dur))
            if missing := _count(call_function("and_not", [has_dur, has_start])):
                self.diagnostics.note("time_missing", count=missing)

    def _note_windows(self, table: pa.Table) -> None:
        """Collect the profiler's own marks: its span, and the instants at which its recording begins and ends."""
        is_window = _equals(table, "category", _WINDOW_CATEGORY)
        has_no_category = call_function("is_null", [table.column("category")])
        for condition, phase in ((is_window, "X"), (has_no_category, "i")):
            is_mark = call_function("and", [condition, _equals(table, "phase", phase)])
            marks = call_function("filter", [table.select(["name", "start_ns", "dur_ns"]), is_mark])
            for row in marks.to_pylist():
                if row["start_ns"] is not None:
                    self.windows.append((row["name"], row["start_ns"], row["dur_ns"]))


def build_result(trace: Trace, summary: TraceSummary, *, rank_known: bool) -> ReadResult:
    """Return the columns of the row in `sources`, and the diagnostics."""
    if trace.cut_off:
        summary.diagnostics.note("cut_off")
    if not rank_known:
        summary.diagnostics.note("rank_assumed")
    if not summary.events:
        summary.diagnostics.note("no_events")
    incomplete = (
        trace.cut_off
        or summary.events_skipped
        or any(code.startswith("gzip_") or code in _INCOMPLETE_CODES for code in summary.diagnostics.counts)
    )
    window = _find_window(summary.windows)
    unix = "baseTimeNanoseconds" in trace.meta or (summary.first_time_ns or 0) > _MIN_UNIX_TIME_US * mapping.US_PER_TICK
    return ReadResult(
        source={
            "producer": "torch.profiler (Kineto)" if "schemaVersion" in trace.meta else None,
            "producer_version": _text(trace.meta.get("schemaVersion")),
            "events_read": summary.events,
            "events_kept": summary.events_kept,
            "events_skipped": summary.events_skipped,
            "complete": not incomplete,
            "clock": "unix" if unix else "session",
            "window_start_ns": window[0] if window else None,
            "window_dur_ns": window[1] if window else None,
        },
        diagnostics=build_diagnostics(summary.diagnostics, MESSAGES),
    )


def _find_window(windows: list[tuple[str, int, int | None]]) -> tuple[int, int] | None:
    """Return start and length of the recording: the profiler's own span, else from its first to its last mark."""
    for name, start, dur in windows:
        if dur is not None and dur >= 0 and (name or "").startswith("PyTorch Profiler"):
            return start, dur
    starts = [start for name, start, _ in windows if (name or "").startswith("Iteration Start")]
    ends = [start for name, start, _ in windows if name == "Record Window End"]
    return (min(starts), max(ends) - min(starts)) if starts and ends and max(ends) >= min(starts) else None


def metadata_rows(trace: Trace, rank: int) -> dict[str, pa.Table]:
    """Return rows of `devices` and `runs` from the top-level keys."""
    meta = trace.meta
    properties = meta.get("deviceProperties")
    devices = [entry for entry in properties if isinstance(entry, dict)] if isinstance(properties, list) else []
    info = meta.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    host = _text(meta.get("host_name"))
    run: dict[str, object] = {
        "world_size": _int(info.get("world_size")),
        "profiler": "kineto" if "schemaVersion" in meta else None,
        "host": host,
        "gpu": next((name for entry in devices if (name := _text(entry.get("name")))), None),
        "cuda_version": _cuda_version(meta.get("cuda_runtime_version")),
        "tags": sorted((key, str(value)) for key, value in meta.items() if key in _ALLOWED_KEYS),
    }
    return {
        "devices": _build_table("devices", [_device_row(entry) | {"rank": rank, "host": host} for entry in devices]),
        "runs": _build_table("runs", [run]),
    }


def _device_row(entry: dict[str, Any]) -> dict[str, object]:
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


def _build_table(table: str, rows: list[dict[str, object]]) -> pa.Table:
    columns = [column for column in schema.BY_NAME[table].columns if column.name not in ("run", "source")]
    return pa.table(
        {c.name: pa.array([_null_if_too_large(row.get(c.name), c.type) for row in rows], c.arrow.type) for c in columns}
    )


def _null_if_too_large(value: object, kind: str) -> object:
    """Return the value, or None where it is a number beyond the range of its column's type."""
    return None if kind == "int32" and isinstance(value, int) and not -(1 << 31) <= value < 1 << 31 else value


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and value != "" else None


def _cuda_version(value: object) -> str | None:
    """Return CUDA's version number (12090) as people write it (12.9)."""
    number = _int(value)
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def _matching_names(table: pa.Table, pattern: str) -> int:
    """Count the rows whose name matches."""
    counts = call_function("value_counts", [table.column("name")])
    names, numbers = (counts.field(field).to_pylist() for field in ("values", "counts"))
    return sum(
        number for name, number in zip(names, numbers, strict=True) if name is not None and re.search(pattern, name)
    )


def _unique(values: "pa.ChunkedArray[Any]") -> list[Any]:
    distinct: list[Any] = call_function("unique", [values]).to_pylist()
    return distinct


def _equals(table: pa.Table, column: str, value: str) -> "pa.ChunkedArray[Any]":
    are_equal: pa.ChunkedArray[Any] = call_function("equal", [table.column(column), pa.scalar(value)])
    return are_equal


def _count(conditions: "pa.ChunkedArray[Any]") -> int:
    """Count the rows for which a condition holds."""
    return int(call_function("sum", [conditions]).as_py() or 0)
