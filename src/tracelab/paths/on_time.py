"""Shorten the work of a late rank so that it enters no collective behind all others."""

import numpy as np

from tracelab.paths.columns import Array
from tracelab.paths.graph import Graph


def shorten_late_work(graph: Graph, rank: int) -> Array:
    """Return a factor for each node with which a rank enters its collectives when the last but one rank does.

    Between two collectives the rank's own work, of threads and of GPUs, is shorter by one factor: by the time by which
    the rank is later than all others, over the time in which it waits for none. Transfers, and what follows its last
    late entry, are as recorded.
    """
    first = graph.gpu_from
    start, factor = graph.start[first:], np.ones(len(graph.start))
    joined = np.flatnonzero((graph.meeting >= 0) & (graph.rank[first:] == rank))
    if not len(joined):
        return factor
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

    meeting = np.concatenate([np.full(first, -1), graph.meeting])
    nodes = np.flatnonzero((graph.rank == rank) & (graph.end > graph.since) & (meeting < 0))
    since, end = graph.since[nodes], graph.end[nodes]
    factor[nodes] = 1 - (saved_until(end) - saved_until(since)) / (end - since)
    return factor


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
