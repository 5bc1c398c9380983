"""Find what each row of a run waited for: launches, order of streams, events and other threads."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelab.paths.columns import NONE, Array, find_sorted, group_numbers, join_keys, last_at_most, repeat_number
from tracelab.paths.recording import CpuRows, GpuRows, Recording
from tracelab.paths.threads import Segments

CLOCK_NOISE_NS = 2_000
"""Overlap of rows that follow each other, by clocks of whole microseconds on both sides."""

_WAIT = re.compile(r"StreamWaitEvent")
NONE_OF_THEM = np.zeros(0, dtype=np.int64)
STREAM_WAIT = "Stream Wait Event"


@dataclass(frozen=True)
class Calls:
    """API calls by process and correlation, and by name."""

    start: Array
    row: Array
    key: Array
    """Sorted; of the calls of one correlation the outer one."""

    def find(self, keys: Array) -> Array:
        """Return the place of each key's call among these, -1 where there is none."""
        return find_sorted(self.key, keys)


@dataclass(frozen=True)
class Launches:
    """GPU rows with what launched them: time, thread and CPU row of the call; -1 and NONE without a recorded call."""

    time: Array
    thread: Array
    row: Array
    gpu: GpuRows
    span: int

    @cached_property
    def key(self) -> Array:
        """Return stream and launch of each row as one number; of rows without a call stream and start."""
        return join_keys(self.gpu.lane, self.span, np.where(self.time == NONE, self.gpu.start, self.time))

    @cached_property
    def order(self) -> Array:
        """Return the GPU rows by stream, then in the order in which they were launched."""
        return np.argsort(self.key, kind="stable")

    @cached_property
    def sorted_key(self) -> Array:
        """Return their keys in this order."""
        return self.key[self.order]

    def last_on(self, lane: Array, time: Array) -> Array:
        """Return the GPU row launched last on each stream until a time, -1 where there is none."""
        return self._on(lane, last_at_most(self.sorted_key, lane * self.span + time))

    def first_on(self, lane: Array, time: Array) -> Array:
        """Return the GPU row launched first on each stream from a time on, -1 where there is none."""
        place = np.searchsorted(self.sorted_key, lane * self.span + time, side="left")
        return self._on(lane, np.where(place < len(self.order), place, -1))

    def _on(self, lane: Array, place: Array) -> Array:
        if not len(self.key):
            return np.full(len(place), -1)
        row = self.order[place]
        return np.where((place >= 0) & (lane >= 0) & (self.sorted_key[place] // self.span == lane), row, -1)


def index_calls(cpu: CpuRows) -> Calls:
    """Index the API calls that have a correlation."""
    rows = np.flatnonzero(cpu.of_kind("call") & (cpu.key != NONE))
    keys = cpu.key[rows]
    if (keys[1:] < keys[:-1]).any():  # by key alone: few are not in order, and fewer are equal
        rows = rows[np.argsort(keys, kind="stable")]
        keys = cpu.key[rows]
    if (keys[1:] == keys[:-1]).any():
        rows = rows[np.lexsort((-cpu.end[rows], cpu.start[rows], keys))]
        keys, first = np.unique(cpu.key[rows], return_index=True)
        rows = rows[first]
    return Calls(cpu.start[rows], rows, keys)


def find_launches(gpu: GpuRows, cpu: CpuRows, calls: Calls, window_ns: int) -> Launches:
    """Find the call that launched each GPU row."""
    span = window_ns + 2
    if not len(calls.row):
        none = repeat_number(-1, gpu.count)
        return Launches(repeat_number(NONE, gpu.count), none, none, gpu, span)
    place = calls.find(gpu.key)
    known = place >= 0
    row = np.where(known, calls.row[place], -1)
    return Launches(np.where(known, calls.start[place], NONE), np.where(known, cpu.lane[row], -1), row, gpu, span)


@dataclass(frozen=True)
class Edges:
    """Dependencies between rows of GPUs: `after[i]` starts only once `before[i]` has ended."""

    after: Array
    before: Array
    is_inferred: Array


class Streams:
    """Streams by process, device and id."""

    def __init__(self, gpu: GpuRows) -> None:
        """Number the streams that have rows."""
        lanes = range(len(gpu.process_of_lane))
        listed = zip(gpu.process_of_lane, gpu.device_of_lane, gpu.stream_of_lane, lanes, strict=True)
        self.lanes = [tuple(map(int, each)) for each in listed]
        self._exact = {each[:3]: each[3] for each in self.lanes}
        self._of_process: dict[tuple[int, int], int] = {}
        for process, _, stream, lane in self.lanes:
            known = self._of_process.setdefault((process, stream), lane)
            if known != lane:
                self._of_process[process, stream] = -1

    def find(self, process: Array, device: Array, stream: Array) -> Array:
        """Return the number of each stream; without a device that of the process's only stream of this id; else -1."""
        number, count = group_numbers(process, device, stream)
        first = np.zeros(count, dtype=np.int64)
        first[number] = np.arange(len(number))
        listed = zip(process[first].tolist(), device[first].tolist(), stream[first].tolist(), strict=True)
        found = [self._exact.get(key, self._of_process.get((key[0], key[2]), -1)) for key in listed]
        return np.array(found, dtype=np.int64)[number]

    def of_process(self, process: int) -> list[int]:
        """Return the numbers of a process's streams."""
        return [lane for owner, _, _, lane in self.lanes if owner == process]


def event_waits(recording: Recording, launches: Launches, calls: Calls, streams: Streams) -> Edges:
    """Return the waits of streams for events of other streams, recorded or inferred from the calls."""
    recorded = _recorded_waits(recording, launches, calls, streams)
    inferred = _inferred_waits(recording, launches, streams)
    edges = Edges(*(np.concatenate(parts) for parts in zip(recorded, inferred, strict=True)))
    some = (edges.after >= 0) & (edges.before >= 0)
    return Edges(edges.after[some], edges.before[some], edges.is_inferred[some])


def _recorded_waits(
    recording: Recording, launches: Launches, calls: Calls, streams: Streams
) -> tuple[Array, Array, Array]:
    """Find the row launched last before the event's record, and the first one launched behind the wait."""
    syncs = recording.syncs
    waits = np.flatnonzero(np.array([kind == STREAM_WAIT for kind in syncs.kinds])[syncs.kind])
    if not len(waits):
        return NONE_OF_THEM, NONE_OF_THEM, NONE_OF_THEM.astype(bool)
    time = call_start(calls, syncs.key[waits], syncs.start[waits])
    record = call_start(calls, syncs.awaited_key[waits], time)
    process, device = syncs.process[waits], syncs.device[waits]
    after = launches.first_on(streams.find(process, device, syncs.stream[waits]), time)
    before = launches.last_on(streams.find(process, device, syncs.awaited_stream[waits]), record)
    return after, before, np.zeros(len(waits), dtype=bool)


def _inferred_waits(recording: Recording, launches: Launches, streams: Streams) -> tuple[Array, Array, Array]:
    """Infer waits of processes whose trace has the calls only.

    The next launch of the thread is taken to wait for the rows that were launched before the call on the process's
    other streams, and of these for the one that ended last before it started.
    """
    gpu, cpu, syncs = recording.gpu, recording.cpu, recording.syncs
    traced = np.unique(syncs.process[np.array([kind == STREAM_WAIT for kind in syncs.kinds])[syncs.kind]])
    is_wait = np.array([bool(name and _WAIT.search(name)) for name in cpu.names])[cpu.name]
    waits = np.flatnonzero(is_wait & cpu.of_kind("call"))
    waits = waits[~np.isin(cpu.process_of_lane, traced)[cpu.lane[waits]]]
    launched = np.flatnonzero(launches.thread >= 0)
    if not len(waits) or not len(launched):
        return NONE_OF_THEM, NONE_OF_THEM, NONE_OF_THEM.astype(bool)
    key = join_keys(launches.thread[launched], launches.span, launches.time[launched])
    order = np.argsort(key, kind="stable")
    place = np.searchsorted(key[order], join_keys(cpu.lane[waits], launches.span, cpu.start[waits]))
    after = launched[order[np.minimum(place, len(order) - 1)]]
    fits = (place < len(order)) & (launches.thread[after] == cpu.lane[waits])
    waits, after = waits[fits], after[fits]
    latest, before = np.full(len(waits), -1), np.full(len(waits), -1)
    of_process = places_by_process(cpu.processes(waits))
    for process, _, _, lane in streams.lanes:
        own = of_process.get(process, NONE_OF_THEM)
        row = launches.last_on(np.full(len(own), lane), cpu.start[waits[own]])
        ends = np.where(row >= 0, gpu.end[row], -1)
        better = (
            (gpu.lane[after[own]] != lane) & (row >= 0) & (ends > latest[own])
            & (ends <= gpu.start[after[own]] + CLOCK_NOISE_NS)
        )  # fmt: skip
        latest[own[better]], before[own[better]] = ends[better], row[better]
    return after, before, np.ones(len(waits), dtype=bool)


def places_by_process(process: Array) -> dict[int, Array]:
    """Return the places of each process's rows: to compare all rows with each stream takes quadratic time in ranks."""
    if not len(process):
        return {}
    order = np.argsort(process, kind="stable")
    numbers, first = np.unique(process[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, first[1:]), strict=True))


def call_start(calls: Calls, keys: Array, otherwise: Array) -> Array:
    """Return the start of each key's call, another time where there is none."""
    place = calls.find(keys)
    return np.where(place >= 0, calls.start[place], otherwise) if len(calls.start) else otherwise


def stream_order(gpu: GpuRows) -> Array:
    """Return the row before each on its stream, -1 for the first.

    Where that one still runs, as nodes of a CUDA graph do, it is the row of the stream that ended last before.
    """
    before = np.arange(-1, gpu.count - 1, dtype=np.int32)
    before[np.flatnonzero(np.append(True, gpu.lane[1:] != gpu.lane[:-1])[: gpu.count])] = -1
    running = np.flatnonzero((before >= 0) & (gpu.end[before] > gpu.start + CLOCK_NOISE_NS))
    if len(running):
        span = int(gpu.end.max()) + 2
        key = join_keys(gpu.lane, span, gpu.end)
        order = np.argsort(key, kind="stable")
        place = last_at_most(key[order], join_keys(gpu.lane[running], span, gpu.start[running]))
        ended = order[np.maximum(place, 0)]
        fits = (place >= 0) & (gpu.lane[ended] == gpu.lane[running]) & (ended < running)
        before[running] = np.where(fits, ended, -1)
    return before


def handovers(cpu: CpuRows, segments: Segments, is_active: Array) -> tuple[Array, Array, Array]:
    """Return where a thread goes on because another thread of its process is done.

    That is where it was silent, another thread ended its work in the second half of the silence, and that one stays
    silent until this one goes on. Return the silent segment in which that moment lies, the other's last segment, and
    the moment.
    """
    none = np.zeros(0, dtype=np.int64)
    if not len(segments.start):
        return none, none, none
    process_of_thread = cpu.process_of_lane
    works = np.zeros(len(process_of_thread), dtype=bool)
    works[segments.thread[is_active]] = True
    has_others = np.bincount(process_of_thread[works], minlength=int(process_of_thread.max()) + 1) > 1
    if not has_others.any():
        return none, none, none
    active = np.flatnonzero(is_active & has_others[process_of_thread][segments.thread])
    thread = segments.thread[active]
    begins = np.append(True, (active[1:] != active[:-1] + 1) | (thread[1:] != thread[:-1]))
    first, last = active[begins], active[np.append(begins[1:], True)]  # of each stretch of work
    owner = segments.thread[first]
    same = np.append(owner[1:] == owner[:-1], False)
    done, resumed = segments.end[last], segments.start[first]
    goes_on = np.where(same, np.append(resumed[1:], 0), np.iinfo(np.int64).max)
    silent_since = np.where(np.append(False, same[:-1]), np.append(0, done[:-1]), 0)
    process = process_of_thread[owner]
    span = segments.span
    ends_key = process * span + done
    by_end = np.argsort(ends_key, kind="stable")
    ends_key = ends_key[by_end]
    place = last_at_most(ends_key, process * span + resumed)
    chosen = np.full(len(first), -1)
    seeking = np.arange(len(first))
    for back in range(_MOST_THREADS_BACK):
        at = place[seeking] - back
        other = by_end[np.maximum(at, 0)]
        is_near = (at >= 0) & (process[other] == process[seeking])  # else no earlier one is of the process either
        seeking, other = seeking[is_near], other[is_near]
        resumes, silent = resumed[seeking], silent_since[seeking]
        fits = (
            (owner[other] != owner[seeking]) & (goes_on[other] >= resumes) & (done[other] > silent)
            & (done[other] - silent >= resumes - done[other])
        )  # fmt: skip
        chosen[seeking[fits]] = other[fits]
        seeking = seeking[~fits]
    waits = np.flatnonzero((chosen >= 0) & (resumed > 0))
    moment = done[chosen[waits]]
    return segments.before(owner[waits], moment), last[chosen[waits]], moment


_MOST_THREADS_BACK = 8
"""Ends of work that are tried before a thread goes on."""


def backward_flows(cpu: CpuRows) -> tuple[Array, Array]:
    """Return backward ops, and the forward op of the same sequence number that each belongs to."""
    ops = np.flatnonzero(cpu.of_kind("op") & (cpu.sequence != NONE))
    is_backward = (cpu.forward_tid[ops] != NONE) & (cpu.forward_tid[ops] != 0)
    forward, backward = ops[~is_backward], ops[is_backward]
    if not len(forward) or not len(backward):
        none = np.zeros(0, dtype=np.int64)
        return none, none
    fits = (cpu.sequence[forward] >= 0) & (cpu.sequence[forward] < MOST_SEQUENCE)
    forward = forward[fits]
    key = cpu.processes(forward) * MOST_SEQUENCE + cpu.sequence[forward]
    order = np.lexsort((cpu.end[forward], key))
    place = last_at_most(key[order], cpu.processes(backward) * MOST_SEQUENCE + cpu.sequence[backward])
    found = forward[order[np.maximum(place, 0)]] if len(forward) else forward
    fits = (
        (place >= 0) & (cpu.sequence[found] == cpu.sequence[backward])
        & (cpu.processes(found) == cpu.processes(backward)) & (cpu.end[found] <= cpu.start[backward])
    )  # fmt: skip
    return backward[fits], found[fits]


MOST_SEQUENCE = 1 << 40
