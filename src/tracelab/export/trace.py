"""Write an export: events rank by rank, counters, and names of tracks."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import duckdb
import pyarrow as pa

from tracelab import __version__, schema
from tracelab.errors import NoDataError, UsageError
from tracelab.export.clocks import Clock, Span, arrange_clocks, clock_notes, read_spans
from tracelab.export.lanes import Lanes
from tracelab.export.tracks import Key, Layout, Process, Track, build_layout, ordered_threads, process_name
from tracelab.query import execute
from tracelab.resources import QUERIES
from tracelab.store import alignment, integrity, session

_SCRIPTS = QUERIES / "export"
_ROWS_AT_ONCE = 20_000
_FOREVER = 1 << 62


@dataclass(frozen=True)
class Request:
    """Selection for an export; empty for everything. Times count from the first event of each clock.

    `aligned`: all ranks are on the clock of the lowest.
    """

    runs: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    from_ns: int | None = None
    to_ns: int | None = None
    critical_path: bool = False
    aligned: bool = False


@dataclass
class ExportResult:
    """Statistics and notes of an export."""

    events: int = 0
    samples: int = 0
    moved: int = 0
    runs: int = 0
    ranks: int = 0
    notes: list[str] = field(default_factory=list)


def write(store: Path, request: Request, stream: BinaryIO) -> ExportResult:
    """Write the trace. Raises NoDataError before writing if there is nothing to export."""
    clocks_of_ranks = alignment.measure(store, request.runs) if request.aligned else None
    referenced = _referenced_sql(request)
    with (
        session.connect(store, referenced=referenced, alignment=clocks_of_ranks) as con,
        integrity.explain_read_errors(store),
    ):
        con.execute("set enable_progress_bar = false; set memory_limit = '2GB'").fetchall()  # more is spilled to disk
        runs = _select_runs(con, request)
        _run_script(con, "00_spans")
        spans = read_spans(con, runs)
        clocks = arrange_clocks(spans)
        _create_relations(con, clocks, spans, request)
        if request.critical_path:
            _add_critical_path(con, runs)
        plan = _layout(con)
        done = ExportResult(runs=len(runs), ranks=len({(track.key.run, track.key.rank) for track in plan.tracks}))
        stream.write(_head(clocks, runs, request, clocks_of_ranks))
        _write_events(con, plan, stream, done)
        _write_samples(con, stream, done)
        stream.write(_tail(con, plan, len(runs)))
        done.notes += [
            *(clocks_of_ranks.notes if clocks_of_ranks else ()),
            *clock_notes(clocks),
            *_lane_notes(done.moved),
            *_path_notes(plan, request),
            *_omission_notes(con),
        ]
        return done


def _lane_notes(count: int) -> list[str]:
    if not count:
        return []
    events = "1 event overlaps" if count == 1 else f"{count:,} events overlap"
    return [f"{events} without nesting and moved to a lane beside the track; Perfetto would drop them."]


def _path_notes(plan: Layout, request: Request) -> list[str]:
    if not request.critical_path or any(track.key.place == "path" for track in plan.tracks):
        return []
    return ["The critical path does not lead through what is exported; export more ranks, or a longer time."]


def _select_runs(con: duckdb.DuckDBPyConnection, request: Request) -> list[str]:
    known = execute.stored_runs(con)
    for run in request.runs:
        execute.check_run(known, run)
    if not request.runs and len(known) > 1:
        raise UsageError(
            f"the store holds {len(known)} runs; name those to export with --run: {execute.list_first(known)}"
        )
    return list(dict.fromkeys(request.runs)) or known


def _referenced_sql(request: Request) -> str:
    """Return all names that an export needs in a session: every table, and what its scripts use."""
    scripts = (path.read_text(encoding="utf-8") for path in sorted(_SCRIPTS.glob("*.sql")))
    return "\n".join((*schema.BY_NAME, *scripts, *(["path_rows"] if request.critical_path else [])))


def _run_script(con: duckdb.DuckDBPyConnection, name: str) -> None:
    con.execute((_SCRIPTS / f"{name}.sql").read_text(encoding="utf-8")).fetchall()


def _create_relations(
    con: duckdb.DuckDBPyConnection, clocks: Sequence[Clock], spans: Sequence[Span], request: Request
) -> None:
    """Create the relations of an export for the selection.

    Notes of a run folder count as far as the profiler's recording reaches.

    """
    for name in ("05_selection", "10_texts", "20_gpu", "30_host", "35_path", "40_events", "50_counters", "60_left_out"):
        _run_script(con, name)
    profiled = {(span.run, span.source) for span in spans if span.profiled}
    for clock in clocks:
        bounded = any((clock.run, source) in profiled for source in clock.sources)
        first = clock.zero_ns if bounded else -_FOREVER
        last = clock.last_ns + 1 if bounded else _FOREVER
        start = first if request.from_ns is None else clock.zero_ns + request.from_ns
        end = last if request.to_ns is None else clock.zero_ns + request.to_ns
        for source in clock.sources:
            row = [clock.run, source, clock.shift_ns, start, end, list(request.ranks) or None]
            con.execute("insert into exported values (?, ?, ?, ?, ?, ?)", row).fetchall()


def _add_critical_path(con: duckdb.DuckDBPyConnection, runs: Sequence[str]) -> None:
    """Pass the stretches of the critical path to SQL as `exported_path_rows`."""
    from tracelab.store import computed_tables

    computed_tables.provide(con, "path_rows", runs=runs)
    con.execute(
        "insert into exported_path_rows by name "
        "select run, rank, source, start_ns, dur_ns, class, name, op, cause from path_rows"
    ).fetchall()


def _layout(con: duckdb.DuckDBPyConnection) -> Layout:
    """Number the tracks, and pass them to SQL as `placed_tracks`, with the arrows as `flows`."""
    keys = [Key(*row) for row in con.execute("from exported_tracks").fetchall()]
    counted: list[Process] = [
        (run, rank, place, device if place == "gpu" else pid)
        for run, rank, place, device, pid in con.execute(
            "select distinct run, rank, place, device, pid from shown_samples"
        ).fetchall()
    ]
    if not keys and not counted:
        raise NoDataError(
            "nothing was recorded of that rank and time; `tracelab doctor` lists the contents of the store"
        )
    thread_names = con.execute(
        "select run, rank, 'cpu', pid, tid, name from thread_names where name is not null"
    ).fetchall()
    plan = build_layout(keys, counted, {Key(*row[:-1]): row[-1] for row in thread_names})
    _insert(con, "placed_tracks", _table(plan.tracks))
    _insert(con, "numbered", _numbers(plan))
    con.execute("insert into flows by name from exported_launches").fetchall()
    return plan


def _table(tracks: Sequence[Track]) -> pa.Table:
    rows = [asdict(each.key) | {"number": each.number, "flat": each.flat, "head": _thread(each, 0)} for each in tracks]
    fields: dict[str, pa.DataType] = dict.fromkeys(("run", "place", "track", "head"), pa.string())
    fields |= dict.fromkeys(("rank", "pid", "tid", "device", "context", "stream", "number"), pa.int64())
    return pa.Table.from_pylist(rows, pa.schema(fields | {"flat": pa.bool_()}))


def _numbers(plan: Layout) -> pa.Table:
    names = ("run", "rank", "place", "part", "number")
    rows = [dict(zip(names, (*process, number), strict=True)) for process, number in plan.pids.items()]
    kinds: tuple[pa.DataType, ...] = (pa.string(), pa.int64(), pa.string(), pa.int64(), pa.int64())
    return pa.Table.from_pylist(rows, pa.schema(list(zip(names, kinds, strict=True))))


def _insert(con: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    con.register("rows", rows)
    con.execute(f"insert into {table} by name from rows").fetchall()
    con.unregister("rows")


def _thread(track: Track, lane: int) -> str:
    return f'{{"pid":{track.pid},"tid":{track.lanes[lane]},'


def _write_events(con: duckdb.DuckDBPyConnection, plan: Layout, stream: BinaryIO, done: ExportResult) -> None:
    by_number = {each.number: each for each in plan.tracks}
    lanes = Lanes()
    for run, rank in sorted({(each.key.run, each.key.rank) for each in plan.tracks}):
        with con.sql("from event_texts($run, $rank)", params={"run": run, "rank": rank}).to_arrow_reader(
            _ROWS_AT_ONCE
        ) as reader:
            for batch in reader:
                _write_batch(batch, lanes, plan, by_number, stream)
                done.events += batch.num_rows
    done.moved = lanes.moved


def _write_batch(batch: pa.RecordBatch, lanes: Lanes, plan: Layout, tracks: dict[int, Track], stream: BinaryIO) -> None:
    columns: dict[str, list[Any]] = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    texts: list[str] = columns["text"]
    for at, lane in lanes.place(columns["number"], columns["flat"], columns["start_ns"], columns["end_ns"]):
        track = tracks[columns["number"][at]]
        plan.lane(track, lane)
        texts[at] = _thread(track, lane) + texts[at].removeprefix(_thread(track, 0))
    stream.write("".join(texts).encode())


def _write_samples(con: duckdb.DuckDBPyConnection, stream: BinaryIO, done: ExportResult) -> None:
    with con.sql("from sample_texts").to_arrow_reader(_ROWS_AT_ONCE) as reader:
        for batch in reader:
            stream.write("".join(batch.column("text").to_pylist()).encode())
            done.samples += batch.num_rows


def _head(clocks: Sequence[Clock], runs: Sequence[str], request: Request, aligned: alignment.Alignment | None) -> bytes:
    """Return the start of the file: time origin, how ranks were aligned and, for a single rank, its identity."""
    origins = [{"run": clock.run, "zero_ns": clock.zero_ns, "shown_at_ns": clock.shown_at_ns} for clock in clocks]
    about: dict[str, object] = {"version": __version__, "runs": list(runs), "clocks": origins}
    if aligned is not None:
        about["aligned"] = aligned.metadata
    fields: dict[str, object] = {"displayTimeUnit": "ns", "tracelab": about}
    if len(clocks) == 1 and clocks[0].shared:
        fields["baseTimeNanoseconds"] = clocks[0].zero_ns
    if len(request.ranks) == 1:
        fields["distributedInfo"] = {"rank": request.ranks[0]}
    return f'{json.dumps(fields, ensure_ascii=False)[:-1]}, "traceEvents": [\n'.encode()


def _tail(con: duckdb.DuckDBPyConnection, plan: Layout, runs: int) -> bytes:
    cards = {
        (run, rank, device): name
        for run, rank, device, name in con.execute(
            "select distinct run, rank, device, name from devices where name is not null"
        ).fetchall()
    }
    lines = list(_name_events(plan, lambda process: process_name(process, cards, runs=runs)))
    return (",\n".join(lines) + "\n]}\n").encode()


def _name_events(plan: Layout, name_process: Callable[[Process], str]) -> Iterator[str]:
    for place, (process, pid) in enumerate(plan.pids.items()):
        yield _metadata_event(pid, None, "process_name", {"name": name_process(process)})
        yield _metadata_event(pid, None, "process_sort_index", {"sort_index": place})
    for place, (track, lane, name) in enumerate(ordered_threads(plan.tracks)):
        yield _metadata_event(track.pid, track.lanes[lane], "thread_name", {"name": name})
        yield _metadata_event(track.pid, track.lanes[lane], "thread_sort_index", {"sort_index": place})


def _metadata_event(pid: int, tid: int | None, name: str, args: dict[str, object]) -> str:
    thread = {} if tid is None else {"tid": tid}
    event = {"ph": "M", "pid": pid, **thread, "name": name, "args": args}
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))  # Perfetto shows \\u escapes literally


def _omission_notes(con: duckdb.DuckDBPyConnection) -> list[str]:
    rows = con.execute("select what, count from left_out where count > 0 order by count desc, what").fetchall()
    return [f"Not shown: {kind} ({count:,})." for kind, count in rows]
