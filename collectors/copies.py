"""Copies of known sizes between host and device, from pageable and pinned memory; on a CPU from memory to memory."""

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Settings:
    """What a run can vary."""

    device: str = "cpu"
    sizes: tuple[int, ...] = (4096, 1 << 20, 16 << 20)
    repeats: int = 2


def memory_kinds(settings: Settings) -> tuple[bool, ...]:
    """Return whether memory is pinned, for each kind to copy from: pinned memory needs a GPU."""
    return (False, True) if settings.device.startswith("cuda") else (False,)


def truth(settings: Settings) -> dict[str, int]:
    """Return what one step copies in each direction, over both memory_kinds of memory."""
    times = settings.repeats * len(memory_kinds(settings))
    return {"copies": len(settings.sizes) * times, "size_bytes": sum(settings.sizes) * times}


def workload(settings: Settings) -> Callable[[], None]:
    """Return the step."""
    pairs = [
        (torch.randint(256, (size,), dtype=torch.uint8, pin_memory=pinned), torch.empty(size, dtype=torch.uint8))
        for pinned in memory_kinds(settings)
        for size in settings.sizes
    ]
    pairs = [(host, target.to(settings.device)) for host, target in pairs]

    def step() -> None:
        for host, target in pairs:
            for _ in range(settings.repeats):
                target.copy_(host, non_blocking=True)
                host.copy_(target, non_blocking=True)

    return step
