"""Matrix products of known size: two FLOPs for each multiply-add, n³ of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from common import weight_dtype


@dataclass(frozen=True)
class Settings:
    """What a run can vary."""

    device: str = "cpu"
    precision: str = "fp32"
    size: int = 256
    repeats: int = 4


def truth(settings: Settings) -> dict[str, int]:
    """Return what one step computes."""
    return {"products": settings.repeats, "flop": 2 * settings.size**3 * settings.repeats}


def workload(settings: Settings) -> Callable[[], None]:
    """Return the step."""
    operands = torch.randn(2, settings.size, settings.size, device=settings.device)  # zeros would be faster to multiply
    if settings.precision == "fp8":
        left, right, scale = *operands.to(torch.float8_e4m3fn), torch.ones((), device=settings.device)
        multiply = partial(torch._scaled_mm, left, right.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)
    else:
        left, right = operands.to(weight_dtype(settings.precision))
        multiply = partial(torch.mm, left, right, out=torch.empty_like(left))

    def step() -> None:
        for _ in range(settings.repeats):
            multiply()

    return step
