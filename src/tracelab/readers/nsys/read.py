"""Read a whole export into a sink: tables in parts, read and mapped on several threads."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tracelab import schema
from tracelab.readers.base import ReadResult, list_source_files
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys import counters, dedup_api_calls, enums, metadata, nvtx, report_export, string_table
from tracelab.readers.nsys.column_builders import Batch, Session, build_args, count_outside_session
from tracelab.readers.nsys.export import Columns, Export, Part
from tracelab.readers.nsys.mapping import Mapping, find_mapping, map_other_events
from tracelab.readers.nsys.nvtx import NvtxNames
from tracelab.readers.nsys.probe import open_export
from tracelab.readers.nsys.ranks import Ranks, assign_ranks
from tracelab.readers.nsys.source_row import build_result, note_table_problems
from tracelab.store.writer import Sink

VERSION = "nsys-2"
_OTHER_ROWS = 2_000_000
"""Most rows kept of tables without a canonical one: samples of processors can be many times the rest."""

_NOT_EVENTS = ("DIAGNOSTIC_EVENT",)
MappedTables = Iterator[tuple[str, pa.Table]]


@dataclass
class ReadTotals:
    """Totals over all tables."""

    diagnostics: DiagnosticCounts = field(default_factory=DiagnosticCounts)
    events_kept: int = 0
    gpu_pids: set[int] = field(default_factory=set)
    first_device: int | None = None


@dataclass(frozen=True)
class ReadTask:
    """A part of a table to read, and the function that maps its batches."""

    part: Part
    columns: Columns
    steady: tuple[str, ...]
    mapped: Callable[[Batch], MappedTables]


def read(path: Path, open_sink: Callable[[int], Sink], *, workers: int, progress: Callable[[int], None]) -> ReadResult:
    """Put the rows of an export, or of a report that nsys can export, into a sink."""
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(report_export.export_report(path)) if report_export.is_report(path) else path
        return _read_export(open_export(source), path, open_sink, workers, progress)


def _read_export(
    export: Export, path: Path, open_sink: Callable[[int], Sink], workers: int, progress: Callable[[int], None]
) -> ReadResult:
    totals = ReadTotals()
    start_ns = metadata.session_start_ns(export, totals.diagnostics)
    session, names = _read_session(export, start_ns, totals.diagnostics)
    expected = assign_ranks(metadata.list_gpu_processes(export), path, names.mpi_ranks, DiagnosticCounts())
    sink = open_sink(expected.first)
    tasks = list(_plan_tasks(export, totals.diagnostics))
    reader = _ThreadedReader(export, session, sink, totals, None if expected.only is not None else expected)
    reader.read_all(tasks, workers, _progress_in_bytes(path, tasks, progress))
    note_table_problems(export, totals.diagnostics)
    ranks = assign_ranks(totals.gpu_pids, path, names.mpi_ranks, totals.diagnostics)
    devices = metadata.build_device_rows(export, ranks.by_pid, totals.gpu_pids, totals.diagnostics)
    sink.put("devices", metadata.build_table("devices", [{"rank": ranks.first} | row for row in devices]))
    run = {"profiler": "nsys", "gpu": next((row["name"] for row in devices if row["name"]), None)}
    world = {"world_size": len(ranks.by_pid)} if ranks.only is None else {}
    sink.put("runs", metadata.build_table("runs", [run | world]))
    sink.close()
    if ranks != expected:
        _correct_ranks(sink, expected, ranks)
    return build_result(export, session, totals.diagnostics, totals.events_kept, start_known=start_ns is not None)


def _read_session(export: Export, start_ns: int | None, diagnostics: DiagnosticCounts) -> tuple[Session, NvtxNames]:
    texts, numbers = string_table.read_strings(export, diagnostics), enums.read_enums(export, diagnostics)
    names = nvtx.read_names(export, texts, numbers["ENUM_NSYS_EVENT_TYPE"])
    return (
        Session(
            strings=texts,
            enums=numbers,
            shift_ns=start_ns or 0,
            dur_ns=metadata.session_dur_ns(export, diagnostics),
            domains=names.domains,
            categories=names.categories,
            records=metadata.read_event_records(export),
            calls_twice=dedup_api_calls.find_repeated_calls(export, numbers),
        ),
        names,
    )


def _plan_tasks(export: Export, diagnostics: DiagnosticCounts) -> Iterator[ReadTask]:
    """Yield the parts to read, the largest first."""
    metrics = counters.read_metric_names(export, diagnostics)
    tasks: list[ReadTask] = []
    for table, columns in export.tables.items():
        mapped = _find_mapping(table, columns, metrics)
        if mapped is None:
            continue
        parts = export.parts(table)
        if isinstance(mapped, Mapping) and mapped.table == "other_events":
            parts = _limit_parts(parts, diagnostics)
        selected, extras, map_rows = _plan_table(table, columns, mapped, metrics)
        tasks += [ReadTask(part, selected, extras, map_rows) for part in parts]
    yield from sorted(tasks, key=lambda task: -task.part.rows)


def _find_mapping(table: str, columns: Columns, metrics: counters.MetricNames) -> Mapping | str | None:
    if table in nvtx.TABLES or (table == counters.TABLE and metrics):
        return table
    return None if table in _NOT_EVENTS else find_mapping(table, columns)


def _plan_table(
    table: str, columns: Columns, mapping: Mapping | str, metrics: counters.MetricNames
) -> tuple[Columns, tuple[str, ...], Callable[[Batch], MappedTables]]:
    """Return the columns to read, those that only go into args, and the function that maps a batch.

    Mapped columns have the kinds of their mapping: a damaged export may declare others.
    """
    if table in nvtx.TABLES:
        extras = nvtx.list_extra_columns(columns)
        kinds = {name: nvtx.KINDS.get(name, kind) for name, kind in columns.items()}
        return kinds, tuple(extras), partial(nvtx.map_batch, extras=extras)
    if not isinstance(mapping, Mapping):
        kinds = {name: counters.KINDS.get(name, kind) for name, kind in columns.items()}
        return kinds, (), lambda batch: iter([("counters", counters.build_counters(batch, metrics))])
    selected: Columns = {
        name: "int" if name in mapping.mapped else kind for name, kind in columns.items() if name not in mapping.dropped
    }
    extras = [name for name in selected if name not in mapping.mapped]
    if table in dedup_api_calls.TABLES:
        duplicate = map_other_events(columns)
        duplicate_extras = [name for name in selected if name not in duplicate.mapped | duplicate.dropped]
        return (
            selected,
            tuple(extras),
            partial(_map_calls_once, first=(mapping, extras), duplicate=(duplicate, duplicate_extras)),
        )
    return selected, tuple(extras), partial(_map_batch, mapping=mapping, extras=extras)


def _map_calls_once(
    batch: Batch, first: tuple[Mapping, list[str]], duplicate: tuple[Mapping, list[str]]
) -> MappedTables:
    """Map calls; repeated calls become other events."""
    if not batch.session.calls_twice:
        yield from _map_batch(batch, *first)
        return
    repeated = dedup_api_calls.mask_repeated_calls(batch)
    batch.diagnostics.note("call_twice", count=pc.sum(repeated).as_py() or 0)
    for mask, (mapping, extras) in ((pc.invert(repeated), first), (repeated, duplicate)):
        part = replace(batch, rows=batch.rows.filter(mask))
        if part.rows.num_rows:
            yield from _map_batch(part, mapping, extras)


def _map_batch(batch: Batch, mapping: Mapping, extras: list[str]) -> MappedTables:
    columns = {name: value(batch) for name, value in mapping.columns.items()}
    batch.diagnostics.note("outside_session", count=count_outside_session(batch))
    if mapping.table == "graph_launches":
        batch.diagnostics.note("graph_whole", count=batch.rows.num_rows)
    if mapping.table != "memory_events" or extras:
        columns["args"] = build_args(batch, extras, keep_zero=mapping.keep_zero)
    yield mapping.table, pa.table(columns)


def _limit_parts(parts: list[Part], diagnostics: DiagnosticCounts) -> list[Part]:
    kept, rows = [], 0
    for part in parts:
        if rows >= _OTHER_ROWS:
            diagnostics.note("other_left_out", part.table, count=part.rows)
        else:
            kept.append(part)
        rows += part.rows
    return kept


def _progress_in_bytes(path: Path, tasks: list[ReadTask], progress: Callable[[int], None]) -> Callable[[int], None]:
    """Convert progress in rows to bytes: the size of the source, spread over its rows."""
    rows = sum(task.part.rows for task in tasks)
    size_bytes = sum(file.stat().st_size for file in list_source_files(path))
    return lambda count: progress(size_bytes * count // rows if rows else 0)


class _ThreadedReader:
    """Read the parts of one export on several threads into one sink."""

    def __init__(self, export: Export, session: Session, sink: Sink, totals: ReadTotals, ranks: Ranks | None) -> None:
        self._export, self._session, self._sink, self._totals, self._ranks = export, session, sink, totals, ranks
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def read_all(self, tasks: list[ReadTask], workers: int, progress: Callable[[int], None]) -> None:
        """Run all tasks; a failure stops the others."""
        with ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(self._read_part, task, progress) for task in tasks]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            if any(future.exception() for future in done):
                self._stop.set()
                pool.shutdown(cancel_futures=True)
        for future in done:
            future.result()

    def _read_part(self, task: ReadTask, progress: Callable[[int], None]) -> None:
        diagnostics = DiagnosticCounts()
        for rows in self._export.batches(task.part, task.columns, diagnostics, "rows_lost", task.steady):
            if self._stop.is_set():
                return
            for table, part in task.mapped(Batch(task.part.table, rows, self._session, diagnostics)):
                self._put(table, part, diagnostics)
            progress(rows.num_rows)
        with self._lock:
            self._totals.diagnostics.merge(diagnostics)

    def _put(self, table: str, rows: pa.Table, diagnostics: DiagnosticCounts) -> None:
        if "dur_ns" in rows.column_names and table != "collectives":
            diagnostics.note("negative_duration", count=pc.sum(pc.less(rows.column("dur_ns"), 0)).as_py() or 0)
        pids = rows.column("pid").combine_chunks() if "pid" in rows.column_names else None
        with self._lock:
            self._totals.events_kept += 0 if table == "collectives" else rows.num_rows
            if table in schema.GPU_ACTIVITY and pids is not None:
                self._totals.gpu_pids |= set(pc.unique(pids).drop_null().to_pylist())
        if self._ranks is not None and pids is not None:
            rows = rows.append_column("rank", self._ranks.column(pids))
        self._sink.put(table, rows)


def _correct_ranks(sink: Sink, expected: Ranks, ranks: Ranks) -> None:
    """Correct the ranks if the rows contradict the metadata tables."""
    if ranks.only is not None and ranks.only == expected.only:
        return

    def set_ranks(rows: pa.Table) -> pa.Table:
        position = rows.schema.get_field_index("rank")
        return rows.set_column(position, rows.schema.field(position), ranks.column(rows.column("pid").combine_chunks()))

    for table in sink.rows:
        if table not in ("devices", "runs", "counters"):
            sink.rewrite(table, set_ranks)
