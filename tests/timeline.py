"""What the questions about the GPU side of a timeline must answer, computed in plain Python from literal rows.

Nothing here is tracelab's: sets of what runs, walked from one boundary to the next, and dictionaries for joins.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

Row = Mapping[str, object]
Rows = Iterable[Row]
Key = tuple[object, ...]

ACTIVITY = {"kernels": "kernel", "memcpys": "memcpy", "memsets": "memset", "graph_launches": "graph"}
LAUNCHING = ("runtime", "driver")


def timed(row: Row) -> bool:
    """Whether a row has a start and a duration that is not below 0."""
    return row.get("start_ns") is not None and row.get("dur_ns") is not None and row["dur_ns"] >= 0


def end(row: Row) -> int:
    """The end of a row that is timed."""
    return row["start_ns"] + row["dur_ns"]


def place(row: Row) -> Key:
    """Run, rank and device of a row."""
    return (row["run"], row["rank"], row.get("device"))


def process(row: Row) -> Key:
    """What a correlation belongs to, and the correlation."""
    return (row["run"], row["source"], row.get("pid"), row.get("correlation"))


def activity(tables: Mapping[str, Rows]) -> list[Row]:
    """Every kernel, copy, fill and whole graph, with its kind."""
    return [{**row, "kind": kind} for table, kind in ACTIVITY.items() for row in tables.get(table, ())]


def walked(rows: Rows, label: Callable[[Row], object]) -> Iterator[tuple[Key, int, Counter]]:
    """For each stretch between two boundaries of a (run, rank, device) in a source: its length, and what runs in it."""
    lanes: dict[Key, list[tuple[int, int, object]]] = defaultdict(list)
    for row in rows:
        if timed(row):
            lane = (*place(row), row["source"])
            lanes[lane] += [(row["start_ns"], 1, label(row)), (end(row), -1, label(row))]
    for lane, events in lanes.items():
        running: Counter = Counter()
        before = None
        for at, step, what in sorted(events, key=lambda event: event[0]):
            if before is not None and at > before:
                yield lane[:3], at - before, +running
            running[what] += step
            before = at


def measure(rows: Rows, label: Callable[[Row], object], holds: Callable[[Counter], bool]) -> dict[Key, int]:
    """By (run, rank, device): how long what runs fulfils `holds`."""
    found: dict[Key, int] = defaultdict(int)
    for key, length, running in walked(rows, label):
        found[key] += length if holds(running) else 0
    return found


def parts(rows: Rows, label: Callable[[Row], object]) -> tuple[dict[Key, int], dict[Key, int]]:
    """By (run, rank, device, label): how long it runs, and how long it runs and nothing else does."""
    busy: dict[Key, int] = defaultdict(int)
    alone: dict[Key, int] = defaultdict(int)
    for key, length, running in walked(rows, label):
        for what in running:
            busy[*key, what] += length
            alone[*key, what] += length if len(running) == 1 else 0
    return busy, alone


def calls(api_calls: Rows) -> dict[Key, tuple[int, int]]:
    """By process and correlation: when the call that launches begins and ends."""
    found: dict[Key, tuple[int, int]] = {}
    for row in api_calls:
        if row.get("correlation") is not None and row["api"] in LAUNCHING and timed(row):
            first, last = found.get(process(row), (row["start_ns"], end(row)))
            found[process(row)] = (min(first, row["start_ns"]), max(last, end(row)))
    return found


def idle(rows: Rows, launched: Mapping[Key, tuple[int, int]], min_gap_ns: int) -> dict[Key, dict[str, list[int]]]:
    """By (run, rank, device): the gaps of each cause."""
    lanes: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        if timed(row):
            lanes[(*place(row), row["source"])].append(row)
    found: dict[Key, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for lane, members in lanes.items():
        members.sort(key=lambda row: (row["start_ns"], row["correlation"] is None, row["correlation"] or 0))
        until = end(members[0])
        for row in members[1:]:
            gap = row["start_ns"] - until
            if gap > 0:
                found[lane[:3]][_cause(gap, until, launched.get(process(row)), min_gap_ns)].append(gap)
            until = max(until, end(row))
    return found


def _cause(gap: int, begun: int, call: tuple[int, int] | None, min_gap_ns: int) -> str:
    if call is None:
        return "unknown"
    if call[1] > begun:
        return "host"
    return "dependency" if gap > min_gap_ns else "overhead"


@dataclass(frozen=True)
class Stream:
    """What the launches of one stream must come to."""

    launches: int
    unmatched: int
    negative: int
    negative_queue: int
    median_latency_ns: float | None
    waiting_ns: int
    max_queue_depth: int
    empty_ns: int


def launches(rows: Rows, launched: Mapping[Key, tuple[int, int]]) -> dict[Key, Stream]:
    """By (run, rank, device, pid, context, stream): its launches, each call with its first kernel."""
    firsts: dict[Key, Row] = {}
    lone = []
    for row in rows:
        if row["kind"] in {"kernel", "graph"} and timed(row):
            if row["correlation"] is None:
                lone.append(row)
            else:
                known = firsts.get(process(row), row)
                firsts[process(row)] = min(known, row, key=_order)
    streams: dict[Key, list[tuple[str, Row, tuple[int, int] | None]]] = defaultdict(list)
    for row in (*firsts.values(), *lone):
        call = None if row["correlation"] is None else launched.get(process(row))
        streams[*place(row), row["pid"], row["context"], row["stream"]].append((row["source"], row, call))
    return {key: _stream(members) for key, members in streams.items()}


def _order(row: Row) -> Key:
    return (row["start_ns"], *((row[name] is None, row[name]) for name in ("device", "context", "stream")))


def _stream(members: list[tuple[str, Row, tuple[int, int] | None]]) -> Stream:
    known = [(source, call, row["start_ns"]) for source, row, call in members if call is not None]
    latencies = [start - call[0] for _, call, start in known]
    events: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for source, call, start in known:
        if start >= call[0]:
            events[source] += [(call[0], 1), (start, -1)]
    deepest = empty = 0
    for steps in events.values():
        depth, before = 0, None
        by_time: dict[int, int] = defaultdict(int)
        for at, step in steps:
            by_time[at] += step
        for at in sorted(by_time):
            if before is not None and depth == 0:
                empty += at - before
            depth, before = depth + by_time[at], at
            deepest = max(deepest, depth)
    kept = [latency for latency in latencies if latency >= 0]
    return Stream(
        launches=len(known),
        unmatched=len(members) - len(known),
        negative=sum(latency < 0 for latency in latencies),
        negative_queue=sum(start < call[1] for _, call, start in known),
        median_latency_ns=median(kept) if kept else None,
        waiting_ns=sum(kept),
        max_queue_depth=deepest,
        empty_ns=empty,
    )
