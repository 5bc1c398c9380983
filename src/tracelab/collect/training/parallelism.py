"""Move a model to its devices and wrap it for its parallelism."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tracelab.collect.training.materialize import Initialize, create_weights
from tracelab.collect.training.model_setup import RankContext

SHARDED_PARAMETERS = 100_000
"""Parts of a model with fewer parameters are not worth their own all-gather."""
_RESHARD = {"auto": {}, "always": {"reshard_after_forward": True}, "never": {"reshard_after_forward": False}}


def parallelize(
    context: RankContext,
    network: Any,  # noqa: ANN401  torch carries no types here
    sample: Callable[[], list[Any]],
    split: Callable[[Any, Any], None] | None = None,
    initialize: Initialize | None = None,
) -> Any:  # noqa: ANN401
    """Move the model to its devices and wrap it for its parallelism.

    `sample` returns a batch for graph capture; `split(network, mesh)` is the workload's tensor parallelism. With
    `initialize` the model is on the meta device, and its weights are created on theirs, sharded ones part by part.
    """
    torch, settings = context.torch, context.settings
    if initialize is None:
        network = network.to(context.device)
    elif not settings.shards_weights:
        create_weights(context, network, initialize)
    if settings.channels_last:
        network = network.to(memory_format=torch.channels_last)
    if settings.cuda_graphs:
        with context.autocast():
            network = torch.cuda.make_graphed_callables(network, tuple(sample()[:-1]))
    network = _distribute(context, network, split)
    if initialize is not None and settings.shards_weights:
        create_weights(context, network, initialize)
    if settings.compile:
        network.compile(mode=settings.compile_mode)
    return network


def _distribute(context: RankContext, network: Any, split: Callable[[Any, Any], None] | None) -> Any:  # noqa: ANN401
    torch = context.torch
    match context.settings.parallel:
        case "dp":
            network = torch.nn.DataParallel(_with_autocast(context, network), device_ids=context.devices)
        case "ddp":
            network = torch.nn.parallel.DistributedDataParallel(network, device_ids=context.devices or None)
        case "fsdp":
            network = _shard(context, network)
        case "tp" if split is not None:
            mesh = torch.distributed.init_device_mesh(
                context.device.type, (context.job.world_size,), mesh_dim_names=("tp",)
            )
            split(network, mesh)
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


def _shard(context: RankContext, network: Any) -> Any:  # noqa: ANN401
    """Apply FSDP: each large part, and the rest of the model, is gathered and freed separately."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    torch, settings = context.torch, context.settings
    part_policy = whole_policy = MixedPrecisionPolicy()
    if settings.fsdp_precision == "policy":  # gradients are summed, and the loss is computed, in fp32
        types = {"param_dtype": context.lower_dtype, "reduce_dtype": torch.float32}
        part_policy = MixedPrecisionPolicy(**types)
        whole_policy = MixedPrecisionPolicy(**types, output_dtype=torch.float32)
    mesh = torch.distributed.init_device_mesh(context.device.type, (context.job.world_size,))
    common = {"mesh": mesh, **_RESHARD[settings.fsdp_reshard]}
    for part in find_large_parts(torch, network) if settings.fsdp_wrap == "parts" else ():
        fully_shard(part, mp_policy=part_policy, **common)
    return fully_shard(network, mp_policy=whole_policy, **common)


def find_large_parts(torch: Any, network: Any) -> Iterator[Any]:  # noqa: ANN401
    """Yield the large parts of a model; tied weights stay with the rest of the model, which has both uses."""
    parts = list(_parts(torch, network))
    owners = Counter(parameter for part in parts for parameter in part.parameters())
    for part in parts:
        own = list(part.parameters())
        if sum(each.numel() for each in own) >= SHARDED_PARAMETERS and all(owners[each] == 1 for each in own):
            yield part


def _parts(torch: Any, network: Any) -> Iterator[Any]:  # noqa: ANN401
    """Yield the members of lists of modules, such as blocks, also where a child has the list, and other children."""
    for child in network.children():
        if isinstance(child, torch.nn.ModuleList | torch.nn.Sequential):
            yield from child
        elif any(isinstance(each, torch.nn.ModuleList) for each in child.modules()):
            yield from _parts(torch, child)
        else:
            yield child
