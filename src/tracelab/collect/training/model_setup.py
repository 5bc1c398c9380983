"""A workload made ready: its model on its devices, in its precision, spread over its ranks."""

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
"""A part of a model with fewer parameters than these is not worth an all-gather of its own."""


@dataclass(frozen=True)
class RankContext:
    """Where one rank works."""

    torch: Any
    settings: Settings
    job: Job
    device: Any
    """A torch.device."""

    @property
    def cuda(self) -> bool:
        """Whether that is a GPU."""
        return bool(self.device.type == "cuda")

    @property
    def devices(self) -> list[int]:
        """Ordinals of the GPUs that this process uses."""
        if not self.cuda:
            return []
        return list(range(self.settings.gpus or 1)) if self.settings.parallel == "dp" else [self.device.index]

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """The context of forward passes."""
        kinds = {"fp16": self.torch.float16, "bf16": self.torch.bfloat16}
        if self.settings.precision not in kinds:
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[Any] = self.torch.autocast(
            self.device.type, kinds[self.settings.precision], cache_enabled=not self.settings.cuda_graphs
        )
        return context

    def moved(self, batch: Any) -> list[Any]:  # noqa: ANN401  whatever the loader yields
        """A batch on the device."""
        order = {"memory_format": self.torch.channels_last} if self.settings.channels_last else {}
        return [
            tensor.to(self.device, non_blocking=True, **(order if tensor.dim() == 4 else {}))  # noqa: PLR2004  images
            for tensor in batch
        ]


def set_precision(torch: Any, precision: str) -> None:  # noqa: ANN401
    """TF32 for products and convolutions where it was asked for, and nowhere else: cuDNN uses it by default.

    By the older of torch's two ways: torch.compile still reads it so, and fails where the newer one was used.
    """
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


@contextlib.contextmanager
def process_group(place: RankContext, meeting: str) -> Iterator[None]:
    """The ranks joined; `meeting` is a file that they meet at, or env:// under a launcher."""
    if place.settings.parallel in ("none", "dp") and place.job.world_size == 1:
        yield
        return
    dist = place.torch.distributed
    held_up = {"timeout": timedelta(days=1)} if place.settings.profiler == "ncu" else {}  # rank 0, kernel by kernel
    dist.init_process_group(
        "nccl" if place.cuda else "gloo",
        init_method=meeting,
        rank=place.job.rank,
        world_size=place.job.world_size,
        **({"device_id": place.device} if place.cuda else {}),
        **held_up,
    )
    yield
    dist.destroy_process_group()  # not after a failure: it would wait for ranks that are gone


def parallelize(place: RankContext, network: Any, sample: Callable[[], list[Any]]) -> Any:  # noqa: ANN401
    """The model on its devices, as its parallelism wants it; `sample` gives a batch for graphs to be captured with."""
    torch, settings = place.torch, place.settings
    network = network.to(place.device)
    if settings.channels_last:
        network = network.to(memory_format=torch.channels_last)
    if settings.cuda_graphs:
        with place.autocast():
            network = torch.cuda.make_graphed_callables(network, tuple(sample()[:-1]))
    match settings.parallel:
        case "dp":
            network = torch.nn.DataParallel(network, device_ids=place.devices)
        case "ddp":
            network = torch.nn.parallel.DistributedDataParallel(network, device_ids=place.devices or None)
        case "fsdp":
            network = _sharded(torch, place, network)
    if settings.compile:
        network.compile()
    return network


def _sharded(torch: Any, place: RankContext, network: Any) -> Any:  # noqa: ANN401
    """FSDP: each large part and the rest of the model gathered and freed by itself."""
    from torch.distributed.fsdp import fully_shard

    mesh = torch.distributed.init_device_mesh(place.device.type, (place.job.world_size,))
    for part in network.children():
        large = [part] if not isinstance(part, torch.nn.ModuleList | torch.nn.Sequential) else list(part)
        for each in large:
            if sum(parameter.numel() for parameter in each.parameters()) >= SHARDED_PARAMETERS:
                fully_shard(each, mesh=mesh)
    return fully_shard(network, mesh=mesh)


def load_weights(torch: Any, network: Any, path: Path) -> str:  # noqa: ANN401
    """Load weights from a file; parts of another shape (a head for other classes) begin anew. Says what was loaded."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file of weights; nothing is downloaded")
    found = torch.load(path, map_location="cpu", weights_only=True)
    own = network.state_dict()
    fitting = {name: tensor for name, tensor in found.items() if name in own and own[name].shape == tensor.shape}
    if not fitting:
        raise UsageError(f"{path}: holds no weight of this model; name the model that they are of with --model")
    network.load_state_dict(fitting, strict=False)
    return f"{len(fitting)} of {len(own)} tensors from {path.name}"


def make_optimizer(torch: Any, settings: Settings, network: Any) -> Any:  # noqa: ANN401
    """The optimizer that was asked for."""
    common = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    match settings.optimizer:
        case "adam":
            return torch.optim.Adam(network.parameters(), **common)
        case "adamw":
            return torch.optim.AdamW(network.parameters(), **common)
    return torch.optim.SGD(network.parameters(), momentum=settings.momentum, **common)
