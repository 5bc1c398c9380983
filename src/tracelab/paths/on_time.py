"""Shorten the work of a late rank so that it enters no collective behind all others."""

import numpy as np

from tracelab.paths.columns import Array
from tracelab.paths.graph import Graph


def shorten_late_work(graph: Graph, rank: int) -> tuple[Array, Array]:
    """Return a factor for each segment and row with which a rank enters its collectives when the last but one does.

    Between two collectives the rank's own work, of threads and of GPUs, is shorter by one factor: by the time by which
    the rank is later than all others, over the time in which it waits for none. Transfers, and what follows its last
    late entry, are as recorded.
    """
    first = graph.gpu_from
    start = graph.start[first:]
    of_segments, of_rows = np.ones(len(graph.segments.start)), np.ones(len(start))
    is_own = graph.recording.gpu.ranks() == rank
    joined = np.flatnonzero((graph.meeting >= 0) & is_own)
    if not len(joined):
        return of_segments, of_rows
    joined = joined[np.argsort(start[joined], kind="stable")]
    entry = start[joined]
    begin = np.concatenate([[_recorded_since(graph, rank)], np.maximum.accumulate(graph.entered[joined])[:-1]])
    begin = np.minimum(begin, entry)
    late = _measure_lateness(graph)[joined]
    late[0] = max(0, late[0] - (begin[0] - min(_recorded_since(graph, each) for each in graph.recording.clocks)))
    length = entry - begin
    saved = np.where(length > 0, np.minimum(late, length), 0)
    until = np.concatenate([[0], np.cumsum(saved)])

    def saved_until(moment: Array) -> Array:
        """Return how much is saved of the rank's time before moments."""
        place = np.searchsorted(entry, moment)
        at = np.minimum(place, len(entry) - 1)
        inside = np.clip(moment - begin[at], 0, length[at]) * (saved[at] / np.maximum(length[at], 1))
        return until[place] + np.where(place < len(entry), inside, 0)

    def shorten(since: Array, end: Array) -> Array:
        """Return the factors of the rank's time between moments."""
        factors: Array = 1 - (saved_until(end) - saved_until(since)) / (end - since)
        return factors

    cpu, segments = graph.recording.cpu, graph.segments
    since = segments.start.copy()
    since[graph.head] = graph.since[:first]
    own = np.flatnonzero((cpu.rank_of_lane == rank)[segments.thread] & (segments.end > since))
    of_segments[own] = shorten(since[own], segments.end[own])
    rows = np.flatnonzero(is_own & (graph.end[first:] > graph.since[first:]) & (graph.meeting < 0))
    of_rows[rows] = shorten(graph.since[first + rows], graph.end[first + rows])
    return of_segments, of_rows


def _recorded_since(graph: Graph, rank: int) -> int:
    return graph.recording.first_start(rank)


def _measure_lateness(graph: Graph) -> Array:
    """Return for each row of a GPU by how much it enters a collective behind all others; 0 where it does not."""
    start = graph.start[graph.gpu_from :]
    joined = np.flatnonzero(graph.meeting >= 0)
    order = joined[np.lexsort((start[joined], graph.meeting[joined]))]
    number = graph.meeting[order]
    lateness = np.zeros(len(start), dtype=np.int64)
    same = number[1:] == number[:-1]
    is_last = np.append(~same, True)
    last = np.flatnonzero(is_last[1:] & same) + 1
    lateness[order[last]] = start[order[last]] - start[order[last - 1]]
    return lateness
