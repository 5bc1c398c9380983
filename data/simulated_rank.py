"""Simulate one training process: clocks of its threads, streams of its GPU, and the events a profiler records."""

from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random

from kineto_metadata import SMS, comms_id
from kineto_writer import Event, Flow

COMPUTE, SIDE, COPY, NCCL = 7, 20, 24, 28
"""Streams: PyTorch's default one, one for a parallel branch, one for prefetching, one for NCCL."""

WARPS_A_SM = 64
BYTES_PER_NS = {"Pinned": 24.3, "Pageable": 5.9, "Device": 640.0}
CBID = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cuLaunchKernel": 307,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaStreamSynchronize": 131,
    "cudaDeviceSynchronize": 165,
    "cudaEventRecord": 135,
    "cudaStreamWaitEvent": 147,
}

Collective = Generator[tuple[int, int], int, None]
"""Yields when a rank could begin and how long the transfer takes; is sent when all ranks are through."""


@dataclass(frozen=True)
class Kernel:
    """What is launched."""

    name: str
    dur_ns: int
    grid: int = 256
    block: int = 256
    registers: int = 32
    api: str = "cudaLaunchKernel"


@dataclass
class Rank:
    """One process with one GPU; methods advance its clocks and record what happens."""

    number: int
    world_size: int
    now_ns: int
    slowness: float = 1.0
    events: list[Event] = field(default_factory=list)
    calls: list[Event] = field(default_factory=list)
    gpu: list[Event] = field(default_factory=list)
    syncs: list[Event] = field(default_factory=list)
    open: list[Event] = field(default_factory=list)
    free_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    sequence: int = 412
    allocated_bytes: int = 187_367_424
    collectives: int = 26

    def __post_init__(self) -> None:
        self.random = Random(f"rank {self.number}")
        self.pid = 41_900 + 3 * self.number
        self.main_tid, self.autograd_tid = self.pid, self.pid + 212
        self.tid = self.main_tid

    def about(self, ns: float) -> int:
        """Return ns give or take a fifth, never below 1."""
        return max(1, int(ns * (0.85 + 0.4 * self.random.random() ** 2)))

    def work(self, ns: float) -> None:
        """Spend about that much time on the processor."""
        self.now_ns += self.about(ns * self.slowness)

    @contextmanager
    def op(self, name: str, category: str = "cpu_op", **args: object) -> Iterator[Event]:
        """Record an op, or with another category an annotation, around what happens inside."""
        event = Event(category, name, self.pid, self.tid, self.now_ns)
        event.args = {"External id": 2_049 + len(self.events), "Record function id": 0} | {
            key.replace("_", " "): value for key, value in args.items()
        }
        self.events.append(event)
        self.open.append(event)
        self.work(1_900)
        yield event
        self.work(900)
        self.open.pop()
        event.dur_ns = self.now_ns - event.start_ns

    @contextmanager
    def thread(self, tid: int) -> Iterator[None]:
        """Let what happens inside happen on another thread, while the present one waits."""
        waiting, self.tid = self.tid, tid
        open_ops, self.open = self.open, []
        self.work(14_000)
        yield
        self.work(6_000)
        self.tid, self.open = waiting, open_ops

    def memory(self, size_bytes: int) -> None:
        """Record an allocation, or with a negative size a release, on the GPU."""
        self.allocated_bytes += size_bytes
        event = Event("cpu_instant_event", "[memory]", self.pid, self.tid, self.now_ns, phase="i")
        event.args = {
            "Total Reserved": 2_147_483_648,
            "Total Allocated": self.allocated_bytes,
            "Bytes": size_bytes,
            "Device Id": self.number,
            "Device Type": 1,
            "Addr": 140_000_000_000_000 + (abs(size_bytes) * 7_919 // 512 * 512) % 2**33,
        }
        self.events.append(event)

    def call(self, name: str, dur_ns: float) -> Event:
        """Record a call into the CUDA runtime or driver."""
        category = "cuda_driver" if name.startswith("cuL") else "cuda_runtime"
        event = Event(category, name, self.pid, self.tid, self.now_ns, self.about(dur_ns * self.slowness))
        event.args = self._external() | {"cbid": CBID[name], "correlation": 9_001 + len(self.calls)}
        self.now_ns = event.end_ns
        self.calls.append(event)
        return event

    def launch(self, kernel: Kernel, stream: int = COMPUTE) -> Event:
        """Launch a kernel: it starts when the call is through to the GPU and the stream is free."""
        call = self.call(kernel.api, 4_700)
        row = self._row("kernel", kernel.name, call, stream)
        row.dur_ns = self.about(kernel.dur_ns)
        blocks = kernel.grid / SMS
        warps = blocks * kernel.block / 32
        row.args |= {
            "registers per thread": kernel.registers,
            "shared memory": 16 * kernel.block if kernel.registers > 80 else 0,
            "blocks per SM": round(blocks, 6),
            "warps per SM": round(warps, 6),
            "grid": [kernel.grid, 1, 1],
            "block": [kernel.block, 1, 1],
            "est. achieved occupancy %": int(100 * min(1.0, warps / WARPS_A_SM)),
        }
        self.free_ns[stream] = row.end_ns
        return row

    def copy(self, direction: str, memory: tuple[str, str], size_bytes: int, stream: int = COMPUTE) -> Event:
        """Copy; to or from pageable memory the call returns only when the copy is done."""
        call = self.call("cudaMemcpyAsync", 5_800)
        row = self._row("gpu_memcpy", f"Memcpy {direction} ({memory[0]} -> {memory[1]})", call, stream)
        slower = min(memory, key=BYTES_PER_NS.__getitem__)
        row.dur_ns = self.about(1_150 + size_bytes / BYTES_PER_NS[slower])
        row.args |= {"bytes": size_bytes, "memory bandwidth (GB/s)": size_bytes / row.dur_ns}
        self.free_ns[stream] = row.end_ns
        if slower == "Pageable":
            self.now_ns = max(self.now_ns, row.end_ns + self.about(2_400))
            call.dur_ns = self.now_ns - call.start_ns
        return row

    def fill(self, size_bytes: int, stream: int = COMPUTE) -> Event:
        """Set memory of the GPU to 0."""
        row = self._row("gpu_memset", "Memset (Device)", self.call("cudaMemsetAsync", 4_100), stream)
        row.dur_ns = self.about(1_050 + size_bytes / 1_150)
        row.args |= {"bytes": size_bytes, "memory bandwidth (GB/s)": size_bytes / row.dur_ns}
        self.free_ns[stream] = row.end_ns
        return row

    def wait(self, stream: int, other: int) -> None:
        """Let one stream wait for what was given to another."""
        recorded = self.call("cudaEventRecord", 1_300).args["correlation"]
        args = {
            "wait_on_stream": other,
            "wait_on_cuda_event_record_corr_id": recorded,
            "wait_on_cuda_event_id": 17 + other,
        }
        self._sync("Stream Wait Event", self.call("cudaStreamWaitEvent", 1_100), stream, args)
        self.free_ns[stream] = max(self.free_ns[stream], self.free_ns[other])

    def synchronize(self, stream: int | None = COMPUTE) -> None:
        """Wait on the processor for a stream, or for the whole GPU."""
        call = self.call("cudaStreamSynchronize" if stream else "cudaDeviceSynchronize", 2_200)
        until_ns = self.free_ns[stream] if stream else max(self.free_ns.values())
        self.now_ns = max(self.now_ns, until_ns + self.about(3_100))
        call.dur_ns = self.now_ns - call.start_ns
        self._sync("Stream Sync" if stream else "Context Sync", call, stream or -1, {})

    def communicate(self, kernel: Kernel, elements: int, dtype: str) -> Collective:
        """Run a collective on NCCL's stream, with the arguments Kineto puts on its op and on its kernel."""
        collective = "broadcast" if "Broadcast" in kernel.name else "allreduce"
        group = {
            "Collective name": collective,
            "In msg nelems": elements,
            "Out msg nelems": elements,
            "Group size": self.world_size,
            "dtype": dtype,
            "In split size": "[]",
            "Out split size": "[]",
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": str(list(range(self.world_size))),
            "Seq": self.collectives,
            "Comms Id": comms_id("0", self.collectives, range(self.world_size)),
        }
        self.collectives += 1
        spoken = {"broadcast": "broadcast", "allreduce": "all_reduce"}[collective]
        with self.op(f"c10d::{collective}_"), self.op("record_param_comms") as comms:
            comms.args |= group | {"Rank": self.number, "Global rank start": 0, "Global rank stride": 1}
            with self.op(f"nccl:{spoken}", "user_annotation"):
                self.wait(NCCL, COMPUTE)
                row = self.launch(replace(kernel, api="cudaLaunchKernelExC"), NCCL)
                row.args |= group
                through_ns = yield row.start_ns, kernel.dur_ns
                row.dur_ns = through_ns + self.random.randrange(1_800) - row.start_ns
                self.free_ns[NCCL] = row.end_ns

    def projections(self) -> Iterator[Event]:
        """Yield each annotation as its kernels and copies show it: from 1 ns before them to 1 ns after them."""
        calls = {call.args["correlation"]: call for call in self.calls}
        for annotation in self.events:
            if annotation.category != "user_annotation":
                continue
            rows = [row for row in self.gpu if _inside(calls[row.args["correlation"]], annotation)]
            for stream in sorted({row.tid for row in rows}):
                start_ns = min(row.start_ns for row in rows if row.tid == stream) - 1
                dur_ns = max(row.end_ns for row in rows if row.tid == stream) + 1 - start_ns
                args = {"External id": annotation.args["External id"]}
                yield Event("gpu_user_annotation", annotation.name, self.number, stream, start_ns, dur_ns, args)

    def _external(self) -> dict[str, object]:
        ops = [event for event in self.open if event.category == "cpu_op"]
        return {"External id": ops[-1].args["External id"]} if ops else {}

    def _row(self, category: str, name: str, call: Event, stream: int) -> Event:
        correlation = call.args["correlation"]
        gap_ns = self.random.choice((0, 672, 896, 1_024, 1_184))
        start_ns = max(call.end_ns - self.about(900), self.free_ns[stream] + gap_ns)
        row = Event(category, name, self.number, stream, start_ns)
        queued = {"queued": 0} if category == "kernel" else {}
        row.args = self._external() | queued | {"device": self.number, "context": 1, "stream": stream}
        row.args["correlation"] = correlation
        row.flows.append(Flow("ac2g", correlation, "f"))
        call.flows.append(Flow("ac2g", correlation, "s"))
        self.gpu.append(row)
        return row

    def _sync(self, kind: str, call: Event, stream: int, args: dict[str, object]) -> None:
        # Since April 2026 Kineto shows "Stream Sync" on a track of its own, beside the stream's
        tid = stream + 1_000_000 if kind == "Stream Sync" else stream
        row = Event("cuda_sync", kind, self.number, tid, call.start_ns + 250, max(1, call.dur_ns - 500))
        correlation = call.args["correlation"]
        row.args = self._external() | {"cuda_sync_kind": kind} | args
        row.args |= {"stream": stream, "correlation": correlation, "device": self.number, "context": 1}
        row.flows.append(Flow("ac2g", correlation, "f"))
        call.flows.append(Flow("ac2g", correlation, "s"))
        self.syncs.append(row)


def _inside(call: Event, annotation: Event) -> bool:
    return call.tid == annotation.tid and annotation.start_ns <= call.start_ns < annotation.end_ns
