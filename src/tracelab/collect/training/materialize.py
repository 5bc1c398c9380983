"""Create the weights of a model that was built without any, on its device: no rank ever holds the whole model."""

from collections.abc import Callable
from typing import Any

from tracelab.collect.machine import read_host
from tracelab.collect.training.model_cost import ModelCost
from tracelab.collect.training.model_setup import RankContext
from tracelab.errors import UsageError

Initialize = Callable[[str, Any], None]
"""`initialize(name, weight)` fills one weight in place; a workload may define it."""
_GB = 1e9


def create_weights(context: RankContext, network: Any, initialize: Initialize) -> None:  # noqa: ANN401  torch carries no types here
    """Allocate and fill the weights of a model on the meta device.

    Each rank draws a sharded weight whole, keeps its own part and frees the rest, so that the same seed gives the same
    model for every parallelism. Weights that several modules share stay shared.
    """
    torch = context.torch
    if buffer := next((name for name, _ in network.named_buffers()), None):
        raise UsageError(
            f"initialize(name, weight) fills weights, and this model also has the buffer {buffer}; remove initialize()"
        )
    places: dict[Any, list[tuple[Any, str]]] = {}
    for module in network.modules():
        for name, weight in module.named_parameters(recurse=False):
            places.setdefault(weight, []).append((module, name))
    for weight, owners in places.items():  # Module.to_empty fails where a profiler refers to a weight
        created = torch.nn.Parameter(torch.empty_like(weight, device=context.device), weight.requires_grad)
        for module, name in owners:
            setattr(module, name, created)
    torch.manual_seed(context.settings.seed)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            _fill(context, name, weight, initialize)


def _fill(context: RankContext, name: str, weight: Any, initialize: Initialize) -> None:  # noqa: ANN401
    if not hasattr(weight, "placements"):
        initialize(name, weight)
        return
    from torch.distributed.tensor import distribute_tensor

    whole = context.torch.empty(weight.shape, dtype=weight.dtype, device=context.device)
    initialize(name, whole)
    weight.copy_(distribute_tensor(whole, weight.device_mesh, weight.placements, src_data_rank=None))


def check_host_memory(context: RankContext, cost: ModelCost, *, is_created_in_place: bool) -> None:
    """Refuse a model whose weights exceed the memory of this node; the GPU's own limit shows when it is reached."""
    total_bytes = read_host().total_bytes
    if total_bytes is None or (is_created_in_place and context.device.type != "cpu"):
        return
    ranks, settings = context.job.local_world_size, context.settings
    shares = context.job.world_size if is_created_in_place and settings.shards_weights else 1
    needed_bytes = cost.parameter_bytes * ranks / shares
    if needed_bytes > total_bytes:
        more = "" if is_created_in_place else ", or define initialize(name, weight), as the workload decoder does"
        raise UsageError(
            f"the weights of this model, {cost.parameter_bytes / _GB:.0f} GB, take {needed_bytes / _GB:.0f} GB in the "
            f"memory of this node, which has {total_bytes / _GB:.0f} GB, with {ranks} of the ranks on it; "
            f"choose a smaller model{more}"
        )
