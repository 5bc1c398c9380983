"""Build the graph of a run: its nodes, each with the one that it waited for last, on any rank."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from tracelab.paths.assembly import find_nodes
from tracelab.paths.columns import NONE, Array, joint_numbers, last_at_most, numbers
from tracelab.paths.nodes import CAUSE, GAP, Followed, Nodes
from tracelab.paths.recording import GpuRows, Recording, Relations, Rows, Syncs, read_recording
from tracelab.paths.work import RecordedWork, Work


@dataclass(frozen=True)
class Graph(Nodes):
    """The nodes of a recording, of which those of collectives wait for other ranks."""

    recording: Recording
    plain: Followed
    """What rows of GPUs waited for without the wait within a collective."""
    entered: Array
    """For each row of a GPU when the last rank entered its collective."""
    meeting: Array
    """Number of the collective of a node that is matched on all of its ranks, else -1."""
    clamped: int
    """Rows that start before what they waited for had ended, by noise of the clocks."""
    work: Work

    def starts(self, segments: Array) -> Array:
        """Return when segments start."""
        burst = self.bursts(segments)
        since: Array = self.since[burst] + self.work.before(segments, burst)
        return np.where(segments == self.head[burst], self.start[burst], since)

    def ends(self, segments: Array) -> Array:
        """Return when segments end."""
        burst = self.bursts(segments)
        ends: Array = self.since[burst] + self.work.until(segments, burst)
        return ends

    def followed_at_start(self, node: int) -> tuple[int, int, int, int]:
        """Return what a node waited for at its start, without waits within it: before, bound, gap and cause."""
        row = node - self.gpu_from
        if row >= 0:
            plain = self.plain
            return int(plain.before[row]), int(plain.bound[row]), int(plain.gap[row]), int(plain.cause[row])
        thread, head = self.segments.thread, self.head
        if node > 0 and thread[head[node - 1]] == thread[head[node]]:
            return node - 1, int(self.start[node]), 0, CAUSE["thread"]
        return -1, NONE, 0, 0


def build_graph(relations: Relations, check: Callable[[], None]) -> Graph:
    """Read the rows of one run, and find what each waited for. `check` raises once the work is to stop."""
    recording = read_recording(relations)
    check()
    nodes, clamped = find_nodes(recording, check)
    recording = _without_links(recording)
    nodes = replace(nodes, nesting=replace(nodes.nesting, cpu=recording.cpu))
    meeting, last = match_collectives(recording, relations)
    plain = nodes.of_rows()
    _await_ranks(nodes, recording.gpu, last)
    return Graph(
        **{each.name: getattr(nodes, each.name) for each in fields(nodes)},
        recording=recording,
        plain=plain,
        entered=last_entries(recording.gpu.start, meeting),
        meeting=meeting,
        clamped=clamped,
        work=RecordedWork(nodes.segments, nodes.head, nodes.since[: nodes.gpu_from].copy()),
    )


def _without_links(recording: Recording) -> Recording:
    """Return a recording without the columns by which nodes were linked: a graph lives longer than it needs them."""

    def none(rows: Rows) -> Array:
        return np.broadcast_to(np.array(NONE), rows.count)  # a view of one item

    gpu, cpu, nothing = recording.gpu, recording.cpu, slice(0, 0)
    syncs = {each.name: getattr(recording.syncs, each.name)[nothing] for each in fields(Syncs)}
    return replace(recording, gpu=replace(gpu, key=none(gpu)), cpu=replace(cpu, key=none(cpu)), syncs=Syncs(**syncs))


def _await_ranks(nodes: Nodes, gpu: GpuRows, last: Array) -> None:
    """A collective is on the path from the start on its last rank; there the path goes on with that rank."""
    some = np.flatnonzero(last >= 0)
    entered = np.minimum(gpu.start[last[some]], gpu.end[some])
    late = entered > gpu.start[some]
    node, other = some[late] + nodes.gpu_from, last[some[late]] + nodes.gpu_from
    nodes.since[node] = nodes.bound[node] = entered[late]
    nodes.before[node], nodes.cause[node], nodes.gap[node] = other, CAUSE["collective"], GAP[""]


def last_entries(start: Array, meeting: Array) -> Array:
    """Return for each row the latest start of the rows of its collective; of a row without one its own start."""
    entered = start.copy()
    joined = np.flatnonzero(meeting >= 0)
    numbered = np.unique(meeting[joined], return_inverse=True)[1]
    latest = np.full(int(numbered.max(initial=-1)) + 1, NONE)
    np.maximum.at(latest, numbered, start[joined])
    entered[joined] = latest[numbered]
    return entered


def match_collectives(recording: Recording, relations: Relations) -> tuple[Array, Array]:
    """Return for each row of a GPU the number of its collective, and the row of the rank that starts last; else -1."""
    gpu: GpuRows = recording.gpu
    table = relations["collectives"]
    meeting, last = np.full(gpu.count, -1), np.full(gpu.count, -1)
    last_rank = numbers(table, "last_rank")
    rows = np.flatnonzero(last_rank != NONE)
    if not len(rows) or not gpu.count:
        return meeting, last
    place = _find_rows(recording, relations)[rows]
    number, late = numbers(table, "number")[rows], numbers(table, "rank")[rows] == last_rank[rows]
    known = place >= 0
    last_row = np.full(int(number.max()) + 1, -1)
    last_row[number[late]] = place[late]
    meeting[place[known]] = number[known]
    last[place[known]] = last_row[number[known]]
    return meeting, last


def _find_rows(recording: Recording, relations: Relations) -> Array:
    """Return the row of a GPU of each row of the relation of collectives, -1 where it does not count."""
    gpu, table = recording.gpu, relations["collectives"]
    rank = numbers(table, "rank")
    start = recording.from_own_clocks(rank, numbers(table, "start_ns"))
    stream_of_lane, wanted = joint_numbers(
        [gpu.rank_of_lane, gpu.device_of_lane, gpu.stream_of_lane],
        [rank, numbers(table, "device"), numbers(table, "stream")],
    )
    span = int(gpu.start.max()) + 1
    key = (stream_of_lane * span)[gpu.lane]
    key += gpu.start
    order = None if (key[1:] >= key[:-1]).all() else np.argsort(key, kind="stable")
    fits = (start >= 0) & (start < span)
    wanted = np.where(fits, wanted * span + start, -1)
    place = last_at_most(key if order is None else key[order], wanted)
    row = np.maximum(place, 0) if order is None else order[np.maximum(place, 0)]
    return np.where((place >= 0) & (key[row] == wanted), row, -1)
