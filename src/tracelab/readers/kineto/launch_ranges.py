"""Name the collective of kernels by the range that launched them, where the kernels carry no metadata of their own.

NCCL runs all-to-all, gather and scatter as kernels called SendRecv, and RCCL calls most of its kernels Generic; the
range of the process group around the launch, `nccl:all_to_all`, names what was called.
"""

from tracelab.readers.kineto.mapper import open_cursor
from tracelab.readers.kineto.mapping import COLLECTIVE_KIND
from tracelab.store.writer import Sink

COLLECTIVE_RANGE = "^(nccl|rccl|xccl|hccl|ucc|mpi):"
"""Matches the range of a process group's collective; what follows is its name."""
KERNEL_NAME = "(?i)ccl"
"""Matches the kernels of collective libraries."""

_QUERY = f"""
    with ranges as (
        select
            tid, start_ns, try(start_ns + dur_ns) as end_ns, regexp_replace(name, '{COLLECTIVE_RANGE}', '') as raw_name
        from read_parquet($annotations)
        where scope = 'cpu' and regexp_matches(name, '{COLLECTIVE_RANGE}')
    ),
    calls as (  -- of a runtime's call and the driver's below it the outer one
        select correlation, arg_min(tid, start_ns) as tid, min(start_ns) as start_ns
        from read_parquet($api_calls)
        where correlation is not null
        group by correlation
    ),
    launches as (
        select k.device, k.stream, k.start_ns, k.dur_ns, k.correlation, k.external_id, c.tid, c.start_ns as call_ns
        from read_parquet($kernels) as k
        join calls as c using (correlation)
        where regexp_matches(k.name, '{KERNEL_NAME}')
    ),
    named as (
        select l.*, r.raw_name, {COLLECTIVE_KIND.format("r.raw_name")} as collective
        from launches as l
        asof join ranges as r on l.tid = r.tid and l.call_ns >= r.start_ns
        where l.call_ns < r.end_ns
    )
    select
        'range' as origin, $pid::bigint as pid, device, stream, start_ns, dur_ns, correlation, external_id,
        collective, raw_name
    from named
    where collective <> 'other' or regexp_matches(raw_name, 'gather|scatter')  -- `coalesced` names no collective
    order by start_ns, device, stream
"""
_WITHOUT_METADATA = """
    select n.*
    from named as n
    anti join (from read_parquet($collectives) where origin = 'kernel') as c
        on n.correlation = c.correlation and n.start_ns = c.start_ns
        and n.device is not distinct from c.device and n.stream is not distinct from c.stream
"""


def add_range_collectives(sink: Sink, pid: int | None) -> None:
    """Add rows of `collectives` for kernels of the file's only process whose launching range names the collective."""
    paths = {table: sink.staged(table) for table in ("annotations", "api_calls", "kernels")}
    if pid is None or None in paths.values():
        return
    with open_cursor() as con:
        found = con.sql(_QUERY, params={"pid": pid} | {table: str(path) for table, path in paths.items()})
        rows = found.to_arrow_table()
        if noted := sink.staged("collectives"):
            con.register("named", rows)
            rows = con.sql(_WITHOUT_METADATA, params={"collectives": str(noted)}).to_arrow_table()
    sink.add("collectives", rows)
