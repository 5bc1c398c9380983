"""The triad a = b + s·c of known size: two arrays read, one written, two FLOPs an element."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

DEVICES = ("cpu", "cuda")  # Apple GPUs have no doubles


@dataclass(frozen=True)
class Settings:
    """What a run can vary."""

    device: str = "cpu"
    elements: int = 1 << 24  # three arrays of 128 MiB: more than any cache holds
    repeats: int = 4


def truth(settings: Settings) -> dict[str, int]:
    """Return what one step computes and moves, in doubles of 8 bytes."""
    elements = settings.elements * settings.repeats
    return {"triads": settings.repeats, "flop": 2 * elements, "size_bytes": 3 * 8 * elements}


def workload(settings: Settings) -> Callable[[], None]:
    """Return the step."""
    b, c = torch.randn(2, settings.elements, dtype=torch.float64, device=settings.device)
    a = torch.empty_like(b)

    def step() -> None:
        for _ in range(settings.repeats):
            torch.add(b, c, alpha=3.0, out=a)

    return step
