"""Name the collective of kernels by the range that launched them, where the kernels carry no metadata of their own.

NCCL runs all-to-all, gather and scatter as kernels called SendRecv, and RCCL calls most of its kernels Generic; the
range of the process group around the launch, `nccl:all_to_all`, names what was called.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from tracelab import schema
from tracelab.readers.kineto.mapper import open_cursor
from tracelab.readers.kineto.mapping import COLLECTIVE_KIND
from tracelab.store.writer import BufferedSink, Sink

COLLECTIVE_RANGE = "^(nccl|rccl|xccl|hccl|ucc|mpi):"
"""Matches the range of a process group's collective; what follows is its name."""
KERNEL_NAME = "(?i)ccl"
"""Matches the kernels of collective libraries."""

_COLUMNS = {
    "annotations": ("scope", "tid", "name", "start_ns", "dur_ns"),
    "api_calls": ("tid", "correlation", "start_ns"),
    "kernels": ("device", "stream", "name", "start_ns", "dur_ns", "correlation", "external_id"),
    "collectives": ("origin", "device", "stream", "start_ns", "correlation"),
}
"""The tables and columns that the query reads."""

_QUERY = f"""
    with ranges as (
        select
            file, tid, start_ns, try(start_ns + dur_ns) as end_ns,
            regexp_replace(name, '{COLLECTIVE_RANGE}', '') as raw_name
        from {{annotations}}
        where scope = 'cpu' and regexp_matches(name, '{COLLECTIVE_RANGE}')
    ),
    calls as (  -- of a runtime's call and the driver's below it the outer one
        select file, correlation, arg_min(tid, start_ns) as tid, min(start_ns) as start_ns
        from {{api_calls}}
        where correlation is not null
        group by file, correlation
    ),
    launches as (
        select k.* exclude (name), c.tid, c.start_ns as call_ns
        from {{kernels}} as k
        join calls as c on k.file = c.file and k.correlation = c.correlation
        where regexp_matches(k.name, '{KERNEL_NAME}')
    ),
    named as (
        select l.*, r.raw_name, {COLLECTIVE_KIND.format("r.raw_name")} as collective
        from launches as l
        asof join ranges as r on l.file = r.file and l.tid = r.tid and l.call_ns >= r.start_ns
        where l.call_ns < r.end_ns
    )
    select n.file, n.device, n.stream, n.start_ns, n.dur_ns, n.correlation, n.external_id, n.collective, n.raw_name
    from named as n
    anti join (from {{collectives}} where origin = 'kernel') as c
        on n.file = c.file and n.correlation = c.correlation and n.start_ns = c.start_ns
        and n.device is not distinct from c.device and n.stream is not distinct from c.stream
    where n.collective <> 'other' or regexp_matches(n.raw_name, 'gather|scatter')  -- `coalesced` names no collective
    order by n.file, n.start_ns, n.device, n.stream
"""


def add_range_collectives(files: Sequence[tuple[Sink, int | None]]) -> None:
    """Add rows of `collectives` for kernels whose launching range names the collective, to closed sinks.

    A file comes as its sink and its only process, None where it has several: then nothing is added. One query reads all
    files, since to plan it takes longer than to run it on small ones.
    """
    needed = {"annotations", "api_calls", "kernels"}
    read = [(sink, pid) for sink, pid in files if pid is not None and needed <= sink.rows.keys()]
    if not read:
        return
    with open_cursor() as con:
        paths: dict[str, str] = {}
        sources = {table: _select_rows(con, table, [sink for sink, _ in read], paths) for table in _COLUMNS}
        rows = con.sql(_QUERY.format(**sources), params=paths).to_arrow_table()
    ends = np.searchsorted(rows.column("file").to_numpy(), np.arange(len(read)), side="right").tolist()
    for (sink, pid), (start, end) in zip(read, itertools.pairwise([0, *ends]), strict=True):
        if start < end:
            named = rows.slice(start, end - start).drop_columns("file")
            origin, process = pa.repeat("range", len(named)), pa.repeat(pa.scalar(pid, pa.int64()), len(named))
            sink.add("collectives", named.append_column("origin", origin).append_column("pid", process))


def _select_rows(con: duckdb.DuckDBPyConnection, table: str, sinks: Sequence[Sink], paths: dict[str, str]) -> str:
    """Return SQL for the rows of a table, where `file` is the number of the sink; adds the path that it reads."""
    kept = [schema.BY_NAME[table].arrow.empty_table()]
    numbers = [0]
    for number, sink in enumerate(sinks):
        if isinstance(sink, BufferedSink):
            kept += sink.tables.get(table, ())
            numbers += [number] * (len(kept) - len(numbers))
        elif path := sink.staged(table):
            assert len(sinks) == 1  # noqa: S101 - only what is kept in memory is read together
            paths[table] = str(path)
            return f"(select 0 as file, * from read_parquet(${table}))"
    files = np.repeat(np.array(numbers, np.int32), list(map(len, kept)))
    columns = {name: _join_plain([rows.column(name) for rows in kept]) for name in _COLUMNS[table]}
    con.register(f"kept_{table}", pa.table({"file": pa.array(files), **columns}))
    return f"kept_{table}"


def _join_plain(parts: "Sequence[pa.ChunkedArray[Any]]") -> "pa.ChunkedArray[Any]":
    """Join parts of a column as those of the first type: where that is text, others may be dictionaries of text."""
    as_type = parts[0].type
    chunks = (chunk for part in parts for chunk in part.chunks)
    return pa.chunked_array([chunk if chunk.type == as_type else chunk.cast(as_type) for chunk in chunks], as_type)
