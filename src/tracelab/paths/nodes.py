"""Find the nodes of a run, stretches of threads and rows of GPUs, and what each waited for last on its own rank.

Parts of the run are worked on apart, two at a time, and write into arrays of all nodes.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from tracelab.paths import dependencies
from tracelab.paths.columns import NONE, Array
from tracelab.paths.parts import Part, split_recording
from tracelab.paths.recording import CpuRows, Recording
from tracelab.paths.threads import SILENT, Segments, divide_threads

LONGEST_GAP_NS = 1_500_000
"""A GPU row that starts later after what it waited for has an unknown cause; the same limit as HTA's."""
LONGEST_GAP_WITHOUT_EVENTS_NS = 100_000
"""The same for a process whose trace has no waits of streams for events."""

_OSRT_WAIT = ("wait", "poll", "select", "sleep", "futex", "join", "lock", "recv", "accept", "read")

CAUSES = (
    "start", "thread", "launch", "stream", "event", "inferred_event", "sync", "collective", "handover", "backward",
)  # fmt: skip
"""What a node waited for; see the columns of `path_rows`."""
CAUSE = {name: number for number, name in enumerate(CAUSES)}

GAP_CLASSES = ("", "launch_latency", "scheduling", "unknown")
GAP = {name: number for number, name in enumerate(GAP_CLASSES)}


@dataclass(frozen=True)
class Followed:
    """What rows of GPUs waited for: the nodes before them, when those were done, and the gap and cause behind."""

    before: Array
    bound: Array
    gap: Array
    cause: Array

    def copy(self) -> "Followed":
        """Return a copy that may be changed."""
        return Followed(self.before.copy(), self.bound.copy(), self.gap.copy(), self.cause.copy())


@dataclass(frozen=True)
class Nodes:
    """Nodes as a graph has them; `clamped` is by part."""

    segments: Segments
    start: Array
    end: Array
    since: Array
    before: Array
    bound: Array
    gap: Array
    cause: Array
    rank: Array
    row: Array
    op: Array
    launch_row: Array
    is_sync: Array
    is_silent: Array
    is_loader: Array
    waits: dependencies.Edges
    stream_before: Array
    launch_time: Array
    launch_thread: Array
    launch_before: Array
    launch_at: Array
    clamped: list[int]

    @property
    def gpu_from(self) -> int:
        """Return the number of the first node that is a row of a GPU."""
        return len(self.segments.thread)

    def of_rows(self) -> Followed:
        """Return what the rows of GPUs wait for, as known so far."""
        rows = slice(self.gpu_from, None)
        return Followed(
            self.before[rows].copy(), self.bound[rows].copy(), self.gap[rows].copy(), self.cause[rows].copy()
        )


@dataclass(frozen=True)
class _Waits:
    """What the rows of a part waited for, as far as its threads need not be divided for that."""

    launches: dependencies.Launches
    sync_calls: Array
    waiting: Array
    awaited: Array
    stream_before: Array
    edges: dependencies.Edges


def find_nodes(recording: Recording, check: Callable[[], None]) -> Nodes:
    """Return the nodes of a recording, without the waits for other ranks. `check` raises once the work is to stop."""
    parts = split_recording(recording)
    with ThreadPoolExecutor(_CORES) as cores:
        dividing = [cores.submit(_divide_time, part.recording.cpu) for part in parts]
        finding = [cores.submit(_find_waits, part.recording, check) for part in parts]
        divided, waits = [each.result() for each in dividing], [each.result() for each in finding]
        nodes = _allocate(recording, parts, divided, waits)
        first_segments = np.cumsum([0, *(len(segments.start) for segments in divided)]).tolist()
        filling = [
            cores.submit(_fill, nodes, part, segments, found, first, check)
            for part, segments, found, first in zip(parts, divided, waits, first_segments[:-1], strict=True)
        ]
        del dividing, finding, divided, waits  # each is freed once its part is done
        for each in filling:
            each.result()
    return nodes


_CORES = 2
"""Parts that are worked on at once: more take more memory."""


def _find_waits(recording: Recording, check: Callable[[], None]) -> _Waits:
    check()
    gpu, cpu = recording.gpu, recording.cpu
    calls = dependencies.index_calls(cpu)
    launches = dependencies.find_launches(gpu, cpu, calls, recording.window_ns)
    streams = dependencies.Streams(gpu)
    awaited = dependencies.awaited_by_calls(recording, launches, calls, streams)
    edges = dependencies.event_waits(recording, launches, calls, streams)
    kept = replace(launches)  # without the keys that it keeps for searches
    return _Waits(kept, *awaited, dependencies.stream_order(gpu), edges)


def _allocate(
    recording: Recording, parts: Sequence[Part], divided: Sequence[Segments], waits: Sequence[_Waits]
) -> Nodes:
    """Return arrays for the nodes of all parts; those of edges have their values."""
    segments, rows = sum(len(each.start) for each in divided), recording.gpu.count
    nodes = segments + rows
    start, end = np.empty(nodes, np.int64), np.empty(nodes, np.int64)

    def join_edges(name: str) -> Array:
        by_part = zip(waits, parts, strict=True)
        return np.concatenate([getattr(each.edges, name) + part.first_gpu_row for each, part in by_part])

    return Nodes(
        segments=Segments(
            np.empty(segments, np.int32), start[:segments], end[:segments], np.empty(segments, np.int32),
            np.empty(recording.cpu.count, np.int32), max(each.span for each in divided),
        ),
        start=start,
        end=end,
        since=np.empty(nodes, np.int64),
        before=np.full(nodes, -1, np.int32),
        bound=np.full(nodes, NONE),
        gap=np.zeros(nodes, np.int8),
        cause=np.zeros(nodes, np.int8),
        rank=np.empty(nodes, np.int32),
        row=np.empty(nodes, np.int32),
        op=np.empty(nodes, np.int32),
        launch_row=np.empty(nodes, np.int32),
        is_sync=np.empty(segments, bool),
        is_silent=np.empty(segments, bool),
        is_loader=np.empty(segments, bool),
        waits=dependencies.Edges(
            join_edges("after"), join_edges("before"), np.concatenate([each.edges.is_inferred for each in waits])
        ),
        stream_before=np.empty(rows, np.int64),
        launch_time=np.empty(rows, np.int64),
        launch_thread=np.empty(rows, np.int64),
        launch_before=np.empty(rows, np.int64),
        launch_at=np.empty(rows, np.int64),
        clamped=[],
    )  # fmt: skip


def _fill(nodes: Nodes, part: Part, segments: Segments, waits: _Waits, first: int, check: Callable[[], None]) -> None:
    """Write the nodes of a part, whose segments begin with number `first`."""
    check()
    gpu, cpu, launches = part.recording.gpu, part.recording.cpu, waits.launches
    count, first_row = len(segments.start), nodes.gpu_from + part.first_gpu_row
    own, rows = slice(first, first + count), slice(first_row, first_row + gpu.count)
    of_gpu = slice(part.first_gpu_row, part.first_gpu_row + gpu.count)
    threads, streams = _Followers(nodes, own, segments.start), _Followers(nodes, rows, gpu.start)
    nodes.end[own], nodes.end[rows] = segments.end, gpu.end
    _follow_threads(threads, segments, first)
    _await_rows(streams, gpu.end, waits, first_row)
    launch_before, launch_at, launch_segment = _place_launches(segments, launches, gpu.start)
    _await_launches(streams, launches, _shift(launch_before, first))
    streams.name_long_gaps(np.isin(gpu.process_of_lane, part.recording.syncs.process)[gpu.lane])
    nodes.stream_before[of_gpu] = _shift(waits.stream_before, part.first_gpu_row)
    nodes.launch_time[of_gpu], nodes.launch_thread[of_gpu] = launches.time, _shift(launches.thread, part.first_thread)
    nodes.launch_before[of_gpu], nodes.launch_at[of_gpu] = _shift(launch_before, first), _shift(launch_at, first)
    check()
    owner = segments.row
    nodes.segments.thread[own] = segments.thread + part.first_thread
    nodes.segments.row[own] = nodes.row[own] = _shift(owner, part.first_cpu_row)
    nodes.segments.parent[part.first_cpu_row : part.first_cpu_row + cpu.count] = _shift(
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
        nodes.op[own] = _shift(own_op, part.first_cpu_row)
        nodes.is_sync[own], nodes.is_loader[own] = in_sync[owner] & has_owner, in_loader[owner] & has_owner
        is_silent |= ~_is_active(cpu)[owner]
        if count:
            launched = launch_segment >= 0
            nodes.op[rows] = _shift(np.where(launched, own_op[launch_segment], -1), part.first_cpu_row)
            nodes.launch_row[rows] = _shift(np.where(launched, owner[launch_segment], -1), part.first_cpu_row)
    nodes.is_silent[own] = is_silent
    check()
    _await_flows(threads, cpu, segments, is_silent, first)
    silent, other, moment = dependencies.handovers(cpu, segments, ~is_silent)
    threads.interrupt(silent, _shift(other, first), moment, "handover")
    moment = np.minimum(gpu.end[waits.awaited], cpu.end[waits.waiting])
    late = int((gpu.end[waits.awaited] > cpu.end[waits.waiting]).sum())
    calls = segments.before(cpu.lane[waits.waiting], moment)
    threads.interrupt(calls, waits.awaited + first_row, moment, "sync")  # goes on when the row of the GPU has ended
    nodes.clamped.append(streams.clamped + late)


def _shift(numbers: Array, by: int) -> Array:
    """Return numbers of rows or nodes of a part as those of the whole recording; -1, none, stays."""
    shifted: Array = numbers + by
    shifted[numbers < 0] = -1
    return shifted


def _divide_time(cpu: CpuRows) -> Segments:
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


def _is_active(cpu: CpuRows) -> Array:
    """Return whether rows show that their thread works: ops, calls and loaders, but no waits for the system."""
    waits = np.array([any(word in (name or "") for word in _OSRT_WAIT) for name in cpu.names])
    works: Array = cpu.of_kind("op", "call", "loader") | (cpu.of_kind("osrt") & ~waits[cpu.name])
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


class _Followers:
    """What segments or rows of GPUs of a part waited for, as it becomes known: a later moment replaces an earlier one.

    Numbers of them count from the part's first one, those of what they waited for from the first node of all.
    """

    def __init__(self, nodes: Nodes, some: slice, start: Array) -> None:
        self._before, self._cause, self._gap = nodes.before[some], nodes.cause[some], nodes.gap[some]
        self._start, self._since, self._bound = nodes.start[some], nodes.since[some], nodes.bound[some]
        self._start[:] = self._since[:] = start
        self.clamped = 0

    def starts(self, some: Array) -> Array:
        """Return the starts of some nodes."""
        return self._start[some]

    def put(self, some: Array, before: Array, moment: Array, cause: str, gap: str) -> None:
        """Set what some nodes waited for, and the gap behind it."""
        self._before[some], self._bound[some] = before, moment
        self._cause[some], self._gap[some] = CAUSE[cause], GAP[gap]

    def bind(self, some: Array, before: Array, moment: Array, cause: str, gap: str) -> None:
        """Set what some nodes waited for before their start, where that is later than what is known."""
        start = self._start[some]
        self.clamped += int((moment > start).sum())
        moment = np.minimum(moment, start)
        later = moment > self._bound[some]
        self.put(some[later], before[later], moment[later], cause, gap)

    def interrupt(self, segment: Array, before: Array, moment: Array, cause: str) -> None:
        """Begin segments only at a moment within them, at which another node ends; -1 is none."""
        fits = (segment >= 0) & (before >= 0)
        fits[fits] = moment[fits] > self._start[segment[fits]]
        segment, before, moment = segment[fits], before[fits], moment[fits]
        order = np.lexsort((moment, segment))
        segment, before, moment = segment[order], before[order], moment[order]
        latest = np.append(segment[1:] != segment[:-1], True)[: len(segment)]
        segment, before, moment = segment[latest], before[latest], moment[latest]
        later = moment > self._since[segment]
        self._since[segment[later]] = moment[later]
        self.put(segment[later], before[later], moment[later], cause, "")

    def name_long_gaps(self, traced: Array) -> None:
        """Name the gap before a row of a GPU unknown where it is too long."""
        limit = np.where(traced, LONGEST_GAP_NS, LONGEST_GAP_WITHOUT_EVENTS_NS)
        self._gap[(self._bound != NONE) & (self._start - self._bound > limit)] = GAP["unknown"]


def _follow_threads(threads: _Followers, segments: Segments, first: int) -> None:
    """A segment follows the one before it on its thread."""
    some = np.flatnonzero(segments.thread[1:] == segments.thread[:-1]) + 1
    threads.put(some, some + (first - 1), segments.start[some], "thread", "")


def _await_rows(streams: _Followers, end: Array, waits: _Waits, first: int) -> None:
    """A row of a GPU follows the one before it on its stream, or one of another stream, the one that ends later."""
    some, edges = np.flatnonzero(waits.stream_before >= 0), waits.edges
    before = waits.stream_before[some]
    streams.bind(some, before + first, end[before], "stream", "scheduling")
    order = np.lexsort((edges.is_inferred, end[edges.before], edges.after))
    after, before, inferred = edges.after[order], edges.before[order], edges.is_inferred[order]
    latest = np.append(after[1:] != after[:-1], True)[: len(after)]
    for kind, fits in (("event", latest & ~inferred), ("inferred_event", latest & inferred)):
        streams.bind(after[fits], before[fits] + first, end[before[fits]], kind, "scheduling")


def _await_launches(streams: _Followers, launches: dependencies.Launches, segment: Array) -> None:
    """A row of a GPU follows the start of the call that launched it, if that is later than all else.

    `segment` is the one in which the call's thread is before that start.
    """
    some = np.flatnonzero(launches.thread >= 0)
    some = some[launches.time[some] - streams.starts(some) <= _EARLIEST_START_NS]
    streams.bind(some, segment[some], launches.time[some], "launch", "launch_latency")


def _await_flows(threads: _Followers, cpu: CpuRows, segments: Segments, is_silent: Array, first: int) -> None:
    """A backward op whose thread was silent before it follows its forward op."""
    backward, forward = dependencies.backward_flows(cpu)
    segment = segments.before(cpu.lane[backward], cpu.start[backward])
    moment = cpu.end[forward]
    fits = segment >= 0
    fits[fits] = is_silent[segment[fits]] & (segments.start[segment[fits]] < moment[fits])
    segment, forward, moment = segment[fits], forward[fits], moment[fits]
    threads.interrupt(segment, _shift(segments.before(cpu.lane[forward], moment), first), moment, "backward")


_EARLIEST_START_NS = 1_000_000
"""A row that starts longer than that before its call is not launched by it; the macro launch_end has the same limit."""
