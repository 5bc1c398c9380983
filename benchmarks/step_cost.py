"""Measure what `r.step()` of `tracelab.record` costs outside of its window, beside a call of an empty function.

    python benchmarks/step_cost.py

Needs torch. Prints the fastest of many batches, and the mean CPU time with the thread that writes the rows.
"""

import time
from collections.abc import Callable
from tempfile import TemporaryDirectory

import torch

import tracelab

BATCHES, BATCH = 200, 1000


def fastest_s(step: Callable[[], None]) -> float:
    """Return the time of a call in the fastest batch."""
    times = []
    for _ in range(BATCHES):
        start = time.perf_counter()
        for _ in range(BATCH):
            step()
        times.append((time.perf_counter() - start) / BATCH)
    return min(times)


def main() -> None:
    layer = torch.nn.Linear(4, 4)
    with TemporaryDirectory() as out, tracelab.record("cost", out=out, active=1) as r:
        for _ in range(8):
            layer(torch.ones(2, 4)).sum().backward()
            r.step()
        spent = time.process_time()
        step_s = fastest_s(r.step)
        time.sleep(0.6)  # rows are written twice a second
        mean_s = (time.process_time() - spent) / BATCHES / BATCH
        empty_s = fastest_s(lambda: None)
    print(f"a step outside of the window: {step_s * 1e9:.0f} ns, {step_s / empty_s:.1f} x a call of an empty function")
    print(f"CPU time with writing the rows: {mean_s * 1e9:.0f} ns")


if __name__ == "__main__":
    main()
