"""Matrix products of known size: two FLOPs for each multiply-add, n³ of them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from common import DTYPES


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
    like = {"device": settings.device, "dtype": DTYPES[settings.precision]}
    left, right = torch.randn(2, settings.size, settings.size).to(**like)  # zeros would be faster than real work
    product = torch.empty_like(left)

    def step() -> None:
        for _ in range(settings.repeats):
            torch.mm(left, right, out=product)

    return step
