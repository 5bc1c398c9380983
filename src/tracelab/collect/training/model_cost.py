"""Count a model's parameters and its FLOPs per sample, on meta tensors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModelCost:
    """Size and FLOPs of one model; a multiply-add is two FLOPs."""

    parameters: int
    parameter_bytes: int
    flop_per_sample: int | None
    """FLOPs of the forward pass; None if torch could not count them."""
    problem: str | None = None


def count_model_cost(torch: Any, build: Callable[[], Any], step_of: Callable[[Any], Any], sample: Any) -> ModelCost:  # noqa: ANN401
    """Count parameters, and the FLOPs of one sample's forward pass; `step_of(model)` returns a workload's step.

    Matrix products, convolutions and attention count, pointwise operations do not. Attention counts as its matrix
    products, including the masked half.
    """
    network = _build_on_meta(torch, build)
    sizes = [(each.numel(), each.numel() * each.element_size()) for each in network.parameters()]
    parameters, parameter_bytes = [sum(column) for column in zip(*sizes, strict=True)] or [0, 0]
    try:
        flop = _forward_flop(torch, step_of(network.eval()), sample)
    except Exception as error:  # noqa: BLE001  a workload's step may need real tensors
        problem = f"FLOPs not counted: {' '.join(str(error).split())[:200]}"
        return ModelCost(parameters, parameter_bytes, None, problem)
    return ModelCost(parameters, parameter_bytes, flop)


def _build_on_meta(torch: Any, build: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Build the model on meta tensors; one that reads values while it is built is built for real and moved."""
    try:
        with torch.device("meta"):
            return build()
    except Exception:  # noqa: BLE001  any error of a user's model that reads values
        return build().to("meta")


def _forward_flop(torch: Any, step: Any, sample: Any) -> int:  # noqa: ANN401
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    batch = [tensor.to("meta") for tensor in torch.utils.data.default_collate([sample])]
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        step(*batch)
    return int(counter.get_total_flops())
