"""Two streams that overlap for a chosen share of their work, with kernels that spin for a number of clock cycles."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

DEVICES = ("cuda",)
PIECES = 10


@dataclass(frozen=True)
class Settings:
    """What a run can vary."""

    device: str = "cuda:0"
    overlap: float = 0.5  # of each stream's work, in tenths
    cycles: int = 1_000_000


def truth(settings: Settings) -> dict[str, float]:
    """Return the kernels of one step, and the share of the busy time in which two run."""
    concurrent = round(settings.overlap * PIECES)
    return {"kernels": 2 * PIECES, "concurrency_ratio": concurrent / (2 * PIECES - concurrent)}


def workload(settings: Settings) -> Callable[[], None]:
    """Return the step."""
    alone = PIECES - round(settings.overlap * PIECES)
    first, second = torch.cuda.Stream(settings.device), torch.cuda.Stream(settings.device)

    def step() -> None:
        for stream in (first, second):
            stream.wait_stream(torch.cuda.current_stream())
        for piece in range(PIECES):
            if piece == alone:
                second.wait_stream(first)
            with torch.cuda.stream(first):
                torch.cuda._sleep(settings.cycles)
        if alone == PIECES:
            second.wait_stream(first)
        for _ in range(PIECES):
            with torch.cuda.stream(second):
                torch.cuda._sleep(settings.cycles)
        for stream in (first, second):
            torch.cuda.current_stream().wait_stream(stream)

    return step
