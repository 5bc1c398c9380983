"""Read an nvprof database (`nvprof -o`, .nvprof or .nvvp) into a sink."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tracelab import schema
from tracelab.errors import NotProfilerDataError
from tracelab.readers.base import ReadResult
from tracelab.readers.diagnostics import DiagnosticCounts, build_diagnostics, rank_from_name
from tracelab.readers.nvprof import metadata, sqlite_scan
from tracelab.readers.nvprof.activity_mapping import MAPPINGS, NOT_EVENTS, OTHER_EVENT, PREFIX, Mapping
from tracelab.readers.nvprof.diagnostics import MESSAGES
from tracelab.readers.nvprof.metadata import Tables
from tracelab.readers.nvprof.sqlite_scan import ReadLosses, quote_name
from tracelab.readers.nvprof.table_queries import build_queries, count_long_texts, list_kinds
from tracelab.store.writer import Sink

UNIX_SINCE_NS = 10**18  # 2001; a clock that counts from boot stays below
_DATA = files("tracelab.readers.nvprof")
_ABSENT = ("", "00", "00000000")


@dataclass(frozen=True)
class DatabaseSource:
    """A database: the file to open, the source file (perhaps compressed), and problems of decompressing it."""

    file: Path
    source_file: Path
    diagnostics: DiagnosticCounts = field(default_factory=DiagnosticCounts)


@dataclass
class ReadTotals:
    """Totals over all rows."""

    events: int = 0
    lost: int = 0
    first_ns: int | None = None
    broken: bool = False
    diagnostics: DiagnosticCounts = field(default_factory=DiagnosticCounts)

    def note_times(self, rows: pa.Table) -> None:
        """Update the totals with the times of some rows."""
        if "start_ns" not in rows.column_names:
            return
        first = pc.min(rows.column("start_ns")).as_py()
        if first is not None:
            self.first_ns = first if self.first_ns is None else min(first, self.first_ns)
        if "dur_ns" in rows.column_names:
            dur = rows.column("dur_ns")
            if negative := pc.sum(pc.less(dur, 0)).as_py():
                self.diagnostics.note("negative_duration", count=negative)


def read(source: DatabaseSource, open_sink: Callable[[int], Sink], *, progress: Callable[[int], None]) -> ReadResult:
    """Put the rows of a database into a sink. Raises NotProfilerDataError."""
    rank = rank_from_name(source.source_file)
    totals = ReadTotals(diagnostics=source.diagnostics, broken=sqlite_scan.is_truncated(source.file))
    if totals.broken:
        totals.diagnostics.note("database_cut")
    if rank is None:
        totals.diagnostics.note("rank_assumed")
    sink = open_sink(rank or 0)
    with closing(sqlite_scan.open_database(source.file)) as con, duckdb.connect(config={"threads": 1}) as engine:
        tables = list_tables(source.source_file, con)
        _create_lookups(engine, con, tables)
        size_bytes = source.source_file.stat().st_size
        totals.diagnostics.note("text_cut", count=count_long_texts(con))
        for share in _read_tables(source, con, tables, partial(_map_batch, engine, sink, totals), totals):
            progress(int(share * size_bytes))
        devices = metadata.read_devices(con, tables)
        version = metadata.read_version(con, tables)
    sink.put("devices", build_table("devices", [row | {"rank": rank or 0} for row in devices]))
    gpu = devices[0]["name"] if devices else None
    sink.put("runs", build_table("runs", [{"profiler": "nvprof", "gpu": gpu}]))
    sink.close()
    return _facts(totals, version)


def list_tables(path: Path, con: sqlite3.Connection) -> Tables:
    """Return the file's tables with their columns. Raises NotProfilerDataError if nvprof did not write them."""
    try:
        tables = sqlite_scan.list_columns(con)
    except sqlite3.DatabaseError as error:
        raise NotProfilerDataError(path, f"SQLite cannot open this file ({error}); copy it again") from error
    if "StringTable" not in tables or not any(name.startswith(PREFIX) for name in tables):
        raise NotProfilerDataError(path, "this SQLite file has no tables of nvprof (`nvprof -o FILE`)")
    return tables


def build_table(table: str, rows: list[dict[str, object]]) -> pa.Table:
    """Build a table of the schema, without run and source."""
    columns = [column for column in schema.BY_NAME[table].columns if column.name not in ("run", "source")]
    return pa.table({c.name: pa.array([row.get(c.name) for row in rows], c.arrow.type) for c in columns})


def _create_lookups(engine: duckdb.DuckDBPyConnection, con: sqlite3.Connection, tables: Tables) -> None:
    """Create what the mappings' macros look up.

    Names of API functions, devices of contexts, the file's only process.
    """
    names = [line.split(",") for line in (_DATA / "cbids.csv").read_text("utf-8").splitlines()[1:]]
    lookups = {
        "cbids": pa.table(
            {
                "api": [row[0] for row in names],
                "cbid": [int(row[1]) for row in names],
                "name": [row[2] for row in names],
            }
        ),
        "contexts": metadata.read_contexts(con, tables),
    }
    for name, table in lookups.items():
        engine.register("lookup", table)
        engine.execute(f"create table {name} as from lookup")
        engine.unregister("lookup")
    engine.execute((_DATA / "macros.sql").read_text("utf-8"))
    pid = metadata.find_only_process(con, tables)
    engine.execute(f"create macro gpu_pid() as {'null' if pid is None else pid}::bigint")


def _read_tables(
    source: DatabaseSource,
    con: sqlite3.Connection,
    tables: Tables,
    put: Callable[[str, pa.Table], None],
    totals: ReadTotals,
) -> Iterator[float]:
    """Read all event tables in batches; yield the share of the rows of each."""
    weights = {
        kind: sqlite_scan.estimate_rows(con, PREFIX + kind) for kind in list_kinds(tables) if kind not in NOT_EVENTS
    }
    total = max(1, sum(weights.values()))
    for kind in weights:
        for question in build_queries(con, tables, kind):
            losses = ReadLosses()
            batch_rows = sqlite_scan.BATCH_ROWS // (16 if totals.diagnostics.counts["text_cut"] else 1)
            for batch in sqlite_scan.scan_batches(source.file, question, losses, batch_rows):
                totals.events += batch.num_rows
                put(kind, batch)
                yield batch.num_rows / total
            _note_lost(kind, losses, totals)


def _map_batch(engine: duckdb.DuckDBPyConnection, sink: Sink, totals: ReadTotals, kind: str, raw: pa.Table) -> None:
    """Map a batch of rows, and put them into their tables."""
    other = Mapping("other_events", OTHER_EVENT | {"category": f"'{kind.lower()}'"})
    columns = {name for mapping in MAPPINGS.get(kind, (other,)) for name in _mapped_raw_columns(mapping)}
    for name in sorted(columns - set(raw.column_names)):
        raw = raw.append_column(name, pa.nulls(raw.num_rows, pa.int64()))
    engine.register("raw", raw)
    for mapping in MAPPINGS.get(kind, (other,)):
        rows = engine.sql(_select_sql(mapping, raw)).to_arrow_table()
        totals.note_times(rows)
        sink.put(mapping.table, rows)
    engine.unregister("raw")


def _mapped_raw_columns(mapping: Mapping) -> set[str]:
    """Return the raw columns in the expressions of a mapping."""
    text = " ".join([mapping.where, *mapping.columns.values()])
    return {part for at, part in enumerate(text.split('"')) if at % 2}


def _select_sql(mapping: Mapping, raw: pa.Table) -> str:
    types = {column.name: column.duckdb for column in schema.BY_NAME[mapping.table].columns}
    columns = [f"{_cast_sql(text, types[name])} as {name}" for name, text in mapping.columns.items()]
    mapped = (
        _mapped_raw_columns(mapping)
        | set(mapping.also_mapped)
        | {name for name in raw.column_names if name.startswith("kernel_")}
    )
    unmapped = [name for name in raw.column_names if name not in mapped]
    entries = ", ".join(_json_entry_sql(name, raw) for name in unmapped)
    args = f"nullif('{{' || concat_ws(',', {entries}) || '}}', '{{}}')" if unmapped else "null"
    return f"select {', '.join(columns)}, {args} as args from raw where {mapping.where}"


def _cast_sql(text: str, kind: str) -> str:
    return f"nullif(try_cast({text} as {kind}), '')" if kind == "varchar" else f"try_cast({text} as {kind})"


def _json_entry_sql(name: str, raw: pa.Table) -> str:
    """Return SQL of a key and its value as JSON by concatenation: objects would take five times as long."""
    kind = raw.schema.field(name).type
    value = _non_empty_sql(name, raw)
    return f"{_sql_literal(json.dumps(name) + ':')} || {value if pa.types.is_integer(kind) else f'to_json({value})'}"


def _non_empty_sql(name: str, raw: pa.Table) -> str:
    """Return SQL of a non-empty value: CUPTI writes 0 if there is nothing, or nothing was requested."""
    if name == "completed" and "end" in raw.column_names:  # differs only for kernels that launched others
        return 'case when "completed" <> "end" then nullif("completed", 0) end'
    if pa.types.is_string(raw.schema.field(name).type):
        return f"case when {quote_name(name)} not in {_ABSENT} then {quote_name(name)} end"
    return f"nullif({quote_name(name)}, 0)"


def _sql_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _note_lost(kind: str, losses: ReadLosses, totals: ReadTotals) -> None:
    if losses.values:
        totals.diagnostics.note("value_unfit", f"{kind}.{losses.sample}", losses.values)
    if losses.broken:
        totals.broken = True
        totals.lost += max(1, losses.rows)
        totals.diagnostics.note("table_broken", f"{kind} ({losses.broken})")


def _facts(totals: ReadTotals, version: str | None) -> ReadResult:
    return ReadResult(
        source={
            "producer": "nvprof",
            "producer_version": version,
            "events_read": totals.events + totals.lost,
            "events_kept": totals.events,
            "events_skipped": totals.lost,
            "complete": not (totals.broken or any(code.startswith("gzip_") for code in totals.diagnostics.counts)),
            "clock": "unix" if (totals.first_ns or 0) > UNIX_SINCE_NS else "session",
        },
        diagnostics=build_diagnostics(totals.diagnostics, MESSAGES),
    )
