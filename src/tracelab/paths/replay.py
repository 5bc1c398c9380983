"""Replay a run on its dependencies: when each row would start and end if durations or waits were different.

Each row starts as soon as all that it waited for allows, later by what it was late in the recording.
A collective ends on each rank when the last one has entered, plus that rank's transfer.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from tracelab.paths.chains import Chains, find_chains
from tracelab.paths.columns import NONE, Array, blocks, repeat_number
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
        self.has_launches = bool((graph.launch_at >= 0).any())
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
        if change.duration.strides[0] or change.factor.strides[0] or (change.factor[:1] != 1).any():
            changed.duration = changed._durations()
        unlagged, ungapped = change.unlagged | change.ungapped, change.ungapped
        changed.launch_lag = _drop(self.launch_lag, unlagged)
        changed.stream_lag = _drop(self.stream_lag, ungapped)
        changed.event_lag = _drop(self.event_lag, ungapped[self.waits[0]])
        changed.rest = _drop(self.rest, ungapped | (unlagged & self.is_launched_late))
        return changed

    def _durations(self) -> Array:
        """Return the own time of each row: of a collective the transfer."""
        own_ns, joined = self.end - self.start, np.flatnonzero(self.meeting >= 0)
        ends = self.end[joined]
        own_ns[joined] = ends - np.minimum(_take_known(self.meetings, self.meeting[joined]), ends)
        scaled, new = _scale(own_ns, self.change.factor), self.change.duration
        return np.where(new == NONE, scaled, new) if new.strides[0] else scaled

    def _find_launches(self) -> None:
        """Find for each launch the burst of its segment, and the time within that."""
        graph, segments = self.graph, self.graph.segments
        if not self.has_launches:
            return
        self.launch_segment = graph.launch_at
        self.launch_burst = burst = graph.bursts(self.launch_segment)
        time, since = np.minimum(graph.launch_time, self.start), graph.since[burst]
        is_head = graph.head[burst] == self.launch_segment
        self.launch_inside = np.clip(time - np.where(is_head, since, segments.start[self.launch_segment]), 0, None)
        self.launch_in_wait = self.threads.is_wait[burst] & is_head & (time < since)

    def _place_launches(self) -> None:
        """Find for each launch the last wait of its thread before, and the thread's work since."""
        self.launch_wait, self.launch_work = repeat_number(-1, len(self.start)), repeat_number(0, len(self.start))
        if not self.has_launches:
            return
        threads, segment, burst = self.threads, self.launch_segment, self.launch_burst
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
        graph, start, end = self.graph, self.start, self.end
        self.waits = _sorted_waits(graph)
        after, before = self.waits
        cause, bound = graph.at_start("cause"), graph.at_start("bound")
        typical = {}
        for name in ("stream", "event", "inferred_event", "launch"):
            some = (cause == CAUSE[name]) & (bound != NONE)
            delay = start[some]
            delay -= bound[some]
            most = np.percentile(delay, _TYPICAL_PERCENT, overwrite_input=True) if len(delay) else 0
            typical[name] = int(most)
        self.stream_lag, latest = np.zeros(len(start), dtype=np.int64), np.full(len(start), NONE)
        for block in blocks(len(start)):
            row = np.flatnonzero(self.stream_before[block] >= 0) + block.start
            ended = end[self.stream_before[row]]
            self.stream_lag[row] = np.clip(typical["stream"], 0, np.maximum(start[row] - ended, 0))
            latest[row] = ended + self.stream_lag[row]
        self.event_lag = np.clip(typical["event"], 0, np.maximum(start[after] - end[before], 0))
        np.maximum.at(latest, after, end[before] + self.event_lag)
        self.launch_lag, self.is_launched_late = repeat_number(0, len(start)), np.zeros(1, dtype=bool)
        if self.has_launches:
            launched = self.launch_wait >= 0
            moment = np.minimum(graph.launch_time, start)
            self.launch_lag = np.where(launched, np.clip(typical["launch"], 0, np.maximum(start - moment, 0)), 0)
            self.is_launched_late = launched & (moment + self.launch_lag > latest)
            latest = np.where(launched, np.maximum(latest, moment + self.launch_lag), latest)
        self.rest = np.where(latest == NONE, 0, start - latest)

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
        if self.has_launches:
            launched = self.launch_wait >= 0
            called = np.minimum(graph.launch_time, self.start)[launched]
            if (moments[self.launch_wait[launched]] + self.launch_work[launched] != called).any():
                return False
        for some in blocks(len(self.start)):
            if (np.maximum(self.start[some], graph.entered[some] + self.duration[some]) != self.end[some]).any():
                return False
        # a collective ends when its last rank enters: what depends on it must not come before
        joined = self.meeting >= 0
        if not joined.any():
            return True
        after, before = self.waits
        known = np.flatnonzero(self.stream_before >= 0)
        calls = np.flatnonzero(threads.awaited_row >= 0)
        follower = np.concatenate([self.start[known], self.start[after], moments[calls]])
        followed = np.concatenate([self.stream_before[known], before, threads.awaited_row[calls]])
        return not (joined[followed] & (follower < graph.entered[followed])).any()

    def run(self, check: Callable[[], None]) -> Graph:
        """Time all rows in the order of the recording, in which each comes after what it waited for."""
        graph, threads = self.graph, self.threads
        first, rows = graph.gpu_from, len(self.start)
        chains = self._find_chains()
        head, count = chains.head, len(chains.head)
        chain = np.repeat(np.arange(count, dtype=np.int32), chains.length)
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
            end=self.end[head + chains.length - 1],
            stream=_take_known(chain, self.stream_before[head]),
            stream_lag=self.stream_lag[head],
            edge=np.searchsorted(after, head),
            last_edge=np.searchsorted(after, head, side="right"),
            launch=self.launch_wait[head],
            launch_work=(self.launch_work + self.launch_lag)[head],
            rest=self.rest[head],
            duration=self.duration[head],
            stream_ns=chains.stream_ns,
            launch_ns=chains.launch_ns,
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
        for block in blocks(len(near)):
            row = np.flatnonzero(follows[block]) + block.start
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
        for block in blocks(len(self.start)):
            known = np.flatnonzero(timed.cause[block]) + block.start
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


def _clip_ends(graph: Graph, stream_before: Array) -> Array:
    """Return the ends of rows, cut where noise of the clocks has a follower start before."""
    end, first = graph.end[graph.gpu_from :], graph.gpu_from
    start = graph.start[first:]
    calls = np.flatnonzero((graph.cause[:first] == CAUSE["sync"]) & (graph.before[:first] >= first))
    followed = [(graph.waits.before, start[graph.waits.after]), (graph.before[calls] - first, graph.since[calls])]
    for block in blocks(len(start)):
        row = np.flatnonzero(stream_before[block] >= 0) + block.start
        before = stream_before[row]
        is_early = start[row] < end[before]
        followed.append((before[is_early], start[row[is_early]]))
    if not any((moment < end[before]).any() for before, moment in followed):
        return end
    clipped = end.copy()
    for before, moment in followed:
        np.minimum.at(clipped, before, np.maximum(moment, start[before]))
    return clipped


def _number_meetings(graph: Graph) -> tuple[Array, Array]:
    """Return for each row the place of its collective, -1 without one, and when the last rank entered each."""
    joined = np.flatnonzero(graph.meeting >= 0)
    values, first, places = np.unique(graph.meeting[joined], return_index=True, return_inverse=True)
    if not len(values):
        return repeat_number(-1, len(graph.meeting)), np.zeros(0, dtype=np.int64)
    meeting = np.full(len(graph.meeting), -1, np.int32)
    meeting[joined] = places
    return meeting, graph.entered[joined[first]]


def _drop(lags: Array, some: Array) -> Array:
    """Return lags without some of them."""
    return np.where(some, 0, lags) if some.any() else lags


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
