"""Measure ingesting an Nsight Systems export of many synthetic kernels, as a whole process."""

import random
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from ingest_cost import ingest
from process_cost import Cost, FailedError, cost, median, python

ROWS = 2_000_000
_AT_ONCE = 50_000
_NAMES = 120
_SESSION_NS = 1_750_000_000_000_000_000
_GLOBAL_PID = (1 << 48) | (4_242 << 24)

COLUMNS = {  # the kernels' table of nsys 2026, with what a kernel of number `at` has there
    "start": "start",
    "end": "end",
    "deviceId": "at % 2",
    "contextId": "1 + at % 2",
    "greenContextId": "0",
    "streamId": "7 + at % 3",
    "correlationId": "at + 1",
    "globalPid": str(_GLOBAL_PID),
    "demangledName": "name",
    "shortName": "name",
    "mangledName": "name",
    "launchType": "1",
    "cacheConfig": "1",
    "registersPerThread": "32",
    "gridX": "1 + at % 900",
    "gridY": "1",
    "gridZ": "1",
    "blockX": "128",
    "blockY": "1",
    "blockZ": "1",
    "staticSharedMemory": "16 * (name % 5)",
    "dynamicSharedMemory": "0",
    "localMemoryPerThread": "0",
    "localMemoryTotal": "127401984",
    "gridId": "at",
    "sharedMemoryExecuted": "1024 * (8 + name % 3)",
    "graphNodeId": "None",
    "sharedMemoryLimitConfig": "0",
    "qmdBulkReleaseDone": "None",
    "qmdPreexitDone": "None",
    "qmdLastCtaDone": "None",
    "graphId": "None",
    "clusterX": "0",
    "clusterY": "0",
    "clusterZ": "0",
    "clusterSchedulingPolicy": "1",
    "maxPotentialClusterSize": "0",
    "maxActiveClusters": "0",
    "sharedMemoryRequestedPercentage": "None",
    "tensorSizeMinusOneElements": "'[]'",
}


@dataclass
class Export:
    """What was measured on one export."""

    rows: int
    file_mb: float
    store_mb: float = 0
    runs: list[Cost] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return median([run.wall_s for run in self.runs])

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds

    @property
    def cpu_us_a_row(self) -> float:
        return median([run.cpu_s for run in self.runs]) / self.rows * 1e6

    @property
    def peak_bytes(self) -> int:
        return max(run.peak_bytes for run in self.runs)


def measure(rows: int, work: Path, repeats: int = 3) -> Export:
    """Build the export, ingest it some times, and compare counts and sums with those of the builder."""
    path, store = work / "kernels.sqlite", work / "store"
    try:
        done = subprocess.run(python(__file__, str(path), str(rows)), capture_output=True, text=True, check=False)
        if done.returncode:
            raise FailedError(f"building an export failed: {done.stderr.strip()}")
        expected = tuple(int(word) for word in done.stdout.split())
        measured = Export(rows, path.stat().st_size / 1e6)
        for _ in range(repeats):
            shutil.rmtree(store, ignore_errors=True)
            measured.runs.append(cost(ingest(path, store)))
        measured.store_mb = sum(file.stat().st_size for file in store.rglob("*.parquet")) / 1e6
        found = duckdb.sql(
            "select count(*), sum(dur_ns)::bigint, min(start_ns), count(distinct name) "
            f"from read_parquet('{store}/kernels/*/*.parquet', hive_partitioning = false)"
        ).fetchall()[0]
        if found != expected:
            measured.wrong.append(f"an nsys export of {rows:,} kernels gave {found}, not {expected}")
        return measured
    finally:
        path.unlink(missing_ok=True)
        shutil.rmtree(store, ignore_errors=True)


def build(path: Path, rows: int) -> tuple[int, int, int, int]:
    """Write an export; gives its kernels, the sum of their durations, the first start, and their names."""
    randomly = random.Random(7)
    texts = [f"void library::kernel_{at}<float, {at % 9}, true>(float const*, float*, int)" for at in range(_NAMES)]
    kinds = ", ".join(f'"{name}" {"TEXT" if name.startswith("tensor") else "INTEGER"}' for name in COLUMNS)
    row = eval(f"lambda at, start, end, name: ({', '.join(COLUMNS.values())})")  # noqa: S307  our own text, above
    start, total, used = 0, 0, set()
    with sqlite3.connect(path) as con:
        con.execute("create table StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        con.executemany("insert into StringIds values (?, ?)", list(enumerate(texts)))
        con.execute("create table TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER)")
        con.execute("insert into TARGET_INFO_SESSION_START_TIME values (?)", [_SESSION_NS])
        con.execute(f"create table CUPTI_ACTIVITY_KIND_KERNEL ({kinds})")
        for first in range(0, rows, _AT_ONCE):
            part = []
            for at in range(first, min(first + _AT_ONCE, rows)):
                end, name = start + randomly.randrange(1_000, 90_000), randomly.randrange(_NAMES)
                part.append(row(at, start, end, name))
                total, start = total + end - start, end + randomly.randrange(3_000)
                used.add(name)
            marks = ", ".join("?" * len(COLUMNS))
            con.executemany(f"insert into CUPTI_ACTIVITY_KIND_KERNEL values ({marks})", part)
    con.close()
    return rows, total, _SESSION_NS, len(used)


if __name__ == "__main__":
    print(*build(Path(sys.argv[1]), int(sys.argv[2])))
