"""Write the nodes of a part of a recording into the arrays of all."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracelab.paths import dependencies
from tracelab.paths.bursts import Bursts
from tracelab.paths.columns import NONE, Array, last_at_most
from tracelab.paths.followers import Followers, await_launches, await_rows, shift_numbers
from tracelab.paths.nodes import Nodes
from tracelab.paths.part_waits import PartWaits
from tracelab.paths.parts import Part
from tracelab.paths.recording import CpuRows
from tracelab.paths.threads import SILENT, Segments, divide_threads


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
    return Segments(divided.thread, divided.start, divided.last_end, row, parent, divided.span)


@dataclass(frozen=True)
class PartNodes:
    """What is known of a part, and the numbers that its segments and bursts begin with."""

    part: Part
    segments: Segments
    bursts: Bursts
    waits: PartWaits
    first_segment: int
    first_burst: int


def fill_nodes(nodes: Nodes, known: PartNodes, check: Callable[[], None]) -> int:
    """Write the nodes of a part, and return how many rows start before what they waited for had ended."""
    check()
    part, waits = known.part, known.waits
    _fill_segments(nodes, known)
    _fill_bursts(nodes, known)
    check()
    gpu, launches = part.recording.gpu, waits.launches
    first_row = nodes.gpu_from + part.first_gpu_row
    rows = slice(first_row, first_row + gpu.count)
    streams = Followers(nodes, rows, gpu.start)
    nodes.end[rows] = gpu.end
    await_rows(streams, gpu.end, waits, first_row)
    if (launches.row >= 0).any():
        await_launches(streams, launches, _fill_launches(nodes, known))
    streams.name_long_gaps(np.isin(gpu.process_of_lane, part.recording.syncs.process)[gpu.lane])
    return streams.clamped + known.bursts.clamped


def _fill_segments(nodes: Nodes, known: PartNodes) -> None:
    part, segments, first = known.part, known.segments, known.first_segment
    own = slice(first, first + len(segments.start))
    rows = slice(part.first_cpu_row, part.first_cpu_row + part.recording.cpu.count)
    every = nodes.segments
    every.thread[own] = segments.thread + part.first_thread
    every.start[own] = segments.start
    every.row[own] = shift_numbers(segments.row, part.first_cpu_row)
    every.parent[rows] = shift_numbers(segments.parent, part.first_cpu_row)


def _fill_bursts(nodes: Nodes, known: PartNodes) -> None:
    """Write bursts: each waited for a row of a GPU or a burst of another thread, or is its thread's first one."""
    part, segments, bursts = known.part, known.segments, known.bursts
    first_segment, first_burst = known.first_segment, known.first_burst
    own = slice(first_burst, first_burst + len(bursts.head))
    nodes.head[own] = bursts.head + first_segment
    nodes.start[own], nodes.end[own] = segments.start[bursts.head], bursts.ends(segments)
    nodes.since[own], nodes.cause[own] = bursts.since, bursts.cause
    others = shift_numbers(last_at_most(bursts.head, bursts.awaited_segment), first_burst)
    rows = shift_numbers(bursts.awaited_row, nodes.gpu_from + part.first_gpu_row)
    nodes.before[own] = np.where(rows >= 0, rows, others)
    nodes.bound[own] = np.where(bursts.cause > 0, bursts.since, NONE)
    nodes.awaited_segment[own] = shift_numbers(bursts.awaited_segment, first_segment)


def _fill_launches(nodes: Nodes, known: PartNodes) -> Array:
    """Write where the rows of a part were launched; return the burst just before each launch."""
    part, segments, launches = known.part, known.segments, known.waits.launches
    own = slice(part.first_gpu_row, part.first_gpu_row + part.recording.gpu.count)
    before, at, after = _place_launches(segments, launches, part.recording.gpu.start)
    nodes.launch_before[own] = burst = shift_numbers(last_at_most(known.bursts.head, before), known.first_burst)
    nodes.launch_at[own] = shift_numbers(at, known.first_segment)
    nodes.launch_call[own] = shift_numbers(launches.row, part.first_cpu_row)
    row = np.where(after >= 0, segments.row[after], -1) if len(segments.row) else after
    nodes.launch_row[own] = shift_numbers(row, part.first_cpu_row)
    return burst


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
