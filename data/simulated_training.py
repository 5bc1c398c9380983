"""Simulate the training steps of a rank, launch by launch: ResNet-18 under DistributedDataParallel."""

import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kineto_writer import Flow
from simulated_rank import COMPUTE, COPY, NCCL, SIDE, Collective, Kernel, Rank

BATCH, CLASSES = 32, 1_000
IMAGE_BYTES = 4 * 3 * 224 * 224
BUCKET_BYTES = 10 * 2**20
FLOP_PER_NS, DRAM_BYTES_PER_NS, NCCL_BYTES_PER_NS = 45_000, 1_250, 17.0
NAMES = tomllib.loads((Path(__file__).parent / "kernel_names.toml").read_text())


@dataclass(frozen=True)
class Conv:
    """A convolution and the normalisation behind it; `side` = it runs beside the block's main branch."""

    channels: tuple[int, int]
    size: int
    pixels: int
    stride: int = 1
    side: bool = False

    @property
    def dur_ns(self) -> int:
        return int(2 * BATCH * self.weights * self.pixels**2 / FLOP_PER_NS)

    @property
    def weights(self) -> int:
        return self.channels[0] * self.channels[1] * self.size**2

    @property
    def activation_bytes(self) -> int:
        return 4 * BATCH * self.channels[1] * self.pixels**2


@dataclass(frozen=True)
class Node:
    """One op of the backward pass: what it launches, and the sizes of the parameters whose gradients it makes."""

    name: str
    sequence: int
    run: Callable[[], object]
    parameters: tuple[int, ...]


@dataclass
class Step:
    """What a step carries from forward to backward and on to the optimizer."""

    nodes: list[Node] = field(default_factory=list)
    bucket_bytes: int = 0
    parameters: list[int] = field(default_factory=list)


def kernel(name: str, dur_ns: float, grid: int = 256, block: int = 256, registers: int = 32) -> Kernel:
    """Return a kernel of kernel_names.toml; Triton's are launched through the driver."""
    api = "cuLaunchKernel" if NAMES[name].startswith("triton") else "cudaLaunchKernel"
    return Kernel(NAMES[name], int(dur_ns), grid, block, registers, api)


def moving(size_bytes: float) -> float:
    """Return how long a kernel takes that only moves bytes."""
    return size_bytes / DRAM_BYTES_PER_NS


def train(rank: Rank, waits_ns: tuple[int, ...], slow_steps: dict[int, float], *, broadcasts: bool) -> Collective:
    """Train one step for each entry of `waits_ns`: the time this rank's loader keeps it waiting."""
    fetch_images(rank)
    for number, wait_ns in enumerate(waits_ns):
        step = Step()
        with rank.op(f"ProfilerStep#{number + 5}", "user_annotation"):
            with rank.op("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "user_annotation"):
                rank.now_ns += wait_ns
            rank.slowness = slow_steps.get(number, 1.0)
            copy_targets(rank, CLASSES if number else 49 * CLASSES)
            with rank.op("DistributedDataParallel.forward", "user_annotation"):
                if broadcasts:
                    yield from broadcast_buffers(rank)
                forward(rank, step)
            fetch_images(rank)
            with rank.thread(rank.autograd_tid):
                yield from backward(rank, step)
            optimizer(rank, step)
            report(rank)
            rank.slowness = 1.0
    rank.synchronize(None)


def fetch_images(rank: Rank) -> None:
    """Copy the next batch ahead, from pinned memory and on a stream of its own."""
    dims = [[BATCH, 3, 224, 224], [], [], []]
    with rank.op("aten::to", Input_Dims=dims), rank.op("aten::_to_copy"), rank.op("aten::copy_"):
        rank.memory(BATCH * IMAGE_BYTES)
        rank.copy("HtoD", ("Pinned", "Device"), BATCH * IMAGE_BYTES, COPY)


def copy_targets(rank: Rank, soft_targets: int) -> None:
    """Copy labels, a scalar and soft targets from pageable memory: small ones, and in the first step a big one."""
    rank.wait(COMPUTE, COPY)
    for size_bytes in (8 * BATCH, 4, 4 * BATCH * soft_targets):
        with rank.op("aten::to"), rank.op("aten::_to_copy"), rank.op("aten::copy_"):
            rank.copy("HtoD", ("Pageable", "Device"), size_bytes)
            rank.synchronize()


def broadcast_buffers(rank: Rank) -> Collective:
    """Give everyone rank 0's running statistics, as DistributedDataParallel does before each forward."""
    for elements, dtype in ((9_600, "Float"), (20, "Long")):
        yield from rank.communicate(kernel("broadcast", 9_000 + elements / 8, 2, 544, 96), elements, dtype)
    rank.wait(COMPUTE, NCCL)


def network() -> Iterator[list[Conv]]:
    """Yield ResNet-18's blocks, each a list of convolutions in launch order."""
    inputs = 64
    for outputs, pixels in ((64, 56), (128, 28), (256, 14), (512, 7)):
        for stride in (1 if outputs == inputs else 2, 1):
            branch = [Conv((inputs, outputs), 1, pixels, stride, side=True)] if stride == 2 else []
            yield [*branch, Conv((inputs, outputs), 3, pixels, stride), Conv((outputs, outputs), 3, pixels)]
            inputs = outputs


def forward(rank: Rank, step: Step) -> None:
    stem = Conv((3, 64), 7, 112, 2)
    convolve(rank, step, stem)
    activate(rank, step, stem)
    pools = kernel("pool", 150_000, 12_544), kernel("pool_backward", 240_000, 12_544)
    simple(rank, step, "max_pool2d MaxPool2DWithIndicesBackward0", pools)
    for block in network():
        for conv in block:
            convolve(rank, step, conv)
            if conv is block[-2]:
                activate(rank, step, conv)
        if block[0].side:
            rank.wait(COMPUTE, SIDE)
        add_ns = moving(3 * block[-1].activation_bytes)
        adds = kernel("fused_add_relu", add_ns, 4_096, 128), kernel("add", add_ns, 4_096, 128)
        simple(rank, step, "add_relu AddBackward0", adds)
    simple(rank, step, "adaptive_avg_pool2d MeanBackward1", (kernel("mean", 7_200), kernel("scale", 5_400)))
    linears = kernel("linear", 26_000, 32, 128, 86), kernel("linear_backward", 15_000, 64, 256, 122)
    simple(rank, step, "linear AddmmBackward0", linears, (CLASSES, 512 * CLASSES))
    softmaxes = kernel("softmax", 4_200, 8), kernel("softmax_backward", 4_600, 8)
    simple(rank, step, "log_softmax LogSoftmaxBackward0", softmaxes)
    losses = kernel("loss", 3_900, 1, 32), kernel("loss_backward", 2_700, 1, 32)
    simple(rank, step, "nll_loss_nd NllLossBackward0", losses)


@contextmanager
def differentiable(rank: Rank, step: Step, names: str, dims: list[list[int]]) -> Iterator[list]:
    """Record a forward op; the block appends to the list what its backward runs, and its parameters' sizes."""
    rank.sequence += 1
    sequence, later = rank.sequence, []
    name, backward_name = names.split()
    with rank.op(f"aten::{name}", Sequence_number=sequence, Fwd_thread_id=0, Input_Dims=dims) as event:
        event.flows.append(Flow("fwdbwd", sequence, "s"))
        rank.work(9_000)
        yield later
    step.nodes.append(Node(backward_name, sequence, later[0], tuple(later[1:])))


def simple(
    rank: Rank, step: Step, names: str, kernels: tuple[Kernel, Kernel], parameters: tuple[int, ...] = ()
) -> None:
    """Record an op that is one kernel forward and one backward."""
    with differentiable(rank, step, names, [[BATCH, 512]]) as later:
        rank.launch(kernels[0])
        later += [lambda: rank.launch(kernels[1]), *parameters]


def convolve(rank: Rank, step: Step, conv: Conv) -> None:
    stream = SIDE if conv.side else COMPUTE
    if conv.side:
        rank.wait(SIDE, COMPUTE)
    inputs, outputs = conv.channels
    dims = [[BATCH, inputs, *[conv.pixels * conv.stride] * 2], [outputs, inputs, conv.size, conv.size]]
    with differentiable(rank, step, "conv2d ConvolutionBackward0", dims) as later:
        with rank.op("aten::convolution"), rank.op("aten::_convolution"), rank.op("aten::cudnn_convolution"):
            rank.memory(conv.activation_bytes)
            convolution(rank, conv, "fprop", stream)
        later += [lambda: gradients(rank, conv, stream), conv.weights]
    norm_ns = moving(2.2 * conv.activation_bytes)
    with differentiable(rank, step, "batch_norm CudnnBatchNormBackward0", [[BATCH, outputs]]) as later:
        with rank.op("aten::add_"):
            rank.launch(kernel("count", 1_760, 1, 128, 18), stream)
        with rank.op("aten::_batch_norm_impl_index"), rank.op("aten::cudnn_batch_norm"):
            rank.memory(conv.activation_bytes)
            rank.launch(kernel("norm", norm_ns, outputs, 512, 40), stream)
        later += [lambda: rank.launch(kernel("norm_backward", 1.6 * norm_ns, outputs, 512, 44), stream)]
        later += [outputs, outputs]


def convolution(rank: Rank, conv: Conv, kind: str, stream: int) -> None:
    """Launch what cuDNN would: Winograd for large 3x3 images, implicit GEMM with a layout change for the others."""
    grid = max(8, conv.activation_bytes // 65_536)
    if conv.size == 3 and conv.stride == 1 and conv.pixels >= 28 and kind != "wgrad":
        rank.launch(kernel("winograd_tiles", 3_100, 64, 128, 36), stream)
        rank.launch(kernel("winograd", 0.7 * conv.dur_ns, grid, 256, 126), stream)
        return
    if conv.size == 3 and conv.pixels <= 14:
        rank.launch(kernel("to_nhwc", 3_000 + moving(conv.activation_bytes), grid, 256, 40), stream)
    if kind == "wgrad":
        rank.fill(4 * conv.weights, stream)
    rank.launch(kernel(kind, conv.dur_ns, grid, 256, 230), stream)


def gradients(rank: Rank, conv: Conv, stream: int) -> None:
    with rank.op("aten::convolution_backward"):
        if conv.channels[0] != 3:
            convolution(rank, conv, "dgrad", stream)
        convolution(rank, conv, "wgrad", stream)
        rank.memory(-2 * conv.activation_bytes)


def activate(rank: Rank, step: Step, conv: Conv) -> None:
    dur_ns = moving(2 * conv.activation_bytes)
    kernels = kernel("clamp", dur_ns, 4_096, 128, 20), kernel("threshold", 1.5 * dur_ns, 4_096, 128, 24)
    simple(rank, step, "relu_ ReluBackward0", kernels)


def backward(rank: Rank, step: Step) -> Collective:
    """Run the nodes in reverse; a bucket that is full is reduced while the next nodes compute."""
    for node in reversed(step.nodes):
        args = {"Sequence_number": node.sequence, "Fwd_thread_id": 1}
        with rank.op(f"autograd::engine::evaluate_function: {node.name}", **args), rank.op(node.name, **args) as event:
            event.flows.append(Flow("fwdbwd", node.sequence, "f"))
            rank.work(6_000)
            node.run()
        for parameters in node.parameters:
            accumulate(rank, step, parameters)
        if step.bucket_bytes >= BUCKET_BYTES or node is step.nodes[0]:
            rank.wait(COMPUTE, SIDE)
            yield from reduce_bucket(rank, step)
    rank.wait(COMPUTE, NCCL)
    for parameters in step.parameters:
        with rank.op("torch.distributed.ddp.reducer::copy_bucket_to_grad"), rank.op("aten::copy_"):
            rank.copy("DtoD", ("Device", "Device"), 4 * parameters)


def accumulate(rank: Rank, step: Step, parameters: int) -> None:
    """Scale a gradient into its bucket."""
    name, scaling = "torch::autograd::AccumulateGrad", "torch::distributed::reducer::mul_out"
    with rank.op(f"autograd::engine::evaluate_function: {name}"), rank.op(name), rank.op(scaling):
        rank.launch(kernel("scale", 1_700 + moving(8 * parameters), max(1, parameters // 4_096), 128))
    step.bucket_bytes += 4 * parameters
    step.parameters.append(parameters)


def reduce_bucket(rank: Rank, step: Step) -> Collective:
    size_bytes, step.bucket_bytes = step.bucket_bytes, 0
    reducing = kernel("all_reduce", 14_000 + size_bytes / NCCL_BYTES_PER_NS, 24, 544, 96)
    yield from rank.communicate(reducing, size_bytes // 4, "Float")


def optimizer(rank: Rank, step: Step) -> None:
    with rank.op("Optimizer.step#SGD.step", "user_annotation"):
        for name, lists in (("foreach_add", 2), ("foreach_mul", 1), ("foreach_add", 2)):
            with rank.op(f"aten::_{name}_"):
                rank.work(38_000)
                for share in (0.5, 0.3, 0.2):
                    size_bytes = 4 * (lists + 1) * share * sum(step.parameters)
                    rank.launch(kernel(name, moving(size_bytes), 320, 512, 48))
    with rank.op("Optimizer.zero_grad#SGD.zero_grad", "user_annotation"):
        rank.work(45_000)


def report(rank: Rank) -> None:
    """Bring the logits and the loss to the host; the loss waits for everything before it."""
    with rank.op("aten::copy_", Input_Dims=[[BATCH, CLASSES], [BATCH, CLASSES], []]):
        rank.copy("DtoH", ("Device", "Pinned"), 4 * BATCH * CLASSES)
    with rank.op("aten::item"), rank.op("aten::_local_scalar_dense"):
        rank.copy("DtoH", ("Device", "Pageable"), 4)
        rank.synchronize()
