"""Broadcasts and all-reduces of known size between all ranks."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import distributed

NEEDS_RANKS = True


@dataclass(frozen=True)
class Settings:
    """What a run can vary."""

    device: str = "cpu"
    elements: int = 1 << 18
    repeats: int = 2


def truth(settings: Settings) -> dict[str, int]:
    """Return what one step does of each kind, in floats of 4 bytes."""
    return {"calls": settings.repeats, "size_bytes": 4 * settings.elements * settings.repeats}


def workload(settings: Settings) -> Callable[[], None]:
    """Return the step."""
    numbers = torch.randn(settings.elements, device=settings.device)

    def step() -> None:
        for _ in range(settings.repeats):
            distributed.broadcast(numbers, 0)
            distributed.all_reduce(numbers, distributed.ReduceOp.AVG if numbers.is_cuda else distributed.ReduceOp.MAX)

    return step
