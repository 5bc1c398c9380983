"""Build the nodes of a run, stretches of threads and rows of GPUs, each with the node that it waited for last."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from tracelab.paths import dependencies
from tracelab.paths.columns import NONE, Array, joint_numbers, last_at_most, numbers
from tracelab.paths.recording import CpuRows, GpuRows, Recording, Relations, read_recording
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
class Graph:
    """Nodes: first the segments of threads, then the rows of GPUs.

    A node is on the path from `since` on; there, `before` is the node that it waited for, on the path until `bound`.
    What lies between is a gap of class `gap`, a number of GAP_CLASSES.
    """

    recording: Recording
    segments: Segments
    launches: dependencies.Launches
    start: Array
    end: Array
    since: Array
    before: Array
    bound: Array
    gap: Array
    cause: Array
    plain: "Followed"
    """The same of rows of GPUs without the wait within a collective."""
    rank: Array
    row: Array
    """The CPU row of a segment, -1 where the thread was silent, or the row of a GPU."""
    op: Array
    """CPU row of the innermost op around a node, or around its launch; -1 where there is none."""
    is_sync: Array
    """Whether a segment lies in a call that waits."""
    is_silent: Array
    """Whether a segment's thread recorded no op and no call."""
    is_loader: Array
    launch_row: Array
    """The CPU row of a segment, and for a row of a GPU the one in which it was launched; -1 where there is none."""
    entered: Array
    """For each row of a GPU when the last rank entered its collective."""
    waits: dependencies.Edges
    stream_before: Array
    meeting: Array
    """Number of the collective of a node that is matched on all of its ranks, else -1."""
    launch_before: Array
    """For each row of a GPU the segment of its thread just before the launch, at the latest before the row's start."""
    launch_at: Array
    """The same just after it; both -1 where there is none."""
    clamped: int
    """Rows that start before what they waited for had ended, by noise of the clocks."""

    @property
    def gpu_from(self) -> int:
        """Return the number of the first node that is a row of a GPU."""
        return len(self.segments.start)

    def followed_at_start(self, node: int) -> tuple[int, int, int, int]:
        """Return what a node waited for at its start, without waits within it: before, bound, gap and cause."""
        row = node - self.gpu_from
        if row >= 0:
            plain = self.plain
            return int(plain.before[row]), int(plain.bound[row]), int(plain.gap[row]), int(plain.cause[row])
        thread = self.segments.thread
        if node > 0 and thread[node - 1] == thread[node]:
            return node - 1, int(self.start[node]), 0, CAUSE["thread"]
        return -1, NONE, 0, 0


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


def build_graph(relations: Relations, check: Callable[[], None]) -> Graph:
    """Read the rows of one run, and find what each waited for. `check` raises once the work is to stop."""
    recording = read_recording(relations)
    gpu, cpu = recording.gpu, recording.cpu
    check()
    with ThreadPoolExecutor(1) as other_core:
        divided = other_core.submit(_divide_time, cpu)
        calls = dependencies.index_calls(cpu)
        launches = dependencies.find_launches(gpu, cpu, calls, recording.window_ns)
        streams = dependencies.Streams(gpu)
        sync_calls, waiting, awaited = dependencies.awaited_by_calls(recording, launches, calls, streams)
        stream_before = dependencies.stream_order(gpu)
        waits = dependencies.event_waits(recording, launches, calls, streams)
        segments = divided.result()
        placed = other_core.submit(_place_launches, segments, launches, gpu.start)
        matched = other_core.submit(match_collectives, recording, relations)
        check()
        owner = segments.row
        op, in_sync, in_loader = _enclosing(cpu, segments.parent, sync_calls)
        count = len(segments.start)
        own_op = np.where(owner >= 0, op[owner], -1) if cpu.count else owner
        silent = ~_is_active(cpu)[owner] | (owner < 0) if cpu.count else owner < 0
        start = np.concatenate([segments.start, gpu.start])
        end = np.concatenate([segments.end, gpu.end])
        check()
        nodes = _Nodes(start, end, count)
        nodes.follow_threads(segments)
        nodes.await_rows(stream_before, waits)
        launch_before, launch_at, launch_segment = placed.result()
        meeting, last = matched.result()
    segments = replace(segments, start=start[:count], end=end[:count])  # views: their own arrays are freed
    check()
    gpu_op = np.where(launch_segment >= 0, own_op[launch_segment], -1) if count else np.full(gpu.count, -1)
    nodes.await_launches(launches, launch_before)
    nodes.name_gaps(np.isin(gpu.process_of_lane, recording.syncs.process)[gpu.lane])
    check()
    plain = nodes.of_rows()
    nodes.await_flows(cpu, segments, silent)
    nodes.await_threads(*dependencies.handovers(cpu, segments, ~silent))
    nodes.await_gpu(cpu, segments, waiting, awaited)
    nodes.await_ranks(last)
    segments, launches = replace(segments), replace(launches)  # without the keys that they keep for searches
    return Graph(
        recording, segments, launches, start, end, nodes.since, nodes.before, nodes.bound, nodes.gap, nodes.cause,
        plain,
        _join(cpu.rank_of_lane[segments.thread], gpu.ranks()),
        _join(owner, np.arange(gpu.count)),
        _join(own_op, gpu_op),
        in_sync[owner] & (owner >= 0) if cpu.count else silent,
        silent,
        in_loader[owner] & (owner >= 0) if cpu.count else silent,
        _join(owner, np.where(launch_segment >= 0, owner[launch_segment], -1) if count else gpu_op),
        last_entries(gpu.start, meeting),
        waits, stream_before, meeting, launch_before, launch_at, nodes.clamped,
    )  # fmt: skip


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


def _join(segments: Array, rows: Array) -> Array:
    """Join numbers of segments and of rows of GPUs: ranks, or places in arrays, in half the memory of times."""
    return np.concatenate([segments, rows], dtype=np.int32)


class _Nodes:
    """What each node waited for, as it becomes known: a later moment replaces an earlier one."""

    def __init__(self, start: Array, end: Array, segments: int) -> None:
        self.start, self.end, self.gpu_from = start, end, segments
        self.since, self.bound = start.copy(), np.full(len(start), NONE)
        self.before = np.full(len(start), -1, dtype=np.int32)
        self.gap, self.cause = np.zeros(len(start), dtype=np.int8), np.zeros(len(start), dtype=np.int8)
        self.clamped = 0

    def of_rows(self) -> Followed:
        """Return what the rows of GPUs wait for, as known so far."""
        rows = slice(self.gpu_from, None)
        return Followed(self.before[rows], self.bound[rows], self.gap[rows], self.cause[rows]).copy()

    def follow_threads(self, segments: Segments) -> None:
        """A segment follows the one before it on its thread."""
        some = np.flatnonzero(segments.thread[1:] == segments.thread[:-1]) + 1
        self._put(some, some - 1, segments.start[some], "thread", "")

    def await_flows(self, cpu: CpuRows, segments: Segments, silent: Array) -> None:
        """A backward op whose thread was silent before it follows its forward op."""
        backward, forward = dependencies.backward_flows(cpu)
        segment = segments.before(cpu.lane[backward], cpu.start[backward])
        moment = cpu.end[forward]
        fits = segment >= 0
        fits[fits] = silent[segment[fits]] & (segments.start[segment[fits]] < moment[fits])
        segment, forward, moment = segment[fits], forward[fits], moment[fits]
        self._interrupt(segment, segments.before(cpu.lane[forward], moment), moment, "backward")

    def await_threads(self, silent: Array, other: Array, moment: Array) -> None:
        """A silent thread goes on after another one."""
        self._interrupt(silent, other, moment, "handover")

    def await_gpu(self, cpu: CpuRows, segments: Segments, calls: Array, rows: Array) -> None:
        """A call that waits goes on when the row of the GPU has ended."""
        moment = np.minimum(self.end[rows + self.gpu_from], cpu.end[calls])
        self.clamped += int((self.end[rows + self.gpu_from] > cpu.end[calls]).sum())
        self._interrupt(segments.before(cpu.lane[calls], moment), rows + self.gpu_from, moment, "sync")

    def _interrupt(self, segment: Array, before: Array, moment: Array, cause: str) -> None:
        """Begin segments only at a moment within them, at which another node ends."""
        fits = (segment >= 0) & (before >= 0)
        fits[fits] = moment[fits] > self.start[segment[fits]]
        segment, before, moment = segment[fits], before[fits], moment[fits]
        order = np.lexsort((moment, segment))
        segment, before, moment = segment[order], before[order], moment[order]
        latest = np.append(segment[1:] != segment[:-1], True)[: len(segment)]
        segment, before, moment = segment[latest], before[latest], moment[latest]
        later = moment > self.since[segment]
        self.since[segment[later]] = moment[later]
        self._put(segment[later], before[later], moment[later], cause, "")

    def await_rows(self, stream_before: Array, waits: dependencies.Edges) -> None:
        """A row of a GPU follows the one before it on its stream, or one of another stream, the one that ends later."""
        base = self.gpu_from
        some = np.flatnonzero(stream_before >= 0)
        self._bind(some, stream_before[some] + base, self.end[stream_before[some] + base], "stream", "scheduling")
        order = np.lexsort((waits.is_inferred, self.end[waits.before + base], waits.after))
        after, before, inferred = waits.after[order], waits.before[order], waits.is_inferred[order]
        latest = np.append(after[1:] != after[:-1], True)[: len(after)]
        for kind, fits in (("event", latest & ~inferred), ("inferred_event", latest & inferred)):
            self._bind(after[fits], before[fits] + base, self.end[before[fits] + base], kind, "scheduling")

    def await_launches(self, launches: dependencies.Launches, segment: Array) -> None:
        """A row of a GPU follows the start of the call that launched it, if that is later than all else.

        `segment` is the one in which the call's thread is before that start.
        """
        delay = launches.time - self.start[self.gpu_from :]
        some = np.flatnonzero((launches.thread >= 0) & (delay <= _EARLIEST_START_NS))
        self._bind(some, segment[some], launches.time[some], "launch", "launch_latency")

    def _bind(self, row: Array, before: Array, moment: Array, cause: str, gap: str) -> None:
        node = row + self.gpu_from
        self.clamped += int((moment > self.start[node]).sum())
        moment = np.minimum(moment, self.start[node])
        later = moment > self.bound[node]
        self._put(node[later], before[later], moment[later], cause, gap)

    def _put(self, node: Array, before: Array, moment: Array, cause: str, gap: str) -> None:
        self.before[node], self.bound[node] = before, moment
        self.cause[node], self.gap[node] = CAUSE[cause], GAP[gap]

    def name_gaps(self, traced: Array) -> None:
        """Name the gap before a row of a GPU unknown where it is too long."""
        limit = np.where(traced, LONGEST_GAP_NS, LONGEST_GAP_WITHOUT_EVENTS_NS)
        rows = slice(self.gpu_from, None)
        long = (self.bound[rows] != NONE) & (self.start[rows] - self.bound[rows] > limit)
        self.gap[rows][long] = GAP["unknown"]

    def await_ranks(self, last: Array) -> None:
        """A collective is on the path from the start on its last rank; there the path goes on with that rank."""
        some = np.flatnonzero(last >= 0)
        node, other = some + self.gpu_from, last[some] + self.gpu_from
        entered = np.minimum(self.start[other], self.end[node])
        late = entered > self.start[node]
        self.since[node[late]] = entered[late]
        self._put(node[late], other[late], entered[late], "collective", "")


_EARLIEST_START_NS = 1_000_000
"""A row that starts longer than that before its call is not launched by it; the macro launch_end has the same limit."""


def last_entries(start: Array, meeting: Array) -> Array:
    """Return for each row the latest start of the rows of its collective; of a row without one its own start."""
    entered = start.copy()
    joined = np.flatnonzero(meeting >= 0)
    numbered = np.unique(meeting[joined], return_inverse=True)[1]
    latest = np.full(int(numbered.max(initial=-1)) + 1, NONE)
    np.maximum.at(latest, numbered, start[joined])
    entered[joined] = latest[numbered]
    return entered


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


def match_collectives(recording: Recording, relations: Relations) -> tuple[Array, Array]:
    """Return for each row of a GPU the number of its collective, and the row of the rank that starts last; else -1."""
    gpu: GpuRows = recording.gpu
    table = relations["collectives"]
    meeting, last = np.full(gpu.count, -1), np.full(gpu.count, -1)
    last_rank = numbers(table, "last_rank")
    rows = np.flatnonzero(last_rank != NONE)
    if not len(rows) or not gpu.count:
        return meeting, last
    place = _find_rows(recording, relations)[rows]
    number, late = numbers(table, "number")[rows], numbers(table, "rank")[rows] == last_rank[rows]
    known = place >= 0
    last_row = np.full(int(number.max()) + 1, -1)
    last_row[number[late]] = place[late]
    meeting[place[known]] = number[known]
    last[place[known]] = last_row[number[known]]
    return meeting, last


def _find_rows(recording: Recording, relations: Relations) -> Array:
    """Return the row of a GPU of each row of the relation of collectives, -1 where it does not count."""
    gpu, table = recording.gpu, relations["collectives"]
    rank = numbers(table, "rank")
    start = recording.from_own_clocks(rank, numbers(table, "start_ns"))
    stream_of_lane, wanted = joint_numbers(
        [gpu.rank_of_lane, gpu.device_of_lane, gpu.stream_of_lane],
        [rank, numbers(table, "device"), numbers(table, "stream")],
    )
    span = int(gpu.start.max()) + 1
    key = (stream_of_lane * span)[gpu.lane]
    key += gpu.start
    order = None if (key[1:] >= key[:-1]).all() else np.argsort(key, kind="stable")
    fits = (start >= 0) & (start < span)
    wanted = np.where(fits, wanted * span + start, -1)
    place = last_at_most(key if order is None else key[order], wanted)
    row = np.maximum(place, 0) if order is None else order[np.maximum(place, 0)]
    return np.where((place >= 0) & (key[row] == wanted), row, -1)
