"""Copies of known sizes, from pageable and from pinned memory, there and back; on a processor from memory to memory."""

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Settings:
    """What a run can vary."""

    device: str = "cpu"
    sizes: tuple[int, ...] = (4096, 1 << 20, 16 << 20)
    repeats: int = 2


def kinds(settings: Settings) -> tuple[bool, ...]:
    """Pageable memory, and where there is a GPU pinned memory too."""
    return (False, True) if settings.device.startswith("cuda") else (False,)


def truth(settings: Settings) -> dict[str, int]:
    """What one step does in each direction, over all kinds of memory."""
    times = settings.repeats * len(kinds(settings))
    return {"copies": len(settings.sizes) * times, "size_bytes": sum(settings.sizes) * times}


def workload(settings: Settings) -> Callable[[], None]:
    """Return the step."""
    pairs = [
        (torch.randint(256, (size,), dtype=torch.uint8, pin_memory=pinned), torch.empty(size, dtype=torch.uint8))
        for pinned in kinds(settings)
        for size in settings.sizes
    ]
    pairs = [(here, there.to(settings.device)) for here, there in pairs]

    def step() -> None:
        for here, there in pairs:
            for _ in range(settings.repeats):
                there.copy_(here, non_blocking=True)
                here.copy_(there, non_blocking=True)

    return step
