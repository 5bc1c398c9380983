"""Read what nvprof printed, as CSV or on a console, into a sink."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tracelab import schema
from tracelab.readers import decompress
from tracelab.readers.base import ReadResult
from tracelab.readers.diagnostics import DiagnosticCounts, build_diagnostics, rank_from_name
from tracelab.readers.nvprof import banners
from tracelab.readers.nvprof.diagnostics import MESSAGES
from tracelab.readers.nvprof.summary_mapping import Row
from tracelab.readers.nvprof.table_parser import TableParser
from tracelab.readers.text_lines import iter_blocks
from tracelab.store.writer import Sink

_WAITING_ROWS = 32_768


def read(path: Path, open_sink: Callable[[int], Sink], *, progress: Callable[[int], None]) -> ReadResult:
    """Put the rows of a printed result into a sink."""
    rank, diagnostics = rank_from_name(path), DiagnosticCounts()
    sink = open_sink(rank or 0)
    parser = TableParser(diagnostics)
    with decompress.open_decompressed(path, diagnostics, progress) as stream:
        for block in iter_blocks(stream, diagnostics):
            parser.parse_block(block)
            if sum(map(len, parser.rows.values())) >= _WAITING_ROWS:
                _put_rows(parser, sink)
    _put_rows(parser, sink)
    ranks = _assign_ranks(parser, rank, diagnostics)
    for table, rows in _build_run_tables(parser, ranks, rank or 0).items():
        sink.put(table, rows)
    sink.close()
    if len(ranks) > 1:
        for table in sink.rows:
            if {"rank", "pid"} <= {column.name for column in schema.BY_NAME[table].columns}:
                sink.rewrite(table, lambda rows: _set_ranks(rows, ranks))
    return _facts(parser)


def _put_rows(parser: TableParser, sink: Sink) -> None:
    for table, rows in parser.rows.items():
        sink.put(table, build_table(table, rows))
    parser.rows.clear()


def build_table(table: str, rows: list[Row]) -> pa.Table:
    """Build a table of the schema, with the columns that at least one row has."""
    used = {name for row in rows for name in row}
    columns = [column for column in schema.BY_NAME[table].columns if column.name in used]
    return pa.table({c.name: pa.array([row.get(c.name) for row in rows], c.arrow.type) for c in columns})


def _assign_ranks(parser: TableParser, rank: int | None, diagnostics: DiagnosticCounts) -> dict[int, int]:
    """Assign a rank to each process: the one in the file's name, or their order if there are several."""
    pids = sorted({pid for pid, _, _ in parser.launches.devices if pid is not None} | parser.pids)
    if len(pids) > 1:
        diagnostics.note("several_processes", ", ".join(map(str, pids)), len(pids))
        return dict(zip(pids, range(len(pids)), strict=True))
    if rank is None:
        diagnostics.note("rank_assumed")
    return dict.fromkeys(pids, rank or 0)


def _build_run_tables(parser: TableParser, ranks: dict[int, int], rank: int) -> dict[str, pa.Table]:
    """Build rows of `devices` and `runs`."""

    def process_rank(pid: int | None) -> int:
        return rank if pid is None else ranks[pid]

    devices = [
        {"rank": process_rank(pid), "device": ordinal, "name": name}
        for pid, ordinal, name in sorted(parser.launches.devices, key=str)
    ]
    run: Row = {
        "profiler": "nvprof",
        "gpu": devices[0]["name"] if devices else None,
        "status": banners.run_status(parser.diagnostics),
    }
    return {"devices": build_table("devices", devices), "runs": build_table("runs", [run])}


def _set_ranks(rows: pa.Table, ranks: dict[int, int]) -> pa.Table:
    """Set the rank of each row by its process."""
    positions = pc.index_in(rows.column("pid"), pa.array(list(ranks), pa.int64()))
    ranks_of_rows = pc.fill_null(pc.take(pa.array(list(ranks.values()), pa.int32()), positions), 0)
    return rows.set_column(rows.schema.get_field_index("rank"), rows.schema.field("rank"), ranks_of_rows)


def _facts(parser: TableParser) -> ReadResult:
    diagnostics = parser.diagnostics
    if not parser.tables:
        diagnostics.note("no_result")
    if parser.coarsest_ns > 1:
        diagnostics.note("printed_digits", f"{parser.coarsest_ns.normalize():f} ns")
    broken = any(code.startswith("gzip_") for code in diagnostics.counts)
    return ReadResult(
        source={
            "producer": "nvprof",
            "events_read": parser.kept + parser.lost,
            "events_kept": parser.kept,
            "events_skipped": parser.lost,
            "complete": not (parser.lost or broken or not parser.tables),
            "clock": "session",
        },
        diagnostics=build_diagnostics(diagnostics, MESSAGES),
    )
