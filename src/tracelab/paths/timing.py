"""Time the events of a replay in their order: waits of threads, chains of rows of GPUs, and collectives.

Events have numbers: first those of waits, then those of chains, then those of collectives.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracelab.paths.columns import NONE, Array, cells

BY_STREAM, BY_EVENT, BY_LAUNCH = 1, 2, 3
"""What a chain waited for last; 0 where it waited for nothing."""

_BLOCK_EVENTS = 4_096
"""Events whose numbers are read at once: as Python's numbers they stay in the cache."""


@dataclass(frozen=True)
class ThreadWaits:
    """Waits of threads; -1 is none.

    A thread goes on when the chain or the other thread is done that it waits for, at the earliest when its own work
    since its last wait is.
    """

    moment: Array
    """When each ended in the recording."""
    thread_begin: Array
    own_wait: Array
    own_work: Array
    chain: Array
    other_wait: Array
    other_work: Array


@dataclass(frozen=True)
class ChainWaits:
    """Chains of rows, and what the first row of each waits for; -1 is none, and times behind it do not count."""

    start: Array
    """Start of the first row, and end of the last one, in the recording."""
    end: Array
    stream: Array
    """The chain before it on its stream."""
    stream_lag: Array
    edge: Array
    """The first of its edges, and the one behind its last: the chains of other streams that it waits for."""
    last_edge: Array
    launch: Array
    """The wait of the launching thread, and the time from there to the launch."""
    launch_work: Array
    rest: Array
    """Time from what was waited for to the start."""
    duration: Array
    stream_ns: Array
    """Time from the end of the first row to that of the last one, if no launch is late."""
    launch_ns: Array
    """The least time from the wait of the launching thread to the end of the last row; NONE of a single row."""
    collective: Array
    edge_chain: Array
    """The chain of each edge, and the lag behind it."""
    edge_lag: Array


@dataclass(frozen=True)
class Collectives:
    """The chains of each collective, which have one row, and what each takes once all have entered."""

    first_member: Array
    """Of each collective, and behind the last one the number of all members."""
    member: Array
    transfer: Array


@dataclass(frozen=True)
class EventTimes:
    """When waits end, chains start and end; and the time and the chain of the last rank to enter each collective."""

    resumed: Array
    start: Array
    end: Array
    cause: Array
    edge: Array
    """Of chains that waited for an edge last, that edge."""
    entered: Array
    last: Array


def time_events(  # noqa: C901, PLR0912, PLR0915  one loop over millions of events
    order: Array, threads: ThreadWaits, chains: ChainWaits, collectives: Collectives, check: Callable[[], None]
) -> EventTimes:
    """Time events in an order in which each comes after what it waits for; what comes later has its recorded time."""
    waits, count = len(threads.moment), len(chains.start)
    new_moments, new_start, new_end = threads.moment.copy(), chains.start.copy(), chains.end.copy()
    resumed, begins, ends = cells(new_moments), cells(new_start), cells(new_end)
    causes, edges = bytearray(count), chains.edge.copy()
    chosen_edges, edge_chain, edge_lag = cells(edges), cells(chains.edge_chain), cells(chains.edge_lag)
    first_edge, last_edge = cells(chains.edge), cells(chains.last_edge)
    members, transfers = collectives.member.tolist(), collectives.transfer.tolist()
    first_member = collectives.first_member.tolist()
    entered, last = [-1] * (len(first_member) - 1), [-1] * (len(first_member) - 1)
    own_wait, own_work, awaited_chain = cells(threads.own_wait), cells(threads.own_work), cells(threads.chain)
    other_wait, other_work = cells(threads.other_wait), cells(threads.other_work)
    thread_begin = cells(threads.thread_begin)
    single, single_lag = _single_edges(chains)
    columns = (
        chains.stream, chains.stream_lag, single, single_lag, chains.launch, chains.launch_work, chains.rest,
        chains.duration + chains.stream_ns, chains.launch_ns, chains.collective,
    )  # fmt: skip
    for block in range(0, len(order), _BLOCK_EVENTS):
        check()
        events = order[block : block + _BLOCK_EVENTS]
        some = events[(events >= waits) & (events < waits + count)] - waits
        timed_chains = zip(some.tolist(), *(column[some].tolist() for column in columns), strict=True)
        for event in events.tolist():
            if event < waits:
                near = own_wait[event]  # threads begin when they began
                moment = resumed[near] + own_work[event] if near >= 0 else thread_begin[event]
                if (near := awaited_chain[event]) >= 0:
                    moment = max(moment, ends[near])
                elif (near := other_wait[event]) >= 0:
                    moment = max(moment, resumed[near] + other_work[event])
                resumed[event] = moment
            elif event < waits + count:
                chain, stream, lag, near, edge_ns, launch, work, rest, own_ns, launch_ns, number = next(timed_chains)
                moment, why = NONE, 0
                if stream >= 0:
                    moment, why = ends[stream] + lag, BY_STREAM
                if near >= 0:
                    if (at := ends[near] + edge_ns) > moment:
                        moment, why = at, BY_EVENT
                elif near == _SEVERAL:
                    for edge in range(first_edge[chain], last_edge[chain]):
                        if (at := ends[edge_chain[edge]] + edge_lag[edge]) > moment:
                            moment, why = at, BY_EVENT
                            chosen_edges[chain] = edge
                if launch >= 0 and (at := resumed[launch] + work) > moment:
                    moment, why = at, BY_LAUNCH
                if why:
                    begins[chain] = moment = moment + rest
                    causes[chain] = why
                else:
                    moment = begins[chain]
                if number >= 0 and moment > entered[number]:
                    entered[number], last[number] = moment, chain
                moment += own_ns
                if launch_ns != NONE and launch >= 0 and (at := resumed[launch] + launch_ns) > moment:
                    moment = at
                ends[chain] = moment
            else:
                number = event - waits - count
                since, until = first_member[number], first_member[number + 1]
                if entered[number] < 0:  # all of its ranks are left out
                    entered[number] = min(begins[chain] for chain in members[since:until])
                moment = entered[number]
                for place in range(since, until):
                    chain = members[place]
                    at, begin = moment + transfers[place], begins[chain]
                    ends[chain] = at if at > begin else begin
    return EventTimes(
        new_moments, new_start, new_end,
        np.frombuffer(causes, np.int8), edges, np.array(entered, np.int64), np.array(last, np.int64),
    )  # fmt: skip


_SEVERAL = -2


def _single_edges(chains: ChainWaits) -> tuple[Array, Array]:
    """Return the chain that each chain waits for by its only edge, and its lag; of none -1, of more _SEVERAL."""
    count = chains.last_edge - chains.edge
    is_single = count == 1
    chain, lag = np.where(count > 1, _SEVERAL, -1), np.zeros(len(count), dtype=np.int64)
    edge = chains.edge[is_single]
    chain[is_single], lag[is_single] = chains.edge_chain[edge], chains.edge_lag[edge]
    return chain, lag
