"""Write the nodes of a part of a recording into the arrays of all."""

from collections.abc import Callable, Sequence

import numpy as np

from tracelab.paths import dependencies
from tracelab.paths.columns import Array
from tracelab.paths.followers import (
    LONGEST_GAP_WITHOUT_EVENTS_NS,
    Followers,
    await_flows,
    await_launches,
    await_rows,
    follow_threads,
    shift_numbers,
)
from tracelab.paths.nodes import Nodes
from tracelab.paths.part_waits import PartWaits
from tracelab.paths.parts import Part
from tracelab.paths.recording import CpuRows
from tracelab.paths.threads import SILENT, Segments, divide_threads

_OSRT_SLEEP = "sleep"
_OSRT_WAIT = ("wait", "poll", "select", _OSRT_SLEEP, "futex", "join", "lock", "recv", "accept", "read")


def divide_time(cpu: CpuRows) -> Segments:
    """Divide the time of threads among their rows; those without length have none."""
    long = np.flatnonzero(cpu.end > cpu.start)
    parent = np.full(cpu.count, -1, dtype=np.int32)
    if not len(long):
        none = np.zeros(0, dtype=np.int64)
        return Segments(none, none, none, none, parent, 1)
    if len(long) == cpu.count:
        return divide_threads(cpu.lane, cpu.start, cpu.end, 0)
    divided = divide_threads(cpu.lane[long], cpu.start[long], cpu.end[long], 0)
    parent[long] = np.where(divided.parent >= 0, long[divided.parent], -1)
    row = np.where(divided.row >= 0, long[divided.row], SILENT)
    return Segments(divided.thread, divided.start, divided.end, row, parent, divided.span)


def fill_nodes(
    nodes: Nodes, part: Part, segments: Segments, waits: PartWaits, first: int, check: Callable[[], None]
) -> int:
    """Write the nodes of a part, whose segments begin with number `first`.

    Return how many rows start before what they waited for had ended.
    """
    check()
    gpu, cpu, launches = part.recording.gpu, part.recording.cpu, waits.launches
    count, first_row = len(segments.start), nodes.gpu_from + part.first_gpu_row
    own, rows = slice(first, first + count), slice(first_row, first_row + gpu.count)
    of_gpu = slice(part.first_gpu_row, part.first_gpu_row + gpu.count)
    threads, streams = Followers(nodes, own, segments.start), Followers(nodes, rows, gpu.start)
    nodes.end[own], nodes.end[rows] = segments.end, gpu.end
    follow_threads(threads, segments, first)
    await_rows(streams, gpu.end, waits, first_row)
    launch_before, launch_at, launch_segment = _place_launches(segments, launches, gpu.start)
    await_launches(streams, launches, shift_numbers(launch_before, first))
    streams.name_long_gaps(np.isin(gpu.process_of_lane, part.recording.syncs.process)[gpu.lane])
    nodes.stream_before[of_gpu] = shift_numbers(waits.stream_before, part.first_gpu_row)
    nodes.launch_time[of_gpu], nodes.launch_thread[of_gpu] = (
        launches.time,
        shift_numbers(launches.thread, part.first_thread),
    )
    nodes.launch_before[of_gpu], nodes.launch_at[of_gpu] = (
        shift_numbers(launch_before, first),
        shift_numbers(launch_at, first),
    )
    check()
    owner = segments.row
    nodes.segments.thread[own] = segments.thread + part.first_thread
    nodes.segments.row[own] = nodes.row[own] = shift_numbers(owner, part.first_cpu_row)
    nodes.segments.parent[part.first_cpu_row : part.first_cpu_row + cpu.count] = shift_numbers(
        segments.parent, part.first_cpu_row
    )
    nodes.row[rows] = np.arange(part.first_gpu_row, part.first_gpu_row + gpu.count)
    nodes.rank[own], nodes.rank[rows] = cpu.rank_of_lane[segments.thread], gpu.ranks()
    is_silent = owner < 0
    nodes.op[own] = nodes.op[rows] = nodes.launch_row[rows] = -1
    nodes.launch_row[own] = nodes.row[own]
    nodes.is_sync[own] = nodes.is_loader[own] = False
    if cpu.count:
        op, in_sync, in_loader = _enclosing(cpu, segments.parent, waits.sync_calls)
        has_owner = ~is_silent
        own_op = np.where(has_owner, op[owner], -1)
        nodes.op[own] = shift_numbers(own_op, part.first_cpu_row)
        nodes.is_sync[own], nodes.is_loader[own] = in_sync[owner] & has_owner, in_loader[owner] & has_owner
        is_silent |= ~_is_active(cpu)[owner]
        if count:
            launched = launch_segment >= 0
            nodes.op[rows] = shift_numbers(np.where(launched, own_op[launch_segment], -1), part.first_cpu_row)
            nodes.launch_row[rows] = shift_numbers(np.where(launched, owner[launch_segment], -1), part.first_cpu_row)
    nodes.is_silent[own] = is_silent
    check()
    await_flows(threads, cpu, segments, is_silent, first)
    silent, other, moment = dependencies.handovers(cpu, segments, ~is_silent)
    threads.interrupt(silent, shift_numbers(other, first), moment, "handover")
    moment = np.minimum(gpu.end[waits.awaited], cpu.end[waits.waiting])
    late = int((gpu.end[waits.awaited] > cpu.end[waits.waiting]).sum())
    calls = segments.before(cpu.lane[waits.waiting], moment)
    threads.interrupt(calls, waits.awaited + first_row, moment, "sync")  # goes on when the row of the GPU has ended
    nodes.is_unexplained[own] = _is_unexplained(cpu, segments, is_silent, nodes.since[own])
    return streams.clamped + late


def _is_unexplained(cpu: CpuRows, segments: Segments, is_silent: Array, since: Array) -> Array:
    """Return for each segment whether its thread is silent for long, and nothing recorded shows what it did.

    A process that records ops or calls of the operating system shows the work of its threads by these; without both, a
    silent thread may work or wait. A call that waits for another thread or a device shows only that it does. A sleep
    ends by itself.
    """
    unexplained: Array = is_silent & (segments.end - since > LONGEST_GAP_WITHOUT_EVENTS_NS)
    some = np.flatnonzero(unexplained)
    recorded = np.unique(cpu.process_of_lane[cpu.lane[cpu.of_kind("op", "osrt")]])
    is_recorded = np.isin(cpu.process_of_lane, recorded)[segments.thread[some]]
    row = segments.row[some]
    is_wait = (row >= 0) & cpu.of_kind("osrt")[row] & ~_named(cpu, (_OSRT_SLEEP,))[row] if cpu.count else row >= 0
    unexplained[some] = ~is_recorded | is_wait
    return unexplained


def _named(cpu: CpuRows, words: Sequence[str]) -> Array:
    """Return for each row whether its name has one of the words."""
    return np.array([any(word in (name or "") for word in words) for name in cpu.names])[cpu.name]


def _is_active(cpu: CpuRows) -> Array:
    """Return whether rows show that their thread works: ops, calls and loaders, but no waits for the system."""
    works: Array = cpu.of_kind("op", "call", "loader") | (cpu.of_kind("osrt") & ~_named(cpu, _OSRT_WAIT))
    return works


def _enclosing(cpu: CpuRows, parent: Array, sync_calls: Array) -> tuple[Array, Array, Array]:
    """Return for each CPU row its innermost op, and whether it lies in a call that waits, and in a loader's range."""
    is_op, is_loader = cpu.of_kind("op"), cpu.of_kind("loader")
    is_sync = np.zeros(cpu.count, dtype=bool)
    is_sync[sync_calls] = True
    op = np.where(is_op, np.arange(cpu.count, dtype=np.int32), parent)
    in_sync, in_loader = is_sync.copy(), is_loader.copy()
    above = parent.copy()
    while (waiting := np.flatnonzero(above >= 0)).size:
        row = above[waiting]
        in_sync[waiting] |= is_sync[row]
        in_loader[waiting] |= is_loader[row]
        above[waiting] = parent[row]
    while (waiting := np.flatnonzero((op >= 0) & ~is_op[op])).size:
        op[waiting] = parent[op[waiting]]
    return op, in_sync, in_loader


def _place_launches(segments: Segments, launches: dependencies.Launches, start: Array) -> tuple[Array, Array, Array]:
    """Return the segments of a thread just before and just after each launch, at the latest at the row's start.

    The third ones are those just after the launch itself, which by noise of the clocks may come later.
    """
    known = launches.thread >= 0
    before, after = segments.around(launches.thread, np.where(known, np.minimum(launches.time, start), 0))
    late = np.flatnonzero(known & (launches.time > start))
    own = after.copy() if len(late) else after
    own[late] = segments.at(launches.thread[late], launches.time[late])
    return before, after, own
