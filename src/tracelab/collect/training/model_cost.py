"""How large a model is and what a sample costs it, counted by torch on tensors without memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModelCost:
    """Of one model; a multiply-add is two FLOPs."""

    parameters: int
    parameter_bytes: int
    flop_per_sample: int | None
    """Of the forward pass; None where torch could not count it."""
    problem: str | None = None


def count_model_cost(torch: Any, build: Callable[[], Any], step_of: Callable[[Any], Any], sample: Any) -> ModelCost:  # noqa: ANN401
    """Count parameters, and the FLOPs of one sample's forward pass. `step_of(model)` gives the step of a workload.

    Matrix products, convolutions and attention count; what is pointwise does not. Attention is counted as the products
    that it consists of, the masked half too.
    """
    network = _without_memory(torch, build)
    sizes = [(each.numel(), each.numel() * each.element_size()) for each in network.parameters()]
    counted = [sum(column) for column in zip(*sizes, strict=True)] or [0, 0]
    try:
        flop = _forward_flop(torch, step_of(network.eval()), sample)
    except Exception as error:  # noqa: BLE001  a workload's own step, which works on real tensors
        return ModelCost(counted[0], counted[1], None, f"FLOPs not counted: {' '.join(str(error).split())[:200]}")
    return ModelCost(counted[0], counted[1], flop)


def _without_memory(torch: Any, build: Callable[[], Any]) -> Any:  # noqa: ANN401
    """The model on tensors without memory; one that looks at numbers while it is built must have been real before."""
    try:
        with torch.device("meta"):
            return build()
    except Exception:  # noqa: BLE001  whatever a model of somebody's raises where it finds no numbers
        return build().to("meta")


def _forward_flop(torch: Any, step: Any, sample: Any) -> int:  # noqa: ANN401
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    batch = [tensor.to("meta") for tensor in torch.utils.data.default_collate([sample])]
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        step(*batch)
    return int(counter.get_total_flops())
