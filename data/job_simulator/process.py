"""Build the rows of one process and its GPU: what its threads do, what they launch, and what waits for what."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from job_simulator.settings import PERCENT, Group, HostPause, Job, LoaderStall, SlowCompute, SlowHost, SlowLink
from job_simulator.timed_graph import Edge, Graph, Kind, Reason, Row, after_end, after_start
from kineto_metadata import comms_id

COMPUTE, COPY = 7, 24
"""Streams: PyTorch's default one, and one for copies of the next batch."""

BYTES_PER_ELEMENT = {"BFloat16": 2, "Float": 4}
KERNELS = {
    "allreduce": "ncclDevKernel_AllReduce_Sum_{}_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "_allgather_base": "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "_reduce_scatter_base": "ncclDevKernel_ReduceScatter_Sum_{}_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "all_to_all": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "send": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "recv": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
}
"""NCCL's kernels by the name that PyTorch notes for the collective."""
TYPE_NAMES = {"BFloat16": "bf16", "Float": "f32"}
OPS = {
    "allreduce": ("c10d::allreduce_", "nccl:all_reduce"),
    "_allgather_base": ("c10d::_allgather_base_", "nccl:_all_gather_base"),
    "_reduce_scatter_base": ("c10d::_reduce_scatter_base_", "nccl:_reduce_scatter_base"),
    "all_to_all": ("c10d::alltoall_base_", "nccl:all_to_all"),
    "send": ("c10d::send", "nccl:send {}->{}"),
    "recv": ("c10d::recv_", "nccl:recv {}<-{}"),
}
"""The op and the annotation around the launch of each."""


@dataclass(slots=True)
class Op:
    """An op or annotation of a thread: it lasts from the start of its first to the end of its last row."""

    name: str
    category: str
    tid: int
    external_id: int
    first: int
    last: int
    args: dict[str, object]
    flow: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A CUDA event: the call that recorded it, and the row after which it is complete."""

    correlation: int
    stream: int
    row: int | None


@dataclass(frozen=True, slots=True)
class Message:
    """What a collective carries, and how long it takes once all have entered."""

    collective: str
    elements: int
    transfer_ns: int
    dtype: str = "BFloat16"


@dataclass(slots=True)
class Meeting:
    """One collective, or one pair of a send and a receive, over its ranks."""

    group: Group
    message: Message
    row: Row
    is_p2p: bool
    seq: int | None
    members: dict[int, int] = field(default_factory=dict)
    """The number of the kernel's row by rank."""


@dataclass
class Shared:
    """What the processes of a job build together."""

    job: Job
    graph: Graph = field(default_factory=Graph)
    meetings: dict[tuple[object, ...], Meeting] = field(default_factory=dict)


class Process:
    """One process; methods append rows to the thread or the stream that they concern."""

    def __init__(self, shared: Shared, rank: int) -> None:
        self.job, self.graph, self.meetings = shared.job, shared.graph, shared.meetings
        self.rank = rank
        self.random = Random(f"{self.job.seed} rank {rank}")
        self.pid = 41_900 + 3 * rank
        self.main_tid, self.autograd_tid = self.pid, self.pid + 1_212
        self.tid = self.main_tid
        self.step = 0
        self.phase: tuple[str, int] | None = None
        self.ops: list[Op] = []
        self.open: list[Op] = []
        self.rows: list[Row] = []
        self.external_ids: dict[int, int] = {}
        self.syncs: list[tuple[Row, str, int, dict[str, Any]]] = []
        self._correlation = 9_000
        self._tails: dict[int, int] = {}
        self._awaited: dict[int, list[int]] = defaultdict(list)
        self._handover: Edge | None = None
        self._sequence = 0
        self._counts: dict[tuple[str, bool], int] = defaultdict(int)
        self._pairs: dict[tuple[object, ...], int] = defaultdict(int)
        self._streams: dict[tuple[str, str], int] = {}
        self._set_speed()

    def begin_step(self, step: int) -> None:
        """Count the rows that follow to a step, in which other delays may apply."""
        self.step = step
        self._set_speed()

    def _set_speed(self) -> None:
        self._compute_percent = self._percent(SlowCompute)
        self._host_percent = self._percent(SlowHost)
        self._link_percent = self._percent(SlowLink)

    def _percent(self, kind: type[SlowCompute | SlowHost | SlowLink]) -> int:
        percent = PERCENT
        for delay in self.job.delays:
            if isinstance(delay, kind) and delay.rank == self.rank and delay.first <= self.step <= delay.last:
                percent = percent * delay.percent // PERCENT
        return percent

    def _about(self, ns: int) -> int:
        """Return ns give or take an eighth, never below 1."""
        return max(1, ns * (896 + self.random.getrandbits(8)) >> 10)

    def work(self, ns: int, kind: Kind = Kind.HOST, name: str = "") -> Row:
        """Occupy the present thread for about that long."""
        if not name and self.open:
            name = self.open[-1].name
        return self._cpu_row(kind, name, self._about(ns) * self._host_percent // PERCENT)

    def load_batch(self, ns: int) -> None:
        """Wait for the data loader."""
        stalls = [delay for delay in self.job.delays if isinstance(delay, LoaderStall)]
        stall_ns = sum(each.stall_ns for each in stalls if (each.rank, each.step) == (self.rank, self.step))
        self._cpu_row(Kind.LOADER, self.open[-1].name, self._about(ns) + stall_ns)

    def pause(self) -> None:
        """Pause the thread where a delay demands it."""
        for delay in self.job.delays:
            if isinstance(delay, HostPause) and (delay.rank, delay.step) == (self.rank, self.step):
                self._cpu_row(Kind.HOST, "pause", delay.pause_ns)

    def _cpu_row(self, kind: Kind, name: str, dur_ns: int) -> Row:
        after = []
        tail = self._tails.get(self.tid)
        if tail is not None:
            after.append(after_end(tail, 0, Reason.THREAD))
        if self._handover:
            after.append(self._handover)
            self._handover = None
        row = self.graph.add(kind, name, (self.rank, self.tid, self.step), dur_ns, after)
        self._tails[self.tid] = row.number
        self.rows.append(row)
        for op in reversed(self.open):
            if op.category == "cpu_op":
                self.external_ids[row.number] = op.external_id
                break
        return row

    @contextmanager
    def op(self, name: str, category: str = "cpu_op", args: dict[str, object] | None = None) -> Iterator[Op]:
        """Record an op, or with another category an annotation, around what happens inside."""
        op = Op(name, category, self.tid, 2_049 + len(self.ops), 0, 0, args or {})
        self.ops.append(op)
        self.open.append(op)
        op.first = self.work(1_900).number
        yield op
        op.last = self.work(900).number
        self.open.pop()

    @contextmanager
    def autograd(self) -> Iterator[None]:
        """Run what happens inside on the autograd thread, while the main thread waits."""
        self.work(8_000)
        self._handover = after_end(self._tails[self.tid], 14_000, Reason.HANDOVER)
        self.tid, open_ops, self.open = self.autograd_tid, self.open, []
        yield
        self._handover = after_end(self._tails[self.tid], 6_000, Reason.HANDOVER)
        self.tid, self.open = self.main_tid, open_ops

    def call(self, name: str, ns: int) -> Row:
        """Call the CUDA runtime."""
        row = self.work(ns, Kind.CALL, name)
        self._correlation += 1
        row.correlation = self._correlation
        return row

    def kernel(self, name: str, ns: int, grid: int = 256) -> Row:
        """Launch a kernel that computes, within an op."""
        args = {"registers per thread": 32 + grid % 97, "grid": [grid, 1, 1], "block": [256, 1, 1]}
        dur_ns = self._about(ns) * self._compute_percent // PERCENT
        return self._launch(Kind.KERNEL, name, "cudaLaunchKernel", COMPUTE, (dur_ns, args))

    def copy(self, direction: str, memory: tuple[str, str], size_bytes: int, stream: int = COMPUTE) -> Row:
        """Copy; to or from pageable memory the call returns only when the copy is done."""
        args = {"bytes": size_bytes}
        dur_ns = self._about(1_150 + size_bytes // (6 if "Pageable" in memory else 24))
        name = f"Memcpy {direction} ({memory[0]} -> {memory[1]})"
        row = self._launch(Kind.MEMCPY, name, "cudaMemcpyAsync", stream, (dur_ns, args))
        if "Pageable" in memory:
            self.rows[-2].ends_after.append(after_end(row.number, self._about(2_400), Reason.AWAITED))
        return row

    def fill(self, size_bytes: int) -> Row:
        """Set memory of the GPU to 0."""
        facts = (self._about(1_050 + size_bytes // 1_150), {"bytes": size_bytes})
        return self._launch(Kind.MEMSET, "Memset (Device)", "cudaMemsetAsync", COMPUTE, facts)

    def _launch(self, kind: Kind, name: str, api: str, stream: int, facts: tuple[int, dict[str, Any]]) -> Row:
        call = self.call(api, 4_300)
        after = [after_start(call.number, call.dur_ns + 400 + self.random.getrandbits(9), Reason.LAUNCH)]
        if stream in self._tails:
            after.append(after_end(self._tails[stream], 640 + self.random.getrandbits(9), Reason.STREAM))
        after += [
            after_end(row, 900 + self.random.getrandbits(9), Reason.EVENT) for row in self._awaited.pop(stream, ())
        ]
        row = self.graph.add(kind, name, (self.rank, stream, self.step), facts[0], after)
        row.args, row.phase = facts[1], self.phase
        row.correlation = call.correlation
        self._tails[stream] = row.number
        self.rows.append(row)
        if call.number in self.external_ids:
            self.external_ids[row.number] = self.external_ids[call.number]
        return row

    def record_event(self, stream: int) -> Event:
        """Record an event on a stream."""
        correlation = self.call("cudaEventRecord", 1_300).correlation
        return Event(correlation or 0, stream, self._tails.get(stream))

    def wait_event(self, stream: int, event: Event) -> None:
        """Make what is launched later on a stream wait for an event."""
        call = self.call("cudaStreamWaitEvent", 1_100)
        args = {
            "wait_on_stream": event.stream,
            "wait_on_cuda_event_record_corr_id": event.correlation,
            "wait_on_cuda_event_id": 17 + event.stream,
        }
        self.syncs.append((call, "Stream Wait Event", stream, args))
        if event.row is not None:
            self._awaited[stream].append(event.row)

    def synchronize(self, stream: int | None = None) -> None:
        """Wait on the CPU side for a stream, or for the whole device."""
        call = self.call("cudaStreamSynchronize" if stream else "cudaDeviceSynchronize", 2_200)
        tracks = [stream] if stream else [track for track in self._tails if track < self.pid]
        lag_ns = self._about(3_100)
        call.ends_after += [after_end(self._tails[track], lag_ns, Reason.AWAITED) for track in tracks]
        self.syncs.append((call, "Stream Sync" if stream else "Context Sync", stream or -1, {}))

    def collective(self, group: Group, message: Message) -> Event:
        """Run a collective on the group's stream, and return the event of its end."""
        count = self._count(group, is_p2p=False)
        key = (group.name, count)
        return self._communicate(group, message, key, (count, self._stream(group.name, message.collective)))

    def exchange(self, group: Group, message: Message, peer: int) -> Event:
        """Send to or receive from a peer, on a stream for this peer and direction; return the event of its end."""
        source, target = (self.rank, peer) if message.collective == "send" else (peer, self.rank)
        pair = (group.name, source, target)
        self._pairs[pair] += 1
        count = self._count(group, is_p2p=True)
        stream = self._stream(group.name, f"{source} {target}")
        return self._communicate(group, message, (*pair, self._pairs[pair]), (count, stream), peer)

    def _count(self, group: Group, *, is_p2p: bool) -> int:
        """Count operations of a group as PyTorch does: those between two ranks separately, on each rank its own."""
        self._counts[group.name, is_p2p] += 1
        return self._counts[group.name, is_p2p]

    def _stream(self, group: str, lane: str) -> int:
        found = (group, lane if " " in lane else "")
        return self._streams.setdefault(found, 28 + 4 * len(self._streams))

    def _communicate(
        self,
        group: Group,
        message: Message,
        key: tuple[object, ...],
        place: tuple[int, int],
        peer: int | None = None,
    ) -> Event:
        count, stream = place
        op_name, annotation = OPS[message.collective]
        here = group.ranks.index(self.rank)
        if peer is not None:
            annotation = annotation.format(here, group.ranks.index(peer))
        note = self._note(group, message, count, peer)
        with self.op(op_name), self.op("record_param_comms") as comms:
            comms.args = note | {
                "Rank": here if peer is None else group.ranks.index(peer),
                "Global rank start": group.ranks[0],
                "Global rank stride": group.stride,
            }
            with self.op(annotation, "user_annotation"):
                self.wait_event(stream, self.record_event(COMPUTE))
                name = KERNELS[message.collective].format(TYPE_NAMES[message.dtype])
                args: dict[str, object] = {"registers per thread": 96, "grid": [24, 1, 1], "block": [544, 1, 1]}
                row = self._launch(Kind.COMMUNICATION, name, "cudaLaunchKernelExC", stream, (0, args | note))
                self._meet(group, message, key, row, None if peer is not None else count)
            return self.record_event(stream)

    def _note(self, group: Group, message: Message, count: int, peer: int | None) -> dict[str, object]:
        """Return the arguments that Kineto puts on the op and on the kernel of a collective."""
        is_p2p = peer is not None
        factor = {"_allgather_base": (1, len(group.ranks)), "_reduce_scatter_base": (len(group.ranks), 1)}
        inside, outside = factor.get(message.collective, (1, 1))
        note: dict[str, object] = {
            "Collective name": message.collective,
            "In msg nelems": message.elements * inside,
            "Out msg nelems": message.elements * outside,
            "Group size": len(group.ranks),
            "dtype": message.dtype,
            "In split size": "[]",
            "Out split size": "[]",
            "Process Group Name": group.name,
            "Process Group Description": group.description,
            "Process Group Ranks": ranks_text(group.ranks),
        }
        if is_p2p:
            note["Dst Rank" if message.collective == "send" else "Src Rank"] = peer
        note["Seq"] = count
        note["Comms Id"] = comms_id(group.name, count, group.ranks, is_p2p=is_p2p)
        return {name: value for name, value in note.items() if name not in self.job.omitted}

    def _meet(self, group: Group, message: Message, key: tuple[object, ...], row: Row, seq: int | None) -> None:
        meeting = self.meetings.get(key)
        if meeting is None:
            varied = Random(f"{self.job.seed} {key}").randrange(896, 1_152)
            place = (self.rank, 0, self.step)
            joined = self.graph.add(Kind.MEETING, message.collective, place, message.transfer_ns * varied >> 10, [])
            joined.args = {"percent": PERCENT}
            meeting = self.meetings[key] = Meeting(group, message, joined, seq is None, seq)
        joined = meeting.row
        percent = joined.args["percent"]
        if self._link_percent > percent:
            joined.dur_ns = joined.dur_ns * self._link_percent // percent
            joined.args["percent"] = self._link_percent
        joined.starts_after.append(after_start(row.number, 0, Reason.MEETING))
        jitter_ns = self.random.randrange(self.job.end_jitter_ns) if self.job.end_jitter_ns else 0
        row.ends_after.append(after_end(joined.number, jitter_ns, Reason.MEETING))
        row.meeting = joined.number
        meeting.members[self.rank] = row.number


def ranks_text(ranks: tuple[int, ...]) -> str:
    """Write a list of ranks as PyTorch does: cut after 30."""
    shown = ", ".join(map(str, ranks[:30]))
    return f"[{shown}, ...]" if len(ranks) > 30 else f"[{shown}]"
