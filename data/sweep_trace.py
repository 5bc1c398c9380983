"""Generate a Kineto trace of two steps of a sweep cell: few kernels, but every kind that the sweep's queries read."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from kineto_writer import Event, Flow, metadata, text
from simulated_training import NAMES
from sweep_timing import (
    GENERATED,
    GPU,
    IMAGE_BYTES,
    MEMORY_BYTES,
    Cell,
    broadcast_ns,
    compute_ns,
    copy_ns,
    parameter_bytes,
    peaks,
    reduce_ns,
)

BASE_NS = 226 * 7_889_238 * 10**9
START_NS = 4_450_000_123_456_789
STEPS = 2
PID, MAIN, AUTOGRAD = 5_000, 5_000, 5_212
COMPUTE, NCCL = 7, 28
LAUNCH_NS = 5_000
CONVOLUTION = ("conv2d", "convolution", "_convolution", "cudnn_convolution")
REDUCE = "ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
FORWARD = (("to_nhwc", 0.05), ("winograd", None), ("fprop", None), ("clamp", 0.08), ("pool", 0.06), ("linear", 0.15))
BACKWARD = (("linear_backward", 0.14), ("pool_backward", 0.11), ("winograd", None), ("dgrad", None), ("wgrad", 0.3))


@dataclass
class Writer:
    """One process: the clock of its threads, the ends of its streams, and what a profiler would see."""

    cell: Cell
    rank: int
    now_ns: int
    events: list[Event] = field(default_factory=list)
    gpu: list[Event] = field(default_factory=list)
    ends: dict[tuple[int, int], int] = field(default_factory=dict)
    allocated: dict[int, int] = field(default_factory=dict)
    correlation: int = 100

    @property
    def devices(self) -> list[int]:
        """The GPUs that this process uses."""
        return list(range(self.cell.gpus)) if self.cell.parallel != "ddp" else [self.rank]

    def op(
        self, name: str, dur_ns: int, tid: int = MAIN, category: str = "cpu_op", *, at_ns: int | None = None
    ) -> Event:
        """Record an op or an annotation that begins now, or at a time."""
        start_ns = self.now_ns if at_ns is None else at_ns
        event = Event(category, name, PID + self.rank, tid + self.rank, start_ns, dur_ns)
        event.args = {"External id": 1_000 + len(self.events)}
        self.events.append(event)
        return event

    def call(self, name: str, dur_ns: int, tid: int) -> Event:
        """Record a call of the runtime, and let the thread's clock pass it."""
        self.correlation += 1
        event = Event("cuda_runtime", name, PID + self.rank, tid + self.rank, self.now_ns, dur_ns)
        event.args = {"correlation": self.correlation}
        self.events.append(event)
        self.now_ns += dur_ns
        return event

    def launch(self, name: str, dur_ns: int, device: int, tid: int, stream: int = COMPUTE) -> Event:
        """Launch a kernel; it starts when its stream is free."""
        call = self.call("cudaLaunchKernel", LAUNCH_NS, tid)
        row = self.row("kernel", name, max(1_500, dur_ns), device, stream)
        row.args |= {"grid": [256, 1, 1], "block": [256, 1, 1], "registers per thread": 64}
        call.flows.append(Flow("ac2g", self.correlation, "s"))
        return row

    def row(self, category: str, name: str, dur_ns: int, device: int, stream: int) -> Event:
        """Record work of a device, of the call made last."""
        start_ns = max(self.now_ns + 2_000, self.ends.get((device, stream), 0) + 800)
        row = Event(category, name, device, stream, start_ns, dur_ns)
        row.args = {"device": device, "context": 1, "stream": stream, "correlation": self.correlation}
        self.ends[device, stream] = row.end_ns
        self.gpu.append(row)
        return row

    def memory(self, device: int, size_bytes: int, at_ns: int) -> None:
        """Record an allocation, or below 0 a release, on the main thread."""
        self.allocated[device] = self.allocated.get(device, 0) + size_bytes
        event = Event("cpu_instant_event", "[memory]", PID + self.rank, MAIN + self.rank, at_ns, phase="i")
        event.args = {
            "Total Reserved": -(-self.allocated[device] // 2**21) * 2**21 + 2**25,
            "Total Allocated": self.allocated[device],
            "Bytes": size_bytes,
            "Device Id": device,
            "Device Type": 1,
            "Addr": 140_000_000_000_000 + device * 2**34,
        }
        self.events.append(event)

    def join(self, device: int) -> None:
        """Let both streams of a device wait for each other."""
        end_ns = max(self.ends.get((device, stream), 0) for stream in (COMPUTE, NCCL))
        self.ends |= {(device, COMPUTE): end_ns, (device, NCCL): end_ns}


def trace(cell: Cell, rank: int, name: str) -> str:
    """Return the text of one rank's file."""
    writer = Writer(cell, rank, BASE_NS + START_NS + 31_250 * rank)
    for device in writer.devices:
        writer.allocated[device] = peaks(cell)[0 if device == writer.devices[0] else -1] - _activations(cell)
    for number in range(STEPS):
        _step(writer, number)
    rows = sorted([*writer.events, *writer.gpu], key=lambda event: (event.phase == "i", event.start_ns))
    for event in rows:
        event.start_ns -= BASE_NS
    return text(_top(cell, rank), rows, _tracks(cell, rank), name)


def _step(writer: Writer, number: int) -> None:
    cell, begun_ns = writer.cell, writer.now_ns
    step = writer.op(f"ProfilerStep#{number + 2}", 0, category="user_annotation")
    writer.op("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 40_000, category="user_annotation")
    writer.now_ns += 45_000
    for device in writer.devices:
        _inputs(writer, device)
    _forward(writer)
    _backward(writer)
    for device in writer.devices[:1]:
        for kernel in ("foreach_add", "foreach_mul"):
            writer.op("aten::_foreach_add_", 9_000)
            writer.launch(NAMES[kernel], parameter_bytes(cell) // 900, device, MAIN)
    end_ns = max([writer.now_ns, *writer.ends.values()])
    if writer.devices:
        writer.call("cudaDeviceSynchronize", max(2_000, end_ns - writer.now_ns), MAIN)
    writer.now_ns += cell.network.fixed_ns // 3
    step.dur_ns = writer.now_ns - begun_ns
    writer.now_ns += 3_000


def _inputs(writer: Writer, device: int) -> None:
    """The images of this device, and under DataParallel the parameters."""
    cell, memory = writer.cell, "Pinned" if writer.cell.pin_memory else "Pageable"
    writer.op("aten::copy_", 12_000)
    writer.call("cudaMemcpyAsync", 6_000, MAIN)
    row = writer.row("gpu_memcpy", f"Memcpy HtoD ({memory} -> Device)", copy_ns(cell), device, COMPUTE)
    row.args |= {"bytes": IMAGE_BYTES * cell.samples_a_gpu}
    if cell.parallel == "dp":
        _collective(writer, (NAMES["broadcast"], "broadcast"), broadcast_ns(cell), device)


def _forward(writer: Writer) -> None:
    cell, forward_ns = writer.cell, compute_ns(writer.cell) // 3
    for device in writer.devices or [-1]:
        writer.join(device)
        begun_ns = writer.now_ns
        nested = [
            writer.op(f"aten::{name}", 0) for name in ("conv2d", "convolution", "_convolution", "cudnn_convolution")
        ]
        if device >= 0:
            writer.memory(device, _activations(cell), writer.now_ns + 500)
            for name, share in FORWARD:
                writer.launch(NAMES[name], round(forward_ns * _share(cell, name, share)), device, MAIN)
        else:
            writer.now_ns += forward_ns
        for depth, event in enumerate(nested):
            event.dur_ns = writer.now_ns - begun_ns + 4_000 - 900 * depth
        writer.now_ns += 5_000


def _backward(writer: Writer) -> None:
    cell, backward_ns = writer.cell, 2 * compute_ns(writer.cell) // 3
    for device in writer.devices or [-1]:
        begun_ns = writer.now_ns
        outer = writer.op("autograd::engine::evaluate_function: ConvolutionBackward0", 0, AUTOGRAD)
        inner = writer.op("ConvolutionBackward0", 0, AUTOGRAD)
        if device >= 0:
            for name, share in BACKWARD:
                writer.launch(NAMES[name], round(backward_ns * _share(cell, name, share)), device, AUTOGRAD)
            writer.memory(device, -_activations(cell), writer.now_ns)
        else:
            writer.now_ns += backward_ns
        if cell.parallel == "dp":
            writer.join(device)
            _collective(writer, (REDUCE, "reduce"), reduce_ns(cell), device)
        elif cell.parallel == "ddp":
            _collective(writer, (NAMES["all_reduce"], "allreduce"), reduce_ns(cell), device)
        outer.dur_ns, inner.dur_ns = writer.now_ns - begun_ns + 4_000, writer.now_ns - begun_ns + 3_000
        writer.call("cudaEventRecord", 1_300, AUTOGRAD)
        writer.join(device)
        writer.now_ns += 5_000


def _collective(writer: Writer, kernel: tuple[str, str], dur_ns: int, device: int) -> None:
    """Run communication on NCCL's stream; its metadata say what it carries."""
    name, collective = kernel
    row = writer.launch(name, dur_ns, device, MAIN, NCCL)
    elements = writer.cell.network.parameters
    row.args |= {"Collective name": collective, "In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float",
                 "Group size": writer.cell.gpus}  # fmt: skip


def _activations(cell: Cell) -> int:
    return cell.network.activation_bytes * cell.samples_a_gpu


def _share(cell: Cell, name: str, share: float | None) -> float:
    """What a kernel is of its pass: Winograd gains on implicit GEMM as batches grow, and so does pooling backward."""
    large = cell.samples_a_gpu / (cell.samples_a_gpu + 8)
    if share is not None:
        return share * large if name == "pool_backward" else share
    winograd = cell.network.winograd * large
    return winograd if name == "winograd" else 0.66 - winograd


def _top(cell: Cell, rank: int) -> dict[str, object]:
    count = cell.gpus
    devices = [{"id": number, "name": GPU, "totalGlobalMem": MEMORY_BYTES, "numSms": 80} for number in range(count)]
    job = {"rank": rank, "world_size": cell.processes, "backend": "nccl"} if cell.processes > 1 else {}
    return {
        "schemaVersion": 1,
        "generated": GENERATED,
        "deviceProperties": devices,
        **({"distributedInfo": job} if job else {}),
        "profile_memory": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_NS,
    }


def _tracks(cell: Cell, rank: int) -> Iterator[str]:
    yield metadata("process_name", (PID + rank, 0), START_NS, ("name", "python"))
    for device in range(cell.gpus):
        yield metadata("process_labels", (device, 0), START_NS, ("labels", f"GPU {device}"))
