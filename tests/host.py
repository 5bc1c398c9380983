"""The host-side questions in plain Python: stacks, dictionaries and boundary points, one run and rank at a time."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

import duckdb

from tracelab import schema

Row = dict
STEP = re.compile(r"^(profiler)?step\s*#?\s*\d+$", re.IGNORECASE)
LOADER = "enumerate(DataLoader)#"


UNUSED = {"run", "source", "rank", "args", "input_shapes", "input_types", "registers", "occupancy_ratio", "group_ranks"}
UNUSED |= {f"{of}_{axis}" for of in ("grid", "block") for axis in "xyz"}


@cache
def rows(db: duckdb.DuckDBPyConnection, table: str, run: str, rank: int) -> list[Row]:
    """All rows of a run and rank that have a place in time where the table has one, in the order of storage.

    Without the columns that nothing here reads. Each call for them returns the same rows, so nobody may change one.
    """
    columns = [column.name for column in schema.BY_NAME[table].view_columns if column.name not in UNUSED]
    quoted = ", ".join(f'"{column}"' for column in columns)
    place = " and dur_ns >= 0" if "dur_ns" in columns else ""
    found = db.execute(f"select {quoted} from {table} where run = ? and rank = ?{place}", [run, rank])
    return [dict(zip(columns, values, strict=True)) for values in found.fetchall()]


class Thread:
    """The ranges of one thread, properly nested, each with its parent."""

    def __init__(self, ranges: Iterable[Row]) -> None:
        self.ranges = sorted(ranges, key=lambda row: (row["start_ns"], -row["end_ns"]))
        self.starts = [row["start_ns"] for row in self.ranges]
        self.parents: list[int | None] = []
        stack: list[int] = []
        for at, row in enumerate(self.ranges):
            while stack and self.ranges[stack[-1]]["end_ns"] <= row["start_ns"]:
                stack.pop()
            assert not stack or row["end_ns"] <= self.ranges[stack[-1]]["end_ns"], "the corpus has no crossing ranges"
            self.parents.append(stack[-1] if stack else None)
            stack.append(at)

    def around(self, at_ns: int) -> list[int]:
        """The ranges open at an instant, the innermost first."""
        at: int | None = bisect_right(self.starts, at_ns) - 1
        at = None if at < 0 else at
        found = []
        while at is not None:
            if at_ns < self.ranges[at]["end_ns"]:
                found.append(at)
            at = self.parents[at]
        return found


def threads(ranges: Iterable[Row]) -> dict[tuple, Thread]:
    """The ranges by (pid, tid)."""
    by_thread = defaultdict(list)
    for row in ranges:
        by_thread[row["pid"], row["tid"]].append(row)
    return {key: Thread(listed) for key, listed in by_thread.items()}


def launches(calls: Iterable[Row]) -> dict[tuple, Row]:
    """The earliest call of each (pid, correlation)."""
    found: dict[tuple, Row] = {}
    for call in calls:
        key = (call["pid"], call["correlation"])
        if call["correlation"] is not None and (key not in found or call["start_ns"] < found[key]["start_ns"]):
            found[key] = call
    return found


def op_of(gpu_row: Row, nests: dict[tuple, Thread], called: dict[tuple, Row], by_id: dict[tuple, Row]) -> Row | None:
    """The op that launched a GPU row."""
    call = called.get((gpu_row["pid"], gpu_row["correlation"]))
    if call is None:
        return by_id.get((gpu_row["pid"], gpu_row["external_id"]))
    nest = nests.get((call["pid"], call["tid"]))
    held = nest.around(call["start_ns"]) if nest else []
    return nest.ranges[held[0]] if held else None


def op_sums(ops: list[Row], gpu_rows: list[Row], calls: list[Row]) -> dict[str, tuple[int, int, int, int]]:
    """By op name: calls, self time, total of the outermost calls, GPU time launched by the op itself."""
    nests, called = threads(ops), launches(calls)
    by_id = {(op["pid"], op["external_id"]): op for op in reversed(ops) if op["external_id"] is not None}
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for nest in nests.values():
        for at, op in enumerate(nest.ranges):
            held, parent = set(), nest.parents[at]
            if parent is not None:
                sums[nest.ranges[parent]["name"]][1] -= op["dur_ns"]
            while parent is not None:
                held.add(nest.ranges[parent]["name"])
                parent = nest.parents[parent]
            sums[op["name"]][0] += 1
            sums[op["name"]][1] += op["dur_ns"]
            sums[op["name"]][2] += op["dur_ns"] * (op["name"] not in held)
    for row in gpu_rows:
        op = op_of(row, nests, called, by_id)
        if op is not None:
            sums[op["name"]][3] += row["dur_ns"]
    return {name: tuple(values) for name, values in sums.items()}


def annotation_sums(marks: list[Row], gpu_rows: list[Row], calls: list[Row]) -> dict[tuple, list[int]]:
    """By (name, device): GPU time launched inside, and inside no range within."""
    nests, called = threads(marks), launches(calls)
    sums: dict[tuple, list[int]] = defaultdict(lambda: [0, 0])
    for row in gpu_rows:
        call = called.get((row["pid"], row["correlation"]))
        nest = nests.get((call["pid"], call["tid"])) if call else None
        held = nest.around(call["start_ns"]) if nest else []
        names = [nest.ranges[at]["name"] for at in held]
        for name in set(names):
            sums[name, row["device"]][0] += row["dur_ns"]
        if names:
            sums[names[0], row["device"]][1] += row["dur_ns"]
    return sums


def steps(marks: Iterable[Row]) -> list[Row]:
    """The steps of one process in order, each with `until_ns`, the start of the next; ranges in a step are none."""
    named: list[Row] = []
    ranges = [row for row in marks if STEP.match(row["name"])]
    for row in sorted(ranges, key=lambda row: (row["start_ns"], -row["end_ns"], row["name"])):
        if not any(_holds(outer, row) for outer in named):
            named.append(row)
    ends = [row["start_ns"] for row in named[1:]] + [row["end_ns"] for row in named[-1:]]
    return [row | {"until_ns": end} for row, end in zip(named, ends, strict=True)]


def _holds(outer: Row, row: Row) -> bool:
    """Whether a step range that does not begin before another one starts with it or lies in it."""
    within = row["start_ns"] < outer["end_ns"] and row["end_ns"] <= outer["end_ns"]
    return bool(within or row["start_ns"] == outer["start_ns"])


def step_of(gpu_row: Row, listed: Sequence[Row], called: dict[tuple, Row], gpu_marks: list[Row]) -> int | None:
    """The place of the step that a GPU row belongs to."""
    call = called.get((gpu_row["pid"], gpu_row["correlation"]))
    for at, step in enumerate(listed):
        if call and step["start_ns"] <= call["start_ns"] < min(step["end_ns"], step["until_ns"]):
            return at
    for at, step in enumerate(listed):
        for mark in gpu_marks:
            same_track = (mark["device"], mark["stream"]) == (gpu_row["device"], gpu_row["stream"])
            if mark["name"] == step["name"] and same_track and mark["start_ns"] <= gpu_row["start_ns"] < mark["end_ns"]:
                return at
    return None


def is_behind(step: Row, gpu_rows: Sequence[Row], launched_in: Sequence[Row]) -> bool:
    """Whether a step begins behind the last GPU row, or passes before the first while its work or earlier one waits."""
    if gpu_rows and step["start_ns"] >= max(row["end_ns"] for row in gpu_rows):
        return True
    first_ns = min((row["start_ns"] for row in gpu_rows), default=0)
    waits_from_ns = min((each["start_ns"] for each in launched_in), default=first_ns)
    if waits_from_ns == step["start_ns"]:
        return step["start_ns"] < first_ns and step["until_ns"] <= first_ns
    return waits_from_ns < step["start_ns"] < first_ns


def step_parts(step: Row, own: Sequence[list[Row]], others: list[Row]) -> list[int]:
    """Time in the step by the first of compute, communication, memory, other rows that runs; last the idle time."""
    layers = [
        [
            (max(row["start_ns"], step["start_ns"]), min(row["end_ns"], step["until_ns"]))
            for row in layer
            if row["start_ns"] < step["until_ns"] and row["end_ns"] > step["start_ns"]
        ]
        for layer in (*own, others)
    ]
    edges = defaultdict(lambda: [0, 0, 0, 0])
    for number, layer in enumerate(layers):
        for start, end in layer:
            edges[start][number] += 1
            edges[end][number] -= 1
    times = sorted({step["start_ns"], step["until_ns"], *edges})
    parts, depth = [0] * 5, [0] * 4
    for start, end in pairwise(times):
        depth = [before + change for before, change in zip(depth, edges[start], strict=True)]
        parts[next((number for number, running in enumerate(depth) if running), 4)] += end - start
    return parts
