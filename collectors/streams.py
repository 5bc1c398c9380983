"""Two streams that overlap for a chosen share of their work, with kernels of one block that each take as long."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

DEVICES = ("cuda",)
PIECES = 10
COLUMNS = 32
"""One block adds up so few columns, row by row: two of its kernels fit on any GPU at once."""


@dataclass(frozen=True)
class Settings:
    """What a run can vary."""

    device: str = "cuda:0"
    overlap: float = 0.5  # of each stream's work, in tenths
    rows: int = 4_000  # that a kernel adds up


def truth(settings: Settings) -> dict[str, float]:
    """Return the kernels of one step, and the share of the busy time in which two run."""
    concurrent = round(settings.overlap * PIECES)
    return {"kernels": 2 * PIECES, "concurrency_ratio": concurrent / (2 * PIECES - concurrent)}


def workload(settings: Settings) -> Callable[[], None]:
    """Return the step."""
    alone = PIECES - round(settings.overlap * PIECES)
    first, second = torch.cuda.Stream(settings.device), torch.cuda.Stream(settings.device)
    numbers = torch.ones(settings.rows, COLUMNS, device=settings.device)
    sums = {stream: torch.empty_like(numbers) for stream in (first, second)}

    def launch(stream: torch.cuda.Stream) -> None:
        with torch.cuda.stream(stream):
            torch.cumsum(numbers, 0, out=sums[stream])

    def step() -> None:
        for stream in (first, second):
            stream.wait_stream(torch.cuda.current_stream())
        for piece in range(PIECES):
            if piece == alone:
                second.wait_stream(first)
            launch(first)
        if alone == PIECES:
            second.wait_stream(first)
        for _ in range(PIECES):
            launch(second)
        for stream in (first, second):
            torch.cuda.current_stream().wait_stream(stream)

    return step
