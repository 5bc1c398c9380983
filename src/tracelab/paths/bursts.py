"""Divide the time of threads at their waits: for rows of GPUs, for forward ops, and for other threads."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracelab.paths import dependencies
from tracelab.paths.columns import Array
from tracelab.paths.followers import LONGEST_GAP_WITHOUT_EVENTS_NS
from tracelab.paths.nesting import is_active, is_named
from tracelab.paths.nodes import CAUSE
from tracelab.paths.part_waits import PartWaits
from tracelab.paths.recording import CpuRows, Recording
from tracelab.paths.threads import Segments


@dataclass(frozen=True)
class Bursts:
    """What the threads of a part do from one wait to the next one; all numbers count from the part's first one."""

    head: Array
    """The first segment of each burst: of a thread, or one in which it waits."""
    since: Array
    """When the burst goes on, behind its wait."""
    cause: Array
    awaited_row: Array
    """The row of a GPU that was waited for, else -1; like the next ones."""
    awaited_segment: Array
    unexplained: Array
    """The segments of which nothing recorded shows what their thread did."""
    clamped: int
    """Waits that end before the row of a GPU that they waited for, by noise of the clocks."""

    def ends(self, segments: Segments) -> Array:
        """Return when each burst ends."""
        return segments.end[np.append(self.head[1:], len(segments.end)) - 1] if len(self.head) else self.since


@dataclass(frozen=True)
class _Waits:
    """Moments in segments at which their threads go on, for a row of a GPU or a segment of another thread was done."""

    segment: Array
    moment: Array
    row: Array
    other: Array
    cause: Array


def find_bursts(recording: Recording, segments: Segments, waits: PartWaits, check: Callable[[], None]) -> Bursts:
    """Find the bursts of the threads of a part. `check` raises once the work is to stop."""
    check()
    cpu = recording.cpu
    is_silent = segments.row < 0
    if cpu.count:
        is_silent |= ~is_active(cpu)[segments.row]
    backward = _await_flows(cpu, segments, is_silent)
    check()
    silent, other, moment = dependencies.handovers(cpu, segments, ~is_silent)
    synced, clamped = _await_rows(recording, segments, waits)
    found = (synced, _waits("handover", silent, moment, other=other), backward)  # the last of equal moments counts
    wait = _choose_latest(segments, _Waits(*(np.concatenate(each) for each in zip(*map(_columns, found), strict=True))))
    is_first = np.ones(len(segments.start), dtype=bool)
    is_first[1:] = segments.thread[1:] != segments.thread[:-1]
    head = np.union1d(np.flatnonzero(is_first), wait.segment)
    place = np.searchsorted(head, wait.segment)
    since, cause = segments.start[head], np.zeros(len(head), dtype=np.int8)
    row, other = np.full(len(head), -1), np.full(len(head), -1)
    since[place], cause[place], row[place], other[place] = wait.moment, wait.cause, wait.row, wait.other
    begin = segments.start.copy()
    begin[head] = since
    return Bursts(head, since, cause, row, other, _find_unexplained(cpu, segments, is_silent, begin), clamped)


def _waits(
    cause: str, segment: Array, moment: Array, *, row: Array | None = None, other: Array | None = None
) -> _Waits:
    none = np.full(len(segment), -1)
    causes = np.full(len(segment), CAUSE[cause], dtype=np.int8)
    return _Waits(segment, moment, none if row is None else row, none if other is None else other, causes)


def _columns(waits: _Waits) -> tuple[Array, ...]:
    return waits.segment, waits.moment, waits.row, waits.other, waits.cause


def _await_flows(cpu: CpuRows, segments: Segments, is_silent: Array) -> _Waits:
    """A backward op whose thread was silent before it follows its forward op."""
    backward, forward = dependencies.backward_flows(cpu)
    segment = segments.before(cpu.lane[backward], cpu.start[backward])
    moment = cpu.end[forward]
    fits = segment >= 0
    fits[fits] = is_silent[segment[fits]] & (segments.start[segment[fits]] < moment[fits])
    segment, forward, moment = segment[fits], forward[fits], moment[fits]
    return _waits("backward", segment, moment, other=segments.before(cpu.lane[forward], moment))


def _await_rows(recording: Recording, segments: Segments, waits: PartWaits) -> tuple[_Waits, int]:
    """A call that waits for a row of a GPU goes on when that has ended; return also how many end before it."""
    gpu, cpu = recording.gpu, recording.cpu
    ends, returns = gpu.end[waits.awaited], cpu.end[waits.waiting]
    moment = np.minimum(ends, returns)
    calls = segments.before(cpu.lane[waits.waiting], moment)
    return _waits("sync", calls, moment, row=waits.awaited), int((ends > returns).sum())


def _choose_latest(segments: Segments, waits: _Waits) -> _Waits:
    """Return of the waits within each segment the one that ends last."""
    some = np.flatnonzero((waits.segment >= 0) & ((waits.row >= 0) | (waits.other >= 0)))
    some = some[waits.moment[some] > segments.start[waits.segment[some]]]
    some = some[np.lexsort((waits.moment[some], waits.segment[some]))]
    segment = waits.segment[some]
    some = some[np.append(segment[1:] != segment[:-1], True)[: len(some)]]
    return _Waits(*(column[some] for column in _columns(waits)))


def _find_unexplained(cpu: CpuRows, segments: Segments, is_silent: Array, since: Array) -> Array:
    """Return the segments in which a thread is silent for long, and nothing recorded shows what it did.

    A process that records ops or calls of the operating system shows the work of its threads by these; without both, a
    silent thread may work or wait. A call that waits for another thread or a device shows only that it does. A sleep
    ends by itself.
    """
    some = np.flatnonzero(is_silent & (segments.end - since > LONGEST_GAP_WITHOUT_EVENTS_NS))
    recorded = np.unique(cpu.process_of_lane[cpu.lane[cpu.of_kind("op", "osrt")]])
    is_recorded = np.isin(cpu.process_of_lane, recorded)[segments.thread[some]]
    row = segments.row[some]
    is_wait = row >= 0
    if cpu.count:
        is_wait &= cpu.of_kind("osrt")[row] & ~is_named(cpu, (_OSRT_SLEEP,))[row]
    return some[~is_recorded | is_wait]


_OSRT_SLEEP = "sleep"
