"""Move events from `other_events` to their tables where that depends on other events of the file.

Ascend traces name the process of a device in metadata events, ops may be pairs of a begin and an end, and metrics of
CUPTI's range profiler belong to the launch that their order gives.
"""

from collections.abc import Collection, Set
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.kineto.mapping import OP_CATEGORIES
from tracelab.store.writer import Sink

if TYPE_CHECKING:
    from pathlib import Path

ASCEND, METRICS, PAIRS = "ascend", "metrics", "pairs"

ASCEND_DEVICE = "Ascend Hardware"
METRICS_CATEGORY = "cuda_profiler_range"

_EVENTS = (
    "create temp view events as select *, file_row_number as position from read_parquet({}, file_row_number = true)"
)

_METRICS_QUERY = f"""
    create temp table moved as
    select
        position, try_cast(pid as integer) as device, name as kernel,
        -- Kineto cuts the recording into ranges of equal length: their times show the order of launches only
        row_number() over (order by start_ns, position) - 1 as launch,
        map_entries(json_transform(args, '"MAP(VARCHAR, VARCHAR)"')) as entries
    from events
    where lower(category) = '{METRICS_CATEGORY}' and phase = 'X' and contains(args, '__')
"""
_METRICS_TABLES = {
    "kernel_metrics": """
        select
            $gpu_pid::bigint as pid, launch, device, kernel,
            entry.key as metric,
            try_cast(entry.value as double) as value,
            case when try_cast(entry.value as double) is null then entry.value end as text,
            nullif(to_json(map_from_entries(others))::varchar, '{}') as args
        from (
            select
                *, unnest(entries) as entry,
                list_filter(entries, lambda each: not contains(each.key, '__')) as others
            from moved
        )
        where contains(entry.key, '__')
    """,
}

_PAIRS_QUERY = f"""
    create temp table moved as
    with marks as (
        select *, sum(case phase when 'B' then 1 else -1 end) over (
            partition by pid, tid, track order by start_ns, position rows unbounded preceding
        ) as running
        from events
        where phase in ('B', 'E') and start_ns is not null
    ),
    paired as (  -- the end of a begin is the next mark of its thread on its level
        select
            *,
            lead(phase) over level as next_phase,
            lead(start_ns) over level as end_ns,
            lead(args) over level as end_args,
            lead(position) over level as end_position
        from (select *, running + (phase = 'E')::integer as depth from marks)
        window level as (partition by pid, tid, track, depth order by start_ns, position)
    )
    select
        position, end_position, pid, tid, name, start_ns, end_ns,
        nullif(try(json_merge_patch(coalesce(args, '{{}}'), coalesce(end_args, '{{}}')))::varchar, '{{}}') as args
    from paired
    where phase = 'B' and next_phase = 'E' and lower(category) in {OP_CATEGORIES}
"""
_PAIRS_TABLES = {
    "ops": """
        select
            pid, tid, name, start_ns,
            try(end_ns - start_ns) as dur_ns,
            try_cast(coalesce(args->>'$."External id"', args->>'$."external id"') as bigint) as external_id,
            nullif(try_cast(args->>'$."Sequence number"' as bigint), -1) as sequence_number,
            try_cast(args->>'$."Fwd thread id"' as bigint) as forward_tid,
            (args->'$."Input Dims"')::varchar as input_shapes,
            (args->'$."Input type"')::varchar as input_types,
            nullif(json_merge_patch(args, '{
                "External id": null, "external id": null, "Sequence number": null, "Fwd thread id": null,
                "Input Dims": null, "Input type": null
            }')::varchar, '{}') as args
        from moved
    """,
}
_UNPAIRED_QUERY = f"""
    select count(*), min_by(name, position)
    from events
    where phase in ('B', 'E') and lower(category) in {OP_CATEGORIES}
        and position not in (select position from moved union all select end_position from moved)
"""

_COPY_ARGS = """'{"operation": null, "direction": null, "size(B)": null, "dataSize(B)": null}'"""
"""Arguments of copies since CANN 8, whose first versions called them `direction` and `dataSize(B)`."""

_ASCEND_QUERY = f"""
    create temp table moved as
    with processes as (
        select
            pid,
            max(args->>'$.name') filter (name = 'process_name') as process,
            max(try_cast(args->>'$.sort_index' as bigint)) filter (name = 'process_sort_index') as layer
        from events
        where phase = 'M' and pid is not null
        group by pid
    ),
    placed as (  -- msprof: pid << 10 | layer << 5 | device; once the decimal digits of pid, layer and device
        select
            pid, process,
            case
                when (pid >> 5) & 31 = layer and list_contains($pids, pid >> 10) then pid & 31
                when pid // 100 = layer then pid % 100
            end as device,
            case
                when list_contains($pids, pid >> 10) then pid >> 10
                when list_contains($pids, pid // 100) then pid // 100
                else $gpu_pid
            end as host_pid
        from processes
        where process in ('{ASCEND_DEVICE}', 'CANN')
    )
    select
        e.position, e.name, e.tid, e.start_ns, e.dur_ns, p.device, p.host_pid,
        concat_ws(' ', e.args->>'$."Task Type"', e.name) as task,
        case
            when p.process = 'CANN' then 'api_calls'
            when regexp_matches(task, '\\b(EVENT|NOTIFY|MODEL|PROFILER)_') then 'syncs'
            when regexp_matches(task, '\\b(MEMCPY|SDMA)_') then 'memcpys'
            else 'kernels'
        end as place,
        coalesce(try_cast(e.args->>'$."Stream Id"' as bigint), e.tid) as stream,
        nullif(try_cast(e.args->>'$.connection_id' as bigint), -1) as correlation,
        coalesce(e.args->>'$.operation', e.args->>'$.direction') as operation,
        coalesce(try_cast(e.args->>'$."size(B)"' as bigint), try_cast(e.args->>'$."dataSize(B)"' as bigint)) as bytes,
        nullif(
            json_merge_patch(
                e.args,
                '{{"Stream Id": null, "connection_id": null}}',
                if(place = 'memcpys', {_COPY_ARGS}, '{{}}')
            )::varchar,
            '{{}}'
        ) as args
    from events as e
    join placed as p using (pid)
    where e.phase = 'X'
"""
_ASCEND_DIRECTION = """
    case regexp_replace(operation, ' ex$', '')
        when 'host to device' then 'HtoD'
        when 'device to host' then 'DtoH'
        when 'device to device' then 'DtoD'
        when 'addr device to device' then 'DtoD'
        when 'host to host' then 'HtoH'
        else 'unknown'
    end
"""
"""What msprof calls the directions of copies."""

_ON_ASCEND = "$gpu_pid::bigint as pid, device, stream, start_ns, dur_ns, correlation, args"
_ASCEND_TABLES = {
    "kernels": f"select {_ON_ASCEND}, name from moved where place = 'kernels'",
    "memcpys": f"""
        select {_ON_ASCEND}, {_ASCEND_DIRECTION} as direction, bytes as size_bytes from moved where place = 'memcpys'
    """,
    "syncs": f"select {_ON_ASCEND}, name as kind from moved where place = 'syncs'",
    "api_calls": """
        select host_pid as pid, tid, start_ns, dur_ns, 'runtime' as api, name, correlation, args
        from moved
        where place = 'api_calls'
    """,
}
_UNDIRECTED_QUERY = f"""
    select count(*), min(name) from moved where place = 'memcpys' and {_ASCEND_DIRECTION} = 'unknown'
"""
_ASCEND_REST_QUERY = """
    select count(*), min(p.process)
    from events as e
    join (
        select pid, args->>'$.name' as process from events where phase = 'M' and name = 'process_name'
    ) as p using (pid)
    where e.phase = 'X' and p.process in ('HCCL', 'Communication')
"""

_QUERIES = {
    ASCEND: (
        _ASCEND_QUERY,
        _ASCEND_TABLES,
        {"device_events_unmapped": _ASCEND_REST_QUERY, "copy_undirected": _UNDIRECTED_QUERY},
    ),
    METRICS: (_METRICS_QUERY, _METRICS_TABLES, {}),
    PAIRS: (_PAIRS_QUERY, _PAIRS_TABLES, {"op_unpaired": _UNPAIRED_QUERY}),
}
"""By kind: the events that move, their tables, and by diagnostic the query that counts it and returns a sample."""


def place_late_events(
    sink: Sink, kinds: Collection[str], cpu_pids: Set[int], gpu_pid: int | None, diagnostics: DiagnosticCounts
) -> None:
    """Move late events from `other_events` to their tables; `gpu_pid` is the process of GPU rows."""
    for kind in sorted(kinds):
        if path := sink.staged("other_events"):
            _place(sink, path, kind, {"pids": sorted(cpu_pids), "gpu_pid": gpu_pid}, diagnostics)


def _place(sink: Sink, path: "Path", kind: str, parameters: dict[str, Any], diagnostics: DiagnosticCounts) -> None:
    query, tables, counted = _QUERIES[kind]
    with duckdb.connect() as con:
        con.execute("set threads = 2")
        con.execute(_EVENTS.format("'" + str(path).replace("'", "''") + "'"))

        def used_by(sql: str) -> dict[str, Any]:
            return {name: value for name, value in parameters.items() if f"${name}" in sql}

        con.execute(query, used_by(query))
        for code, count_query in counted.items():
            [(count, sample)] = con.sql(count_query).fetchall()
            diagnostics.note(code, sample or "", count)
        rows = {table: con.sql(sql, params=used_by(sql)).to_arrow_table() for table, sql in tables.items()}
        ends = "union all select end_position from moved" if kind == PAIRS else ""
        positions = con.sql(f"select position from moved {ends}").to_arrow_table().column(0)
    _remove_rows(sink, positions)
    for table, moved in rows.items():
        sink.add(table, moved)


def _remove_rows(sink: Sink, positions: "pa.ChunkedArray[Any]") -> None:
    """Remove the rows at these positions from `other_events`."""
    import pyarrow.compute as pc  # takes 40 ms, and few files have such rows

    first = 0

    def keep(rows: pa.Table) -> pa.Table:
        nonlocal first
        numbers = pa.array(range(first, first + len(rows)), pa.int64())
        first += len(rows)
        return rows.filter(pc.invert(pc.is_in(numbers, positions)))

    if len(positions):
        sink.rewrite("other_events", keep)
