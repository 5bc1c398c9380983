"""Replay a run on its dependencies: when each row would start and end if durations or waits were different.

Each row starts as soon as all that it waited for allows, later by what it was late in the recording.
A collective ends on each rank when the last one has entered, plus that rank's transfer.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from tracelab.paths.chains import Chains, find_chains
from tracelab.paths.columns import NONE, Array
from tracelab.paths.dependencies import stream_order
from tracelab.paths.graph import Graph, await_others
from tracelab.paths.nodes import CAUSE, GAP
from tracelab.paths.timing import BY_EVENT, BY_LAUNCH, BY_STREAM, ChainWaits, Collectives, ThreadWaits, time_events
from tracelab.paths.work import ChangedWork, Work, own_times

_MOST_ROUNDS = 100
"""Rounds in which events move behind what they depend on: dependencies in a circle, by noise of clocks, never end."""
_TYPICAL_PERCENT = 5
"""The lag of a kind of dependency is short: what one in twenty of the rows stays below that waited for it last."""


@dataclass(frozen=True)
class Change:
    """What is different in a replay: a factor for own times or new durations, and waits that fall away.

    `segment_factor` is for the work of segments, all others are for rows of GPUs: `duration` is NONE where `factor`
    applies; of a collective both concern the transfer. The others do not wait for the rows of `unawaited`, those of
    `unlagged` start without the lag behind their launch, and those of `ungapped` without any.
    """

    segment_factor: Array
    factor: Array
    duration: Array
    unawaited: Array
    unlagged: Array
    ungapped: Array


def no_change(graph: Graph) -> Change:
    """Return the change of nothing."""
    segments, rows = len(graph.segments.start), graph.recording.gpu.count
    none = np.broadcast_to(np.array(False), rows)  # noqa: FBT003
    one = np.array(1.0)
    return Change(
        np.broadcast_to(one, segments),
        np.broadcast_to(one, rows),
        np.broadcast_to(np.array(NONE), rows),
        *(none, none, none),
    )  # views of one item


@dataclass(frozen=True)
class _Threads:
    """What the bursts of threads follow: the wait before each, and the work since."""

    is_wait: Array
    """Whether a burst begins with a wait, or is its thread's first one."""
    work: Work
    own_wait: Array
    """For each burst the one before it on its thread, -1 for a thread's beginning, and the work of that."""
    own_work: Array
    awaited_row: Array
    """The row of a GPU that is waited for, else -1."""
    other_wait: Array
    """The burst of the other thread that is waited for, else -1, and its work until then."""
    other_work: Array


def replay(graph: Graph, change: Change, check: Callable[[], None]) -> Graph:
    """Return the graph with the times that a change gives, and for each node what it then waits for last."""
    return Replay(graph).with_change(change).run(check)


class Replay:
    """A replay of a graph without a change; `with_change` returns others of the same graph, which share its arrays.

    All arrays of rows are in the order of the graph's rows of GPUs.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.change = graph, no_change(graph)
        first = graph.gpu_from
        self.stream_before = stream_order(graph.recording.gpu)
        self.start, self.end = graph.start[first:], _clip_ends(graph, self.stream_before)
        self.meeting, self.meetings = _number_meetings(graph)
        self.threads = _thread_progress(graph)
        self.duration = self._durations()
        self._find_launches()
        self._place_launches()
        self._set_lags()

    def with_change(self, change: Change) -> "Replay":
        """Return the replay of a change."""
        changed = copy(self)
        changed.change = change
        if change.segment_factor.strides[0] or (change.segment_factor[:1] != 1).any():
            changed.threads = _change_work(self.graph, self.threads, change)
            changed._place_launches()
        changed.duration = changed._durations()
        unlagged, ungapped = change.unlagged | change.ungapped, change.ungapped
        changed.launch_lag = np.where(unlagged, 0, self.launch_lag)
        changed.stream_lag = np.where(ungapped, 0, self.stream_lag)
        changed.event_lag = np.where(ungapped[self.waits[0]], 0, self.event_lag)
        changed.rest = np.where(ungapped | (unlagged & self.is_launched_late), 0, self.rest)
        return changed

    def _durations(self) -> Array:
        """Return the own time of each row: of a collective the transfer."""
        begin = np.where(self.meeting >= 0, np.minimum(self.graph.entered, self.end), self.start)
        scaled, new = _scale(self.end - begin, self.change.factor), self.change.duration
        return np.where(new == NONE, scaled, new) if new.strides[0] else scaled

    def _find_launches(self) -> None:
        """Find for each launch the burst of its segment, and the time within that."""
        graph, segments = self.graph, self.graph.segments
        self.launch_segment = graph.launch_at
        self.launch_burst = burst = graph.bursts(self.launch_segment)
        if not len(segments.start):
            return
        time, since = np.minimum(graph.launch_time, self.start), graph.since[burst]
        is_head = graph.head[burst] == self.launch_segment
        self.launch_inside = np.clip(time - np.where(is_head, since, segments.start[self.launch_segment]), 0, None)
        self.launch_in_wait = self.threads.is_wait[burst] & is_head & (time < since)

    def _place_launches(self) -> None:
        """Find for each launch the last wait of its thread before, and the thread's work since."""
        threads, segment, burst = self.threads, self.launch_segment, self.launch_burst
        self.launch_wait, self.launch_work = np.full(len(segment), -1), np.zeros(len(segment), dtype=np.int64)
        if not len(self.graph.segments.start):
            return
        known = segment >= 0
        factor = self.change.segment_factor
        part = _scale(self.launch_inside, factor[segment] if factor.strides[0] else factor)
        self.launch_wait = np.where(self.launch_in_wait, threads.own_wait[burst], burst)
        work = np.where(self.launch_in_wait, threads.own_work[burst], threads.work.before(segment, burst) + part)
        self.launch_wait[~known], work[~known] = -1, 0
        self.launch_work = work

    def _set_lags(self) -> None:
        """Divide the delay of each row behind what it waited for into a typical lag and the rest.

        The lags are those that rows at least have behind rows of their stream, awaited rows and launches; where another
        of these binds in the replay, its lag counts.
        """
        graph = self.graph
        self.waits = _sorted_waits(graph)
        after, before = self.waits
        cause, bound = graph.at_start("cause"), graph.at_start("bound")
        delay = self.start - bound
        typical = {}
        for name in ("stream", "event", "inferred_event", "launch"):
            some = delay[(cause == CAUSE[name]) & (bound != NONE)]
            typical[name] = int(np.percentile(some, _TYPICAL_PERCENT)) if len(some) else 0
        stream = self.stream_before
        known = stream >= 0
        free = self.start - np.where(known, self.end[stream], 0) if len(stream) else self.start
        self.stream_lag = np.where(known, np.clip(typical["stream"], 0, np.maximum(free, 0)), 0)
        latest = np.where(known, self.end[stream] + self.stream_lag, NONE) if len(stream) else self.start
        self.event_lag = np.clip(typical["event"], 0, np.maximum(self.start[after] - self.end[before], 0))
        np.maximum.at(latest, after, self.end[before] + self.event_lag)
        launched = self.launch_wait >= 0
        moment = np.minimum(graph.launch_time, self.start)
        self.launch_lag = np.where(launched, np.clip(typical["launch"], 0, np.maximum(self.start - moment, 0)), 0)
        self.is_launched_late = launched & (moment + self.launch_lag > latest)
        latest = np.where(launched, np.maximum(latest, moment + self.launch_lag), latest)
        self.rest = np.where(latest == NONE, 0, self.start - latest)

    def is_exact(self) -> bool:
        """Return whether a replay without a change certainly gives the recorded times: it then need not run.

        Each moment follows as recorded from those that it depends on, so that all do.
        """
        graph, threads = self.graph, self.threads
        if (self.end != graph.end[graph.gpu_from :]).any():
            return False
        moments = graph.since[: graph.gpu_from]
        if len(moments):
            near, other, row = threads.own_wait, threads.other_wait, threads.awaited_row
            resumed = np.where(near >= 0, moments[near] + threads.own_work, graph.start[: graph.gpu_from])
            other_done = np.where(other >= 0, moments[other] + threads.other_work, NONE)
            awaited = np.where(row >= 0, self.end[row], other_done) if len(self.end) else other_done
            if (np.maximum(resumed, awaited) != moments).any():
                return False
        launched = self.launch_wait >= 0
        called = np.minimum(graph.launch_time, self.start)[launched]
        if (moments[self.launch_wait[launched]] + self.launch_work[launched] != called).any():
            return False
        joined = self.meeting >= 0
        entered = np.where(joined, graph.entered, self.start)
        if (np.maximum(self.start, entered + self.duration) != self.end).any():
            return False
        # a collective ends when its last rank enters: what depends on it must not come before
        after, before = self.waits
        known = np.flatnonzero(self.stream_before >= 0)
        calls = np.flatnonzero(threads.awaited_row >= 0)
        follower = np.concatenate([self.start[known], self.start[after], moments[calls]])
        followed = np.concatenate([self.stream_before[known], before, threads.awaited_row[calls]])
        return not (joined[followed] & (follower < entered[followed])).any()

    def run(self, check: Callable[[], None]) -> Graph:
        """Time all rows in the order of the recording, in which each comes after what it waited for."""
        graph, threads = self.graph, self.threads
        first, rows = graph.gpu_from, len(self.start)
        chains = self._find_chains()
        head, count = chains.head, len(chains.head)
        chain = np.repeat(np.arange(count), chains.length)
        waits = ThreadWaits(
            moment=graph.since[:first],
            thread_begin=graph.start[:first],
            own_wait=threads.own_wait,
            own_work=threads.own_work,
            chain=_take_known(chain, threads.awaited_row),
            other_wait=threads.other_wait,
            other_work=threads.other_work,
        )
        order = self._order_events(chains, chain, waits.moment)
        joined = np.flatnonzero(self.meeting >= 0)
        joined = joined[np.argsort(self.meeting[joined], kind="stable")]
        collectives = Collectives(
            np.searchsorted(self.meeting[joined], np.arange(len(self.meetings) + 1)),
            chain[joined],
            self.duration[joined],
        )
        timed = time_events(order, waits, self._chain_waits(chains, chain), collectives, check)
        node_start, node_end = np.empty(first + rows, np.int64), np.empty(first + rows, np.int64)
        start, end = node_start[first:], node_end[first:]
        start[head] = timed.start
        end[head] = np.where(chains.length > 1, timed.start + self.duration[head], timed.end)
        cause, before = np.zeros(rows, np.int8), np.full(rows, -1, np.int32)
        cause[head] = timed.cause
        by_stream, by_event, by_launch = (
            np.flatnonzero(timed.cause == why) for why in (BY_STREAM, BY_EVENT, BY_LAUNCH)
        )
        before[head[by_stream]] = self.stream_before[head[by_stream]]
        before[head[by_event]] = self.waits[1][timed.edge[by_event]]
        before[head[by_launch]] = self.launch_wait[head[by_launch]]
        all_timed = _Times(timed.resumed, start, end, cause, before, timed.entered, _take_known(head, timed.last))
        self._time_followers(chains, all_timed)
        return self._rebuild(all_timed, node_start, node_end)

    def _chain_waits(self, chains: Chains, chain: Array) -> ChainWaits:
        """Return what chains wait for; `chain` is the one of each row."""
        head, (after, awaited) = chains.head, self.waits
        return ChainWaits(
            start=self.start[head],
            end=self.end[chains.last[head]],
            stream=_take_known(chain, self.stream_before[head]),
            stream_lag=self.stream_lag[head],
            edge=np.searchsorted(after, head),
            last_edge=np.searchsorted(after, head, side="right"),
            launch=self.launch_wait[head],
            launch_work=(self.launch_work + self.launch_lag)[head],
            rest=self.rest[head],
            duration=self.duration[head],
            stream_ns=chains.stream_ns[head],
            launch_ns=chains.launch_ns[head],
            collective=np.where(self.change.unawaited, -1, self.meeting)[head],
            edge_chain=chain[awaited],
            edge_lag=self.event_lag,
        )

    def _find_chains(self) -> Chains:
        """Find rows that only the row behind waits for, and that wait only for the row before and for their launch.

        All launches of a chain follow the same wait of a thread.
        """
        rows = np.arange(len(self.start))
        after, before = self.waits
        follows = self.stream_before == rows - 1
        skipping = self.stream_before[(self.stream_before >= 0) & ~follows]
        awaited = self.threads.awaited_row
        is_awaited, is_joined = np.zeros(len(rows), dtype=bool), self.meeting >= 0
        for some in (before, awaited[awaited >= 0], skipping):
            is_awaited[some] = True
        follows[:1] = False
        follows[after] = False
        follows &= ~is_joined
        follows[1:] &= ~is_joined[:-1] & ~is_awaited[:-1] & (self.launch_wait[1:] == self.launch_wait[:-1])
        own_ns = self.rest + self.duration
        return find_chains(follows, self.stream_lag + own_ns, self.launch_work + self.launch_lag + own_ns)

    def _order_events(self, chains: Chains, chain: Array, moments: Array) -> Array:
        """Return waits, chains and collectives in the order of the recording, by their numbers as events.

        Clocks of devices differ from the CPU's by microseconds: a call may return before the row starts that it waited
        for. Then it, and what depends on it, comes later in the order.
        """
        graph, threads, (after, before) = self.graph, self.threads, self.waits
        waits, head = graph.gpu_from, chains.head
        time = np.concatenate([moments * 4, self.start[head] * 4 + 1, self.meetings * 4 + 2])
        place = chain + waits  # of the event that times a row
        done = np.where(self.meeting >= 0, self.meeting + waits + len(head), place)
        wait, joined = np.arange(waits), np.flatnonzero(self.meeting >= 0)
        pairs = (
            (wait, threads.own_wait, None),
            (wait, np.where(threads.awaited_row >= 0, -1, threads.other_wait), None),
            (wait, threads.awaited_row, done),
            (place[head], self.stream_before[head], done),
            (place[after], before, done),
            (place[head], self.launch_wait[head], None),
            (done[joined], joined, place),
        )
        some = [(later[sooner >= 0], sooner[sooner >= 0], events) for later, sooner, events in pairs]
        follower = np.concatenate([later for later, _, _ in some])
        followed = np.concatenate([sooner if events is None else events[sooner] for _, sooner, events in some])
        for _ in range(_MOST_ROUNDS):
            least = time[followed] + (followed > follower)  # of equal times the first event comes first
            late = np.flatnonzero(least > time[follower])
            if not len(late):
                break
            np.maximum.at(time, follower[late], least[late])
        return np.argsort(time, kind="stable")

    def _time_followers(self, chains: Chains, timed: "_Times") -> None:
        """Time the rows of chains behind their first ones."""
        if len(chains.head) == len(self.start):
            return
        near = self.launch_wait
        launched = near >= 0
        resumed = np.full(len(near), NONE)
        resumed[launched] = timed.resumed[near[launched]]
        end = chains.end_rows(timed.end, resumed)
        follows = np.ones(len(near), dtype=bool)
        follows[chains.head] = False
        for block in range(0, len(near), _BLOCK_ROWS):
            row = np.flatnonzero(follows[block : block + _BLOCK_ROWS]) + block
            timed.end[row] = end[row]
            on_stream = end[row - 1] + self.stream_lag[row]
            called = np.where(launched[row], resumed[row] + self.launch_work[row] + self.launch_lag[row], NONE)
            timed.start[row] = np.maximum(on_stream, called) + self.rest[row]
            timed.cause[row] = np.where(called > on_stream, BY_LAUNCH, BY_STREAM)
            timed.before[row] = np.where(called > on_stream, near[row], row - 1)

    def _rebuild(self, timed: "_Times", start: Array, end: Array) -> Graph:
        """Return the graph with new times, and for each node what it waited for last in the replay.

        `start` and `end` are of all nodes; those of rows of GPUs are set.
        """
        graph, threads = self.graph, self.threads
        first = graph.gpu_from
        since = np.empty_like(start)
        since[first:] = timed.start
        before, bound = graph.before.copy(), graph.bound.copy()
        gap, cause = graph.gap.copy(), graph.cause.copy()
        own_before, own_bound, own_gap, own_cause = (column[first:] for column in (before, bound, gap, cause))
        joined = graph.plain.row
        own_before[joined], own_bound[joined] = graph.plain.before, graph.plain.bound
        own_gap[joined], own_cause[joined] = graph.plain.gap, graph.plain.cause
        bursts = slice(first)
        since[bursts], start[bursts] = timed.resumed, graph.start[bursts]
        follows = np.flatnonzero(threads.own_wait >= 0)
        start[follows] = timed.resumed[threads.own_wait[follows]] + threads.own_work[follows]
        np.add(since[bursts], threads.work.total, out=end[bursts])
        waits = np.flatnonzero(threads.is_wait)
        bound[waits] = since[waits]
        early = waits[since[waits] <= start[waits]]
        before[early], cause[early] = early - 1, CAUSE["thread"]
        name = np.array([0, CAUSE["stream"], CAUSE["event"], CAUSE["launch"]], dtype=np.int8)
        kind = np.array([0, GAP["scheduling"], GAP["scheduling"], GAP["launch_latency"]], dtype=np.int8)
        for block in range(0, len(self.start), _BLOCK_ROWS):
            known = np.flatnonzero(timed.cause[block : block + _BLOCK_ROWS]) + block
            why, source = timed.cause[known], timed.before[known]
            launched = why == BY_LAUNCH
            moment, nodes = timed.end[np.where(launched, 0, source)], source + first
            calls = known[launched]
            moment[launched] = timed.resumed[source[launched]] + self.launch_work[calls]
            nodes[launched] = graph.launch_before[calls]
            kept = (own_cause[known] == name[why]) & (own_gap[known] == GAP["unknown"])
            own_gap[known] = np.where(kept, GAP["unknown"], kind[why])
            own_cause[known], own_before[known] = name[why], nodes
            own_bound[known] = np.minimum(moment, timed.start[known])
        joined = np.flatnonzero(self.meeting >= 0)
        entered, last = _take_known(timed.entered, self.meeting[joined]), _take_known(timed.last, self.meeting[joined])
        late = (entered > timed.start[joined]) & (last >= 0)
        moved = replace(
            graph, start=start, end=end, since=since, before=before, bound=bound, gap=gap, cause=cause,
            work=threads.work,
        )  # fmt: skip
        return replace(moved, plain=await_others(moved, joined[late], last[late], entered[late]))


@dataclass(frozen=True)
class _Times:
    """What a replay computes; `cause` is one of `timing`, and `before` a row, or behind a launch a wait."""

    resumed: Array
    start: Array
    end: Array
    cause: Array
    before: Array
    entered: Array
    last: Array


_BLOCK_ROWS = 1 << 16
"""Rows that are rebuilt at once: their arrays stay in the cache, and take no new memory."""


def _clip_ends(graph: Graph, stream_before: Array) -> Array:
    """Return the ends of rows, cut where noise of the clocks has a follower start before."""
    end, first = graph.end[graph.gpu_from :].copy(), graph.gpu_from
    start = graph.start[first:]
    known = np.flatnonzero(stream_before >= 0)
    np.minimum.at(end, stream_before[known], np.maximum(start[known], start[stream_before[known]]))
    after, before = graph.waits.after, graph.waits.before
    np.minimum.at(end, before, np.maximum(start[after], start[before]))
    calls = np.flatnonzero((graph.cause[:first] == CAUSE["sync"]) & (graph.before[:first] >= first))
    awaited = graph.before[calls] - first
    np.minimum.at(end, awaited, np.maximum(graph.since[calls], start[awaited]))
    return end


def _number_meetings(graph: Graph) -> tuple[Array, Array]:
    """Return for each row the place of its collective, -1 without one, and when the last rank entered each."""
    joined = np.flatnonzero(graph.meeting >= 0)
    values, first, places = np.unique(graph.meeting[joined], return_index=True, return_inverse=True)
    meeting = np.full(len(graph.meeting), -1)
    meeting[joined] = places
    return meeting, graph.entered[joined[first]] if len(values) else np.zeros(0, dtype=np.int64)


def _take_known(values: Array, places: Array) -> Array:
    """Return the values at places, and -1 at -1."""
    if not len(values):
        return np.full(len(places), -1)
    return np.where(places >= 0, values[places], -1)


def _sorted_waits(graph: Graph) -> tuple[Array, Array]:
    order = np.argsort(graph.waits.after, kind="stable")
    return graph.waits.after[order], graph.waits.before[order]


def _scale(own_ns: Array, factor: Array) -> Array:
    """Return times that segments or rows take by themselves, each times its factor."""
    if not factor.strides[0]:  # one for all
        if (factor[:1] == 1).all():
            return own_ns
        scaled = own_ns * factor[0]
    else:
        scaled = own_ns * factor
    np.rint(scaled, out=scaled)
    times: Array = scaled.astype(np.int64)
    return times


def _thread_progress(graph: Graph) -> _Threads:
    """Find what the bursts of threads follow. While a thread waits it does no work."""
    first, thread = graph.gpu_from, graph.thread
    is_wait = np.isin(graph.cause[:first], [CAUSE["sync"], CAUSE["handover"], CAUSE["backward"]])
    follows = is_wait.copy()
    follows[:1] = False
    follows[1:] &= thread[1:] == thread[:-1]
    own_wait = np.where(follows, np.arange(first) - 1, -1)
    source = graph.before[:first]
    awaited_row = np.where(is_wait & (source >= first), source - first, -1)
    other_wait = np.where(is_wait & (source >= 0) & (source < first), source, -1)
    return _measure_work(graph, _Threads(is_wait, graph.work, own_wait, own_wait, awaited_row, other_wait, other_wait))


def _change_work(graph: Graph, threads: _Threads, change: Change) -> _Threads:
    """Return what bursts follow with work that a change scales; the segments that threads wait in take their time."""
    since = graph.since[: graph.gpu_from]
    own_ns = own_times(graph.segments, graph.head, since)
    work = _scale(own_ns, change.segment_factor)
    waiting = graph.head[threads.is_wait]
    work[waiting] = own_ns[waiting]
    return _measure_work(graph, replace(threads, work=ChangedWork(graph.head, work)))


def _measure_work(graph: Graph, threads: _Threads) -> _Threads:
    """Return the same threads with the sums of their work."""
    work, own_wait, other_wait = threads.work, threads.own_wait, threads.other_wait
    own_work = np.where(own_wait >= 0, work.total[own_wait], 0)
    other_work = np.zeros(len(own_work), dtype=np.int64)
    awaited = np.flatnonzero(other_wait >= 0)
    other_work[awaited] = work.until(graph.awaited_segment[awaited], other_wait[awaited])
    return replace(threads, own_work=own_work, other_work=other_work)
