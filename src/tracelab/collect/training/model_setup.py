"""Set up a model on its devices: precision, process group, weights, optimizer."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from tracelab.collect.process.launcher_env import Job
from tracelab.collect.settings import Settings
from tracelab.errors import UsageError


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
        """Whether the device is an NVIDIA or AMD GPU, with torch.cuda's events and memory."""
        return bool(self.device.type == "cuda")

    @property
    def mps(self) -> bool:
        """Whether the device is an Apple GPU."""
        return bool(self.device.type == "mps")

    @property
    def devices(self) -> list[int]:
        """Ordinals of the GPUs this process uses."""
        if not self.cuda:
            return []
        return list(range(self.settings.gpus or 1)) if self.settings.parallel == "dp" else [self.device.index]

    @property
    def counts_samples(self) -> bool:
        """Whether the rank counts the samples it reads: tensor-parallel ranks read the same ones, so the first does."""
        return self.settings.parallel != "tp" or self.job.rank == 0

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
        """The torch.dtype of mixed precision, which fp8 uses outside of linear layers; None for fp32 and tf32."""
        lower = {"fp16": self.torch.float16, "bf16": self.torch.bfloat16, "fp8": self.torch.bfloat16}
        return lower.get(self.settings.precision)

    def to_device(self, batch: Any) -> list[Any]:  # noqa: ANN401  what a loader yields
        """Copy a batch to the device."""
        order = {"memory_format": self.torch.channels_last} if self.settings.channels_last else {}
        return [
            tensor.to(self.device, non_blocking=self.cuda, **(order if tensor.dim() == 4 else {}))  # noqa: PLR2004  images
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
    groups = _group_parameters(network)
    match settings.optimizer:
        case "adam":
            return torch.optim.Adam(groups, **common)
        case "adamw":
            return torch.optim.AdamW(groups, **common)
    return torch.optim.SGD(groups, momentum=settings.momentum, **common)


def _group_parameters(network: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Group parameters by class: on GPUs an update of many at once takes no mix of DTensors and other tensors.

    Tensor parallelism splits some parameters, which become DTensors, and leaves norms whole.
    """
    by_class: dict[type, list[Any]] = {}
    for parameter in network.parameters():
        by_class.setdefault(type(parameter), []).append(parameter)
    return [{"params": parameters} for parameters in by_class.values()]
