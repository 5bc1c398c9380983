"""Find which rows of GPUs the calls waited for that synchronize a thread with a GPU."""

import re

import numpy as np

from tracelab.paths.columns import NONE, Array, find_keys, join_keys, last_at_most
from tracelab.paths.dependencies import NONE_OF_THEM, Calls, Launches, Streams, call_start, places_by_process
from tracelab.paths.recording import GpuRows, Recording, Syncs

DEVICE_NOISE_NS = 100_000
"""How much later than the call that waited for it a row may end, for a device's clock differs from the CPU's."""

_SYNC = re.compile(r"(Device|Ctx|Context|Thread|Stream|Event|Queue)Synchronize")
_COPY = re.compile(r"^(cuda|cu|hip)Memcpy")
_RECORD_ONE = {"Stream": "stream", "Queue": "stream", "Event": "event"}


def awaited_by_calls(
    recording: Recording, launches: Launches, calls: Calls, streams: Streams
) -> tuple[Array, Array, Array]:
    """Return the calls that wait, as CPU rows, those that waited for the GPU, and the GPU row that each waited for.

    A call waited for a row that ended within it. A call of unknown stream or event waited for the last of the rows, of
    all streams of the process, that were launched before it and ended within it.
    A row without a recorded launch, as of what was launched before the recording, was launched after those before it on
    its stream.
    """
    gpu, cpu, syncs = recording.gpu, recording.cpu, recording.syncs
    kinds = np.array([_sync_kind(name) for name in cpu.names])[cpu.name]
    rows = np.flatnonzero((kinds != "") & cpu.of_kind("call"))
    if not len(rows):
        return rows, rows, rows
    best, latest = np.full(len(rows), -1), cpu.start[rows].copy()
    kind = kinds[rows]

    def offer(some: Array, row: Array, *, slack_ns: int) -> None:
        """Take the rows that fit better for some of the calls, given by their places."""
        ends = np.where(row >= 0, gpu.end[row], -1) if gpu.count else np.full(len(row), -1)
        fits = (ends > latest[some]) & (ends <= cpu.end[rows[some]] + slack_ns)
        best[some[fits]], latest[some[fits]] = row[fits], ends[fits]

    offer_copies = kind == "copy"
    own = find_keys(gpu.key, cpu.key[rows])
    if gpu.count:
        half = cpu.end[rows] - gpu.end[own] <= gpu.end[own] - cpu.start[rows]
        copies = np.flatnonzero(offer_copies & (own >= 0) & half)
        offer(copies, own[copies], slack_ns=0)
    unlaunched = _Unlaunched(gpu, launches)

    def offer_unlaunched(some: Array, lane: Array, time: Array, *, slack_ns: int) -> None:
        """Take the rows without a recorded launch that fit better: of a stream, launched by a time."""
        offer(some, unlaunched.last_on(lane, time, cpu.end[rows[some]] + slack_ns), slack_ns=slack_ns)

    noted = find_keys(syncs.key, cpu.key[rows])
    has_note = noted >= 0
    if len(syncs.start):
        lane = np.full(len(rows), -1)
        lane[has_note] = _noted_stream(syncs, noted[has_note], streams)
        record = call_start(calls, syncs.awaited_key[noted], cpu.start[rows])
        known = has_note & (lane >= 0)
        before_call = np.minimum(record, cpu.start[rows])
        offer(np.flatnonzero(known), launches.last_on(lane, before_call)[known], slack_ns=DEVICE_NOISE_NS)
        offer_unlaunched(np.flatnonzero(known), lane[known], before_call[known], slack_ns=DEVICE_NOISE_NS)
    else:
        known = np.zeros(len(rows), dtype=bool)
    unknown = np.flatnonzero(~known & ~offer_copies)
    of_process = places_by_process(cpu.processes(rows[unknown]))
    for process, _, _, each in streams.lanes:
        some = unknown[of_process.get(process, NONE_OF_THEM)]
        last = launches.last_on(np.full(len(some), each), cpu.start[rows[some]])
        offer(some, last, slack_ns=DEVICE_NOISE_NS // 10)
        offer_unlaunched(some, np.full(len(some), each), cpu.start[rows[some]], slack_ns=DEVICE_NOISE_NS // 10)
    waiting = best >= 0
    return np.union1d(rows[kind != "copy"], rows[waiting]), rows[waiting], best[waiting]


class _Unlaunched:
    """Rows without a recorded launch, by stream and end."""

    def __init__(self, gpu: GpuRows, launches: Launches) -> None:
        rows = np.flatnonzero(launches.time == NONE)
        self._span = int(gpu.end.max(initial=0)) + 2
        key = join_keys(gpu.lane[rows], self._span, gpu.end[rows])
        order = np.argsort(key, kind="stable")
        self._row, self._key, self._lane = rows[order], key[order], gpu.lane[rows[order]]
        earliest = np.maximum.accumulate(join_keys(gpu.lane, launches.span, np.maximum(launches.time, 0)))
        self._earliest = earliest[self._row] % launches.span

    def last_on(self, lane: Array, launched: Array, ended: Array) -> Array:
        """Return the row that ended last on each stream by a time, -1 where it was launched after another one."""
        if not len(self._row):
            return np.full(len(lane), -1)
        place = last_at_most(self._key, lane * self._span + np.minimum(ended, self._span - 1))
        fits = (place >= 0) & (self._lane[place] == lane) & (self._earliest[place] <= launched)
        return np.where(fits, self._row[place], -1)


def _sync_kind(name: str | None) -> str:
    """Return what a call of this name waits for: context, stream, event, its own copy, or nothing."""
    if name is None:
        return ""
    if match := _SYNC.search(name):
        return _RECORD_ONE.get(match[1], "context")
    return "copy" if _COPY.match(name) else ""


def _noted_stream(syncs: Syncs, rows: Array, streams: Streams) -> Array:
    """Return the stream that a synchronization waits for, -1 for a whole context."""
    is_event = np.array([kind == "Event Sync" for kind in syncs.kinds])[syncs.kind[rows]]
    is_context = np.array([bool(kind and kind.startswith("Context")) for kind in syncs.kinds])[syncs.kind[rows]]
    stream = np.where(is_event, syncs.awaited_stream[rows], syncs.stream[rows])
    return np.where(is_context, -1, streams.find(syncs.process[rows], syncs.device[rows], stream))
