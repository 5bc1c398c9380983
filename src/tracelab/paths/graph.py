"""Build the graph of a run: its nodes, each with the one that it waited for last, on any rank."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Literal

import numpy as np

from tracelab.paths.assembly import find_nodes
from tracelab.paths.columns import NONE, Array, blocks, cells, joint_numbers, last_at_most, numbers, repeat_number
from tracelab.paths.nodes import CAUSE, GAP, Nodes
from tracelab.paths.recording import GpuRows, Recording, Relations, Syncs, read_recording
from tracelab.paths.work import RecordedWork, Work


@dataclass(frozen=True)
class Followed:
    """What some rows of GPUs waited for: the nodes before them, when those were done, and the gap and cause behind."""

    row: Array
    """In rising order."""
    before: Array
    bound: Array
    gap: Array
    cause: Array


@dataclass(frozen=True)
class Graph(Nodes):
    """The nodes of a recording, of which those of collectives wait for other ranks."""

    recording: Recording
    plain: Followed
    """What rows that wait for another rank waited for at their start."""
    meeting: Array
    """Number of the collective of a node that is matched on all of its ranks, else -1."""
    clamped: int
    """Rows that start before what they waited for had ended, by noise of the clocks."""
    work: Work

    @cached_property
    def entered(self) -> Array:
        """Return for each row of a GPU when the last rank entered its collective."""
        return last_entries(self.recording.gpu.start, self.meeting)

    def ranks(self, nodes: Array) -> Array:
        """Return the rank of each of some nodes."""
        is_gpu = nodes >= self.gpu_from
        ranks = np.empty(len(nodes), np.int32)
        ranks[is_gpu] = self.recording.gpu.ranks(nodes[is_gpu] - self.gpu_from)
        ranks[~is_gpu] = self.recording.cpu.rank_of_lane[self.segments.thread[self.head[nodes[~is_gpu]]]]
        return ranks

    def at_start(self, name: Literal["before", "bound", "gap", "cause"]) -> Array:
        """Return a column of what rows of GPUs waited for at their start, without the waits for other ranks."""
        column: Array = getattr(self, name)[self.gpu_from :]
        if len(self.plain.row):
            column = column.copy()
            column[self.plain.row] = getattr(self.plain, name)
        return column

    def left(self, nodes: Array | slice) -> Array:
        """Return when a path that passes nodes leaves them: at the start of the gap before, if there is one."""
        since, bound = self.since[nodes], self.bound[nodes]
        return np.where((bound > NONE) & (bound < since), bound, since)

    @cached_property
    def followed_to(self) -> Array:
        """Return for each node the first of those that a path passes one after the other, back from it, unless it ends.

        Each waited for the one just before it, which is on the path until then.
        """
        reach = np.arange(len(self.before), dtype=np.int32)
        for some in blocks(len(reach)):
            node = reach[max(some.start, 1) : some.stop].copy()
            near, left = node - 1, self.left(node)
            follows = (self.before[node] == near) & (self.before[near] >= 0)
            follows &= (left >= self.since[near]) & (left > self.left(near))
            reach[node[follows]] = 0
        return np.maximum.accumulate(reach, out=reach)

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
            plain: Followed | Graph = self.plain
            place = bisect_left(cells(self.plain.row), row)
            if place == len(self.plain.row) or self.plain.row[place] != row:
                plain, place = self, node
            return int(plain.before[place]), int(plain.bound[place]), int(plain.gap[place]), int(plain.cause[place])
        thread, head = self.segments.thread, self.head
        if node > 0 and thread[head[node - 1]] == thread[head[node]]:
            return node - 1, int(self.start[node]), 0, CAUSE["thread"]
        return -1, NONE, 0, 0


def build_graph(relations: Relations, check: Callable[[], None]) -> Graph:
    """Read the rows of one run, and find what each waited for. `check` raises once the work is to stop."""
    recording = read_recording(relations)
    check()
    nodes, clamped = find_nodes(recording, check)
    recording = _without_links(recording, nodes)
    nodes = replace(nodes, nesting=replace(nodes.nesting, cpu=recording.cpu))
    meeting, last = match_collectives(recording, relations)
    plain = _await_ranks(nodes, recording.gpu, last)
    return Graph(
        **{each.name: getattr(nodes, each.name) for each in fields(nodes)},
        recording=recording,
        plain=plain,
        meeting=meeting,
        clamped=clamped,
        work=RecordedWork(nodes.segments, nodes.head, nodes.since[: nodes.gpu_from].copy()),
    )


def _without_links(recording: Recording, nodes: Nodes) -> Recording:
    """Return a recording without the columns by which nodes were linked: a graph lives longer than it needs them.

    Rows of GPUs have their times as nodes, too, and share them.
    """
    start, end = nodes.start[nodes.gpu_from :], nodes.end[nodes.gpu_from :]
    gpu, cpu, nothing = recording.gpu, recording.cpu, slice(0, 0)
    syncs = {each.name: getattr(recording.syncs, each.name)[nothing] for each in fields(Syncs)}
    return replace(
        recording,
        gpu=replace(gpu, start=start, end=end, key=repeat_number(NONE, gpu.count)),
        cpu=replace(cpu, key=repeat_number(NONE, cpu.count)),
        syncs=Syncs(**syncs),
    )


def _await_ranks(nodes: Nodes, gpu: GpuRows, last: Array) -> Followed:
    """A collective is on the path from the start on its last rank; there the path goes on with that rank.

    Return what the rows of other ranks waited for at their start.
    """
    some = np.flatnonzero(last >= 0)
    entered = np.minimum(gpu.start[last[some]], gpu.end[some])
    late = entered > gpu.start[some]
    return await_others(nodes, some[late], last[some[late]], entered[late])


def await_others(nodes: Nodes, rows: Array, others: Array, entered: Array) -> Followed:
    """Make rows of GPUs wait for others that enter later; return what they waited for at their start."""
    node = rows + nodes.gpu_from
    plain = Followed(rows, nodes.before[node], nodes.bound[node], nodes.gap[node], nodes.cause[node])
    nodes.since[node] = nodes.bound[node] = entered
    nodes.before[node], nodes.cause[node], nodes.gap[node] = others + nodes.gpu_from, CAUSE["collective"], GAP[""]
    return plain


def last_entries(start: Array, meeting: Array) -> Array:
    """Return for each row the latest start of the rows of its collective; of a row without one its own start."""
    joined = np.flatnonzero(meeting >= 0)
    if not len(joined):
        return start
    entered = start.copy()
    numbered = np.unique(meeting[joined], return_inverse=True)[1]
    latest = np.full(int(numbered.max(initial=-1)) + 1, NONE)
    np.maximum.at(latest, numbered, start[joined])
    entered[joined] = latest[numbered]
    return entered


def match_collectives(recording: Recording, relations: Relations) -> tuple[Array, Array]:
    """Return for each row of a GPU the number of its collective, and the row of the rank that starts last; else -1."""
    gpu: GpuRows = recording.gpu
    table = relations["collectives"]
    last_rank = numbers(table, "last_rank")
    rows = np.flatnonzero(last_rank != NONE)
    if not len(rows) or not gpu.count:
        none = repeat_number(-1, gpu.count)
        return none, none
    meeting, last = np.full(gpu.count, -1, np.int32), np.full(gpu.count, -1, np.int32)
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
