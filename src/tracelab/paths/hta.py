"""Find the critical path of each rank as Holistic Trace Analysis (HTA) defines it."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import pyarrow as pa

from tracelab.paths.recording import Relations

Params = Mapping[str, str | int | float | bool | None]

OPERATOR, DEPENDENCY = "operator", "dependency"
LAUNCH_DELAY, KERNEL_DELAY, SYNC = "kernel_launch_delay", "kernel_kernel_delay", "sync_dependency"
NO_WEIGHT = (DEPENDENCY, SYNC)
BLOCKING = frozenset(
    {
        *("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventQuery", "cudaEventSynchronize"),
        *("cudaMemcpy", "cudaMemcpyAsync"),
    }
)
LAUNCHES = frozenset(
    {
        *("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync"),
        *("hipLaunchKernel", "hipExtModuleLaunchKernel", "hipMemcpyAsync", "hipMemsetAsync", "hipMemcpyWithStream"),
    }
)
_COMMUNICATION = re.compile(r"^nccl.*Kernel")


@dataclass(frozen=True, eq=False)
class Event:
    """One event in whole microseconds."""

    pid: int | None
    tid: int | None
    stream: int | None
    kind: str
    name: str
    start: int
    end: int
    correlation: int | None
    awaited_stream: int | None
    awaited: int | None


Node = tuple[Event, bool]
"""The start of an event (False), or its end."""


@dataclass
class Graph:
    """Nodes and edges in the order in which they are added, which decides between paths of equal length."""

    before: dict[Node, dict[Node, tuple[int, str]]] = field(default_factory=dict)
    after: dict[Node, list[Node]] = field(default_factory=dict)

    def add_node(self, node: Node) -> None:
        """Add a node."""
        self.before[node], self.after[node] = {}, []

    def add_edge(self, near: Node, far: Node, kind: str, *, weightless: bool = False) -> None:
        """Add an edge; its weight is the time between its nodes."""
        weight = 0 if weightless or kind in NO_WEIGHT else max(-1, _time(far) - _time(near))
        if near not in self.before[far]:
            self.after[near].append(far)
        self.before[far][near] = (max(weight, 0), kind)

    def longest_path(self) -> list[Node]:
        """Return the longest path by the order that networkx gives to nodes: generation by generation."""
        missing = {node: len(edges) for node, edges in self.before.items()}
        generation = [node for node, count in missing.items() if not count]
        length: dict[Node, tuple[int, Node]] = {}
        while generation:
            following = []
            for node in generation:
                found = [(length[near][0] + weight, near) for near, (weight, _) in self.before[node].items()]
                length[node] = max(found, key=lambda each: each[0], default=(0, node))
                for far in self.after[node]:
                    missing[far] -= 1
                    if not missing[far]:
                        following.append(far)
            generation = following
        node = max(length, key=lambda each: length[each][0])
        path = [node]
        while (near := length[path[-1]][1]) is not path[-1] and near != path[-1]:
            path.append(near)
        return path[::-1]


def _time(node: Node) -> int:
    return node[0].end if node[1] else node[0].start


def compute_hta_paths(relations: Relations, params: Params, check: Callable[[], None]) -> dict[str, pa.Table]:
    """Return the rows of `hta_path_edges`: the edges on the path of each rank."""
    rows: list[dict[str, object]] = []
    columns = ("pid", "tid", "stream", "kind", "name", "start_us", "end_us", "correlation")
    names = (*columns, "waits_for_stream", "waits_for_correlation")
    table = relations["events"]
    listed = zip(*(table.column(name).to_pylist() for name in ("rank", *names)), strict=True)
    for rank, of_rank in groupby(listed, key=lambda row: row[0]):
        check()
        events = [Event(*row[1:]) for row in of_rank]
        graph = build_graph(events, str(params["in_annotation"] or ""), int(params["instance"] or 0))
        if graph is None or not graph.before:
            continue
        path = graph.longest_path()
        for number, (near, far) in enumerate(pairwise(path), start=1):
            weight, kind = graph.before[far][near]
            row = {
                "rank": rank,
                "number": number,
                "type": kind,
                "bound_by": _bound_by(near, kind),
                "dur_ns": weight * 1000,
            }
            rows.append(row | {"name": near[0].name, "path_nodes": len(path)})
    return {"hta_path_edges": pa.Table.from_pylist(rows)} if rows else {}


def _bound_by(near: Node, kind: str) -> str | None:
    if kind == KERNEL_DELAY:
        return "gpu_kernel_kernel_overhead"
    if kind == LAUNCH_DELAY:
        return "gpu_kernel_launch_overhead"
    if kind in NO_WEIGHT:
        return None
    if near[0].stream is None:
        return "cpu_bound"
    return "gpu_communication_bound" if _COMMUNICATION.search(near[0].name) else "gpu_compute_bound"


def build_graph(events: Sequence[Event], annotation: str, instance: int) -> Graph | None:
    """Build HTA's graph of the events in an instance of an annotation; None where there is no such instance."""
    window = _window(events, annotation, instance)
    if window is None:
        return None
    calls: dict[int | None, Event] = {
        event.correlation: event for event in events if event.kind == "cpu" and event.correlation is not None
    }
    on_threads = [
        event
        for event in events
        if event.kind == "cpu" and window[0] <= event.start <= window[1] and event.end > event.start
    ]
    chosen = set(on_threads)
    on_streams = [
        event
        for event in events
        if event.kind in ("gpu", "sync")
        and event.correlation in calls
        and (calls[event.correlation] in chosen or event.name == "Stream Wait Event")
    ]
    graph = Graph()
    nodes = [event for event in (*on_threads, *on_streams) if event.kind == "cpu" or event.stream is not None]
    for node in sorted(((event, is_end) for event in nodes for is_end in (False, True)), key=_time):
        graph.add_node(node)
    by_thread: dict[tuple[int | None, int | None], list[Event]] = defaultdict(list)
    for event in on_threads:
        by_thread[event.pid, event.tid].append(event)
    for thread in by_thread.values():
        _add_thread(graph, thread)
    _add_streams(graph, events, on_streams, calls)
    return graph


def _window(events: Iterable[Event], annotation: str, instance: int) -> tuple[int, int] | None:
    """Return the time of an instance of the annotation, by a part of its name; without a name that of all events."""
    if not annotation:
        spans = [(event.start, event.end) for event in events]
        return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None
    spans = [(event.start, event.end) for event in events if event.kind == "range" and annotation in event.name]
    return spans[instance] if 0 <= instance < len(spans) else None


def _add_thread(graph: Graph, events: Sequence[Event]) -> None:
    """Chain starts and ends of a thread's nested events, and events that are in no other."""
    last: Node | None = None
    last_outer: Node | None = None
    opened: list[Event] = []

    def leave(event: Event) -> None:
        nonlocal last, last_outer
        opened.pop()
        if last is not None:
            graph.add_edge(last, (event, True), OPERATOR, weightless=event.name in BLOCKING)
        last = (event, True) if opened else None
        last_outer = last_outer if opened else (event, True)

    for event in sorted(events, key=lambda event: (event.start, event.start - event.end)):
        while opened and opened[-1].end <= event.start:
            leave(opened[-1])
        if not opened and last_outer is not None:
            graph.add_edge(last_outer, (event, False), DEPENDENCY)
        opened.append(event)
        if last is not None:
            graph.add_edge(last, (event, False), OPERATOR)
        last = (event, False)
    while opened:
        leave(opened[-1])


def _add_streams(
    graph: Graph, events: Sequence[Event], on_streams: Sequence[Event], calls: Mapping[int | None, Event]
) -> None:
    """Add the edges of rows of streams, and those of synchronizations."""
    launches = [
        (call, event)
        for event in events
        if event.kind == "gpu" and (call := calls.get(event.correlation)) and call.name in LAUNCHES
    ]
    launches.sort(key=lambda launch: launch[0].start)
    queued = _queue_lengths(launches)
    last: dict[int | None, Event] = {}
    awaited: dict[Event, Event] = {}
    for event in sorted(on_streams, key=lambda event: event.end if event.kind == "sync" else event.start):
        if event.kind == "sync":
            _add_sync(graph, event, calls, launches, (last, awaited))
            continue
        call = calls[event.correlation]
        graph.add_edge((event, False), (event, True), OPERATOR)
        source = awaited.get(event)
        if source is not None and (source, True) in graph.before:
            graph.add_edge((source, True), (event, False), SYNC)
        else:
            source = None
        near = last.get(event.stream)
        is_first = near is None or near.end < call.start
        if (
            queued.get(call) == 1
            and queued.get(event) == 0
            and is_first
            and (source is None or source.end < call.start)
        ):
            graph.add_edge((call, False), (event, False), LAUNCH_DELAY)
        elif near is not None and (source is None or source.end < near.end):
            graph.add_edge((near, True), (event, False), KERNEL_DELAY)
        last[event.stream] = event


def _queue_lengths(launches: Sequence[tuple[Event, Event]]) -> dict[Event, int]:
    """Return how many rows of its stream are launched and have not begun, behind each launch and each beginning."""
    changes = [(call, event.stream, 1) for call, event in launches] + [
        (event, event.stream, -1) for _, event in launches
    ]
    lengths: dict[int | None, int] = defaultdict(int)
    queued = {}
    for event, stream, step in sorted(changes, key=lambda change: change[0].start):
        lengths[stream] += step
        queued[event] = lengths[stream]
    return queued


def _add_sync(
    graph: Graph,
    sync: Event,
    calls: Mapping[int | None, Event],
    launches: Sequence[tuple[Event, Event]],
    state: tuple[dict[int | None, Event], dict[Event, Event]],
) -> None:
    """Add what a synchronization waits for: of an event the last launch before it was recorded, else the last rows."""
    last, awaited = state
    call = calls[sync.correlation]
    if sync.name in ("Stream Wait Event", "Event Sync"):
        record = calls.get(sync.awaited)
        if record is None:
            return
        recorded = [
            row for launch, row in launches if row.stream == sync.awaited_stream and launch.start <= record.start
        ]
        if not recorded:
            return
        if sync.name == "Stream Wait Event":
            behind = (row for launch, row in launches if row.stream == sync.stream and launch.start >= call.start)
            if (row := next(behind, None)) is not None:
                awaited[row] = recorded[-1]
            return
        sources = [recorded[-1]]
    else:
        sources = (
            list(last.values()) if sync.name == "Context Sync" else [last[sync.stream]] if sync.stream in last else []
        )
    for source in sources:
        if (source, True) in graph.before and (call, True) in graph.before:
            graph.add_edge((source, True), (call, True), SYNC)
