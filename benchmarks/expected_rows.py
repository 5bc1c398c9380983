"""Derive the rows a built trace must produce, with Python's json and Decimal alone, and report differences."""

import gzip
import json
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from build_trace import NS_PER_US, Built

TABLES = {
    "kernel": "kernels",
    "gpu_memcpy": "memcpys",
    "gpu_memset": "memsets",
    "cpu_op": "ops",
    "cuda_runtime": "api_calls",
    "cuda_driver": "api_calls",
    "user_annotation": "annotations",
    "gpu_user_annotation": "annotations",
    "python_function": "python_frames",
    "cuda_sync": "syncs",
}
COLLECTIVE_KEYS = {"Collective name", "In msg nelems", "In msg size", "Out msg nelems", "Out msg size"}

NAMELESS = {"memcpys", "memsets", "syncs"}
"""Tables that say by columns what the event's name said."""

Row = tuple[str, int, int | None]
"""Name (or nothing), start and duration in whole nanoseconds."""


@dataclass
class Expected:
    """The rows of one repetition by table, and all that follows from them for the whole file."""

    built: Built
    rows: dict[str, list[Row]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    """Rows of one repetition in tables that are only counted."""

    def sums(self, table: str) -> tuple[int, int, int]:
        """Return a table's rows, the sum of its starts and the sum of its durations."""
        rows, times = self.rows[table], self.built.repetitions
        shifts_ns = self.built.span_ns * times * (times - 1) // 2
        starts_ns = sum(start for _, start, _ in rows)
        durations_ns = sum(dur or 0 for _, _, dur in rows)
        return len(rows) * times, starts_ns * times + len(rows) * shifts_ns, durations_ns * times

    def repetition(self, table: str, number: int) -> Counter[Row]:
        """Return every row of one repetition."""
        shift_ns = number * self.built.span_ns
        return Counter((name, start + shift_ns, dur) for name, start, dur in self.rows[table])


def expected(source: Path, built: Built) -> Expected:
    """Read the source, exactly and slowly."""
    raw = source.read_bytes()
    trace = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw, parse_float=Decimal)
    base_ns = int(trace.get("baseTimeNanoseconds", 0)) if isinstance(trace, dict) else 0
    found = Expected(built)
    for event in trace["traceEvents"] if isinstance(trace, dict) else trace:
        table = TABLES.get(event.get("cat", "").lower())
        if table and event.get("ph") == "X":
            name = "" if table in NAMELESS else event["name"]
            found.rows.setdefault(table, []).append((name, base_ns + _ns(event["ts"]), _ns(event.get("dur"))))
            found.counts["collectives"] += _is_collective(event)
        found.counts["memory_events"] += event.get("name") == "[memory]"
    return found


def wrong(store: Path, truth: Expected) -> list[str]:
    """Return what a store that holds only this trace has wrong: nothing, if all is well."""
    from tracelab.store import session

    found = []
    with session.connect(store) as con:
        read, skipped, complete = con.execute("select events_read, events_skipped, complete from sources").fetchone()
        if (read, skipped, complete) != (truth.built.events, 0, True):
            found.append(
                f"sources: {read} read, {skipped} skipped, complete: {complete}; not {truth.built.events}, 0, True"
            )
        for table in truth.rows:
            sums = "count(*), sum(start_ns)::hugeint, sum(dur_ns)::hugeint"
            got = con.execute(f"select {sums} from {table}").fetchone()
            if got != truth.sums(table):
                found.append(f"{table}: rows, sum of starts, sum of durations are {got}, not {truth.sums(table)}")
            found += _different(con, table, truth)
        for table, count in truth.counts.items():
            (got,) = con.execute(f"select count(*) from {table}").fetchone()
            if got != count * truth.built.repetitions:
                found.append(f"{table}: has {got} rows, not {count * truth.built.repetitions}")
    return found


def _different(con: Any, table: str, truth: Expected) -> list[str]:  # noqa: ANN401  duckdb, imported late
    found = []
    for number in {0, truth.built.repetitions - 1}:
        must = truth.repetition(table, number)
        starts = [start for _, start, _ in must]
        name = "''" if table in NAMELESS else "name"
        rows = con.execute(
            f"select {name}, start_ns, dur_ns from {table} where start_ns between ? and ?", [min(starts), max(starts)]
        ).fetchall()
        # Neighbouring repetitions may begin in the nanosecond in which this one ends: more rows are no fault.
        if missing := must - Counter(rows):
            example = next(iter(missing))
            found.append(
                f"{table}: of {must.total()} rows of repetition {number}, {missing.total()} miss, as {example}"
            )
    return found


def _is_collective(event: dict[str, Any]) -> bool:
    says = event["cat"].lower() == "kernel" or event["name"] == "record_param_comms"
    return says and not COLLECTIVE_KEYS.isdisjoint(event.get("args") or {})


def _ns(us: Decimal | int | str | None) -> int | None:
    return None if us is None else int(Decimal(us) * NS_PER_US)
