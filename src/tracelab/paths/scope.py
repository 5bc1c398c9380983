"""Read what a scope means for paths through the whole recording: its steps, its times, and its rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tracelab.paths.columns import NONE, Array
from tracelab.paths.graph import Graph
from tracelab.paths.recording import Relations, Rows
from tracelab.paths.stretches import Stretches, merge_stretches
from tracelab.paths.walk import Path

Spans = list[list[int | None]]

_NOWHERE = (Stretches.from_bytes(b""),) * 3


@dataclass(frozen=True)
class PathScope:
    """A scope as the view `path_scope` has it; `None` are no numbers to choose, and no ranges."""

    steps: Spans | None = None
    streams: Spans | None = None
    is_timed: bool = False
    is_linked: bool = False
    is_after_start: bool = False
    is_by_launch: bool = True
    within: tuple[Stretches, Stretches, Stretches] | None = None
    """Of processes, of threads, and of processes for what runs on no known thread."""

    @property
    def chooses_rows(self) -> bool:
        """Whether it chooses rows whenever they are, beside windows of time."""
        return self.streams is not None or self.is_linked or self.within is not None


def read_scope(relations: Relations) -> PathScope:
    """Return the scope of a session, an empty one where it has none."""
    if "scope" not in relations:
        return PathScope()
    row: dict[str, Any]
    (row,) = relations["scope"].to_pylist()
    blobs = [row.pop(name) for name in ("of_process", "of_thread", "anywhere")]
    if row.pop("is_within"):
        row["within"] = tuple(map(Stretches.from_bytes, blobs))
    return PathScope(**row)


def holds_number(spans: Spans, number: int) -> bool:
    """Return whether one of the spans has the number."""
    return any(
        first is not None and first <= number and (last is None or number <= last) and number != NONE
        for first, last in spans
    )


def find_times(graph: Graph, relations: Relations, scope: PathScope) -> tuple[int | None, int | None]:
    """Return when the times of a scope begin and end, None where the recording does.

    They are those by the clock of the lowest rank that recorded something between. After the starts of programs it
    begins where the first one ends, with the recording where a rank has no such start.
    """
    begin, end = _find_bounds(graph, relations["times"]) if scope.is_timed else (None, None)
    if scope.is_after_start:
        started = _find_start(graph, relations)
        begin = started if begin is None else max(begin, started)
    return begin, end


def _find_bounds(graph: Graph, times: pa.Table) -> tuple[int | None, int | None]:
    recording = graph.recording
    bounds = {row["source"]: (row["from_ns"], row["to_ns"]) for row in times.to_pylist()}
    for rank in sorted(recording.clocks):
        begin, end = (
            None if own is None else int(recording.from_own_clocks(np.array([rank]), np.array([own]))[0])
            for own in bounds.get(recording.sources.get(rank), (None, None))
        )
        first, last = recording.reach(rank)
        if (begin is None or begin < last) and (end is None or end > first):
            return begin, end
    return NONE, NONE


def _find_start(graph: Graph, relations: Relations) -> int:
    recording = graph.recording
    ends: dict[int, int] = {}
    for row in relations["starts"].to_pylist():
        rank = int(row["rank"])
        if recording.sources.get(rank) == row["source"]:
            end = int(recording.from_own_clocks(np.array([rank]), np.array([row["end_ns"]]))[0])
            ends[rank] = min(end, ends.get(rank, end))
    return min(ends.get(rank, 0) for rank in recording.clocks)


@dataclass(frozen=True)
class ScopeRows:
    """Whether each segment of a thread, and each row of a GPU, is one that a scope chooses."""

    segments: Array
    rows: Array

    def on_path(self, graph: Graph, path: Path) -> Array:
        """Return whether each stretch of a path is chosen; a gap is where what ends it is."""
        is_gpu = path.segment < 0
        chosen = np.empty(len(path.node), dtype=bool)
        chosen[is_gpu] = self.rows[path.node[is_gpu] - graph.gpu_from]
        chosen[~is_gpu] = self.segments[path.segment[~is_gpu]]
        return chosen


def find_scope_rows(graph: Graph, relations: Relations, scope: PathScope) -> ScopeRows | None:
    """Return the segments and rows that a scope chooses; None where it takes all.

    A segment counts where it begins, a row of a GPU as other queries count it. Streams choose rows of GPUs alone: no
    thread has one.
    """
    if not scope.chooses_rows:
        return None
    gpu = graph.recording.gpu
    segments, rows = np.ones(len(graph.segments.start), dtype=bool), np.ones(gpu.count, dtype=bool)
    if scope.streams is not None:
        held = [holds_number(scope.streams, stream) for stream in gpu.stream_of_lane.tolist()]
        segments[:] = False
        rows = np.array(held, dtype=bool)[gpu.lane]
    if scope.is_linked:
        rows &= graph.launch_thread >= 0
    if scope.within is not None:
        within = _find_within(graph, relations, scope)
        segments &= within[: len(segments)]
        rows &= within[len(segments) :]
    return ScopeRows(segments, rows)


def _find_within(graph: Graph, relations: Relations, scope: PathScope) -> Array:
    """Return which segments, then which rows of GPUs, begin in the ranges, ops and modules of a scope.

    Rows of GPUs count by their launch where the scope counts these.
    """
    first, threads = len(graph.segments.start), len(graph.recording.cpu.tid_of_lane)
    lane = np.concatenate([graph.segments.thread.astype(np.int64), threads + graph.recording.gpu.lane])
    at = np.concatenate([graph.segments.start, graph.start[graph.gpu_from :]])
    if scope.is_by_launch:
        launched = np.flatnonzero(graph.launch_thread >= 0)
        lane[first + launched] = graph.launch_thread[launched]
        at[first + launched] = graph.launch_time[launched]
    lanes, starts, ends = _place_stretches(graph, relations, scope)
    span = int(max(at.max(initial=0), ends.max(initial=0))) + 1
    place = np.searchsorted(lanes * span + starts, lane * span + at, side="right") - 1
    held: Array = (place >= 0) & (lanes[place] == lane) & (at < ends[place]) if len(lanes) else place >= 0
    return held


def _place_stretches(graph: Graph, relations: Relations, scope: PathScope) -> tuple[Array, Array, Array]:
    """Return the stretches of a scope on the lanes of threads, then of streams, in order: lane, start and end."""
    recording = graph.recording
    of_process, of_thread, anywhere = scope.within or _NOWHERE
    keys = {
        (int(row["rank"]), row["pid"], row["tid"]): (int(row["process"]), int(row["thread"]))
        for row in relations["lanes"].to_pylist()
        if recording.sources.get(int(row["rank"])) == row["source"]
    }
    threads = [(*each, True) for each in zip(*_lanes(recording.cpu), recording.cpu.tid_of_lane.tolist(), strict=True)]
    streams = [(*each, NONE, not scope.is_by_launch) for each in zip(*_lanes(recording.gpu), strict=True)]
    parts: list[tuple[Array, Array, Array]] = [(np.empty(0, np.int64),) * 3]
    for number, (rank, pid, tid, is_on_threads) in enumerate([*threads, *streams]):
        known = keys.get((rank, None if pid == NONE else pid, None if tid == NONE else tid))
        if known is None:
            continue
        process, thread = known
        found = [of_process.of(process)]
        if is_on_threads:
            found.append(of_thread.of(thread) if thread else anywhere.of(process))
        starts, ends = (np.concatenate(times) for times in zip(*found, strict=True))
        if len(starts):
            ranks = np.full(len(starts), rank)
            starts, ends = (np.maximum(recording.from_own_clocks(ranks, each), 0) for each in (starts, ends))
            order = np.argsort(starts, kind="stable")
            starts, ends = merge_stretches(starts[order], ends[order])
            parts.append((np.full(len(starts), number), starts, ends))
    lanes, starts, ends = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return lanes, starts, ends


def _lanes(rows: Rows) -> tuple[list[int], list[int]]:
    """Return rank and process of each lane."""
    return rows.rank_of_lane.tolist(), rows.pid_of_lane.tolist()
