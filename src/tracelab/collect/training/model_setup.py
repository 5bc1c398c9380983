"""Set up a model on its devices: precision, process group, parallelism, weights, optimizer."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from tracelab.collect.process.launcher_env import Job
from tracelab.collect.settings import Settings
from tracelab.errors import UsageError

SHARDED_PARAMETERS = 100_000
"""Parts of a model with fewer parameters are not worth their own all-gather."""


@dataclass(frozen=True)
class RankContext:
    """Torch, settings, job and device of one rank."""

    torch: Any
    settings: Settings
    job: Job
    device: Any
    """A torch.device."""

    @property
    def cuda(self) -> bool:
        """Whether the device is a GPU."""
        return bool(self.device.type == "cuda")

    @property
    def devices(self) -> list[int]:
        """Ordinals of the GPUs this process uses."""
        if not self.cuda:
            return []
        return list(range(self.settings.gpus or 1)) if self.settings.parallel == "dp" else [self.device.index]

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Return the autocast context of forward passes."""
        if self.lower_dtype is None or self.settings.fsdp_precision == "policy":
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[Any] = self.torch.autocast(
            self.device.type, self.lower_dtype, cache_enabled=not self.settings.cuda_graphs
        )
        return context

    @property
    def lower_dtype(self) -> Any:  # noqa: ANN401
        """The torch.dtype of mixed precision; None for fp32 and tf32."""
        return {"fp16": self.torch.float16, "bf16": self.torch.bfloat16}.get(self.settings.precision)

    def to_device(self, batch: Any) -> list[Any]:  # noqa: ANN401  what a loader yields
        """Copy a batch to the device."""
        order = {"memory_format": self.torch.channels_last} if self.settings.channels_last else {}
        return [
            tensor.to(self.device, non_blocking=True, **(order if tensor.dim() == 4 else {}))  # noqa: PLR2004  images
            for tensor in batch
        ]


def set_precision(torch: Any, precision: str) -> None:  # noqa: ANN401
    """Enable TF32 for matrix products and convolutions if requested, otherwise disable it: cuDNN uses it by default.

    Uses the older of torch's two settings: torch.compile still reads it, and fails if the newer one was set.
    """
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


@contextlib.contextmanager
def process_group(context: RankContext, init_method: str) -> Iterator[None]:
    """Initialize the process group of the ranks; `init_method` is a file:// path, or env:// under a launcher."""
    if context.settings.parallel in ("none", "dp") and context.job.world_size == 1:
        yield
        return
    dist = context.torch.distributed
    # ncu replays rank 0 kernel by kernel, so the other ranks may wait for hours.
    patience = {"timeout": timedelta(days=1)} if context.settings.profiler == "ncu" else {}
    dist.init_process_group(
        "nccl" if context.cuda else "gloo",
        init_method=init_method,
        rank=context.job.rank,
        world_size=context.job.world_size,
        **({"device_id": context.device} if context.cuda else {}),
        **patience,
    )
    yield
    dist.destroy_process_group()  # not after a failure: it would wait for ranks that have ended


def parallelize(context: RankContext, network: Any, sample: Callable[[], list[Any]]) -> Any:  # noqa: ANN401
    """Move the model to its devices and wrap it for its parallelism; `sample` returns a batch for graph capture."""
    torch, settings = context.torch, context.settings
    network = network.to(context.device)
    if settings.channels_last:
        network = network.to(memory_format=torch.channels_last)
    if settings.cuda_graphs:
        with context.autocast():
            network = torch.cuda.make_graphed_callables(network, tuple(sample()[:-1]))
    match settings.parallel:
        case "dp":
            network = torch.nn.DataParallel(_with_autocast(context, network), device_ids=context.devices)
        case "ddp":
            network = torch.nn.parallel.DistributedDataParallel(network, device_ids=context.devices or None)
        case "fsdp":
            network = _shard(torch, context, network)
    if settings.compile:
        network.compile()
    return network


def _with_autocast(context: RankContext, network: Any) -> Any:  # noqa: ANN401
    """Enter autocast in each replica: the threads of DataParallel enter it without a dtype, which means fp16."""
    from torch.nn import Module

    class Replica(Module):  # type: ignore[misc]  # torch carries no types here
        def __init__(self) -> None:
            super().__init__()
            self.module = network

        def forward(self, *inputs: Any) -> Any:  # noqa: ANN401
            with context.autocast():
                return self.module(*inputs)

    return Replica()


def _shard(torch: Any, context: RankContext, network: Any) -> Any:  # noqa: ANN401
    """Apply FSDP: each large part, and the rest of the model, is gathered and freed separately."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    part_policy = whole_policy = MixedPrecisionPolicy()
    if context.settings.fsdp_precision == "policy":  # gradients are summed, and the loss is computed, in fp32
        types = {"param_dtype": context.lower_dtype, "reduce_dtype": torch.float32}
        part_policy = MixedPrecisionPolicy(**types)
        whole_policy = MixedPrecisionPolicy(**types, output_dtype=torch.float32)
    mesh = torch.distributed.init_device_mesh(context.device.type, (context.job.world_size,))
    for part in network.children():
        large = [part] if not isinstance(part, torch.nn.ModuleList | torch.nn.Sequential) else list(part)
        for each in large:
            if sum(parameter.numel() for parameter in each.parameters()) >= SHARDED_PARAMETERS:
                fully_shard(each, mesh=mesh, mp_policy=part_policy)
    return fully_shard(network, mesh=mesh, mp_policy=whole_policy)


def load_weights(torch: Any, network: Any, path: Path) -> str:  # noqa: ANN401
    """Load weights from a file and return a summary; tensors of another shape (a head for other classes) stay new."""
    if not path.is_file():
        raise UsageError(f"{path}: no such checkpoint file; download it first, or name another with --weights")
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    own = network.state_dict()
    matching = {name: tensor for name, tensor in checkpoint.items() if name in own and own[name].shape == tensor.shape}
    if not matching:
        raise UsageError(f"{path}: no weight matches this model; choose the checkpoint's model with --model")
    network.load_state_dict(matching, strict=False)
    return f"{len(matching)} of {len(own)} tensors from {path.name}"


def make_optimizer(torch: Any, settings: Settings, network: Any) -> Any:  # noqa: ANN401
    """Return the optimizer of the settings."""
    common = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    match settings.optimizer:
        case "adam":
            return torch.optim.Adam(network.parameters(), **common)
        case "adamw":
            return torch.optim.AdamW(network.parameters(), **common)
    return torch.optim.SGD(network.parameters(), momentum=settings.momentum, **common)
