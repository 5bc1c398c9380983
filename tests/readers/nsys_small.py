"""Small exports as Nsight Systems writes them, in SQLite or as a folder of Parquet files, from literal rows."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.readers.small import Lab, ingest_paths

Row = Mapping[str, object]
Tables = Mapping[str, Sequence[Row]]

PID, TID = 4242, 4343
GLOBAL_PID = (1 << 48) | (PID << 24)
GLOBAL_TID = GLOBAL_PID | TID
STRINGS = {1: "void gemm<float>(float*)", 2: "gemm", 3: "cudaLaunchKernel_v7000", 4: "relu", 5: "ncclAllReduce"}

KERNELS, COPIES, FILLS = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET"))
CALLS, SYNCS, GRAPHS = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("RUNTIME", "SYNCHRONIZATION", "GRAPH_TRACE"))
EVENT_RECORDS = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
START_NS = 1_700_000_000_000_000_000
SESSION = [{"utcEpochNs": START_NS, "utcTime": "2023-11-14T22:13:20", "localTime": "x"}]
BESIDE = {"rank_assumed", "session_start_unknown"}

_2021 = (
    "start end deviceId contextId streamId correlationId globalPid demangledName shortName launchType cacheConfig "
    "registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory "
    "localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig"
)
_2023 = _2021.replace("contextId", "contextId greenContextId").replace("shortName", "shortName mangledName")
_2026 = _2023 + (
    " qmdBulkReleaseDone qmdPreexitDone qmdLastCtaDone graphId clusterX clusterY clusterZ clusterSchedulingPolicy "
    "maxPotentialClusterSize maxActiveClusters sharedMemoryRequestedPercentage tensorSizeMinusOneElements:TEXT"
)
KERNEL_COLUMNS = {"2021": _2021.split(), "2023": _2023.split(), "2026": _2026.split()}
"""The columns of the kernels' table, by the year of the export."""


def kernel(start: object = 1000, end: object = 1010, **others: object) -> Row:
    """A kernel on device 0, stream 7."""
    row = {"start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 11}
    named = {"globalPid": GLOBAL_PID, "demangledName": 1, "shortName": 2, "registersPerThread": 32}
    shape = {"gridX": 4, "gridY": 2, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1}
    return row | named | shape | {"staticSharedMemory": 16, "dynamicSharedMemory": 0} | others


def copy(start: object = 2000, end: object = 2100, **others: object) -> Row:
    """A copy of 4096 bytes from pageable memory to the device."""
    row = {"start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 12}
    return row | {"globalPid": GLOBAL_PID, "bytes": 4096, "copyKind": 1, "srcKind": 0, "dstKind": 2} | others


def call(start: object = 900, end: object = 950, **others: object) -> Row:
    """A call of the CUDA runtime."""
    row = {"start": start, "end": end, "eventClass": 0, "globalTid": GLOBAL_TID, "correlationId": 11, "nameId": 3}
    return row | {"returnValue": 0} | others


def nvtx(start: object = 500, end: object = 600, **others: object) -> Row:
    """A push/pop range."""
    row: dict[str, object] = {"start": start, "end": end, "eventType": 59, "globalTid": GLOBAL_TID, "text": "step"}
    return row | others


def export(folder: Path, tables: Tables, *, name: str = "report.sqlite", kernels: str = "2026") -> Path:
    """Write an SQLite export: the tables given, and StringIds where it is not among them."""
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as con:
        for table, rows in _with_strings(tables).items():
            columns = _columns(table, rows, kernels)
            declared = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
            con.execute(f'create table "{table}" ({declared})')
            values = [[row.get(column) for column in columns] for row in rows]
            con.executemany(f'insert into "{table}" values ({", ".join("?" * len(columns))})', values)
    con.close()
    return path


def folder_of(path: Path, target: Path) -> Path:
    """The same tables as a folder of Parquet files, as `nsys export -t parquetdir` writes it."""
    target.mkdir(parents=True)
    con = sqlite3.connect(path)
    con.text_factory = lambda text: text.decode(errors="replace")
    for (table,) in con.execute("select name from sqlite_master where type = 'table'").fetchall():
        kinds = {row[1]: row[2] for row in con.execute(f'pragma table_info("{table}")')}
        arrow = {"INTEGER": pa.int64(), "REAL": pa.float64(), "TEXT": pa.string()}
        rows = list(zip(*con.execute(f'select * from "{table}"').fetchall(), strict=True)) or [[] for _ in kinds]
        columns = [pa.array(cells, arrow[kinds[name]]) for name, cells in zip(kinds, rows, strict=True)]
        pq.write_table(pa.table(columns, names=list(kinds)), target / f"{table}.parquet")
    con.close()
    return target


def _with_strings(tables: Tables) -> Tables:
    return {"StringIds": [{"id": key, "value": text} for key, text in STRINGS.items()]} | dict(tables)


def _columns(table: str, rows: Sequence[Row], kernels: str) -> dict[str, str]:
    """The columns that any row has, and their declared types; of kernels all that the year's export has."""
    if table == "CUPTI_ACTIVITY_KIND_KERNEL":
        listed = [column.partition(":") for column in KERNEL_COLUMNS[kernels]]
        return {name: kind or "INTEGER" for name, _, kind in listed}
    found: dict[str, str] = {}
    for row in rows:
        for column, value in row.items():
            kind = {str: "TEXT", float: "REAL"}.get(type(value), "INTEGER")
            found[column] = kind if found.get(column, "INTEGER") == "INTEGER" else found[column]
    return found


def ingest_export(folder: Path, name: str = "report.sqlite", kernels: str = "2026", **tables: list) -> Lab:
    """Ingest an export of these tables."""
    return ingest_paths(folder, [export(folder, tables, name=name, kernels=kernels)])


def diagnostic_codes(lab: Lab) -> set[str]:
    return lab.diagnostics() - BESIDE
